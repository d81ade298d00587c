//! Tables in a drive, and queries over them: what the drive has of them, and the commands that ask it
//! ([`byteway_wire::nvme::vendor::csd`]). Tasks go to the drive by every method; what they say, and what results and schemas look like
//! inside, is for others to know.

use crate::buffer::{IoBuffer, Part};
use crate::carrier::{Carrier, Counts, TransferConfig, succeeded};
use crate::error::{ClientError, ClientErrorKind, IoError, Lost};
use crate::io::Opened;
use crate::port::Port;
use crate::queue::QueuePair;
use byteway_clock::{SpanId, SpanRecord};
use byteway_transfer::TransferKind;
use byteway_wire::nvme::vendor::csd::{
    self, Append, Create, END, FILTERED, Fetch, Filtered, GroupRecord, List, Problem, Read, TOO_SMALL,
    TableRecord, Task,
};
use byteway_wire::nvme::{Cqe, Sqe, VendorOpcode};
use std::convert::Infallible;
use std::rc::Rc;

/// How a client moves its payloads. It has no oracle: who asks knows what to expect.
pub type TablesConfig = TransferConfig<Infallible>;

/// What can go wrong with tables and queries, beside what can with any I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// The drive says why it does not do what a task asks.
    #[error("{words}")]
    Task {
        /// Of which kind that is.
        problem: Problem,
        /// In its words.
        words: String,
    },
    /// What the drive answers is cut off, or is no answer.
    #[error("what the drive says of its {0} is not whole")]
    Answer(&'static str),
    /// A record does not fit into a buffer.
    #[error("a record of the drive's {0} is longer than {1} B")]
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

/// Why an I/O of such a client failed.
pub type TablesIoError = IoError<TablesError>;

impl From<IoError> for TablesIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}

/// What a fetch has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes of the result, at the beginning of the buffer.
    pub bytes: u32,
    /// There is no more, and the cursor is closed.
    pub is_end: bool,
    /// They are words that say what is wrong.
    pub problem: Option<Problem>,
}

struct Inner {
    carrier: Carrier,
    nsid: u32,
}

/// Commands about the tables of one namespace over one queue pair. Cheap to clone; any number may be under way, each with a buffer of its
/// own.
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

    /// Payloads by the way that they went.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts.get()
    }

    /// Bytes that a command brings at most.
    pub fn bytes_max(&self) -> u32 {
        self.0.carrier.bytes_max()
    }

    /// A buffer of the longest payload.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Copies the beginning of a buffer out.
    pub fn take(&self, buffer: &IoBuffer, bytes: u32, into: &mut Vec<u8>) -> Result<(), IoError> {
        self.0.carrier.take(buffer, bytes, into)
    }

    /// Makes an empty table; gives its number.
    ///
    /// # Errors
    /// The command failed or was lost: there is such a table, or the bytes are no schema.
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

    /// Ends a table.
    ///
    /// # Errors
    /// The command failed or was lost: there is no such table.
    pub async fn drop_table(&self, table: u32) -> Result<(), TablesIoError> {
        self.execute(csd::drop_table(table, 0, self.0.nsid)).await.map(drop)
    }

    /// Appends the rows of an Arrow IPC stream, all or none; gives the rows that the table has then.
    ///
    /// # Errors
    /// A command failed or was lost; of the last one it is not known whether it was carried out.
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
        Err(IoError::Client(TablesError::Answer("rows"))) // an empty stream is none
    }

    /// All tables.
    ///
    /// # Errors
    /// A command failed or was lost, or the drive's answer is none.
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

    /// The row groups of a table.
    ///
    /// # Errors
    /// A command failed or was lost, or the drive's answer is none.
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

    /// Appends bytes of a row group's columns to `into`.
    ///
    /// # Errors
    /// A command failed or was lost: there are no such bytes.
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

    /// Brings a task, by the way that rules and limits choose; gives the cursor of its result, and where the time went.
    ///
    /// # Errors
    /// The command failed or was lost.
    pub async fn task(
        &self,
        buffer: &mut IoBuffer,
        form: u8,
        payload: &[u8],
    ) -> Result<(u32, SpanRecord), TablesIoError> {
        let (done, span) = self.bring_task(buffer, payload, form, false).await?;
        Ok((done.dw0, span))
    }

    /// Brings a task that the drive only checks, and does not execute: what is wrong with it, if anything is, and where the time went.
    ///
    /// # Errors
    /// The command failed or was lost.
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
            TransferKind::Piggyback => carrier.send_serialized(span, payload, head).await,
            TransferKind::PiggybackPipelined => carrier.send_pipelined(span, payload, head, None).await,
            _ => Err(Lost::NotPlaced),
        };
        match streamed {
            // It is not a stream, or cannot be one: there is no room for it, or a reset has changed what the queue takes.
            Err(Lost::NotPlaced) => {
                self.send(span, task.sqe(VendorOpcode::CSD_TASK, 0, self.0.nsid), buffer, task.bytes).await
            }
            streamed => {
                carrier.note(choice);
                succeeded(streamed?)
            }
        }
    }

    /// Fetches more of a result into a buffer, and where the time went.
    ///
    /// # Errors
    /// The command failed or was lost: the cursor is closed.
    pub async fn fetch(
        &self,
        buffer: &mut IoBuffer,
        cursor: u32,
    ) -> Result<(Fetched, SpanRecord), TablesIoError> {
        self.fetch_some(buffer, cursor, u32::MAX).await
    }

    /// As [`fetch`](Self::fetch), of at most `bytes_max` bytes: a result that is known to be short needs no list of pages.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
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
    /// The command failed or was lost: there is no such cursor.
    pub async fn cancel(&self, cursor: u32) -> Result<(), TablesIoError> {
        self.execute(csd::cancel(cursor, 0, self.0.nsid)).await.map(drop)
    }

    /// Brings a task, and fetches its whole result, which is appended to `into`.
    ///
    /// # Errors
    /// A command failed or was lost, or the drive says why it does not do that ([`TablesError::Task`]).
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

    /// Brings a task whose rows a program of the drive filters, and fetches its whole result, which is appended to `into`. The program is
    /// loaded and activated before, by a [`ProgramsClient`](crate::ProgramsClient).
    ///
    /// # Errors
    /// As of [`query`](Self::query); [`Problem::Program`]: there is no such program, or it was stopped.
    pub async fn filter(
        &self,
        buffer: &mut IoBuffer,
        filtered: &Filtered<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), TablesIoError> {
        self.query(buffer, FILTERED, &filtered.to_bytes(), into).await
    }

    /// What a list's command has brought, and whether that is all.
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
