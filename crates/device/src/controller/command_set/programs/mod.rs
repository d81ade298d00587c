//! The Computational Programs command set ([`byteway_wire::nvme::programs`]): the drive's cores run programs
//! of the host over memory namespaces.
//!
//! | file | what |
//! |---|---|
//! | `table.rs` | contents of a namespace: programs and memory range sets |
//! | `execute.rs` | Execute Program: a run in slices |
//! | `filter.rs` | a program as a filter of a table's rows, for tasks of another command set |
//! | `mod.rs` | Load Program, Program Activation Management, Memory Range Set Management; Identify, logs |
//!
//! Programs are eBPF ([`byteway_program`]). They are verified when the last piece has been loaded, and
//! interpreted. Runs are charged as [`WorkKind::Program`], weighted by the drive's [`ProgramsPolicy`].
//! Programs and range sets are volatile: a controller reset keeps them but ends runs; a power cut, a format
//! or a sanitize operation discards them.

use crate::config::{CommandSet, ConfigError, DriveConfig, NamespaceConfig, ProgramsPolicy};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_clock::{Clock, Delay, Semaphore};
use byteway_content::BlockSize;
use byteway_firmware::{MediaError, WorkKind};
use byteway_program::Instruction;
use byteway_program::verify::INSTRUCTIONS_MAX;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::log::scope;
use byteway_wire::nvme::programs::{
    self, ActivateProgram, EBPF, ListHeader, LoadProgram, ManageRangeSets, MemoryRange, ProgramsIdentify,
    ProgramsOpcode,
};
use byteway_wire::nvme::slm::GRANULARITY;
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{AdminOpcode, CommandsSupportedLog, Identify, Sqe, Status, lid};
use std::rc::Rc;
use table::{Loaded, Table};

pub(crate) mod execute;
pub(crate) mod filter;
pub(crate) mod table;

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();
const ADMIN: [AdminOpcode; 3] = [
    AdminOpcode::LOAD_PROGRAM,
    AdminOpcode::PROGRAM_ACTIVATION_MANAGEMENT,
    AdminOpcode::MEMORY_RANGE_SET_MANAGEMENT,
];
/// Cost of verifying an instruction, as a multiple of an addition.
const CHECK_WEIGHT: u64 = 20;

/// State of the command set.
pub struct Programs {
    /// Permits for slices that wait for a core or use one: one less than the drive's cores, at least 1, so
    /// that other work waits for at most one slice.
    turns: Semaphore,
    /// Permits for further runs.
    runs: Semaphore,
}

impl IoCommandSet for Programs {
    const CSI: Option<u8> = Some(programs::CSI);

    fn new(clock: &Clock, config: &DriveConfig) -> Self {
        let turns = (config.site.cores as usize).saturating_sub(1).max(1);
        let runs = config.programs.as_ref().map_or(0, |policy| policy.runs_max.into());
        Programs { turns: Semaphore::new(clock, turns), runs: Semaphore::new(clock, runs) }
    }

    /// Shares the permits: controllers of a drive use the same cores.
    fn for_peer(&self, _: &Clock, _: &DriveConfig) -> Self {
        Programs { turns: self.turns.clone(), runs: self.runs.clone() }
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.programs.is_some()
    }

    fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
        let Some(policy) = &config.programs else { return Ok(()) };
        let program_bytes = (INSTRUCTIONS_MAX * Instruction::BYTES) as u32;
        let checks = [
            ((1..=1024).contains(&policy.programs), "programs.programs must be from 1 to 1024"),
            (
                (8..=program_bytes).contains(&policy.program_bytes_max),
                "programs.program_bytes_max must be from 8 B to 32 KiB",
            ),
            (
                (policy.program_bytes_max.into()..=1 << 30).contains(&policy.programs_bytes_max),
                "programs.programs_bytes_max must be from program_bytes_max to 1 GiB",
            ),
            (policy.activated_max > 0, "programs.activated_max must be at least 1"),
            ((1..=1024).contains(&policy.sets_max), "programs.sets_max must be from 1 to 1024"),
            (policy.ranges_max > 0, "programs.ranges_max must be at least 1"),
            (
                policy.runs_max > 0 && u32::from(policy.runs_max) < config.controller.command_slots,
                "programs.runs_max must be at least 1, and less than controller.command_slots",
            ),
            ((1..=1 << 40).contains(&policy.fuel), "programs.fuel must be from 1 to 2^40 instructions"),
            (
                (1..=1 << 40).contains(&policy.row_fuel),
                "programs.row_fuel must be from 1 to 2^40 instructions",
            ),
            (
                (policy.row_fuel..=1 << 50).contains(&policy.filter_fuel),
                "programs.filter_fuel must be from row_fuel to 2^50 instructions",
            ),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            Some((_, message)) => Err(ConfigError { message: (*message).to_owned() }),
            None => Ok(()),
        }
    }

    fn identify_namespace(core: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        let mut id = ProgramsIdentify::default();
        if let (Some(policy), Some(_)) = (&core.config.programs, namespace) {
            id = ProgramsIdentify {
                activated_max: policy.activated_max,
                sets_max: policy.sets_max,
                range_granularity: GRANULARITY.ilog2() as u16,
                ranges_max: policy.ranges_max,
                program_mib_max: policy.programs_bytes_max.div_ceil(1 << 20),
                programs: policy.programs.into(),
                program_bytes_max: policy.program_bytes_max,
                fuel: policy.fuel,
                ..ProgramsIdentify::default()
            };
        }
        let mut bytes = id.as_bytes().to_vec();
        bytes.resize(Identify::BYTES as usize, 0);
        bytes
    }

    fn add_commands(_: &DriveConfig, page: &mut CommandsSupportedLog) {
        for opcode in ADMIN {
            page.acs[usize::from(opcode.0)] = CommandsSupportedLog::CSUPP | scope::NAMESPACE;
        }
        let execute = usize::from(ProgramsOpcode::EXECUTE_PROGRAM.0);
        page.iocs[execute] = CommandsSupportedLog::CSUPP | CommandsSupportedLog::LBCC;
    }

    fn has(opcode: u8) -> bool {
        ProgramsOpcode::ALL.contains(&ProgramsOpcode(opcode))
    }

    fn has_admin(opcode: u8) -> bool {
        ADMIN.contains(&AdminOpcode(opcode))
    }

    /// CDW3 is a field of Execute Program, not the length of an inline tail, so there is no inline tail.
    fn framing(sqe: &Sqe, methods: Methods) -> Framing {
        Framing::of(sqe, methods.with_inline_tail(false))
    }

    fn pipeline(core: &Core, _: &Sqe) -> Delay {
        core.config.controller.write_pipeline
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let namespace = context.core.namespace(context.sqe.nsid)?;
        let table = table_of(&namespace)?;
        // Further runs must not wait here: they would occupy slots of unrelated commands.
        let _run = self.runs.try_acquire(1).ok_or(Status::INSUFFICIENT_PROGRAM_RESOURCES)?;
        execute::execute(context, workspace, &table).await
    }

    async fn execute_admin(
        &self,
        context: &Context<'_>,
        workspace: &mut Workspace,
        namespace: &Namespace,
    ) -> Result<u32, Status> {
        let table = table_of(namespace)?;
        match AdminOpcode(context.sqe.opcode()) {
            AdminOpcode::LOAD_PROGRAM => load(context, workspace, &table).await,
            AdminOpcode::PROGRAM_ACTIVATION_MANAGEMENT => {
                let command = ActivateProgram::parse(context.sqe);
                match command.select {
                    ActivateProgram::ACTIVATE => table.activate(command.program, true),
                    ActivateProgram::DEACTIVATE => table.activate(command.program, false),
                    _ => Err(INVALID_FIELD),
                }
                .map(|()| 0)
            }
            AdminOpcode::MEMORY_RANGE_SET_MANAGEMENT => manage_sets(context, workspace, &table).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    fn log_page(&self, namespace: &Namespace, lid: u8) -> Option<Vec<u8>> {
        let table = table_of(namespace).ok()?;
        match lid {
            lid::PROGRAMS => Some(table.program_list()),
            lid::PROGRAM_TYPES => {
                let mut page = ListHeader { count: 1, ..ListHeader::default() }.as_bytes().to_vec();
                page.extend_from_slice(&[EBPF, 0, 0, 0]);
                Some(page)
            }
            lid::MEMORY_RANGE_SETS => Some(table.set_list()),
            _ => None,
        }
    }

    /// One unit, whatever size is requested.
    fn parse_create(_: &[u8], _is_shared: bool) -> Result<(u64, Format), Status> {
        Ok((1, Format::of(CommandSet::Programs)))
    }

    fn open(&self, core: &Core, namespace: &Namespace) -> Result<(), Status> {
        let policy = core.config.programs.as_ref().ok_or(INVALID_FIELD)?;
        if table_of(namespace).is_err() {
            namespace.set_contents(Rc::new(Table::new(policy, &self.turns)));
        }
        Ok(())
    }

    async fn close(&self, _: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        namespace.clear_contents();
        Ok(())
    }
}

pub(crate) fn table_of(namespace: &Namespace) -> Result<Rc<Table>, Status> {
    namespace.contents().ok_or(Status::NAMESPACE_NOT_READY)
}

/// Load Program: loads a piece, or unloads a program.
async fn load(context: &Context<'_>, workspace: &mut Workspace, table: &Rc<Table>) -> Result<u32, Status> {
    let core = context.core;
    let piece = LoadProgram::parse(context.sqe);
    if piece.unload {
        return table.unload(piece.program).map(|()| 0);
    }
    if piece.bytes > core.config.controller.transfer_bytes_max {
        return Err(INVALID_FIELD);
    }
    table.check_piece(&piece)?;
    context.bring(workspace, piece.bytes.into(), Landing::Dram).await?;
    let Loaded { checksum, checked } = table.add_piece(&piece, &workspace.bytes)?;
    if checked > 0 {
        let service = core.placement.run(WorkKind::Program, checked * CHECK_WEIGHT).await;
        context.charge_firmware(service.queued);
        context.check()?;
    }
    Ok(checksum)
}

/// Memory Range Set Management.
async fn manage_sets(
    context: &Context<'_>,
    workspace: &mut Workspace,
    table: &Rc<Table>,
) -> Result<u32, Status> {
    let policy: &ProgramsPolicy = context.core.config.programs.as_ref().ok_or(INVALID_FIELD)?;
    let command = ManageRangeSets::parse(context.sqe);
    match command.select {
        ManageRangeSets::CREATE if command.ranges == 0 => Err(INVALID_FIELD),
        ManageRangeSets::CREATE if command.ranges > policy.ranges_max => {
            Err(Status::MEMORY_RANGES_EXCEEDED.with_dnr())
        }
        ManageRangeSets::CREATE => {
            let bytes = u64::from(command.ranges) * MemoryRange::SIZE as u64;
            context.bring(workspace, bytes, Landing::Dram).await?;
            let set = execute::set_of(context.core, policy, MemoryRange::parse_list(&workspace.bytes))?;
            table.create_set(set).map(u32::from)
        }
        ManageRangeSets::DELETE => table.delete_set(command.set).map(|()| 0),
        _ => Err(INVALID_FIELD),
    }
}

impl NamespaceConfig {
    /// A namespace of programs; the drive needs [`DriveConfig::programs`].
    pub const fn programs() -> NamespaceConfig {
        NamespaceConfig { units: 1, block: BlockSize::B4096, set: CommandSet::Programs }
    }
}
