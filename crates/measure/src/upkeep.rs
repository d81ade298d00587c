//! What the drive does beside the host's I/O, over the measured part. Of what it does not do there is nothing.

use super::Snapshot;
use crate::results::Wear;
use crate::summary::{
    BadBlockSummary, MapCacheSummary, ProgramRow, RecoverySummary, RetrySummary, SlcSummary, UpkeepSummary,
    WearSummary,
};
use byteway_console::number::ns;
use byteway_firmware::FtlCounters;
use byteway_scenario::DrivePlan;
use byteway_scenario::profile::MAP_PAGE_BYTES;

/// Between two snapshots of a drive as planned, whose blocks are as worn as `wear` says at the end.
pub fn upkeep(plan: &DrivePlan, begin: &Snapshot, end: &Snapshot, wear: &Wear) -> Option<UpkeepSummary> {
    let flash = &plan.profile.flash;
    let levels = plan.profile.firmware.wear.is_some();
    let has_spare = flash.spare_blocks > 0 || flash.reliability.is_some();
    let map_cache = plan.profile.firmware.map_cache;
    let summary = UpkeepSummary {
        programmed: programmed(begin, end),
        map_cache: map_cache.map(|bytes| map_lookups(bytes.0 / MAP_PAGE_BYTES, begin, end)),
        slc: flash.slc.as_ref().map(|_| slc(begin, end)),
        suspends: flash.suspend.as_ref().map(|_| end.flash.suspends - begin.flash.suspends),
        retry: flash.reliability.as_ref().map(|_| retry(begin, end)),
        bad_blocks: has_spare.then(|| bad_blocks(begin, end)),
        wear: (levels || has_spare || plan.worn.0 > 0.0)
            .then(|| WearSummary::new(wear.blocks, wear.min, wear.mean, wear.max)),
        recovery: (end.ftl.units_recovered > 0).then(|| RecoverySummary {
            time_ns: ns(end.ftl.recovery_time.0),
            units: end.ftl.units_recovered,
        }),
    };
    summary.filled()
}

/// What was programmed, by why; empty if it is all for the host and by the collector.
fn programmed(begin: &Snapshot, end: &Snapshot) -> Vec<ProgramRow> {
    let (then, now) = (&begin.ftl, &end.ftl);
    let host = now.units_programmed_host - then.units_programmed_host;
    let collector = now.units_programmed_collector - then.units_programmed_collector;
    let padding = now.units_programmed_padding - then.units_programmed_padding;
    let others = [
        ("levelling", now.units_programmed_levelling - then.units_programmed_levelling),
        ("refresh", now.units_programmed_refresh - then.units_programmed_refresh),
        ("folding", now.units_programmed_folding - then.units_programmed_folding),
        ("retirement", now.units_programmed_retirement - then.units_programmed_retirement),
        ("map", now.units_programmed_map - then.units_programmed_map),
    ];
    if others.iter().all(|(_, units)| *units == 0) {
        return Vec::new();
    }
    let causes: Vec<_> = [("host", host), ("collector", collector)]
        .into_iter()
        .chain(others)
        .chain([("padding", padding)])
        .collect();
    ProgramRow::all(&causes, now.user_units_written - then.user_units_written)
}

/// Lookups that did not find their page, whether they had to load it or somebody else was about to.
pub(super) fn map_misses(ftl: &FtlCounters) -> u64 {
    ftl.map_misses + ftl.map_misses_shared
}

fn map_lookups(pages: u64, begin: &Snapshot, end: &Snapshot) -> MapCacheSummary {
    let (then, now) = (&begin.ftl, &end.ftl);
    let dirty = now.map_evictions_dirty - then.map_evictions_dirty;
    MapCacheSummary::new(pages, now.map_hits - then.map_hits, map_misses(now) - map_misses(then), dirty)
}

fn slc(begin: &Snapshot, end: &Snapshot) -> SlcSummary {
    SlcSummary {
        units_programmed: end.ftl.units_programmed_cache - begin.ftl.units_programmed_cache,
        units_read: end.flash.units_read_one_bit - begin.flash.units_read_one_bit,
        units_folded: end.ftl.units_programmed_folding - begin.ftl.units_programmed_folding,
    }
}

fn retry(begin: &Snapshot, end: &Snapshot) -> RetrySummary {
    let (then, now) = (&begin.flash, &end.flash);
    let reads = now.reads.iter().sum::<u64>() - then.reads.iter().sum::<u64>();
    let by_retries: Vec<u64> =
        now.reads_retried.iter().zip(&then.reads_retried).map(|(now, then)| now - then).collect();
    let uncorrectable = now.units_uncorrectable - then.units_uncorrectable;
    RetrySummary::new(reads, &by_retries, now.retries - then.retries, uncorrectable)
}

fn bad_blocks(begin: &Snapshot, end: &Snapshot) -> BadBlockSummary {
    BadBlockSummary {
        failed_programs: end.flash.failed_programs - begin.flash.failed_programs,
        failed_erases: end.flash.failed_erases - begin.flash.failed_erases,
        retired: end.ftl.blocks_retired,
        spare_left: end.ftl.blocks_spare,
    }
}
