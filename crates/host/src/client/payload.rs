//! The client of the payload sink: payloads of any length by every method, traced by spans.
//!
//! Every write compares the drive's checksum of what it stored with that of what was sent; every read compares the
//! drive's checksum of what it sent with that of what arrived. With an oracle, the bytes themselves are verified, too.

use crate::carrier::{Carrier, Counts, TransferConfig};
use crate::client::block::Opened;
use crate::driver::buffer::IoBuffer;
use crate::driver::buffer::Part;
use crate::driver::port::Port;
use crate::driver::queue::{Came, QueuePair, Request};
use crate::error::Lost;
use crate::error::{ClientError, ClientErrorKind, IoError};
use crate::oracle::sink::{SinkOracle, SinkToken, WrongByte};
use byteway_clock::SpanRecord;
use byteway_transfer::host::Buffer;
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{TransferChoice, TransferKind};
use byteway_wire::nvme::vendor::{ResultSlot, Sink};
use byteway_wire::nvme::{Cqe, VendorOpcode};
use std::cell::RefCell;
use std::rc::Rc;

/// How a client transfers its payloads. Clients of a sink share the oracle; without one buffers are written unchanged,
/// and only checksums are compared.
pub type PayloadConfig = TransferConfig<SinkOracle>;

struct Inner {
    carrier: Carrier,
    nsid: u32,
    results: ResultMethod,
    oracle: Option<Rc<RefCell<SinkOracle>>>,
}

/// Errors specific to sink payloads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The drive has no payload sink.
    #[error("the drive has no payload sink")]
    NoSink,
    /// Data was corrupted: the checksums of sender and receiver differ.
    #[error("the payload at {offset} was corrupted: its CRC-32C is {found:#010x}, expected {expected:#010x}")]
    Corrupt {
        /// Offset in the sink.
        offset: u64,
        /// Checksum of the sender.
        expected: u32,
        /// Checksum of the receiver.
        found: u32,
    },
    /// A byte read from the sink is wrong.
    #[error(transparent)]
    WrongByte(#[from] WrongByte),
}

impl ClientError for PayloadError {
    fn kind(&self) -> ClientErrorKind {
        match self {
            PayloadError::Corrupt { .. } | PayloadError::WrongByte(_) => ClientErrorKind::WrongData,
            PayloadError::NoSink => ClientErrorKind::Refused,
        }
    }
}

/// Why an I/O of such a client failed.
pub type PayloadIoError = IoError<PayloadError>;

impl From<IoError> for PayloadIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}

/// Payloads to and from a drive's sink over one queue pair. Cheap to clone; any number may be in flight, each with a
/// buffer of its own.
#[derive(Clone)]
pub struct PayloadClient(Rc<Inner>);

/// Ends an operation in the oracle if it is dropped.
struct Noted<'a> {
    oracle: Option<&'a RefCell<SinkOracle>>,
    token: Option<SinkToken>,
    is_write: bool,
}

impl Noted<'_> {
    fn end(mut self, end: impl FnOnce(&mut SinkOracle, SinkToken)) {
        if let (Some(oracle), Some(token)) = (self.oracle, self.token.take()) {
            end(&mut oracle.borrow_mut(), token);
        }
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let (Some(oracle), Some(token)) = (self.oracle, self.token.take()) {
            match self.is_write {
                true => oracle.borrow_mut().end_write(token, None),
                false => oracle.borrow_mut().abandon_read(token),
            }
        }
    }
}

impl PayloadClient {
    /// A client of the sink through namespace `nsid` on `queue`, which has been enabled for [`PayloadConfig::methods`].
    ///
    /// # Errors
    /// [`PayloadError`] if the drive has no sink.
    pub fn new(queue: QueuePair, nsid: u32, config: PayloadConfig) -> Result<PayloadClient, PayloadIoError> {
        if queue.capabilities().sink_bytes == 0 {
            return Err(IoError::Client(PayloadError::NoSink));
        }
        let carrier = Carrier::new(queue, &config);
        let PayloadConfig { results, oracle, .. } = config;
        Ok(PayloadClient(Rc::new(Inner { carrier, nsid, results, oracle })))
    }

