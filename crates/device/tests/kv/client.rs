//! The host's client and its oracle against a drive: every value by every method, several at once, verified.

use super::pairs::{KV, KV_UNITS, VALUE_BYTES_MAX, with_pairs};
use crate::fixture::drive_config;
use crate::fixture::payload::PAYLOAD_BYTES_MAX;
use byteway_clock::random::Rng;
use byteway_clock::{Channel, Delay};
use byteway_device::{DriveConfig, MemoryConfig, TransferConfig};
use byteway_host::{
    Driver, DriverConfig, IoError, KvBatch, KvClient, KvConfig, KvError, KvIoError, KvOracle, Method,
    QueueConfig, QueuePair, Rules, StoreIf,
};
use byteway_kv::Kv;
use byteway_link::{CxlConfig, Flit};
use byteway_testkit::SmallWorld;
use byteway_transfer::result::ResultMethod;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::kv::Key;
use byteway_wire::nvme::vendor::Methods;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const OFFERED: Methods = Methods::from_bits(0x3ff);

pub(super) fn config() -> DriveConfig {
    let mut config = drive_config();
    with_pairs(&mut config);
    config.controller.sgl = true;
    config.transfer = TransferConfig {
        methods: OFFERED,
        inline_bytes_max: PAYLOAD_BYTES_MAX,
        reassembly_bytes_max: PAYLOAD_BYTES_MAX,
        piggyback_bytes_max: PAYLOAD_BYTES_MAX,
        inline_result_bytes_max: 140,
        partial_payloads_max: 8,
        partial_timeout: Delay::from_ms(5),
        bar_bytes: 64 << 10,
        memory: Some(MemoryConfig {
            link: CxlConfig { flit: Flit::Bytes68, memory_latency: Delay::from_ns(80) },
            area_bytes: 256 << 10,
            records: 16,
            poll: Delay::from_ns(700),
        }),
        sink_bytes: 0,
        chunk_store: Delay::from_ns(20),
    };
    config
}

pub(super) fn run<T: 'static>(test: impl AsyncFnOnce(Driver) -> T + 'static) -> T {
    run_with(config(), async |driver, _| test(driver).await)
}

/// The same on a drive of another make, whose store of pairs is seen from behind.
pub(super) fn run_with<T: 'static>(
    config: DriveConfig,
    test: impl AsyncFnOnce(Driver, Kv) -> T + 'static,
) -> T {
    SmallWorld::of(config).run_driven(DriverConfig::default(), async |driver, powered| {
        let pairs = powered.drive.controller.pairs(KV).expect("pairs");
        test(driver, pairs).await
    })
}

pub(super) async fn queue(driver: &Driver) -> QueuePair {
    let queue = driver.create_queue_pair(QueueConfig::new(256)).await.expect("a queue");
    assert_eq!(
        driver.enable_methods(&queue, OFFERED.with_rounded_results(false)).await,
        Ok(OFFERED.with_rounded_results(false))
    );
    queue
}

pub(super) fn oracle() -> Rc<RefCell<KvOracle>> {
    Rc::new(RefCell::new(KvOracle::new(7)))
}

pub(super) fn client(queue: &QueuePair, method: Method, oracle: &Rc<RefCell<KvOracle>>) -> KvClient {
    let rules = Rules { threshold_bytes: 128, ..Rules::only(method) };
    let results = if method == Method::Inline { ResultMethod::Inline } else { ResultMethod::Pointer };
    let config = KvConfig { results, oracle: Some(oracle.clone()), ..KvConfig::new(rules, VALUE_BYTES_MAX) };
    KvClient::new(queue.clone(), KV, config)
}

pub(super) fn key(index: u64) -> Key {
    let bytes = index.to_be_bytes();
    // Keys of all lengths, none of which begins another.
    let text = [&[b'a' + (index % 16) as u8][..], &bytes, &bytes].concat();
    Key::new(&text[..1 + 8 + (index % 8) as usize]).expect("a key")
}

// A driver that never looks for them doesn't know the namespace; one that takes it for blocks destroys it.
#[test]
fn the_driver_finds_both_kinds() {
    run(async |driver| {
        let blocks: Vec<u32> = driver.namespaces().iter().map(|namespace| namespace.nsid).collect();
        assert_eq!(blocks, [1, 2]);
        let [pairs] = driver.kv_namespaces()[..] else { panic!("one KV namespace") };
        assert_eq!((pairs.nsid, pairs.bytes), (KV, KV_UNITS * 4096));
        assert_eq!((pairs.key_bytes_max, pairs.value_bytes_max), (16, VALUE_BYTES_MAX));
        driver.reset().await.expect("a reset");
        driver.refresh().await.expect("an identification");
        assert_eq!(driver.kv_namespaces().len(), 1);
    });
}

