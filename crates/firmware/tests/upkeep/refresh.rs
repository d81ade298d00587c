//! Refresh: moving data that were read too often, or are too old.

use crate::upkeep::fixture::*;
use byteway_clock::{Delay, Executor};
use byteway_firmware::{Base, Ftl, Maintenance, Refresh};
use byteway_flash::{Flash, Geometry};
use std::time::Duration;

fn refresh(reads: u32, age: Delay) -> Maintenance {
    Maintenance { refresh: Some(Refresh { reads, age }), ..Maintenance::default() }
}

const ONE_DIE: Geometry = Geometry { channels: 1, ..TINY };

// Reads disturb the rest of a superblock: after so many its data must be moved, and only those.
#[test]
fn a_superblock_is_moved_after_so_many_reads() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let upkeep = refresh(100, Delay::from_s(1_000_000));
    let ftl = ftl(&clock, ONE_DIE, timing(), config(96, Base::Filled, upkeep));
    executor
        .run(async move {
            for _ in 0..99 {
                version(&ftl, 30).await;
            }
            clock.sleep(Delay::from_ms(100)).await;
            assert_eq!(ftl.flash().counters().erases, 0);
            version(&ftl, 30).await;
            clock.sleep(Delay::from_ms(100)).await;
            assert_eq!(ftl.flash().counters().erases, 1);
            let counters = ftl.counters();
            assert_eq!((counters.blocks_refreshed, counters.units_programmed_refresh), (1, 24));
            for lpa in 0..96 {
                assert_eq!(version(&ftl, lpa).await, Some(0), "unit {lpa}");
            }
            assert_eq!(ftl.flash().counters().erases, 1);
        })
        .unwrap();
}

// Charge leaks while the power is off: data that are too old at power-on must be rewritten, once.
#[test]
fn what_is_old_is_moved_when_the_power_comes() {
    let config = config(96, Base::Filled, refresh(u32::MAX, Delay::from_s(1000)));
    let mut medium = Ftl::medium(ONE_DIE, &config).unwrap();
    for (pause, refreshed) in [(999, 0), (2, 4), (990, 0), (20, 4)] {
        medium.rest(Duration::from_secs(pause));
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let ftl =
            Ftl::power_on(&clock, placement(&clock), ONE_DIE, timing(), config.clone(), medium).unwrap();
        medium = executor
            .run(async move {
                ftl.ready().await;
                clock.sleep(Delay::from_ms(500)).await;
                let flash: &Flash = ftl.flash();
                assert_eq!(ftl.counters().blocks_refreshed, refreshed, "at {:?}", flash.calendar());
                for lpa in 0..96 {
                    assert_eq!(version(&ftl, lpa).await, Some(0), "unit {lpa}");
                }
                ftl.power_off()
            })
            .unwrap();
    }
}

// Refresh under load must not take the space that host writes wait for, nor lose what is written meanwhile.
#[test]
fn refresh_goes_on_beside_the_host() {
    for seed in 0..12 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let ran =
                check(seed, TINY, timing(), config(2 * 7 * 21, base, refresh(20, Delay::from_ms(200))), 400);
            assert!(ran.counters.blocks_refreshed > 0, "{:?}", ran.counters);
            assert_eq!(ran.lost, 0);
        }
    }
}
