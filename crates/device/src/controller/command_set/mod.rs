//! The I/O command sets, a folder each, behind one closed enum: [`CommandSet`]. This is the one file that knows them all.
//! Whatever else there is in the controller asks here: how an entry is framed in its queue, what the pipeline takes, who
//! executes a command, what Identify says, what may be formatted, and how a namespace lives (create, format, sanitize, delete,
//! power cut).
//!
//! | folder | what |
//! |---|---|
//! | [`nvm`] | logical blocks |
//! | [`kv`] | pairs of keys and values |
//! | [`raw_flash`] | the flash array, for a translation layer that runs elsewhere |
//! | [`sink`] | the payload sink |
//!
//! A further set is a module here, a line in [`CommandSet`], and an arm in those matches below where it is to say something:
//! the compiler names the ones that it can't leave out. One that keeps state has a field in [`CommandSets`], or, if that is a
//! namespace's, a variant of [`Contents`](super::namespace::Contents).

use crate::config::{CommandSet, ConfigError, DriveConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::stream::{self, StreamStart};
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::kv::KeyValue;
use crate::controller::command_set::kv::pairs::{store_of, value_bytes_max};
use crate::controller::command_set::nvm::compare_and_write;
use crate::controller::command_set::raw_flash::RawFlash;
use crate::controller::command_set::sink::Sink;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_clock::{Delay, SpanId};
use byteway_firmware::MediaError;
use byteway_kv::Kv;
use byteway_wire::IntoBytes;
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{
    CommandsSupportedLog, Identify, IdentifyController, NSID_ALL, NvmOpcode, Sqe, Status, csi,
};
use std::rc::Rc;

pub mod device_memory;
pub mod kv;
pub mod nvm;
pub mod raw_flash;
pub mod sink;

/// What a drive says of its command sets, and of namespaces that there could be.
impl CommandSet {
    /// Whether a drive has it.
    pub(crate) fn is_offered(self, config: &DriveConfig) -> bool {
        match self {
            CommandSet::Nvm => true,
            CommandSet::KeyValue => kv::is_offered(config),
            CommandSet::RawFlash => raw_flash::is_offered(config),
            CommandSet::Sink => sink::is_offered(config),
        }
    }

    /// Its Command Set Identifier; none: it has none, and no namespace is of it.
    pub(crate) fn csi(self) -> Option<u8> {
        match self {
            CommandSet::Nvm => Some(csi::NVM),
            CommandSet::KeyValue => Some(csi::KEY_VALUE),
            CommandSet::RawFlash => Some(csi::RAW_FLASH),
            CommandSet::Sink => None,
        }
    }

    /// The sets of a drive that have an identifier.
    fn identified(config: &DriveConfig) -> impl Iterator<Item = (CommandSet, u8)> {
        let offered = Self::ALL.into_iter().filter(|set| set.is_offered(config));
        offered.filter_map(|set| Some((set, set.csi()?)))
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
        match self {
            CommandSet::KeyValue => kv::life::check_config(config),
            _ => Ok(()),
        }
    }

    /// Whether there can be such a namespace of the set.
    pub(crate) fn check_namespace(
        self,
        config: &DriveConfig,
        namespace: &Namespace,
    ) -> Result<(), ConfigError> {
        match self {
            CommandSet::KeyValue => kv::life::check_namespace(config, namespace),
            CommandSet::RawFlash => raw_flash::identify::check_namespace(config, namespace),
            _ if self.csi().is_none() => {
                Err(ConfigError { message: "a namespace needs a command set with an identifier".to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The format with this index of a namespace of the set: blocks of which size.
    pub(crate) fn format(self, index: u8) -> Result<BlockSize, Status> {
        if self != CommandSet::Nvm && index != 0 {
            return Err(Status::INVALID_FORMAT.with_dnr()); // without blocks there is one format
        }
        nvm::identify::format_of(index)
    }

    /// The size and format of a namespace that is to be created, if the drive can make one like it. `bytes` are its
    /// Identify Namespace data structure.
    pub(crate) fn wanted(self, bytes: &[u8]) -> Result<(u64, Format), Status> {
        match self {
            CommandSet::Nvm => nvm::identify::wanted(bytes),
            CommandSet::KeyValue => kv::identify::wanted(bytes),
            CommandSet::RawFlash | CommandSet::Sink => Err(Status::COMMAND_SET_NOT_SUPPORTED.with_dnr()),
        }
    }

    /// The Identify Controller data structure of the set.
    pub(crate) fn identify_controller(self) -> Vec<u8> {
        match self {
            CommandSet::Nvm => nvm::identify::controller().as_bytes().to_vec(),
            CommandSet::KeyValue => kv::identify::controller().as_bytes().to_vec(),
            CommandSet::RawFlash | CommandSet::Sink => vec![0; Identify::BYTES as usize],
        }
    }

    /// Adds what the set offers to the Identify Controller data structure for all sets.
    pub(crate) fn describe(self, core: &Core, id: &mut IdentifyController) {
        match self {
            CommandSet::Nvm => nvm::identify::describe(core, id),
            CommandSet::RawFlash => raw_flash::identify::describe(id),
            CommandSet::KeyValue | CommandSet::Sink => {}
        }
    }

    /// The Identify Namespace data structure (NVMe Base 2.1, 5.1.13.2.1), which only namespaces with blocks have.
    pub(crate) fn identify_blocks(namespace: &Namespace, limits: Limits) -> Result<Vec<u8>, Status> {
        match namespace.set {
            CommandSet::Nvm => Ok(nvm::identify::namespace(namespace, limits).as_bytes().to_vec()),
            _ => Err(Status::INVALID_NAMESPACE.with_dnr()),
        }
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
        Ok(match (self, namespace) {
            (CommandSet::Nvm, _) => nvm::identify::of_set().as_bytes().to_vec(),
            (CommandSet::KeyValue, Some((namespace, limits))) => {
                kv::identify::namespace(namespace, limits, value_bytes_max(core)).as_bytes().to_vec()
            }
            (CommandSet::RawFlash, Some(_)) => raw_flash::identify::namespace(core),
            (CommandSet::KeyValue | CommandSet::RawFlash, None) | (CommandSet::Sink, _) => {
                vec![0; Identify::BYTES as usize]
            }
        })
    }

    /// Adds the effects of its commands to the log of those that are supported.
    pub(crate) fn add_commands(self, config: &DriveConfig, page: &mut CommandsSupportedLog) {
        match self {
            CommandSet::Nvm => {
                nvm::add_commands(page);
                sink::add_commands(config, page);
            }
            CommandSet::KeyValue => kv::add_commands(config, page),
            CommandSet::RawFlash => raw_flash::add_commands(page),
            CommandSet::Sink => sink::add_commands(config, page),
        }
    }

    /// Whether a command is one that this set alone has.
    fn has_own(self, opcode: u8) -> bool {
        match self {
            CommandSet::KeyValue => kv::has_own(opcode),
            CommandSet::RawFlash => raw_flash::has_own(opcode),
            CommandSet::Sink => sink::has(opcode),
            _ => false,
        }
    }

    /// Whether a piece of a stream may name a namespace of the set.
    fn takes_pieces(self, config: &DriveConfig) -> bool {
        match self {
            CommandSet::KeyValue => true,
            _ => sink::is_offered(config),
        }
    }

    /// What a command says of the stream that it begins, if it is one of the set that does.
    fn stream_start(self, sqe: &Sqe) -> Option<StreamStart> {
        match self {
            CommandSet::KeyValue => kv::stream_start(sqe),
            CommandSet::Sink => sink::stream_start(sqe),
            _ => None,
        }
    }
}

/// The command sets of a controller, upon what they share.
pub struct CommandSets {
    pub(crate) core: Rc<Core>,
    kv: KeyValue,
    raw_flash: RawFlash,
    sink: Sink,
}

/// Commands: each is of one set.
impl CommandSets {
    /// Those of a controller.
    pub(crate) fn new(core: Rc<Core>) -> Self {
        let (clock, config) = (&core.clock, &core.config);
        let (kv, raw_flash) = (KeyValue::new(clock, config), RawFlash::default());
        CommandSets { kv, raw_flash, sink: Sink::new(config), core }
    }

    /// The set that an I/O command is of: that of its namespace, or the sink's.
    #[inline]
    fn set_of(&self, sqe: &Sqe) -> CommandSet {
        if sink::has(sqe.opcode()) { CommandSet::Sink } else { self.core.inventory.set_of(sqe.nsid) }
    }

    /// What an entry is: a command, payload, or a command with payload behind it.
    #[inline]
    pub(crate) fn framing(&self, sqe: &Sqe, methods: Methods) -> Framing {
        match self.set_of(sqe) {
            CommandSet::KeyValue => kv::framing(sqe, methods),
            _ => Framing::of(sqe, methods),
        }
    }

    /// The fixed part of what the pipeline takes for a command.
    #[inline]
    pub(crate) fn pipeline(&self, sqe: &Sqe) -> Delay {
        match self.set_of(sqe) {
            CommandSet::Nvm => nvm::pipeline(&self.core, sqe),
            CommandSet::KeyValue => kv::pipeline(&self.core, sqe),
            CommandSet::RawFlash => raw_flash::pipeline(&self.core, sqe),
            _ => Delay::ZERO,
        }
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
        match set {
            CommandSet::Nvm if !nvm::has(sqe.opcode()) => self.refuse(sqe),
            CommandSet::Nvm => {
                if sqe.nsid == NSID_ALL && NvmOpcode(sqe.opcode()) == NvmOpcode::FLUSH {
                    self.flush(context.span).await?;
                }
                nvm::execute(context, workspace).await
            }
            CommandSet::KeyValue => self.kv.execute(context, workspace).await,
            CommandSet::RawFlash => self.raw_flash.execute(context, workspace).await,
            CommandSet::Sink => self.sink.execute(context, workspace).await,
        }
    }

    /// Refuses a command that the NVM command set has not.
    fn refuse(&self, sqe: &Sqe) -> Result<Reply, Status> {
        let mut offered = CommandSet::ALL.into_iter().filter(|set| set.is_offered(&self.core.config));
        if offered.any(|set| set.has_own(sqe.opcode())) {
            // There may be no such namespace; one that there is has blocks.
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
        match head.set {
            CommandSet::KeyValue => kv::commands::end_stream(context, &head, &workspace.bytes).await,
            CommandSet::Sink => Ok(self.sink.end_stream(context, &head.sqe, &workspace.bytes)),
            _ => Err(Status::INTERNAL_ERROR), // it has no streams
        }
    }

    /// A command has failed: a stream that it was of ends.
    pub(crate) fn end_failed(&self, context: &Context<'_>) {
        let start = CommandSet::ALL.into_iter().find_map(|set| set.stream_start(context.sqe));
        stream::end_failed(context, start);
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
        match self.set_of(both[0].sqe) {
            CommandSet::Nvm => compare_and_write::execute(both, workspace).await,
            _ => [Status::INVALID_FIELD.with_dnr(); 2],
        }
    }
}

/// The life of namespaces, and of what the sets keep.
impl CommandSets {
    /// Gives a namespace what its set keeps for it, if it has not got that.
    ///
    /// # Errors
    /// There can be no such namespace of its size.
    pub(crate) fn open(&self, namespace: &Namespace) -> Result<(), Status> {
        match namespace.set {
            CommandSet::KeyValue => kv::life::open(&self.core, namespace),
            _ => Ok(()),
        }
    }

    /// Takes a namespace what its set keeps for it, which no command uses any more: its units are to be deallocated.
    ///
    /// # Errors
    /// At the end of the drive's life. The namespace is then as it was.
    pub(crate) async fn close(&self, namespace: &Namespace) -> Result<(), MediaError> {
        match namespace.set {
            CommandSet::KeyValue => self.kv.close(&self.core, namespace).await,
            _ => Ok(()),
        }
    }

    /// Everything that sets buffer for their namespaces, in addition to what the translation layer does, is on flash
    /// when this ends.
    pub(crate) async fn flush(&self, span: SpanId) -> Result<(), Status> {
        kv::life::flush(&self.core, span).await
    }

    /// Waits until it is known what all namespaces hold.
    pub(crate) async fn ready(&self) {
        kv::life::ready(&self.core).await;
    }

    /// The controller is reset.
    pub(crate) fn reset(&self) {
        self.kv.reset();
        self.raw_flash.reset();
    }

    /// The drive is sanitized: what no namespace holds goes, too.
    pub(crate) fn sanitize(&self) {
        self.sink.clear();
    }

    /// The store of a key-value namespace, while that can be used.
    pub(crate) fn store_of(&self, nsid: u32) -> Option<Kv> {
        store_of(&*self.core.inventory.allocated(nsid)?)
    }

    /// Shows the stores of all key-value namespaces that can be used now.
    pub(crate) fn each_store(&self, mut each: impl FnMut(&Kv)) {
        self.core.inventory.each(|namespace| store_of(namespace).iter().for_each(&mut each));
    }

    /// The power goes.
    pub(crate) fn power_off(&self) {
        kv::life::power_off(&self.core);
    }

    /// Begins what the sets do besides commands.
    pub(crate) fn spawn_tasks(self: &Rc<Self>) {
        let (core, config) = (&self.core, &self.core.config);
        if CommandSet::KeyValue.is_offered(config) {
            let sets = self.clone();
            core.clock.spawn("iterators", async move { sets.kv.end_iterators(&sets.core.clock).await });
        }
    }

    /// Takes commit records, if the drive offers them.
    pub(crate) fn spawn_commits(&self) {
        if self.core.config.transfer.methods.cxl_commit() {
            self.core.clock.spawn("commit records", kv::commit::run(self.core.clone()));
        }
    }
}
