//! The Subsystem Local Memory command set ([`byteway_wire::nvme::slm`]): namespaces in the drive's DRAM, for
//! hosts and programs.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | the bytes of a memory namespace |
//! | `copy.rs` | Memory Copy: from blocks, and from other memory |
//!
//! Memory is volatile: a controller reset keeps it; a power cut, a format or a sanitize operation zeroes it.
//! A memory namespace reserves units of the drive's capacity, so that it is created and deleted like any
//! other, but nothing is written to them.

use crate::config::{CommandSet, ConfigError, DriveConfig, NamespaceConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_clock::{Clock, Delay};
use byteway_content::{BlockSize, UNIT_BYTES};
use byteway_firmware::MediaError;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::slm::{self, GRANULARITY, LocalMemoryIdentify, LocalMemoryOpcode, MemoryAccess};
use byteway_wire::nvme::vendor::{Framing, Methods};
use byteway_wire::nvme::{CommandsSupportedLog, Identify, Sqe, Status};
use memory::{INVALID_FIELD, LocalMemory, check_extent, memory_of, take_dram};
use std::rc::Rc;

pub(crate) mod copy;
pub(crate) mod memory;

/// The command set. All state is in the namespaces.
pub struct Slm;

impl IoCommandSet for Slm {
    const CSI: Option<u8> = Some(slm::CSI);

    fn new(_: &Clock, _: &DriveConfig) -> Self {
        Slm
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.programs.is_some()
    }

    fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
        let units = |set| {
            let of_set = config.namespaces.iter().filter(move |namespace| namespace.set == set);
            of_set.map(|namespace| namespace.units).sum::<u64>()
        };
        let error = |message: &str| Err(ConfigError { message: message.to_owned() });
        let wanted = units(CommandSet::LocalMemory);
        match &config.programs {
            None if wanted + units(CommandSet::Programs) > 0 => {
                error("namespaces of local memory and of programs need the drive to have these command sets")
            }
            Some(policy) if policy.memory_bytes > 16 << 30 => {
                error("programs.memory_bytes must be at most 16 GiB")
            }
            Some(policy) if wanted > policy.memory_bytes / UNIT_BYTES as u64 => {
                error("the memory namespaces must be at most programs.memory_bytes long together")
            }
            _ => Ok(()),
        }
    }

    fn identify_namespace(core: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        let id = namespace.map_or_else(LocalMemoryIdentify::default, |(namespace, limits)| {
            let nsze = bytes_of(namespace);
            LocalMemoryIdentify {
                nsze,
                granularity: GRANULARITY,
                transfer_bytes_max: limits.transfer_bytes_max,
                copy_bytes_max: memory_bytes_max(core).min(u32::MAX.into()) as u32,
                copy_ranges_max: copy::RANGES_MAX as u32,
            }
        });
        let mut bytes = id.as_bytes().to_vec();
        bytes.resize(Identify::BYTES as usize, 0);
        bytes
    }

    fn add_commands(_: &DriveConfig, page: &mut CommandsSupportedLog) {
        for opcode in LocalMemoryOpcode::ALL {
            let changes = *opcode != LocalMemoryOpcode::MEMORY_READ;
            let effects = if changes { CommandsSupportedLog::LBCC } else { 0 };
            page.iocs[usize::from(opcode.0)] = CommandsSupportedLog::CSUPP | effects;
        }
    }

    fn has(opcode: u8) -> bool {
        LocalMemoryOpcode::ALL.contains(&LocalMemoryOpcode(opcode))
    }

    /// CDW3 is a field of these commands, not the length of an inline tail, so there is no inline tail.
    fn framing(sqe: &Sqe, methods: Methods) -> Framing {
        Framing::of(sqe, methods.with_inline_tail(false))
    }

    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        let c = &core.config.controller;
        match LocalMemoryOpcode(sqe.opcode()) {
            LocalMemoryOpcode::MEMORY_READ if MemoryAccess::parse(sqe).bytes > UNIT_BYTES as u32 => {
                c.read_large_pipeline
            }
            LocalMemoryOpcode::MEMORY_READ => c.read_pipeline,
            _ => c.write_pipeline,
        }
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let namespace = context.core.namespace(context.sqe.nsid)?;
        let memory = memory_of(&namespace).ok_or(Status::NAMESPACE_NOT_READY)?;
        match LocalMemoryOpcode(context.sqe.opcode()) {
            LocalMemoryOpcode::MEMORY_READ => read(context, workspace, &memory).await,
            LocalMemoryOpcode::MEMORY_WRITE => write(context, workspace, &namespace, &memory).await,
            LocalMemoryOpcode::MEMORY_FILL => fill(context, &namespace, &memory).await,
            LocalMemoryOpcode::MEMORY_COPY => copy::copy(context, workspace, &namespace, &memory).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }
    }

    /// Requested size in bytes, rounded up to whole units.
    fn parse_create(bytes: &[u8], _is_shared: bool) -> Result<(u64, Format), Status> {
        let bytes = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match bytes {
            0 => Err(INVALID_FIELD),
            _ => Ok((bytes.div_ceil(UNIT_BYTES as u64), Format::of(CommandSet::LocalMemory))),
        }
    }

    fn open(&self, core: &Core, namespace: &Namespace) -> Result<(), Status> {
        if memory_of(namespace).is_some() {
            return Ok(());
        }
        let mut others: u64 = 0;
        core.inventory.each(|other| {
            if other.set == CommandSet::LocalMemory && other.nsid != namespace.nsid {
                others = others.saturating_add(bytes_of(other));
            }
        });
        if others.saturating_add(bytes_of(namespace)) > memory_bytes_max(core) {
            return Err(Status::NAMESPACE_INSUFFICIENT_CAPACITY.with_dnr());
        }
        namespace.set_contents(Rc::new(LocalMemory::new(bytes_of(namespace))));
        Ok(())
    }

    async fn close(&self, _: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        namespace.clear_contents();
        Ok(())
    }
}

