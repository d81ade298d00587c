//! The admin commands (NVMe Base 2.1, 5).
//!
//! | file | what |
//! |---|---|
//! | [`queues`] | creation and deletion of queues; Abort |
//! | [`identify`], [`log_page`], [`log`] | Identify and log pages |
//! | [`setting`] | features |
//! | [`management`], [`self_test`] | changes and tests of namespaces and media |
//! | [`keep_alive`] | the Keep Alive Timer |

use crate::controller::admin::log_page::get_log_page;
use crate::controller::admin::setting::{get_features, set_features};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send_page;
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::CommandSets;
use crate::controller::state::event::EVENT_REQUESTS_MAX;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::{AdminOpcode, DoorbellBufferConfig, Identify, Status};

pub mod identify;
pub mod keep_alive;
pub mod log;
pub mod log_page;
pub mod management;
pub mod queues;
pub mod self_test;
pub mod setting;

/// Executes an admin command.
pub async fn execute(
    sets: &CommandSets,
    context: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Reply, Status> {
    // Admin commands over PCIe use PRPs (NVMe Base 2.1, 4.3), and can't be fused.
    if context.sqe.psdt() != PSDT_PRP || context.sqe.fuse() != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.core.background.sanitize.check_admin(context.sqe)?;
    let dw0 = match AdminOpcode(context.sqe.opcode()) {
        AdminOpcode::CREATE_CQ => queues::create_completion_queue(context),
        AdminOpcode::CREATE_SQ => queues::create_submission_queue(context),
        AdminOpcode::DELETE_SQ => queues::delete_submission_queue(context).await,
        AdminOpcode::DELETE_CQ => queues::delete_completion_queue(context),
        AdminOpcode::IDENTIFY => {
            let page = identify::page(context, &Identify::parse(context.sqe))?;
            send_page(context, workspace, page).await
        }
        AdminOpcode::GET_LOG_PAGE => get_log_page(sets, context, workspace).await,
        AdminOpcode::SET_FEATURES => set_features(context, workspace).await,
        AdminOpcode::GET_FEATURES => get_features(context, workspace).await,
        // With raw flash the array belongs to the host: there is nothing to format.
        AdminOpcode::FORMAT_NVM
        | AdminOpcode::NAMESPACE_MANAGEMENT
        | AdminOpcode::NAMESPACE_ATTACHMENT
        | AdminOpcode::SANITIZE
            if context.core.config.is_raw() =>
        {
            Err(Status::INVALID_OPCODE.with_dnr())
        }
        AdminOpcode::FORMAT_NVM => management::format(context).await,
        AdminOpcode::NAMESPACE_MANAGEMENT => management::manage(context, workspace).await,
        AdminOpcode::NAMESPACE_ATTACHMENT => management::attach(context, workspace).await,
        // Over an array, deleted data may remain on the members, which are not asked to erase it.
        AdminOpcode::SANITIZE if !context.core.backing.has_own_media() => {
            Err(Status::INVALID_OPCODE.with_dnr())
        }
        AdminOpcode::SANITIZE => management::sanitize(context).await,
        AdminOpcode::DEVICE_SELF_TEST => self_test::command(context).map(|()| 0),
        AdminOpcode::ABORT => queues::abort(context).await,
        AdminOpcode::KEEP_ALIVE => {
            keep_alive::restart(context.core);
            Ok(0)
        }
        AdminOpcode::DOORBELL_BUFFER_CONFIG if context.core.config.controller.shadow_doorbells => {
            context.core.configure_shadow(&DoorbellBufferConfig::parse(context.sqe))?;
            Ok(0)
        }
        AdminOpcode::ASYNC_EVENT_REQUEST => {
            if context.core.events.parked() >= EVENT_REQUESTS_MAX {
                return Err(Status::AER_LIMIT_EXCEEDED.with_dnr());
            }
            return Ok(Reply::Parked);
        }
        _ => sets.execute_admin(context, workspace).await,
    }?;
    Ok(Reply::Done([dw0, 0]))
}
