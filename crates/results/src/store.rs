//! The work of key-value stores, computed from two snapshots of each drive.

use super::{MeasuredDrive, Snapshot};
use crate::summary::{CommitSummary, KvStoreSummary};
use byteway_kv::{KvCounters, KvUsage};
use byteway_wire::nvme::vendor::Extension;

/// The total work of the stores of these key-value drives, over all KV namespaces. `None` if page size or
/// packing differ, because there is no common unit.
pub fn store(drives: &[MeasuredDrive<'_>]) -> Option<KvStoreSummary> {
    let layout =
        |drive: &MeasuredDrive<'_>| (drive.plan.profile.kv.packing.name(), drive.plan.geometry.page_bytes);
    let (packing, page_bytes) = layout(drives.first()?);
    if drives.iter().any(|drive| layout(drive) != (packing, page_bytes)) {
        return None;
    }
    let sum = |of: fn(&KvCounters) -> u64| {
        let all = |snapshot: &Snapshot| snapshot.pairs.iter().map(|(counters, _)| of(counters)).sum::<u64>();
        drives.iter().map(|drive| all(drive.end).saturating_sub(all(drive.begin))).sum::<u64>()
    };
    let now = |of: fn(&KvUsage) -> u64| {
        let pairs = drives.iter().flat_map(|drive| &drive.end.pairs);
        pairs.map(|(_, usage)| of(usage)).sum::<u64>()
    };
    let commits =
        |of: fn(&Snapshot) -> u64| drives.iter().map(|drive| of(drive.end) - of(drive.begin)).sum::<u64>();
    let summary = KvStoreSummary {
        packing: packing.to_owned(),
        capacity_bytes: now(|usage| usage.capacity_bytes),
        used_bytes: now(|usage| usage.used_bytes),
        pairs: now(|usage| usage.keys),
        values_stored: sum(|counters| counters.values_stored),
        value_bytes_stored: sum(|counters| counters.value_bytes_stored),
        page_bytes: u64::from(page_bytes),
        log_pages: sum(|counters| counters.log_pages),
        log_pages_partial: sum(|counters| counters.log_pages_partial),
        log_pages_moved: sum(|counters| counters.log_pages_moved),
        record_units: sum(|counters| counters.record_units),
        index_units_flushed: sum(|counters| counters.index_units_flushed),
        index_units_merged: sum(|counters| counters.index_units_compacted),
        manifest_units: sum(|counters| counters.manifest_units),
        index_units_read: sum(|counters| counters.index_units_read + counters.index_units_merged),
        value_units_read: sum(|counters| counters.value_units_read),
        padding_bytes: sum(|counters| counters.padding_bytes),
        copied_bytes: sum(|counters| counters.bytes_packed),
        compactions: sum(|counters| counters.compactions),
        collections: sum(|counters| counters.collections),
        values_moved: sum(|counters| counters.values_moved),
        stalls: sum(|counters| counters.stalls),
        filter_hits: sum(|counters| counters.filter_hits),
        filter_misses: sum(|counters| counters.filter_misses),
        commits: drives.iter().any(|drive| drive.plan.profile.offers(Extension::CxlCommit)).then(|| {
            CommitSummary { records: commits(|at| at.commits.0), looks: commits(|at| at.commits.1) }
        }),
        log_amplification: None,
        index_amplification: None,
    };
    Some(summary.amplified())
}
