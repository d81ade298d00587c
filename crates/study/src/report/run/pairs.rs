//! A key-value drive: operations by kind, and what its store did with flash.

use super::grouped;
use crate::report::{Section, Table};
use byteway_measure::summary::{BULK_TITLE, BulkRow, Summary};

pub(super) fn pairs(summary: &Summary) -> Option<Section> {
    let kv = summary.kv.as_ref()?;
    let table = Table::from(kv.operations())
        .caption("Operations by kind, what a scan takes from its first command to its last completion");
    let latency = Table::from(kv.latency()).caption("Latency of operations");
    let mut section = Section::new("Key-value pairs").table(table).table(latency);
    if !kv.bulk.is_empty() {
        let table = Table::from(BulkRow::table(&kv.bulk)).caption(BULK_TITLE);
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