// Without this a method loses, cuts or misplaces values of some length, and no user learns that it took another way.
#[test]
fn every_method_carries_every_length() {
    run(async |driver| {
        for method in Method::ALL {
            let (queue, oracle) = (queue(&driver).await, oracle());
            let client = client(&queue, method, &oracle);
            let mut buffer = client.buffer().expect("a buffer");
            let lengths = [
                0, 1, 35, 36, 64, 65, 91, 92, 128, 129, 140, 141, 1000, 4095, 4096, 4097, 5000, 8192, 30_000,
            ];
            for (index, bytes) in (0..).zip(lengths) {
                let what = format!("{bytes} bytes by {}", method.name());
                let stored = client.store(&mut buffer, key(index), bytes, StoreIf::Any).await;
                stored.unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = client.retrieve(&mut buffer, key(index), 0, VALUE_BYTES_MAX).await;
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!((found.found, found.value_bytes), (true, bytes), "{what}");
                let part = client.retrieve(&mut buffer, key(index), bytes / 3, 100).await;
                assert_eq!(part.unwrap_or_else(|error| panic!("{what}: {error}")).value_bytes, bytes);
            }
            let counts = client.counts();
            let carried = counts.of(match method {
                Method::Adaptive => Method::Inline,
                Method::PiggybackCxl => Method::CxlMem,
                method => method,
            });
            assert!(carried >= 3, "{}: {counts:?}", method.name());
            if method == Method::Inline {
                assert!(counts.inline_results >= 10, "{counts:?}");
            }
            let mut keys = Vec::new();
            assert!(client.list(&mut buffer, None, 4096, &mut keys).await.expect("a list"));
            assert_eq!(keys.len(), lengths.len());
            for index in 0..lengths.len() as u64 {
                assert!(client.exist(key(index)).await.expect("an answer").found);
                assert!(client.delete(key(index)).await.expect("an answer").found);
                assert!(!client.delete(key(index)).await.expect("an answer").found);
                assert!(!client.exist(key(index)).await.expect("an answer").found);
                assert!(!client.retrieve(&mut buffer, key(index), 0, 64).await.expect("an answer").found);
            }
            client.flush().await.expect("a flush");
            assert_eq!(oracle.borrow().unsettled_keys(), 0);
            driver.delete_queue_pair(&queue).await.expect("a queue");
        }
    });
}

// A conditional store that goes by a head that has no free space for conditions would be carried out whatever there is.
#[test]
fn conditions_hold_by_every_method() {
    run(async |driver| {
        for method in Method::ALL {
            let (queue, oracle) = (queue(&driver).await, oracle());
            let client = client(&queue, method, &oracle);
            let mut buffer = client.buffer().expect("a buffer");
            let status = |stored: Result<_, KvIoError>| match stored {
                Ok(_) => Status::SUCCESS,
                Err(IoError::Status(status)) => status.without_flags(),
                Err(error) => panic!("{error}"),
            };
            let mut expected = Vec::new();
            for (when, then) in [
                (StoreIf::Exists, Status::KEY_DOES_NOT_EXIST),
                (StoreIf::Absent, Status::SUCCESS),
                (StoreIf::Absent, Status::KEY_EXISTS),
                (StoreIf::Exists, Status::SUCCESS),
            ] {
                expected.push(then);
                let stored = status(client.store(&mut buffer, key(1), 30, when).await);
                assert_eq!(stored, then, "{} {when:?}", method.name());
            }
            assert!(client.retrieve(&mut buffer, key(1), 0, 64).await.expect("a value").found);
            assert!(client.delete(key(1)).await.expect("an answer").found);
            driver.delete_queue_pair(&queue).await.expect("a queue");
        }
    });
}

