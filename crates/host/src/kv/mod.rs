//! Key value operations over a queue pair: values go to the device by every method, each operation is followed from start to
//! end by a span, and verified if there is an oracle.
//!
//! | file | what |
//! |---|---|
//! | `kv/mod.rs` | [`KvClient`]: one operation at a time for each buffer, any number under way |
//! | `kv/noted.rs` | operations under way, in the oracle |
//! | [`bulk`] | [`KvBulk`]: pairs gathered in host memory and stored many at once |
//! | [`window`] | [`LossWindow`]: what such pairs would lose with the host |
//! | [`batch`] | [`KvBatch`]: stores with several outstanding, by tasks that are made once |
//! | [`cursor`] | [`KvCursor`]: a namespace's pairs in order, as they were at one moment |
//! | [`oracle`] | [`KvOracle`]: what each key must hold |

pub mod batch;
pub mod bulk;
pub mod cursor;
mod noted;
pub mod oracle;
pub mod window;

pub use batch::KvBatch;
pub use bulk::{BulkLimits, KvBulk};
pub use cursor::KvCursor;
pub use oracle::{Held, KvClear, KvMismatch, KvOracle, KvOutcome, KvRead, KvWrite};
pub use window::{LossFigures, LossWindow};

use crate::buffer::IoBuffer;
use crate::buffer::Part;
use crate::carrier::{Carrier, Counts, Results, TransferConfig};
use crate::error::Lost;
use crate::error::{ClientError, IoError, Meaning};
use crate::io::Opened;
use crate::port::Port;
use crate::queue::{Came, QueuePair, Request};
use byteway_clock::{SpanId, SpanRecord};
use byteway_transfer::host::Buffer;
use byteway_transfer::{Choice, Way};
use byteway_wire::nvme::kv::{Key, List, Retrieve, Store, list};
use byteway_wire::nvme::vendor::ResultSlot;
use byteway_wire::nvme::{Cqe, Flush, KvOpcode, Sqe, Status, VendorOpcode};
use noted::{Reading, Writing};
use std::cell::RefCell;
use std::rc::Rc;

/// When a store is carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreIf {
    /// Always.
    #[default]
    Any,
    /// If there is such a key.
    Exists,
    /// If there is none.
    Absent,
}

/// How a client moves its values. Those that are rounded up to DMA units must have room for that in their buffers. Its
/// oracle is shared by the clients of one namespace; without one buffers are stored as they are, and nothing is verified.
pub type KvConfig = TransferConfig<KvOracle>;

/// What can go wrong with pairs, beside what can with any I/O.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// A key holds what it must not.
    #[error(transparent)]
    Mismatch(Box<KvMismatch>),
    /// The buffer is too small for a pair.
    #[error("the next pair takes {bytes} bytes")]
    TooSmall {
        /// What it takes.
        bytes: u32,
    },
}

impl ClientError for KvError {
    fn meaning(&self) -> Meaning {
        match self {
            KvError::Mismatch(_) => Meaning::WrongData,
            KvError::TooSmall { .. } => Meaning::Refused,
        }
    }
}

/// Why an I/O of such a client failed.
pub type KvIoError = IoError<KvError>;

impl From<IoError> for KvIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}

/// What became of an operation that looks for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether there was such a key.
    pub found: bool,
    /// Of a retrieve: bytes of the whole value. The beginning of the buffer holds what it has room for.
    pub value_bytes: u32,
    /// Where the time went.
    pub span: SpanRecord,
}

struct Inner {
    carrier: Carrier,
    nsid: u32,
    results: Results,
    oracle: Option<Rc<RefCell<KvOracle>>>,
}

/// Key value operations on one namespace over one queue pair. Cheap to clone; any number may be under way, each with a
/// buffer of its own.
#[derive(Clone)]
pub struct KvClient(Rc<Inner>);

