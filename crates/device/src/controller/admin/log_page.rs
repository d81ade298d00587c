//! Get Log Page (NVMe Base 2.1, 5.1.12).

use crate::config::CommandSet;
use crate::controller::admin::log::{
    collection, commands_supported, features_supported, pace, smart_of, supported_log_pages,
};
use crate::controller::command::context::Context;
use crate::controller::command::send::send_page;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::CommandSets;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::identify::ascii_field;
use byteway_wire::nvme::{FirmwareSlotLog, GetLogPage, NSID_ALL, NvmeMiCommandsSupportedLog, Status, lid};

/// Sends a part of a page, and clears the event that announced it unless RAE is set.
pub async fn get_log_page(
    sets: &CommandSets,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<u32, Status> {
    let core = context.core;
    let command = GetLogPage::parse(context.sqe);
    let of_namespace = sets.log_page(context.sqe.nsid, command.lid);
    let is_of_namespace = of_namespace.is_some();
    let page = of_namespace.or_else(|| page(sets, command.lid, command.csi));
    let page = page.ok_or(Status::INVALID_LOG_PAGE.with_dnr())?;
    let (offset, wanted) = (command.lpo, command.bytes());
    let transfer_max = u64::from(core.config.controller.transfer_bytes_max);
    // A page of the controller's scope must not name a namespace.
    let is_named_right = is_of_namespace || context.sqe.nsid == NSID_ALL || context.sqe.nsid == 0;
    if !is_named_right || command.ot || offset % 4 != 0 || offset > page.len() as u64 || wanted > transfer_max
    {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let mut part = page[offset as usize..].to_vec();
    part.resize(wanted as usize, 0);
    // Changes that occur while the page is transferred are not in it, and stay in the list.
    let told = (command.lid == lid::CHANGED_NAMESPACE_LIST && !command.rae).then(|| core.inventory.changes());
    send_page(context, workspace, part).await?;
    if !command.rae {
        if let Some(told) = told {
            core.inventory.forget_changes(told);
            if core.is_shared() {
                core.refresh_refusals();
            }
        }
        core.events.log_read(command.lid);
        core.events.wake();
    }
    Ok(0)
}

/// The current contents of a log page; `None`: not supported.
fn page(sets: &CommandSets, lid: u8, csi: u8) -> Option<Vec<u8>> {
    let core = &sets.core;
    Some(match lid {
        lid::SUPPORTED_LOG_PAGES => {
            supported_log_pages(&core.config, core.clock.timing()).as_bytes().to_vec()
        }
        lid::ERROR_INFORMATION => core.errors.page(),
        lid::SMART => smart_of(core).as_bytes().to_vec(),
        lid::FIRMWARE_SLOT => {
            let mut page = FirmwareSlotLog { afi: 1, ..Default::default() };
            page.frs[0] = ascii_field(env!("CARGO_PKG_VERSION"));
            page.as_bytes().to_vec()
        }
        lid::CHANGED_NAMESPACE_LIST => core.inventory.changed_log().as_bytes().to_vec(),
        lid::COMMANDS_SUPPORTED => {
            let set = CommandSet::of_csi(csi, &core.config).unwrap_or(CommandSet::Nvm);
            commands_supported(&core.config, core.backing.has_own_media(), set).as_bytes().to_vec()
        }
        lid::DEVICE_SELF_TEST => core.background.self_test.log().as_bytes().to_vec(),
        lid::FEATURES_SUPPORTED => features_supported(&core.config).as_bytes().to_vec(),
        // Empty: there is no management endpoint.
        lid::NVME_MI_COMMANDS_SUPPORTED => NvmeMiCommandsSupportedLog::default().as_bytes().to_vec(),
        lid::SANITIZE_STATUS => {
            core.background.sanitize.log(core.backing.user_units_written()).as_bytes().to_vec()
        }
        lid::PACE => pace(core.clock.timing()?, core.clock.pace()).as_bytes().to_vec(),
        lid::DEVICE_MEMORY if core.config.transfer.memory.is_some() => sets.memory_log().as_bytes().to_vec(),
        lid::COLLECTION if core.config.controller.collection_windows => {
            collection(core.backing.ftl()?.collection()).as_bytes().to_vec()
        }
        _ => return None,
    })
}
