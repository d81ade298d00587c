//! The trait of an I/O command set.

use crate::config::{ConfigError, DriveConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::stream::StreamStart;
use crate::controller::command::workspace::Workspace;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::queue::partial::StreamHead;
use byteway_clock::{Clock, Delay, SpanId};
use byteway_content::BlockSize;
use byteway_firmware::MediaError;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, Identify, IdentifyController, Sqe, Status};
use std::rc::Rc;

/// An I/O command set. Its value is the state that it keeps for the whole controller; state of one namespace is in
/// [`Namespace::contents`]. Each default means that the set does not use the hook.
///
/// The controller calls it through [`CommandSet`](crate::config::CommandSet), never directly. The controller does not
/// validate set-specific fields of a command; the set must answer whatever a host sends with a status.
pub(crate) trait IoCommandSet: Sized {
    /// Command Set Identifier. `None`: no namespace has this set.
    const CSI: Option<u8> = None;
    /// Whether commands of the set begin streams, so that pieces may follow.
    const HAS_STREAMS: bool = false;

    /// The state at power-on.
    fn new(clock: &Clock, config: &DriveConfig) -> Self;

    /// State for a further controller of the same drive. Separate, except for what the drive shares.
    fn for_peer(&self, clock: &Clock, config: &DriveConfig) -> Self {
        Self::new(clock, config)
    }

    // Configuration and Identify.

    /// Whether a drive with this configuration has the set.
    fn is_offered(config: &DriveConfig) -> bool;

    /// Checks the set's part of a configuration, whether or not the drive has the set.
    fn check_config(_config: &DriveConfig) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Checks whether such a namespace of the set is possible.
    fn check_namespace(_config: &DriveConfig, _namespace: &Namespace) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Adds what the set supports to the common Identify Controller data structure.
    fn describe(_core: &Core, _id: &mut IdentifyController) {}

    /// The Identify Controller data structure of the set, [`Identify::BYTES`] long.
    fn identify_controller() -> Vec<u8> {
        vec![0; Identify::BYTES as usize]
    }

    /// The set's Identify Namespace data structure for a namespace, or for none.
    fn identify_namespace(_core: &Core, _namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        vec![0; Identify::BYTES as usize]
    }

    /// The Identify Namespace data structure for block namespaces: of a namespace, or of what all have in common (NVMe
    /// Base 2.1, 5.1.13.2.1).
    fn identify_blocks(_core: &Core, _namespace: Option<(&Namespace, Limits)>) -> Result<Vec<u8>, Status> {
        Err(Status::INVALID_NAMESPACE.with_dnr())
    }

    /// Adds the effects of the set's commands to the Commands Supported and Effects log page.
    fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog);

    // Commands.

    /// Whether an opcode belongs to the set, enabled or not. Other opcodes never reach the set.
    fn has(opcode: u8) -> bool;

    /// Whether the set handles an opcode for namespaces of any set.
    fn claims(_opcode: u8) -> bool {
        false
    }

    /// Classifies a submission queue entry: a command, payload, or a command that payload follows.
    fn framing(sqe: &Sqe, methods: Methods) -> Framing {
        Framing::of(sqe, methods)
    }

    /// The fixed pipeline latency of a command.
    fn pipeline(_core: &Core, _sqe: &Sqe) -> Delay {
        Delay::ZERO
    }

    /// Executes a command of the set.
    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status>;

    /// Executes a fused operation; returns the status of each command.
    async fn execute_fused(&self, _both: &[Context<'_>; 2], _workspace: &mut Workspace) -> [Status; 2] {
        [Status::INVALID_FIELD.with_dnr(); 2]
    }

    /// Whether the set has an admin command with this opcode.
    fn has_admin(_opcode: u8) -> bool {
        false
    }

    /// Executes an admin command of the set, for one of its namespaces. Returns dword 0 of its completion.
    async fn execute_admin(
        &self,
        _context: &Context<'_>,
        _workspace: &mut Workspace,
        _namespace: &Namespace,
    ) -> Result<u32, Status> {
        Err(Status::INVALID_OPCODE.with_dnr())
    }

    /// A log page of a namespace of the set; `None`: not supported.
    fn log_page(&self, _namespace: &Namespace, _lid: u8) -> Option<Vec<u8>> {
        None
    }

    /// The parameters of the stream that a command begins, if it begins one.
    fn stream_start(_sqe: &Sqe) -> Option<StreamStart> {
        None
    }

    /// Completes a stream that the command `head` of the set began.
    async fn end_stream(
        &self,
        _context: &Context<'_>,
        _head: &StreamHead,
        _payload: &[u8],
    ) -> Result<Reply, Status> {
        Err(Status::INTERNAL_ERROR)
    }

    // Life cycle of namespaces and controller.

    /// The block size of format `index` of a namespace. A set without blocks has one format.
    fn format(index: u8) -> Result<BlockSize, Status> {
        if index == 0 { Ok(BlockSize::B4096) } else { Err(Status::INVALID_FORMAT.with_dnr()) }
    }

    /// Size and format of a namespace to be created, if the drive supports it. `bytes` is the Identify Namespace data
    /// structure that the host sent.
    fn parse_create(_bytes: &[u8], _is_shared: bool) -> Result<(u64, Format), Status> {
        Err(Status::COMMAND_SET_NOT_SUPPORTED.with_dnr())
    }

    /// Creates the set's state of a namespace, unless it exists.
    ///
    /// # Errors
    /// [`Status`] if a namespace of this size is not possible.
    fn open(&self, _core: &Core, _namespace: &Namespace) -> Result<(), Status> {
        Ok(())
    }

    /// Ends controller-level state of a namespace, before [`IoCommandSet::close`].
    fn detach(&self, _namespace: &Namespace) {}

    /// Ends the set's state of a namespace, which no command uses any more. Its units will be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace is then as before, or not usable if its contents must be recovered
    /// anew.
    async fn close(&self, _core: &Core, _namespace: &Namespace) -> Result<(), MediaError> {
        Ok(())
    }

    /// Flushes the set's buffers for its namespaces, which are separate from the translation layer's.
    async fn flush(&self, _core: &Core, _span: SpanId) -> Result<(), Status> {
        Ok(())
    }

    /// Waits until the contents of the set's namespaces are known.
    async fn ready(&self, _core: &Core) {}

    /// Called at a controller reset.
    fn reset(&self) {}

    /// Clears data of the set outside namespaces, for a sanitize operation.
    fn sanitize(&self) {}

    /// Called when the power is cut.
    fn power_off(&self, _core: &Core) {}

    /// Starts the set's background tasks.
    fn spawn(&self, _core: &Rc<Core>) {}

    // Device memory over CXL.mem.

    /// Adds the set's part of device memory to `log`.
    fn memory_log(_core: &Core, log: DeviceMemoryLog) -> DeviceMemoryLog {
        log
    }

    /// Stores to the set's part of device memory; false if `offset` is outside of it.
    fn store_memory(_core: &Core, _offset: u64, _bytes: &[u8]) -> bool {
        false
    }

    /// Loads from the set's part of device memory; false if `offset` is outside of it.
    fn load_memory(_core: &Core, _offset: u64, _into: &mut [u8]) -> bool {
        false
    }
}
