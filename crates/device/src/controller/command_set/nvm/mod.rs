//! The NVM command set (NVM Command Set 1.1): logical blocks.
//!
//! | file | what |
//! |---|---|
//! | [`plain`] | the fast path of reads and writes of one whole unit |
//! | [`io`] | Read, Write, Flush, Write Zeroes, Dataset Management, Compare |
//! | `at_once` | Read and Write in immediate mode |
//! | [`copy`], [`integrity`] | Copy; Verify and Write Uncorrectable |
//! | [`compare_and_write`] | the fused operation |
//! | [`blocks`] | blocks over units, shared by all commands |
//! | [`identify`] | Identify, and the sizes of block namespaces |

use crate::config::DriveConfig;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::pipeline::by_opcode;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::{CommandsSupportedLog, IdentifyController, NvmOpcode, ReadWrite, Sqe, Status, csi};

pub(crate) mod at_once;
pub mod blocks;
pub mod compare_and_write;
pub mod copy;
pub mod identify;
pub mod integrity;
pub mod io;
pub mod plain;

/// The command set, which has no state: the data is in the drive's units.
pub struct Nvm;

impl IoCommandSet for Nvm {
    const CSI: Option<u8> = Some(csi::NVM);

    fn new(_: &Clock, _: &DriveConfig) -> Self {
        Nvm
    }

    fn is_offered(_: &DriveConfig) -> bool {
        true
    }

    fn describe(core: &Core, id: &mut IdentifyController) {
        identify::describe(core, id);
    }

    fn identify_controller() -> Vec<u8> {
        identify::controller().as_bytes().to_vec()
    }

    fn identify_namespace(_: &Core, _: Option<(&Namespace, Limits)>) -> Vec<u8> {
        identify::of_set().as_bytes().to_vec()
    }

    fn identify_blocks(core: &Core, namespace: Option<(&Namespace, Limits)>) -> Result<Vec<u8>, Status> {
        let id = match namespace {
            Some((namespace, limits)) => identify::namespace(namespace, limits),
            None => identify::capabilities(core.config.controller.transfer_bytes_max),
        };
        Ok(id.as_bytes().to_vec())
    }

    fn add_commands(_: &DriveConfig, page: &mut CommandsSupportedLog) {
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
            // The scope bits of namespace-level effects may be omitted: Linux warns about I/O commands that have more
            // than these effects.
            page.iocs[usize::from(opcode.0)] = effects;
        }
    }

    #[inline]
    fn has(opcode: u8) -> bool {
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

    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        by_opcode(core, sqe, || match core.inventory.block_bytes(sqe.nsid) {
            0 => sqe.cdw10 as usize, // the namespace does not exist
            block => ReadWrite::parse(sqe).blocks() as usize * block,
        })
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        match NvmOpcode(context.sqe.opcode()) {
            NvmOpcode::READ => io::read(context, workspace).await,
            NvmOpcode::WRITE => io::write(context, workspace).await,
            NvmOpcode::FLUSH => io::flush(context).await,
            NvmOpcode::WRITE_ZEROES => io::write_zeroes(context, workspace).await,
            NvmOpcode::DATASET_MANAGEMENT => io::deallocate(context, workspace).await,
            NvmOpcode::COMPARE => io::compare(context, workspace).await,
            NvmOpcode::VERIFY => integrity::verify(context, workspace).await,
            // Over an array, parity would reconstruct blocks that were made unreadable.
            NvmOpcode::WRITE_UNCORRECTABLE if !context.core.backing.has_own_media() => {
                Err(Status::INVALID_OPCODE.with_dnr())
            }
            NvmOpcode::WRITE_UNCORRECTABLE => integrity::mark_unreadable(context, workspace).await,
            NvmOpcode::COPY => copy::copy(context, workspace).await,
            _ => Err(Status::INVALID_OPCODE.with_dnr()),
        }?;
        Ok(Reply::Done([0; 2]))
    }

    async fn execute_fused(&self, both: &[Context<'_>; 2], workspace: &mut Workspace) -> [Status; 2] {
        compare_and_write::execute(both, workspace).await
    }

    fn format(index: u8) -> Result<BlockSize, Status> {
        identify::format_of(index)
    }

    fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
        identify::parse_create(bytes, is_shared)
    }
}
