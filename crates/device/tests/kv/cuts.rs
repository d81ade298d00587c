//! Power cuts in the middle of anything: acknowledged, durable key-value pairs are complete afterwards, and
//! nothing else appears.

use super::pairs::{KV, offering, with_pairs};
use crate::fixture::drive_config;
use byteway_clock::random::Rng;
use byteway_clock::{Channel, RunOutcome};
use byteway_device::DriveConfig;
use byteway_flash::Medium;
use byteway_host::{
    Driver, DriverConfig, IoError, KvBulk, KvClient, KvConfig, KvOracle, Method, Port, QueueConfig, Rules,
    StoreIf,
};
use byteway_link::HostEnd;
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::kv::BulkLimits;
use std::cell::RefCell;
use std::rc::Rc;

const KEYS: u64 = 40;
const TASKS: u64 = 4;

fn config(plp: bool) -> DriveConfig {
    let mut config = drive_config();
    with_pairs(&mut config);
    config.ftl.plp = plp;
    // Small enough that tables are flushed and merged, and segments collected.
    let policy = config.kv.as_mut().expect("pairs");
    (policy.store.memtable_bytes, policy.store.segment_units) = (4 << 10, 16);
    config
}

fn key(index: u64) -> Key {
    Key::new(&(index * 0x0101_0101).to_be_bytes()[8 - (1 + index % 8) as usize..]).expect("a key")
}

/// A life of the drive: looks at every key, then does operations until the power is cut before poll `polls`.
fn live(
    config: DriveConfig,
    medium: Option<Medium>,
    oracle: &Rc<RefCell<KvOracle>>,
    method: Method,
    (seed, operations): (u64, u64),
    polls: u64,
) -> (Medium, bool) {
    let oracle_too = oracle.clone();
    let life = async move |end: HostEnd| {
        let clock = end.clock().clone();
        let driver = Driver::attach(Port::Link(end), DriverConfig::default()).await.expect("a controller");
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.expect("a queue");
        let config = KvConfig { oracle: Some(oracle_too), ..KvConfig::new(Rules::only(method), 16384) };
        driver.enable_methods(&queue, config.methods()).await.expect("methods");
        let client = KvClient::new(queue, KV, config);
        let mut buffer = client.buffer().expect("a buffer");
        for index in 0..KEYS {
            let looked = client.retrieve(&mut buffer, key(index), 0, 16384).await;
            looked.unwrap_or_else(|error| panic!("{error}"));
        }
        let mut keys = Vec::new();
        assert!(
            client.list(&mut buffer, None, 4096, &mut keys).await.unwrap_or_else(|error| panic!("{error}"))
        );
        let done = Channel::unbounded(&clock);
        for task in 0..TASKS {
            let (client, done) = (client.clone(), done.clone());
            let mut random = Rng::new(seed).stream(&format!("task {task}"));
            clock.spawn("operations", async move {
                let mut buffer = client.buffer().expect("a buffer");
                let limits = BulkLimits { pairs: 5, bytes: 4000 };
                let mut bulk = KvBulk::new(&client, limits, &Rc::default()).expect("a buffer");
                for _ in 0..operations {
                    let key = key(random.below(KEYS));
                    let bytes_max = if random.below(8) == 0 { 12_000 } else { 600 };
                    let bytes = random.below(bytes_max) as u32;
                    let outcome = match random.below(15) {
                        0..=7 => client.store(&mut buffer, key, bytes, StoreIf::Any).await.map(drop),
                        8 => client.delete(key).await.map(drop),
                        9..=10 => client.retrieve(&mut buffer, key, 0, 16384).await.map(drop),
                        11 => client.flush().await.map(drop),
                        _ => bulk.put_pattern(key, bytes % 600).await.map(drop),
                    };
                    match outcome {
                        Err(IoError::Status(status)) if status.is(Status::CAPACITY_EXCEEDED) => {}
                        outcome => outcome.unwrap_or_else(|error| panic!("{error}")),
                    }
                }
                done.send(()).await;
            });
        }
        for _ in 0..TASKS {
            done.receive().await;
        }
    };
    let (ended, medium) = SmallWorld { medium, ..SmallWorld::of(config) }.run_cut(polls, life);
    oracle.borrow_mut().cut_power();
    (medium, matches!(ended, RunOutcome::Ended(())))
}

// Without this a pair that was acknowledged is gone, or one that was deleted is back, after one cut in a thousand.
#[test]
fn cuts_at_many_places_lose_nothing_and_bring_nothing_back() {
    for plp in [false, true] {
        for seed in 0..6 {
            let oracle = Rc::new(RefCell::new(KvOracle::new(1).with_power_cuts(plp)));
            let mut medium = None;
            let mut polls = Rng::new(seed).stream("cuts");
            for life in 0..12 {
                let cut = 2_000 + polls.below(30_000);
                let (left, _) =
                    live(config(plp), medium, &oracle, Method::Prp, (seed * 100 + life, 200), cut);
                medium = Some(left);
            }
            let (_, ended) = live(config(plp), medium, &oracle, Method::Prp, (seed, 50), u64::MAX);
            assert!(ended, "seed {seed}");
            assert!(oracle.borrow().verified() > 500, "seed {seed}");
        }
    }
}

// The same for pairs that were stored without a command: what a record's answer acknowledges is as durable as what a completion
// does.
#[test]
fn cuts_lose_nothing_that_was_stored_by_records() {
    for plp in [false, true] {
        for seed in 0..4 {
            let mut config = config(plp);
            config.transfer =
                offering(Methods::new().with_cxl_mem(true).with_cxl_commit(true)).drive.transfer;
            let oracle = Rc::new(RefCell::new(KvOracle::new(1).with_power_cuts(plp)));
            let mut medium = None;
            let mut polls = Rng::new(seed).stream("cuts");
            for life in 0..8 {
                let (cut, seeds) = (2_000 + polls.below(30_000), (seed * 100 + life, 200));
                let (left, _) = live(config.clone(), medium, &oracle, Method::CxlCommit, seeds, cut);
                medium = Some(left);
            }
            let (_, ended) = live(config, medium, &oracle, Method::CxlCommit, (seed, 50), u64::MAX);
            assert!(ended, "seed {seed}");
            assert!(oracle.borrow().verified() > 300, "seed {seed}: {}", oracle.borrow().verified());
        }
    }
}
