//! The key-value part of the summary: operations by kind, and the work of the drive's store.

use std::fmt::Write as _;

use byteway_host::LossFigures;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::{KindSummary, latency_cells, latency_table, per_second};
use byteway_text::number::{ns, ratio};
use byteway_text::table::grouped;
use byteway_text::table::{Cell, Column, Printout, Quantity, TextTable, bytes, number};

/// Key-value statistics of the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvSummary {
    /// Operations of each job, by kind.
    pub operations: Vec<OperationRow>,
    /// Jobs that batched their stores in host memory; omitted if none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<BulkRow>,
    /// The work of the drive's store; `None` if another process serves the drive, or if several drives differ
    /// in page size or packing.
    pub store: Option<KvStoreSummary>,
}

/// A job that batched its stores, and its loss window: key-value pairs that were acknowledged, but not yet on
/// the drive, and so are lost if the host crashes. Means are over time, except for the time of a pair in the
/// window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BulkRow {
    /// Name of the job.
    pub job: String,
    /// Number of bulk commands.
    pub batches: u64,
    /// Mean number of key-value pairs in a batch.
    pub pairs_per_batch: f64,
    /// Mean number of key-value pairs in the loss window.
    pub loss_pairs_mean: f64,
    /// Maximum number of key-value pairs in the loss window.
    pub loss_pairs_max: u64,
    /// Mean bytes of keys and values in the loss window.
    pub loss_bytes_mean: f64,
    /// Maximum bytes of keys and values in the loss window.
    pub loss_bytes_max: u64,
    /// Mean time of a key-value pair in the loss window, over those that entered it, in nanoseconds.
    pub loss_time_mean_ns: f64,
    /// Maximum time of a key-value pair in the loss window, in nanoseconds.
    pub loss_time_max_ns: f64,
    /// Key-value pairs that were acknowledged and are lost, because their command failed.
    pub lost: u64,
}

impl BulkRow {
    /// The row of a job.
    pub fn new(job: &str, figures: &LossFigures) -> BulkRow {
        let elapsed = u128::from(figures.elapsed.0);
        BulkRow {
            job: job.to_owned(),
            batches: figures.batches,
            pairs_per_batch: ratio(figures.batch_pairs.into(), figures.batches.into()),
            loss_pairs_mean: ratio(figures.pair_time, elapsed),
            loss_pairs_max: figures.pairs_max,
            loss_bytes_mean: ratio(figures.byte_time, elapsed),
            loss_bytes_max: figures.bytes_max,
            loss_time_mean_ns: ratio(figures.landed_time, u128::from(figures.landed) * 1000),
            loss_time_max_ns: ns(figures.time_max.0),
            lost: figures.lost,
        }
    }

    /// The table of bulk PUT by job.
    pub fn table(rows: &[BulkRow]) -> TextTable {
        let mut table = TextTable::new([
            Column::text("job"),
            Column::count("commands"),
            Column::of("pairs of one", Quantity::Number).rank(3),
            Column::of("pairs, mean", Quantity::Number),
            Column::count("most pairs").rank(4),
            Column::of("bytes, mean", Quantity::Bytes),
            Column::of("most bytes", Quantity::Bytes).same_unit().rank(1),
            Column::of("time, mean", Quantity::Time),
            Column::of("longest", Quantity::Time).same_unit().rank(2),
            Column::count("lost"),
        ]);
        for row in rows {
            table.row([
                row.job.as_str().into(),
                row.batches.into(),
                row.pairs_per_batch.into(),
                row.loss_pairs_mean.into(),
                row.loss_pairs_max.into(),
                row.loss_bytes_mean.into(),
                (row.loss_bytes_max as f64).into(),
                row.loss_time_mean_ns.into(),
                row.loss_time_max_ns.into(),
                row.lost.into(),
            ]);
        }
        table
    }
}

/// Title of the table of loss windows.
pub const BULK_TITLE: &str = "Bulk PUT: acknowledged pairs not on the drive yet, lost if the host crashes";

/// Operations of one kind of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationRow {
    /// Name of the job.
    pub job: String,
    /// The kind: `store`, `retrieve`, ...
    pub operation: String,
    /// Operations that found no key-value pair for their key.
    pub missing: u64,
    /// Key-value pairs that scans visited.
    pub pairs: u64,
    /// Number, bytes and latency; of scans, from the first command to the last completion.
    #[serde(flatten)]
    pub figures: KindSummary,
}

