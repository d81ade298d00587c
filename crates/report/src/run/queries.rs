//! The section on queries: executors, and data moved.

use crate::{Section, Table};
use byteway_results::summary::{QueryRow, Summary};

pub(super) fn queries(summary: &Summary) -> Option<Section> {
    if summary.queries.is_empty() {
        return None;
    }
    let table = Table::from(QueryRow::table(&summary.queries))
        .caption("Queries by job and executor; mean figures per query");
    let latency = Table::from(QueryRow::latency_table(&summary.queries))
        .caption("Latency of queries, from the task to the last row");
    let words = "A query executed by the drive is sent to it, and its result returned; for one executed by the host its columns are read. A check is \
                 only the transfer of a query to the drive, which replies whether it would execute it.";
    Some(Section::new("Queries").text(words).table(table).table(latency))
}
