//! The payload of a command: from wherever it is to the workspace.

use crate::controller::command::context::Context;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::core::Core;
use crate::controller::state::counters::add;
use crate::controller::state::slot::Payload;
use byteway_clock::{Delay, SpanId, Stage};
use byteway_firmware::Work;
use byteway_link::{Fault, Purpose};
use byteway_transfer::cxl_mem::{self, Place};
use byteway_transfer::{inline, mmio};
use byteway_wire::content::UNIT_BYTES;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::vendor::Chunk;
use byteway_wire::nvme::vendor::cxl::InDeviceMemory;

impl Context<'_> {
    /// Resolves the data pointer.
    pub(crate) async fn resolve(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        to_host: bool,
    ) -> Result<(), Status> {
        match self.names_inline() {
            Some(true) if !to_host => return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()), // no train came with it
            Some(_) => return Err(Status::SGL_TYPE_INVALID.with_dnr()),
            None => {}
        }
        if self.names_vendor() {
            return Err(Status::SGL_TYPE_INVALID.with_dnr());
        }
        let page_bytes = self.core.registers.page_bytes.get();
        workspace.collector.resolve(&self.core.port, self.sqe, bytes, page_bytes, to_host).await?;
        self.charge(Stage::Link);
        self.check()
    }

    /// Brings the payload from wherever it is to `landing`.
    pub(crate) async fn bring(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        workspace.contents.clear();
        workspace.bytes.clear();
        match self.payload {
            Payload::Pointer if bytes == 0 && self.names_inline() == Some(true) => Ok(()),
            Payload::Pointer => self.gather(workspace, bytes, landing).await,
            Payload::Train(slots) => {
                let before = inline::before(self.sqe, slots, bytes)?;
                if before > 0 {
                    self.gather(workspace, before, landing).await?;
                }
                self.unload(workspace, before, landing);
                Ok(())
            }
            Payload::Chunked(slots) if u64::from(slots.bytes) == bytes => {
                self.unload(workspace, 0, landing);
                Ok(())
            }
            Payload::Chunked(_) => Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()),
            Payload::Refused(status) => Err(status),
        }
    }

    /// Whether the queue is enabled for what the data pointer says: that the payload lies behind the command. None: it
    /// says something else, or the drive is one that knows no such pointer.
    fn names_inline(&self) -> Option<bool> {
        let offers = !self.core.config.transfer.methods.is_empty();
        (offers && inline::is_described(self.sqe)).then(|| self.queue.methods.get().inline())
    }

    /// Whether the data pointer is one that only such drives know: for a payload in chunks, in the buffer or in memory.
    fn names_vendor(&self) -> bool {
        let offers = !self.core.config.transfer.methods.is_empty();
        offers
            && (Chunk::named_by(self.sqe).is_some()
                || mmio::named_by(self.sqe).is_some()
                || cxl_mem::named_by(self.sqe).is_some())
    }

    /// Adds what came by the queue to the payload, of which `before` bytes are there.
    fn unload(&self, workspace: &mut Workspace, before: u64, landing: Landing) {
        let carried = self.slot.carried.borrow();
        add(&self.core.counters.carried_bytes, carried.len() as u64);
        workspace.land(landing, self.core.config.keep, before as usize, &carried);
    }

    /// The work of setting up DMA of `bytes`, and of copying them if they pass through buffers of a driver.
    pub(crate) async fn set_up_dma(&self, bytes: u64) -> Result<(), Status> {
        let core = self.core;
        if core.placement.cycles().of(Work::Dma) > 0 && bytes > 0 {
            // Building the operations is work of whoever executes the command; the engine that does them is the drive's.
            let units = bytes.div_ceil(UNIT_BYTES as u64);
            let queued = core.placement.work_by(&core.clock, self.errand().route, Work::Dma, units).await;
            self.charge_firmware(queued);
            self.check()?;
        }
        if bytes > 0 {
            core.placement.command_data_end(&core.clock, self.errand(), core.clock.spans(), 1).await;
        }
        core.placement.copy_payload(&core.clock, self.errand(), core.clock.spans(), bytes).await;
        self.check()
    }

    /// Brings `bytes` from where the data pointer says.
    async fn gather(&self, workspace: &mut Workspace, bytes: u64, landing: Landing) -> Result<(), Status> {
        if self.names_buffer() {
            return self.unbuffer(workspace, bytes, landing).await;
        }
        if let Some(named) = self.in_memory() {
            return self.recall(workspace, named, bytes, landing).await;
        }
        self.resolve(workspace, bytes, false).await?;
        self.set_up_dma(bytes).await?;
        let core = self.core;
        // Bytes go on to DRAM as they come in: its port is taken from the beginning, and the last of them is stored its
        // latency after it has come.
        let site = core.placement.site(Work::Buffer);
        let stored = (landing == Landing::Dram && bytes > 0).then(|| site.dram("payload", bytes));
        // PRPs name pages, of which the DMA knows only whole units; an SGL has the lengths to be exact.
        let granularity = match self.sqe.psdt() {
            PSDT_PRP => u64::from(core.config.controller.dma_granularity),
            _ => 1,
        };
        let (collector, take) = workspace.landed(landing, core.config.keep);
        let epoch = collector.epoch();
        let gathered = core.port.gather(collector.segments(), epoch, granularity, Purpose::Data, take).await;
        gathered.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        add(&core.counters.data_in_bytes, bytes);
        self.charge(Stage::Link);
        if let Some(passage) = stored {
            core.clock.sleep_until(passage.arrival.max(core.clock.now() + site.dram_latency())).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }

    /// The payload in the device's memory that the data pointer names, if it does and the host has enabled that for the
    /// queue.
    pub(crate) fn in_memory(&self) -> Option<InDeviceMemory> {
        cxl_mem::named_by(self.sqe).filter(|_| self.queue.methods.get().cxl_mem())
    }

    /// Takes the payload of `bytes` from the area for payloads of any command.
    pub(crate) async fn recall(
        &self,
        workspace: &mut Workspace,
        named: InDeviceMemory,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        let core = self.core;
        let Place::Area(offset) =
            cxl_mem::find(&core.memory.log(core.config.transfer.memory.as_ref()), named, bytes)?
        else {
            return Err(Status::SGL_OFFSET_INVALID.with_dnr()); // only values go to the page buffer
        };
        self.settled(named.checksum, || {
            core.memory.area.bytes().payload(offset, named.bytes).map(crc32c::crc32c)
        })
        .await?;
        workspace.land(landing, core.config.keep, 0, core.memory.area.bytes().payload(offset, named.bytes)?);
        add(&core.counters.buffered_bytes, bytes);
        if landing == Landing::Dram && bytes > 0 {
            let stored = core.placement.site(Work::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }

    /// Brings the device's memory up to now, and waits until a payload there is what its checksum says, if the host says
    /// one; `sum` looks.
    ///
    /// # Errors
    /// Nothing is under way any more, or only other stores, and it is not.
    pub(crate) async fn settled(
        &self,
        checksum: Option<u32>,
        sum: impl FnMut() -> Result<u32, Status>,
    ) -> Result<(), Status> {
        self.core.settled((self.span, &|| self.check()), checksum, sum).await
    }
}

/// Between two looks at a payload whose checksum is not right yet: stores may still be under way.
const LOOK_AGAIN: Delay = Delay::from_ns(50);
/// How many there are: a host may store for ever.
const LOOKS_MAX: u32 = 100;

/// Who is followed, and whether to go on, which is asked after each wait.
pub(crate) type Followed<'a> = (SpanId, &'a dyn Fn() -> Result<(), Status>);

impl Core {
    pub(crate) async fn settled(
        &self,
        (span, check): Followed<'_>,
        checksum: Option<u32>,
        mut sum: impl FnMut() -> Result<u32, Status>,
    ) -> Result<(), Status> {
        self.port.settle_memory();
        let Some(checksum) = checksum else { return Ok(()) };
        for _ in 0..LOOKS_MAX {
            if sum()? == checksum {
                return Ok(());
            }
            if self.port.memory_is_settled() {
                break;
            }
            self.clock.sleep(LOOK_AGAIN).await;
            self.port.spans().charge(span, self.clock.now(), Stage::Link);
            check()?;
        }
        if sum()? == checksum { Ok(()) } else { Err(Status::DATA_TRANSFER_ERROR) }
    }
}

impl Context<'_> {
    /// Whether the data pointer names the payload buffer, and the host has enabled that for the queue.
    pub(crate) fn names_buffer(&self) -> bool {
        self.queue.methods.get().mmio() && mmio::named_by(self.sqe).is_some()
    }

    /// Takes the payload of `bytes` from the buffer.
    pub(crate) async fn unbuffer(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        let core = self.core;
        let Some((offset, named)) = mmio::named_by(self.sqe) else { return Err(Status::INTERNAL_ERROR) };
        if u64::from(named) != bytes {
            return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        }
        workspace.land(landing, core.config.keep, 0, core.memory.buffer.bytes().payload(offset, named)?);
        add(&core.counters.buffered_bytes, bytes);
        if landing == Landing::Dram && bytes > 0 {
            let stored = core.placement.site(Work::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }
}
