//! Block I/O: one command per I/O, traced by a span, and verified if there is an oracle.

use crate::carrier::{Carrier, Counts, TransferConfig, each_extent};
use crate::driver::buffer::IoBuffer;
use crate::driver::controller::Namespace;
use crate::driver::port::Port;
use crate::driver::queue::{Execution, QueuePair, Request};
use crate::error::Lost;
use crate::error::{ClientError, ClientErrorKind, IoError};
use crate::oracle::block::{FlushToken, Mismatch, Oracle, Outcome, ReadToken, SAMPLED_ONE_IN, WriteToken};
use byteway_clock::{SpanId, SpanRecord, Time};
use byteway_content::{BlockSize, Pattern, Stamp, UNIT_BYTES};
use byteway_link::memory::Fault;
use byteway_transfer::host::Buffer;
use byteway_transfer::{Rules, TransferChoice, TransferKind};
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::{
    Copy, CopyRange, Cqe, DatasetManagement, Flush, NvmOpcode, Range, ReadWrite, Segment, Sqe, Status,
    WriteZeroes, dataset,
};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Configuration of a client.
#[derive(Clone)]
pub struct ClientConfig {
    /// Transfer methods for writes. Reads use the data pointer.
    pub rules: Rules,
    /// The longest payload of a command, in bytes.
    pub bytes_max: u32,
    /// Verifies every read, and generates the contents of every write. Clients of a namespace share it. `None`: buffers
    /// are written unchanged, and nothing is verified.
    pub oracle: Option<Rc<RefCell<Oracle>>>,
    /// Generate and compare all bytes of every write and read. Otherwise only those of one in [`SAMPLED_ONE_IN`]; of
    /// the others only pattern names, where memory keeps them. The results are the same.
    pub verify_bytes: bool,
}

struct Inner {
    carrier: Carrier,
    namespace: Namespace,
    block: BlockSize,
    oracle: Option<Rc<RefCell<Oracle>>>,
    verify_bytes: bool,
}

/// Block I/O to one namespace over one queue pair. Cheap to clone; any number of I/Os may be in flight, each with a
/// buffer of its own.
#[derive(Clone)]
pub struct Client(Rc<Inner>);

/// Errors specific to blocks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// A block read back is wrong.
    #[error(transparent)]
    Mismatch(Box<Mismatch>),
    /// A command must have 1 to 65536 blocks, or 1 to 256 ranges, all below 2^64.
    #[error("{count} blocks or ranges from lba {lba} on exceed one command")]
    Extent {
        /// The first block.
        lba: u64,
        /// Number of blocks or ranges.
        count: u64,
    },
    /// The contents of the block are uncertain, so they cannot be compared.
    #[error("the contents of logical block {lba} are uncertain while writes to it are in flight")]
    Unsettled {
        /// The block.
        lba: u64,
    },
    /// A Compare and Write has written although the comparison differed.
    #[error("a Compare and Write of logical block {lba} has written although a byte differed")]
    WroteUnequal {
        /// The first of its blocks.
        lba: u64,
    },
    /// The namespace's format is not supported.
    #[error("blocks of {block_bytes} bytes with {metadata_bytes} bytes of metadata are not supported")]
    Format {
        /// Data bytes per block.
        block_bytes: u32,
        /// Metadata bytes per block.
        metadata_bytes: u16,
    },
}

impl ClientError for BlockError {
    fn kind(&self) -> ClientErrorKind {
        match self {
            BlockError::Mismatch(_) => ClientErrorKind::WrongData,
            BlockError::Unsettled { .. } => ClientErrorKind::Uncertain,
            BlockError::Extent { .. } | BlockError::WroteUnequal { .. } | BlockError::Format { .. } => {
                ClientErrorKind::Refused
            }
        }
    }
}

/// Why an I/O of such a client failed.
pub type BlockIoError = IoError<BlockError>;

impl From<IoError> for BlockIoError {
    fn from(error: IoError) -> Self {
        error.of_client()
    }
}

/// Ends a read in the oracle, even if the read is dropped.
struct Reading<'a> {
    oracle: &'a RefCell<Oracle>,
    token: ReadToken,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.oracle.borrow_mut().end_read(self.token);
    }
}

/// The direction of an I/O's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read from the drive.
    Read,
    /// Write to the drive.
    Write {
        /// Force Unit Access: on completion the blocks are on the media.
        fua: bool,
    },
}

/// The oracle's token of a read or write in flight.
enum Noted<'a> {
    /// There is no oracle.
    Nothing,
    Read(Reading<'a>),
    Write {
        token: WriteToken,
        stamp: Stamp,
    },
}

