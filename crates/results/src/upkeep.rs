//! Background work of drives over the measured part. Mechanisms that a drive lacks are omitted.

use super::{MeasuredDrive, Snapshot};
use crate::summary::{
    BadBlockSummary, MapCacheSummary, ProgramRow, ReadCacheSummary, RecoverySummary, RetrySummary,
    SlcSummary, UpkeepSummary, WearSummary,
};
use byteway_firmware::FtlCounters;
use byteway_scenario::DrivePlan;
use byteway_scenario::profile::MAP_PAGE_BYTES;
use byteway_text::number::{ns, ratio};

/// The total background work of these drives; each part covers the drives that have the mechanism.
pub fn upkeep(drives: &[MeasuredDrive<'_>]) -> Option<UpkeepSummary> {
    let summary = UpkeepSummary {
        programmed: programmed(drives),
        map_cache: those(drives, |plan| plan.profile.firmware.map_cache.is_some())
            .map(|drives| map_lookups(&drives)),
        read_cache: those(drives, |plan| plan.profile.firmware.read_cache.is_some())
            .map(|drives| read_cache(&drives)),
        slc: those(drives, |plan| plan.profile.flash.slc.is_some()).map(|drives| slc(&drives)),
        suspends: those(drives, |plan| plan.profile.flash.suspend.is_some())
            .map(|drives| counted(&drives, |at| at.flash.suspends)),
        retry: those(drives, |plan| plan.profile.flash.reliability.is_some()).map(|drives| retry(&drives)),
        bad_blocks: those(drives, has_spare).map(|drives| bad_blocks(&drives)),
        wear: those(drives, wears).map(|drives| wear(&drives)),
        recovery: recovery(drives),
    };
    summary.filled()
}

fn has_spare(plan: &DrivePlan) -> bool {
    plan.profile.flash.spare_blocks > 0 || plan.profile.flash.reliability.is_some()
}

fn wears(plan: &DrivePlan) -> bool {
    plan.profile.firmware.wear.is_some() || has_spare(plan) || plan.worn.0 > 0.0
}

/// The drives that have a mechanism; `None` if there are none.
fn those<'a>(
    drives: &[MeasuredDrive<'a>],
    has: impl Fn(&DrivePlan) -> bool,
) -> Option<Vec<MeasuredDrive<'a>>> {
    let found: Vec<_> = drives.iter().filter(|drive| has(drive.plan)).copied().collect();
    (!found.is_empty()).then_some(found)
}

