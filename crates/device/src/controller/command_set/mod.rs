//! The I/O command sets, a folder each, behind one closed enum: [`CommandSet`]. Whatever else there is in the controller asks
//! here: how an entry is framed in its queue, what the pipeline takes, who executes a command, what Identify says, what may be
//! formatted, and how a namespace lives (create, format, sanitize, delete, power cut).
//!
//! | file or folder | what |
//! |---|---|
//! | `io_command_set.rs` | what a set is to the controller: a trait, whose defaults say nothing |
//! | [`nvm`] | logical blocks |
//! | [`kv`] | pairs of keys and values |
//! | [`raw_flash`] | the flash array, for a translation layer that runs elsewhere |
//! | [`sink`] | the payload sink |
//! | `echo` | what a set takes at least; for tests |
//! | [`device_memory`] | memory that the host stores to over CXL.mem, of all sets |
//! | [`lending`] | queues whose commands are executed by another drive's sets |
//!
//! A further set is a module here and a line in `command_sets!` ([`crate::config`]), the one list of them.

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
use byteway_clock::{Clock, Delay, SpanId};
use byteway_firmware::MediaError;
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, IdentifyController, NSID_ALL, NvmOpcode, Sqe, Status};
use std::rc::Rc;

pub mod device_memory;
#[cfg(feature = "echo")]
pub mod echo;
mod io_command_set;
pub mod kv;
pub mod lending;
pub mod nvm;
pub mod raw_flash;
pub mod sink;

/// Matches a [`CommandSet`]: what is to be done with the type, or with the state, that implements it.
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

/// `of!(set, Set => ...)`: with the type `Set` that implements `set`. `of!(set, state of states => ...)`: with its state.
/// `of!(all state of states => ...)`: with the state of each, one after the other. `of!(first Set => ...)`: returns the first
/// set whose type it holds for.
macro_rules! of {
    ($($what:tt)*) => {
        command_sets! { arms $($what)* }
    };
}

