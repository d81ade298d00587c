//! Purges of a drive whose flash fails.

use crate::upkeep::fixture::*;
use byteway_clock::Executor;
use byteway_firmware::{Base, Ftl, Maintenance, MediaError};
use byteway_flash::{BlockId, Fault, FaultKind, FaultPlan, Geometry};

const ONE_DIE: Geometry = Geometry { channels: 1, ..TINY };

/// Writes a drive with two spare superblocks a die, deallocates all of it or every other unit, and purges it
/// with failing flash.
fn purged(geometry: Geometry, keeps_half: bool, faults: FaultPlan) -> (Result<(), MediaError>, Ftl) {
    let executor = Executor::new();
    let upkeep = Maintenance { spare_blocks: 2, ..Maintenance::default() };
    let units = 96 * u64::from(geometry.dies());
    let ftl = ftl(executor.clock(), geometry, timing(), config(units, Base::Empty, upkeep));
    let then = ftl.clone();
    let result = executor.run(async move {
        for round in 1..4 {
            write(&ftl, 0, units, round).await.unwrap();
        }
        let (step, count) = if keeps_half { (2, 1) } else { (units, units) };
        for first in (0..units).step_by(step as usize) {
            ftl.trim(SPAN, &Default::default(), first, count).await.unwrap();
        }
        flush(&ftl).await.unwrap();
        ftl.flash().inject(faults);
        let result = ftl.purge(|done| assert!(done <= 100)).await;
        ftl.flash().inject(FaultPlan::default());
        for lpa in 0..units {
            let expected = if keeps_half && lpa % 2 == 1 { 3 } else { u32::MAX };
            assert_eq!(version(&ftl, lpa).await, Some(expected), "unit {lpa}");
        }
        result
    });
    (result.unwrap_or_else(|stalled| panic!("it waits for what can't come: {stalled}")), then)
}

// A superblock whose erase failed may hold deallocated data: unless it is erased again, a purge that reports
// success lies.
#[test]
fn what_failed_is_erased_again() {
    let erase = |nth| Fault { die: 0, kind: FaultKind::Erase, nth };
    let (result, ftl) = purged(ONE_DIE, false, FaultPlan::exactly([erase(1), erase(3)]));
    assert_eq!(result, Ok(()));
    assert_eq!(ftl.counters().erase_failures, 2);
    let blocks = (0..ONE_DIE.total_blocks()).map(BlockId);
    let is_empty = |block| !ftl.flash().is_unstable(block) && ftl.flash().programmed_stripes(block) == 0;
    assert!(blocks.clone().all(is_empty));
    assert_eq!(blocks.filter(|block| ftl.flash().is_bad(*block)).count(), 2, "it is out of use all the same");
}

// A purge that reported success although nothing could be erased would have the drive sold with its data.
#[test]
fn what_cannot_be_erased_is_told() {
    for geometry in [ONE_DIE, TINY] {
        let (result, ftl) = purged(geometry, false, FaultPlan { erase: 1.0, ..FaultPlan::default() });
        assert_eq!(result, Err(MediaError::NotErased));
        assert!(ftl.health().is_read_only);
    }
}

// Without spares no superblock can be emptied any more: a purge must not wait for that indefinitely.
#[test]
fn a_purge_ends_with_the_spares() {
    for geometry in [ONE_DIE, TINY] {
        let (result, ftl) = purged(geometry, true, FaultPlan { program: 1.0, ..FaultPlan::default() });
        assert_eq!(result, Err(MediaError::NotErased));
        assert!(ftl.health().is_read_only);
    }
    let mut ends = 0;
    for seed in 1..30 {
        let exact = (0..20).map(|nth| Fault { die: 0, kind: FaultKind::Program, nth: 1 + nth * seed });
        let (result, ftl) = purged(TINY, true, FaultPlan::exactly(exact));
        ends += u32::from(result.is_err());
        assert!(result.is_ok() || ftl.health().is_read_only, "{seed}");
    }
    assert!((1..29).contains(&ends), "{ends}");
}
