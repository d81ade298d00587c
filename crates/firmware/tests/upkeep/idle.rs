//! Garbage collection while the host is idle.

use crate::upkeep::fixture::*;
use byteway_clock::{Delay, Executor};
use byteway_firmware::{Background, Base, Maintenance};

fn idle(us: u64, free_blocks: u32) -> Maintenance {
    Maintenance {
        background: Some(Background { idle: Delay::from_us(us), free_blocks }),
        ..Maintenance::default()
    }
}

// Space made while idle serves the next burst of writes; a host that comes must not wait for it.
#[test]
fn an_idle_drive_makes_room_and_stops_when_the_host_comes() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, TINY, timing(), config(2 * 6 * 21, Base::Filled, idle(1000, 5)));
    executor
        .run(async move {
            let free = || ftl.counters().blocks_free;
            for step in 0..400 {
                write(&ftl, step * 11 % 252, 1, step as u32 + 1).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            let before = free();
            assert!(before <= 2 * 3, "{before} free under load");
            clock.sleep(Delay::from_us(900)).await;
            assert_eq!(ftl.counters().blocks_collected_idle, 0, "not idle yet");
            // The host comes just before, and again and again: it is never idle.
            for _ in 0..20 {
                assert!(version(&ftl, 3).await.is_some());
                clock.sleep(Delay::from_us(900)).await;
            }
            assert_eq!(ftl.counters().blocks_collected_idle, 0, "the host was not idle");
            clock.sleep(Delay::from_ms(8)).await;
            let some = ftl.flash().counters().erases;
            version(&ftl, 3).await;
            clock.sleep(Delay::from_us(500)).await;
            for _ in 0..400 {
                version(&ftl, 3).await;
                clock.sleep(Delay::from_us(500)).await;
            }
            assert!(ftl.flash().counters().erases <= some + 2, "what was at work, and no more");
            assert!(free() < 10);
            clock.sleep(Delay::from_s(1)).await;
            assert!(
                (9..=10).contains(&free()),
                "five in each die, but for a victim that waits for its last units: {}",
                free()
            );
            assert!(ftl.counters().blocks_collected_idle > 0);
            for step in 148..400 {
                assert_eq!(version(&ftl, step * 11 % 252).await, Some(step as u32 + 1));
            }
        })
        .unwrap();
}

// A drive that is only read must stay as it was: measurements on it would describe something else.
#[test]
fn a_drive_never_written_to_stays_as_it_was() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, TINY, timing(), config(2 * 6 * 21, Base::Steady, idle(10, 8)));
    executor
        .run(async move {
            for lpa in 0..100 {
                version(&ftl, lpa).await;
            }
            clock.sleep(Delay::from_s(1)).await;
            assert_eq!(ftl.flash().counters().erases, 0);
            write(&ftl, 0, 1, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            clock.sleep(Delay::from_s(1)).await;
            assert!(ftl.counters().blocks_collected_idle > 0);
        })
        .unwrap();
}

// More may be requested than is possible: the window must end nevertheless, and lose nothing.
#[test]
fn it_ends_whatever_is_asked_for() {
    for seed in 0..12 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            check(seed, TINY, timing(), config(2 * 8 * 21, base, idle(50 * seed, u32::MAX)), 400);
        }
    }
}
