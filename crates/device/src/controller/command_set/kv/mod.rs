//! The Key Value command set (NVMe Key Value Command Set 1.0): pairs of keys and values. Whatever is decided about them is
//! [`byteway_kv`]'s; here commands are looked at and answered.
//!
//! | file | what |
//! |---|---|
//! | [`commands`] | Store, Retrieve, List, Delete, Exist, Flush, Store Many |
//! | [`iterator`] | Seek, Next, Close |
//! | [`pairs`] | what they have in common |
//! | [`life`] | a namespace's store: opened, closed, flushed |
//! | [`page_buffer`], [`commit`] | values and records that the host stores over CXL.mem |
//! | [`identify`] | Identify, and what namespaces of it may be like |

use crate::config::DriveConfig;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::pipeline::by_opcode;
use crate::controller::command::stream::StreamStart;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::kv::iterator::Iterators;
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use byteway_clock::{Clock, Delay};
use byteway_firmware::MediaError;
use byteway_wire::nvme::kv::{Retrieve, Store};
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, KvOpcode, Sqe, Status, VendorOpcode};

pub mod commands;
pub mod commit;
pub mod identify;
pub mod iterator;
pub mod life;
pub mod page_buffer;
pub mod pairs;

/// The command set's own state; each namespace has its store.
pub struct KeyValue {
    iterators: Iterators,
}

impl KeyValue {
    /// Without iterators.
    pub fn new(clock: &Clock, config: &DriveConfig) -> Self {
        KeyValue { iterators: Iterators::new(clock, config.kv.as_ref()) }
    }

    /// The controller is reset: iterators end.
    pub fn reset(&self) {
        self.iterators.clear();
    }

    /// Ends iterators that are not used for too long.
    pub(crate) async fn end_iterators(&self, clock: &Clock) {
        self.iterators.run(clock).await;
    }

    /// Takes a namespace its store, which no command uses any more: its units are to be deallocated.
    ///
    /// # Errors
    /// As [`life::close`].
    pub(crate) async fn close(&self, core: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        self.iterators.end_of(namespace.uid);
        life::close(core, namespace).await
    }

    /// Executes an I/O command of a key-value namespace.
    pub(crate) async fn execute(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
    ) -> Result<Reply, Status> {
        match KvOpcode(context.sqe.opcode()) {
            KvOpcode::STORE => commands::store(context, workspace).await,
            KvOpcode::RETRIEVE => commands::retrieve(context, workspace).await,
            KvOpcode::LIST => commands::list_keys(context, workspace).await,
            KvOpcode::DELETE => commands::delete(context).await,
            KvOpcode::EXIST => commands::exist(context).await,
            KvOpcode::FLUSH => commands::flush(context).await,
            _ => self.vendor(context, workspace).await,
        }
    }

    async fn vendor(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let enabled = context.queue.methods.get();
        match VendorOpcode(context.sqe.opcode()) {
            VendorOpcode::KV_STORE_PIGGYBACK if enabled.piggyback() => {
                commands::begin_stream(context, workspace, false).await
            }
            VendorOpcode::KV_STORE_PIPELINED if enabled.piggyback_pipelined() => {
                commands::begin_stream(context, workspace, true).await
            }
            VendorOpcode::KV_SEEK => self.iterators.seek(context).await,
            VendorOpcode::KV_NEXT => self.iterators.next(context, workspace).await,
            VendorOpcode::KV_CLOSE => self.iterators.close(context),
            VendorOpcode::KV_STORE_MANY => commands::store_many(context, workspace).await,
            VendorOpcode::PAGE_POINTER if enabled.cxl_mem() => page_buffer::page_pointer(context).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }
}

/// Whether a drive has the set.
pub(crate) fn is_offered(config: &DriveConfig) -> bool {
    config.kv.is_some()
}

/// The commands of this set that the NVM command set has not: of a namespace of blocks they are no commands.
pub(crate) fn has_own(opcode: u8) -> bool {
    let vendor = [
        VendorOpcode::KV_STORE_PIGGYBACK,
        VendorOpcode::KV_STORE_PIPELINED,
        VendorOpcode::KV_SEEK,
        VendorOpcode::KV_NEXT,
        VendorOpcode::KV_CLOSE,
        VendorOpcode::KV_STORE_MANY,
        VendorOpcode::PAGE_POINTER,
    ];
    matches!(KvOpcode(opcode), KvOpcode::LIST | KvOpcode::DELETE | KvOpcode::EXIST)
        || vendor.contains(&VendorOpcode(opcode))
}

/// What an entry is. A Store has its key where others have the length of an inline tail.
pub(crate) fn framing(sqe: &Sqe, methods: Methods) -> Framing {
    let is_store = methods.inline_tail() && sqe.opcode() == KvOpcode::STORE.0;
    if is_store { Framing::of_store(sqe, methods) } else { Framing::of(sqe, methods) }
}

/// What the pipeline takes for a command.
pub(crate) fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
    by_opcode(core, sqe, || Retrieve::parse(sqe).buffer_bytes as usize)
}

/// What a command says of the stream that it begins, if it is one that does.
pub(crate) fn stream_start(sqe: &Sqe) -> Option<StreamStart> {
    let pipelined = match VendorOpcode(sqe.opcode()) {
        VendorOpcode::KV_STORE_PIGGYBACK => false,
        VendorOpcode::KV_STORE_PIPELINED => true,
        _ => return None,
    };
    Some(StreamStart { bytes: Store::parse(sqe).bytes, pipelined })
}

/// The effects of the set's commands, for the log of those that are supported.
pub(crate) fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog) {
    const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
    const CHANGES_PAIRS: u32 = SUPPORTED | CommandsSupportedLog::LBCC;
    let offered = config.transfer.methods;
    let streams = |offered, effects| if offered { effects } else { 0 };
    for (opcode, effects) in [
        (KvOpcode::FLUSH.0, SUPPORTED),
        (KvOpcode::STORE.0, CHANGES_PAIRS),
        (KvOpcode::RETRIEVE.0, SUPPORTED),
        (KvOpcode::LIST.0, SUPPORTED),
        (KvOpcode::DELETE.0, CHANGES_PAIRS),
        (KvOpcode::EXIST.0, SUPPORTED),
        (VendorOpcode::TRANSFER.0, streams(offered.piggyback(), CHANGES_PAIRS)),
        (VendorOpcode::TRANSFER_PIPELINED.0, streams(offered.piggyback_pipelined(), CHANGES_PAIRS)),
        (VendorOpcode::KV_STORE_PIGGYBACK.0, streams(offered.piggyback(), CHANGES_PAIRS)),
        (VendorOpcode::KV_STORE_PIPELINED.0, streams(offered.piggyback_pipelined(), CHANGES_PAIRS)),
        (VendorOpcode::KV_SEEK.0, SUPPORTED),
        (VendorOpcode::KV_NEXT.0, SUPPORTED),
        (VendorOpcode::KV_CLOSE.0, SUPPORTED),
        (VendorOpcode::KV_STORE_MANY.0, CHANGES_PAIRS),
        (VendorOpcode::PAGE_POINTER.0, streams(offered.cxl_mem(), SUPPORTED)),
    ] {
        page.iocs[usize::from(opcode)] = effects;
    }
}
