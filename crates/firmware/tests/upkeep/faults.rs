//! Programs, erases and reads that fail, one by one and by chance, until the drive's end of life.

use crate::upkeep::fixture::*;
use byteway_clock::{Delay, Executor};
use byteway_firmware::{Base, Maintenance, MediaError};
use byteway_flash::{BlockId, Fault, FaultKind, FaultPlan, Geometry};

fn spares(spare_blocks: u32) -> Maintenance {
    Maintenance { spare_blocks, ..Maintenance::default() }
}

fn fault(die: u32, kind: FaultKind, nth: u64) -> Fault {
    Fault { die, kind, nth }
}

// A failed stripe must be placed again, and the rest of its superblock must be moved away; otherwise data are
// lost, or the superblock is trusted again.
#[test]
fn a_failed_program_is_done_again_elsewhere() {
    let executor = Executor::new();
    let one_die = Geometry { channels: 1, ..TINY };
    let faults = FaultPlan::exactly([fault(0, FaultKind::Program, 3)]);
    let ftl =
        ftl(executor.clock(), one_die, with_faults(timing(), faults, 1), config(96, Base::Empty, spares(2)));
    let then = ftl.clone();
    let clock = executor.clock().clone();
    executor
        .run(async move {
            write(&ftl, 0, 12, 1).await.unwrap();
            flush(&ftl).await.unwrap();
            for lpa in 0..12 {
                assert_eq!(version(&ftl, lpa).await, Some(1), "unit {lpa}");
            }
            clock.sleep(Delay::from_ms(100)).await;
            assert!(ftl.flash().is_bad(BlockId(0)));
            assert_eq!(ftl.valid_units(BlockId(0)), (0, false), "the first two stripes have been moved");
            for lpa in 0..12 {
                assert_eq!(version(&ftl, lpa).await, Some(1), "unit {lpa}");
            }
            for round in 2..60 {
                write(&ftl, round % 3 * 30, 30, round as u32).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            assert_eq!(ftl.flash().programmed_stripes(BlockId(0)), 0, "erased, and never programmed again");
        })
        .unwrap();
    let counters = then.counters();
    assert_eq!(
        (counters.program_failures, counters.blocks_retired, counters.units_programmed_retirement),
        (1, 1, 8)
    );
    assert_eq!((then.health().available_spare_percent, then.health().is_read_only), (50, false));
}

// A superblock that cannot be erased must never be programmed.
#[test]
fn a_failed_erase_costs_a_spare() {
    let executor = Executor::new();
    let one_die = Geometry { channels: 1, ..TINY };
    let faults = FaultPlan::exactly([fault(0, FaultKind::Erase, 1), fault(0, FaultKind::Erase, 3)]);
    let ftl =
        ftl(executor.clock(), one_die, with_faults(timing(), faults, 1), config(96, Base::Filled, spares(4)));
    let then = ftl.clone();
    executor
        .run(async move {
            for round in 1..60 {
                write(&ftl, u64::from(round) % 3 * 30, 30, round).await.unwrap();
            }
            flush(&ftl).await.unwrap();
            for lpa in 0..90 {
                assert_eq!(version(&ftl, lpa).await, Some(57 + ((lpa / 30) as u32)), "unit {lpa}");
            }
            let bad = (0..12).filter(|block| ftl.flash().is_bad(BlockId(*block)));
            assert!(bad.clone().all(|block| ftl.flash().programmed_stripes(BlockId(block)) == 0));
            assert_eq!(bad.count(), 2);
        })
        .unwrap();
    assert_eq!((then.counters().erase_failures, then.counters().blocks_spare), (2, 2));
    assert_eq!(then.health().available_spare_percent, 50);
}

/// Overwrites every other unit of a drive, again and again, in an order that leaves no superblock without
/// valid units.
async fn scatter(ftl: &byteway_firmware::Ftl, version: u32) {
    let half = ftl.user_units() / 2;
    for step in 0..half {
        write(ftl, (step * 7 + u64::from(version)) % half * 2, 1, version).await.unwrap();
    }
}

// A unit that a collector cannot read must not be moved as if it had been read: as zeroes it would be wrong,
// and left out it would be an older version.
#[test]
fn what_cannot_be_moved_stays_unreadable() {
    let executor = Executor::new();
    let one_die = Geometry { channels: 1, ..TINY };
    let ftl = ftl(executor.clock(), one_die, timing(), config(180, Base::Filled, spares(0)));
    let then = ftl.clone();
    executor
        .run(async move {
            ftl.flash().inject(FaultPlan { read: 1.0, ..FaultPlan::default() });
            assert_eq!(version(&ftl, 5).await, None, "not read now");
            for round in 1..8 {
                scatter(&ftl, round).await;
            }
            flush(&ftl).await.unwrap();
            ftl.flash().inject(FaultPlan::default());
            let mut lost = Vec::new();
            for lpa in 0..180 {
                match version(&ftl, lpa).await {
                    None => lost.push(lpa),
                    Some(found) => assert_eq!(found, if lpa % 2 == 0 { 7 } else { 0 }, "unit {lpa}"),
                }
            }
            assert!(ftl.counters().units_lost as usize >= lost.len() && !lost.is_empty());
            write(&ftl, lost[0], 1, 99).await.unwrap();
            assert_eq!(version(&ftl, lost[0]).await, Some(99), "written again it is as good as new");
        })
        .unwrap();
    assert!(then.health().unreadable > 1);
}

// One failure is not the end of a unit: a second read often succeeds.
#[test]
fn a_collector_looks_twice() {
    let executor = Executor::new();
    let one_die = Geometry { channels: 1, ..TINY };
    let faults = FaultPlan::exactly([fault(0, FaultKind::Read, 1), fault(0, FaultKind::Read, 4)]);
    let ftl = ftl(
        executor.clock(),
        one_die,
        with_faults(timing(), faults, 1),
        config(180, Base::Filled, spares(0)),
    );
    let then = ftl.clone();
    executor
        .run(async move {
            for round in 1..8 {
                scatter(&ftl, round).await;
            }
            flush(&ftl).await.unwrap();
            for lpa in 0..180 {
                assert_eq!(version(&ftl, lpa).await, Some(if lpa % 2 == 0 { 7 } else { 0 }), "unit {lpa}");
            }
        })
        .unwrap();
    assert_eq!(then.counters().units_lost, 0);
    assert!(then.flash().counters().failed >= 2);
}

// Whatever fails, a read returns the last write or an error; and a drive at its end of life reports so and
// stays readable.
#[test]
fn nothing_wrong_is_read_whatever_fails() {
    let mut ends = 0;
    for seed in 0..40 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let faults = FaultPlan {
                read: if seed % 2 == 0 { 0.02 } else { 0.0 },
                program: 0.004 * f64::from(seed as u32 % 4),
                erase: 0.01 * f64::from(seed as u32 % 3),
                ..FaultPlan::default()
            };
            let config = config(2 * 6 * 20, base, spares(seed as u32 % 4));
            let ran = check(seed, TINY, with_faults(timing(), faults, seed), config, 500);
            assert!(ran.lost == 0 || seed % 2 == 0, "seed {seed}");
            assert!(ran.counters.units_lost as usize >= ran.lost, "seed {seed}");
            ends += u32::from(ran.health.is_read_only);
        }
    }
    assert!((20..100).contains(&ends), "{ends} drives came to their end");
}

