//! A drive with its map, or the decisions of garbage collection, on the host.
//!
//! Verified: data through overwrites and garbage collection, in memory and after a power cut; the processors charged,
//! to the cycle; every byte between the parts of the firmware is in the ledger; the latency, to the picosecond.

use byteway_assembly::{PartialConfig, power_on_partial};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor, Rate, Station};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Cycles, FtlConfig, WorkKind};
use byteway_flash::{Geometry, Medium};
use byteway_host::{BaseState, Client, ClientConfig, Method, Oracle, Port, Rules};
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_link::{Direction, Memory, Purpose};
use byteway_testkit::{drive_config, link_config};
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::RefCell;
use std::rc::Rc;

const UNITS: u64 = 1024;
/// Cycles of a look-up, and of collecting a unit: nanoseconds, at 1 GHz.
const TRANSLATE: u64 = 700;
const COLLECT: u64 = 900;

fn drive(plp: bool) -> DriveConfig {
    let small = drive_config();
    let mut drive = DriveConfig {
        geometry: Geometry { channels: 2, ways: 1, planes: 1, blocks: 20, pages: 16, page_bytes: 16384 },
        namespaces: vec![NamespaceConfig::blocks(UNITS, BlockSize::B4096)],
        ftl: FtlConfig { write_buffer_units: 32, plp, ..FtlConfig::default() },
        ..small
    };
    drive.site.cycles = Cycles::FREE.with(WorkKind::Translate, TRANSLATE).with(WorkKind::Collect, COLLECT);
    drive
}

fn partial(map: bool, collection: bool) -> PartialConfig {
    PartialConfig {
        map,
        collection,
        hertz: 1_000_000_000,
        dram_latency: Delay::from_ns(80),
        dram_rate: Rate::per_second(20_000_000_000),
    }
}

type Truth = Rc<RefCell<Oracle>>;

async fn client(powered: &PoweredDrive, truth: &Truth, queues: usize) -> Vec<Client> {
    let driver = Driver::attach(Port::Link(powered.host.clone()), DriverConfig::default()).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..queues {
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        let oracle = Some(truth.clone());
        let config =
            ClientConfig { rules: Rules::only(Method::Prp), bytes_max: 64 << 10, oracle, verify_bytes: true };
        clients.push(Client::new(queue, driver.namespaces()[0], config).unwrap());
    }
    clients
}

/// Observations of a power-on: work of the host's processors and the drive's cores, bytes in either direction, units
/// collected.
struct Lived {
    processors: Vec<Delay>,
    told: [u64; 2],
    programmed: u64,
    moved: u64,
    medium: Medium,
}

/// Overwrites the drive on one of two queues, reads all of it, and ends with a power cut.
fn live(map: bool, collection: bool, truth: &Truth, medium: Option<Medium>) -> Lived {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let processors: Vec<_> = (0..3).map(|_| Rc::new(Station::new(&clock, 1))).collect();
    let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
    let powered =
        power_on_partial(&clock, bay, drive(true), partial(map, collection), &processors, medium).unwrap();
    let truth = truth.clone();
    let lived = executor
        .run(async move {
            let clients = client(&powered, &truth, 2).await;
            let mut buffer = clients[1].buffer().unwrap();
            for lba in (0..UNITS).step_by(16) {
                clients[1].read(&mut buffer, lba, 16).await.unwrap();
            }
            let mut stream = Rng::new(3).stream("lbas");
            for _ in 0..4 * UNITS {
                clients[1].write(&mut buffer, stream.below(UNITS), 1).await.unwrap();
            }
            for lba in (0..UNITS).step_by(16) {
                clients[1].read(&mut buffer, lba, 16).await.unwrap();
            }
            powered.balance_memory().unwrap();
            let counters = powered.drive.controller.ftl().counters();
            let ledger = powered.host.ledger();
            let told = Direction::ALL.map(|direction| ledger.entry(Purpose::Firmware, direction).payload);
            (
                processors.iter().map(|processor| processor.busy()).collect::<Vec<_>>(),
                told,
                counters.units_programmed(),
                counters.units_programmed_collector,
                powered.power_off(),
            )
        })
        .unwrap();
    let (processors, told, programmed, moved, medium) = lived;
    Lived { processors, told, programmed, moved, medium }
}

fn truth() -> Truth {
    let oracle = Oracle::new(UNITS, BlockSize::B4096, 1, BaseState::Zeroes);
    Rc::new(RefCell::new(oracle.with_power_cuts(true)))
}

// The location of map and garbage collection must not change what is read, even after a power loss of the host.
#[test]
fn data_is_right_wherever_map_and_collector_are() {
    for (map, collection) in [(true, false), (false, true), (true, true)] {
        let truth = truth();
        let first = live(map, collection, &truth, None);
        assert!(first.moved > 0, "nothing was collected");
        truth.borrow_mut().cut_power();
        live(map, collection, &truth, Some(first.medium));
    }
}

// Work on the host must be charged to the host, and its messages must cross the link: otherwise a map there would be
// free.
#[test]
fn the_host_pays_and_every_message_crosses() {
    let (own, map, collection) = (
        live(false, false, &truth(), None),
        live(true, false, &truth(), None),
        live(false, true, &truth(), None),
    );
    assert_eq!(own.told, [0, 0]);
    assert!(own.processors.iter().all(|busy| *busy == Delay::ZERO));
    // 4,096 writes and twice 1,024 units read, on the second processor: the queue's.
    let look_ups = 4 * UNITS + 2 * UNITS;
    assert_eq!(map.processors[1], Delay::from_ns(look_ups * TRANSLATE));
    assert_eq!(map.processors[0], Delay::ZERO);
    // Every unit is reported once, in 16 bytes, when it is programmed, or read to be moved: at the end some are
    // between.
    let [down, up] = map.told;
    assert_eq!(down, 0);
    assert!(
        up % 16 == 0 && (up / 16).abs_diff(map.programmed) <= 64,
        "{up} bytes for {} units",
        map.programmed
    );
    // Garbage collection asks the home processor, round by round.
    let [down, up] = collection.told;
    assert!(down > 0 && down / 64 == up / 16, "{down} bytes of decisions, {up} of questions");
    let home = collection.processors[2];
    assert!(home >= Delay::from_ns(collection.moved * COLLECT), "{home} for {} units", collection.moved);
    assert_eq!(collection.processors[..2], [Delay::ZERO; 2]);
}

// An invalid configuration must be an error, not a drive without a map.
#[test]
fn what_cannot_be_is_refused() {
    let executor = Executor::new();
    let refused = |config: DriveConfig, processors: &[Rc<Station>], words: &str| {
        let bay = DriveBay::new(executor.clock(), link_config(), Memory::simulated());
        let powered = power_on_partial(executor.clock(), bay, config, partial(true, false), processors, None);
        let error = powered.err().unwrap();
        assert!(error.message.contains(words), "{error}");
    };
    refused(drive(false), &[], "no processor");
    let mut cached = drive(false);
    cached.ftl.map_cache_pages = Some(8);
    refused(cached, &[Rc::new(Station::new(executor.clock(), 1))], "no map_cache");
}