/// The work of a store. Pages are flash pages; a unit has 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KvStoreSummary {
    /// Packing of values: `none`, `all`, `selective`, `backfill`.
    pub packing: String,
    /// Capacity for key-value pairs at the end, in bytes, including their index and records.
    pub capacity_bytes: u64,
    /// Used part of the capacity; overwritten pairs may count twice until they are merged.
    pub used_bytes: u64,
    /// Key-value pairs at the end, with the same reservation.
    pub pairs: u64,
    /// Number of values stored.
    pub values_stored: u64,
    /// Bytes of the values stored.
    pub value_bytes_stored: u64,
    /// Bytes of a flash page.
    pub page_bytes: u64,
    /// Pages of the value log programmed for stored values.
    pub log_pages: u64,
    /// Pages among these that were programmed before they were full.
    pub log_pages_partial: u64,
    /// Pages of the value log programmed by garbage collection.
    pub log_pages_moved: u64,
    /// Units of records outside the value log.
    pub record_units: u64,
    /// Units of the index programmed by flushing the memtable.
    pub index_units_flushed: u64,
    /// Units of the index programmed by compaction.
    pub index_units_merged: u64,
    /// Units of the manifest programmed.
    pub manifest_units: u64,
    /// Units of the index read by look-ups and compaction.
    pub index_units_read: u64,
    /// Units of values read for the host.
    pub value_units_read: u64,
    /// Bytes of padding between values.
    pub padding_bytes: u64,
    /// Bytes that the processor copied into place.
    pub copied_bytes: u64,
    /// Compactions of the index.
    pub compactions: u64,
    /// Garbage collections of the value log.
    pub collections: u64,
    /// Values that garbage collection moved.
    pub values_moved: u64,
    /// Stores that waited for free space.
    pub stalls: u64,
    /// Table look-ups avoided by a filter.
    pub filter_hits: u64,
    /// Look-ups in tables that did not contain the key.
    pub filter_misses: u64,
    /// Key-value pairs stored by commit records, without a command; omitted for a drive without a commit
    /// ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitSummary>,
    /// Bytes of the value log programmed per byte stored, including records; `None` if nothing was stored.
    pub log_amplification: Option<f64>,
    /// Bytes of the index programmed per byte flushed; `None` if nothing was flushed.
    pub index_amplification: Option<f64>,
}

/// Commit record statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitSummary {
    /// Commit records that the drive answered.
    pub records: u64,
    /// Polls for commit records. The core time of polls that find none is not part of any utilisation.
    pub looks: u64,
}

/// Bytes of a unit.
const UNIT: u64 = 4096;

impl KvStoreSummary {
    /// Computes both amplifications from the other figures.
    pub fn amplified(self) -> Self {
        let log = (self.log_pages + self.log_pages_moved) * self.page_bytes + self.record_units * UNIT;
        let index = self.index_units_flushed + self.index_units_merged;
        let of = |part: u64, whole: u64| (whole > 0).then(|| ratio(part.into(), whole.into()));
        KvStoreSummary {
            log_amplification: of(log, self.value_bytes_stored),
            index_amplification: of(index, self.index_units_flushed),
            ..self
        }
    }

    /// Flash pages programmed for the index, including its manifest.
    pub fn index_pages(&self) -> u64 {
        let units = self.index_units_flushed + self.index_units_merged + self.manifest_units;
        units.div_ceil((self.page_bytes / UNIT).max(1))
    }

    /// Flash pages programmed for the value log, including its records.
    pub fn log_pages_all(&self) -> u64 {
        let records = self.record_units.div_ceil((self.page_bytes / UNIT).max(1));
        self.log_pages + self.log_pages_moved + records
    }

