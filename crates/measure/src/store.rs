//! What the stores of a key-value drive did, from two snapshots.

use super::Snapshot;
use crate::summary::{CommitSummary, KvStoreSummary};
use byteway_kv::{KvCounters, KvUsage};
use byteway_scenario::DrivePlan;
use byteway_wire::nvme::vendor::Extension;

/// Between two snapshots, over all namespaces of pairs.
pub fn store(drive: &DrivePlan, begin: &Snapshot, end: &Snapshot) -> KvStoreSummary {
    let sum = |of: fn(&KvCounters) -> u64| {
        let all = |snapshot: &Snapshot| snapshot.pairs.iter().map(|(counters, _)| of(counters)).sum::<u64>();
        all(end).saturating_sub(all(begin))
    };
    let now = |of: fn(&KvUsage) -> u64| end.pairs.iter().map(|(_, usage)| of(usage)).sum::<u64>();
    KvStoreSummary {
        packing: drive.profile.kv.packing.name().to_owned(),
        capacity_bytes: now(|usage| usage.capacity_bytes),
        used_bytes: now(|usage| usage.used_bytes),
        pairs: now(|usage| usage.keys),
        values_stored: sum(|counters| counters.values_stored),
        value_bytes_stored: sum(|counters| counters.value_bytes_stored),
        page_bytes: u64::from(drive.geometry.page_bytes),
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
        commits: drive.profile.offers(Extension::CxlCommit).then(|| CommitSummary {
            records: end.commits.0 - begin.commits.0,
            looks: end.commits.1 - begin.commits.1,
        }),
        log_amplification: None,
        index_amplification: None,
    }
    .amplified()
}
