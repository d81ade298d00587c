//! What the summary says of a key-value drive: operations by kind, and what its store did with flash.

use std::fmt::Write as _;

use byteway_host::LossFigures;
use serde::{Deserialize, Serialize};

use super::tables::per_second;
use super::{KindSummary, latency_cells, latency_table};
use byteway_console::number::{ns, ratio};
use byteway_console::table::grouped;
use byteway_console::table::{Cell, Column, Printout, Quantity, TextTable, bytes, number};

/// A key-value drive, in the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KvSummary {
    /// Operations of each job, by kind.
    pub operations: Vec<OperationRow>,
    /// Jobs that gathered their stores in host memory; left out if none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bulk: Vec<BulkRow>,
    /// What the drive did for them; `None` if another process serves it, or there are several whose pages or packing differ.
    pub store: Option<KvStoreSummary>,
}

/// A job that gathered its stores, and its loss window: what it was told is put, and the drive did not have yet. That is lost
/// if the host crashes. Means are over time, but for that of a pair's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkRow {
    /// The job.
    pub job: String,
    /// Commands that brought pairs.
    pub batches: u64,
    /// Pairs of one, in the mean.
    pub pairs_per_batch: f64,
    /// Pairs in the loss window, in the mean.
    pub loss_pairs_mean: f64,
    /// At most.
    pub loss_pairs_max: u64,
    /// Bytes of keys and values in it, in the mean.
    pub loss_bytes_mean: f64,
    /// At most.
    pub loss_bytes_max: u64,
    /// How long a pair was in it, of those that were in it at all, in the mean, nanoseconds.
    pub loss_time_mean_ns: f64,
    /// At most.
    pub loss_time_max_ns: f64,
    /// Pairs that were told as put and are lost, because their command failed.
    pub lost: u64,
}

impl BulkRow {
    /// A job's.
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

    /// Bulk PUT by job.
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

/// What the window is, for whoever reads its table.
pub const BULK_TITLE: &str = "Bulk PUT: told as put and not on the drive yet, lost if the host crashes";

/// Operations of one kind of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// The job.
    pub job: String,
    /// The kind: `store`, `retrieve`, ...
    pub operation: String,
    /// Of them, those that found no pair of their key.
    pub missing: u64,
    /// Pairs that scans went over.
    pub pairs: u64,
    /// How many there were, their bytes and how long they took; of scans, from the first command to the last completion.
    #[serde(flatten)]
    pub figures: KindSummary,
}

/// What a store did. Pages are those of flash, and units have 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KvStoreSummary {
    /// Where values went: `none`, `all`, `selective`, `backfill`.
    pub packing: String,
    /// What pairs may take at the end, in bytes, with what the index and records of them take.
    pub capacity_bytes: u64,
    /// What they take; pairs that were overwritten may count twice until they are merged.
    pub used_bytes: u64,
    /// Pairs at the end, likewise.
    pub pairs: u64,
    /// Values that were stored, and their bytes.
    pub values_stored: u64,
    /// Their bytes.
    pub value_bytes_stored: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of the value log programmed for what was stored.
    pub log_pages: u64,
    /// Of those, pages that were programmed before they were full.
    pub log_pages_partial: u64,
    /// Pages of the value log programmed for what collection moved.
    pub log_pages_moved: u64,
    /// Units of records beside the value log.
    pub record_units: u64,
    /// Units of the index programmed when what was in DRAM was written down.
    pub index_units_flushed: u64,
    /// Units of the index programmed by merging.
    pub index_units_merged: u64,
    /// Units of the manifest programmed.
    pub manifest_units: u64,
    /// Units of the index read to find something, and to merge.
    pub index_units_read: u64,
    /// Units of values read for the host.
    pub value_units_read: u64,
    /// Bytes left empty between values.
    pub padding_bytes: u64,
    /// Bytes that the processor copied to their place.
    pub copied_bytes: u64,
    /// Merges of the index.
    pub compactions: u64,
    /// Collections of the value log.
    pub collections: u64,
    /// Values that collection moved.
    pub values_moved: u64,
    /// Stores that waited for room.
    pub stalls: u64,
    /// Look-ups that a filter spared.
    pub filter_hits: u64,
    /// Look-ups in tables that had not the key.
    pub filter_misses: u64,
    /// Pairs that came without a command; left out of a drive that has no ring for such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitSummary>,
    /// Bytes of the value log programmed for each byte stored, its records included; `None` if nothing was stored.
    pub log_amplification: Option<f64>,
    /// Bytes of the index programmed for each that was first written down; `None` if none was.
    pub index_amplification: Option<f64>,
}

