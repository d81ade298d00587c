//! Far flash: a drive's flash array across the link, through its raw flash namespace
//! ([`byteway_wire::nvme::vendor::raw_flash`]), for a translation layer on this host.
//!
//! [`RawFlash`] executes the operations of [`Far`](byteway_flash::Far), one command each, over one queue pair. Data
//! moves by DMA between the array and a buffer of the operation's lane, and is converted from there to unit contents.
//!
//! What it does not do: it orders nothing and knows no mapping. A command without a completion, as after a reset of the
//! controller, ends it permanently, because it is unknown whether the command took effect. Commands have no spans of
//! their own; their time counts as flash time of the operations that wait for them.

use byteway_clock::Semaphore;
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_flash::{
    BlockId, BlockMark, BlockReport, FarFlash, FarProgram, FarRead, FarShape, FarStripe, Geometry, Gone,
    Mode, Priority, Spare, SystemRequest,
};
use byteway_host::{Driver, DriverError, Lost, QueuePair, Request};
use byteway_link::Memory;
use byteway_link::memory::Fault;
use byteway_transfer::host::{Buffer, PlanError, Planner, PointerKind};
use byteway_wire::nvme::vendor::raw_flash::{
    self, NO_NUMBER, RawAction, RawBlock, RawErase, RawFlashIdentify, RawPart, RawProgram, RawRead,
    RawReport, RawSystem, RawUnit, copy_bytes, metadata_bytes, payload_bytes, push_metadata,
};
use byteway_wire::nvme::{Cqe, Sqe, Status, VendorOpcode};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Configuration of raw flash access.
#[derive(Clone, Copy, Debug)]
pub struct RawFlashConfig {
    /// Maximum number of operations in flight, at least one; each has a buffer of a stripe.
    pub lanes: usize,
    /// Kind of data pointers.
    pub pointer: PointerKind,
    /// How contents that were read are stored.
    pub keep: Keep,
}

/// Host memory for one operation at a time, and its lists.
struct Lane {
    buffer: Buffer,
    slot: usize,
    /// Buffer for metadata.
    metadata: RefCell<Vec<u8>>,
}

/// The raw flash namespace of a drive, over one queue pair.
pub struct RawFlash {
    driver: Driver,
    queue: QueuePair,
    nsid: u32,
    keep: Keep,
    planner: Planner,
    lanes: Vec<Lane>,
    /// Lane for reports and the system area, one command at a time.
    aside: Lane,
    aside_turn: Semaphore,
}

impl RawFlash {
    /// Opens the raw flash namespace of a controller, by commands over `queue`, of which it uses up to
    /// `lanes` entries; `None` if there is no such namespace.
    ///
    /// # Errors
    /// [`DriverError`] if Identify failed or is inconsistent, or no memory is available for the lanes'
    /// buffers.
    pub async fn open(
        driver: &Driver,
        queue: QueuePair,
        config: RawFlashConfig,
    ) -> Result<Option<RawFlash>, DriverError> {
        let Some(&nsid) = driver.namespaces_of(raw_flash::CSI).await?.first() else { return Ok(None) };
        let shape = shape(&driver.identify_namespace(raw_flash::CSI, nsid).await?);
        let bytes = match shape {
            Some(shape) if shape.geometry.validate().is_ok() => {
                payload_bytes(shape.geometry.units_per_stripe())
            }
            _ => return Err(DriverError::CommandSet),
        };
        let memory = queue.port().memory().clone();
        let planner = Planner::new(&memory, config.pointer, bytes);
        let lane = || -> Option<Lane> {
            let buffer = Buffer::contiguous(&memory, 0, bytes)?;
            Some(Lane { buffer, slot: planner.add_slot()?, metadata: RefCell::default() })
        };
        let lanes: Option<Vec<Lane>> = (0..config.lanes.max(1)).map(|_| lane()).collect();
        let no_memory = DriverError::Memory("the buffers of raw flash");
        let (Some(lanes), Some(aside)) = (lanes, lane()) else { return Err(no_memory) };
        let aside_turn = Semaphore::new(driver.clock(), 1);
        let (driver, keep) = (driver.clone(), config.keep);
        Ok(Some(RawFlash { driver, queue, nsid, keep, planner, lanes, aside, aside_turn }))
    }

