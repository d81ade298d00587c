//! Where a query is executed: by the drive, or by this host with all that it reads; and why.
//!
//! Both give the same rows. What differs is what crosses, a result or the columns that the query needs, and whose cores work. The plan
//! estimates how long each would take, and chooses the shorter: bytes over flash and link, cycles of the drive's cores and of this host's,
//! by the drive's profile. How many rows pass is estimated by zone maps where they leave nothing open, and else by a sample of row groups,
//! of at most 1 MiB.

use crate::drive_model::DriveModel;
use crate::error::AttachedError;
use crate::tables::query::Executor;
use crate::tables::reading::{DEPTH, commands};
use crate::tables::sample::SelectivitySample;
use crate::tables::{Session, TableInfo};
use byteway_console::error::InputError;
use byteway_console::table::{bytes, time};
use byteway_query::cost::Amount;
use byteway_query::estimate::{RowCost, row_cost};
use byteway_query::{ColumnType, DataType, Execution, GroupMeta, Query, QueryError, Refusal, Task};

/// What is known of a query before it is executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The table.
    pub table: String,
    /// Its columns that the query needs.
    pub columns: Vec<String>,
    /// Row groups of the table, and those that zone maps don't rule out.
    pub groups: (u64, u64),
    /// Rows of the table.
    pub rows: u64,
    /// The share of its rows that conditions let pass, estimated.
    pub selectivity: f64,
    /// The row groups by which that is estimated.
    pub sample: SelectivitySample,
    /// Bytes of the columns that this host would read, of all row groups.
    pub column_bytes: u64,
    /// Bytes of a result, estimated.
    pub result_bytes: u64,
    /// How long the drive would take, and how long this host, in nanoseconds.
    pub nanoseconds: (u64, u64),
    /// Who should execute it.
    pub choice: Executor,
    /// Why, in words.
    pub why: String,
}

/// Groups of a query that has any, as far as an estimate goes.
const GROUPS: f64 = 64.0;

/// Bytes of a result's schema, end and batch without any column, and of a column in each.
const STREAM_BYTES: u64 = 300;
const STREAM_COLUMN_BYTES: u64 = 200;

/// Bytes of a value of a result, as Arrow has it.
fn bytes_of_type(data_type: &DataType) -> usize {
    match data_type {
        DataType::Decimal128(..) => 16,
        DataType::Utf8 => 20, // an offset and a text, about
        other => ColumnType::from_arrow(other).and_then(ColumnType::stored_bytes).unwrap_or(16),
    }
}

/// Bytes that the result of a query has at most, about, if that is known before: of all rows as one group, or of a LIMIT of rows without
/// texts.
pub(crate) fn result_bytes_most(query: &Query) -> Option<u64> {
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

fn wrong(error: impl std::fmt::Display) -> AttachedError {
    InputError::new(error.to_string(), "ask otherwise: `byteway csd --help` says what a drive does").into()
}

/// Why a drive refuses a task, if it is a task that others do.
pub fn refusal(error: &QueryError) -> Option<&Refusal> {
    if let QueryError::Refused(refusal) = error { Some(refusal) } else { None }
}

/// What a query reads and makes.
struct Expected {
    rows: f64,
    rows_left: f64,
    passing: f64,
    column_bytes: f64,
    column_bytes_left: f64,
    meta_bytes: f64,
    /// Commands by which this host reads columns.
    reads: f64,
    task_bytes: f64,
    result_bytes: f64,
    cost: RowCost,
}

impl Expected {
    /// Cycles, of the drive's cores or this host's, to execute it over so many rows and bytes.
    fn cycles(&self, model: &DriveModel, rows: f64, column_bytes: f64) -> f64 {
        let comparisons = rows * self.cost.of_all + self.passing * self.cost.of_passing;
        model.cycles(Amount {
            decoded_bytes: column_bytes as u64,
            comparisons: comparisons as u64,
            output_bytes: self.result_bytes as u64,
        }) as f64
    }

    /// Seconds that the drive takes: its task, then flash, cores and link, of which the slowest sets the pace.
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
        // Of a COUNT(*) that zone maps answer, nothing is read.
        let first = if self.column_bytes_left > 0.0 { model.flash_latency } else { 0.0 };
        task + first + pace.into_iter().fold(0.0, f64::max)
    }

    /// Seconds that this host takes, with `hertz` cycles each: the list of row groups, then flash, link, commands and its processor.
    fn host(&self, model: &DriveModel, hertz: f64, fetch_bytes: f64) -> f64 {
        let lists = (self.meta_bytes / fetch_bytes).ceil().max(1.0);
        // Who decides has asked for it, so that it is in the drive's DRAM.
        let list = lists * model.command + self.meta_bytes / model.link_rate;
        let pages = self.column_bytes / 4096.0 * (model.read_cycles + model.send_cycles);
        let pace = [
            self.column_bytes / model.flash_rate,
            self.column_bytes / model.link_rate,
            pages / (model.core_hertz * model.cores),
            self.reads * (model.command + model.flash_latency) / DEPTH as f64,
            self.cycles(model, self.rows, self.column_bytes) / hertz,
        ];
        let first = if self.column_bytes > 0.0 { model.command + model.flash_latency } else { 0.0 };
        list + first + pace.into_iter().fold(0.0, f64::max)
    }
}

impl Session {
    /// What is to be known of a task.
    ///
    /// # Errors
    /// It is no task of that table, or the drive does not answer.
    pub async fn plan(&self, task: &Task, table: &TableInfo) -> Result<Plan, AttachedError> {
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
        // With enough rows for a LIMIT both stop: the drive, which reads row groups in their order, after one, this host with some in flight.
        let reads: f64 = metas.iter().map(pieces).sum();
        let part = |least: f64| match query.limit.filter(|_| query.grouping.is_none()) {
            Some(limit) => (limit as f64 / passing.max(1.0)).max(least).min(1.0),
            None => 1.0,
        };
        let by_drive = part(1.0 / left().count().max(1) as f64);
        let by_host = part(DEPTH as f64 / reads.max(1.0));
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