// A failed program destroys the earlier stripes of its wordline: their units must stay buffered until then.
#[test]
fn a_failure_takes_its_wordline_along() {
    for seed in 0..40 {
        for base in [Base::Empty, Base::Filled, Base::Steady] {
            let faults = FaultPlan { program: 0.01, erase: 0.005, ..FaultPlan::default() };
            let config = config(2 * 5 * 13, base, spares(3));
            let config = byteway_firmware::FtlConfig { plp: seed % 2 == 1, ..config };
            let ran = check(seed, TINY, with_faults(three_bits(), faults, seed), config, 400);
            assert_eq!(ran.lost, 0, "seed {seed}");
        }
    }
}

// The same without a unit to spare: moving failed data must not take the space that garbage collection needs.
#[test]
fn a_full_drive_survives_failures() {
    for seed in 0..30 {
        let faults = FaultPlan { program: 0.002, erase: 0.002, ..FaultPlan::default() };
        let most = (12 - 3 - 3) * 21;
        let full = config(2 * most, Base::Filled, spares(3));
        check(seed, TINY, with_faults(timing(), faults.clone(), seed), full, 400);
        let one_unit = Geometry { channels: 1, planes: 1, page_bytes: 4096, ..TINY };
        check(
            seed,
            one_unit,
            with_faults(timing(), faults, seed),
            config(6 * 6, Base::Empty, spares(3)),
            400,
        );
    }
}

// Everything fails: the drive must reach its end of life at once and answer, neither loop nor hang.
#[test]
fn when_everything_fails_it_answers() {
    for (program, erase) in [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.3, 0.3)] {
        for seed in 0..6 {
            let faults = FaultPlan { program, erase, ..FaultPlan::default() };
            let ran = check(
                seed,
                TINY,
                with_faults(timing(), faults, seed),
                config(2 * 6 * 20, Base::Filled, spares(2)),
                300,
            );
            assert!(ran.health.is_read_only);
            assert_eq!((ran.health.available_spare_percent, ran.lost), (0, 0));
        }
    }
}

// A host that waits for space when the last spare goes must get an error; so must one that flushes.
#[test]
fn who_waits_at_the_end_is_told() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, TINY, timing(), config(2 * 6 * 20, Base::Filled, spares(1)));
    executor
        .run(async move {
            ftl.flash().inject(FaultPlan { program: 1.0, ..FaultPlan::default() });
            let mut failed = 0;
            for round in 1..10 {
                failed += u32::from(write(&ftl, 0, 100, round).await == Err(MediaError::WriteProtected));
            }
            assert!(failed >= 9 - 1, "{failed}");
            assert_eq!(flush(&ftl).await, Err(MediaError::WriteProtected));
            assert_eq!(ftl.trim(SPAN, &Default::default(), 0, 1).await, Err(MediaError::WriteProtected));
            assert!(ftl.health().is_read_only);
            for lpa in 100..240 {
                assert_eq!(version(&ftl, lpa).await, Some(0));
            }
            clock.sleep(Delay::from_s(1)).await;
        })
        .unwrap();
}

// Factory-bad superblocks must not be used, nor count as lost.
#[test]
fn bad_ones_from_the_factory_are_left_alone() {
    for seed in 0..6 {
        let upkeep = Maintenance { spare_blocks: 4, factory_bad_blocks: 3, ..Maintenance::default() };
        let config = byteway_firmware::FtlConfig { seed, ..config(2 * 5 * 20, Base::Steady, upkeep) };
        let ran = check(seed, TINY, timing(), config, 300);
        assert_eq!((ran.health.available_spare_percent, ran.counters.blocks_retired), (100, 0));
        assert!(ran.counters.blocks_spare <= 8);
    }
}
