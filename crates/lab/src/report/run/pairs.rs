//! A key-value drive: operations by kind, and what its store did with flash.

use super::{grouped, rate, time};
use crate::report::{Section, Table};
use crate::summary::{BULK_TITLE, BulkRow, Summary};

pub(super) fn pairs(summary: &Summary) -> Option<Section> {
    let kv = summary.kv.as_ref()?;
    let header =
        ["job", "", "operations", "a second", "values", "mean", "p50", "p99", "p99.9", "no such key"];
    let mut table = Table::new(header, 2)
        .caption("Operations by kind, what a scan takes from its first command to its last completion");
    for row in &kv.operations {
        let (figures, latency) = (&row.figures, &row.figures.latency);
        table.row([
            row.job.clone(),
            row.operation.clone(),
            grouped(figures.ios),
            grouped(libm::round(figures.iops) as u64),
            rate(figures.bytes_per_second),
            time(latency.mean_ns),
            time(latency.p50_ns as f64),
            time(latency.p99_ns as f64),
            time(latency.p99_9_ns as f64),
            grouped(row.missing),
        ]);
    }
    let mut section = Section::new("Pairs").table(table);
    if !kv.bulk.is_empty() {
        let mut table = Table::new(BulkRow::HEADER, 1).caption(BULK_TITLE);
        for row in &kv.bulk {
            table.row(row.cells());
        }
        section = section
            .text(
                "Stores were gathered in host memory, and many sent by one command. That saves commands and bytes; what was \
                 told as put and not sent would be lost with the host."
                    .to_owned(),
            )
            .table(table);
    }
    let Some(store) = &kv.store else { return Some(section) };
    let mut table = Table::new(["the store", ""], 1)
        .caption("What the drive did for them: pages are those of flash, units have 4 KiB");
    for (name, value) in store.rows() {
        table.row([name.trim_start().to_owned(), value]);
    }
    Some(
        section
            .text(format!(
                "Of the pages of flash that were programmed, {} are the value log's with its records, and {} the index's. \
                 How values are packed into pages decides about the former, merging about the latter.",
                grouped(store.log_pages_all()),
                grouped(store.index_pages())
            ))
            .table(table),
    )
}
