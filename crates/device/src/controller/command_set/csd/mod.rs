//! Tables in the drive, and queries over them ([`byteway_wire::nvme::vendor::csd`]): a computational SSD.
//! [`byteway_tables`] stores the tables, [`byteway_query`] evaluates queries. This module checks and answers
//! commands, and charges queries to the drive's cores, DRAM and flash.
//!
//! | file | what |
//! |---|---|
//! | [`tables`] | Table Create, Drop, List, Groups, Read |
//! | [`upload`] | Table Append: parts of an upload, until it is complete |
//! | [`task`] | Task, Result, Cancel |
//! | [`cursor`] | cursors: limit, owner, timeout |
//! | [`run`] | execution of a query: evaluation |
//! | [`reading`] | execution of a query: reads from flash |
//! | [`failure`] | reasons for which a query ends early |
//! | [`cost`] | cost of a query on the cores |
//! | [`life`] | a namespace's store: open, close, Identify |

use crate::config::{CommandSet, ConfigError, DriveConfig, NamespaceConfig};
use crate::controller::Controller;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::pipeline::by_opcode;
use crate::controller::command::stream::StreamStart;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::csd::cursor::Cursors;
use crate::controller::command_set::csd::upload::Uploads;
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::queue::partial::StreamHead;
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_firmware::MediaError;
use byteway_tables::TablesUsage;
use byteway_wire::nvme::vendor::csd;
use byteway_wire::nvme::{CommandsSupportedLog, Identify, Sqe, Status, VendorOpcode};
use std::rc::Rc;

pub mod cost;
pub mod cursor;
pub mod failure;
pub mod life;
pub mod reading;
pub mod run;
pub mod tables;
pub mod task;
pub mod upload;

/// State of the command set. Each namespace holds its own store.
pub struct Csd {
    cursors: Rc<Cursors>,
    uploads: Rc<Uploads>,
}

impl IoCommandSet for Csd {
    const CSI: Option<u8> = Some(csd::CSI);
    const HAS_STREAMS: bool = true;

    fn new(clock: &Clock, config: &DriveConfig) -> Self {
        Csd {
            cursors: Rc::new(Cursors::new(clock, config.csd.as_ref())),
            uploads: Rc::new(Uploads::new(clock, config.csd.as_ref())),
        }
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.csd.is_some()
    }

    fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
        life::check_config(config)
    }

    fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
        life::check_namespace(config, namespace)
    }

    fn identify_namespace(_core: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        match namespace {
            Some((namespace, limits)) => life::identify(namespace, limits),
            None => vec![0; Identify::BYTES as usize],
        }
    }

    fn add_commands(config: &DriveConfig, page: &mut CommandsSupportedLog) {
        const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
        const CHANGES: u32 = SUPPORTED | CommandsSupportedLog::LBCC;
        let offered = config.transfer.methods;
        let streams = |offered| if offered { SUPPORTED } else { 0 };
        for (opcode, effects) in [
            (VendorOpcode::CSD_TASK, SUPPORTED),
            (VendorOpcode::CSD_RESULT, SUPPORTED),
            (VendorOpcode::CSD_CANCEL, SUPPORTED),
            (VendorOpcode::CSD_TASK_PIGGYBACK, streams(offered.piggyback() || offered.piggyback_pipelined())),
            (VendorOpcode::TRANSFER, streams(offered.piggyback())),
            (VendorOpcode::TRANSFER_PIPELINED, streams(offered.piggyback_pipelined())),
            (VendorOpcode::TABLE_CREATE, CHANGES),
            (VendorOpcode::TABLE_DROP, CHANGES),
            (VendorOpcode::TABLE_APPEND, CHANGES),
            (VendorOpcode::TABLE_LIST, SUPPORTED),
            (VendorOpcode::TABLE_GROUPS, SUPPORTED),
            (VendorOpcode::TABLE_READ, SUPPORTED),
        ] {
            page.iocs[usize::from(opcode.0)] = effects;
        }
    }

    fn has(opcode: u8) -> bool {
        [
            VendorOpcode::CSD_TASK,
            VendorOpcode::CSD_RESULT,
            VendorOpcode::CSD_CANCEL,
            VendorOpcode::CSD_TASK_PIGGYBACK,
            VendorOpcode::TABLE_CREATE,
            VendorOpcode::TABLE_DROP,
            VendorOpcode::TABLE_APPEND,
            VendorOpcode::TABLE_LIST,
            VendorOpcode::TABLE_GROUPS,
            VendorOpcode::TABLE_READ,
        ]
        .contains(&VendorOpcode(opcode))
    }

    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        by_opcode(core, sqe, || csd::Fetch::parse(sqe).buffer_bytes as usize)
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        match VendorOpcode(context.sqe.opcode()) {
            VendorOpcode::CSD_TASK => task::task(&self.cursors, context, workspace).await,
            VendorOpcode::CSD_TASK_PIGGYBACK => task::begin_stream(&self.cursors, context, workspace).await,
            VendorOpcode::CSD_RESULT => task::result(&self.cursors, context, workspace).await,
            VendorOpcode::CSD_CANCEL => task::cancel(&self.cursors, context),
            VendorOpcode::TABLE_CREATE => tables::create(context, workspace).await,
            VendorOpcode::TABLE_DROP => tables::drop_table(context).await,
            VendorOpcode::TABLE_APPEND => upload::append(&self.uploads, context, workspace).await,
            VendorOpcode::TABLE_LIST => tables::list(context, workspace).await,
            VendorOpcode::TABLE_GROUPS => tables::groups(context, workspace).await,
            VendorOpcode::TABLE_READ => tables::read(context, workspace).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn stream_start(sqe: &Sqe) -> Option<StreamStart> {
        let is_task = VendorOpcode(sqe.opcode()) == VendorOpcode::CSD_TASK_PIGGYBACK;
        is_task
            .then(|| StreamStart { bytes: csd::Task::parse(sqe).bytes, pipelined: task::is_pipelined(sqe) })
    }

    async fn end_stream(
        &self,
        context: &Context<'_>,
        head: &StreamHead,
        payload: &[u8],
    ) -> Result<Reply, Status> {
        task::end_stream(&self.cursors, context, head, payload).await
    }

    fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
        life::parse_create(bytes, is_shared)
    }

    fn open(&self, core: &Core, namespace: &Namespace) -> Result<(), Status> {
        life::open(core, namespace)
    }

    fn detach(&self, namespace: &Namespace) {
        self.cursors.end_of(namespace.uid);
        self.uploads.end_of(namespace.uid);
    }

    async fn close(&self, core: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        life::close(core, namespace).await
    }

    async fn ready(&self, core: &Core) {
        life::ready(core).await;
    }

    /// Closes all cursors and drops all uploads.
    fn reset(&self) {
        self.cursors.clear();
        self.uploads.clear();
    }

    fn power_off(&self, core: &Core) {
        self.reset();
        life::power_off(core);
    }

    /// Spawns the tasks that end unused cursors and uploads.
    fn spawn(&self, core: &Rc<Core>) {
        if Self::is_offered(&core.config) {
            let (clock, cursors) = (core.clock.clone(), self.cursors.clone());
            core.clock.spawn("cursors", async move { cursors.run(&clock).await });
            let (clock, uploads) = (core.clock.clone(), self.uploads.clone());
            core.clock.spawn("uploads", async move { uploads.run(&clock).await });
        }
    }
}

impl Controller {
    /// Usage of all tables namespaces together; `None` if the drive has none.
    pub fn tables_usage(&self) -> Option<TablesUsage> {
        let stores = life::stores(self.core());
        let usage = stores.iter().map(byteway_tables::Tables::usage);
        usage.reduce(|sum, one| TablesUsage {
            capacity_bytes: sum.capacity_bytes + one.capacity_bytes,
            used_bytes: sum.used_bytes + one.used_bytes,
            tables: sum.tables + one.tables,
            groups: sum.groups + one.groups,
            rows: sum.rows + one.rows,
        })
    }
}

impl NamespaceConfig {
    /// A namespace of tables; the drive needs [`DriveConfig::csd`].
    pub const fn tables(units: u64) -> NamespaceConfig {
        NamespaceConfig { units, block: BlockSize::B4096, set: CommandSet::Tables }
    }
}
