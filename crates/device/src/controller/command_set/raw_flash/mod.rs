//! The raw flash command set ([`byteway_wire::nvme::vendor::raw_flash`]): the drive's flash array, controlled from
//! elsewhere. This module decides nothing: it checks commands, and passes them to the array with the priority that they
//! name.
//!
//! | file | what |
//! |---|---|
//! | [`mod@array`] | Raw Read, Raw Program, Raw Copy, Raw Erase, Raw Report |
//! | [`system`] | Raw System Read, Raw System Write, Raw Manage |
//! | [`identify`] | Identify, and the constraints on a drive with such a namespace |
//!
//! Such a drive has one namespace only, and its own translation layer leaves the array alone. The controller has no
//! non-volatile record, because the system area belongs to the host.

use crate::config::{ConfigError, DriveConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::command_set::raw_flash::system::SystemArea;
use crate::controller::core::Core;
use crate::controller::namespace::{Limits, Namespace};
use byteway_clock::{Clock, Delay, Stage};
use byteway_flash::{Flash, Outcome};
use byteway_wire::nvme::vendor::raw_flash::{self, RawRead};
use byteway_wire::nvme::{CommandsSupportedLog, Identify, IdentifyController, Sqe, Status, VendorOpcode};

pub mod array;
pub mod identify;
pub mod system;

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();

/// State of the command set: parts of the system area that are transferred in pieces.
#[derive(Default)]
pub struct RawFlash {
    system: SystemArea,
}

impl IoCommandSet for RawFlash {
    const CSI: Option<u8> = Some(raw_flash::CSI);

    fn new(_: &Clock, _: &DriveConfig) -> Self {
        RawFlash::default()
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.is_raw()
    }

    fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
        identify::check_namespace(config, namespace)
    }

    fn describe(_: &Core, id: &mut IdentifyController) {
        identify::describe(id);
    }

    fn identify_namespace(core: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        match namespace {
            Some(_) => identify::namespace(core),
            None => vec![0; Identify::BYTES as usize],
        }
    }

    fn add_commands(_: &DriveConfig, page: &mut CommandsSupportedLog) {
        for opcode in OPCODES {
            let effects = if changes(opcode) { CommandsSupportedLog::LBCC } else { 0 };
            page.iocs[usize::from(opcode.0)] = CommandsSupportedLog::CSUPP | effects;
        }
    }

    fn has(opcode: u8) -> bool {
        OPCODES.contains(&VendorOpcode(opcode))
    }

    /// As for blocks: raw reads and writes pass through the same pipeline.
    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        let c = &core.config.controller;
        match VendorOpcode(sqe.opcode()) {
            VendorOpcode::RAW_READ if RawRead::parse(sqe).units() <= 1 => c.read_pipeline,
            VendorOpcode::RAW_READ => c.read_large_pipeline,
            VendorOpcode::RAW_PROGRAM | VendorOpcode::RAW_COPY => c.write_pipeline,
            _ => Delay::ZERO,
        }
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let namespace = context.core.namespace(context.sqe.nsid)?;
        let opcode = VendorOpcode(context.sqe.opcode());
        if changes(opcode) {
            namespace.check_writable()?;
        }
        match opcode {
            VendorOpcode::RAW_READ => array::read(context, workspace).await,
            VendorOpcode::RAW_PROGRAM => array::program(context, workspace).await,
            VendorOpcode::RAW_COPY => array::copy(context, workspace).await,
            VendorOpcode::RAW_ERASE => array::erase(context).await,
            VendorOpcode::RAW_REPORT => array::report(context, workspace).await,
            VendorOpcode::RAW_SYSTEM_READ => self.system.read(context, workspace).await,
            VendorOpcode::RAW_SYSTEM_WRITE => self.system.write(context, workspace).await,
            VendorOpcode::RAW_MANAGE => system::manage(context).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    /// Drops unfinished transfers of the system area.
    fn reset(&self) {
        self.system.clear();
    }
}

impl Context<'_> {
    /// The array.
    fn flash(&self) -> &Flash {
        self.core.backing.own_ftl().flash()
    }

    /// Charges the time of a completed array operation.
    fn charge_flash(&self, outcome: &Outcome) {
        let core = self.core;
        core.port.spans().charge_waits(self.span, core.clock.now(), outcome.waits(), Stage::Flash);
    }

    /// Whether a transfer is within the drive's limit.
    fn check_length(&self, bytes: u32) -> Result<(), Status> {
        match bytes {
            0 => Err(INVALID_FIELD),
            _ if bytes > self.core.config.controller.transfer_bytes_max => Err(INVALID_FIELD),
            _ => Ok(()),
        }
    }
}

fn changes(opcode: VendorOpcode) -> bool {
    !matches!(opcode, VendorOpcode::RAW_READ | VendorOpcode::RAW_REPORT | VendorOpcode::RAW_SYSTEM_READ)
}

const OPCODES: [VendorOpcode; 8] = [
    VendorOpcode::RAW_ERASE,
    VendorOpcode::RAW_PROGRAM,
    VendorOpcode::RAW_READ,
    VendorOpcode::RAW_MANAGE,
    VendorOpcode::RAW_COPY,
    VendorOpcode::RAW_REPORT,
    VendorOpcode::RAW_SYSTEM_WRITE,
    VendorOpcode::RAW_SYSTEM_READ,
];