impl Client {
    /// A client of `namespace` on `queue`.
    ///
    /// # Errors
    /// [`BlockError`] if the namespace has metadata, or blocks of another size than 512 or 4096 bytes.
    pub fn new(queue: QueuePair, namespace: Namespace, config: ClientConfig) -> Result<Client, BlockIoError> {
        let Namespace { block_bytes, metadata_bytes, .. } = namespace;
        let block = BlockSize::from_bytes(u64::from(block_bytes)).filter(|_| metadata_bytes == 0);
        let block = block.ok_or(IoError::Client(BlockError::Format { block_bytes, metadata_bytes }))?;
        let carrier = Carrier::new(queue, &TransferConfig::<()>::new(config.rules, config.bytes_max));
        let ClientConfig { oracle, verify_bytes, .. } = config;
        Ok(Client(Rc::new(Inner { carrier, namespace, block, oracle, verify_bytes })))
    }

    /// The namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// The queue pair.
    pub fn queue(&self) -> &QueuePair {
        &self.0.carrier.queue
    }

    /// Counts of payloads to the device by method.
    pub fn counts(&self) -> Counts {
        self.0.carrier.counts()
    }

    /// Maximum number of blocks of a command, limited by the client's buffers and by the command format.
    pub fn blocks_max(&self) -> u32 {
        (self.0.carrier.bytes_max() / self.0.block.bytes() as u32).clamp(1, 1 << 16)
    }

    /// A buffer for payloads of up to [`ClientConfig::bytes_max`], in consecutive pages.
    pub fn buffer(&self) -> Result<IoBuffer, IoError> {
        self.0.carrier.buffer()
    }

    /// Wraps a buffer that was allocated elsewhere: scattered, or with an offset in its first page.
    pub fn adopt(&self, buffer: Buffer) -> Result<IoBuffer, IoError> {
        self.0.carrier.adopt(buffer)
    }

    /// Reads `blocks` blocks from `lba` on, and verifies them.
    pub async fn read(
        &self,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        self.read_or_write(Direction::Read, buffer, lba, blocks).await
    }

    /// Writes `blocks` blocks from `lba` on: a new version of each, or the buffer unchanged without an oracle.
    pub async fn write(
        &self,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        self.read_or_write(Direction::Write { fua: false }, buffer, lba, blocks).await
    }

    /// Writes with Force Unit Access: on completion the blocks are on the media.
    pub async fn write_fua(
        &self,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        self.read_or_write(Direction::Write { fua: true }, buffer, lba, blocks).await
    }

    /// Reads and verifies `blocks` blocks from `lba` on, or writes a new version of each.
    pub async fn read_or_write(
        &self,
        direction: Direction,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        let mut record = SpanRecord::default();
        self.io(direction, buffer, lba, blocks, &mut record).await.map(|()| record)
    }

