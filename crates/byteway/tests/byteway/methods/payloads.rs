//! The driver's payloads against the drive in virtual time: every method, every length, every position in the rings. The bytes that arrive
//! are those sent, by the method or by its counted fallback.

use crate::methods::fixture::Rig;
use byteway_clock::{Channel, Delay, Stage};
use byteway_content::BlockSize;
use byteway_host::{
    Buffer, Client, ClientConfig, Driver, HostCosts, IoError, Lost, Method, Oracle, PayloadClient,
    PayloadConfig, QueueConfig, QueuePair, Rules, SinkBase, SinkOracle,
};
use byteway_transfer::result::ResultMethod;
use byteway_wire::nvme::vendor::Methods;
use std::cell::RefCell;
use std::rc::Rc;

const ALL: Methods = Methods::from_bits(0x1FF);

fn costs() -> HostCosts {
    HostCosts {
        submit: Delay::from_ns(60),
        chunk: Delay::from_ns(30),
        turnaround: Delay::from_ns(700),
        store: Delay::from_ns(40),
        complete: Delay::from_ns(80),
        ..HostCosts::default()
    }
}

/// A drive that holds few incomplete payloads, short results in completions, and a slow host.
fn rig() -> Rig {
    let mut rig = Rig { costs: costs(), ..Rig::default() };
    rig.drive.controller.dma_granularity = 512;
    rig.drive.controller.queue_entries_max = 1024;
    let transfer = &mut rig.drive.transfer;
    transfer.inline_result_bytes_max = 1024;
    transfer.partial_payloads_max = 16;
    transfer.partial_timeout = Delay::from_ms(50); // a stream in a queue of one slot waits long for its turns
    transfer.bar_bytes = 64 << 10;
    rig
}

/// Every method, with its rules.
fn every_rule() -> Vec<Rules> {
    let mut all: Vec<_> = Method::ALL.into_iter().map(Rules::only).collect();
    for rules in &mut all {
        rules.threshold_bytes = 300;
        rules.sgl_bytes_min = 0;
    }
    all.push(Rules { paper_encoding: true, ..Rules::only(Method::Inline) });
    all.push(Rules { fine: Method::Piggyback, threshold_bytes: 100, ..Rules::only(Method::Adaptive) });
    all
}

/// Whether a queue of `entries` can never carry a payload by its method.
fn never_fits(rules: &Rules, entries: u32, bytes: u32) -> bool {
    let method = match rules.method {
        Method::Adaptive if bytes < rules.threshold_bytes => rules.fine,
        method => method,
    };
    match method {
        Method::Inline => bytes > 0 && bytes.div_ceil(64) >= entries - 1,
        Method::Hybrid => !bytes.is_multiple_of(4096) && (bytes % 4096).div_ceil(64) >= entries - 1,
        Method::InlineReassembly => bytes > 0 && bytes.div_ceil(56) >= entries - 1,
        // The first command keeps its identifier until the others have completed.
        Method::PiggybackPipelined => bytes > 35 && entries == 2,
        // Records are for key-value pairs only.
        Method::CxlCommit => bytes > 0,
        _ => false,
    }
}

async fn pair(driver: &Driver, config: QueueConfig, methods: Methods) -> QueuePair {
    let pair = driver.create_queue_pair(config).await.unwrap();
    let enabled = driver.enable_methods(&pair, methods).await.unwrap();
    assert_eq!(enabled, methods);
    pair
}

// A byte lost at the boundary of a page, an entry, a chunk, a piece or a ring would corrupt other data.
#[test]
fn every_length_arrives_by_every_method() {
    for rules in every_rule() {
        rig().run(async move |rig| {
            let driver = rig.driver.clone();
            for entries in [2, 3, 4, 7, 64, 256] {
                let oracle = Rc::new(RefCell::new(SinkOracle::new(SinkBase::Unknown)));
                let mut config = PayloadConfig::new(rules, 8192);
                config.oracle = Some(oracle.clone());
                config.results = match entries {
                    3 => ResultMethod::Rounded,
                    _ => ResultMethod::Inline,
                };
                let queue = pair(&driver, QueueConfig::new(entries), config.methods()).await;
                let client = PayloadClient::new(queue.clone(), 1, config).unwrap();
                let memory = queue.port().memory();
                let mut buffers = [
                    client.buffer().unwrap(),
                    client.adopt(Buffer::scattered(memory, 4060, 8192).unwrap()).unwrap(),
                ];
                let lengths =
                    [0, 1, 13, 14, 15, 35, 36, 55, 56, 57, 63, 64, 65, 87, 91, 112, 113, 128, 192, 193];
                let long = [511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 4160, 8191, 8192];
                let mut offset = 3;
                for bytes in lengths.into_iter().chain(long) {
                    for buffer in &mut buffers {
                        let record = client.write(buffer, offset, bytes).await.unwrap();
                        let stages: Delay = Stage::ALL.iter().map(|stage| record.stage(*stage)).sum();
                        assert_eq!(record.last.since(record.begin), stages);
                        assert_eq!(record.last, rig.clock.now(), "{rules:?} {bytes}");
                        client.read(buffer, offset, bytes).await.unwrap();
                        offset += u64::from(bytes) / 2 + 1;
                    }
                }
                assert_eq!(oracle.borrow().skipped_bytes(), 0);
                let counts = client.counts();
                let sent: u64 = counts.named()[..10].iter().map(|(_, count)| count).sum();
                assert_eq!(sent, 64, "{counts:?}");
                let lengths = lengths.into_iter().chain(long);
                let fallbacks = lengths.filter(|bytes| never_fits(&rules, entries, *bytes)).count() as u64;
                assert_eq!(counts.fallbacks, 2 * fallbacks, "{rules:?} {entries} {counts:?}");
                assert_eq!((queue.slots_free() as u32, queue.outstanding()), (entries - 1, 0));
                assert_eq!(driver.protocol_errors(), 0);
                driver.delete_queue_pair(&queue).await.unwrap();
            }
        });
    }
}