/// Commit records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitSummary {
    /// Those that the drive has answered.
    pub records: u64,
    /// How often it has looked for one. What that takes of a core while there is none is in no utilisation.
    pub looks: u64,
}

/// Bytes of a unit.
const UNIT: u64 = 4096;

impl KvStoreSummary {
    /// With both amplifications, which follow from the rest.
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

    /// Pages of flash that the index takes, its manifest included.
    pub fn index_pages(&self) -> u64 {
        let units = self.index_units_flushed + self.index_units_merged + self.manifest_units;
        units.div_ceil((self.page_bytes / UNIT).max(1))
    }

    /// Pages of flash that the value log takes, its records included.
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
            ("commit records, the drive's looks for them", counts)
        });
        let rows = vec![
            ("packing", self.packing.clone()),
            ("pairs (estimate)", grouped(self.pairs)),
            ("used (estimate)", format!("{} of {}", bytes(self.used_bytes), bytes(self.capacity_bytes))),
            ("values stored", format!("{}, {}", grouped(self.values_stored), bytes(self.value_bytes_stored))),
            ("value log: pages programmed", grouped(self.log_pages)),
            ("  of them before they were full", grouped(self.log_pages_partial)),
            ("  for collection", grouped(self.log_pages_moved)),
            ("  units of records", grouped(self.record_units)),
            ("  padding", bytes(self.padding_bytes)),
            ("  copied by the processor", bytes(self.copied_bytes)),
            ("  bytes programmed per byte stored", amplification(self.log_amplification)),
            ("index: pages programmed", grouped(self.index_pages())),
            ("  units first written", grouped(self.index_units_flushed)),
            ("  units by merging", grouped(self.index_units_merged)),
            ("  units of the manifest", grouped(self.manifest_units)),
            ("  bytes programmed per byte first written", amplification(self.index_amplification)),
            ("units read: index", grouped(self.index_units_read)),
            ("units read: values", grouped(self.value_units_read)),
            ("look-ups spared by filters", grouped(self.filter_hits)),
            ("look-ups in vain", grouped(self.filter_misses)),
            ("merges, collections", format!("{}, {}", grouped(self.compactions), grouped(self.collections))),
            ("values moved", grouped(self.values_moved)),
            ("stores that waited for room", grouped(self.stalls)),
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
            let _ = writeln!(out, "\n{} operations found no pair of their key", grouped(missing));
        }
    }

    /// What the drive did for them.
    pub(super) fn write_store(&self, out: &mut Printout) {
        if let Some(store) = &self.store {
            let mut table = TextTable::new([Column::text("the store"), Column::count("")]);
            store.rows().into_iter().for_each(|(name, value)| table.row([name.into(), value.into()]));
            out.section("Pairs in flash (pages of flash, units of 4 KiB)", &table);
        }
    }

    /// How many of each operation, and how fast.
    pub fn operations(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("job"),
            Column::text(""),
            Column::count("operations"),
            Column::count("a second"),
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

    /// How long each operation took.
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

    // Write amplification by hand: 10 pages of 16 KiB and 2 units of records for 100,000 B; 3 units merged after 6 were written.
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
