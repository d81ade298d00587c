//! Payloads among plain commands, against a controller that frames them exactly, and one that answers wrongly.

use crate::fake::{Answer, Rig, SINK_BYTES, run};
use byteway_clock::{Channel, Delay};
use byteway_host::{
    Buffer, Driver, DriverConfig, HostCosts, IoError, Lost, Method, Part, PayloadClient, PayloadConfig,
    PayloadError, QueueConfig, QueuePair, Request, Rules,
};
use byteway_transfer::result::ResultMethod;
use byteway_wire::nvme::vendor::{Capabilities, Methods, Sink, inline_descriptor};
use byteway_wire::nvme::{Cqe, Doorbell, Flush, Status, VendorOpcode};

const METHODS: Methods =
    Methods::new().with_inline(true).with_inline_tail(true).with_reassembly(true).with_inline_result(true);

fn offer(rig: &Rig) {
    rig.fake.offers.set(Capabilities {
        signature: Capabilities::SIGNATURE,
        version: Capabilities::VERSION,
        methods: METHODS.into_bits(),
        inline_bytes_max: 4096,
        reassembly_bytes_max: 4096,
        inline_result_bytes_max: 512,
        partial_payloads_max: 4,
        partial_timeout_us: 1000,
        sink_bytes: SINK_BYTES as u64,
        ..Capabilities::default()
    });
}

async fn queue(rig: &Rig, entries: u32) -> (Driver, QueuePair) {
    offer(rig);
    let driver = rig.attach(DriverConfig::default()).await;
    let queue = driver.create_queue_pair(QueueConfig::new(entries)).await.unwrap();
    assert_eq!(driver.enable_methods(&queue, METHODS).await, Ok(METHODS));
    (driver, queue)
}

fn client(queue: &QueuePair, rules: Rules, results: ResultMethod) -> PayloadClient {
    PayloadClient::new(queue.clone(), 1, PayloadConfig { results, ..PayloadConfig::new(rules, 4096) })
        .unwrap()
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + seed * 7 + at / 256) as u8 | 1).collect()
}

/// A Sink Write of `train` at `offset`, as a train.
fn train<'a>(buffer: &'a Buffer, offset: u64, at: u32, bytes: u32) -> Request<'a> {
    let sqe = Sink { offset, bytes }.sqe(VendorOpcode::SINK_WRITE, 0, 1).with_sgl(inline_descriptor(bytes));
    Request::from(sqe).with_train(Part { buffer, offset: at, bytes })
}

// A train that starts near the ring's end continues at its beginning; an implementation that skips the end, or writes
// past it, breaks every payload that wraps.
#[test]
fn trains_wrap_at_every_place() {
    run(|rig| async move {
        for entries in [5, 6, 7, 11] {
            let (driver, queue) = queue(&rig, entries).await;
            let client = client(&queue, Rules::only(Method::Inline), ResultMethod::Pointer);
            let mut buffer = client.buffer().unwrap();
            for step in 0..3 * entries as usize {
                let bytes = 1 + step * 53 % (64 * (entries as usize - 2));
                let payload = pattern(bytes, step);
                client.put(&mut buffer, &payload).unwrap();
                client.write(&mut buffer, 100, bytes as u32).await.unwrap();
                assert_eq!(rig.fake.sink.borrow()[100..100 + bytes], payload);
            }
            let counts = client.counts();
            assert_eq!((counts.of(Method::Inline), counts.fallbacks), (3 * u64::from(entries), 0));
            assert_eq!((queue.slots_free() as u32, driver.protocol_errors()), (entries - 1, 0));
            driver.delete_queue_pair(&queue).await.unwrap();
        }
    });
}

