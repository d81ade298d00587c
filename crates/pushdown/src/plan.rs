//! Chooses where to execute a query: on the drive, or on this host after reading the columns.
//!
//! Both return the same rows. They differ in what crosses the link (the result, or the columns) and in whose
//! cores work. The plan estimates the duration of each from the drive's profile (bytes over flash and link,
//! cycles of both processors), and chooses the shorter. Selectivity is estimated from zone maps where they
//! are conclusive, otherwise from a sample of row groups of at most 1 MiB.

use crate::drive_model::DriveModel;
use crate::error::SessionError;
use crate::query::Executor;
use crate::reading::{READ_DEPTH, commands};
use crate::sample::SelectivitySample;
use crate::session::{Session, TableInfo};
use byteway_query::cost::Amount;
use byteway_query::estimate::{RowCost, row_cost};
use byteway_query::{ColumnType, DataType, Execution, GroupMeta, Query, QueryError, Refusal, Task};
use byteway_text::error::InputError;
use byteway_text::table::{bytes, time};

/// Execution plan of a query, with its estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the table.
    pub table: String,
    /// Columns that the query reads.
    pub columns: Vec<String>,
    /// Number of row groups, and number of those that zone maps do not rule out.
    pub groups: (u64, u64),
    /// Number of rows of the table.
    pub rows: u64,
    /// Estimated fraction of rows that pass the filter, 0 to 1.
    pub selectivity: f64,
    /// The sample behind the estimate.
    pub sample: SelectivitySample,
    /// Bytes of the columns over all row groups, which this host would read.
    pub column_bytes: u64,
    /// Estimated size of the result, in bytes.
    pub result_bytes: u64,
    /// Estimated duration on the drive and on this host, in nanoseconds.
    pub nanoseconds: (u64, u64),
    /// Where to execute the query.
    pub choice: Executor,
    /// Reason for the choice, human-readable.
    pub why: String,
}

/// Assumed number of groups of a query with GROUP BY.
const GROUPS: f64 = 64.0;

/// Bytes of a result's schema, end and batch headers without columns, and the additional bytes per column.
const STREAM_BYTES: u64 = 300;
const STREAM_COLUMN_BYTES: u64 = 200;

/// Bytes per value of a result in Arrow format.
fn bytes_of_type(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal128(..) => 16,
        DataType::Utf8 => 20, // an offset, and a text of assumed length
        other => ColumnType::from_arrow(other).and_then(ColumnType::stored_bytes).unwrap_or(16),
    }
}

/// Approximate maximum size of a query's result in bytes, if it is known in advance: for one group over all
/// rows, or a LIMIT without text columns.
pub fn result_bytes_most(query: &Query) -> Option<u64> {
    let rows = match &query.grouping {
        Some(grouping) if grouping.keys.is_empty() => 1,
        _ => query.limit?,
    };
    let types = query.outputs.iter().map(|output| output.expr.column_type);
    let is_bounded = rows == 1 || types.clone().all(|column_type| column_type != ColumnType::Utf8);
    let row_bytes: usize = types.map(|column_type| bytes_of_type(&column_type.to_arrow())).sum();
    let stream = STREAM_BYTES + STREAM_COLUMN_BYTES * query.outputs.len() as u64;
    is_bounded.then(|| stream.saturating_add(rows.saturating_mul(row_bytes as u64)))
}

fn wrong(error: impl std::fmt::Display) -> SessionError {
    InputError::new(error.to_string(), "rewrite the query: `byteway csd --help` lists what a drive supports")
        .into()
}

/// The refusal behind an error, if the task is valid but this drive does not support it.
pub fn refusal(error: &QueryError) -> Option<&Refusal> {
    if let QueryError::Refused(refusal) = error { Some(refusal) } else { None }
}

/// Expected work of a query.
struct Expected {
    rows: f64,
    rows_left: f64,
    passing: f64,
    column_bytes: f64,
    column_bytes_left: f64,
    meta_bytes: f64,
    /// Number of read commands for the columns, if this host executes it.
    reads: f64,
    task_bytes: f64,
    result_bytes: f64,
    cost: RowCost,
}

impl Expected {
    /// Cycles to execute the query over `rows` rows with `column_bytes` bytes of columns, on either
    /// processor.
    fn cycles(&self, model: &DriveModel, rows: f64, column_bytes: f64) -> f64 {
        let comparisons = rows * self.cost.of_all + self.passing * self.cost.of_passing;
        model.cycles(Amount {
            decoded_bytes: column_bytes as u64,
            comparisons: comparisons as u64,
            output_bytes: self.result_bytes as u64,
        }) as f64
    }

    /// Seconds on the drive: the task, followed by flash, cores and link in parallel, of which the slowest
    /// determines the duration.
    fn drive(&self, model: &DriveModel, fetch_bytes: f64) -> f64 {
        let core = model.core_hertz;
        let task = model.command + (self.task_bytes / 64.0).ceil() * model.costs.task_cycles as f64 / core;
        let pages = self.column_bytes_left / 4096.0 * model.read_cycles
            + self.result_bytes / 4096.0 * model.send_cycles;
        let cycles = self.cycles(model, self.rows_left, self.column_bytes_left) + pages;
        let fetches = (self.result_bytes / fetch_bytes).ceil().max(1.0);
        let pace = [
            self.column_bytes_left / model.flash_rate,
            cycles / (core * model.cores),
            self.result_bytes / model.link_rate + fetches * model.command,
        ];
        // A COUNT(*) that zone maps answer reads nothing.
        let first = if self.column_bytes_left > 0.0 { model.flash_latency } else { 0.0 };
        task + first + pace.into_iter().fold(0.0, f64::max)
    }