    /// Like [`read_or_write`](Client::read_or_write), with the stages of its latency in `record`. It usually waits twice: for the
    /// processor time of the submission, and for the completion.
    #[inline]
    pub fn io<'a>(
        &'a self,
        direction: Direction,
        buffer: &'a mut IoBuffer,
        lba: u64,
        blocks: u32,
        record: &'a mut SpanRecord,
    ) -> BlockIo<'a> {
        BlockIo { client: self, direction, buffer, lba, blocks, record, step: IoStep::Begin }
    }

    /// Notes the start of a read or write in the oracle.
    fn note(&self, direction: Direction, lba: u64, blocks: u32) -> Noted<'_> {
        let Some(oracle) = self.0.oracle.as_deref() else { return Noted::Nothing };
        match direction {
            Direction::Read => {
                let token = oracle.borrow_mut().begin_read();
                Noted::Read(Reading { oracle, token })
            }
            Direction::Write { .. } => {
                let (token, stamp) = oracle.borrow_mut().begin_write(lba, u64::from(blocks));
                Noted::Write { token, stamp }
            }
        }
    }

    /// Verifies the data of a read, or that its failure was allowed.
    fn verify_end(
        &self,
        token: ReadToken,
        buffer: &IoBuffer,
        (lba, blocks, bytes): (u64, u32, u32),
        result: &Result<(), BlockIoError>,
    ) -> Result<(), BlockIoError> {
        let Some(oracle) = self.0.oracle.as_deref() else { return Ok(()) };
        match result {
            Ok(()) => self.verify(oracle, token, &buffer.buffer, lba, bytes),
            Err(IoError::Status(status)) if status.is(Status::UNRECOVERED_READ_ERROR) => {
                let verified = oracle.borrow_mut().verify_unreadable(token, lba, u64::from(blocks));
                verified.map_err(|error| IoError::Client(BlockError::Mismatch(error)))
            }
            Err(_) => Ok(()),
        }
    }

    /// Compares `blocks` blocks from `lba` on with their expected contents, or with the buffer without an oracle. A
    /// difference is [`Status::COMPARE_FAILURE`].
    pub async fn compare(
        &self,
        buffer: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        let bytes = self.bytes(lba, blocks)?;
        self.0.carrier.fits(buffer, bytes)?;
        let oracle = self.0.oracle.as_deref();
        if let Some(oracle) = oracle {
            self.fill_expected(oracle, &buffer.buffer, lba, bytes)?;
        }
        let read = oracle.map(|oracle| oracle.borrow_mut().begin_read());
        let span = Opened::open(self.port());
        let sqe = read_write(lba, blocks, false).sqe(NvmOpcode::COMPARE, 0, self.0.namespace.nsid);
        let result = self.transfer(span, sqe, buffer, bytes).await;
        let (Some(oracle), Some(read)) = (oracle, read) else { return result };
        let mut oracle = oracle.borrow_mut();
        let touched = oracle.first_touched(read, lba, u64::from(blocks));
        oracle.end_read(read);
        match (result, touched) {
            (Err(IoError::Status(status)), Some(lba)) if status.is(Status::COMPARE_FAILURE) => {
                Err(IoError::Client(BlockError::Unsettled { lba }))
            }
            (result, _) => result,
        }
    }

    /// Writes `blocks` blocks from `lba` on if they have their expected contents, atomically: a Compare from
    /// `compared`, fused with a Write from `written`. Without an oracle both buffers are used unchanged. On a
    /// difference the result is [`Status::COMPARE_FAILURE`], and nothing is written.
    ///
    /// The drive accepts at most [`IdentifyController::acwu`](byteway_wire::nvme::IdentifyController::acwu)
    /// blocks, zero-based. Payloads always use the data pointer.
    pub async fn compare_and_write(
        &self,
        compared: &mut IoBuffer,
        written: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        let bytes = self.bytes(lba, blocks)?;
        self.0.carrier.fits(compared, bytes)?;
        self.0.carrier.fits(written, bytes)?;
        let Some(oracle) = self.0.oracle.as_deref() else {
            return self.fused(compared, written, lba, blocks).await.map_err(|(error, _)| error);
        };
        self.fill_expected(oracle, &compared.buffer, lba, bytes)?;
        let (read, (write, stamp)) = {
            let mut oracle = oracle.borrow_mut();
            (oracle.begin_read(), oracle.begin_write(lba, u64::from(blocks)))
        };
        let result = match self.fill(&written.buffer, stamp, bytes) {
            Ok(()) => self.fused(compared, written, lba, blocks).await,
            Err(error) => Err((error.into(), Outcome::Undone)),
        };
        let mut oracle = oracle.borrow_mut();
        oracle.end_write(write, result.as_ref().map_or_else(|(_, outcome)| *outcome, |_| Outcome::Done));
        // After the end of the write, because the write itself is not what the comparison met.
        let touched = oracle.first_touched(read, lba, u64::from(blocks));
        oracle.end_read(read);
        match (result, touched) {
            (Err((IoError::Status(status), _)), Some(lba)) if status.is(Status::COMPARE_FAILURE) => {
                Err(IoError::Client(BlockError::Unsettled { lba }))
            }
            (result, _) => result.map_err(|(error, _)| error),
        }
    }

    /// Like [`Client::compare_and_write`], with a wrong byte in the comparison, so that nothing may be written.
    ///
    /// # Errors
    /// [`BlockError::WroteUnequal`], or any failure of the Compare other than a difference.
    pub async fn compare_and_write_wrong(
        &self,
        compared: &mut IoBuffer,
        written: &mut IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<(), BlockIoError> {
        let bytes = self.bytes(lba, blocks)?;
        self.0.carrier.fits(compared, bytes)?;
        self.0.carrier.fits(written, bytes)?;
        let Some(oracle) = self.0.oracle.as_deref() else { return Ok(()) };
        self.fill_expected(oracle, &compared.buffer, lba, bytes)?;
        // In the last block, so that all previous ones are equal.
        let wrong = u64::from(bytes) - 1;
        self.fill_parts(&compared.buffer, bytes, |done, part| {
            let first = done * self.0.block.bytes() as u64;
            if let Some(byte) = wrong.checked_sub(first).and_then(|at| part.get_mut(at as usize)) {
                *byte = !*byte;
            }
        })?;
        let (write, stamp) = oracle.borrow_mut().begin_write(lba, u64::from(blocks));
        let result = match self.fill(&written.buffer, stamp, bytes) {
            Ok(()) => self.fused(compared, written, lba, blocks).await,
            Err(error) => Err((error.into(), Outcome::Undone)),
        };
        let outcome = result.as_ref().map_or_else(|(_, outcome)| *outcome, |_| Outcome::Done);
        oracle.borrow_mut().end_write(write, outcome);
        match result {
            Ok(_) => Err(IoError::Client(BlockError::WroteUnequal { lba })),
            Err((IoError::Status(status), _)) if status.is(Status::COMPARE_FAILURE) => Ok(()),
            Err((error, _)) => Err(error),
        }
    }

    /// Fills a buffer with the expected contents of blocks.
    fn fill_expected(
        &self,
        oracle: &RefCell<Oracle>,
        buffer: &Buffer,
        lba: u64,
        bytes: u32,
    ) -> Result<(), BlockIoError> {
        let oracle = oracle.borrow();
        let mut expected = Ok(());
        self.fill_parts(buffer, bytes, |done, part| {
            if expected.is_ok() {
                expected = oracle.expected(lba + done, part);
            }
        })?;
        expected.map_err(|lba| IoError::Client(BlockError::Unsettled { lba }))
    }

    /// Executes a fused Compare and Write, with one span. On a failure, returns the error and the outcome of
    /// the Write.
    async fn fused(
        &self,
        compared: &IoBuffer,
        written: &IoBuffer,
        lba: u64,
        blocks: u32,
    ) -> Result<SpanRecord, (BlockIoError, Outcome)> {
        let (carrier, nsid) = (&self.0.carrier, self.0.namespace.nsid);
        let undone = |error| (error, Outcome::Undone);
        let bytes = self.bytes(lba, blocks).map_err(undone)?;
        let kind = carrier.result_kind(bytes);
        let half = |opcode, fuse, buffer: &IoBuffer| -> Result<(Sqe, u32), BlockIoError> {
            let sqe = read_write(lba, blocks, false).sqe(opcode, 0, nsid).with_fuse(fuse);
            Ok((carrier.plan(kind, buffer, bytes)?.placed_in(sqe), buffer.buffer.pages_touched(bytes)))
        };
        let first = half(NvmOpcode::COMPARE, FUSE_FIRST, compared).map_err(undone)?;
        let second = half(NvmOpcode::WRITE, FUSE_SECOND, written).map_err(undone)?;
        let opened = Opened::open(self.port());
        let requests =
            [first, second].map(|(sqe, pages)| Request { span: opened.span, pages, ..Request::from(sqe) });
        let mut pending = Vec::with_capacity(requests.len());
        let submitted = carrier.queue.submit_together(&requests, &mut pending).await;
        let mut ends = Vec::with_capacity(requests.len());
        for pending in pending {
            ends.push(pending.await);
        }
        let record = opened.close(self.port());
        let lost = |lost| (IoError::Lost(lost), Outcome::Uncertain);
        submitted.map_err(lost)?;
        let [first, second] = ends[..] else { return Err(lost(Lost::NotPlaced)) };
        let [first, second] = [first.map_err(lost)?.status(), second.map_err(lost)?.status()];
        match (first.is_success(), second.is_success()) {
            (true, true) => Ok(record),
            (true, false) => Err((IoError::Status(second), Outcome::Uncertain)),
            (false, true) => Err((IoError::Client(BlockError::WroteUnequal { lba }), Outcome::Uncertain)),
            (false, false) => Err((IoError::Status(first), Outcome::Undone)),
        }
    }

    /// Waits until everything completed is on the media.
    pub async fn flush(&self) -> Result<SpanRecord, BlockIoError> {
        let span = Opened::open(self.port());
        let oracle = self.0.oracle.as_deref();
        let begun: Option<FlushToken> = oracle.map(|oracle| oracle.borrow_mut().begin_flush());
        let result = self.execute(span, Flush.sqe(0, self.0.namespace.nsid), 0).await;
        if let (Some(oracle), Some(begun)) = (oracle, begun) {
            oracle.borrow_mut().end_flush(begun, outcome(&result, Outcome::Done));
        }
        result
    }

    /// Deallocates `ranges`, 1 to 256: they read as zeroes afterwards. The buffer holds the list.
    pub async fn trim(&self, buffer: &mut IoBuffer, ranges: &[Range]) -> Result<SpanRecord, BlockIoError> {
        let count = ranges.len() as u64;
        let lba = ranges.first().map_or(0, |range| range.slba);
        if ranges.is_empty() || ranges.len() > dataset::RANGES_MAX {
            return Err(IoError::Client(BlockError::Extent { lba, count }));
        }
        if let Some(range) = ranges.iter().find(|range| range.end().is_none()) {
            return Err(IoError::Client(BlockError::Extent {
                lba: range.slba,
                count: u64::from(range.length),
            }));
        }
        let command = DatasetManagement { nr_z: (count - 1) as u8, ad: true, ..DatasetManagement::default() };
        let bytes = command.bytes();
        self.0.carrier.fits(buffer, bytes)?;
        let memory = self.port().memory();
        let mut list = ranges.iter().flat_map(Range::to_bytes);
        self.each_part(&buffer.buffer, bytes, |part, _| {
            memory.with_mut(part.address, part.bytes as usize, |into| {
                into.iter_mut().zip(&mut list).for_each(|(into, byte)| *into = byte);
            })
        })?;
        let span = Opened::open(self.port());
        let begun: Vec<WriteToken> = match self.0.oracle.as_deref() {
            Some(oracle) => {
                let mut oracle = oracle.borrow_mut();
                ranges.iter().map(|range| oracle.begin_zeroes(range.slba, u64::from(range.length))).collect()
            }
            None => Vec::new(),
        };
        let sqe = command.sqe(0, self.0.namespace.nsid);
        let result = self.transfer(span, sqe, buffer, bytes).await;
        self.end_write(begun, &result, Outcome::Done);
        result
    }

    /// Writes zeroes to `blocks` blocks from `lba` on, optionally allowing deallocation.
    pub async fn write_zeroes(
        &self,
        lba: u64,
        blocks: u32,
        deallocate: bool,
    ) -> Result<SpanRecord, BlockIoError> {
        self.bytes(lba, blocks)?;
        let span = Opened::open(self.port());
        let oracle = self.0.oracle.as_deref();
        let begun = oracle.map(|oracle| oracle.borrow_mut().begin_zeroes(lba, u64::from(blocks)));
        let command =
            WriteZeroes { slba: lba, nlb_z: (blocks - 1) as u16, deac: deallocate, ..WriteZeroes::default() };
        let result = self.execute(span, command.sqe(0, self.0.namespace.nsid), 0).await;
        self.end_write(begun, &result, Outcome::Done);
        result
    }

    /// Verify: the drive reads `blocks` blocks from `lba` on without transferring them.
    pub async fn verify_media(&self, lba: u64, blocks: u32) -> Result<SpanRecord, BlockIoError> {
        self.bytes(lba, blocks)?;
        let span = Opened::open(self.port());
        let reading = self.0.oracle.as_deref().map(|oracle| {
            let token = oracle.borrow_mut().begin_read();
            Reading { oracle, token }
        });
        let sqe = read_write(lba, blocks, false).sqe(NvmOpcode::VERIFY, 0, self.0.namespace.nsid);
        let result = self.execute(span, sqe, 0).await;
        if let (Some(reading), Err(IoError::Status(status))) = (&reading, &result)
            && status.is(Status::UNRECOVERED_READ_ERROR)
        {
            let mut oracle = reading.oracle.borrow_mut();
            let verified = oracle.verify_unreadable(reading.token, lba, u64::from(blocks));
            verified.map_err(|error| IoError::Client(BlockError::Mismatch(error)))?;
        }
        result
    }

    /// Marks `blocks` blocks from `lba` on as unreadable, until they are written again.
    pub async fn write_uncorrectable(&self, lba: u64, blocks: u32) -> Result<SpanRecord, BlockIoError> {
        self.bytes(lba, blocks)?;
        let span = Opened::open(self.port());
        let oracle = self.0.oracle.as_deref();
        let begun = oracle.map(|oracle| oracle.borrow_mut().begin_marred(lba, u64::from(blocks)));
        let sqe = read_write(lba, blocks, false);
        let sqe = sqe.sqe(NvmOpcode::WRITE_UNCORRECTABLE, 0, self.0.namespace.nsid);
        let result = self.execute(span, sqe, 0).await;
        self.end_write(begun, &result, Outcome::Done);
        result
    }

    /// Copies `sources` (first blocks and counts, 1 to 256 ranges) to the blocks from `lba` on. The buffer holds the
    /// list. With an oracle the sources must not be written meanwhile, not even by the copy itself.
    pub async fn copy(
        &self,
        buffer: &mut IoBuffer,
        lba: u64,
        sources: &[(u64, u32)],
    ) -> Result<SpanRecord, BlockIoError> {
        let count = sources.len() as u64;
        if sources.is_empty() || sources.len() > dataset::RANGES_MAX {
            return Err(IoError::Client(BlockError::Extent { lba, count }));
        }
        for (lba, blocks) in sources {
            self.bytes(*lba, *blocks)?;
        }
        let command = Copy { sdlba: lba, nr_z: (count - 1) as u8, ..Copy::default() };
        let bytes = (sources.len() * CopyRange::SIZE) as u32;
        self.0.carrier.fits(buffer, bytes)?;
        let memory = self.port().memory();
        let mut list = sources.iter().flat_map(|(lba, blocks)| CopyRange::new(*lba, *blocks).to_bytes());
        self.each_part(&buffer.buffer, bytes, |part, _| {
            memory.with_mut(part.address, part.bytes as usize, |into| {
                into.iter_mut().zip(&mut list).for_each(|(into, byte)| *into = byte);
            })
        })?;
        let begun = match self.0.oracle.as_deref() {
            Some(oracle) => {
                let sources: Vec<_> =
                    sources.iter().map(|(lba, blocks)| (*lba, u64::from(*blocks))).collect();
                let begun = oracle.borrow_mut().begin_copy(lba, &sources);
                Some(begun.map_err(|lba| IoError::Client(BlockError::Unsettled { lba }))?)
            }
            None => None,
        };
        let span = Opened::open(self.port());
        let sqe = command.sqe(0, self.0.namespace.nsid);
        let result = self.transfer(span, sqe, buffer, bytes).await;
        self.end_write(begun, &result, Outcome::Done);
        result
    }

    /// Writes the beginning of a buffer, for writes without an oracle.
    pub fn put(&self, buffer: &mut IoBuffer, from: &[u8]) -> Result<(), IoError> {
        self.0.carrier.put(buffer, from)
    }

    /// Reads the beginning of a buffer.
    pub fn get(&self, buffer: &IoBuffer, into: &mut [u8]) -> Result<(), IoError> {
        self.0.carrier.get(buffer, into)
    }

    fn port(&self) -> &Port {
        self.0.carrier.queue.port()
    }

    /// Length of `blocks` blocks in bytes, if they fit in one command.
    fn bytes(&self, lba: u64, blocks: u32) -> Result<u32, BlockIoError> {
        let possible = (1..=1 << 16).contains(&blocks) && lba.checked_add(u64::from(blocks)).is_some();
        possible
            .then(|| blocks * self.0.block.bytes() as u32)
            .ok_or(IoError::Client(BlockError::Extent { lba, count: u64::from(blocks) }))
    }

    /// Executes a command with the first `bytes` of `buffer` as its data.
    async fn transfer(
        &self,
        opened: Opened,
        sqe: Sqe,
        buffer: &IoBuffer,
        bytes: u32,
    ) -> Result<SpanRecord, BlockIoError> {
        let completed = self.0.carrier.send(opened.span, sqe, buffer, bytes).await;
        self.end(opened, completed.map_err(IoError::of_client))
    }

    async fn execute(&self, opened: Opened, sqe: Sqe, pages: u32) -> Result<SpanRecord, BlockIoError> {
        let request = Request { span: opened.span, pages, ..sqe.into() };
        let completed = self.0.carrier.queue.execute(request).await;
        self.end(opened, completed.map_err(IoError::Lost))
    }

    fn end(&self, opened: Opened, completed: Result<Cqe, BlockIoError>) -> Result<SpanRecord, BlockIoError> {
        let record = opened.close(self.port());
        done(completed).map(|()| record)
    }

    fn end_write<T>(
        &self,
        tokens: impl IntoIterator<Item = WriteToken>,
        result: &Result<T, BlockIoError>,
        done: Outcome,
    ) {
        let outcome = outcome(result, done);
        if let Some(oracle) = self.0.oracle.as_deref() {
            let mut oracle = oracle.borrow_mut();
            tokens.into_iter().for_each(|token| oracle.end_write(token, outcome));
        }
    }

    /// Fills a buffer with the new contents of a write's blocks.
    fn fill(&self, buffer: &Buffer, stamp: Stamp, bytes: u32) -> Result<(), IoError> {
        let is_sampled = u64::from(stamp.version).is_multiple_of(SAMPLED_ONE_IN);
        let from = |done| Stamp { lba: stamp.lba + done, ..stamp };
        match Self::whole_pages(buffer, bytes) {
            Some(pages) if !self.0.verify_bytes && !is_sampled => {
                let memory = self.port().memory();
                let firsts = (0..).step_by(self.0.block.per_unit());
                for (page, first) in pages.iter().zip(firsts) {
                    memory.put_pattern(*page, Pattern::Stamp(from(first))).map_err(IoError::Memory)?;
                }
                Ok(())
            }
            _ => self.fill_parts(buffer, bytes, |done, part| from(done).fill(part)),
        }
    }

    fn verify(
        &self,
        oracle: &RefCell<Oracle>,
        token: ReadToken,
        buffer: &Buffer,
        lba: u64,
        bytes: u32,
    ) -> Result<(), BlockIoError> {
        let mut oracle = oracle.borrow_mut();
        if !self.0.verify_bytes
            && !token.is_sampled()
            && let Some(pages) = Self::whole_pages(buffer, bytes)
        {
            let memory = self.port().memory();
            if oracle.verify_patterns(lba, pages.iter().map(|page| memory.pattern(*page))) {
                return Ok(());
            }
        }
        let mut verified = Ok(());
        self.show_parts(buffer, bytes, |done, part| {
            if verified.is_ok() {
                verified = oracle.verify_read(token, lba + done, part);
            }
        })?;
        verified.map_err(|error| IoError::Client(BlockError::Mismatch(error)))
    }

    /// The pages of the first `bytes` of `buffer`, if they are whole pages.
    fn whole_pages(buffer: &Buffer, bytes: u32) -> Option<&[u64]> {
        let is_whole = buffer.offset() == 0 && bytes.is_multiple_of(UNIT_BYTES as u32);
        if is_whole { buffer.pages().get(..bytes as usize / UNIT_BYTES) } else { None }
    }

    /// Lets `fill` write the first `bytes` of `buffer`, in parts of whole blocks; each call gets the number of
    /// preceding blocks.
    fn fill_parts(
        &self,
        buffer: &Buffer,
        bytes: u32,
        mut fill: impl FnMut(u64, &mut [u8]),
    ) -> Result<(), IoError> {
        if !self.is_whole(buffer, bytes) {
            return self.0.carrier.with_payload_mut(buffer, bytes, |all| fill(0, all));
        }
        let memory = self.port().memory();
        self.each_part(buffer, bytes, |part, blocks| {
            memory.with_mut(part.address, part.bytes as usize, |part| fill(blocks, part))
        })
    }

    /// Like [`Inner::fill_parts`], for reading.
    fn show_parts(
        &self,
        buffer: &Buffer,
        bytes: u32,
        mut look: impl FnMut(u64, &[u8]),
    ) -> Result<(), IoError> {
        if !self.is_whole(buffer, bytes) {
            return self.0.carrier.with_payload(buffer, bytes, |all| look(0, all));
        }
        let memory = self.port().memory();
        self.each_part(buffer, bytes, |part, blocks| {
            memory.with(part.address, part.bytes as usize, |part| look(blocks, part))
        })
    }

    /// Whether every block is contiguous in memory.
    fn is_whole(&self, buffer: &Buffer, bytes: u32) -> bool {
        buffer.extents(bytes).all(|part| part.bytes.is_multiple_of(self.0.block.bytes() as u32))
    }

    fn each_part(
        &self,
        buffer: &Buffer,
        bytes: u32,
        mut act: impl FnMut(Segment, u64) -> Result<(), Fault>,
    ) -> Result<(), IoError> {
        let mut before = 0;
        each_extent(buffer, bytes, |part| {
            act(part, u64::from(before / self.0.block.bytes() as u32))?;
            before += part.bytes;
            Ok(())
        })
    }
}

