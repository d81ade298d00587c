//! The host's client storing pairs by records: alone, many at once, next to other ways, given up half-way, through resets.
//!
//! Verified: every value is what was stored last, by the oracle; what no record can carry goes another way; no store that ends
//! early holds up others; a drive that does not answer is reset.

use super::client::{self, client, key, oracle, run_with};
use super::pairs::{KV, VALUE_BYTES_MAX};
use byteway_clock::random::Rng;
use byteway_clock::{Channel, Delay};
use byteway_host::{
    Driver, DriverConfig, IoError, KvBatch, KvClient, KvConfig, Lost, Method, Rules, StoreIf,
};
use byteway_testkit::SmallWorld;
use byteway_transfer::Ordering;
use std::cell::Cell;
use std::rc::Rc;

/// A client that streams values and records past the cache.
pub(super) async fn streaming(driver: &Driver) -> KvClient {
    let rules = Rules { ordering: Ordering::Checksum, ..Rules::only(Method::CxlCommit) };
    let config = KvConfig { oracle: Some(oracle()), ..KvConfig::new(rules, VALUE_BYTES_MAX) };
    KvClient::new(client::queue(driver).await, KV, config)
}

// A host that waits for each, one that has many in flight, and one that has more than the ring holds: each value must be the
// one that was stored last.
#[test]
fn clients_store_one_by_one_and_many_at_once() {
    for ordering in [Ordering::Flushed, Ordering::ReadBack, Ordering::Checksum] {
        run_with(client::config(), async move |driver, pairs| {
            let oracle = oracle();
            let rules = Rules { ordering, ..Rules::only(Method::CxlCommit) };
            let config = KvConfig { oracle: Some(oracle.clone()), ..KvConfig::new(rules, VALUE_BYTES_MAX) };
            let one = KvClient::new(client::queue(&driver).await, KV, config.clone());
            let two = KvClient::new(client::queue(&driver).await, KV, config);
            let mut buffer = one.buffer().expect("a buffer");
            for (index, bytes) in (0..).zip([1, 63, 64, 65, 4096, 16384, 16385, 40_000, 0]) {
                let stored = one.store(&mut buffer, key(index), bytes, StoreIf::Any).await;
                stored.unwrap_or_else(|error| panic!("{ordering:?}, {bytes}: {error}"));
            }
            let counts = one.counts();
            // A value longer than a page goes by the usual method, and its bytes are accounted for.
            assert_eq!(
                (counts.of(Method::CxlCommit), counts.of(Method::Prp), counts.fallbacks),
                (6, 3, 2),
                "{ordering:?}"
            );
            let failed = Rc::new(Cell::new(0));
            for (which, client) in [&one, &two].into_iter().enumerate() {
                let failed = failed.clone();
                let batch = KvBatch::new(client, 40, move |_, stored| {
                    failed.set(failed.get() + u32::from(stored.is_err()));
                });
                let batch = batch.expect("a free record");
                for index in 0..400u64 {
                    let name = key(index * 2 + which as u64);
                    batch.store_pattern(name, 1 + (index * 97 % 700) as u32).await.expect("a store");
                }
                batch.settle().await;
            }
            assert_eq!(failed.get(), 0);
            assert_eq!(
                (one.counts().of(Method::CxlCommit), two.counts().of(Method::CxlCommit)),
                (406, 400),
                "{ordering:?}"
            );
            pairs.check().await.expect("sound");
            for index in 0..800 {
                let found = one.retrieve(&mut buffer, key(index), 0, VALUE_BYTES_MAX).await;
                assert!(found.expect("a value").found, "{index}");
            }
        });
    }
}

// Stores by records, by commands and by data pointer, from many queues, to one page buffer.
#[test]
fn records_go_beside_commands() {
    for seed in 0..3 {
        run_with(client::config(), async move |driver, pairs| {
            let oracle = oracle();
            let ended: Channel<()> = Channel::bounded(driver.clock(), 6 * 20);
            let ways =
                [Method::CxlCommit, Method::CxlMem, Method::Prp, Method::CxlCommit, Method::PiggybackCxl];
            let mut clients = Vec::new();
            for which in 0..6usize {
                clients.push(client(&client::queue(&driver).await, ways[which % ways.len()], &oracle));
            }
            for (which, one) in clients.iter().enumerate() {
                for slot in 0..20u64 {
                    let (one, ended) = (one.clone(), ended.clone());
                    let worker = which as u64 * 20 + slot;
                    driver.clock().spawn("stores", async move {
                        let mut stream = Rng::new(seed).stream(&format!("worker {worker}"));
                        let mut buffer = one.buffer().expect("a buffer");
                        for turn in 0..6 {
                            let bytes = 1 + stream.below([300, 300, 4096, 20_000][turn as usize % 4]) as u32;
                            let name = key(worker * 2 + turn % 2);
                            let stored = one.store(&mut buffer, name, bytes, StoreIf::Any).await;
                            stored.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                        }
                        ended.send(()).await;
                    });
                }
            }
            for _ in 0..6 * 20 {
                ended.receive().await;
            }
            pairs.check().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let carried: u64 = clients.iter().map(|client| client.counts().of(Method::CxlCommit)).sum();
            assert!(carried > 200, "seed {seed}: {carried}");
            let mut buffer = clients[0].buffer().expect("a buffer");
            for index in 0..6 * 20 * 2 {
                let found = clients[0].retrieve(&mut buffer, key(index), 0, VALUE_BYTES_MAX).await;
                found.unwrap_or_else(|error| panic!("seed {seed}, key {index}: {error}"));
            }
        });
    }
}

