//! The I/O command sets, one folder each, behind one closed enum: [`CommandSet`]. The rest of the controller calls this
//! module: for the framing of entries, the pipeline latency, execution of commands, Identify, and the life cycle of
//! namespaces (create, format, sanitize, delete, power cut).
//!
//! | file or folder | what |
//! |---|---|
//! | `io_command_set.rs` | the trait of a set, with defaults |
//! | [`nvm`] | logical blocks |
//! | [`kv`] | key-value pairs |
//! | [`csd`] | tables, and queries over them |
//! | [`raw_flash`] | the flash array, for a translation layer that runs elsewhere |
//! | [`sink`] | the payload sink |
//! | [`slm`], [`programs`] | local memory, and programs that run over it |
//! | `echo` | the smallest possible set, for tests |
//! | [`device_memory`] | device memory over CXL.mem, of all sets |
//! | [`lending`] | queues whose commands another drive's sets execute |
//!
//! To add a set, add a module here and a line to `command_sets!` ([`crate::config`]), the only list.

use crate::config::{CommandSet, ConfigError, DriveConfig, command_sets};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::stream;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::command_set::lending::Lending;
use crate::controller::command_set::nvm::plain::Plain;
use crate::controller::core::Core;
use crate::controller::core::peers::Peers;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::queue::ring::SubmissionQueue;
use byteway_clock::{Clock, Delay, Service, SpanId};
use byteway_content::BlockSize;
use byteway_firmware::MediaError;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, IdentifyController, NSID_ALL, NvmOpcode, Sqe, Status};
use std::rc::Rc;

pub mod csd;
pub mod device_memory;
#[cfg(feature = "echo")]
pub mod echo;
mod io_command_set;
pub mod kv;
pub mod lending;
pub mod nvm;
pub mod programs;
pub mod raw_flash;
pub mod sink;
pub mod slm;

/// Matches a [`CommandSet`], with an expression over the type or the state that implements it.
macro_rules! arms {
    (
        ($set:expr, $Set:ident => $done:expr)
        $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*
    ) => {
        match $set {
            $($(#[cfg($cfg)])? CommandSet::$name => {
                type $Set = $module::$type;
                $done
            })*
        }
    };
    (
        ($set:expr, $state:ident of $states:expr => $done:expr)
        $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*
    ) => {
        match $set {
            $($(#[cfg($cfg)])? CommandSet::$name => {
                let $state = &$states.$module;
                $done
            })*
        }
    };
    (
        (all $state:ident of $states:expr => $done:expr)
        $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*
    ) => {{
        $($(#[cfg($cfg)])? {
            let $state = &$states.$module;
            $done
        })*
    }};
    (
        (first $Set:ident => $holds:expr)
        $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*
    ) => {{
        $($(#[cfg($cfg)])? {
            type $Set = $module::$type;
            if $holds {
                return Some(CommandSet::$name);
            }
        })*
        None
    }};
}

/// `of!(set, Set => ...)`: the expression for the type `Set` of `set`. `of!(set, state of states => ...)`: for its
/// state. `of!(all state of states => ...)`: for the state of each set in turn. `of!(first Set => ...)`: returns the
/// first set for whose type the expression holds.
macro_rules! of {
    ($($what:tt)*) => {
        command_sets! { arms $($what)* }
    };
}

