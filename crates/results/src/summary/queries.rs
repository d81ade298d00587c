//! The query part of the summary: executors, and the data moved.

use byteway_text::number::ratio;
use byteway_text::table::{Cell, Column, Quantity, TextTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::{KindSummary, latency_cells, latency_table, per_second};

/// Queries of a job by one executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryRow {
    /// Name of the job.
    pub job: String,
    /// The executor: `drive`, `host`; `check`: the drive only reported whether it would execute them.
    pub executed_by: String,
    /// Rows of the results.
    pub rows: u64,
    /// Bytes of the tasks sent.
    pub task_bytes: u64,
    /// Bytes read from the drive: results, or columns that the host evaluated.
    pub read_bytes: u64,
    /// Number of commands.
    pub commands: u64,
    /// Modelled cycles of the host's processors.
    pub host_cycles: u64,
    /// For checks: queries that the drive would not execute.
    pub refused: u64,
    /// Number and latency, from sending the task to the last row; bytes are those of tasks and of data read.
    #[serde(flatten)]
    pub figures: KindSummary,
}

impl QueryRow {
    /// The table of numbers and data moved.
    pub fn table(rows: &[QueryRow]) -> TextTable {
        let mut table = TextTable::new([
            Column::text("job"),
            Column::text("by"),
            Column::count("queries"),
            Column::count("per second"),
            Column::of("rows each", Quantity::Number),
            Column::of("task each", Quantity::Bytes),
            Column::of("read each", Quantity::Bytes),
            Column::of("commands each", Quantity::Number).rank(2),
            Column::of("host cycles each", Quantity::Number).rank(3),
            Column::count("refused").rank(1),
        ]);
        for row in rows {
            let queries = u128::from(row.figures.ios);
            let each = |count: u64| ratio(count.into(), queries);
            table.row([
                row.job.as_str().into(),
                row.executed_by.as_str().into(),
                row.figures.ios.into(),
                per_second(row.figures.iops).into(),
                each(row.rows).into(),
                each(row.task_bytes).into(),
                each(row.read_bytes).into(),
                each(row.commands).into(),
                each(row.host_cycles).into(),
                Cell::from((row.refused > 0).then_some(row.refused)),
            ]);
        }
        table
    }

    /// The table of latencies.
    pub fn latency_table(rows: &[QueryRow]) -> TextTable {
        let mut table = latency_table(["job", "by"]);
        for row in rows {
            let words = [row.job.as_str().into(), row.executed_by.as_str().into()];
            table.row(words.into_iter().chain(latency_cells(&row.figures.latency)));
        }
        table
    }
}
