//! A drive as a member of an array: its block namespace, over one queue pair.
//!
//! [`MemberDrive`] implements [`Member`], with one command per operation. Data moves by DMA between the drive and a
//! buffer of the operation's lane, and is converted from there to unit contents.
//!
//! What it does not do: it orders nothing, splits nothing, and knows no other member. A command without a completion,
//! as after a reset of the controller, ends the member, because it is unknown whether the command took effect.

use crate::driver::controller::Driver;
use crate::driver::queue::{QueuePair, Request};
use crate::error::{DriverError, Lost};
use byteway_clock::SpanId;
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_link::Memory;
use byteway_link::memory::Fault;
use byteway_member::{Member, MemberError, MemberLost, MemberShape};
use byteway_transfer::host::{Buffer, PlanError, Planner, PointerKind};
use byteway_wire::nvme::{Flush, NvmOpcode, ReadWrite, Sqe, Status, WriteZeroes};
use std::rc::Rc;

const UNIT: u64 = UNIT_BYTES as u64;

/// Maximum number of units of a command, whatever the controller's limit: 1 MiB.
const COMMAND_UNITS_MAX: u64 = 256;

/// Configuration of a member.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Maximum number of operations in flight, at least one; each has a buffer of the longest command.
    pub lanes: usize,
    /// Kind of data pointers.
    pub pointer: PointerKind,
    /// How contents that were read are stored.
    pub keep: Keep,
    /// Name of the drive in messages.
    pub name: String,
}

/// Host memory for one operation at a time, and its lists.
struct Lane {
    buffer: Buffer,
    slot: usize,
}

/// The first block namespace of a drive, over one queue pair.
pub struct MemberDrive {
    queue: QueuePair,
    nsid: u32,
    block_bytes: u64,
    shape: MemberShape,
    keep: Keep,
    planner: Planner,
    lanes: Vec<Lane>,
}

impl MemberDrive {
    /// Opens the first namespace of a controller with blocks of 512 or 4096 bytes without metadata, by
    /// commands over `queue`, of which it uses up to `lanes` entries; `None` if there is no such namespace.
    ///
    /// # Errors
    /// [`DriverError`] if no memory is available for the lanes' buffers.
    pub fn open(
        driver: &Driver,
        queue: QueuePair,
        config: MemberConfig,
    ) -> Result<Option<MemberDrive>, DriverError> {
        let namespaces = driver.namespaces();
        let is_usable = |block_bytes: u32, metadata: u16| matches!(block_bytes, 512 | 4096) && metadata == 0;
        let usable = namespaces.iter().find(|one| is_usable(one.block_bytes, one.metadata_bytes));
        let Some(namespace) = usable else { return Ok(None) };
        let block_bytes = u64::from(namespace.block_bytes);
        let longest = driver.transfer_bytes_max().unwrap_or(u64::MAX) / UNIT;
        let command_units = longest.clamp(1, COMMAND_UNITS_MAX) as u32;
        let shape = MemberShape {
            units: namespace.blocks / (UNIT / block_bytes),
            command_units,
            block_bytes: namespace.block_bytes,
            identity: config.name.as_str().into(),
        };
        let bytes = command_units * UNIT_BYTES as u32;
        let memory = queue.port().memory().clone();
        let planner = Planner::new(&memory, config.pointer, bytes);
        let lane = || -> Option<Lane> {
            Some(Lane { buffer: Buffer::contiguous(&memory, 0, bytes)?, slot: planner.add_slot()? })
        };
        let lanes: Option<Vec<Lane>> = (0..config.lanes.max(1)).map(|_| lane()).collect();
        let lanes = lanes.ok_or(DriverError::Memory("the buffers of an array's member"))?;
        let (nsid, keep) = (namespace.nsid, config.keep);
        Ok(Some(MemberDrive { queue, nsid, block_bytes, shape, keep, planner, lanes }))
    }

    fn memory(&self) -> &Memory {
        self.queue.port().memory()
    }

    /// Executes a command without data.
    async fn command(&self, span: SpanId, sqe: Sqe) -> Result<(), Failure> {
        checked(self.queue.execute(Request::from(sqe).within(span)).await?.status())
    }

    /// Executes a read or a write of `bytes` bytes from byte `at` of the namespace on, with the first bytes of a lane's
    /// buffer.
    async fn transfer(
        &self,
        span: SpanId,
        lane: &Lane,
        opcode: NvmOpcode,
        at: u64,
        bytes: u32,
        fua: bool,
    ) -> Result<(), Failure> {
        let (slba, blocks) = (at / self.block_bytes, u64::from(bytes) / self.block_bytes);
        let rw = ReadWrite { slba, nlb_z: (blocks - 1) as u16, fua, ..ReadWrite::default() };
        let sqe = rw.sqe(opcode, 0, self.nsid);
        let sqe = self.planner.plan(lane.slot, &lane.buffer, bytes)?.placed_in(sqe);
        let pages = lane.buffer.pages_touched(bytes);
        let request = Request { pages, ..Request::from(sqe) }.within(span);
        checked(self.queue.execute(request).await?.status())
    }

