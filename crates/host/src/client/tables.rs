//! Client of the drive's tables and queries ([`byteway_wire::nvme::vendor::csd`]). Tasks can be transferred
//! by every method. The contents of tasks, results and schemas are opaque here.

use crate::carrier::{Carrier, Counts, TransferConfig, succeeded};
use crate::client::block::Opened;
use crate::driver::buffer::{IoBuffer, Part};
use crate::driver::port::Port;
use crate::driver::queue::QueuePair;
use crate::error::{ClientError, ClientErrorKind, IoError, Lost};
use byteway_clock::{SpanId, SpanRecord};
use byteway_transfer::TransferKind;
use byteway_wire::nvme::vendor::csd::{
    self, Append, Create, END, FILTERED, Fetch, Filtered, GroupRecord, List, Problem, Read, TOO_SMALL,
    TableRecord, Task,
};
use byteway_wire::nvme::{Cqe, Sqe, VendorOpcode};
use std::convert::Infallible;
use std::rc::Rc;

/// Transfer configuration of a client. There is no oracle: callers verify results.
pub type TablesConfig = TransferConfig<Infallible>;

/// Errors of tables and queries, in addition to those of any I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// The drive reports why it cannot execute a task.
    #[error("{words}")]
    Task {
        /// Kind of the problem.
        problem: Problem,
        /// Error text of the drive.
        words: String,
    },
    /// A malformed or truncated answer of the drive.
    #[error("the drive's answer about {0} is malformed or truncated")]
    Answer(&'static str),
    /// A record does not fit into the client's buffer.
    #[error("a record in the drive's list of {0} is longer than {1} B")]
    TooSmall(&'static str, u32),
}

impl ClientError for TablesError {
    fn kind(&self) -> ClientErrorKind {
        match self {
            TablesError::Task { .. } | TablesError::TooSmall(..) => ClientErrorKind::Refused,
            TablesError::Answer(_) => ClientErrorKind::WrongData,
        }
    }
}

/// Error of an I/O of this client.
pub type TablesIoError = IoError<TablesError>;

impl From<IoError> for TablesIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}

/// Outcome of a fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes of the result, at the beginning of the buffer.
    pub bytes: u32,
    /// The result is complete, and the cursor is closed.
    pub is_end: bool,
    /// The bytes are an error text for this problem.
    pub problem: Option<Problem>,
}

struct Inner {
    carrier: Carrier,
    nsid: u32,
}

/// A client of the tables of one namespace over one queue pair. Cheap to clone. Any number of commands may be
/// in flight, each with its own buffer.
#[derive(Clone)]
pub struct TablesClient(Rc<Inner>);

impl TablesClient {
    /// A client of the namespace of tables `nsid` on `queue`, which has been enabled for [`TransferConfig::methods`].
    pub fn new(queue: QueuePair, nsid: u32, config: &TablesConfig) -> TablesClient {
        TablesClient(Rc::new(Inner { carrier: Carrier::new(queue, config), nsid }))
    }

    /// The queue pair.
    pub fn queue(&self) -> &QueuePair {
        &self.0.carrier.queue
    }

    /// The namespace.
    pub fn nsid(&self) -> u32 {
        self.0.nsid
    }

