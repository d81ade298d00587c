//! The admin commands that change namespaces and media (NVMe Base 2.1, 5.1): looked at here, carried out by
//! [`operation`](super::operation).

use crate::controller::identify::CONTROLLER_ID;
use crate::controller::io::{Landing, Workspace};
use crate::controller::namespace::{FORMATS, Format};
use crate::controller::operation::{Operation, perform};
use crate::controller::{Context, sanitize};
use byteway_wire::FromBytes;
use byteway_wire::content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::kv::identify::IdentifyNamespaceKv;
use byteway_wire::nvme::{
    ControllerList, FormatNvm, IdentifyNamespace, NSID_ALL, NamespaceAttachment, NamespaceManagement,
    Sanitize, Status, csi,
};

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();

/// Format NVM (NVMe Base 2.1, 5.1.10). There is no metadata, so neither its settings nor protection can be had.
pub async fn format(context: &Context<'_>) -> Result<u32, Status> {
    let command = FormatNvm::parse(context.sqe);
    let nsid = context.sqe.nsid;
    if nsid != NSID_ALL {
        context.core.inventory.active(nsid)?;
    }
    let is_kv = context.core.inventory.is_kv(nsid);
    if is_kv && command.lbaf != 0 {
        return Err(Status::INVALID_FORMAT.with_dnr()); // pairs have one format
    }
    let block = format_of(command.lbaf)?;
    if command.pi != 0 || command.mset {
        return Err(Status::INVALID_FORMAT.with_dnr());
    }
    let erase = match command.ses {
        FormatNvm::SES_NONE => false,
        FormatNvm::SES_USER_DATA => true,
        _ => return Err(INVALID_FIELD), // there are no keys that could be thrown away
    };
    perform(context, Operation::Format { nsid, block, erase }).await
}

fn format_of(index: u8) -> Result<BlockSize, Status> {
    FORMATS.get(usize::from(index)).copied().ok_or(Status::INVALID_FORMAT.with_dnr())
}

/// Namespace Management (NVMe Base 2.1, 5.1.21). Dword 0 of a creation's completion is the new identifier.
pub async fn manage(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let command = NamespaceManagement::parse(context.sqe);
    let nsid = context.sqe.nsid;
    match command.sel {
        NamespaceManagement::CREATE => {
            if nsid != 0 {
                return Err(INVALID_FIELD);
            }
            let has_kv = context.core.config.kv.is_some();
            if command.csi != csi::NVM && !(has_kv && command.csi == csi::KEY_VALUE) {
                return Err(Status::COMMAND_SET_NOT_SUPPORTED.with_dnr());
            }
            let bytes = u64::from(NamespaceManagement::BYTES);
            context.bring(workspace, bytes, Landing::Bytes).await?;
            let (blocks, format) = match command.csi {
                csi::KEY_VALUE => wanted_pairs(&workspace.bytes)?,
                _ => wanted_blocks(&workspace.bytes)?,
            };
            let created = perform(context, Operation::Create { blocks, format }).await;
            if created.is_err_and(|status| status.is(Status::NAMESPACE_INSUFFICIENT_CAPACITY)) {
                // The error log tells how much it would have taken.
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

/// The size of a namespace of pairs that is to be created, units.
fn wanted_pairs(bytes: &[u8]) -> Result<(u64, Format), Status> {
    let wanted = IdentifyNamespaceKv::read_from_bytes(bytes).map_err(|_| INVALID_FIELD)?;
    let is_plain = wanted.kvfc & 0xF == 0 && wanted.nmic == 0 && wanted.anagrpid == 0;
    if wanted.nsze == 0 || !is_plain || wanted.nvmsetid != 0 || wanted.endgid != 0 {
        return Err(INVALID_FIELD);
    }
    Ok((wanted.nsze.div_ceil(UNIT_BYTES as u64), Format::KEY_VALUE))
}

/// The size of a namespace of blocks that is to be created, if the drive can make one like it.
fn wanted_blocks(bytes: &[u8]) -> Result<(u64, Format), Status> {
    let wanted = IdentifyNamespace::read_from_bytes(bytes).map_err(|_| INVALID_FIELD)?;
    // The extended part of the index counts only where there are more than 16 formats.
    let block = format_of(wanted.flbas & 0xF)?;
    if wanted.nsze == 0 || wanted.ncap > wanted.nsze {
        return Err(INVALID_FIELD);
    }
    if wanted.ncap < wanted.nsze {
        return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.with_dnr());
    }
    let is_plain = wanted.flbas & 0x10 == 0 && wanted.dps == 0 && wanted.nmic == 0;
    if !is_plain || wanted.anagrpid != 0 || wanted.nvmsetid != 0 || wanted.endgid != 0 {
        return Err(INVALID_FIELD);
    }
    Ok((wanted.nsze, Format::blocks(block)))
}

/// Namespace Attachment (NVMe Base 2.1, 5.1.20), to the one controller that there is.
pub async fn attach(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let attach = match NamespaceAttachment::parse(context.sqe).sel {
        NamespaceAttachment::ATTACH => true,
        NamespaceAttachment::DETACH => false,
        _ => return Err(INVALID_FIELD),
    };
    let nsid = context.sqe.nsid;
    context.core.known(nsid)?;
    context.bring(workspace, NamespaceAttachment::BYTES.into(), Landing::Bytes).await?;
    let list = ControllerList::read_from_bytes(&workspace.bytes).map_err(|_| INVALID_FIELD)?;
    if list.ids() != Some(&[CONTROLLER_ID]) {
        return Err(Status::CONTROLLER_LIST_INVALID.with_dnr());
    }
    perform(context, Operation::Attach { nsid, attach }).await
}

/// Sanitize (NVMe Base 2.1, 5.1.22).
pub async fn sanitize(context: &Context<'_>) -> Result<u32, Status> {
    let command = Sanitize::parse(context.sqe);
    sanitize::is_offered(&command)?;
    perform(context, Operation::Sanitize(command)).await
}