/// An I/O that is being traced, until it is closed.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub(crate) span: SpanId,
    begin: Time,
}

impl Opened {
    /// Starts tracing an I/O; over shared memory it has no span, and only its times are known.
    pub fn open(port: &Port) -> Opened {
        let begin = port.now();
        Opened { span: port.open_span(begin), begin }
    }

    /// Trace span of the I/O, for commands that are parts of it.
    pub fn span(self) -> SpanId {
        self.span
    }

    /// Ends the I/O: its times, and the stages of its latency.
    pub fn close(self, port: &Port) -> SpanRecord {
        let mut record = SpanRecord::default();
        self.close_into(port, &mut record);
        record
    }

    #[inline]
    fn close_into(self, port: &Port, record: &mut SpanRecord) {
        match port.spans() {
            Some(spans) => {
                port.clock().io_ends(self.span);
                spans.close_into(self.span, record);
            }
            None => *record = SpanRecord { begin: self.begin, last: port.now(), ..SpanRecord::default() },
        }
    }
}

/// The status of a completion as a result.
fn done(completed: Result<Cqe, BlockIoError>) -> Result<(), BlockIoError> {
    match completed?.status() {
        status if status.is_success() => Ok(()),
        status => Err(IoError::Status(status)),
    }
}

/// A read or write: nearly every I/O of a run is one, so its state is laid out here. See [`Client::io`].
#[must_use = "nothing is submitted unless it is awaited"]
pub struct BlockIo<'a> {
    client: &'a Client,
    direction: Direction,
    buffer: &'a IoBuffer,
    lba: u64,
    blocks: u32,
    record: &'a mut SpanRecord,
    step: IoStep<'a>,
}