/// The increase of a counter between the snapshots, summed over the drives.
fn counted(drives: &[MeasuredDrive<'_>], of: impl Fn(&Snapshot) -> u64) -> u64 {
    drives.iter().map(|drive| of(drive.end) - of(drive.begin)).sum()
}

/// Units programmed by cause; empty if there are only the host's writes and garbage collection.
fn programmed(drives: &[MeasuredDrive<'_>]) -> Vec<ProgramRow> {
    let units = |of: fn(&FtlCounters) -> u64| counted(drives, |at| of(&at.ftl));
    let others = [
        ("levelling", units(|ftl| ftl.units_programmed_levelling)),
        ("refresh", units(|ftl| ftl.units_programmed_refresh)),
        ("folding", units(|ftl| ftl.units_programmed_folding)),
        ("retirement", units(|ftl| ftl.units_programmed_retirement)),
        ("map", units(|ftl| ftl.units_programmed_map)),
    ];
    if others.iter().all(|(_, units)| *units == 0) {
        return Vec::new();
    }
    let host = ("host", units(|ftl| ftl.units_programmed_host));
    let collector = ("collector", units(|ftl| ftl.units_programmed_collector));
    let padding = ("padding", units(|ftl| ftl.units_programmed_padding));
    let causes: Vec<_> = [host, collector].into_iter().chain(others).chain([padding]).collect();
    ProgramRow::all(&causes, counted(drives, |at| at.host_bytes))
}

/// Lookups that missed, whether they loaded the page or waited for another lookup to load it.
pub(super) fn map_misses(ftl: &FtlCounters) -> u64 {
    ftl.map_misses + ftl.map_misses_shared
}

fn map_lookups(drives: &[MeasuredDrive<'_>]) -> MapCacheSummary {
    let pages = |drive: &MeasuredDrive<'_>| {
        drive.plan.profile.firmware.map_cache.map_or(0, |bytes| bytes.0 / MAP_PAGE_BYTES)
    };
    MapCacheSummary::new(
        drives.iter().map(pages).sum(),
        counted(drives, |at| at.ftl.map_hits),
        counted(drives, |at| map_misses(&at.ftl)),
        counted(drives, |at| at.ftl.map_evictions_dirty),
        those(drives, |plan| plan.profile.firmware.host_buffer.is_some())
            .map(|drives| counted(&drives, |at| at.ftl.map_copies_loaded)),
    )
}

fn read_cache(drives: &[MeasuredDrive<'_>]) -> ReadCacheSummary {
    let hits = counted(drives, |at| at.ftl.units_read_from_cache);
    // Both are counted in the same instant: a read that has begun, and waits, is in neither.
    let misses = counted(drives, |at| at.ftl.units_not_in_cache);
    let reading_ahead = those(drives, |plan| !plan.policies.prefetch.is_default());
    let ahead =
        |of: fn(&FtlCounters) -> u64| reading_ahead.as_ref().map(|drives| counted(drives, |at| of(&at.ftl)));
    ReadCacheSummary {
        hits,
        misses,
        hit_ratio: ratio(hits.into(), (hits + misses).into()),
        read_ahead: ahead(|ftl| ftl.units_read_ahead),
        read_ahead_used: ahead(|ftl| ftl.units_read_ahead_used),
    }
}

fn slc(drives: &[MeasuredDrive<'_>]) -> SlcSummary {
    SlcSummary {
        units_programmed: counted(drives, |at| at.ftl.units_programmed_cache),
        units_read: counted(drives, |at| at.flash.units_read_one_bit),
        units_folded: counted(drives, |at| at.ftl.units_programmed_folding),
    }
}

fn retry(drives: &[MeasuredDrive<'_>]) -> RetrySummary {
    let kinds = drives.first().map_or(0, |drive| drive.end.flash.reads_retried.len());
    let by_retries: Vec<u64> =
        (0..kinds).map(|kind| counted(drives, |at| at.flash.reads_retried[kind])).collect();
    RetrySummary::new(
        counted(drives, |at| at.flash.reads.iter().sum()),
        &by_retries,
        counted(drives, |at| at.flash.retries),
        counted(drives, |at| at.flash.units_uncorrectable),
    )
}

fn bad_blocks(drives: &[MeasuredDrive<'_>]) -> BadBlockSummary {
    let now = |of: fn(&FtlCounters) -> u64| drives.iter().map(|drive| of(&drive.end.ftl)).sum();
    BadBlockSummary {
        failed_programs: counted(drives, |at| at.flash.failed_programs),
        failed_erases: counted(drives, |at| at.flash.failed_erases),
        retired: now(|ftl| ftl.blocks_retired),
        spare_left: now(|ftl| ftl.blocks_spare),
    }
}

/// The lowest and highest erase count of any superblock, and the mean of all.
fn wear(drives: &[MeasuredDrive<'_>]) -> WearSummary {
    let all = || drives.iter().map(|drive| drive.wear);
    let blocks = all().map(|wear| wear.blocks).sum();
    // A drive's mean has six decimals, so this is an integer.
    let millionths = |mean: f64| (mean * 1e6).round() as u128;
    let erases: u128 = all().map(|wear| millionths(wear.mean) * u128::from(wear.blocks)).sum();
    WearSummary::new(
        blocks,
        all().map(|wear| wear.min).min().unwrap_or(0),
        ratio(erases, u128::from(blocks) * 1_000_000),
        all().map(|wear| wear.max).max().unwrap_or(0),
    )
}

/// Maximum recovery time and total of recovered units, over the drives that recovered state.
fn recovery(drives: &[MeasuredDrive<'_>]) -> Option<RecoverySummary> {
    let recovered = || drives.iter().map(|drive| &drive.end.ftl).filter(|ftl| ftl.units_recovered > 0);
    let slowest = recovered().map(|ftl| ftl.recovery_time).max()?;
    Some(RecoverySummary { time_ns: ns(slowest.0), units: recovered().map(|ftl| ftl.units_recovered).sum() })
}