// A store that is given up half-way leaves a number behind that no record has: the drive would wait for it indefinitely, and so
// would every store behind it.
#[test]
fn a_store_that_is_given_up_leaves_no_hole() {
    for ordering in [Ordering::Flushed, Ordering::Checksum] {
        for step in 0..30 {
            run_with(client::config(), async move |driver, _| {
                let rules = Rules { ordering, ..Rules::only(Method::CxlCommit) };
                let oracle = oracle();
                let config = KvConfig { oracle: Some(oracle), ..KvConfig::new(rules, VALUE_BYTES_MAX) };
                let client = KvClient::new(client::queue(&driver).await, KV, config);
                let mut buffer = client.buffer().expect("a buffer");
                client.store(&mut buffer, key(0), 100, StoreIf::Any).await.expect("a store");
                let given_up = client.clone();
                let task = driver.clock().spawn("given up", async move {
                    let mut buffer = given_up.buffer().expect("a buffer");
                    let _ = given_up.store(&mut buffer, key(1), 100, StoreIf::Any).await;
                });
                driver.clock().sleep(Delay::from_ns(step * 100)).await;
                driver.clock().kill(task);
                for index in 2..40 {
                    client.store(&mut buffer, key(index), 100, StoreIf::Any).await.expect("a store");
                }
                assert!(client.counts().of(Method::CxlCommit) >= 39, "{ordering:?}, step {step}");
                for index in 0..40 {
                    client.retrieve(&mut buffer, key(index), 0, 1000).await.expect("a value");
                }
            });
        }
    }
}

// A reset forgets records: waiting tasks must learn that, and the next ones must be numbered again. A store that was lost may
// have been carried out; the oracle knows.
#[test]
fn stores_go_on_after_resets() {
    for seed in 0..4u64 {
        run_with(client::config(), async move |driver, _| {
            let oracle = oracle();
            let ended: Channel<u64> = Channel::bounded(driver.clock(), 32);
            let one = client(&client::queue(&driver).await, Method::CxlCommit, &oracle);
            for worker in 0..32u64 {
                let (one, ended) = (one.clone(), ended.clone());
                driver.clock().spawn("stores", async move {
                    let mut stream = Rng::new(seed).stream(&format!("worker {worker}"));
                    let mut buffer = one.buffer().expect("a buffer");
                    let mut lost = 0;
                    for _ in 0..40 {
                        let (name, bytes) = (key(stream.below(50)), 1 + stream.below(900) as u32);
                        match one.store(&mut buffer, name, bytes, StoreIf::Any).await {
                            Ok(_) => {}
                            Err(IoError::Lost(_)) => lost += 1,
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                    ended.send(lost).await;
                });
            }
            let mut stream = Rng::new(seed).stream("resets");
            for _ in 0..5 {
                driver.clock().sleep(Delay::from_us(3 + stream.below(40))).await;
                driver.reset().await.expect("a reset");
            }
            let mut lost = 0;
            for _ in 0..32 {
                lost += ended.receive().await;
            }
            assert!(lost > 0, "seed {seed}: the resets come too late");
            assert!(one.counts().of(Method::CxlCommit) > 1000, "seed {seed}: {:?}", one.counts());
            let mut buffer = one.buffer().expect("a buffer");
            for index in 0..50 {
                let found = one.retrieve(&mut buffer, key(index), 0, 1000).await;
                found.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        });
    }
}

// No command can abort a record. Of a drive that does not answer, a driver that has time limits must learn that nothing but a reset
// helps, and not look indefinitely.
#[test]
fn a_record_that_is_not_answered_is_ended_by_a_reset() {
    let mut drive = client::config();
    drive.transfer.memory.as_mut().expect("memory").poll = Delay::from_s(1);
    let timeout = Some(Delay::from_ms(10));
    let config = DriverConfig { timeout, timeout_period: Delay::from_ms(1), ..DriverConfig::default() };
    SmallWorld::of(drive).run_driven(config, async |driver, _| {
        let clock = driver.clock().clone();
        let client = streaming(&driver).await;
        let mut buffer = client.buffer().expect("a buffer");
        let (begin, polls) = (clock.now(), clock.counters().polls);
        let stored = client.store(&mut buffer, key(1), 64, StoreIf::Any).await;
        assert!(matches!(stored, Err(IoError::Lost(Lost::Reset))), "{stored:?}");
        assert!(clock.now().since(begin) < Delay::from_ms(20));
        let polls = clock.counters().polls - polls;
        assert!(polls < 2000, "{polls} polls: it looks without a pause");
        clock.sleep(Delay::from_ms(2)).await;
        assert_eq!(driver.resets(), 1);
        let retrieved = client.retrieve(&mut buffer, key(1), 0, 64).await;
        retrieved.expect("commands go on");
    });
}