    fn memory(&self) -> &Memory {
        self.queue.port().memory()
    }

    /// Executes a command without data.
    async fn command(&self, sqe: Sqe) -> Result<Cqe, Failure> {
        Ok(self.queue.execute(sqe).await?)
    }

    /// Executes a command with the first `bytes` of a lane's buffer as its data.
    async fn transfer(&self, sqe: Sqe, lane: &Lane, bytes: u32) -> Result<Cqe, Failure> {
        let sqe = self.planner.plan(lane.slot, &lane.buffer, bytes)?.placed_in(sqe);
        let pages = lane.buffer.pages_touched(bytes);
        Ok(self.queue.execute(Request::from(sqe).with_pages(pages)).await?)
    }

    async fn read_stripe(&self, lane: &Lane, read: FarRead, out: &mut FarStripe) -> Result<(), Failure> {
        let FarRead { block, stripe, mask, contents, priority } = read;
        let command =
            RawRead { block: block.0, stripe, mask, priority: priority as u8, metadata_only: !contents };
        let units = command.units();
        let completed = self.transfer(command.sqe(0, self.nsid), lane, command.bytes()).await?;
        checked(&completed)?;
        let memory = self.memory();
        let start = lane.buffer.pages()[0];
        let behind = if contents { u64::from(units) * UNIT_BYTES as u64 } else { 0 };
        let mut bytes = lane.metadata.borrow_mut();
        bytes.resize(metadata_bytes(units) as usize, 0);
        memory.read(start + behind, &mut bytes)?;
        let (number, metadata) = raw_flash::metadata(&bytes).ok_or(Failure::Metadata)?;
        out.number = (number != NO_NUMBER).then_some(number);
        out.unreadable = u64::from(completed.dw0) | u64::from(completed.dw1) << 32;
        out.spares.clear();
        out.contents.clear();
        for (index, unit) in (0..).zip(metadata) {
            out.spares.push(Spare { lpa: unit.lpa, sequence: unit.sequence });
            if contents {
                let address = start + index * UNIT_BYTES as u64;
                let content = memory.with(address, UNIT_BYTES, |bytes| Content::of(bytes, self.keep))?;
                out.contents.push(match unit.marred {
                    0 => content,
                    marred => content.edited(self.keep, |_, blocks| *blocks |= marred),
                });
            }
        }
        Ok(())
    }

    async fn write_stripe(&self, lane: &Lane, program: FarProgram<'_>) -> Result<bool, Failure> {
        let FarProgram { block, stripe, batch, sources, priority } = program;
        let units = batch.units.len() as u32;
        let command = RawProgram { block: block.0, stripe, units: units as u8, priority: priority as u8 };
        let memory = self.memory();
        let mut address = lane.buffer.pages()[0];
        let (opcode, bytes) = match sources {
            None => {
                for (_, content) in &batch.units {
                    memory.with_mut(address, UNIT_BYTES, |bytes| content.write_to(bytes))?;
                    address += UNIT_BYTES as u64;
                }
                (VendorOpcode::RAW_PROGRAM, payload_bytes(units))
            }
            Some(sources) => {
                for source in sources {
                    memory.write(address, &source.0.to_le_bytes())?;
                    address += 8;
                }
                (VendorOpcode::RAW_COPY, copy_bytes(units))
            }
        };
        {
            let mut metadata = lane.metadata.borrow_mut();
            metadata.clear();
            let unit = |(spare, content): &(Spare, Content)| {
                let marred = if sources.is_none() { content.marred() } else { 0 };
                RawUnit { lpa: spare.lpa, sequence: spare.sequence, marred, ..RawUnit::default() }
            };
            push_metadata(&mut metadata, batch.number, batch.units.iter().map(unit));
            memory.write(address, &metadata)?;
        }
        written(&self.transfer(command.sqe(opcode, 0, self.nsid), lane, bytes).await?)
    }