impl KvClient {
    /// A client of the key value namespace `nsid` on `queue`, which has been enabled for [`KvConfig::methods`].
    pub fn new(queue: QueuePair, nsid: u32, config: KvConfig) -> KvClient {
        let carrier = Carrier::new(queue, &config).for_pairs(nsid);
        let KvConfig { results, oracle, .. } = config;
        KvClient(Rc::new(Inner { carrier, nsid, results, oracle }))
    }

    /// The queue pair.
    pub fn queue(&self) -> &QueuePair {
        &self.0.carrier.queue
    }

    /// The namespace.
    pub fn nsid(&self) -> u32 {
        self.0.nsid
    }

    /// Values by the way that they went.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts.get()
    }

    /// What its operations are compared with.
    pub fn oracle(&self) -> Option<&Rc<RefCell<KvOracle>>> {
        self.0.oracle.as_ref()
    }

    /// The way of a value of the first `bytes` of `buffer` to the device, if its store has no conditions.
    pub fn choose(&self, buffer: &IoBuffer, bytes: u32) -> Choice {
        self.0.carrier.choose(buffer, bytes)
    }

    /// A buffer for values and lists of up to [`KvConfig::bytes_max`], in pages that follow one another.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Takes a buffer that was made elsewhere: scattered, or with an offset in its first page.
    pub fn adopt(&self, buffer: Buffer) -> Result<IoBuffer, IoError> {
        self.0.carrier.adopt(buffer)
    }

    /// Fills the beginning of a buffer, for stores without an oracle.
    pub fn put(&self, buffer: &mut IoBuffer, from: &[u8]) -> Result<(), IoError> {
        self.0.carrier.put(buffer, from)
    }

    /// Copies the beginning of a buffer out.
    pub fn get(&self, buffer: &IoBuffer, into: &mut [u8]) -> Result<(), IoError> {
        self.0.carrier.get(buffer, into)
    }

    /// Stores the first `bytes` of `buffer`, filled with a new pattern if there is an oracle, under `key`.
    ///
    /// # Errors
    /// The command failed or was lost; with [`Status::KEY_EXISTS`] or [`Status::KEY_DOES_NOT_EXIST`] because of `when`.
    /// Or it found what it must not ([`KvError::Mismatch`]).
    pub async fn store(
        &self,
        buffer: &mut IoBuffer,
        key: Key,
        bytes: u32,
        when: StoreIf,
    ) -> Result<SpanRecord, KvIoError> {
        self.0.carrier.fits(buffer, bytes)?;
        let opened = Opened::open(self.port());
        let writing = self.note_write(when, |oracle| oracle.begin_store(key, bytes));
        let filled = match &writing {
            Some(writing) => self.fill(writing, buffer, bytes),
            None => Ok(()),
        };
        let store = Store {
            key: key.field(),
            bytes,
            must_exist: when == StoreIf::Exists,
            must_not_exist: when == StoreIf::Absent,
            no_compression: false,
        };
        let completed = match filled {
            Ok(()) => self.send(opened.span, store, buffer).await,
            Err(error) => Err(error.into()),
        };
        let record = opened.close(self.port());
        self.end_write(writing, key, when, completed)?;
        Ok(record)
    }

    /// Fetches the value of `key` from `offset` on into the beginning of `buffer`, of which `bytes` may be used, and verifies
    /// it.
    ///
    /// # Errors
    /// The command failed or was lost, or what came must not be there ([`KvError::Mismatch`]).
    pub async fn retrieve(
        &self,
        buffer: &mut IoBuffer,
        key: Key,
        offset: u32,
        bytes: u32,
    ) -> Result<Answer, KvIoError> {
        self.0.carrier.fits(buffer, bytes)?;
        let opened = Opened::open(self.port());
        let reading = self.note_read();
        let inline_result = self.results_behind(bytes);
        let retrieve = Retrieve { key: key.field(), buffer_bytes: bytes, raw: false, offset, inline_result };
        let received = self.receive(opened.span, retrieve.sqe(0, self.0.nsid), buffer, bytes).await;
        let span = opened.close(self.port());
        match received {
            Ok(value_bytes) => {
                let came = value_bytes.saturating_sub(offset).min(bytes);
                if let Some(reading) = reading {
                    let verified = self.0.carrier.with_payload(&buffer.buffer, came, |part| {
                        let mut oracle = reading.oracle.borrow_mut();
                        oracle.verify_value(reading.read, key, value_bytes, offset, part)
                    })?;
                    verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
                }
                Ok(Answer { found: true, value_bytes, span })
            }
            Err(error) => self.not_found(error, reading, key, span),
        }
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    /// As [`KvClient::retrieve`].
    pub async fn exist(&self, key: Key) -> Result<Answer, KvIoError> {
        let opened = Opened::open(self.port());
        let reading = self.note_read();
        let completed = self.execute(opened.span, key.field().sqe(KvOpcode::EXIST, 0, self.0.nsid)).await;
        let span = opened.close(self.port());
        match completed {
            Ok(_) => {
                if let Some(reading) = reading {
                    let mut oracle = reading.oracle.borrow_mut();
                    let verified = oracle.verify_key(reading.read, key, true, None);
                    verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
                }
                Ok(Answer { found: true, value_bytes: 0, span })
            }
            Err(error) => self.not_found(error, reading, key, span),
        }
    }

    /// Deletes a key; that there was none is an answer.
    ///
    /// # Errors
    /// As [`KvClient::retrieve`].
    pub async fn delete(&self, key: Key) -> Result<Answer, KvIoError> {
        let opened = Opened::open(self.port());
        let writing = self.note_write(StoreIf::Exists, |oracle| oracle.begin_delete(key));
        let completed = self.execute(opened.span, key.field().sqe(KvOpcode::DELETE, 0, self.0.nsid)).await;
        let span = opened.close(self.port());
        let found = match self.end_write(writing, key, StoreIf::Exists, completed) {
            Ok(()) => true,
            Err(IoError::Status(status)) if status.is(Status::KEY_DOES_NOT_EXIST) => false,
            Err(error) => return Err(error),
        };
        Ok(Answer { found, value_bytes: 0, span })
    }

    /// Adds to `keys` those from `first` on, or from the beginning, in order, as many as a list of `bytes` holds, and
    /// verifies them. True: there are no more.
    ///
    /// # Errors
    /// The command failed or was lost, what came is no list ([`IoError::BrokenResult`]), or not the right one
    /// ([`KvError::Mismatch`]).
    pub async fn list(
        &self,
        buffer: &mut IoBuffer,
        first: Option<Key>,
        bytes: u32,
        keys: &mut Vec<Key>,
    ) -> Result<bool, KvIoError> {
        self.0.carrier.fits(buffer, bytes)?;
        let opened = Opened::open(self.port());
        let reading = self.note_read();
        let field = first.map_or_else(Default::default, |first| first.field());
        let sqe = List { key: field, buffer_bytes: bytes }.sqe(0, self.0.nsid);
        let received = self.receive_by_pointer(opened.span, sqe, buffer, bytes).await;
        opened.close(self.port());
        received?;
        let begin = keys.len();
        let used = self.0.carrier.with_payload(&buffer.buffer, bytes, |part| {
            keys.extend(list::keys(part).map_while(Key::new));
            (keys.len() - begin == list::count(part) as usize).then(|| {
                let entries = keys[begin..].iter().map(|key| list::entry_bytes(key.as_bytes().len()));
                list::HEADER_BYTES + entries.sum::<usize>()
            })
        })?;
        let used = used.ok_or(KvIoError::BrokenResult)?;
        // Where the longest key would have had room, nothing was left out.
        let is_whole = bytes as usize - used.min(bytes as usize) >= list::entry_bytes(16);
        if let Some(reading) = reading {
            let mut oracle = reading.oracle.borrow_mut();
            let verified = oracle.verify_list(reading.read.window(), first, &keys[begin..], is_whole);
            verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
        }
        Ok(is_whole)
    }

    /// Waits until everything that was completed is on the medium.
    pub async fn flush(&self) -> Result<SpanRecord, KvIoError> {
        let opened = Opened::open(self.port());
        let begun = self.0.oracle.as_deref().map(|oracle| oracle.borrow_mut().begin_flush());
        let completed = self.execute(opened.span, Flush.sqe(0, self.0.nsid)).await;
        let record = opened.close(self.port());
        completed?;
        if let (Some(oracle), Some(begun)) = (self.0.oracle.as_deref(), begun) {
            oracle.borrow_mut().end_flush(begun);
        }
        Ok(record)
    }

    /// Sends a Store by the way that rules and limits choose. While values are placed by the host, those that the controller
    /// places wait for them, and tell of their places.
    async fn send(&self, span: SpanId, store: Store, buffer: &IoBuffer) -> Result<Cqe, KvIoError> {
        let carrier = &self.0.carrier;
        let Some(owner) = carrier.page_owner() else { return self.send_by(span, store, buffer).await };
        let way = carrier.choose(buffer, store.bytes).way;
        if matches!(way, Way::CxlMem | Way::CxlCommit) {
            match carrier.send_placed(way, span, &store, self.0.nsid, buffer).await {
                Err(Lost::NotPlaced) => {}
                sent => return succeeded(sent?),
            }
        }
        let other = owner.other().await;
        carrier.waited(span);
        let sent = self.send_by(span, store, buffer).await;
        let ended = match &sent {
            Ok(cqe) => Ok(*cqe),
            Err(IoError::Status(status)) => Ok(Cqe::new(0, *status, 0, 0)),
            Err(_) => Err(Lost::Reset),
        };
        other.complete(ended, store.bytes, self.queue().enabled().cxl_mem());
        sent
    }

    async fn send_by(&self, span: SpanId, store: Store, buffer: &IoBuffer) -> Result<Cqe, KvIoError> {
        let carrier = &self.0.carrier;
        let sqe = store.sqe(0, self.0.nsid);
        let choice = carrier.choose(buffer, store.bytes);
        let payload = Part { buffer: &buffer.buffer, offset: 0, bytes: store.bytes };
        let mut head = sqe;
        // Where options would stand, a head has payload.
        let has_options = store.must_exist || store.must_not_exist || store.no_compression;
        let streamed = match choice.way {
            Way::Piggyback if !has_options => {
                head.set_opcode(VendorOpcode::KV_STORE_PIGGYBACK);
                carrier.send_serialized(span, payload, head).await
            }
            Way::PiggybackPipelined if !has_options => {
                head.set_opcode(VendorOpcode::KV_STORE_PIPELINED);
                carrier.send_pipelined(span, payload, head, 0).await
            }
            _ => Err(Lost::NotPlaced),
        };
        let completed = match streamed {
            // It is not a stream, or cannot be one: there is no room for it, or a reset has changed what the queue takes.
            Err(Lost::NotPlaced) => carrier.send(span, sqe, buffer, store.bytes).await?,
            streamed => {
                carrier.note(choice);
                streamed?
            }
        };
        succeeded(completed)
    }

    /// Receives up to `bytes` into the beginning of `buffer`; gives dword 0 of the completion.
    async fn receive(&self, span: SpanId, sqe: Sqe, buffer: &IoBuffer, bytes: u32) -> Result<u32, KvIoError> {
        let carrier = &self.0.carrier;
        let pointer = carrier.plan(carrier.result_kind(bytes), buffer, bytes)?;
        let behind = Retrieve::parse(&sqe).inline_result;
        let pages = buffer.buffer.pages_touched(bytes);
        let result_bytes = if behind { bytes } else { 0 };
        let request =
            Request { span, pages, result_bytes, may_be_short: true, ..pointer.placed_in(sqe).into() };
        let taken = |cqe: &Cqe, came, result: &[u8]| -> Result<u32, KvIoError> {
            match (cqe.status(), came) {
                (status, _) if !status.is_success() => return Err(IoError::Status(status)),
                (_, Came::Broken) => return Err(IoError::BrokenResult),
                (_, Came::Behind) => carrier.put(buffer, result)?,
                (_, Came::ByPointer) => {}
            }
            let should = self.0.results == Results::Inline && cqe.dw0 > 0 && bytes > 0;
            carrier.note_result(came == Came::Behind, should);
            Ok(cqe.dw0)
        };
        carrier.queue.submit(request).await?.with_result(taken).await?
    }

    /// The same where results come by data pointer only; gives the completion.
    async fn receive_by_pointer(
        &self,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, KvIoError> {
        succeeded(self.0.carrier.receive(span, sqe, buffer, bytes).await?)
    }

    /// A command without data.
    async fn execute(&self, span: SpanId, sqe: Sqe) -> Result<Cqe, KvIoError> {
        succeeded(self.queue().execute(Request { span, ..sqe.into() }).await?)
    }

    /// Whether a result of up to `bytes` may come behind its completion.
    fn results_behind(&self, bytes: u32) -> bool {
        let queue = self.queue();
        let fits = ResultSlot::count(bytes.min(queue.capabilities().inline_result_bytes_max)) + 1
            < queue.completion.entries;
        self.0.results == Results::Inline && bytes > 0 && fits && queue.enabled().inline_result()
    }

    fn port(&self) -> &Port {
        self.queue().port()
    }

    /// Fills a buffer with the value that a store is to store.
    fn fill(&self, writing: &Writing<'_>, buffer: &IoBuffer, bytes: u32) -> Result<(), IoError> {
        self.0.carrier.with_payload_mut(&buffer.buffer, bytes, |payload| {
            if let Some(write) = &writing.write {
                writing.oracle.borrow().fill(write, payload);
            }
        })
    }

    fn note_read(&self) -> Option<Reading<'_>> {
        let oracle = self.0.oracle.as_deref()?;
        let read = oracle.borrow_mut().begin_read();
        Some(Reading { oracle, read })
    }

    /// `when`: what it is to look for before.
    fn note_write(&self, when: StoreIf, begin: impl FnOnce(&mut KvOracle) -> KvWrite) -> Option<Writing<'_>> {
        let oracle = self.0.oracle.as_deref()?;
        let reading = if when == StoreIf::Any { None } else { self.note_read() };
        let write = Some(begin(&mut oracle.borrow_mut()));
        Some(Writing { oracle, reading, write })
    }

    fn end_write(
        &self,
        writing: Option<Writing<'_>>,
        key: Key,
        when: StoreIf,
        completed: Result<Cqe, KvIoError>,
    ) -> Result<(), KvIoError> {
        let status = match &completed {
            Ok(cqe) => Ok(cqe.status()),
            Err(IoError::Status(status)) => Ok(*status),
            Err(_) => Err(()),
        };
        if let Some(writing) = writing {
            writing.end(key, when, status)?;
        }
        completed.map(drop)
    }

    /// The answer of an operation that failed because there is no such key, which is verified.
    fn not_found(
        &self,
        error: KvIoError,
        reading: Option<Reading<'_>>,
        key: Key,
        span: SpanRecord,
    ) -> Result<Answer, KvIoError> {
        match &error {
            IoError::Status(status) if status.is(Status::KEY_DOES_NOT_EXIST) => {}
            _ => return Err(error),
        }
        if let Some(reading) = reading {
            let verified = reading.oracle.borrow_mut().verify_key(reading.read, key, false, None);
            verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
        }
        Ok(Answer { found: false, value_bytes: 0, span })
    }
}

fn succeeded(cqe: Cqe) -> Result<Cqe, KvIoError> {
    match cqe.status() {
        status if status.is_success() => Ok(cqe),
        status => Err(IoError::Status(status)),
    }
}
