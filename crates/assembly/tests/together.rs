//! Synchronized garbage collection of array members.
//!
//! Verified: when one member has to start, all collect, and without synchronization each collects alone; a member that
//! is removed, or has no windows, delays nothing; power cuts at many moments lose nothing.

use crate::fixture::{self, BLOCKS_PER_UNIT, client, processors};
use byteway_array::{ArrayConfig, Level, NvramConfig};
use byteway_assembly::{ArrayDriveConfig, ArrayLocation, Members, assemble};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor};
use byteway_content::{BlockSize, Keep};
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Cycles, FtlConfig, FtlCounters, WorkKind};
use byteway_flash::{Geometry, Medium};
use byteway_host::Completion;
use byteway_host::{BaseState, Client, HostCosts, IoBuffer, Oracle};
use byteway_link::Memory;
use byteway_testkit::{ask, drive_config, link_config};
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::RefCell;
use std::rc::Rc;

/// Units of the whole array.
const UNITS: u64 = 1536;

fn member(number: usize, has_windows: bool) -> DriveConfig {
    let mut drive = DriveConfig {
        geometry: Geometry { channels: 2, ways: 1, planes: 1, blocks: 30, pages: 8, page_bytes: 16384 },
        namespaces: vec![NamespaceConfig::blocks(1200, BlockSize::B512)],
        ftl: FtlConfig { write_buffer_units: 64, ..FtlConfig::default() },
        serial: format!("MEMBER{number}"),
        seed: number as u64,
        keep: Keep::Bytes,
        ..drive_config()
    };
    drive.controller.collection_windows = has_windows;
    drive
}

fn members(
    clock: &Clock,
    media: Vec<Option<Medium>>,
    has_windows: impl Fn(usize) -> bool,
) -> Vec<PoweredDrive> {
    let power_on = |(number, medium)| {
        let bay = DriveBay::new(clock, link_config(), Memory::simulated());
        bay.power_on(member(number, has_windows(number)), medium).unwrap()
    };
    media.into_iter().enumerate().map(power_on).collect()
}

fn config(level: Level, place: ArrayLocation, window_blocks: Option<u16>) -> ArrayDriveConfig {
    let mut drive = member(0, false);
    drive.namespaces = vec![NamespaceConfig::blocks(UNITS, BlockSize::B512)];
    drive.site.cycles = Cycles::FREE.with(WorkKind::Convert, 500);
    let mut array = ArrayConfig::new(level, 4, [7; 16], Keep::Bytes);
    (array.rebuild.busy_rate, array.rebuild.idle_rate) = (0, 0);
    ArrayDriveConfig {
        drive,
        array,
        place,
        costs: HostCosts::default(),
        completion: Completion::Interrupt,
        lanes: 16,
        spares: 0,
        window_blocks,
        timeout: Some(Delay::from_ms(5)),
    }
}

fn bridge() -> ArrayLocation {
    let nvram = NvramConfig {
        bytes: 64 << 10,
        small_bytes: 4096,
        stream_window: 4096,
        drain_depth: 4,
        is_through: false,
        row_units: 1,
    };
    ArrayLocation::Bridge { link: link_config(), nvram: Some(nvram), cores: 1, hertz: 1_000_000_000 }
}

type Truth = Rc<RefCell<Oracle>>;

/// Power cuts may lose acknowledged data that was not flushed: the drives have no capacitors.
fn truth() -> Truth {
    let oracle = Oracle::new(UNITS * BLOCKS_PER_UNIT, BlockSize::B512, 1, BaseState::Zeroes);
    Rc::new(RefCell::new(oracle.with_power_cuts(false)))
}

async fn look(client: &Client, buffer: &mut IoBuffer) {
    for lba in (0..UNITS * BLOCKS_PER_UNIT).step_by(128) {
        client.read(buffer, lba, 128).await.unwrap();
    }
}

async fn work(client: &Client, buffer: &mut IoBuffer, stream: &mut Stream, commands: u32) {
    for _ in 0..commands {
        ask(client, buffer, stream, UNITS * BLOCKS_PER_UNIT).await;
    }
}

fn counters(whole: &PoweredDrive) -> Vec<FtlCounters> {
    whole.layers().iter().map(|ftl| ftl.counters()).collect()
}