    async fn report_blocks(&self, blocks: Range<u32>, out: &mut Vec<BlockReport>) -> Result<(), Failure> {
        let _turn = self.aside_turn.acquire(1).await;
        let at_once = self.aside.buffer.bytes() / RawBlock::SIZE as u32;
        let mut first = blocks.start;
        while first < blocks.end {
            let count = (blocks.end - first).min(at_once);
            let sqe = RawReport { first, count }.sqe(0, self.nsid);
            let bytes = count * RawBlock::SIZE as u32;
            checked(&self.transfer(sqe, &self.aside, bytes).await?)?;
            let mut reported = vec![0; bytes as usize];
            self.memory().read(self.aside.buffer.pages()[0], &mut reported)?;
            out.extend(RawBlock::parse_all(&reported).map(report));
            first += count;
        }
        Ok(())
    }

    /// Reads all of a part of the system area, if it exists.
    async fn read_part(&self, part: RawPart) -> Result<Option<Vec<u8>>, Failure> {
        let mut read = Vec::new();
        loop {
            let (bytes, offset) = (self.aside.buffer.bytes(), read.len() as u32);
            let sqe =
                RawSystem { part, bytes, offset, total: 0 }.sqe(VendorOpcode::RAW_SYSTEM_READ, 0, self.nsid);
            let completed = self.transfer(sqe, &self.aside, bytes).await?;
            checked(&completed)?;
            let (total, is_there) = (completed.dw0, completed.dw1 == 1);
            if !is_there || total > RawSystem::TOTAL_MAX {
                return if is_there { Err(Failure::Part) } else { Ok(None) };
            }
            let piece = total.checked_sub(offset).ok_or(Failure::Part)?.min(bytes);
            let end = read.len() + piece as usize;
            read.resize(end, 0);
            self.memory().read(self.aside.buffer.pages()[0], &mut read[offset as usize..end])?;
            if end == total as usize {
                return Ok(Some(read));
            }
        }
    }

    async fn write_part(&self, part: RawPart, from: &[u8]) -> Result<(), Failure> {
        let total = from.len() as u32;
        let mut offset = 0;
        for piece in from.chunks(self.aside.buffer.bytes() as usize) {
            self.memory().write(self.aside.buffer.pages()[0], piece)?;
            let bytes = piece.len() as u32;
            let system = RawSystem { part, bytes, offset, total };
            let sqe = system.sqe(VendorOpcode::RAW_SYSTEM_WRITE, 0, self.nsid);
            checked(&self.transfer(sqe, &self.aside, bytes).await?)?;
            offset += bytes;
        }
        Ok(())
    }

    async fn carry_out(&self, request: SystemRequest) -> Result<Vec<Rc<[u8]>>, Failure> {
        let _turn = self.aside_turn.acquire(1).await;
        let root = |slot: usize| if slot == 0 { RawPart::Root0 } else { RawPart::Root1 };
        let part = match request {
            SystemRequest::ReadRoot(slot) => self.read_part(root(slot)).await?,
            SystemRequest::ReadRecord => self.read_part(RawPart::Record).await?,
            SystemRequest::ReadJournal => {
                let journal = self.read_part(RawPart::Journal).await?.unwrap_or_default();
                return Ok(raw_flash::pages(&journal).map(Rc::from).collect());
            }
            SystemRequest::WriteRoot(slot, bytes) => {
                self.write_part(root(slot), &bytes).await?;
                None
            }
            SystemRequest::WriteRecord(bytes) => {
                self.write_part(RawPart::Record, &bytes).await?;
                None
            }
            SystemRequest::AppendJournal(page) => {
                self.write_part(RawPart::Journal, &page).await?;
                None
            }
            SystemRequest::CutJournal(pages) => {
                let pages = u32::try_from(pages).unwrap_or(u32::MAX);
                self.manage(RawAction::CutJournal { pages }).await?;
                None
            }
        };
        Ok(part.into_iter().map(Rc::from).collect())
    }

    async fn manage(&self, action: RawAction) -> Result<(), Failure> {
        checked(&self.command(action.sqe(0, self.nsid)).await?)
    }
}

impl FarFlash for RawFlash {
    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    async fn describe(&self) -> Result<FarShape, Gone> {
        let id = self.driver.identify_namespace(raw_flash::CSI, self.nsid).await.map_err(Gone::because)?;
        shape(&id).ok_or_else(|| Gone::because("the namespace does not say what flash it is"))
    }