// Tasks that place trains as if each were alone would overrun the ring: the fake asserts the free-slot rule, and that a
// doorbell never exposes half a train.
#[test]
fn trains_of_many_tasks_never_overrun_the_ring() {
    run(|rig| async move {
        let (driver, queue) = queue(&rig, 16).await;
        let done = Channel::unbounded(&rig.clock);
        for worker in 0..40_usize {
            let rules = Rules::only([Method::Inline, Method::InlineReassembly, Method::Prp][worker % 3]);
            let (client, done) = (client(&queue, rules, ResultMethod::Inline), done.clone());
            rig.clock.spawn("worker", async move {
                let mut buffer = client.buffer().unwrap();
                for step in 0..20 {
                    let payload = pattern(1 + (worker * 37 + step * 91) % 700, worker + step);
                    client.put(&mut buffer, &payload).unwrap();
                    let (offset, bytes) = (worker as u64 * 1000, payload.len() as u32);
                    client.write(&mut buffer, offset, bytes).await.unwrap();
                    client.put(&mut buffer, &[0; 700]).unwrap();
                    // At most 12 parts after a completion: the ring has 16 entries.
                    client.read(&mut buffer, offset, bytes.min(150)).await.unwrap();
                    let mut back = vec![0; payload.len().min(150)];
                    client.get(&buffer, &mut back).unwrap();
                    assert_eq!(back, payload[..back.len()]);
                }
                assert_eq!(client.counts().fallbacks, 0);
                done.send(()).await;
            });
        }
        for _ in 0..40 {
            done.receive().await;
        }
        assert_eq!((queue.slots_free(), queue.outstanding(), driver.protocol_errors()), (15, 0, 0));
    });
}

// A batch writes the doorbell once, with plain commands and trains in it; none of its commands may be taken for
// another's payload, or lost after it.
#[test]
fn a_batch_of_plain_commands_and_trains_rings_once() {
    run(|rig| async move {
        let (_, queue) = queue(&rig, 64).await;
        let buffer = Buffer::scattered(queue.port().memory(), 4000, 8192).unwrap();
        let payload = pattern(8192, 5);
        let mut done = 0;
        for part in buffer.extents(8192) {
            queue.port().memory().write(part.address, &payload[done..done + part.bytes as usize]).unwrap();
            done += part.bytes as usize;
        }
        let flush = || Request::from(Flush.sqe(0, 1));
        let requests = [
            flush(),
            train(&buffer, 0, 40, 130),
            train(&buffer, 1000, 4090, 64),
            flush(),
            train(&buffer, 2000, 100, 1),
            train(&buffer, 3000, 8000, 192),
            flush(),
        ];
        let before = rig.fake.commands.get();
        let mut pending = Vec::new();
        queue.submit_batch(&requests, &mut pending).await.unwrap();
        assert_eq!(queue.slots_free(), 63 - 7 - (3 + 1 + 1 + 3));
        for command in pending.drain(..) {
            assert!(command.await.unwrap().status().is_success());
        }
        let doorbell = Doorbell::SubmissionTail(queue.qid()).offset(0);
        assert_eq!(rig.fake.rung.borrow()[&doorbell], 1);
        assert_eq!((rig.fake.commands.get() - before, rig.fake.carried.get()), (7, 8));
        let sink = rig.fake.sink.borrow().clone();
        for (to, from, bytes) in [(0, 40, 130), (1000, 4090, 64), (2000, 100, 1), (3000, 8000, 192)] {
            assert_eq!(sink[to..to + bytes], payload[from..from + bytes]);
        }
        // A request that can never fit would wait indefinitely.
        let too_long = [flush(), train(&buffer, 0, 0, 64 * 62 + 1), flush()];
        let refused = queue.submit_batch(&too_long, &mut pending).await;
        assert_eq!((refused, pending.len()), (Err(Lost::NotPlaced), 1));
        assert!(pending.pop().unwrap().await.is_ok());
        assert_eq!(queue.submit_together(&too_long, &mut pending).await, Err(Lost::NotPlaced));
        assert_eq!((queue.slots_free(), queue.outstanding()), (63, 0));
    });
}

