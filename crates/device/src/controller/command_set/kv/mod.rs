//! The Key Value command set (NVMe Key Value Command Set 1.0). [`byteway_kv`] implements the store; this module checks
//! commands and answers them.
//!
//! | file | what |
//! |---|---|
//! | [`commands`] | Store, Retrieve, List, Delete, Exist, Flush, Store Many |
//! | [`iterator`] | Seek, Next, Close |
//! | [`pairs`] | shared code: keys, values, modes, statuses |
//! | [`life`] | the store of a namespace: open, close, flush |
//! | [`page_buffer`], [`commit`] | values and records that the host stores over CXL.mem |
//! | [`identify`] | Identify, and the sizes of KV namespaces |

use crate::config::{CommandSet, ConfigError, DriveConfig, NamespaceConfig};
use crate::controller::Controller;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::pipeline::by_opcode;
use crate::controller::command::stream::StreamStart;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::command_set::kv::iterator::Iterators;
use crate::controller::command_set::kv::pairs::{store_of, value_bytes_max};
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::queue::partial::StreamHead;
use byteway_clock::{Clock, Delay, SpanId};
use byteway_content::BlockSize;
use byteway_firmware::MediaError;
use byteway_kv::Kv;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::kv::{Retrieve, Store};
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, Identify, KvOpcode, Sqe, Status, VendorOpcode, csi};
use std::rc::Rc;

pub mod commands;
pub mod commit;
pub mod identify;
pub mod iterator;
pub mod life;
pub mod page_buffer;
pub mod pairs;

/// State of the command set; each namespace has its store ([`Kv`]) in its contents.
pub struct KeyValue {
    iterators: Rc<Iterators>,
}

impl IoCommandSet for KeyValue {
    const CSI: Option<u8> = Some(csi::KEY_VALUE);
    const HAS_STREAMS: bool = true;

    /// Without iterators.
    fn new(clock: &Clock, config: &DriveConfig) -> Self {
        KeyValue { iterators: Rc::new(Iterators::new(clock, config.kv.as_ref())) }
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.kv.is_some()
    }

    fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
        life::check_config(config)
    }

    fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
        life::check_namespace(config, namespace)
    }

    fn identify_controller() -> Vec<u8> {
        identify::controller().as_bytes().to_vec()
    }

    fn identify_namespace(core: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        match namespace {
            Some((namespace, limits)) => {
                identify::namespace(namespace, limits, value_bytes_max(core)).as_bytes().to_vec()
            }
            None => vec![0; Identify::BYTES as usize],
        }
    }

    fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog) {
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

    fn has(opcode: u8) -> bool {
        let kv = [
            KvOpcode::STORE,
            KvOpcode::RETRIEVE,
            KvOpcode::LIST,
            KvOpcode::DELETE,
            KvOpcode::EXIST,
            KvOpcode::FLUSH,
        ];
        let vendor = [
            VendorOpcode::KV_STORE_PIGGYBACK,
            VendorOpcode::KV_STORE_PIPELINED,
            VendorOpcode::KV_SEEK,
            VendorOpcode::KV_NEXT,
            VendorOpcode::KV_CLOSE,
            VendorOpcode::KV_STORE_MANY,
            VendorOpcode::PAGE_POINTER,
        ];
        kv.contains(&KvOpcode(opcode)) || vendor.contains(&VendorOpcode(opcode))
    }

    /// In a Store, the key occupies the fields that hold the length of inline payload in other commands.
    fn framing(sqe: &Sqe, methods: Methods) -> Framing {
        let is_store = methods.inline_tail() && sqe.opcode() == KvOpcode::STORE.0;
        if is_store { Framing::of_store(sqe, methods) } else { Framing::of(sqe, methods) }
    }

    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        match VendorOpcode(sqe.opcode()) {
            VendorOpcode::KV_STORE_MANY => core.config.controller.write_pipeline,
            _ => by_opcode(core, sqe, || Retrieve::parse(sqe).buffer_bytes as usize),
        }
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
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

    fn stream_start(sqe: &Sqe) -> Option<StreamStart> {
        let pipelined = match VendorOpcode(sqe.opcode()) {
            VendorOpcode::KV_STORE_PIGGYBACK => false,
            VendorOpcode::KV_STORE_PIPELINED => true,
            _ => return None,
        };
        Some(StreamStart { bytes: Store::parse(sqe).bytes, pipelined })
    }

    async fn end_stream(
        &self,
        context: &Context<'_>,
        head: &StreamHead,
        payload: &[u8],
    ) -> Result<Reply, Status> {
        commands::end_stream(context, head, payload).await
    }

    fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
        identify::parse_create(bytes, is_shared)
    }

    fn open(&self, core: &Core, namespace: &Namespace) -> Result<(), Status> {
        life::open(core, namespace)
    }

    fn detach(&self, namespace: &Namespace) {
        self.iterators.end_of(namespace.uid);
    }

    async fn close(&self, core: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        life::close(core, namespace).await
    }

    async fn flush(&self, core: &Core, span: SpanId) -> Result<(), Status> {
        life::flush(core, span).await
    }

    async fn ready(&self, core: &Core) {
        life::ready(core).await;
    }

    /// Ends all iterators.
    fn reset(&self) {
        self.iterators.clear();
    }

    fn power_off(&self, core: &Core) {
        life::power_off(core);
    }

    /// Starts the tasks that take commit records, if the drive offers them, and that time iterators out.
    fn spawn(&self, core: &Rc<Core>) {
        if core.config.transfer.methods.cxl_commit() {
            core.clock.spawn("commit records", commit::run(core.clone()));
        }
        if Self::is_offered(&core.config) {
            let (clock, iterators) = (core.clock.clone(), self.iterators.clone());
            core.clock.spawn("iterators", async move { iterators.run(&clock).await });
        }
    }

    fn memory_log(core: &Core, log: DeviceMemoryLog) -> DeviceMemoryLog {
        page_buffer::log_upon(core, log)
    }

    fn store_memory(core: &Core, offset: u64, bytes: &[u8]) -> bool {
        let found = page_buffer::find(core, offset);
        found.is_some_and(|(at, pairs)| {
            pairs.buffer_store(at, bytes);
            true
        })
    }

    fn load_memory(core: &Core, offset: u64, into: &mut [u8]) -> bool {
        let found = page_buffer::find(core, offset);
        found.is_some_and(|(at, pairs)| {
            pairs.buffer_load(at, into);
            true
        })
    }
}

impl KeyValue {
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

/// Access to the stores, for measurements and tests.
impl Controller {
    /// Calls `each` with the store of each usable KV namespace.
    pub fn each_pairs(&self, mut each: impl FnMut(&Kv)) {
        self.core().inventory.each(|namespace| store_of(namespace).iter().for_each(&mut each));
    }

    /// The store of a KV namespace, while it is usable.
    pub fn pairs(&self, nsid: u32) -> Option<Kv> {
        store_of(&*self.core().inventory.allocated(nsid)?)
    }
}

impl NamespaceConfig {
    /// A KV namespace. The drive needs [`DriveConfig::kv`].
    pub const fn key_value(units: u64) -> NamespaceConfig {
        NamespaceConfig { units, block: BlockSize::B4096, set: CommandSet::KeyValue }
    }
}
