//! Arrays of whole drives, each with a controller, a driver and a link.
//!
//! Verified: every level returns what was written, through a driver in front; after the removal of a drive at any
//! moment the array continues, a spare replaces it, and the rebuilt data is correct when another drive is removed;
//! members whose firmware runs on the host; a bridge's memory over a power cut; invalid configurations are refused.

use crate::fixture::{self, BLOCKS_PER_UNIT, client, hosted, processors};
use byteway_array::{ArrayConfig, Level, NvramConfig};
use byteway_assembly::{ArrayDriveConfig, ArrayLocation, Hosted, Members, assemble};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor};
use byteway_content::{BlockSize, Keep};
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Cycles, FtlConfig, WorkKind};
use byteway_flash::{Geometry, Medium};
use byteway_host::Completion;
use byteway_host::{BaseState, Client, HostCosts, IoBuffer, Oracle};
use byteway_link::Memory;
use byteway_testkit::{ask, drive_config, link_config};
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::RefCell;
use std::rc::Rc;

/// Units of a member.
const MEMBER_UNITS: u64 = 3072;
/// Units used by jobs, on every level.
const UNITS: u64 = 1024;

fn member(number: usize) -> DriveConfig {
    DriveConfig {
        geometry: Geometry { channels: 2, ways: 1, planes: 1, blocks: 40, pages: 16, page_bytes: 16384 },
        namespaces: vec![NamespaceConfig::blocks(MEMBER_UNITS, BlockSize::B512)],
        ftl: FtlConfig { write_buffer_units: 64, plp: true, ..FtlConfig::default() },
        serial: format!("MEMBER{number}"),
        seed: number as u64,
        keep: Keep::Bytes,
        ..drive_config()
    }
}

fn members(clock: &Clock, media: Vec<Option<Medium>>) -> Vec<PoweredDrive> {
    let power_on = |(number, medium)| {
        let bay = DriveBay::new(clock, link_config(), Memory::simulated());
        bay.power_on(member(number), medium).unwrap()
    };
    media.into_iter().enumerate().map(power_on).collect()
}

fn config(level: Level, spares: usize, place: ArrayLocation) -> ArrayDriveConfig {
    let mut drive = member(0);
    drive.namespaces = vec![NamespaceConfig::blocks(UNITS, BlockSize::B512)];
    drive.site.cycles =
        Cycles::FREE.with(WorkKind::Stripe, 300).with(WorkKind::Parity, 400).with(WorkKind::Convert, 500);
    let mut array = ArrayConfig::new(level, 4, [7; 16], Keep::Bytes);
    (array.rebuild.busy_rate, array.rebuild.idle_rate) = (0, 0);
    ArrayDriveConfig {
        drive,
        array,
        place,
        costs: HostCosts {
            submit: Delay::from_ns(200),
            complete: Delay::from_ns(300),
            ..HostCosts::default()
        },
        completion: Completion::Interrupt,
        lanes: 16,
        spares,
        window_blocks: None,
        timeout: Some(Delay::from_ms(5)),
    }
}

fn on_host(executor: &Executor) -> ArrayLocation {
    ArrayLocation::Host { processors: processors(executor), hertz: 1_000_000_000 }
}

type Truth = Rc<RefCell<Oracle>>;

fn truth() -> Truth {
    let oracle = Oracle::new(UNITS * BLOCKS_PER_UNIT, BlockSize::B512, 1, BaseState::Zeroes);
    Rc::new(RefCell::new(oracle.with_power_cuts(true)))
}

async fn work(client: &Client, buffer: &mut IoBuffer, stream: &mut Stream, commands: u32) {
    for _ in 0..commands {
        ask(client, buffer, stream, UNITS * BLOCKS_PER_UNIT).await;
    }
}

async fn look(client: &Client, buffer: &mut IoBuffer) {
    for lba in (0..UNITS * BLOCKS_PER_UNIT).step_by(128) {
        client.read(buffer, lba, 128).await.unwrap();
    }
}

// A level that writes a unit to another's address, or reads it from elsewhere, returns wrong data.
#[test]
fn every_level_holds_what_was_written() {
    for (level, count) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid10, 4)] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, (0..count).map(|_| None).collect());
        let config = config(level, 0, on_host(&executor));
        executor
            .run(async move {
                let whole = assemble(&clock, config, drives, Members::New).await.unwrap().drive;
                let client = client(&whole, &truth()).await;
                let mut buffer = client.buffer().unwrap();
                work(&client, &mut buffer, &mut Rng::new(5).stream("commands"), 1200).await;
                look(&client, &mut buffer).await;
                whole.behind.iter().for_each(|member| member.balance_memory().unwrap());
                assert!(
                    whole.behind.iter().all(|member| member.drive.controller.counters().writes.get() > 0)
                );
            })
            .unwrap();
    }
}

