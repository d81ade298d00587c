//! What an I/O command set is to the controller.

use crate::config::{ConfigError, DriveConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::stream::StreamStart;
use crate::controller::command::workspace::Workspace;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::queue::partial::StreamHead;
use byteway_clock::{Clock, Delay, SpanId};
use byteway_firmware::MediaError;
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, Identify, IdentifyController, Sqe, Status};
use std::rc::Rc;

/// An I/O command set. Its value is what the set keeps for the whole controller; what it keeps for one namespace is
/// [`Namespace::contents`]. Each default says that the set has nothing to say.
///
/// The controller asks by [`CommandSet`](crate::config::CommandSet), never by this trait. It validates nothing of what a
/// command says of the set's own; a set answers whatever a host sends with a status.
pub(crate) trait IoCommandSet: Sized {
    /// The Command Set Identifier. None: no namespace is of the set.
    const CSI: Option<u8> = None;
    /// Whether commands of the set begin streams, and so pieces of streams may follow them.
    const HAS_STREAMS: bool = false;

    /// The set's state at power-on.
    fn new(clock: &Clock, config: &DriveConfig) -> Self;

    /// The set's state of a further controller of the same drive: one of its own, but for what is the drive's.
    fn beside(&self, clock: &Clock, config: &DriveConfig) -> Self {
        Self::new(clock, config)
    }

    // What a drive with the set is like.

    /// Whether a drive has it.
    fn is_offered(config: &DriveConfig) -> bool;

    /// Checks what the description of a drive says of the set, whether or not the drive has it.
    fn check_config(_config: &DriveConfig) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Checks whether there can be such a namespace of the set.
    fn check_namespace(_config: &DriveConfig, _namespace: &Namespace) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Adds what the set offers to the Identify Controller data structure for all sets.
    fn describe(_core: &Core, _id: &mut IdentifyController) {}

    /// The Identify Controller data structure of the set, [`Identify::BYTES`] long.
    fn identify_controller() -> Vec<u8> {
        vec![0; Identify::BYTES as usize]
    }

    /// The Identify Namespace data structure of the set, for a namespace of it, or for none.
    fn identify_namespace(_core: &Core, _namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        vec![0; Identify::BYTES as usize]
    }

    /// The Identify Namespace data structure that only namespaces with blocks have, or what all of them have in common
    /// (NVMe Base 2.1, 5.1.13.2.1).
    fn identify_blocks(_core: &Core, _namespace: Option<(&Namespace, Limits)>) -> Result<Vec<u8>, Status> {
        Err(Status::INVALID_NAMESPACE.with_dnr())
    }

    /// Adds the effects of the set's commands to the log of those that are supported.
    fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog);

    // Commands.

    /// Whether a command is one of the set, enabled or not. Any other is refused before the set sees it.
    fn has(opcode: u8) -> bool;

    /// Whether a command is the set's whatever namespace it names.
    fn claims(_opcode: u8) -> bool {
        false
    }

    /// What an entry is: a command, payload, or a command with payload behind it.
    fn framing(sqe: &Sqe, methods: Methods) -> Framing {
        Framing::of(sqe, methods)
    }

    /// The fixed part of what the pipeline takes for a command.
    fn pipeline(_core: &Core, _sqe: &Sqe) -> Delay {
        Delay::ZERO
    }

    /// Executes a command of the set.
    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status>;

    /// Executes a fused operation: what both commands complete with.
    async fn execute_fused(&self, _both: &[Context<'_>; 2], _workspace: &mut Workspace) -> [Status; 2] {
        [Status::INVALID_FIELD.with_dnr(); 2]
    }

    /// What a command says of the stream that it begins, if it is one that does.
    fn stream_start(_sqe: &Sqe) -> Option<StreamStart> {
        None
    }

    /// A stream that the command `head` of the set began is complete.
    async fn end_stream(
        &self,
        _context: &Context<'_>,
        _head: &StreamHead,
        _payload: &[u8],
    ) -> Result<Reply, Status> {
        Err(Status::INTERNAL_ERROR)
    }

    // The life of namespaces, and of the controller.

    /// The format with this index of a namespace of the set: blocks of which size. Without blocks there is one.
    fn format(index: u8) -> Result<BlockSize, Status> {
        if index == 0 { Ok(BlockSize::B4096) } else { Err(Status::INVALID_FORMAT.with_dnr()) }
    }

    /// The size and format of a namespace that is to be created, if the drive can make one like it. `bytes` are its
    /// Identify Namespace data structure, as a host sent it.
    fn wanted(_bytes: &[u8], _is_shared: bool) -> Result<(u64, Format), Status> {
        Err(Status::COMMAND_SET_NOT_SUPPORTED.with_dnr())
    }

    /// Gives a namespace what the set keeps for it, if it has not got that.
    ///
    /// # Errors
    /// There can be no such namespace of its size.
    fn open(&self, _core: &Core, _namespace: &Namespace) -> Result<(), Status> {
        Ok(())
    }

    /// What a controller keeps for a namespace ends, before what the set keeps for it does.
    fn let_go(&self, _namespace: &Namespace) {}

    /// Takes a namespace what the set keeps for it, which no command uses any more: its units are to be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace is then as it was, or has nothing if that is to be found out anew.
    async fn close(&self, _core: &Core, _namespace: &Namespace) -> Result<(), MediaError> {
        Ok(())
    }

    /// What the set buffers for its namespaces, in addition to what the translation layer does, is on flash when this
    /// ends.
    async fn flush(&self, _core: &Core, _span: SpanId) -> Result<(), Status> {
        Ok(())
    }

    /// Waits until it is known what the set's namespaces hold.
    async fn ready(&self, _core: &Core) {}

    /// The controller is reset.
    fn reset(&self) {}

    /// The drive is sanitized: what no namespace holds goes, too.
    fn sanitize(&self) {}

    /// The power goes.
    fn power_off(&self, _core: &Core) {}

    /// Begins what the set does besides commands.
    fn spawn(&self, _core: &Rc<Core>) {}

    // The device's memory behind CXL.mem.

    /// `log`, with what the set has of the device's memory.
    fn memory_log(_core: &Core, log: DeviceMemoryLog) -> DeviceMemoryLog {
        log
    }

    /// Stores to the set's part of the device's memory; false: `offset` is not there.
    fn store_memory(_core: &Core, _offset: u64, _bytes: &[u8]) -> bool {
        false
    }

    /// Loads from there; false: `offset` is not there.
    fn load_memory(_core: &Core, _offset: u64, _into: &mut [u8]) -> bool {
        false
    }
}