    /// Number of payloads by transfer method.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts()
    }

    /// Maximum payload of a command, in bytes.
    pub fn bytes_max(&self) -> u32 {
        self.0.carrier.bytes_max()
    }

    /// Allocates a buffer for the longest payload.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Copies the first `bytes` of a buffer to `into`, replacing its contents.
    pub fn take(&self, buffer: &IoBuffer, bytes: u32, into: &mut Vec<u8>) -> Result<(), IoError> {
        self.0.carrier.take(buffer, bytes, into)
    }

    /// Creates an empty table. Returns its number.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost; it fails if the name is taken or the schema is
    /// invalid.
    pub async fn create(
        &self,
        buffer: &mut IoBuffer,
        name: &str,
        schema: &[u8],
    ) -> Result<u32, TablesIoError> {
        let bytes = Create { name, schema }.to_bytes();
        self.0.carrier.put(buffer, &bytes)?;
        let sqe = Create::sqe(bytes.len() as u32, 0, self.0.nsid);
        Ok(self.send(SpanId::NONE, sqe, buffer, bytes.len() as u32).await?.dw0)
    }

    /// Drops a table.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost; it fails if the table does not exist.
    pub async fn drop_table(&self, table: u32) -> Result<(), TablesIoError> {
        self.execute(csd::drop_table(table, 0, self.0.nsid)).await.map(drop)
    }

    /// Appends the rows of an Arrow IPC stream, all or none. Returns the number of rows of the table
    /// afterwards.
    ///
    /// # Errors
    /// [`TablesIoError`] if a command failed or was lost. If the last one was lost, the rows may have been
    /// appended.
    pub async fn append(
        &self,
        buffer: &mut IoBuffer,
        table: u32,
        stream: &[u8],
    ) -> Result<u64, TablesIoError> {
        let carrier = &self.0.carrier;
        let mut upload = 0;
        let mut parts = stream.chunks(carrier.bytes_max() as usize).peekable();
        while let Some(part) = parts.next() {
            carrier.put(buffer, part)?;
            let (bytes, ends) = (part.len() as u32, parts.peek().is_none());
            let sqe = Append { bytes, upload, table, ends }.sqe(0, self.0.nsid);
            let done = self.send(SpanId::NONE, sqe, buffer, bytes).await?;
            if ends {
                return Ok(u64::from(done.dw0) | u64::from(done.dw1) << 32);
            }
            upload = done.dw0;
        }
        Err(IoError::Client(TablesError::Answer("rows"))) // an empty stream is invalid
    }

    /// Lists all tables.
    ///
    /// # Errors
    /// [`TablesIoError`] if a command failed or was lost, or the answer is malformed.
    pub async fn list(&self, buffer: &mut IoBuffer) -> Result<Vec<TableRecord>, TablesIoError> {
        let mut all: Vec<TableRecord> = Vec::new();
        loop {
            let first = all.last().map_or(0, |last| last.table + 1);
            let list = List { buffer_bytes: self.0.carrier.bytes_max(), table: first, group: 0 };
            let sqe = list.sqe(VendorOpcode::TABLE_LIST, 0, self.0.nsid);
            let (bytes, is_end) = self.records(buffer, sqe, "tables").await?;
            let records = TableRecord::all(&bytes).filter(|records| is_end || !records.is_empty());
            all.extend(records.ok_or(IoError::Client(TablesError::Answer("tables")))?);
            if is_end {
                return Ok(all);
            }
        }
    }

    /// Lists the row groups of a table.
    ///
    /// # Errors
    /// [`TablesIoError`] if a command failed or was lost, or the answer is malformed.
    pub async fn groups(&self, buffer: &mut IoBuffer, table: u32) -> Result<Vec<GroupRecord>, TablesIoError> {
        let mut all = Vec::new();
        loop {
            let list = List { buffer_bytes: self.0.carrier.bytes_max(), table, group: all.len() as u32 };
            let sqe = list.sqe(VendorOpcode::TABLE_GROUPS, 0, self.0.nsid);
            let (bytes, is_end) = self.records(buffer, sqe, "row groups").await?;
            let records = GroupRecord::all(&bytes).filter(|records| is_end || !records.is_empty());
            all.extend(records.ok_or(IoError::Client(TablesError::Answer("row groups")))?);
            if is_end {
                return Ok(all);
            }
        }
    }

    /// Reads bytes of a row group's columns and appends them to `into`.
    ///
    /// # Errors
    /// [`TablesIoError`] if a command failed or was lost; it fails if the range is invalid.
    pub async fn read(
        &self,
        buffer: &mut IoBuffer,
        (table, group): (u32, u32),
        (offset, bytes): (u64, u64),
        into: &mut Vec<u8>,
    ) -> Result<(), TablesIoError> {
        let carrier = &self.0.carrier;
        let (mut next, end) = (offset, offset + bytes);
        let mut part = Vec::new();
        while next < end {
            let bytes = (end - next).min(carrier.bytes_max().into()) as u32;
            let sqe = Read { bytes, table, group, offset: next }.sqe(0, self.0.nsid);
            let done = carrier.receive(SpanId::NONE, sqe, buffer, bytes).await?;
            succeeded::<TablesError>(done)?;
            carrier.take(buffer, bytes, &mut part)?;
            into.extend_from_slice(&part);
            next += u64::from(bytes);
        }
        Ok(())
    }

    /// Sends a task, by the method that rules and limits select. Returns the cursor of its result, and the
    /// span of the I/O.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost.
    pub async fn task(
        &self,
        buffer: &mut IoBuffer,
        form: u8,
        payload: &[u8],
    ) -> Result<(u32, SpanRecord), TablesIoError> {
        let (done, span) = self.bring_task(buffer, payload, form, false).await?;
        Ok((done.dw0, span))
    }

    /// Sends a task that the drive only checks. Returns the problem, if any, and the span of the I/O.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost.
    pub async fn check(
        &self,
        buffer: &mut IoBuffer,
        form: u8,
        payload: &[u8],
    ) -> Result<(Option<Problem>, SpanRecord), TablesIoError> {
        let (done, span) = self.bring_task(buffer, payload, form, true).await?;
        Ok((Problem::of(done.dw1), span))
    }

    async fn bring_task(
        &self,
        buffer: &mut IoBuffer,
        payload: &[u8],
        form: u8,
        is_check: bool,
    ) -> Result<(Cqe, SpanRecord), TablesIoError> {
        self.0.carrier.put(buffer, payload)?;
        let task = Task { bytes: payload.len() as u32, form, is_check };
        let opened = Opened::open(self.port());
        let sent = self.send_task(opened.span(), task, buffer).await;
        let span = opened.close(self.port());
        Ok((sent?, span))
    }

    async fn send_task(&self, span: SpanId, task: Task, buffer: &IoBuffer) -> Result<Cqe, TablesIoError> {
        let carrier = &self.0.carrier;
        let choice = carrier.choose(buffer, task.bytes);
        let payload = Part { buffer: &buffer.buffer, offset: 0, bytes: task.bytes };
        let head = task.sqe(VendorOpcode::CSD_TASK_PIGGYBACK, 0, self.0.nsid);
        let streamed = match choice.kind {
            TransferKind::Piggyback => Some(carrier.send_serialized(span, payload, head).await),
            TransferKind::PiggybackPipelined => Some(carrier.send_pipelined(span, payload, head, None).await),
            _ => None,
        };
        let choice = match streamed {
            None => choice,
            // Not possible as a stream: not enough free slots, or a reset has disabled the method.
            Some(Err(Lost::NotPlaced)) => carrier.choose(buffer, task.bytes),
            Some(streamed) => {
                carrier.note(choice);
                return succeeded(streamed?);
            }
        };
        let sqe = task.sqe(VendorOpcode::CSD_TASK, 0, self.0.nsid);
        succeeded(carrier.send_chosen(choice, span, sqe, buffer, task.bytes).await?)
    }

    /// Fetches the next part of a result into `buffer`.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost; the cursor is then closed.
    pub async fn fetch(
        &self,
        buffer: &mut IoBuffer,
        cursor: u32,
    ) -> Result<(Fetched, SpanRecord), TablesIoError> {
        self.fetch_some(buffer, cursor, u32::MAX).await
    }

    /// Like [`fetch`](Self::fetch), with a buffer of at most `bytes_max` bytes: a short result needs no PRP
    /// list.
    pub async fn fetch_some(
        &self,
        buffer: &mut IoBuffer,
        cursor: u32,
        bytes_max: u32,
    ) -> Result<(Fetched, SpanRecord), TablesIoError> {
        let carrier = &self.0.carrier;
        let buffer_bytes = carrier.bytes_max().min(bytes_max);
        let opened = Opened::open(self.port());
        let sqe = Fetch { cursor, buffer_bytes }.sqe(0, self.0.nsid);
        let received = carrier.receive(opened.span(), sqe, buffer, buffer_bytes).await;
        let span = opened.close(self.port());
        let done = succeeded::<TablesError>(received?)?;
        let bytes = done.dw0.min(buffer_bytes);
        Ok((Fetched { bytes, is_end: done.dw1 & END != 0, problem: Problem::of(done.dw1) }, span))
    }

    /// Closes a cursor.
    ///
    /// # Errors
    /// [`TablesIoError`] if the command failed or was lost; it fails if the cursor does not exist.
    pub async fn cancel(&self, cursor: u32) -> Result<(), TablesIoError> {
        self.execute(csd::cancel(cursor, 0, self.0.nsid)).await.map(drop)
    }

    /// Sends a task, fetches its whole result and appends it to `into`.
    ///
    /// # Errors
    /// [`TablesError::Task`] if the drive cannot execute it; otherwise [`TablesIoError`] if a command failed
    /// or was lost.
    pub async fn query(
        &self,
        buffer: &mut IoBuffer,
        form: u8,
        payload: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<(), TablesIoError> {
        let (cursor, _) = self.task(buffer, form, payload).await?;
        let (begin, mut part) = (into.len(), Vec::new());
        loop {
            let (fetched, _) = self.fetch(buffer, cursor).await?;
            self.take(buffer, fetched.bytes, &mut part)?;
            if let Some(problem) = fetched.problem {
                into.truncate(begin);
                let words = String::from_utf8_lossy(&part).into_owned();
                return Err(IoError::Client(TablesError::Task { problem, words }));
            }
            into.extend_from_slice(&part);
            if fetched.is_end {
                return Ok(());
            }
        }
    }

    /// Like [`query`](Self::query), for a task whose rows a program of the drive filters. A
    /// [`ProgramsClient`](crate::ProgramsClient) must have loaded and activated the program.
    ///
    /// # Errors
    /// Same as [`query`](Self::query); [`Problem::Program`] if the program does not exist, is not activated, or
    /// was stopped.
    pub async fn filter(
        &self,
        buffer: &mut IoBuffer,
        filtered: &Filtered<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), TablesIoError> {
        self.query(buffer, FILTERED, &filtered.to_bytes(), into).await
    }

    /// Executes a list command. Returns its records, and whether the list is complete.
    async fn records(
        &self,
        buffer: &mut IoBuffer,
        sqe: Sqe,
        what: &'static str,
    ) -> Result<(Vec<u8>, bool), TablesIoError> {
        let carrier = &self.0.carrier;
        let most = carrier.bytes_max();
        let done = succeeded::<TablesError>(carrier.receive(SpanId::NONE, sqe, buffer, most).await?)?;
        if done.dw1 & TOO_SMALL != 0 {
            return Err(IoError::Client(TablesError::TooSmall(what, most)));
        }
        let mut bytes = Vec::new();
        carrier.take(buffer, done.dw0.min(most), &mut bytes)?;
        Ok((bytes, done.dw1 & END != 0))
    }

    async fn send(
        &self,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, TablesIoError> {
        succeeded(self.0.carrier.send(span, sqe, buffer, bytes).await?)
    }

    async fn execute(&self, sqe: Sqe) -> Result<Cqe, TablesIoError> {
        succeeded(self.0.carrier.queue.execute(sqe).await?)
    }

    fn port(&self) -> &Port {
        self.0.carrier.queue.port()
    }
}
