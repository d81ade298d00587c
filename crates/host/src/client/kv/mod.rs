//! KV client: key-value operations over a queue pair, with every transfer method, traced by spans, and verified if
//! there is an oracle.
//!
//! | file | what |
//! |---|---|
//! | `kv/mod.rs` | [`KvClient`]: one operation per buffer, any number in flight |
//! | `kv/error.rs` | the precondition of a store, and why an I/O failed |
//! | `kv/noted.rs` | operations in flight, in the oracle |
//! | [`bulk`] | [`KvBulk`]: pairs gathered in host memory and stored together |
//! | [`window`] | [`LossWindow`]: what a crash of the host would lose of these |
//! | [`batch`] | [`KvBatch`]: several outstanding stores, executed by tasks created once |
//! | [`cursor`] | [`KvCursor`]: the pairs of a namespace in key order, as a snapshot |
//! | [`oracle`] | [`KvOracle`]: expected contents of each key |

pub mod batch;
pub mod bulk;
pub mod cursor;
mod error;
mod noted;
pub mod oracle;
pub mod window;

pub use batch::KvBatch;
pub use bulk::KvBulk;
pub use cursor::KvCursor;
pub use error::{KvError, KvIoError, StoreIf};
pub use oracle::{Held, KvClear, KvFlush, KvMismatch, KvOracle, KvOutcome, KvRead, KvWrite};
pub use window::{LossFigures, LossWindow};

use crate::carrier::{Carrier, Counts, TransferConfig, succeeded};
use crate::client::block::Opened;
use crate::driver::buffer::IoBuffer;
use crate::driver::buffer::Part;
use crate::driver::port::Port;
use crate::driver::queue::{Came, QueuePair, Request};
use crate::error::IoError;
use crate::error::Lost;
use byteway_clock::{SpanId, SpanRecord};
use byteway_transfer::host::Buffer;
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{TransferChoice, TransferKind};
use byteway_wire::nvme::kv::{Key, List, Retrieve, Store, list};
use byteway_wire::nvme::vendor::ResultSlot;
use byteway_wire::nvme::{Cqe, Flush, KvOpcode, Sqe, Status, VendorOpcode};
use noted::{Reading, Writing};
use std::cell::RefCell;
use std::rc::Rc;

/// How a client transfers its values. Buffers must have space for results rounded up to DMA units. Clients of a
/// namespace share the oracle; without one buffers are stored unchanged, and nothing is verified.
pub type KvConfig = TransferConfig<KvOracle>;

/// The answer of an operation that looks up a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the key exists.
    pub found: bool,
    /// For a retrieve: length of the whole value, in bytes, even if the buffer is smaller.
    pub value_bytes: u32,
    /// Trace record of the operation.
    pub span: SpanRecord,
}

struct Inner {
    carrier: Carrier,
    nsid: u32,
    results: ResultMethod,
    oracle: Option<Rc<RefCell<KvOracle>>>,
}

/// KV operations on one namespace over one queue pair. Cheap to clone; any number may be in flight, each with a buffer
/// of its own.
#[derive(Clone)]
pub struct KvClient(Rc<Inner>);

impl KvClient {
    /// A client of KV namespace `nsid` on `queue`, which has been enabled for [`KvConfig::methods`].
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