    /// Names and values, for tables.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let bytes = |count: u64| bytes(count as f64);
        let amplification = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), number);
        let commits = self.commits.map(|commits| {
            let counts = format!("{}, {}", grouped(commits.records), grouped(commits.looks));
            ("commit records, polls by the drive", counts)
        });
        let rows = vec![
            ("packing", self.packing.clone()),
            ("pairs (estimate)", grouped(self.pairs)),
            ("used (estimate)", format!("{} of {}", bytes(self.used_bytes), bytes(self.capacity_bytes))),
            ("values stored", format!("{}, {}", grouped(self.values_stored), bytes(self.value_bytes_stored))),
            ("value log: pages programmed", grouped(self.log_pages)),
            ("  of them before they were full", grouped(self.log_pages_partial)),
            ("  for garbage collection", grouped(self.log_pages_moved)),
            ("  units of records", grouped(self.record_units)),
            ("  padding", bytes(self.padding_bytes)),
            ("  copied by the processor", bytes(self.copied_bytes)),
            ("  bytes programmed per byte stored", amplification(self.log_amplification)),
            ("index: pages programmed", grouped(self.index_pages())),
            ("  units first written", grouped(self.index_units_flushed)),
            ("  units by compaction", grouped(self.index_units_merged)),
            ("  units of the manifest", grouped(self.manifest_units)),
            ("  bytes programmed per byte first written", amplification(self.index_amplification)),
            ("units read: index", grouped(self.index_units_read)),
            ("units read: values", grouped(self.value_units_read)),
            ("look-ups avoided by filters", grouped(self.filter_hits)),
            ("look-ups without a match", grouped(self.filter_misses)),
            (
                "compactions, segments collected",
                format!("{}, {}", grouped(self.compactions), grouped(self.collections)),
            ),
            ("values moved", grouped(self.values_moved)),
            ("stores that waited for space", grouped(self.stalls)),
        ];
        rows.into_iter().chain(commits).collect()
    }
}

impl KvSummary {
    pub(super) fn write_tables(&self, out: &mut Printout) {
        out.section("Operations", &self.operations());
        out.section("Latency of operations", &self.latency());
        out.section(BULK_TITLE, &BulkRow::table(&self.bulk));
        self.write_store(out);
        let missing: u64 = self.operations.iter().map(|row| row.missing).sum();
        if missing > 0 {
            let _ = writeln!(out, "\n{} operations did not find their key", grouped(missing));
        }
    }

    /// Writes the table of the store.
    pub(super) fn write_store(&self, out: &mut Printout) {
        if let Some(store) = &self.store {
            let mut table = TextTable::new([Column::text("the store"), Column::count("")]);
            store.rows().into_iter().for_each(|(name, value)| table.row([name.into(), value.into()]));
            out.section("Key-value pairs in flash (pages of flash, units of 4 KiB)", &table);
        }
    }

    /// The table of operations: number and rate.
    pub fn operations(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("job"),
            Column::text(""),
            Column::count("operations"),
            Column::count("per second"),
            Column::of("values", Quantity::Rate),
            Column::count("no such key").rank(1),
            Column::count("pairs").rank(2),
        ]);
        for row in &self.operations {
            let figures = &row.figures;
            let count = |count: u64| Cell::from((count > 0).then_some(count));
            table.row([
                row.job.as_str().into(),
                row.operation.as_str().into(),
                figures.ios.into(),
                per_second(figures.iops).into(),
                figures.bytes_per_second.into(),
                count(row.missing),
                count(row.pairs),
            ]);
        }
        table
    }

    /// The table of operations: latency.
    pub fn latency(&self) -> TextTable {
        let mut table = latency_table(["job", ""]);
        for row in &self.operations {
            let words = [row.job.as_str().into(), row.operation.as_str().into()];
            table.row(words.into_iter().chain(latency_cells(&row.figures.latency)));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Write amplification by hand: 10 pages of 16 KiB and 2 units of records for 100,000 B; 3 units compacted
    // after 6 were flushed.
    #[test]
    fn amplification_counts_what_was_programmed() {
        let store = KvStoreSummary {
            value_bytes_stored: 100_000,
            page_bytes: 16384,
            log_pages: 9,
            log_pages_moved: 1,
            record_units: 2,
            index_units_flushed: 6,
            index_units_merged: 3,
            manifest_units: 1,
            ..KvStoreSummary::default()
        }
        .amplified();
        assert_eq!(store.log_amplification, Some(1.72032));
        assert_eq!(store.index_amplification, Some(1.5));
        assert_eq!((store.index_pages(), store.log_pages_all()), (3, 11));
        let empty = KvStoreSummary::default().amplified();
        assert_eq!((empty.log_amplification, empty.index_amplification), (None, None));
    }
}