// Operations of several tasks and queues on few keys at once: what each finds must be one of the things that may be there.
#[test]
fn many_tasks_on_few_keys_are_verified() {
    run(async |driver| {
        let oracle = oracle();
        let done = Channel::unbounded(driver.clock());
        let queues = [queue(&driver).await, queue(&driver).await];
        let methods =
            [Method::Prp, Method::Inline, Method::Piggyback, Method::PiggybackPipelined, Method::Hybrid];
        for task in 0..10_u64 {
            let method = methods[task as usize % methods.len()];
            let client = client(&queues[task as usize % 2], method, &oracle);
            let (done, mut random) = (done.clone(), Rng::new(3).stream(&format!("task {task}")));
            driver.clock().spawn("operations", async move {
                let mut buffer = client.buffer().expect("a buffer");
                let mut keys = Vec::new();
                for _ in 0..150 {
                    let key = key(random.below(12));
                    let bytes_max = if random.below(4) == 0 { 9000 } else { 150 };
                    let bytes = random.below(bytes_max) as u32;
                    let outcome = match random.below(10) {
                        0..=3 => client.store(&mut buffer, key, bytes, StoreIf::Any).await.map(drop),
                        4 => match client.store(&mut buffer, key, bytes, StoreIf::Absent).await {
                            Err(IoError::Status(status)) if status.is(Status::KEY_EXISTS) => Ok(()),
                            stored => stored.map(drop),
                        },
                        5..=6 => client.retrieve(&mut buffer, key, 0, 9000).await.map(drop),
                        7 => client.delete(key).await.map(drop),
                        8 => client.exist(key).await.map(drop),
                        _ => {
                            keys.clear();
                            client.list(&mut buffer, Some(key), 256, &mut keys).await.map(drop)
                        }
                    };
                    outcome.unwrap_or_else(|error| panic!("{error}"));
                }
                done.send(()).await;
            });
        }
        for _ in 0..10 {
            done.receive().await;
        }
        assert!(oracle.borrow().verified() > 500);
        // An aside: what it knows now is what a last look finds.
        let client = client(&queues[0], Method::Prp, &oracle);
        let mut buffer = client.buffer().expect("a buffer");
        for index in 0..12 {
            client.retrieve(&mut buffer, key(index), 0, 9000).await.expect("an answer");
        }
        assert_eq!(oracle.borrow().unsettled_keys(), 0);
    });
}

// A batch that comes back before its stores are done, or loses one, tells its caller that what is not stored is.
#[test]
fn a_batch_stores_all() {
    run(async |driver| {
        let (queue, oracle) = (queue(&driver).await, oracle());
        let client = client(&queue, Method::Adaptive, &oracle);
        let (ended, failed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (ended_too, failed_too) = (ended.clone(), failed.clone());
        let batch = KvBatch::new(&client, 16, move |_, stored| {
            ended_too.set(ended_too.get() + 1);
            failed_too.set(failed_too.get() + u32::from(stored.is_err()));
        });
        let batch = batch.expect("buffers");
        let begin = driver.clock().now();
        for index in 0..500 {
            batch.store_pattern(key(index), 20 + index as u32 % 300).await.expect("a store");
        }
        batch.settle().await;
        let together = driver.clock().now().since(begin);
        assert_eq!((ended.get(), failed.get()), (500, 0));
        let too_long = batch.store_pattern(key(1), VALUE_BYTES_MAX + 1).await;
        assert!(too_long.is_err());
        let mut buffer = client.buffer().expect("a buffer");
        let begin = driver.clock().now();
        for index in 500..1000 {
            client
                .store(&mut buffer, key(index), 20 + index as u32 % 300, StoreIf::Any)
                .await
                .expect("a store");
        }
        let apart = driver.clock().now().since(begin);
        assert!(together.0 * 3 < apart.0, "{together} with 16 at once, {apart} one by one");
        for index in 0..1000 {
            assert!(client.retrieve(&mut buffer, key(index), 0, 400).await.expect("a value").found);
        }
        batch.store(key(3), b"as it is").await.expect("a store");
        batch.settle().await;
        assert_eq!(oracle.borrow().unsettled_keys(), 0);
    });
}

// A cursor whose pairs are not looked at could show anything.
#[test]
fn cursors_are_verified() {
    run(async |driver| {
        let (queue, oracle) = (queue(&driver).await, oracle());
        let client = client(&queue, Method::Prp, &oracle);
        let mut buffer = client.buffer().expect("a buffer");
        for index in 0..100 {
            client
                .store(&mut buffer, key(index), 10 + index as u32 * 3, StoreIf::Any)
                .await
                .expect("a store");
        }
        for first in [None, Some(key(7))] {
            let mut cursor = client.seek(first).await.expect("a cursor");
            for index in 0..100 {
                client.store(&mut buffer, key(index), 1, StoreIf::Any).await.expect("a store");
            }
            client.delete(key(50)).await.expect("an answer");
            let mut shown = 0;
            let small = cursor.next(&mut buffer, 8, |_, _| panic!("nothing fits")).await;
            assert!(
                matches!(small, Err(IoError::Client(KvError::TooSmall { bytes })) if bytes > 8),
                "{small:?}"
            );
            while cursor.next(&mut buffer, 2000, |_, _| shown += 1).await.expect("pairs") {}
            assert!(if first.is_none() { shown >= 99 } else { (1..99).contains(&shown) }, "{shown}");
            cursor.close().await.expect("it was there");
        }
        assert_eq!(oracle.borrow().unsettled_keys(), 0);
    });
}