/// The next step of an I/O.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and a box would be an allocation for each I/O"
)]
enum IoStep<'a> {
    Begin,
    /// One command with a data pointer, and the choice of that.
    Execute(Begun<'a>, TransferChoice, Execution<'a>),
    /// Another future transfers it.
    Apart(Begun<'a>, Pin<Box<dyn Future<Output = Result<Cqe, IoError>> + 'a>>),
    Ended,
}

/// What an I/O has begun.
struct Begun<'a> {
    opened: Opened,
    noted: Noted<'a>,
    bytes: u32,
}

impl<'a> BlockIo<'a> {
    /// Takes the first step, in place: what it makes is large.
    #[inline]
    fn begin(&mut self) -> Result<(), BlockIoError> {
        let BlockIo { client, direction, buffer, lba, blocks, .. } = *self;
        let carrier = &client.0.carrier;
        let bytes = client.bytes(lba, blocks)?;
        if direction != Direction::Read {
            carrier.fits(buffer, bytes)?;
        }
        let begun =
            Begun { opened: Opened::open(client.port()), noted: client.note(direction, lba, blocks), bytes };
        if let Noted::Write { stamp, .. } = &begun.noted
            && let Err(error) = client.fill(&buffer.buffer, *stamp, bytes)
        {
            self.step = IoStep::Apart(begun, Box::pin(std::future::ready(Err(error))));
            return Ok(());
        }
        let (opcode, fua, choice) = match direction {
            Direction::Read => (NvmOpcode::READ, false, TransferChoice::pointer(carrier.result_kind(bytes))),
            Direction::Write { fua } => (NvmOpcode::WRITE, fua, carrier.choose(buffer, bytes)),
        };
        let sqe = read_write(lba, blocks, fua).sqe(opcode, 0, client.0.namespace.nsid);
        let TransferKind::Pointer(kind) = choice.kind else {
            let span = begun.opened.span;
            self.step = IoStep::Apart(begun, Box::pin(carrier.send_chosen(choice, span, sqe, buffer, bytes)));
            return Ok(());
        };
        self.step = match carrier.plan(kind, buffer, bytes) {
            Ok(pointer) => {
                let request = Request {
                    span: begun.opened.span,
                    pages: buffer.buffer.pages_touched(bytes),
                    band: carrier.queue.band,
                    ..Request::from(pointer.placed_in(sqe))
                };
                IoStep::Execute(begun, choice, carrier.queue.execute_placed(request))
            }
            Err(error) => IoStep::Apart(begun, Box::pin(std::future::ready(Err(error)))),
        };
        Ok(())
    }

