//! The NVM command set (NVM Command Set 1.1): logical blocks.
//!
//! | file | what |
//! |---|---|
//! | [`io`] | Read, Write, Flush, Write Zeroes, Dataset Management, Compare |
//! | [`at_once`] | Read and Write where nothing is waited for |
//! | [`copy`], [`integrity`] | Copy; Verify and Write Uncorrectable |
//! | [`compare_and_write`] | the fused operation |
//! | [`blocks`] | blocks over units, for all of them |
//! | [`identify`] | Identify, and what namespaces of it may be like |

use crate::controller::command::context::{Context, Reply};
use crate::controller::command::pipeline::by_opcode;
use crate::controller::command::workspace::Workspace;
use crate::controller::core::Core;
use byteway_clock::Delay;
use byteway_wire::nvme::{CommandsSupportedLog, NvmOpcode, ReadWrite, Sqe, Status};

pub(crate) mod at_once;
pub mod blocks;
pub mod compare_and_write;
pub mod copy;
pub mod identify;
pub mod integrity;
pub mod io;

/// Whether a command is one of the set.
#[inline]
pub(crate) fn has(opcode: u8) -> bool {
    matches!(
        NvmOpcode(opcode),
        NvmOpcode::READ
            | NvmOpcode::WRITE
            | NvmOpcode::FLUSH
            | NvmOpcode::WRITE_ZEROES
            | NvmOpcode::DATASET_MANAGEMENT
            | NvmOpcode::COMPARE
            | NvmOpcode::VERIFY
            | NvmOpcode::WRITE_UNCORRECTABLE
            | NvmOpcode::COPY
    )
}

/// Executes a command of the set.
pub(crate) async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    match NvmOpcode(context.sqe.opcode()) {
        NvmOpcode::READ => io::read(context, workspace).await,
        NvmOpcode::WRITE => io::write(context, workspace).await,
        NvmOpcode::FLUSH => io::flush(context).await,
        NvmOpcode::WRITE_ZEROES => io::write_zeroes(context, workspace).await,
        NvmOpcode::DATASET_MANAGEMENT => io::deallocate(context, workspace).await,
        NvmOpcode::COMPARE => io::compare(context, workspace).await,
        NvmOpcode::VERIFY => integrity::verify(context, workspace).await,
        NvmOpcode::WRITE_UNCORRECTABLE => integrity::mark_unreadable(context, workspace).await,
        NvmOpcode::COPY => copy::copy(context, workspace).await,
        _ => Err(Status::INVALID_OPCODE.with_dnr()),
    }?;
    Ok(Reply::Done([0; 2]))
}

/// What the pipeline takes for a command.
pub(crate) fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
    by_opcode(core, sqe, || match core.inventory.block_bytes(sqe.nsid) {
        0 => sqe.cdw10 as usize, // there is no such namespace
        block => ReadWrite::parse(sqe).blocks() as usize * block,
    })
}

/// The effects of the set's commands, for the log of those that are supported.
pub(crate) fn add_commands(page: &mut CommandsSupportedLog) {
    const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
    const CHANGES_BLOCKS: u32 = SUPPORTED | CommandsSupportedLog::LBCC;
    for (opcode, effects) in [
        (NvmOpcode::FLUSH, SUPPORTED),
        (NvmOpcode::WRITE, CHANGES_BLOCKS),
        (NvmOpcode::READ, SUPPORTED),
        (NvmOpcode::WRITE_UNCORRECTABLE, CHANGES_BLOCKS),
        (NvmOpcode::COMPARE, SUPPORTED),
        (NvmOpcode::WRITE_ZEROES, CHANGES_BLOCKS),
        (NvmOpcode::DATASET_MANAGEMENT, CHANGES_BLOCKS),
        (NvmOpcode::VERIFY, SUPPORTED),
        (NvmOpcode::COPY, CHANGES_BLOCKS),
    ] {
        // Their scope, a namespace, may be left untold: Linux warns of I/O commands that have more than these effects.
        page.iocs[usize::from(opcode.0)] = effects;
    }
}
