//! Execution of a query: readers fetch row groups from flash, a few ahead, and one task evaluates them in
//! order.
//!
//! Evaluation itself takes no virtual time. Afterwards the cores are charged for it in short slices, between
//! which commands run, and the result becomes available slice by slice. Evaluation pauses while more than
//! [`CsdPolicy::buffer_bytes`](crate::config::CsdPolicy::buffer_bytes) are unfetched.
//!
//! A program that filters rows runs after a row group is decoded. The query sees only the rows that pass.

use crate::controller::command_set::csd::cost;
use crate::controller::command_set::csd::cursor::PendingOutput;
use crate::controller::command_set::csd::failure::Failure;
use crate::controller::command_set::csd::reading::Reading;
use crate::controller::command_set::programs::filter::ProgramFilter;
use crate::controller::core::Core;
use byteway_clock::{Stage, TaskId};
use byteway_firmware as firmware;
use byteway_query::cost::Amount;
use byteway_query::row_filter::{FilterColumns, keep};
use byteway_query::stream::{self, Encoder};
use byteway_query::{ArrayRef, Execution, GroupMeta, Operator, RecordBatch, Schema, Work, group};
use byteway_tables::{Table, Tables};
use std::cell::RefCell;
use std::rc::Rc;

/// A row filter program, and the columns that it receives.
pub(crate) struct RowFilter {
    pub(crate) program: ProgramFilter,
    pub(crate) columns: FilterColumns,
}

/// A task bound to an existing table, ready to execute.
pub(crate) struct Prepared {
    pub(crate) table: Table,
    pub(crate) schema: Schema,
    pub(crate) execution: Execution,
    pub(crate) filter: Option<RowFilter>,
}

struct Running {
    core: Rc<Core>,
    execution: Rc<RefCell<Execution>>,
    reading: Rc<Reading>,
    found: Rc<PendingOutput>,
}

/// Starts the execution of a query. Returns its tasks.
pub(crate) fn begin(
    core: &Rc<Core>,
    tables: Tables,
    prepared: Prepared,
    found: Rc<PendingOutput>,
) -> Vec<TaskId> {
    let clock = &core.clock;
    let Prepared { table, schema, execution, filter } = prepared;
    // Columns of the execution and of the filter.
    let mut columns = execution.columns().to_vec();
    columns.extend(filter.iter().flat_map(|filter| filter.columns.indexes()));
    columns.sort_unstable();
    columns.dedup();
    let execution = Rc::new(RefCell::new(execution));
    let reading = Reading::new(core, (tables, table, schema), execution.clone(), columns);
    let mut tasks: Vec<TaskId> =
        (0..reading.readers()).map(|_| clock.spawn("table reader", reading.clone().read())).collect();
    let running = Running { core: core.clone(), execution, reading, found };
    tasks.push(clock.spawn("query", evaluate(running, filter)));
    tasks
}

/// Evaluates row groups as they arrive, and ends the result.
async fn evaluate(running: Running, filter: Option<RowFilter>) {
    match running.evaluate_all(filter).await {
        Ok(()) => running.found.end(),
        Err(failure) => {
            let (problem, words) = failure.problem();
            running.found.fail(problem, &words);
        }
    }
}

