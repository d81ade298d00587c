//! Waits for completions: when the waiter is woken, how often, and by what.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Delay, Executor, Timing};
use byteway_link::{DeviceEnd, Generation, HostEnd, Link, Memory, PcieConfig};
use std::cell::Cell;
use std::rc::Rc;

fn connect(executor: &Executor) -> (HostEnd, DeviceEnd, u64) {
    let config = PcieConfig {
        generation: Generation::Gen2,
        lanes: 8,
        mps: 256,
        mrrs: 512,
        rcb: 64,
        read_tags: 8,
        propagation: Delay::from_ns(100),
        memory_latency: Delay::from_ns(150),
        slowdown: 1,
    };
    let (host, device) = Link::connect(executor.clock(), config, Memory::simulated());
    let ring = host.memory().allocate(2).unwrap();
    (host, device, ring)
}

// A task between a completion and its reaper would cost a poll for each.
#[test]
fn a_completion_wakes_its_waiter_and_no_other_task() {
    let executor = Executor::new();
    let (host, device, ring) = connect(&executor);
    let watch = host.watch(ring, 4096);
    executor
        .run(async move {
            let clock = host.clock().clone();
            clock.sleep(Delay::from_us(1)).await; // every task has had its first poll
            let passage = device.post(ring, [7; 16]).unwrap();
            let before = clock.counters();
            watch.notified().await;
            assert_eq!(clock.now(), passage.arrival);
            assert_eq!(host.memory().load_entry(ring), Ok([7; 16]));
            clock.sleep(Delay::from_us(1)).await;
            let after = clock.counters();
            // The waiter is woken at the arrival and at the end of the sleep, once each.
            assert_eq!((after.polls - before.polls, after.timers - before.timers), (2, 2));
        })
        .unwrap();
}

// Completions before the wait, during it and close together: none may be missed, and none seen twice.
#[test]
fn no_completion_is_missed() {
    for timing in [Timing::Model, Timing::None] {
        let executor = Executor::new();
        executor.set_timing(timing);
        let (host, device, ring) = connect(&executor);
        let clock = executor.clock().clone();
        let seen = Rc::new(Cell::new(0));
        let (reaper, count) = (host.clone(), seen.clone());
        let watch = host.watch(ring, 4096);
        // Another queue, without a watch: its completions arrive nevertheless.
        let other = ring + 4096;
        clock.spawn("reaper", async move {
            loop {
                watch.notified().await;
                while reaper.memory().load_entry(ring + count.get() % 256 * 16).unwrap() != [0; 16] {
                    count.set(count.get() + 1);
                    reaper.clock().sleep(Delay::from_ns(130)).await;
                }
            }
        });
        executor
            .run(async move {
                for index in 0..200 {
                    device.post(ring + index * 16, [1; 16]).unwrap();
                    if index % 3 == 0 {
                        device.post(other, [index as u8 + 1; 16]).unwrap();
                    }
                    // From zero to more than a crossing takes, in every phase of the reaper.
                    clock.sleep(Delay::from_ns(index * 37 % 400)).await;
                    if index % 50 == 49 {
                        host.land_posted_writes();
                    }
                }
                clock.sleep(Delay::from_us(100)).await;
                while seen.get() < 200 && timing == Timing::None {
                    clock.yield_now().await;
                }
                assert_eq!(seen.get(), 200, "{timing:?}");
                assert_eq!(host.memory().load_entry(other), Ok([199; 16]));
            })
            .unwrap();
    }
}
