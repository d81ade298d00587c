//! Transfer of a command's payload from the host to the workspace, by any method.

use crate::controller::command::context::Context;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::core::Core;
use crate::controller::state::counters::add;
use crate::controller::state::slot::Payload;
use byteway_clock::{Delay, SpanId, Stage};
use byteway_content::UNIT_BYTES;
use byteway_firmware::WorkKind;
use byteway_link::{Fault, Purpose};
use byteway_transfer::cxl_mem::{self, PayloadLocation};
use byteway_transfer::{inline, mmio};
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
            Some(true) if !to_host => return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()), // no entries with the payload followed it
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

    /// Transfers the payload to `landing`, by the method that the command uses.
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

    /// Whether the data pointer announces an inline payload, and the queue is enabled for it. `None` for any
    /// other data pointer, or if the drive does not support inline payloads.
    fn names_inline(&self) -> Option<bool> {
        let offers = !self.core.config.transfer.methods.is_empty();
        (offers && inline::is_described(self.sqe)).then(|| self.queue.methods.get().inline())
    }

    /// Whether the data pointer is vendor-specific: for a payload in chunks, in the payload buffer, or in device
    /// memory.
    fn names_vendor(&self) -> bool {
        let offers = !self.core.config.transfer.methods.is_empty();
        offers
            && (Chunk::named_by(self.sqe).is_some()
                || mmio::named_by(self.sqe).is_some()
                || cxl_mem::named_by(self.sqe).is_some())
    }

    /// Appends the payload that came in the submission queue; `before` bytes are already present.
    fn unload(&self, workspace: &mut Workspace, before: u64, landing: Landing) {
        let carried = self.slot.carried.borrow();
        add(&self.core.counters.carried_bytes, carried.len() as u64);
        workspace.land(landing, self.core.config.keep, before as usize, &carried);
    }

    /// Charges setting up DMA of `bytes`, and copying them if they pass through buffers of a driver.
    pub(crate) async fn set_up_dma(&self, bytes: u64) -> Result<(), Status> {
        let core = self.core;
        if core.placement.cycles().of(WorkKind::Dma) > 0 && bytes > 0 {
            // The cores that execute the command build the DMA operations; the drive's engine performs them.
            let units = bytes.div_ceil(UNIT_BYTES as u64);
            let queued =
                core.placement.work_by(&core.clock, self.work_context().route, WorkKind::Dma, units).await;
            self.charge_firmware(queued);
            self.check()?;
        }
        if bytes > 0 {
            core.placement.command_data_end(&core.clock, self.work_context(), core.clock.spans(), 1).await;
        }
        core.placement.copy_payload(&core.clock, self.work_context(), core.clock.spans(), bytes).await;
        self.check()
    }

    /// Transfers `bytes` bytes from the data pointer's address.
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
        // Bytes pass on to DRAM as they arrive: its port is occupied from the start, and the last byte is stored one
        // DRAM latency after its arrival.
        let site = core.placement.site(WorkKind::Buffer);
        let stored = (landing == Landing::Dram && bytes > 0).then(|| site.dram("payload", bytes));
        // PRPs name pages, of which the DMA engine fetches whole units; SGLs have exact lengths.
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

    /// The location of the payload in device memory, if the data pointer names one and the host has enabled that for
    /// the queue.
    pub(crate) fn in_memory(&self) -> Option<InDeviceMemory> {
        cxl_mem::named_by(self.sqe).filter(|_| self.queue.methods.get().cxl_mem())
    }

    /// Takes a payload of `bytes` bytes from the area for payloads of any command.
    pub(crate) async fn recall(
        &self,
        workspace: &mut Workspace,
        named: InDeviceMemory,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        let core = self.core;
        let PayloadLocation::Area(offset) =
            cxl_mem::find(&core.memory.log(core.config.transfer.memory.as_ref()), named, bytes)?
        else {
            return Err(Status::SGL_OFFSET_INVALID.with_dnr()); // only values of KV Store commands may be placed in the page buffer
        };
        self.settled(named.checksum, || {
            core.memory.area.bytes().payload(offset, named.bytes).map(crc32c::crc32c)
        })
        .await?;
        workspace.land(landing, core.config.keep, 0, core.memory.area.bytes().payload(offset, named.bytes)?);
        add(&core.counters.buffered_bytes, bytes);
        if landing == Landing::Dram && bytes > 0 {
            let stored = core.placement.site(WorkKind::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }

    /// Applies stores that have arrived at device memory, and waits until the payload there matches its checksum, if
    /// the host gave one. `sum` computes the checksum.
    ///
    /// # Errors
    /// No store to the payload is in flight, or too many polls have passed, and the checksum does not match.
    pub(crate) async fn settled(
        &self,
        checksum: Option<u32>,
        sum: impl FnMut() -> Result<u32, Status>,
    ) -> Result<(), Status> {
        self.core.settled((self.span, &|| self.check()), checksum, sum).await
    }
}

/// Interval of checks of a payload that does not match yet: stores may still be in flight.
const LOOK_AGAIN: Delay = Delay::from_ns(50);
/// Maximum number of checks: a host may keep storing indefinitely.
const LOOKS_MAX: u32 = 100;

/// Trace span, and the check whether to continue, which is called after each wait.
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

    /// Takes a payload of `bytes` bytes from the payload buffer.
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
            let stored = core.placement.site(WorkKind::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }
}