/// Executes a client's tasks on the sink, as `step` determines them.
async fn play(client: PayloadClient, worker: u64, steps: u64, bytes_max: u32) {
    let mut buffer = client.buffer().unwrap();
    for step in 0..steps {
        let mixed = (worker * 7919 + step * 104_729 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let bytes = (mixed % 7 * (mixed >> 8) % u64::from(bytes_max + 1)) as u32;
        let offset = (mixed >> 20) % 50_000;
        let done = match mixed % 3 {
            0 => client.read(&mut buffer, offset, bytes).await,
            _ => client.write(&mut buffer, offset, bytes).await,
        };
        let way = client.choose(&buffer, bytes).kind;
        assert!(done.is_ok(), "{way:?} of {bytes} at {offset} in {}: {done:?}", client.queue().entries());
    }
}

// Trains, chunks, streams and plain commands of many tasks, interleaved at every position of small rings: none may take another's entries,
// overrun the ring, or wait indefinitely.
#[test]
fn methods_interleave_in_queues_of_any_depth() {
    for entries in [2, 3, 5, 8, 13, 64, 256] {
        rig().run(async move |rig| {
            let driver = rig.driver.clone();
            let oracle = Rc::new(RefCell::new(SinkOracle::new(SinkBase::Zeroes)));
            let methods = ALL.with_rounded_results(false);
            // A command that waits for chunks in other queues holds a completion slot: these queues have enough.
            let completion_entries = Some(2 * entries + 1);
            let first =
                pair(&driver, QueueConfig { completion_entries, ..QueueConfig::new(entries) }, methods).await;
            let shares = Some(first.clone());
            let second =
                pair(&driver, QueueConfig { shares, ..QueueConfig::new(entries + 1) }, methods).await;
            let third = pair(&driver, QueueConfig::new(9), methods).await;
            let all = [first, second, third];
            let done = Channel::unbounded(&rig.clock);
            let (mut tasks, mut clients) = (0, Vec::new());
            for rules in every_rule() {
                for queue in &all {
                    let mut config = PayloadConfig::new(rules, 1500);
                    config.oracle = Some(oracle.clone());
                    config.results =
                        if tasks % 2 == 0 { ResultMethod::Inline } else { ResultMethod::Pointer };
                    config.chunk_queues =
                        all.iter().filter(|other| other.qid() != queue.qid()).cloned().collect();
                    clients.push(PayloadClient::new(queue.clone(), 1, config).unwrap());
                    for _ in 0..2 {
                        let (client, done, worker) =
                            (clients[clients.len() - 1].clone(), done.clone(), tasks);
                        rig.clock.spawn("worker", async move {
                            play(client, worker, 40, 1500).await;
                            done.send(()).await;
                        });
                        tasks += 1;
                    }
                }
            }
            for _ in 0..tasks {
                done.receive().await;
            }
            assert_eq!(oracle.borrow().under_way(), 0);
            assert!(oracle.borrow().verified_bytes() > 20_000, "{:?}", oracle.borrow());
            rig.clock.sleep(Delay::from_us(100)).await;
            for queue in &all {
                assert_eq!((queue.slots_free() as u32, queue.outstanding()), (queue.entries() - 1, 0));
            }
            assert_eq!(driver.protocol_errors(), 0);
        });
    }
}

// A reset at any time during a payload must be an error of that payload only, and release identifiers, areas, slots and streams: the drive
// keeps at most sixteen incomplete payloads, and there are many more resets.
#[test]
fn a_reset_at_any_moment_loses_payloads_and_nothing_else() {
    for rules in every_rule() {
        rig().run(async move |rig| {
            let driver = rig.driver.clone();
            let oracle = Rc::new(RefCell::new(SinkOracle::new(SinkBase::Zeroes)));
            let methods = ALL.with_rounded_results(false);
            let all = [
                pair(&driver, QueueConfig::new(16), methods).await,
                pair(&driver, QueueConfig::new(40), methods).await,
            ];
            let mut config = PayloadConfig::new(rules, 900);
            config.oracle = Some(oracle.clone());
            config.results = ResultMethod::Inline;
            config.chunk_queues = all.to_vec();
            let client = PayloadClient::new(all[0].clone(), 1, config).unwrap();
            let done = Channel::unbounded(&rig.clock);
            let mut lost = 0;
            for step in 0..60_u64 {
                for worker in 0..4_u64 {
                    let (client, done) = (client.clone(), done.clone());
                    rig.clock.spawn("worker", async move {
                        let mut buffer = client.buffer().unwrap();
                        let bytes = (worker * 200 + step * 7) as u32 % 900;
                        let offset = worker * 1000;
                        let written = client.write(&mut buffer, offset, bytes).await;
                        let read = client.read(&mut buffer, offset, bytes).await;
                        done.send((written, read)).await;
                    });
                }
                rig.clock.sleep(Delay::from_ns(step * 133)).await;
                driver.reset().await.unwrap();
                for _ in 0..4 {
                    let (written, read) = done.receive().await;
                    for result in [written, read] {
                        match result {
                            Ok(_) => {}
                            Err(IoError::Lost(Lost::Reset)) => lost += 1,
                            Err(error) => panic!("{rules:?} at {step}: {error}"),
                        }
                    }
                }
                assert_eq!(all.each_ref().map(|queue| queue.enabled()), [methods; 2]);
                assert_eq!(oracle.borrow().under_way(), 0);
            }
            assert!(lost > 20, "{rules:?} {lost}");
            // Chunks in other queues may still be waiting for their completion.
            rig.clock.sleep(Delay::from_us(50)).await;
            for queue in &all {
                assert_eq!((queue.slots_free() as u32, queue.outstanding()), (queue.entries() - 1, 0));
            }
            let before = client.counts();
            play(client.clone(), 9, 50, 800).await;
            // Records are for key-value pairs only.
            let falls_back = rules.method == Method::CxlCommit;
            assert_eq!(client.counts().fallbacks > before.fallbacks, falls_back, "{rules:?}");
            assert_eq!(driver.protocol_errors(), 0);
        });
    }
}

// Block writes use the same methods, and reads return what they wrote.
#[test]
fn block_writes_go_by_every_method() {
    for rules in every_rule() {
        rig().run(async move |rig| {
            let driver = rig.driver.clone();
            let queue = pair(&driver, QueueConfig::new(64), rules.methods()).await;
            let namespace = driver.namespaces()[0];
            let base = byteway_host::BaseState::Zeroes;
            let oracle = Rc::new(RefCell::new(Oracle::new(namespace.blocks, BlockSize::B512, 1, base)));
            let config =
                ClientConfig { rules, bytes_max: 16 << 10, oracle: Some(oracle), verify_bytes: false };
            let client = Client::new(queue, namespace, config).unwrap();
            let mut buffer = client.buffer().unwrap();
            for (lba, blocks) in [(0, 1), (3, 2), (5, 8), (8, 9), (20, 32)] {
                client.write(&mut buffer, lba, blocks).await.unwrap();
                client.read(&mut buffer, lba, blocks).await.unwrap();
                client.compare(&mut buffer, lba, blocks).await.unwrap();
            }
            let ranges = [byteway_wire::nvme::Range::new(3, 2)];
            client.trim(&mut buffer, &ranges).await.unwrap();
            client.read(&mut buffer, 0, 9).await.unwrap();
            let counts = client.counts();
            let sent: u64 = counts.named()[..10].iter().map(|(_, count)| count).sum();
            assert_eq!(sent, 11, "{counts:?}");
            let expected = match rules.method {
                Method::Prp => counts.of(Method::Prp) == 11,
                Method::Sgl => counts.of(Method::Sgl) == 11,
                // A list of ranges has 16 bytes; 4 KiB take more entries than available, and streams do not apply to blocks.
                Method::Adaptive if rules.fine == Method::Piggyback => counts.fallbacks == 1,
                Method::Adaptive => counts.of(Method::Inline) == 1 && counts.of(Method::Prp) == 10,
                Method::Inline => counts.of(Method::Inline) == 5 && counts.fallbacks == 6,
                Method::InlineReassembly => counts.of(Method::InlineReassembly) == 5 && counts.fallbacks == 6,
                Method::Hybrid => {
                    counts.of(Method::Hybrid) == 2
                        && counts.of(Method::Inline) == 5
                        && counts.of(Method::Prp) == 4
                }
                Method::Mmio => counts.of(Method::Mmio) == 11,
                Method::CxlMem => counts.of(Method::CxlMem) == 11,
                // A list of ranges is short enough for a stream, but uses none.
                Method::PiggybackCxl => counts.of(Method::CxlMem) == 10 && counts.fallbacks == 1,
                // Streams and records do not apply to blocks.
                Method::Piggyback | Method::PiggybackPipelined | Method::CxlCommit | Method::Own(_) => {
                    counts.of(Method::Prp) == 11 && counts.fallbacks == 11
                }
            };
            assert!(expected, "{rules:?} {counts:?}");
        });
    }
}