fn bytes_of(namespace: &Namespace) -> u64 {
    namespace.units().saturating_mul(UNIT_BYTES as u64)
}

fn memory_bytes_max(core: &Core) -> u64 {
    core.config.programs.as_ref().map_or(0, |policy| policy.memory_bytes)
}

/// Parses and checks Memory Read or Memory Write.
fn transfer(context: &Context<'_>, memory: &LocalMemory) -> Result<MemoryAccess, Status> {
    let access = MemoryAccess::parse(context.sqe);
    if access.bytes > context.core.config.controller.transfer_bytes_max {
        return Err(INVALID_FIELD);
    }
    check_extent(memory, access.start, access.bytes.into())?;
    Ok(access)
}

async fn read(
    context: &Context<'_>,
    workspace: &mut Workspace,
    memory: &LocalMemory,
) -> Result<Reply, Status> {
    let core = context.core;
    let access = transfer(context, memory)?;
    context.resolve(workspace, access.bytes.into(), true).await?;
    take_dram(context, access.bytes.into()).await?;
    workspace.bytes.clear();
    workspace.bytes.resize(access.bytes as usize, 0);
    memory.read(access.start, &mut workspace.bytes);
    send(context, workspace).await?;
    core.count_read(context.span, access.bytes.into());
    Ok(Reply::Done([0; 2]))
}

async fn write(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    memory: &LocalMemory,
) -> Result<Reply, Status> {
    let core = context.core;
    namespace.check_writable()?;
    let access = transfer(context, memory)?;
    context.bring(workspace, access.bytes.into(), Landing::Dram).await?;
    memory.write(access.start, &workspace.bytes);
    core.count_write(context.span, access.bytes.into());
    Ok(Reply::Done([0; 2]))
}

async fn fill(context: &Context<'_>, namespace: &Namespace, memory: &LocalMemory) -> Result<Reply, Status> {
    namespace.check_writable()?;
    let access = MemoryAccess::parse(context.sqe);
    check_extent(memory, access.start, access.bytes.into())?;
    take_dram(context, access.bytes.into()).await?;
    memory.clear(access.start, access.bytes.into());
    Ok(Reply::Done([0; 2]))
}

impl NamespaceConfig {
    /// A memory namespace; the drive needs [`DriveConfig::programs`].
    pub const fn local_memory(units: u64) -> NamespaceConfig {
        NamespaceConfig { units, block: BlockSize::B4096, set: CommandSet::LocalMemory }
    }
}