    /// The queue pair.
    pub fn queue(&self) -> &QueuePair {
        &self.0.carrier.queue
    }

    /// Size of the sink, in bytes.
    pub fn sink_bytes(&self) -> u64 {
        self.queue().capabilities().sink_bytes
    }

    /// Counts of payloads by transfer method.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts()
    }

    /// The oracle that verifies its reads.
    pub fn oracle(&self) -> Option<&Rc<RefCell<SinkOracle>>> {
        self.0.oracle.as_ref()
    }

    /// The transfer method of a payload of `bytes` bytes in `buffer`.
    pub fn choose(&self, buffer: &IoBuffer, bytes: u32) -> TransferChoice {
        self.0.carrier.choose(buffer, bytes)
    }

    /// A buffer for payloads of up to [`PayloadConfig::bytes_max`], in consecutive pages.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Wraps a buffer that was allocated elsewhere: scattered, or with an offset in its first page.
    pub fn adopt(&self, buffer: Buffer) -> Result<IoBuffer, IoError> {
        self.0.carrier.adopt(buffer)
    }

    /// Writes the beginning of a buffer, for writes without an oracle.
    pub fn put(&self, buffer: &mut IoBuffer, from: &[u8]) -> Result<(), IoError> {
        self.0.carrier.put(buffer, from)
    }

    /// Reads the beginning of a buffer.
    pub fn get(&self, buffer: &IoBuffer, into: &mut [u8]) -> Result<(), IoError> {
        self.0.carrier.get(buffer, into)
    }

    /// Writes the first `bytes` of `buffer`, filled with a new pattern if there is an oracle, to the sink at `offset`.
    ///
    /// # Errors
    /// [`PayloadIoError`] if a command failed or was lost; [`PayloadError::Corrupt`] if the drive stored other data.
    pub async fn write(
        &self,
        buffer: &mut IoBuffer,
        offset: u64,
        bytes: u32,
    ) -> Result<SpanRecord, PayloadIoError> {
        self.0.carrier.fits(buffer, bytes)?;
        let carrier = &self.0.carrier;
        let opened = Opened::open(self.port());
        let noted = self.note(offset, bytes, true);
        let filled = carrier.with_payload_mut(&buffer.buffer, bytes, |payload| {
            if let Some(token) = noted.token {
                SinkOracle::fill(token, offset, payload);
            }
            crc32c::crc32c(payload)
        });
        let stored = match filled {
            Ok(expected) => self.send(opened, buffer, Sink { offset, bytes }, expected).await,
            Err(error) => Err(error.into()),
        };
        let record = opened.close(self.port());
        stored?;
        if noted.token.is_some() {
            carrier.with_payload(&buffer.buffer, bytes, |payload| {
                noted.end(|oracle, token| oracle.end_write(token, Some(payload)));
            })?;
        }
        Ok(record)
    }

    /// Reads `bytes` bytes of the sink at `offset` into the beginning of `buffer`, and verifies them.
    ///
    /// # Errors
    /// [`PayloadIoError`] if the command failed or was lost; [`PayloadError::Corrupt`] if other data arrived than the
    /// drive sent, [`PayloadError::WrongByte`] if it is not what was written.
    pub async fn read(
        &self,
        buffer: &mut IoBuffer,
        offset: u64,
        bytes: u32,
    ) -> Result<SpanRecord, PayloadIoError> {
        self.0.carrier.fits(buffer, bytes)?;
        let opened = Opened::open(self.port());
        let noted = self.note(offset, bytes, false);
        let fetched = self.fetch(opened, buffer, Sink { offset, bytes }).await;
        let record = opened.close(self.port());
        let expected = fetched?;
        let verified = self.0.carrier.with_payload(&buffer.buffer, bytes, |payload| {
            let found = crc32c::crc32c(payload);
            if found != expected {
                return Err(IoError::Client(PayloadError::Corrupt { offset, expected, found }));
            }
            let mut verified = Ok(());
            noted.end(|oracle, token| verified = oracle.end_read(token, payload));
            verified.map_err(|error| IoError::Client(PayloadError::WrongByte(error)))
        })?;
        verified.map(|()| record)
    }

    /// Sends a payload with the checksum `expected`.
    async fn send(
        &self,
        opened: Opened,
        buffer: &IoBuffer,
        sink: Sink,
        expected: u32,
    ) -> Result<(), PayloadIoError> {
        let carrier = &self.0.carrier;
        let choice = carrier.choose(buffer, sink.bytes);
        let payload = Part { buffer: &buffer.buffer, offset: 0, bytes: sink.bytes };
        let head = sink.sqe(VendorOpcode::SINK_STORE, 0, self.0.nsid);
        let streamed = match choice.kind {
            TransferKind::Piggyback => Some(carrier.send_serialized(opened.span, payload, head).await),
            TransferKind::PiggybackPipelined => {
                Some(carrier.send_pipelined(opened.span, payload, head, Some(expected)).await)
            }
            _ => None,
        };
        let choice = match streamed {
            None => choice,
            // It can't be a stream: it does not fit, or a reset has changed the enabled methods.
            Some(Err(Lost::NotPlaced)) => carrier.choose(buffer, sink.bytes),
            Some(streamed) => {
                carrier.note(choice);
                return check(&streamed?, sink.offset, expected);
            }
        };
        let sqe = sink.sqe(VendorOpcode::SINK_WRITE, 0, self.0.nsid);
        let completed = carrier.send_chosen(choice, opened.span, sqe, buffer, sink.bytes).await?;
        check(&completed, sink.offset, expected)
    }

    /// Reads bytes of the sink; returns the drive's checksum of them.
    async fn fetch(&self, opened: Opened, buffer: &IoBuffer, sink: Sink) -> Result<u32, PayloadIoError> {
        let carrier = &self.0.carrier;
        let pointer = carrier.plan(carrier.result_kind(sink.bytes), buffer, sink.bytes)?;
        let mut sqe = pointer.placed_in(sink.sqe(VendorOpcode::SINK_READ, 0, self.0.nsid));
        let behind = self.results_behind(sink.bytes);
        if behind {
            sqe.cdw2 |= Sink::INLINE_RESULT;
        }
        let result_bytes = if behind { sink.bytes } else { 0 };
        let pages = buffer.buffer.pages_touched(sink.bytes);
        let request = Request { span: opened.span, pages, result_bytes, ..sqe.into() };
        let taken = |cqe: &Cqe, came, result: &[u8]| -> Result<u32, PayloadIoError> {
            match (cqe.status(), came) {
                (status, _) if !status.is_success() => return Err(IoError::Status(status)),
                (_, Came::Broken) => return Err(IoError::BrokenResult),
                (_, Came::Behind) => carrier.put(buffer, result)?,
                (_, Came::ByPointer) => {}
            }
            let should = self.0.results == ResultMethod::Inline && sink.bytes > 0;
            carrier.note_result(came == Came::Behind, should);
            Ok(cqe.dw0)
        };
        carrier.queue.submit(request).await?.with_result(taken).await?
    }

    /// Whether a result of `bytes` may follow its completion.
    fn results_behind(&self, bytes: u32) -> bool {
        let queue = self.queue();
        let fits = bytes <= queue.capabilities().inline_result_bytes_max
            && ResultSlot::count(bytes) + 1 < queue.completion.entries;
        self.0.results == ResultMethod::Inline && bytes > 0 && fits && queue.enabled().inline_result()
    }

    fn port(&self) -> &Port {
        self.queue().port()
    }

    /// Notes an operation in the oracle.
    fn note(&self, offset: u64, bytes: u32, is_write: bool) -> Noted<'_> {
        let oracle = self.0.oracle.as_deref();
        let token = oracle.map(|oracle| match is_write {
            true => oracle.borrow_mut().begin_write(offset, bytes),
            false => oracle.borrow_mut().begin_read(offset, bytes),
        });
        Noted { oracle, token, is_write }
    }
}

/// Checks that the drive has stored what was sent.
fn check(completed: &Cqe, offset: u64, expected: u32) -> Result<(), PayloadIoError> {
    match completed.status() {
        status if !status.is_success() => Err(IoError::Status(status)),
        _ if completed.dw0 != expected => {
            Err(IoError::Client(PayloadError::Corrupt { offset, expected, found: completed.dw0 }))
        }
        _ => Ok(()),
    }
}