macro_rules! states {
    (() $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*) => {
        /// The state that each set keeps for the whole controller.
        struct States {
            $($(#[cfg($cfg)])? $module: $module::$type,)*
        }

        impl States {
            fn new(clock: &Clock, config: &DriveConfig) -> Self {
                States { $($(#[cfg($cfg)])? $module: IoCommandSet::new(clock, config),)* }
            }

            fn for_peer(&self, clock: &Clock, config: &DriveConfig) -> Self {
                States { $($(#[cfg($cfg)])? $module: IoCommandSet::for_peer(&self.$module, clock, config),)* }
            }
        }
    };
}
command_sets! { states }

/// Configuration and Identify.
impl CommandSet {
    /// Whether a drive with this configuration has the set.
    pub(crate) fn is_offered(self, config: &DriveConfig) -> bool {
        of!(self, Set => Set::is_offered(config))
    }

    /// Command Set Identifier; `None` for a set without namespaces.
    pub(crate) fn csi(self) -> Option<u8> {
        of!(self, Set => Set::CSI)
    }

    /// The sets of a drive.
    pub(crate) fn offered(config: &DriveConfig) -> impl Iterator<Item = CommandSet> {
        Self::ALL.iter().copied().filter(|set| set.is_offered(config))
    }

    /// The sets of a drive that have an identifier.
    fn identified(config: &DriveConfig) -> impl Iterator<Item = (CommandSet, u8)> {
        Self::offered(config).filter_map(|set| Some((set, set.csi()?)))
    }

    /// The set of a drive with this identifier.
    pub(crate) fn of_csi(csi: u8, config: &DriveConfig) -> Option<CommandSet> {
        Self::identified(config).find(|(_, own)| *own == csi).map(|(set, _)| set)
    }

    /// Bit mask of the identifiers of a drive's sets: a vector of the Identify I/O Command Set data structure.
    pub(crate) fn vector(config: &DriveConfig) -> u64 {
        Self::identified(config).fold(0, |vector, (_, csi)| vector | 1 << csi)
    }

    /// Whether a drive has sets in addition to NVM, so that a host can enable all of them.
    pub(crate) fn are_several(config: &DriveConfig) -> bool {
        Self::identified(config).count() > 1
    }

    /// CAP.CSS: NVM, and with further sets all supported ones (NVMe Base 2.1, 3.1.4.1).
    pub(crate) fn css(config: &DriveConfig) -> u8 {
        if Self::are_several(config) { 1 | 1 << 6 } else { 1 }
    }

    /// Checks the set's part of a configuration.
    pub(crate) fn check_config(self, config: &DriveConfig) -> Result<(), ConfigError> {
        of!(self, Set => Set::check_config(config))
    }

    /// Checks whether such a namespace of the set is possible.
    pub(crate) fn check_namespace(
        self,
        config: &DriveConfig,
        namespace: &Namespace,
    ) -> Result<(), ConfigError> {
        if self.csi().is_none() {
            return Err(ConfigError {
                message: "a namespace needs a command set with an identifier".to_owned(),
            });
        }
        of!(self, Set => Set::check_namespace(config, namespace))
    }

    /// The block size of format `index` of a namespace of the set.
    pub(crate) fn format(self, index: u8) -> Result<BlockSize, Status> {
        of!(self, Set => Set::format(index))
    }

    /// Size and format of a namespace to be created, if the drive supports it. `bytes` is its Identify Namespace data
    /// structure. `is_shared`: the drive has several controllers, so NMIC may ask for a shared namespace.
    pub(crate) fn parse_create(self, bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
        of!(self, Set => Set::parse_create(bytes, is_shared))
    }

    /// The Identify Controller data structure of the set.
    pub(crate) fn identify_controller(self) -> Vec<u8> {
        of!(self, Set => Set::identify_controller())
    }

    /// Adds what the set supports to the common Identify Controller data structure.
    pub(crate) fn describe(self, core: &Core, id: &mut IdentifyController) {
        of!(self, Set => Set::describe(core, id));
    }

    /// The Identify Namespace data structure of a set with blocks (NVMe Base 2.1, 5.1.13.2.1), for `namespace`, or for
    /// what all have in common.
    pub(crate) fn identify_blocks(
        self,
        core: &Core,
        namespace: Option<(&Namespace, Limits)>,
    ) -> Result<Vec<u8>, Status> {
        of!(self, Set => Set::identify_blocks(core, namespace))
    }

    /// The set's Identify Namespace data structure, for `namespace` or for none.
    pub(crate) fn identify_namespace(
        self,
        core: &Core,
        namespace: Option<(&Namespace, Limits)>,
    ) -> Result<Vec<u8>, Status> {
        if namespace.is_some_and(|(namespace, _)| namespace.set != self) {
            return Err(Status::INVALID_COMMAND_SET.with_dnr());
        }
        Ok(of!(self, Set => Set::identify_namespace(core, namespace)))
    }

    /// Adds the effects of its commands to the Commands Supported and Effects log page. Sets without an identifier are
    /// part of NVM's page.
    pub(crate) fn add_commands(self, config: &DriveConfig, page: &mut CommandsSupportedLog) {
        of!(self, Set => Set::add_commands(config, page));
        if self == CommandSet::Nvm {
            let unnamed = Self::offered(config).filter(|set| set.csi().is_none());
            unnamed.for_each(|set| set.add_commands(config, page));
        }
    }

    /// Whether an opcode belongs to the set.
    #[inline]
    fn has(self, opcode: u8) -> bool {
        of!(self, Set => Set::has(opcode))
    }

    /// The set that handles an opcode for namespaces of any set.
    #[inline]
    fn claiming(opcode: u8) -> Option<CommandSet> {
        of!(first Set => Set::claims(opcode))
    }

    /// The set that has this admin opcode.
    fn of_admin(opcode: u8) -> Option<CommandSet> {
        of!(first Set => Set::has_admin(opcode))
    }

    /// Whether a piece of a stream may name a namespace of the set. Streams of sets without namespaces may name any.
    fn takes_pieces(self, config: &DriveConfig) -> bool {
        let has_streams = |set: CommandSet| of!(set, Set => Set::HAS_STREAMS);
        Self::offered(config).any(|set| has_streams(set) && (set == self || set.csi().is_none()))
    }
}

/// The command sets of a controller, and the state that they share.
pub struct CommandSets {
    pub(crate) core: Rc<Core>,
    /// The command sets of all controllers of the drive.
    pub(crate) peers: Rc<Peers<CommandSets>>,
    /// Queues that are lent.
    pub(crate) lending: Lending,
    states: States,
}

/// Executes an I/O command in one step, in immediate mode. `false`: it needs a command slot.
#[inline]
pub(crate) fn execute_at_once(core: &Core, queue: &SubmissionQueue, sqe: &Sqe, span: SpanId) -> bool {
    // No opcode of the sink is executed at once.
    core.inventory.set_of(sqe.nsid) == CommandSet::Nvm && nvm::at_once::execute(core, queue, sqe, span)
}

/// Execution of commands.
impl CommandSets {
    /// The command sets of a controller, which becomes the next of `peers`.
    pub(crate) fn new(core: Rc<Core>, peers: Rc<Peers<CommandSets>>) -> Rc<Self> {
        let states = match peers.at(0) {
            None => States::new(&core.clock, &core.config),
            Some(first) => first.states.for_peer(&core.clock, &core.config),
        };
        let sets = Rc::new(CommandSets { states, core, peers, lending: Lending::default() });
        sets.peers.join(&sets);
        sets
    }

    /// The set of an I/O command: that of its namespace, unless another set handles the opcode.
    #[inline]
    fn set_of(&self, sqe: &Sqe) -> CommandSet {
        CommandSet::claiming(sqe.opcode()).unwrap_or_else(|| self.core.inventory.set_of(sqe.nsid))
    }

    /// Classifies a submission queue entry: a command, payload, or a command that payload follows.
    #[inline]
    pub(crate) fn framing(&self, sqe: &Sqe, methods: Methods) -> Framing {
        of!(self.set_of(sqe), Set => Set::framing(sqe, methods))
    }

    /// The fixed pipeline latency of a command in this queue.
    #[inline]
    pub(crate) fn pipeline(&self, queue: u16, sqe: &Sqe) -> Delay {
        match queue {
            0 => Delay::ZERO,
            _ => of!(self.set_of(sqe), Set => Set::pipeline(&self.core, sqe)),
        }
    }

    /// When a command that is parsed then has passed what follows: merging, and its pipeline.
    #[inline]
    pub(crate) fn after_parse(&self, queue: u16, sqe: &Sqe, parse: Service) -> Service {
        let parse = match &self.core.config.controller.merging {
            // Where time is none, no time passes here either.
            Some(config) if queue > 0 && self.is_write(sqe) && !self.core.clock.is_immediate() => {
                let block = self.core.inventory.block_bytes(sqe.nsid) as u64;
                self.core.merging.pass(config, block, sqe, parse)
            }
            _ => parse,
        };
        Service { end: parse.end + self.pipeline(queue, sqe), ..parse }
    }

    /// Whether a command writes blocks.
    fn is_write(&self, sqe: &Sqe) -> bool {
        NvmOpcode(sqe.opcode()) == NvmOpcode::WRITE && self.set_of(sqe) == CommandSet::Nvm
    }

    /// Whether a command may be a plain read or write, by its entry.
    #[inline]
    pub(crate) fn may_be_plain(&self, queue: &SubmissionQueue, sqe: &Sqe) -> bool {
        nvm::plain::direction(sqe).is_some()
            && queue.id > 0
            && !queue.is_lent.get()
            && self.set_of(sqe) == CommandSet::Nvm
    }

    /// The command as a plain read or write, if it is one.
    #[inline]
    pub(crate) fn plain(&self, queue: &SubmissionQueue, sqe: &Sqe) -> Option<Plain> {
        let is_possible = !queue.is_lent.get() && self.set_of(sqe) == CommandSet::Nvm;
        is_possible.then(|| Plain::of(&self.core, sqe, self.core.route(queue.id, sqe))).flatten()
    }

    /// Executes an I/O command.
    pub(crate) async fn execute(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<Reply, Status> {
        context.check_payload()?;
        let (sqe, set) = (context.sqe, self.set_of(context.sqe));
        if let Some(pipelined) = self.takes_piece(set, context) {
            return self.transfer(context, workspace, pipelined).await;
        }
        if !set.has(sqe.opcode()) {
            return self.refuse(sqe);
        }
        if sqe.nsid == NSID_ALL && NvmOpcode(sqe.opcode()) == NvmOpcode::FLUSH {
            self.flush(context.span).await?;
        }
        of!(set, state of self.states => state.execute(context, workspace).await)
    }

    /// Executes an admin command that belongs to one set. Returns dword 0 of its completion.
    pub(crate) async fn execute_admin(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<u32, Status> {
        let set = CommandSet::of_admin(context.sqe.opcode()).filter(|set| set.is_offered(&self.core.config));
        let set = set.ok_or(Status::INVALID_OPCODE.with_dnr())?;
        let namespace = self.core.namespace(context.sqe.nsid)?;
        if namespace.set != set {
            return Err(Status::INVALID_NAMESPACE.with_dnr());
        }
        of!(set, state of self.states => state.execute_admin(context, workspace, &namespace).await)
    }

    /// A log page of a namespace; `None`: its set does not have it.
    pub(crate) fn log_page(&self, nsid: u32, lid: u8) -> Option<Vec<u8>> {
        let namespace = self.core.inventory.active(nsid).ok()?;
        of!(namespace.set, state of self.states => state.log_page(&namespace, lid))
    }

    /// Refuses an opcode that the set of its namespace does not have.
    fn refuse(&self, sqe: &Sqe) -> Result<Reply, Status> {
        if CommandSet::offered(&self.core.config).any(|set| set.has(sqe.opcode())) {
            // An invalid namespace takes precedence; a valid one has another set.
            self.core.namespace(sqe.nsid)?;
        }
        Err(Status::INVALID_OPCODE.with_dnr())
    }

    /// Whether a command to a namespace of `set` is an allowed piece of a stream, and whether that is pipelined.
    fn takes_piece(&self, set: CommandSet, context: &Context<'_>) -> Option<bool> {
        let pipelined = stream::is_piece(context.sqe)?;
        let is_taken = set.takes_pieces(&self.core.config) && stream::is_enabled(context, pipelined);
        is_taken.then_some(pipelined)
    }

    /// Handles a piece of a stream. For the last one, the set of the stream stores the payload.
    async fn transfer(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
        pipelined: bool,
    ) -> Result<Reply, Status> {
        let Some(head) = stream::transfer(context, workspace, pipelined).await? else {
            return Ok(Reply::Done([0; 2]));
        };
        of!(head.set, state of self.states => state.end_stream(context, &head, &workspace.bytes).await)
    }

    /// Ends the stream of a failed command.
    pub(crate) fn end_failed(&self, context: &Context<'_>) {
        let start = |set: &CommandSet| of!(*set, Set => Set::stream_start(context.sqe));
        stream::end_failed(context, CommandSet::ALL.iter().find_map(start));
    }

    /// Executes a fused operation; returns the status of each command.
    pub(crate) async fn execute_fused(
        &self,
        both: &[Context<'_>; 2],
        workspace: &mut Workspace,
    ) -> [Status; 2] {
        if let Err(status) = both[0].check_queue() {
            return [status; 2];
        }
        of!(self.set_of(both[0].sqe), state of self.states => state.execute_fused(both, workspace).await)
    }
}

/// Life cycle of namespaces and command sets.
impl CommandSets {
    /// Creates the state of a namespace's set, unless it exists.
    ///
    /// # Errors
    /// [`Status`] if a namespace of this size is not possible.
    pub(crate) fn open(&self, namespace: &Namespace) -> Result<(), Status> {
        of!(namespace.set, state of self.states => state.open(&self.core, namespace))
    }

    /// Ends the state of a namespace's set, which no command uses any more. Its units will be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace is then as before.
    pub(crate) async fn close(&self, namespace: &Namespace) -> Result<(), MediaError> {
        self.peers.each(|sets| of!(namespace.set, state of sets.states => state.detach(namespace)));
        of!(namespace.set, state of self.states => state.close(&self.core, namespace).await)
    }

    /// Flushes the buffers of all sets, which are separate from the translation layer's.
    pub(crate) async fn flush(&self, span: SpanId) -> Result<(), Status> {
        of!(all state of self.states => state.flush(&self.core, span).await?);
        Ok(())
    }

    /// Waits until the contents of all namespaces are known.
    pub(crate) async fn ready(&self) {
        of!(all state of self.states => state.ready(&self.core).await);
    }

    /// The controller is reset.
    pub(crate) fn reset(&self) {
        of!(all state of self.states => state.reset());
    }

    /// Clears data of the sets outside namespaces, for a sanitize operation.
    pub(crate) fn sanitize(&self) {
        of!(all state of self.states => state.sanitize());
    }

    /// Called when the power is cut.
    pub(crate) fn power_off(&self) {
        of!(all state of self.states => state.power_off(&self.core));
    }

    /// Starts the sets' background tasks.
    pub(crate) fn spawn(&self) {
        of!(all state of self.states => state.spawn(&self.core));
    }
}

/// Device memory of the sets.
impl CommandSet {
    /// Adds the set's part of device memory to `log`.
    fn memory_log(self, core: &Core, log: DeviceMemoryLog) -> DeviceMemoryLog {
        of!(self, Set => Set::memory_log(core, log))
    }

    /// Stores to the set's part; false if `offset` is outside of it.
    fn store_memory(self, core: &Core, offset: u64, bytes: &[u8]) -> bool {
        of!(self, Set => Set::store_memory(core, offset, bytes))
    }

    /// Loads from the set's part; false if `offset` is outside of it.
    fn load_memory(self, core: &Core, offset: u64, into: &mut [u8]) -> bool {
        of!(self, Set => Set::load_memory(core, offset, into))
    }
}
