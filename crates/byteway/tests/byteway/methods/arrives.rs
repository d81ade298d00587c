//! The bytes that arrive are the bytes sent, by the method or by its counted fallback.

use crate::methods::fixture::{BYTES_MAX, Rig, SINK_BYTES, Stage, payload};
use byteway_clock::Channel;
use byteway_clock::random::{Rng, Stream};
use byteway_host::{Buffer, QueueConfig, QueuePair};
use byteway_host::{PayloadClient, PayloadConfig};
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{Method, Rules};
use byteway_wire::nvme::vendor::{InlineSlots, Methods};
use std::rc::Rc;

/// Queue sizes: the minimum, those around the longest trains, powers of two and the maximum.
const DEPTHS: [u32; 12] = [2, 3, 4, 5, 7, 16, 17, 64, 129, 130, 147, 256];

/// A method as a scenario selects it.
fn rules(method: Method, random: &mut Stream) -> Rules {
    let fine = [Method::Inline, Method::Piggyback, Method::PiggybackPipelined, Method::Mmio];
    Rules {
        threshold_bytes: random.below(u64::from(BYTES_MAX)) as u32,
        fine: fine[random.below(fine.len() as u64) as usize],
        sgl_bytes_min: random.below(2) as u32 * 1000,
        paper_encoding: random.below(2) == 1,
        ..Rules::only(method)
    }
}

/// A payload's length: any, and often one around the sizes of slots, pieces and pages.
fn length(random: &mut Stream) -> u32 {
    const EDGES: [u32; 10] = [0, 35, 52, 56, 64, 128, 512, 4096, 4160, BYTES_MAX];
    match random.below(3) {
        0 => random.below(u64::from(BYTES_MAX) + 1) as u32,
        1 => random.below(257) as u32,
        _ => {
            let edge = EDGES[random.below(EDGES.len() as u64) as usize];
            (edge + random.below(3) as u32).saturating_sub(1).min(BYTES_MAX)
        }
    }
}

async fn pair(stage: &Stage, entries: u32, enable: Methods) -> QueuePair {
    let config = QueueConfig { completion_entries: Some(entries.max(4)), ..QueueConfig::new(entries) };
    let pair = stage.driver.create_queue_pair(config).await.unwrap();
    stage.driver.enable_methods(&pair, enable).await.unwrap();
    pair
}

/// A writer and reader of its own part of the sink.
async fn work(client: PayloadClient, seed: u64, worker: u64, turns: u32) {
    let mut random = Rng::new(seed).stream(&format!("worker/{worker}"));
    let memory = client.queue().port().memory().clone();
    let offset = random.below(4096) as u32;
    let make = if random.below(2) == 0 { Buffer::contiguous } else { Buffer::scattered };
    let mut buffer = client.adopt(make(&memory, offset & !3, BYTES_MAX).unwrap()).unwrap();
    let base = worker * u64::from(BYTES_MAX) * 2;
    let mut mirror = vec![0u8; 2 * BYTES_MAX as usize];
    let mut found = vec![0u8; BYTES_MAX as usize];
    for turn in 0..turns {
        let bytes = length(&mut random);
        let at = random.below(u64::from(2 * BYTES_MAX - bytes) + 1);
        let place = at as usize..at as usize + bytes as usize;
        let what = format!("seed {seed}, worker {worker}, turn {turn}: {bytes} bytes");
        if random.below(2) == 0 {
            let sent = payload(&mut random, bytes);
            client.put(&mut buffer, &sent).unwrap();
            client.write(&mut buffer, base + at, bytes).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            mirror[place].copy_from_slice(&sent);
        } else {
            client.put(&mut buffer, &vec![0xEE; bytes as usize]).unwrap();
            client.read(&mut buffer, base + at, bytes).await.unwrap_or_else(|e| panic!("{what}: {e}"));
            let found = &mut found[..bytes as usize];
            client.get(&buffer, found).unwrap();
            assert!(found == &mirror[place], "{what}: read back differs");
        }
    }
}