    /// Seconds on this host at `hertz`: the list of row groups, followed by flash, link, commands and the
    /// host's processor in parallel.
    fn host(&self, model: &DriveModel, hertz: f64, fetch_bytes: f64) -> f64 {
        let lists = (self.meta_bytes / fetch_bytes).ceil().max(1.0);
        // The planner has read the list already, so it is in the drive's DRAM.
        let list = lists * model.command + self.meta_bytes / model.link_rate;
        let pages = self.column_bytes / 4096.0 * (model.read_cycles + model.send_cycles);
        let pace = [
            self.column_bytes / model.flash_rate,
            self.column_bytes / model.link_rate,
            pages / (model.core_hertz * model.cores),
            self.reads * (model.command + model.flash_latency) / READ_DEPTH as f64,
            self.cycles(model, self.rows, self.column_bytes) / hertz,
        ];
        let first = if self.column_bytes > 0.0 { model.command + model.flash_latency } else { 0.0 };
        list + first + pace.into_iter().fold(0.0, f64::max)
    }
}

impl Session {
    /// Plans a task.
    ///
    /// # Errors
    /// [`SessionError`] if the task does not match the table, or a command failed.
    pub async fn plan(&self, task: &Task, table: &TableInfo) -> Result<Plan, SessionError> {
        let query = task.bind(&table.schema).map_err(wrong)?;
        let execution = Execution::new(query.clone(), &table.schema).map_err(wrong)?;
        let records = self.groups(table.record.table).await?;
        let meta_bytes: usize = records.iter().map(|record| record.meta.len()).sum();
        let metas: Result<Vec<GroupMeta>, _> =
            records.iter().map(|record| GroupMeta::from_bytes(&table.schema, &record.meta)).collect();
        let metas = metas.map_err(wrong)?;
        let columns = execution.columns();
        let may_match: Vec<bool> = metas.iter().map(|meta| execution.may_match(meta)).collect();
        let sample = self.sample(&query, table, &metas, &may_match).await?;
        let bytes_of =
            |meta: &GroupMeta| meta.ranges(columns).iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
        let left = || metas.iter().zip(&may_match).filter(|(_, may_match)| **may_match).map(|(meta, _)| meta);
        let column_bytes: u64 = metas.iter().map(bytes_of).sum();
        let fetch_bytes = f64::from(self.client.bytes_max());
        let pieces = |meta: &GroupMeta| commands(&meta.ranges(columns)) as f64;
        let rows = table.record.rows;
        let passing = sample.passing;
        let share = if rows == 0 { 0.0 } else { passing / rows as f64 };
        let fields = execution.result_schema().fields().clone();
        let row_bytes: usize = fields.iter().map(|field| bytes_of_type(field.data_type())).sum();
        let result_rows = match &query.grouping {
            Some(grouping) if grouping.keys.is_empty() => 1.0,
            Some(_) => passing.min(GROUPS),
            None => passing,
        };
        let result_rows = query.limit.map_or(result_rows, |limit| result_rows.min(limit as f64));
        let batches = if query.grouping.is_some() { 1 } else { left().count().max(1) as u64 };
        let frame =
            (STREAM_BYTES + STREAM_COLUMN_BYTES * fields.len() as u64) * batches.min(result_rows as u64 + 1);
        let result_bytes = (result_rows * row_bytes as f64) as u64 + frame;
        // A LIMIT stops both executions early: the drive after one row group, this host with up to READ_DEPTH
        // reads in flight.
        let reads: f64 = metas.iter().map(pieces).sum();
        let part = |least: f64| match query.limit.filter(|_| query.grouping.is_none()) {
            Some(limit) => (limit as f64 / passing.max(1.0)).max(least).min(1.0),
            None => 1.0,
        };
        let by_drive = part(1.0 / left().count().max(1) as f64);
        let by_host = part(READ_DEPTH as f64 / reads.max(1.0));
        let expected = Expected {
            rows: rows as f64 * by_host,
            rows_left: left().map(|meta| f64::from(meta.rows)).sum::<f64>() * by_drive,
            passing: passing * by_drive,
            column_bytes: column_bytes as f64 * by_host,
            column_bytes_left: left().map(bytes_of).sum::<u64>() as f64 * by_drive,
            meta_bytes: meta_bytes as f64,
            reads: reads * by_host,
            task_bytes: task.to_bytes().len() as f64,
            result_bytes: result_bytes as f64,
            cost: row_cost(&query),
        };
        let drive = expected.drive(&self.model, fetch_bytes);
        let host = expected.host(&self.model, self.hertz as f64, fetch_bytes);
        let choice = if drive <= host { Executor::Drive } else { Executor::Host };
        let by = match sample.rows {
            0 => "by zone maps".to_owned(),
            _ => {
                format!("by zone maps and {} row groups ({} read)", sample.groups, bytes(sample.bytes as f64))
            }
        };
        let assumed = if self.model.is_known { "" } else { ", if it is like modern-gen5" };
        let why = format!(
            "{:.1} % of the rows are estimated to pass, {by}: the drive would take about {}{assumed} and send {}, this host {} for {} of columns",
            share * 100.0,
            time(drive * 1e9),
            bytes(result_bytes as f64),
            time(host * 1e9),
            bytes(column_bytes as f64)
        );
        Ok(Plan {
            table: table.record.name.clone(),
            columns: columns.iter().map(|index| table.schema.columns()[*index].name.clone()).collect(),
            groups: (metas.len() as u64, left().count() as u64),
            rows,
            selectivity: share,
            sample,
            column_bytes,
            result_bytes,
            nanoseconds: ((drive * 1e9) as u64, (host * 1e9) as u64),
            choice,
            why,
        })
    }
}