    /// Ends the I/O: closes its span, and verifies what was read.
    #[inline]
    fn end(&mut self, completed: Result<Cqe, IoError>) -> Result<(), BlockIoError> {
        let BlockIo { client, direction, buffer, lba, blocks, .. } = *self;
        let (IoStep::Execute(begun, ..) | IoStep::Apart(begun, _)) = &mut self.step else {
            unreachable!("an I/O ends once")
        };
        let (opened, bytes) = (begun.opened, begun.bytes);
        let noted = std::mem::replace(&mut begun.noted, Noted::Nothing);
        self.step = IoStep::Ended;
        opened.close_into(client.port(), self.record);
        let result = done(completed.map_err(IoError::of_client));
        match noted {
            Noted::Nothing => {}
            Noted::Read(reading) => {
                client.verify_end(reading.token, buffer, (lba, blocks, bytes), &result)?
            }
            Noted::Write { token, .. } => {
                let is_durable = direction == Direction::Write { fua: true };
                client.end_write([token], &result, if is_durable { Outcome::Durable } else { Outcome::Done });
            }
        }
        result
    }
}

impl Future for BlockIo<'_> {
    type Output = Result<(), BlockIoError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let io = &mut *self;
        if matches!(io.step, IoStep::Begin) {
            io.step = IoStep::Ended; // if it can't begin
            io.begin()?;
        }
        let completed = match &mut io.step {
            IoStep::Execute(_, choice, execution) => {
                let completed = ready!(Pin::new(execution).poll(context));
                if io.direction != Direction::Read && completed != Err(Lost::NotPlaced) {
                    io.client.0.carrier.note(*choice);
                }
                completed.map_err(IoError::Lost)
            }
            IoStep::Apart(_, transfer) => ready!(transfer.as_mut().poll(context)),
            IoStep::Begin | IoStep::Ended => unreachable!("it is not polled after its end"),
        };
        Poll::Ready(io.end(completed))
    }
}

/// The certain outcome of a write or flush that ended with `result`; `done` if it succeeded.
fn outcome<T>(result: &Result<T, BlockIoError>, done: Outcome) -> Outcome {
    if result.is_ok() { done } else { Outcome::Uncertain }
}

fn read_write(lba: u64, blocks: u32, fua: bool) -> ReadWrite {
    ReadWrite { slba: lba, nlb_z: (blocks - 1) as u16, fua, ..ReadWrite::default() }
}
