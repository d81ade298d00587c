//! Executes a query on the drive, or on this host over the columns that it reads.
//!
//! The buffer of a fetch matches the expected result: a larger one would need a PRP list.

use crate::error::SessionError;
use crate::reading::Reading;
use crate::session::{Session, TableInfo};
use byteway_clock::{Delay, SpanRecord};
use byteway_query::cost::Amount;
use byteway_query::{
    Execution, Form, GroupMeta, QueryError, RecordBatch, SchemaRef, Task, Work, group, ipc, stream,
};
use byteway_text::error::InputError;
use byteway_wire::nvme::vendor::csd::{GroupRecord, Problem};

/// Maximum size of a result in bytes. It is held twice: as received, and decoded.
const RESULT_BYTES_MAX: usize = 2 << 30;

/// Where a query is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// On the drive.
    Drive,
    /// On this host, which reads the columns.
    Host,
    /// Partly on the drive, partly on this host, by table.
    Mixed,
}

/// Result of a query, with its cost.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Where the query was executed.
    pub executor: Executor,
    /// Schema of the rows.
    pub schema: SchemaRef,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Time from the task to the last row, in nanoseconds.
    pub nanoseconds: u64,
    /// Size of the task, in bytes; 0 if this host executed it.
    pub task_bytes: u64,
    /// Bytes received from the drive: the result, or columns.
    pub bytes_read: u64,
    /// Number of commands.
    pub commands: u64,
    /// Bytes on the link, to and from the drive, including headers; `None` unless it is simulated.
    pub link_bytes: Option<(u64, u64)>,
    /// Modelled cycles of this host's processor; 0 if the drive executed the query.
    pub host_cycles: u64,
    /// Cycles of the drive's cores in this time; `None` unless it is simulated.
    pub drive_cycles: Option<u64>,
    /// Span of the query; divided into stages if its commands were sequential.
    pub record: SpanRecord,
}

impl Answer {
    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

/// Failure of a query.
pub enum AskFailure {
    /// The execution failed on the drive or this host: an overflow, a division by zero, a limit. Another
    /// execution may succeed.
    Execution(SessionError),
    /// Any other failure.
    Other(SessionError),
}

impl From<SessionError> for AskFailure {
    fn from(error: SessionError) -> Self {
        AskFailure::Other(error)
    }
}

impl From<byteway_host::TablesIoError> for AskFailure {
    fn from(error: byteway_host::TablesIoError) -> Self {
        AskFailure::Other(error.into())
    }
}

impl AskFailure {
    /// Classifies an error of an execution.
    pub fn of(error: QueryError) -> AskFailure {
        match error {
            QueryError::Limit { .. } | QueryError::Overflow { .. } | QueryError::DivisionByZero(_) => {
                AskFailure::Execution(wrong(error))
            }
            error => AskFailure::Other(wrong(error)),
        }
    }
}

impl From<AskFailure> for SessionError {
    fn from(failure: AskFailure) -> Self {
        match failure {
            AskFailure::Execution(error) | AskFailure::Other(error) => error,
        }
    }
}

/// Buffer size for fetching a result of `result_bytes`: whole pages, at least one byte more than the result,
/// so that the first fetch reaches its end.
pub(crate) fn fetch_bytes(result_bytes: u64) -> u32 {
    const PAGE: u64 = 4096;
    u32::try_from((result_bytes / PAGE + 1) * PAGE).unwrap_or(u32::MAX)
}

fn wrong(error: impl std::fmt::Display) -> SessionError {
    InputError::new(error.to_string(), "rewrite the query, or see `byteway csd explain`").into()
}

impl Session {
    /// Executes a task on the drive. `result_bytes` is the size of its result, if known.
    ///
    /// # Errors
    /// [`SessionError`] if the drive cannot execute it, or a command failed.
    pub async fn push(
        &self,
        form: Form,
        payload: &[u8],
        result_bytes: Option<u64>,
    ) -> Result<Answer, SessionError> {
        Ok(self.ask_drive(form.code(), payload, result_bytes).await?)
    }

    /// Like [`push`](Self::push), for a payload in the form with this code.
    pub(crate) async fn ask_drive(
        &self,
        form: u8,
        payload: &[u8],
        result_bytes: Option<u64>,
    ) -> Result<Answer, AskFailure> {
        let (begin, before, busy) = (self.clock.now(), self.crossed(), self.drive_cycles());
        let mut most = result_bytes.map_or(u32::MAX, fetch_bytes);
        let mut buffer = self.take_buffer()?;
        let (cursor, mut record) = self.client.task(&mut buffer, form, payload).await?;
        let (mut bytes, mut part, mut commands) = (Vec::new(), Vec::new(), 1);
        loop {
            let (fetched, span) = self.client.fetch_some(&mut buffer, cursor, most).await?;
            most = u32::MAX;
            record = record.joined(span);
            commands += 1;
            self.client.take(&buffer, fetched.bytes, &mut part).map_err(SessionError::from)?;
            if let Some(problem) = fetched.problem {
                self.give_back(buffer);
                let error = wrong(String::from_utf8_lossy(&part));
                return Err(match problem {
                    Problem::Execution => AskFailure::Execution(error),
                    _ => AskFailure::Other(error),
                });
            }
            if bytes.len() + part.len() > RESULT_BYTES_MAX {
                self.give_back(buffer);
                if !fetched.is_end {
                    self.client.cancel(cursor).await?;
                }
                let what = format!("the result exceeds {RESULT_BYTES_MAX} B, the limit of this host");
                return Err(AskFailure::Other(wrong(what)));
            }
            bytes.extend_from_slice(&part);
            if fetched.is_end {
                break;
            }
        }
        self.give_back(buffer);
        let (schema, batches) = ipc::decode_with_schema(&bytes).map_err(wrong)?;
        Ok(Answer {
            executor: Executor::Drive,
            schema,
            batches,
            nanoseconds: self.clock.now().since(begin).0 / 1000,
            task_bytes: payload.len() as u64,
            bytes_read: bytes.len() as u64,
            commands,
            link_bytes: self.crossed_since(before),
            host_cycles: 0,
            drive_cycles: self.cycles_since(busy),
            record,
        })
    }

