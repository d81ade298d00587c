//! The section on a key-value drive: operations by kind, and the work of its store.

use super::grouped;
use crate::{Section, Table};
use byteway_results::summary::{BULK_TITLE, BulkRow, Summary};

pub(super) fn pairs(summary: &Summary) -> Option<Section> {
    let kv = summary.kv.as_ref()?;
    let table = Table::from(kv.operations())
        .caption("Operations by kind; a scan takes from its first command to its last completion");
    let latency = Table::from(kv.latency()).caption("Latency of operations");
    let mut section = Section::new("Key-value pairs").table(table).table(latency);
    if !kv.bulk.is_empty() {
        let table = Table::from(BulkRow::table(&kv.bulk)).caption(BULK_TITLE);
        section = section
            .text(
                "Stores were collected in host memory and sent many at a time. That saves commands and bytes; pairs that were \
                 acknowledged but not sent would be lost in a crash of the host."
                    .to_owned(),
            )
            .table(table);
    }
    let Some(store) = &kv.store else { return Some(section) };
    let mut table =
        Table::new(["the store", ""], 1).caption("Work of the drive: pages of flash, units of 4 KiB");
    for (name, value) in store.rows() {
        table.row([name.trim_start().to_owned(), value]);
    }
    Some(
        section
            .text(format!(
                "Of the flash pages programmed, {} belong to the value log with its records, and {} to the index. \
                 The packing of values into pages determines the former, compaction the latter.",
                grouped(store.log_pages_all()),
                grouped(store.index_pages())
            ))
            .table(table),
    )
}