// A drive may be removed at any moment. Its data must come from the others, the spare must replace it, and after the
// rebuild another drive may be removed: then all data comes from what was rebuilt.
#[test]
fn drives_are_pulled_out_under_load_one_after_another() {
    for seed in 0..8 {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, (0..5).map(|_| None).collect());
        let config = config(Level::Raid5, 1, on_host(&executor));
        let mut stream = Rng::new(seed).stream("commands");
        let first = stream.below(4) as usize;
        let second = (first + 1 + stream.below(3) as usize) % 4;
        executor
            .run(async move {
                let whole = assemble(&clock, config, drives, Members::New).await.unwrap().drive;
                let array = whole.drive.controller.backing().array().unwrap().clone();
                let client = client(&whole, &truth()).await;
                let mut buffer = client.buffer().unwrap();
                work(&client, &mut buffer, &mut stream, 300).await;
                let whole = Rc::new(whole);
                let (pulled, when) = (whole.clone(), Delay::from_us(stream.below(3000)));
                let own = clock.clone();
                clock.spawn("pull", async move {
                    own.sleep(when).await;
                    pulled.behind[first].pull_out();
                });
                work(&client, &mut buffer, &mut stream, 300).await;
                look(&client, &mut buffer).await;
                assert!(array.counters().units_reconstructed > 0, "seed {seed}: nothing was missing");
                let end = clock.now() + Delay::from_s(60);
                while array.state().is_degraded() {
                    clock.sleep(Delay::from_ms(10)).await;
                    assert!(clock.now() < end, "seed {seed}: it is not rebuilt: {:?}", array.state());
                }
                whole.behind[second].pull_out();
                look(&client, &mut buffer).await;
                work(&client, &mut buffer, &mut stream, 200).await;
                look(&client, &mut buffer).await;
                assert!(array.state().is_degraded() && !array.state().is_broken);
            })
            .unwrap();
    }
}

// An all-flash array may consist of drives whose firmware runs on the host: two layers of software.
#[test]
fn members_may_have_their_firmware_on_the_host() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let processors = processors(&executor);
    let drives: Vec<PoweredDrive> = (0..3)
        .map(|number| {
            let mut hosted = hosted(2);
            hosted.drive.seed = number;
            hosted.drive.namespaces = vec![NamespaceConfig::blocks(2048, BlockSize::B512)];
            let placed = Hosted::power_on(&clock, hosted, &processors, None).unwrap();
            executor.run(placed.attach()).unwrap().unwrap()
        })
        .collect();
    let config = config(Level::Raid5, 0, ArrayLocation::Host { processors, hertz: 1_000_000_000 });
    executor
        .run(async move {
            let whole = assemble(&clock, config, drives, Members::New).await.unwrap().drive;
            assert_eq!((whole.layers().len(), whole.arrays().len(), whole.links().len()), (3, 6, 6));
            let client = client(&whole, &truth()).await;
            let mut buffer = client.buffer().unwrap();
            work(&client, &mut buffer, &mut Rng::new(6).stream("commands"), 400).await;
            look(&client, &mut buffer).await;
        })
        .unwrap();
}

fn bridge() -> ArrayLocation {
    let nvram = NvramConfig {
        bytes: 256 << 10,
        small_bytes: 4096,
        stream_window: 4096,
        drain_depth: 4,
        is_through: true,
        row_units: 2,
    };
    ArrayLocation::Bridge { link: link_config(), nvram: Some(nvram), cores: 1, hertz: 1_000_000_000 }
}

// A write that a bridge has acknowledged from its memory must survive a power cut at any moment.
#[test]
fn a_bridge_keeps_what_it_has_acknowledged() {
    let (mut media, mut found, truth) = (vec![None, None, None], Members::New, truth());
    for life in 0..6 {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, media);
        let config = config(Level::Raid0, 0, bridge());
        let whole =
            executor.run(async move { assemble(&clock, config, drives, found).await.unwrap() }).unwrap();
        let (client_of, truth_of) = (whole.drive.host.clone(), truth.clone());
        let polls = executor.clock().counters().polls + 20_000 + 7919 * life;
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
        let bridge = whole.bridge.expect("it is one");
        assert!(bridge.counters().writes_taken > 0, "nothing went through its memory");
        let kept = bridge.power_off();
        media = whole.drive.power_off_all().into_iter().map(Some).collect();
        found = Members::Used(kept);
        truth.borrow_mut().cut_power();
    }
}

// An invalid configuration must be an error with a remedy, not an array that loses data.
#[test]
fn what_cannot_be_is_refused() {
    let refused = |level: Level, count: usize, chunk: u32, words: &str| {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let drives = members(&clock, (0..count).map(|_| None).collect());
        let mut config = config(level, 0, on_host(&executor));
        config.array.chunk_units = chunk;
        let error = executor.run(async move { assemble(&clock, config, drives, Members::New).await.err() });
        let error = error.unwrap().unwrap().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(Level::Raid5, 2, 4, "takes 3 to 64");
    refused(Level::Raid10, 5, 4, "5");
    refused(Level::Raid0, 2, 3, "power of two");
}