    /// Executes a task on this host. Reads the columns with several commands in flight, and evaluates row
    /// groups in order.
    ///
    /// # Errors
    /// [`AskFailure`] if the task does not match the table, the execution fails, or a command failed.
    pub(crate) async fn ask_host(&self, task: &Task, table: &TableInfo) -> Result<Answer, AskFailure> {
        let (begin, before, busy) = (self.clock.now(), self.crossed(), self.drive_cycles());
        let query = task.bind(&table.schema).map_err(wrong)?;
        let mut execution = Execution::new(query, &table.schema).map_err(wrong)?;
        let number = table.record.table;
        let groups = self.groups(number).await?;
        let metas: Result<Vec<GroupMeta>, _> =
            groups.iter().map(|group| GroupMeta::from_bytes(&table.schema, &group.meta)).collect();
        let metas = metas.map_err(wrong)?;
        let columns = execution.columns().to_vec();
        let reading = self.begin_reading(number, &metas, &columns)?;
        let evaluated = self.evaluate_all(&mut execution, table, &metas, &reading).await;
        // Readers that still wait would never end.
        reading.stop();
        let (batches, host_cycles) = evaluated?;
        let record = SpanRecord { begin, last: self.clock.now(), ..SpanRecord::default() };
        Ok(Answer {
            executor: Executor::Host,
            schema: execution.result_schema(),
            batches,
            nanoseconds: self.clock.now().since(begin).0 / 1000,
            task_bytes: 0,
            bytes_read: reading.bytes.get(),
            commands: reading.commands.get(),
            link_bytes: self.crossed_since(before),
            host_cycles,
            drive_cycles: self.cycles_since(busy),
            record,
        })
    }

    /// Evaluates row groups as they arrive. Returns the result and the cycles spent.
    async fn evaluate_all(
        &self,
        execution: &mut Execution,
        table: &TableInfo,
        metas: &[GroupMeta],
        reading: &Reading,
    ) -> Result<(Vec<RecordBatch>, u64), AskFailure> {
        let columns = execution.columns().to_vec();
        let mut batches = Vec::new();
        let mut host_cycles = 0;
        let mut done = Amount::default();
        let mut decoded = Work::default();
        for (index, meta) in metas.iter().enumerate() {
            let chunks = reading.brought(index).await?;
            let arrays: Result<Vec<_>, _> = columns
                .iter()
                .zip(&chunks)
                .map(|(column, chunk)| group::decode(&table.schema, *column, meta, chunk, &mut decoded))
                .collect();
            let arrays = arrays.map_err(wrong)?;
            let batch = stream::batch(&table.schema, &columns, arrays, meta.rows as usize).map_err(wrong)?;
            batches.extend(execution.push(&batch).map_err(AskFailure::of)?);
            host_cycles += self.evaluate(execution, &decoded, &mut done).await;
            if execution.is_done() {
                break;
            }
        }
        batches.extend(execution.finish().map_err(AskFailure::of)?);
        host_cycles += self.evaluate(execution, &decoded, &mut done).await;
        Ok((batches, host_cycles))
    }

    /// Lists the row groups of a table.
    ///
    /// # Errors
    /// [`SessionError`] if a command failed.
    pub async fn groups(&self, table: u32) -> Result<Vec<GroupRecord>, SessionError> {
        let mut buffer = self.take_buffer()?;
        let groups = self.client.groups(&mut buffer, table).await;
        self.give_back(buffer);
        Ok(groups?)
    }

    /// Charges the work since `done` to this host's processor, and advances `done`. Returns the cycles.
    pub(crate) async fn evaluate(&self, execution: &Execution, decoded: &Work, done: &mut Amount) -> u64 {
        let mut work = *execution.work();
        work += *decoded;
        let amount = Amount::of(&work);
        let new = amount.since(*done);
        *done = amount;
        self.work_here(new).await
    }

    /// Charges work to this host's processor, with as many cycles as on the drive's cores. Returns the
    /// cycles.
    pub(crate) async fn work_here(&self, amount: Amount) -> u64 {
        let cycles = self.model.cycles(amount);
        self.compute("evaluate", cycles).await;
        cycles
    }

    /// Occupies this host's processor for `cycles` cycles.
    pub(crate) async fn compute(&self, what: &'static str, cycles: u64) {
        let time = Delay::from_ps((u128::from(cycles) * 1_000_000_000_000 / u128::from(self.hertz)) as u64);
        let service = self.cpu.reserve_for(what, time);
        self.clock.sleep_until(service.end).await;
    }

    /// Total cycles of the drive's cores; `None` unless it is simulated.
    pub(crate) fn drive_cycles(&self) -> Option<u64> {
        let busy = self.busy.as_ref()?();
        Some((busy.0 as f64 / 1e12 * self.model.core_hertz) as u64)
    }

    pub(crate) fn cycles_since(&self, before: Option<u64>) -> Option<u64> {
        Some(self.drive_cycles()?.saturating_sub(before?))
    }

    pub(crate) fn crossed_since(&self, before: Option<(u64, u64)>) -> Option<(u64, u64)> {
        let ((down, up), (down_then, up_then)) = (self.crossed()?, before?);
        Some((down - down_then, up - up_then))
    }
}