    async fn read_units(
        &self,
        lane: &Lane,
        span: SpanId,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), Failure> {
        let bytes = count * UNIT_BYTES as u32;
        self.transfer(span, lane, NvmOpcode::READ, first * UNIT, bytes, false).await?;
        out.clear();
        let mut address = lane.buffer.pages()[0];
        for _ in 0..count {
            let named = (self.keep == Keep::Stamps).then(|| self.memory().pattern(address)).flatten();
            out.push(match named {
                Some(pattern) => pattern.into(),
                None => self.memory().with(address, UNIT_BYTES, |bytes| Content::of(bytes, self.keep))?,
            });
            address += UNIT;
        }
        Ok(())
    }

    /// Writes a unit's contents to host memory.
    fn put(&self, address: u64, content: &Content) -> Result<(), Failure> {
        match content.pattern() {
            Some(pattern) => self.memory().put_pattern(address, pattern)?,
            None => self.memory().with_mut(address, UNIT_BYTES, |bytes| content.write_to(bytes))?,
        }
        Ok(())
    }

    async fn write_units(
        &self,
        lane: &Lane,
        span: SpanId,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> Result<(), Failure> {
        let start = lane.buffer.pages()[0];
        for (index, content) in (0..).zip(contents) {
            self.put(start + index * UNIT, content)?;
        }
        let bytes = (contents.len() * UNIT_BYTES) as u32;
        self.transfer(span, lane, NvmOpcode::WRITE, first * UNIT, bytes, durable).await
    }

    async fn write_bytes(
        &self,
        lane: &Lane,
        span: SpanId,
        at: u64,
        part: &[u8],
        durable: bool,
    ) -> Result<(), Failure> {
        self.memory().write(lane.buffer.pages()[0], part)?;
        self.transfer(span, lane, NvmOpcode::WRITE, at, part.len() as u32, durable).await
    }

    /// Writes zeroes, which deallocates, in commands of at most 65,536 blocks (a 16-bit zero-based count).
    async fn write_zeroes(&self, span: SpanId, first: u64, count: u64) -> Result<(), Failure> {
        let per_unit = UNIT / self.block_bytes;
        let (mut block, end) = (first * per_unit, (first + count) * per_unit);
        while block < end {
            let blocks = (end - block).min(1 << 16);
            let zeroes =
                WriteZeroes { slba: block, nlb_z: (blocks - 1) as u16, deac: true, ..WriteZeroes::default() };
            self.command(span, zeroes.sqe(0, self.nsid)).await?;
            block += blocks;
        }
        Ok(())
    }
}

impl Member for MemberDrive {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    async fn describe(&self) -> Result<MemberShape, MemberLost> {
        Ok(self.shape.clone())
    }

    async fn read(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MemberError> {
        Ok(self.read_units(&self.lanes[lane], span, first, count, out).await?)
    }

    async fn write(
        &self,
        lane: usize,
        span: SpanId,
        first: u64,
        contents: &[Content],
        durable: bool,
    ) -> Result<(), MemberError> {
        Ok(self.write_units(&self.lanes[lane], span, first, contents, durable).await?)
    }

    async fn write_part(
        &self,
        lane: usize,
        span: SpanId,
        unit: u64,
        offset: u32,
        bytes: u32,
        content: &Content,
        durable: bool,
    ) -> Result<(), MemberError> {
        let mut part = [0; UNIT_BYTES];
        let part = &mut part[..bytes as usize];
        content.write_part(offset as usize, part);
        let at = unit * UNIT + u64::from(offset);
        Ok(self.write_bytes(&self.lanes[lane], span, at, part, durable).await?)
    }

    async fn deallocate(&self, _: usize, span: SpanId, first: u64, count: u64) -> Result<(), MemberError> {
        Ok(self.write_zeroes(span, first, count).await?)
    }

    async fn flush(&self, _: usize, span: SpanId) -> Result<(), MemberError> {
        Ok(self.command(span, Flush.sqe(0, self.nsid)).await?)
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("a command was lost: {0}")]
    Lost(#[from] Lost),
    #[error("{0}")]
    Status(Status),
    #[error("a command's data cannot be described: {0}")]
    Plan(#[from] PlanError),
    #[error("a buffer is no longer host memory: {0}")]
    Memory(#[from] Fault),
}

impl From<Failure> for MemberError {
    fn from(failure: Failure) -> MemberError {
        match failure {
            Failure::Status(status) if status.is(Status::UNRECOVERED_READ_ERROR) => MemberError::Unreadable,
            Failure::Status(status) => MemberError::Refused(Rc::from(status.to_string())),
            other => MemberLost::because(other).into(),
        }
    }
}

fn checked(status: Status) -> Result<(), Failure> {
    if status.is_success() { Ok(()) } else { Err(Failure::Status(status)) }
}