// A plain drive must receive plain commands only, and a queue without trains must transfer its payloads
// nevertheless.
#[test]
fn what_cannot_go_falls_back_and_is_counted() {
    run(|rig| async move {
        let (driver, small) = queue(&rig, 2).await;
        let plain = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        for (queue, method) in [
            (&small, Method::Inline),
            (&small, Method::InlineReassembly),
            (&plain, Method::Inline),
            (&plain, Method::Hybrid),
            (&plain, Method::Mmio),
            (&plain, Method::Piggyback),
        ] {
            let client = client(queue, Rules::only(method), ResultMethod::Inline);
            let mut buffer = client.buffer().unwrap();
            let payload = pattern(100, 3);
            client.put(&mut buffer, &payload).unwrap();
            client.write(&mut buffer, 7, 100).await.unwrap();
            client.read(&mut buffer, 7, 100).await.unwrap();
            assert_eq!(rig.fake.sink.borrow()[7..107], payload);
            let counts = client.counts();
            assert_eq!((counts.of(Method::Prp), counts.fallbacks), (1, 1), "{method:?}");
            assert_eq!((counts.pointer_results, counts.result_fallbacks), (1, 1));
        }
        assert_eq!(rig.fake.carried.get(), 0);
        // After a reset the controller may offer nothing any more.
        let (_, queue) = (driver.clone(), driver.create_queue_pair(QueueConfig::new(64)).await.unwrap());
        driver.enable_methods(&queue, METHODS).await.unwrap();
        let client = client(&queue, Rules::only(Method::Inline), ResultMethod::Inline);
        let mut buffer = client.buffer().unwrap();
        client.write(&mut buffer, 0, 100).await.unwrap();
        rig.fake.offers.set(Capabilities { methods: 0, ..rig.fake.offers.get() });
        driver.reset().await.unwrap();
        assert_eq!(queue.enabled(), Methods::new());
        client.write(&mut buffer, 0, 100).await.unwrap();
        client.read(&mut buffer, 0, 100).await.unwrap();
        assert_eq!((client.counts().of(Method::Inline), client.counts().fallbacks), (1, 1));
    });
}

// Data that the drive reports as stored or sent must equal what was sent and what arrived.
#[test]
fn a_spoiled_payload_is_noticed() {
    run(|rig| async move {
        let (_, queue) = queue(&rig, 16).await;
        let client = client(&queue, Rules::only(Method::Inline), ResultMethod::Inline);
        let mut buffer = client.buffer().unwrap();
        rig.fake.spoils.set(true);
        let written = client.write(&mut buffer, 9, 100).await;
        assert!(
            matches!(written, Err(IoError::Client(PayloadError::Corrupt { offset: 9, .. }))),
            "{written:?}"
        );
    });
}

// An incomplete result must be an error, and later completions must be found.
#[test]
fn results_that_are_not_whole_are_refused() {
    run(|rig| async move {
        for answer in [Answer::Whole, Answer::Late, Answer::Swapped, Answer::Long, Answer::Absent] {
            let (driver, queue) = queue(&rig, 16).await;
            let client = client(&queue, Rules::only(Method::Inline), ResultMethod::Inline);
            let mut buffer = client.buffer().unwrap();
            for step in 0..40_u32 {
                let payload = pattern(60, step as usize);
                client.put(&mut buffer, &payload).unwrap();
                client.write(&mut buffer, 0, 60).await.unwrap();
                client.put(&mut buffer, &[0; 60]).unwrap();
                rig.fake.answer.set(if step % 4 == 3 { answer } else { Answer::Whole });
                let bytes = if answer == Answer::Absent { 10 } else { 60 };
                let reading = client.read(&mut buffer, 0, bytes);
                let begin = rig.now();
                let read = match answer {
                    // The promised part never arrives: the next completion is in its place.
                    Answer::Absent if step % 4 == 3 => {
                        let other = queue.clone();
                        rig.clock.spawn("flush", async move {
                            other.port().clock().sleep(Delay::from_us(30)).await;
                            assert!(other.execute(Flush.sqe(0, 1)).await.is_ok());
                        });
                        reading.await
                    }
                    _ => reading.await,
                };
                match answer {
                    Answer::Whole | Answer::Late => {
                        assert!(read.is_ok(), "{answer:?} {read:?}");
                        let mut back = vec![0; 60];
                        client.get(&buffer, &mut back).unwrap();
                        assert_eq!(back, payload);
                        assert!(
                            answer == Answer::Whole
                                || step % 4 < 3
                                || rig.now() >= begin + Delay::from_us(20)
                        );
                    }
                    _ if step % 4 == 3 => assert_eq!(read, Err(IoError::BrokenResult), "{answer:?}"),
                    _ => assert!(read.is_ok(), "{answer:?} {read:?}"),
                }
                if answer == Answer::Long && step % 4 == 3 {
                    break; // the number of following slots is unknown
                }
            }
            rig.fake.answer.set(Answer::Whole);
            if answer == Answer::Long {
                driver.reset().await.unwrap();
            }
            client.write(&mut buffer, 0, 60).await.unwrap();
            client.read(&mut buffer, 0, 60).await.unwrap();
            rig.clock.sleep(Delay::from_us(50)).await;
            assert_eq!((queue.slots_free(), queue.outstanding()), (15, 0), "{answer:?}");
            driver.delete_queue_pair(&queue).await.unwrap();
        }
    });
}