impl Running {
    async fn evaluate_all(&self, mut filter: Option<RowFilter>) -> Result<(), Failure> {
        let (found, reading) = (&self.found, &self.reading);
        let mut encoder = Encoder::new(&self.execution.borrow().result_schema()).map_err(Failure::Query)?;
        let buffer_bytes = self.core.config.csd.as_ref().map_or(0, |policy| policy.buffer_bytes as usize);
        let mut first_row = 0;
        for (index, group) in reading.groups().iter().enumerate() {
            let brought = loop {
                if let Some(brought) = reading.take(index) {
                    break brought;
                }
                found.set_doing(Stage::Flash);
                reading.changed.notified().await;
            };
            if let Some((meta, chunks)) = brought? {
                found.set_doing(Stage::Firmware);
                let before = *self.execution.borrow().work();
                let mut decoded = Work::default();
                let mut arrays = self.decode(&meta, &chunks, &mut decoded)?;
                let mut rows = meta.rows as usize;
                if let Some(filter) = &mut filter {
                    let selected = self.select(filter, &arrays, first_row).await?;
                    arrays = keep(&arrays, &selected, rows).map_err(Failure::Query)?;
                    rows = selected.len();
                    decoded.add_rows(Operator::Gather, rows * arrays.len());
                }
                let batch = self.push(&arrays, rows)?;
                if let Some(batch) = batch {
                    encoder.write(&batch).map_err(Failure::Query)?;
                }
                let mut now = *self.execution.borrow().work();
                now += decoded;
                self.pass(&before, &now, &encoder.take()).await;
            }
            first_row += group.rows;
            if self.execution.borrow().is_done() {
                break;
            }
            while found.is_full(buffer_bytes) {
                found.set_doing(Stage::Queueing);
                found.changed.notified().await;
            }
        }
        found.set_doing(Stage::Firmware);
        let before = *self.execution.borrow().work();
        let last = self.execution.borrow_mut().finish().map_err(Failure::Query)?;
        if let Some(batch) = last {
            encoder.write(&batch).map_err(Failure::Query)?;
        }
        let now = *self.execution.borrow().work();
        self.pass(&before, &now, &encoder.finish().map_err(Failure::Query)?).await;
        Ok(())
    }

    /// Decodes the columns of a row group.
    fn decode(
        &self,
        meta: &GroupMeta,
        chunks: &[Vec<u8>],
        decoded: &mut Work,
    ) -> Result<Vec<ArrayRef>, Failure> {
        let column = |(column, bytes): (&usize, &Vec<u8>)| {
            group::decode(self.reading.schema(), *column, meta, bytes, decoded).map_err(Failure::Damaged)
        };
        self.reading.columns().iter().zip(chunks).map(column).collect()
    }

    /// Arrays of the given columns, out of the arrays of all columns that are read.
    fn arrays_of(&self, columns: impl Iterator<Item = usize>, arrays: &[ArrayRef]) -> Vec<ArrayRef> {
        let place = |column| self.reading.columns().binary_search(&column).ok();
        columns.filter_map(|column| arrays.get(place(column)?).cloned()).collect()
    }

    /// Indexes of the rows that pass the program.
    async fn select(
        &self,
        filter: &mut RowFilter,
        arrays: &[ArrayRef],
        first_row: u64,
    ) -> Result<Vec<u32>, Failure> {
        let arrays = self.arrays_of(filter.columns.indexes(), arrays);
        let fixed = filter.columns.rows(&arrays).map_err(Failure::Query)?;
        let rows = fixed.rows().map_err(|error| Failure::Program(error.into()))?;
        filter.program.select(&self.core, &rows, first_row).await.map_err(Failure::Program)
    }

    /// Passes rows to the query.
    fn push(&self, arrays: &[ArrayRef], rows: usize) -> Result<Option<RecordBatch>, Failure> {
        let mut execution = self.execution.borrow_mut();
        let columns = execution.columns().to_vec();
        let arrays = self.arrays_of(columns.iter().copied(), arrays);
        let batch = stream::batch(self.reading.schema(), &columns, arrays, rows).map_err(Failure::Query)?;
        execution.push(&batch).map_err(Failure::Query)
    }

    /// Charges the cores for the work since `before`, slice by slice. `bytes` of the result become available
    /// in proportion.
    async fn pass(&self, before: &Work, now: &Work, bytes: &[u8]) {
        let core = &self.core;
        let mut written = 0;
        for (work, count) in cost::counts(Amount::of(now).since(Amount::of(before))) {
            let mut left = count;
            while left > 0 {
                let slice = left.min(cost::slice(core, work));
                left -= slice;
                core.clock.sleep_until(cost::spread(core, work, slice)).await;
                if work == firmware::WorkKind::Output {
                    let end = (bytes.len() as u128 * u128::from(count - left) / u128::from(count)) as usize;
                    self.found.add(&bytes[written..end]);
                    written = end;
                }
            }
        }
        // Bytes that belong to no batch (schema, end of stream) take no time.
        self.found.add(&bytes[written..]);
    }
}