    /// Counts of values by transfer method.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts()
    }

    /// The oracle that verifies its operations.
    pub fn oracle(&self) -> Option<&Rc<RefCell<KvOracle>>> {
        self.0.oracle.as_ref()
    }

    /// The transfer method of a value of `bytes` bytes in `buffer`, for a store without precondition.
    pub fn choose(&self, buffer: &IoBuffer, bytes: u32) -> TransferChoice {
        self.0.carrier.choose(buffer, bytes)
    }

    /// A buffer for values and lists of up to [`KvConfig::bytes_max`], in consecutive pages.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Wraps a buffer that was allocated elsewhere: scattered, or with an offset in its first page.
    pub fn adopt(&self, buffer: Buffer) -> Result<IoBuffer, IoError> {
        self.0.carrier.adopt(buffer)
    }

    /// Writes the beginning of a buffer, for stores without an oracle.
    pub fn put(&self, buffer: &mut IoBuffer, from: &[u8]) -> Result<(), IoError> {
        self.0.carrier.put(buffer, from)
    }

    /// Reads the beginning of a buffer.
    pub fn get(&self, buffer: &IoBuffer, into: &mut [u8]) -> Result<(), IoError> {
        self.0.carrier.get(buffer, into)
    }

    /// Stores the first `bytes` of `buffer`, filled with a new pattern if there is an oracle, under `key`.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost; with [`Status::KEY_EXISTS`] or [`Status::KEY_DOES_NOT_EXIST`]
    /// because of `when`. [`KvError::Mismatch`] if the answer is wrong.
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

    /// Retrieves the value of `key` from `offset` on into the first `bytes` of `buffer`, and verifies it.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost; [`KvError::Mismatch`] if the value is wrong.
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

    /// Checks whether a key exists.
    ///
    /// # Errors
    /// Same as [`KvClient::retrieve`].
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

    /// Deletes a key. A missing key is an answer, not an error.
    ///
    /// # Errors
    /// Same as [`KvClient::retrieve`].
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

    /// Appends to `keys` the keys from `first` on, or from the first one, in order, as many as fit in a list of
    /// `bytes`, and verifies them. Returns `true` if there are no more.
    ///
    /// # Errors
    /// [`KvIoError`] if the command failed or was lost; [`IoError::BrokenResult`] if the list is malformed,
    /// [`KvError::Mismatch`] if it is wrong.
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
        // If the longest key would have fit, no key was left out.
        let is_whole = bytes as usize - used.min(bytes as usize) >= list::entry_bytes(16);
        if let Some(reading) = reading {
            let mut oracle = reading.oracle.borrow_mut();
            let verified = oracle.verify_list(reading.read.window(), first, &keys[begin..], is_whole);
            verified.map_err(|error| IoError::Client(KvError::Mismatch(error)))?;
        }
        Ok(is_whole)
    }

    /// Waits until everything completed is on the media.
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

    /// Sends a Store by the method that rules and limits choose. While the host places values, stores that the
    /// controller places wait for those, and report their positions.
    async fn send(&self, span: SpanId, store: Store, buffer: &IoBuffer) -> Result<Cqe, KvIoError> {
        let carrier = &self.0.carrier;
        let choice = carrier.choose(buffer, store.bytes);
        let Some(owner) = carrier.page_owner() else {
            return self.send_by(choice, span, store, buffer).await;
        };
        if matches!(choice.kind, TransferKind::CxlMem | TransferKind::CxlCommit) {
            match carrier.send_placed(choice.kind, span, &store, self.0.nsid, buffer).await {
                Err(Lost::NotPlaced) => {}
                sent => return succeeded(sent?),
            }
        }
        let other = owner.other().await;
        carrier.waited(span);
        let sent = self.send_by(choice, span, store, buffer).await;
        let ended = match &sent {
            Ok(cqe) => Ok(*cqe),
            Err(IoError::Status(status)) => Ok(Cqe::new(0, *status, 0, 0)),
            Err(_) => Err(Lost::Reset),
        };
        other.complete(ended, store.bytes, self.queue().enabled().cxl_mem());
        sent
    }

    async fn send_by(
        &self,
        choice: TransferChoice,
        span: SpanId,
        store: Store,
        buffer: &IoBuffer,
    ) -> Result<Cqe, KvIoError> {
        let carrier = &self.0.carrier;
        let sqe = store.sqe(0, self.0.nsid);
        let payload = Part { buffer: &buffer.buffer, offset: 0, bytes: store.bytes };
        let mut head = sqe;
        // A piggybacked command has payload in the field for options.
        let has_options = store.must_exist || store.must_not_exist || store.no_compression;
        let streamed = match choice.kind {
            TransferKind::Piggyback if !has_options => {
                head.set_opcode(VendorOpcode::KV_STORE_PIGGYBACK);
                Some(carrier.send_serialized(span, payload, head).await)
            }
            TransferKind::PiggybackPipelined if !has_options => {
                head.set_opcode(VendorOpcode::KV_STORE_PIPELINED);
                Some(carrier.send_pipelined(span, payload, head, Some(0)).await)
            }
            _ => None,
        };
        let choice = match streamed {
            None => choice,
            // It can't be a stream: it does not fit, or a reset has changed the enabled methods.
            Some(Err(Lost::NotPlaced)) => carrier.choose(buffer, store.bytes),
            Some(streamed) => {
                carrier.note(choice);
                return succeeded(streamed?);
            }
        };
        succeeded(carrier.send_chosen(choice, span, sqe, buffer, store.bytes).await?)
    }

    /// Receives up to `bytes` into the beginning of `buffer`; returns dword 0 of the completion.
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
            let should = self.0.results == ResultMethod::Inline && cqe.dw0 > 0 && bytes > 0;
            carrier.note_result(came == Came::Behind, should);
            Ok(cqe.dw0)
        };
        carrier.queue.submit(request).await?.with_result(taken).await?
    }

    /// Like [`Inner::receive`], with the result by data pointer only; returns the completion.
    async fn receive_by_pointer(
        &self,
        span: SpanId,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<Cqe, KvIoError> {
        succeeded(self.0.carrier.receive(span, sqe, buffer, bytes).await?)
    }

    /// Executes a command without data.
    async fn execute(&self, span: SpanId, sqe: Sqe) -> Result<Cqe, KvIoError> {
        succeeded(self.queue().execute(Request { span, ..sqe.into() }).await?)
    }

    /// Whether a result of up to `bytes` may follow its completion.
    fn results_behind(&self, bytes: u32) -> bool {
        let queue = self.queue();
        let fits = ResultSlot::count(bytes.min(queue.capabilities().inline_result_bytes_max)) + 1
            < queue.completion.entries;
        self.0.results == ResultMethod::Inline && bytes > 0 && fits && queue.enabled().inline_result()
    }

    fn port(&self) -> &Port {
        self.queue().port()
    }

    /// Fills a buffer with the new value of a store.
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

    /// Notes the start of a store or delete; `when`: its precondition.
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

    /// Verifies an operation that failed because the key does not exist, and returns its answer.
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