// Without synchronization each member collects at a moment of its own, and a striped request nearly always waits for
// one of them; a member that was not asked must not collect.
#[test]
fn all_collect_when_one_has_to() {
    for window_blocks in [None, Some(2)] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, vec![None, None, None], |_| true);
        let config = config(Level::Raid0, bridge(), window_blocks);
        executor
            .run(async move {
                let whole = assemble(&clock, config, drives, Members::New).await.unwrap().drive;
                let client = client(&whole, &truth()).await;
                let mut buffer = client.buffer().unwrap();
                work(&client, &mut buffer, &mut Rng::new(5).stream("commands"), 3000).await;
                let all = counters(&whole);
                let windows: Vec<u64> = all.iter().map(|one| one.collection_windows).collect();
                if window_blocks.is_none() {
                    assert_eq!(windows, [0, 0, 0]);
                    assert!(all.iter().all(|one| one.blocks_collected > 0), "nothing was collected");
                } else {
                    assert!(windows.iter().all(|count| *count > 2), "{windows:?}");
                    let ahead = all.iter().all(|one| one.blocks_collected_window > one.blocks_collected);
                    assert!(ahead, "most is collected in windows: {all:?}");
                }
                look(&client, &mut buffer).await;
                whole.behind.iter().for_each(|member| member.balance_memory().unwrap());
            })
            .unwrap();
    }
}

// A member that is gone, or can't be asked, must delay neither windows nor writes.
#[test]
fn who_does_not_answer_holds_nothing_up() {
    for seed in 0..4 {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        // The last one has no windows; one of the others is removed.
        let drives = members(&clock, (0..4).map(|_| None).collect(), |number| number < 3);
        let place = ArrayLocation::Host { processors: processors(&executor), hertz: 1_000_000_000 };
        let config = config(Level::Raid5, place, Some(2));
        let mut stream = Rng::new(seed).stream("commands");
        let gone = stream.below(3) as usize;
        executor
            .run(async move {
                let whole = Rc::new(assemble(&clock, config, drives, Members::New).await.unwrap().drive);
                let client = client(&whole, &truth()).await;
                let mut buffer = client.buffer().unwrap();
                let (pulled, own) = (whole.clone(), clock.clone());
                let when = Delay::from_ms(100 + stream.below(200));
                clock.spawn("pull", async move {
                    own.sleep(when).await;
                    pulled.behind[gone].pull_out();
                });
                work(&client, &mut buffer, &mut stream, 2500).await;
                let before = counters(&whole);
                work(&client, &mut buffer, &mut stream, 1500).await;
                look(&client, &mut buffer).await;
                assert!(whole.drive.controller.backing().array().unwrap().state().is_degraded());
                let after = counters(&whole);
                for number in (0..3).filter(|number| *number != gone) {
                    let windows = [&before, &after].map(|all| all[number].collection_windows);
                    assert!(windows[1] > windows[0], "seed {seed}, member {number}: {windows:?}");
                }
                assert_eq!(after[3].collection_windows, 0);
            })
            .unwrap();
    }
}

// A power cut may come during a window, or during the commands that open it: nothing acknowledged may be lost, and
// windows must work after the next power-on.
#[test]
fn power_cuts_lose_nothing_and_windows_come_again() {
    let (mut media, mut found, truth) = (vec![None, None, None], Members::New, truth());
    let mut windows = 0;
    for life in 0..8 {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, media, |_| true);
        let config = config(Level::Raid0, bridge(), Some(2));
        let whole =
            executor.run(async move { assemble(&clock, config, drives, found).await.unwrap() }).unwrap();
        let (client_of, truth_of) = (whole.drive.host.clone(), truth.clone());
        let polls = executor.clock().counters().polls + 400_000 + 7919 * life;
        let ran = executor.run_cut(
            async move {
                let client = fixture::client_at(client_of, &truth_of).await;
                let mut buffer = client.buffer().unwrap();
                look(&client, &mut buffer).await;
                let mut stream = Rng::new(life).stream("commands");
                loop {
                    ask(&client, &mut buffer, &mut stream, UNITS * BLOCKS_PER_UNIT).await;
                }
            },
            polls,
        );
        assert!(matches!(ran, Ok(byteway_clock::RunOutcome::<()>::Cut)));
        let own: u64 = counters(&whole.drive).iter().map(|one| one.collection_windows).sum();
        windows += u64::from(own > 0);
        let kept = whole.bridge.expect("it is one").power_off();
        media = whole.drive.power_off_all().into_iter().map(Some).collect();
        found = Members::Used(kept);
        truth.borrow_mut().cut_power();
    }
    assert!(windows >= 6, "{windows} of 8 lives had windows");
}
