//! Admin commands that change namespaces and media (NVMe Base 2.1, 5.1): checked here, carried out by
//! [`operation`](crate::controller::background::operation).

use crate::config::CommandSet;
use crate::controller::background::operation::perform;
use crate::controller::command::context::Context;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::core::Core;
use crate::controller::state::operations::Operation;
use byteway_wire::FromBytes;
use byteway_wire::nvme::{
    ControllerList, FormatNvm, NSID_ALL, NamespaceAttachment, NamespaceManagement, Sanitize, Status,
};

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();

/// Format NVM (NVMe Base 2.1, 5.1.10). Metadata and protection information are not supported, so their settings are
/// refused.
pub async fn format(context: &Context<'_>) -> Result<u32, Status> {
    let command = FormatNvm::parse(context.sqe);
    let nsid = context.sqe.nsid;
    if nsid != NSID_ALL {
        context.core.inventory.active(nsid)?;
    }
    let block = context.core.inventory.set_of(nsid).format(command.lbaf)?;
    if command.pi != 0 || command.mset {
        return Err(Status::INVALID_FORMAT.with_dnr());
    }
    let erase = match command.ses {
        FormatNvm::SES_NONE => false,
        FormatNvm::SES_USER_DATA => true,
        _ => return Err(INVALID_FIELD), // cryptographic erase: there are no keys
    };
    perform(context, Operation::Format { nsid, block, erase }).await
}

/// Namespace Management (NVMe Base 2.1, 5.1.21). Dword 0 of the completion of a creation is the new identifier.
pub async fn manage(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let command = NamespaceManagement::parse(context.sqe);
    let nsid = context.sqe.nsid;
    match command.sel {
        NamespaceManagement::CREATE => {
            if nsid != 0 {
                return Err(INVALID_FIELD);
            }
            let set = CommandSet::of_csi(command.csi, &context.core.config);
            let set = set.ok_or(Status::COMMAND_SET_NOT_SUPPORTED.with_dnr())?;
            let bytes = u64::from(NamespaceManagement::BYTES);
            context.bring(workspace, bytes, Landing::Bytes).await?;
            let (blocks, format) = set.parse_create(&workspace.bytes, context.core.is_shared())?;
            let created = perform(context, Operation::Create { blocks, format }).await;
            if created.is_err_and(|status| status.is(Status::NAMESPACE_INSUFFICIENT_CAPACITY)) {
                // The error log reports the size that was requested.
                workspace.failed_information = blocks.saturating_mul(format.block.bytes() as u64);
            }
            created
        }
        NamespaceManagement::DELETE => {
            if nsid != NSID_ALL {
                context.core.known(nsid)?;
            }
            perform(context, Operation::Delete(nsid)).await
        }
        _ => Err(INVALID_FIELD),
    }
}

/// Namespace Attachment (NVMe Base 2.1, 5.1.20). The drive's controllers share attachments: a namespace is attached to
/// all of them, or to none.
pub async fn attach(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let attach = match NamespaceAttachment::parse(context.sqe).sel {
        NamespaceAttachment::ATTACH => true,
        NamespaceAttachment::DETACH => false,
        _ => return Err(INVALID_FIELD),
    };
    let nsid = context.sqe.nsid;
    context.core.known(nsid)?;
    context.bring(workspace, NamespaceAttachment::BYTES.into(), Landing::Bytes).await?;
    check_controllers(context.core, &workspace.bytes)?;
    perform(context, Operation::Attach { nsid, attach }).await
}

/// Sanitize (NVMe Base 2.1, 5.1.22).
pub async fn sanitize(context: &Context<'_>) -> Result<u32, Status> {
    let command = Sanitize::parse(context.sqe);
    is_offered(&command)?;
    perform(context, Operation::Sanitize(command)).await
}

/// Whether SANICAP offers what a command requests: a block erase that deallocates (NDI), or exit from the failure
/// state.
fn is_offered(command: &Sanitize) -> Result<(), Status> {
    match command.sanact {
        Sanitize::BLOCK_ERASE if !command.ndas && !command.emvs => Ok(()),
        Sanitize::EXIT_FAILURE => Ok(()),
        _ => Err(Status::INVALID_FIELD.with_dnr()),
    }
}

/// Checks that a list names at least one controller, and only controllers of the drive.
fn check_controllers(core: &Core, bytes: &[u8]) -> Result<(), Status> {
    let list = ControllerList::read_from_bytes(bytes).map_err(|_| INVALID_FIELD)?;
    let are_own = |ids: &[u16]| !ids.is_empty() && ids.iter().all(|id| core.ids().contains(id));
    if list.ids().is_some_and(are_own) { Ok(()) } else { Err(Status::CONTROLLER_LIST_INVALID.with_dnr()) }
}