/// Workers on one to three queues with different methods, which submit concurrently.
fn interleaved(seed: u64, methods: &[Method], entries: u32, burst: u32) {
    let mut rig = Rig::default();
    rig.drive.controller.fetch_burst = burst;
    let methods = methods.to_vec();
    rig.run(async move |stage| {
        let mut random = Rng::new(seed).stream("setting");
        let (done, mut ended) = (Channel::unbounded(&stage.clock), 0);
        let done = Rc::new(done);
        let mut worker = 0;
        for method in methods {
            let rules = rules(method, &mut random);
            let results = [ResultMethod::Pointer, ResultMethod::Inline, ResultMethod::Rounded]
                [random.below(3) as usize];
            let config = PayloadConfig { results, ..PayloadConfig::new(rules, BYTES_MAX) };
            let queue = pair(&stage, entries, config.methods()).await;
            let client = PayloadClient::new(queue, 1, config).unwrap();
            for _ in 0..1 + random.below(6) {
                assert!((worker + 1) * u64::from(BYTES_MAX) * 2 <= SINK_BYTES);
                let (client, done, number) = (client.clone(), done.clone(), worker);
                stage.clock.spawn("worker", async move {
                    work(client, seed, number, 40).await;
                    done.try_send(()).unwrap();
                });
                worker += 1;
            }
        }
        while ended < worker {
            done.receive().await;
            ended += 1;
        }
    });
}

// Finds sizes, depths, bursts and neighbors for which a payload arrives corrupted, or not at all.
#[test]
fn by_every_method_at_every_depth_whatever_the_neighbours_do() {
    let mut seed = 0;
    for method in Method::ALL {
        for (index, entries) in DEPTHS.into_iter().enumerate() {
            seed += 1;
            let any = |at: usize| Method::ALL[at % Method::ALL.len()];
            let neighbours = [any(seed as usize), any(seed as usize * 5 + 3)];
            let methods = [&[method][..], &neighbours[..index % 3]].concat();
            interleaved(seed, &methods, entries, [1, 4, 64][seed as usize % 3]);
        }
    }
}

// A train that starts near the end of the ring must wrap around, and its tail must not be taken for commands.
#[test]
fn at_every_position_of_the_ring() {
    for burst in [1, 3, 64] {
        for entries in 3..12 {
            let mut rig = Rig::default();
            rig.drive.controller.fetch_burst = burst;
            rig.run(async move |stage| {
                for method in [Method::Inline, Method::InlineReassembly, Method::Hybrid] {
                    let config = PayloadConfig::new(Rules::only(method), BYTES_MAX);
                    let queue = pair(&stage, entries, config.methods()).await;
                    let client = PayloadClient::new(queue.clone(), 1, config).unwrap();
                    let mut buffer = client.buffer().unwrap();
                    let mut random = Rng::new(u64::from(entries)).stream("payload");
                    for start in 0..entries {
                        for slots in 1..=entries - 2 {
                            let unit = match method {
                                Method::InlineReassembly => 56,
                                _ => InlineSlots::SLOT_BYTES,
                            };
                            let bytes = slots * unit - start % 7;
                            let sent = payload(&mut random, bytes);
                            client.put(&mut buffer, &sent).unwrap();
                            client.write(&mut buffer, 3, bytes).await.unwrap();
                            client.read(&mut buffer, 3, bytes).await.unwrap();
                            let mut found = vec![0; bytes as usize];
                            client.get(&buffer, &mut found).unwrap();
                            assert!(
                                found == sent,
                                "{} {slots} slots of {entries}, burst {burst}",
                                method.name()
                            );
                        }
                        client.write(&mut buffer, 0, 0).await.unwrap(); // one step further each round
                    }
                    assert_eq!(client.counts().fallbacks, 0, "each of them fits");
                    stage.driver.delete_queue_pair(&queue).await.unwrap();
                }
            });
        }
    }
}

// A train that can never fit must not wait for free entries indefinitely.
#[test]
fn what_never_fits_takes_the_counted_fallback() {
    Rig::default().run(async move |stage| {
        for method in [Method::Inline, Method::InlineReassembly, Method::Hybrid] {
            let config = PayloadConfig::new(Rules::only(method), BYTES_MAX);
            let queue = pair(&stage, 2, config.methods()).await;
            let client = PayloadClient::new(queue.clone(), 1, config).unwrap();
            let mut buffer = client.buffer().unwrap();
            client.put(&mut buffer, b"one slot").unwrap();
            client.write(&mut buffer, 0, 8).await.unwrap();
            assert_eq!(client.counts().fallbacks, 1, "{}", method.name());
            stage.driver.delete_queue_pair(&queue).await.unwrap();
        }
    });
}