macro_rules! states {
    (() $($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $name:ident: $module:ident::$type:ident = $number:literal,)*) => {
        /// What each set keeps for the whole controller.
        struct States {
            $($(#[cfg($cfg)])? $module: $module::$type,)*
        }

        impl States {
            fn new(clock: &Clock, config: &DriveConfig) -> Self {
                States { $($(#[cfg($cfg)])? $module: IoCommandSet::new(clock, config),)* }
            }

            fn beside(&self, clock: &Clock, config: &DriveConfig) -> Self {
                States { $($(#[cfg($cfg)])? $module: IoCommandSet::beside(&self.$module, clock, config),)* }
            }
        }
    };
}
command_sets! { states }

/// What a drive says of its command sets, and of namespaces that there could be.
impl CommandSet {
    /// Whether a drive has it.
    pub(crate) fn is_offered(self, config: &DriveConfig) -> bool {
        of!(self, Set => Set::is_offered(config))
    }

    /// Its Command Set Identifier; none: it has none, and no namespace is of it.
    pub(crate) fn csi(self) -> Option<u8> {
        of!(self, Set => Set::CSI)
    }

    /// The sets of a drive.
    pub(crate) fn offered(config: &DriveConfig) -> impl Iterator<Item = CommandSet> {
        Self::ALL.iter().copied().filter(|set| set.is_offered(config))
    }

    /// Those that have an identifier.
    fn identified(config: &DriveConfig) -> impl Iterator<Item = (CommandSet, u8)> {
        Self::offered(config).filter_map(|set| Some((set, set.csi()?)))
    }

    /// The set of a drive that has this identifier.
    pub(crate) fn of_csi(csi: u8, config: &DriveConfig) -> Option<CommandSet> {
        Self::identified(config).find(|(_, own)| *own == csi).map(|(set, _)| set)
    }

    /// The identifiers of a drive's sets, a bit each: a vector of the Identify I/O Command Set data structure.
    pub(crate) fn vector(config: &DriveConfig) -> u64 {
        Self::identified(config).fold(0, |vector, (_, csi)| vector | 1 << csi)
    }

    /// Whether a drive has more than NVM, so that a host can enable all of its sets.
    pub(crate) fn are_several(config: &DriveConfig) -> bool {
        Self::identified(config).count() > 1
    }

    /// CAP.CSS: NVM, and with more sets all that are supported (NVMe Base 2.1, 3.1.4.1).
    pub(crate) fn css(config: &DriveConfig) -> u8 {
        if Self::are_several(config) { 1 | 1 << 6 } else { 1 }
    }

    /// Checks what the description of a drive says of the set.
    pub(crate) fn check_config(self, config: &DriveConfig) -> Result<(), ConfigError> {
        of!(self, Set => Set::check_config(config))
    }

    /// Checks whether there can be such a namespace of the set.
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

    /// The format with this index of a namespace of the set: blocks of which size.
    pub(crate) fn format(self, index: u8) -> Result<BlockSize, Status> {
        of!(self, Set => Set::format(index))
    }

    /// The size and format of a namespace that is to be created, if the drive can make one like it. `bytes` are its
    /// Identify Namespace data structure. `is_shared`: the drive has several controllers, so NMIC may say that all may have it.
    pub(crate) fn wanted(self, bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
        of!(self, Set => Set::wanted(bytes, is_shared))
    }

    /// The Identify Controller data structure of the set.
    pub(crate) fn identify_controller(self) -> Vec<u8> {
        of!(self, Set => Set::identify_controller())
    }

    /// Adds what the set offers to the Identify Controller data structure for all sets.
    pub(crate) fn describe(self, core: &Core, id: &mut IdentifyController) {
        of!(self, Set => Set::describe(core, id));
    }

    /// The Identify Namespace data structure of a set with blocks (NVMe Base 2.1, 5.1.13.2.1), for `namespace`, or what all
    /// have in common.
    pub(crate) fn identify_blocks(
        self,
        core: &Core,
        namespace: Option<(&Namespace, Limits)>,
    ) -> Result<Vec<u8>, Status> {
        of!(self, Set => Set::identify_blocks(core, namespace))
    }

    /// The Identify Namespace data structure of the set, for `namespace`, or for none.
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

    /// Adds the effects of its commands to the log of those that are supported. Those of sets without an identifier stand
    /// in that of NVM.
    pub(crate) fn add_commands(self, config: &DriveConfig, page: &mut CommandsSupportedLog) {
        of!(self, Set => Set::add_commands(config, page));
        if self == CommandSet::Nvm {
            let unnamed = Self::offered(config).filter(|set| set.csi().is_none());
            unnamed.for_each(|set| set.add_commands(config, page));
        }
    }

    /// Whether a command is one of the set.
    #[inline]
    fn has(self, opcode: u8) -> bool {
        of!(self, Set => Set::has(opcode))
    }

    /// The set that claims a command, whatever namespace it names.
    #[inline]
    fn claiming(opcode: u8) -> Option<CommandSet> {
        of!(first Set => Set::claims(opcode))
    }

    /// Whether a piece of a stream may name a namespace of the set: streams of sets without namespaces may name any.
    fn takes_pieces(self, config: &DriveConfig) -> bool {
        let has_streams = |set: CommandSet| of!(set, Set => Set::HAS_STREAMS);
        Self::offered(config).any(|set| has_streams(set) && (set == self || set.csi().is_none()))
    }
}

/// The command sets of a controller, upon what they share.
pub struct CommandSets {
    pub(crate) core: Rc<Core>,
    /// Those of all controllers of the drive.
    pub(crate) peers: Rc<Peers<CommandSets>>,
    /// The queues that are lent, and to whom.
    pub(crate) lending: Lending,
    states: States,
}

/// Executes an I/O command where modelled waits take no time, if that takes one step. False: a command slot is to do it.
#[inline]
pub(crate) fn execute_at_once(core: &Core, queue: &SubmissionQueue, sqe: &Sqe) -> bool {
    // Opcodes of the sink are none of those that are done at once.
    core.inventory.set_of(sqe.nsid) == CommandSet::Nvm && nvm::at_once::execute(core, queue, sqe)
}

/// Commands: each is of one set.
impl CommandSets {
    /// Those of a controller, which is the next of these.
    pub(crate) fn new(core: Rc<Core>, peers: Rc<Peers<CommandSets>>) -> Rc<Self> {
        let states = match peers.at(0) {
            None => States::new(&core.clock, &core.config),
            Some(first) => first.states.beside(&core.clock, &core.config),
        };
        let sets = Rc::new(CommandSets { states, core, peers, lending: Lending::default() });
        sets.peers.join(&sets);
        sets
    }

    /// The set that an I/O command is of: that of its namespace, unless one claims it.
    #[inline]
    fn set_of(&self, sqe: &Sqe) -> CommandSet {
        CommandSet::claiming(sqe.opcode()).unwrap_or_else(|| self.core.inventory.set_of(sqe.nsid))
    }

    /// What an entry is: a command, payload, or a command with payload behind it.
    #[inline]
    pub(crate) fn framing(&self, sqe: &Sqe, methods: Methods) -> Framing {
        of!(self.set_of(sqe), Set => Set::framing(sqe, methods))
    }

    /// The fixed part of what the pipeline takes for a command of this queue.
    #[inline]
    pub(crate) fn pipeline(&self, queue: u16, sqe: &Sqe) -> Delay {
        match queue {
            0 => Delay::ZERO,
            _ => of!(self.set_of(sqe), Set => Set::pipeline(&self.core, sqe)),
        }
    }

    /// What an I/O command is, if it can be executed the short way.
    #[inline]
    pub(crate) fn plain(&self, context: &Context<'_>) -> Option<Plain> {
        if self.set_of(context.sqe) == CommandSet::Nvm { Plain::of(context) } else { None }
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

    /// Refuses a command that the set of its namespace has not.
    fn refuse(&self, sqe: &Sqe) -> Result<Reply, Status> {
        if CommandSet::offered(&self.core.config).any(|set| set.has(sqe.opcode())) {
            // There may be no such namespace; one that there is has another set.
            self.core.namespace(sqe.nsid)?;
        }
        Err(Status::INVALID_OPCODE.with_dnr())
    }

    /// Whether a command to a namespace of `set` is a piece of a stream that may be, and that is pipelined.
    fn takes_piece(&self, set: CommandSet, context: &Context<'_>) -> Option<bool> {
        let pipelined = stream::is_piece(context.sqe)?;
        let is_taken = set.takes_pieces(&self.core.config) && stream::is_enabled(context, pipelined);
        is_taken.then_some(pipelined)
    }

    /// A piece of a stream. The last has the set that the stream is of store the payload.
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

    /// A command has failed: a stream that it was of ends.
    pub(crate) fn end_failed(&self, context: &Context<'_>) {
        let start = |set: &CommandSet| of!(*set, Set => Set::stream_start(context.sqe));
        stream::end_failed(context, CommandSet::ALL.iter().find_map(start));
    }

    /// Executes a fused operation: what both commands complete with.
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

/// The life of namespaces, and of what the sets keep.
impl CommandSets {
    /// Gives a namespace what its set keeps for it, if it has not got that.
    ///
    /// # Errors
    /// There can be no such namespace of its size.
    pub(crate) fn open(&self, namespace: &Namespace) -> Result<(), Status> {
        of!(namespace.set, state of self.states => state.open(&self.core, namespace))
    }

    /// Takes a namespace what its set keeps for it, which no command uses any more: its units are to be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace is then as it was.
    pub(crate) async fn close(&self, namespace: &Namespace) -> Result<(), MediaError> {
        self.peers.each(|sets| of!(namespace.set, state of sets.states => state.let_go(namespace)));
        of!(namespace.set, state of self.states => state.close(&self.core, namespace).await)
    }

    /// Everything that sets buffer for their namespaces, in addition to what the translation layer does, is on flash
    /// when this ends.
    pub(crate) async fn flush(&self, span: SpanId) -> Result<(), Status> {
        of!(all state of self.states => state.flush(&self.core, span).await?);
        Ok(())
    }

    /// Waits until it is known what all namespaces hold.
    pub(crate) async fn ready(&self) {
        of!(all state of self.states => state.ready(&self.core).await);
    }

    /// The controller is reset.
    pub(crate) fn reset(&self) {
        of!(all state of self.states => state.reset());
    }

    /// The drive is sanitized: what no namespace holds goes, too.
    pub(crate) fn sanitize(&self) {
        of!(all state of self.states => state.sanitize());
    }

    /// The power goes.
    pub(crate) fn power_off(&self) {
        of!(all state of self.states => state.power_off(&self.core));
    }

    /// Begins what the sets do besides commands.
    pub(crate) fn spawn(&self) {
        of!(all state of self.states => state.spawn(&self.core));
    }
}

/// What the sets have of the device's memory.
impl CommandSet {
    /// `log`, with what the set has of the device's memory.
    fn memory_log(self, core: &Core, log: DeviceMemoryLog) -> DeviceMemoryLog {
        of!(self, Set => Set::memory_log(core, log))
    }

    /// Stores to the set's part of it; false: `offset` is not there.
    fn store_memory(self, core: &Core, offset: u64, bytes: &[u8]) -> bool {
        of!(self, Set => Set::store_memory(core, offset, bytes))
    }

    /// Loads from there; false: `offset` is not there.
    fn load_memory(self, core: &Core, offset: u64, into: &mut [u8]) -> bool {
        of!(self, Set => Set::load_memory(core, offset, into))
    }
}