// A result with a missing part must not be returned, and a reset must end the wait.
#[test]
fn a_part_that_never_comes_ends_with_a_reset() {
    run(|rig| async move {
        let (driver, queue) = queue(&rig, 16).await;
        let client = client(&queue, Rules::only(Method::Inline), ResultMethod::Inline);
        rig.fake.answer.set(Answer::Short);
        let done = Channel::unbounded(&rig.clock);
        let (reader, sent) = (client.clone(), done.clone());
        rig.clock.spawn("read", async move {
            let mut buffer = reader.buffer().unwrap();
            sent.send(reader.read(&mut buffer, 0, 60).await).await;
        });
        rig.clock.sleep(Delay::from_us(100)).await;
        assert_eq!(queue.outstanding(), 1);
        rig.fake.answer.set(Answer::Whole);
        driver.reset().await.unwrap();
        assert_eq!(done.receive().await, Err(IoError::Lost(Lost::Reset)));
        let mut buffer = client.buffer().unwrap();
        client.read(&mut buffer, 0, 60).await.unwrap();
        assert_eq!(driver.protocol_errors(), 0);
    });
}

// Chunks in other queues must return their slots, and a controller can't complete chunks that requested nothing.
#[test]
fn chunks_in_other_queues_give_their_slots_back() {
    run(|rig| async move {
        let (driver, first) = queue(&rig, 8).await;
        let second = driver.create_queue_pair(QueueConfig::new(9)).await.unwrap();
        let third = driver.create_queue_pair(QueueConfig::new(10)).await.unwrap();
        for queue in [&second, &third] {
            driver.enable_methods(queue, METHODS).await.unwrap();
        }
        let all = [&first, &second, &third].map(Clone::clone);
        let done = Channel::unbounded(&rig.clock);
        for worker in 0..12_usize {
            let config = PayloadConfig {
                chunk_queues: all.to_vec(),
                ..PayloadConfig::new(Rules::only(Method::InlineReassembly), 336)
            };
            let client = PayloadClient::new(all[worker % 3].clone(), 1, config).unwrap();
            let done = done.clone();
            rig.clock.spawn("worker", async move {
                let mut buffer = client.buffer().unwrap();
                for step in 0..30 {
                    let payload = pattern(1 + (worker * 37 + step * 91) % 336, worker + step);
                    client.put(&mut buffer, &payload).unwrap();
                    client.write(&mut buffer, worker as u64 * 500, payload.len() as u32).await.unwrap();
                }
                assert_eq!(
                    (client.counts().of(Method::InlineReassembly), client.counts().fallbacks),
                    (30, 0)
                );
                done.send(()).await;
            });
        }
        for _ in 0..12 {
            done.receive().await;
        }
        rig.clock.sleep(Delay::from_us(50)).await;
        for queue in &all {
            assert_eq!((queue.slots_free() as u32, queue.outstanding()), (queue.entries() - 1, 0));
        }
        assert_eq!(driver.protocol_errors(), 0);
        for (cid, errors) in [(0x8000, 1), (0xffff, 2)] {
            rig.fake.post(first.cqid(), Cqe::new(cid, Status::SUCCESS, first.qid(), 0)).await;
            rig.clock.sleep(Delay::from_us(10)).await;
            assert_eq!(driver.protocol_errors(), errors);
        }
    });
}

// The host's share of a payload must follow its profile: a train costs its entries.
#[test]
fn entries_that_carry_payload_cost_the_host() {
    run(|rig| async move {
        offer(&rig);
        let costs = HostCosts {
            submit: Delay::from_ns(60),
            chunk: Delay::from_ns(30),
            doorbell: Delay::from_ns(7),
            ..HostCosts::default()
        };
        let driver = rig.attach(DriverConfig { costs, ..DriverConfig::default() }).await;
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
        driver.enable_methods(&queue, METHODS).await.unwrap();
        let buffer = Buffer::contiguous(queue.port().memory(), 0, 256).unwrap();
        rig.clock.sleep(Delay::from_us(10)).await;
        for (bytes, expected) in [(1, 97), (64, 97), (65, 127), (256, 187)] {
            let begin = rig.now();
            let command = queue.submit(train(&buffer, 0, 0, bytes)).await.unwrap();
            assert_eq!(rig.now().since(begin), Delay::from_ns(expected));
            assert!(command.await.is_ok());
            rig.clock.sleep(Delay::from_us(10)).await;
        }
    });
}
