//! The payload sink: drive DRAM that commands write and read as an array of bytes
//! ([`byteway_wire::nvme::vendor::sink`]), without flash. It belongs to the drive, whatever namespace a command names.

use crate::config::{CommandSet, DriveConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send_bytes;
use crate::controller::command::stream::{self, StreamStart};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::command_set::sink::memory::SinkMemory;
use crate::controller::queue::partial::StreamHead;
use byteway_clock::{Clock, Stage};
use byteway_firmware::WorkKind;
use byteway_wire::nvme::vendor::piggyback::Head;
use byteway_wire::nvme::{CommandsSupportedLog, Sqe, Status, VendorOpcode, vendor};
use std::rc::Rc;

pub mod memory;

/// The payload sink, and its commands.
pub struct Sink {
    memory: Rc<SinkMemory>,
}

impl IoCommandSet for Sink {
    const HAS_STREAMS: bool = true;

    /// A sink of zeroes.
    fn new(_: &Clock, config: &DriveConfig) -> Self {
        Sink { memory: Rc::new(SinkMemory::new(config.transfer.sink_bytes)) }
    }

    /// All controllers share the bytes.
    fn for_peer(&self, _: &Clock, _: &DriveConfig) -> Self {
        Sink { memory: self.memory.clone() }
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.transfer.sink_bytes > 0
    }

    fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog) {
        const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
        for opcode in [VendorOpcode::SINK_WRITE, VendorOpcode::SINK_READ] {
            page.iocs[usize::from(opcode.0)] = SUPPORTED;
        }
        let offered = config.transfer.methods;
        for (opcode, offered) in [
            (VendorOpcode::SINK_STORE, offered.piggyback() || offered.piggyback_pipelined()),
            (VendorOpcode::TRANSFER, offered.piggyback()),
            (VendorOpcode::TRANSFER_PIPELINED, offered.piggyback_pipelined()),
        ] {
            page.iocs[usize::from(opcode.0)] = if offered { SUPPORTED } else { 0 };
        }
    }

    #[inline]
    fn has(opcode: u8) -> bool {
        let opcode = VendorOpcode(opcode);
        matches!(opcode, VendorOpcode::SINK_WRITE | VendorOpcode::SINK_READ | VendorOpcode::SINK_STORE)
    }

    #[inline]
    fn claims(opcode: u8) -> bool {
        Self::has(opcode)
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let has_sink = Self::is_offered(&context.core.config);
        match VendorOpcode(context.sqe.opcode()) {
            VendorOpcode::SINK_WRITE if has_sink => self.write(context, workspace).await,
            VendorOpcode::SINK_READ if has_sink => self.read(context, workspace).await,
            VendorOpcode::SINK_STORE if has_sink => self.store(context, workspace).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn stream_start(sqe: &Sqe) -> Option<StreamStart> {
        let is_store = VendorOpcode(sqe.opcode()) == VendorOpcode::SINK_STORE;
        is_store.then(|| StreamStart { bytes: vendor::Sink::parse(sqe).bytes, pipelined: is_pipelined(sqe) })
    }

    async fn end_stream(
        &self,
        context: &Context<'_>,
        head: &StreamHead,
        payload: &[u8],
    ) -> Result<Reply, Status> {
        Ok(self.put(context, vendor::Sink::parse(&head.sqe), payload))
    }

    /// Zeroes everything.
    fn sanitize(&self) {
        self.memory.clear();
    }
}

impl Sink {
    /// The extent that a command names, if it is valid.
    fn extent(&self, context: &Context<'_>) -> Result<vendor::Sink, Status> {
        let extent = vendor::Sink::parse(context.sqe);
        context.core.namespace(context.sqe.nsid)?;
        if extent.bytes > context.core.config.controller.transfer_bytes_max {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if !self.memory.holds(extent.offset, u64::from(extent.bytes)) {
            return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
        }
        Ok(extent)
    }

    /// Sink Write.
    async fn write(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let extent = self.extent(context)?;
        context.bring(workspace, u64::from(extent.bytes), Landing::Dram).await?;
        Ok(self.put(context, extent, &workspace.bytes))
    }

    /// Sink Store.
    async fn store(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let pipelined = is_pipelined(context.sqe);
        if !stream::is_enabled(context, pipelined) {
            return Err(Status::INVALID_OPCODE.with_dnr());
        }
        let extent = self.extent(context)?;
        let head = StreamHead { set: CommandSet::Sink, sqe: *context.sqe, uid: 0 };
        let start = StreamStart { bytes: extent.bytes, pipelined };
        Ok(match stream::begin(context, workspace, head, start).await? {
            Some(_) => self.put(context, extent, &workspace.bytes),
            None => Reply::Done([0; 2]),
        })
    }

    /// Stores the payload, and answers with its checksum. A later read verifies that the sink holds it.
    fn put(&self, context: &Context<'_>, extent: vendor::Sink, bytes: &[u8]) -> Reply {
        let core = context.core;
        self.memory.write(extent.offset, bytes);
        core.count_write(context.span, bytes.len() as u64);
        Reply::Done([crc32c::crc32c(bytes), 0])
    }

    /// Sink Read.
    async fn read(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let core = context.core;
        let extent = self.extent(context)?;
        let is_wanted = context.sqe.cdw2 & vendor::Sink::INLINE_RESULT != 0;
        let is_behind = is_wanted && context.reserve_behind(extent.bytes);
        if !is_behind {
            context.resolve(workspace, u64::from(extent.bytes), true).await?;
        }
        let loaded = core.placement.site(WorkKind::Buffer).dram("payload", extent.bytes.into());
        core.clock.sleep_until(loaded.arrival).await;
        context.charge(Stage::Dram);
        context.check()?;
        workspace.bytes.clear();
        self.memory.read(extent.offset, extent.bytes, &mut workspace.bytes);
        if is_behind {
            core.count_read(context.span, u64::from(extent.bytes));
            return Ok(Reply::Result([crc32c::crc32c(&workspace.bytes), extent.bytes]));
        }
        context.set_up_dma(extent.bytes.into()).await?;
        let sent = send_bytes(context, workspace)?;
        core.clock.sleep_until(sent).await;
        context.charge(Stage::Link);
        context.check()?;
        core.count_read(context.span, u64::from(extent.bytes));
        Ok(Reply::Done([crc32c::crc32c(&workspace.bytes), 0]))
    }
}

/// Whether the payload of a Sink Store continues in pieces that name their positions.
fn is_pipelined(sqe: &Sqe) -> bool {
    sqe.cdw2 & Head::PIPELINED != 0
}