    async fn report(&self, blocks: Range<u32>, out: &mut Vec<BlockReport>) -> Result<(), Gone> {
        Ok(self.report_blocks(blocks, out).await?)
    }

    async fn read(&self, lane: usize, read: FarRead, out: &mut FarStripe) -> Result<(), Gone> {
        Ok(self.read_stripe(&self.lanes[lane], read, out).await?)
    }

    async fn program(&self, lane: usize, program: FarProgram<'_>) -> Result<bool, Gone> {
        Ok(self.write_stripe(&self.lanes[lane], program).await?)
    }

    async fn erase(&self, _: usize, block: BlockId, priority: Priority) -> Result<bool, Gone> {
        let sqe = RawErase { block: block.0, priority: priority as u8 }.sqe(0, self.nsid);
        Ok(written(&self.command(sqe).await?)?)
    }

    async fn mark(&self, block: BlockId, mark: BlockMark) -> Result<(), Gone> {
        let block = block.0;
        let action = match mark {
            BlockMark::Bad => RawAction::MarkBad { block },
            BlockMark::Mode(mode) => RawAction::SetMode { block, one_bit: mode == Mode::OneBit },
        };
        Ok(self.manage(action).await?)
    }

    async fn sync(&self) -> Result<(), Gone> {
        Ok(self.manage(RawAction::Sync).await?)
    }

    async fn system(&self, request: SystemRequest) -> Result<Vec<Rc<[u8]>>, Gone> {
        Ok(self.carry_out(request).await?)
    }
}

/// Why raw flash access has ended.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("a raw flash command was lost: {0}")]
    Lost(#[from] Lost),
    #[error("a raw flash command failed: {0}")]
    Status(Status),
    #[error("a raw flash command's data cannot be described: {0}")]
    Plan(#[from] PlanError),
    #[error("a raw flash buffer is no longer host memory: {0}")]
    Memory(#[from] Fault),
    #[error("the metadata of a stripe is malformed")]
    Metadata,
    #[error("a part of the system area is too long, or changed while it was read")]
    Part,
}

impl From<Failure> for Gone {
    fn from(failure: Failure) -> Gone {
        Gone::because(failure)
    }
}

fn checked(completed: &Cqe) -> Result<(), Failure> {
    match completed.status() {
        status if status.is_success() => Ok(()),
        status => Err(Failure::Status(status)),
    }
}

/// Whether a program, a copy or an erase succeeded; a failure of the array is not a failure of the link.
fn written(completed: &Cqe) -> Result<bool, Failure> {
    match completed.status() {
        status if status.is(Status::WRITE_FAULT) || status.is(Status::UNRECOVERED_READ_ERROR) => Ok(false),
        _ => checked(completed).map(|()| true),
    }
}

/// Decodes Identify; `None` if it is of another version.
fn shape(bytes: &[u8]) -> Option<FarShape> {
    let id = RawFlashIdentify::parse(bytes)?;
    let RawFlashIdentify { channels, ways, planes, blocks, pages, page_bytes, .. } = id;
    let has = |flag| id.flags & flag != 0;
    Some(FarShape {
        geometry: Geometry { channels, ways, planes, blocks, pages, page_bytes },
        wordline: id.wordline,
        has_one_bit_mode: has(RawFlashIdentify::ONE_BIT),
        can_fail: has(RawFlashIdentify::CAN_FAIL),
        is_new: has(RawFlashIdentify::IS_NEW),
        calendar_ns: id.calendar_ns,
    })
}

fn report(block: RawBlock) -> BlockReport {
    let has = |flag| block.flags & flag != 0;
    BlockReport {
        programmed: block.programmed,
        erases: block.erases,
        erases_since_made: block.erases_since_made,
        reads: block.reads,
        programmed_at_ns: block.programmed_at_ns,
        mode: if has(RawBlock::ONE_BIT) { Mode::OneBit } else { Mode::Full },
        is_bad: has(RawBlock::BAD),
        is_unstable: has(RawBlock::UNSTABLE),
    }
}
