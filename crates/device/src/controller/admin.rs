//! The admin commands (NVMe Base 2.1, 5): queues, abort, events; and where the others are.

use crate::controller::io::Workspace;
use crate::controller::log::add;
use crate::controller::log_page::get_log_page;
use crate::controller::queue::{CompletionQueue, Fate};
use crate::controller::setting::{get_features, set_features};
use crate::controller::{
    ABORTS_MAX, Context, Core, EVENT_REQUESTS_MAX, Reply, identify, keep_alive, management, self_test,
};
use byteway_clock::Stage;
use byteway_link::{Fault, Purpose};
use byteway_transfer::Extent;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::{
    Abort, AdminOpcode, CreateCq, CreateSq, DeleteQueue, Doorbell, DoorbellBufferConfig, Identify, Status,
};
use std::rc::Rc;

/// Executes an admin command.
pub async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    // Admin commands over PCIe use PRPs (NVMe Base 2.1, 4.3), and are not fused.
    if context.sqe.psdt() != PSDT_PRP || context.sqe.fuse() != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    context.core.sanitize.check_admin(context.sqe)?;
    let dw0 = match AdminOpcode(context.sqe.opcode()) {
        AdminOpcode::CREATE_CQ => create_completion_queue(context),
        AdminOpcode::CREATE_SQ => create_submission_queue(context),
        AdminOpcode::DELETE_SQ => delete_submission_queue(context).await,
        AdminOpcode::DELETE_CQ => delete_completion_queue(context),
        AdminOpcode::IDENTIFY => {
            let page = identify::page(context, &Identify::parse(context.sqe))?;
            send(context, workspace, page).await
        }
        AdminOpcode::GET_LOG_PAGE => get_log_page(context, workspace).await,
        AdminOpcode::SET_FEATURES => set_features(context, workspace).await,
        AdminOpcode::GET_FEATURES => get_features(context, workspace).await,
        AdminOpcode::FORMAT_NVM => management::format(context).await,
        AdminOpcode::NAMESPACE_MANAGEMENT => management::manage(context, workspace).await,
        AdminOpcode::NAMESPACE_ATTACHMENT => management::attach(context, workspace).await,
        AdminOpcode::SANITIZE => management::sanitize(context).await,
        AdminOpcode::DEVICE_SELF_TEST => self_test::command(context).map(|()| 0),
        AdminOpcode::ABORT => abort(context).await,
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
        _ => Err(Status::INVALID_OPCODE.with_dnr()),
    }?;
    Ok(Reply::Done([dw0, 0]))
}

/// Sends a page of data to the host.
pub(super) async fn send(
    context: &Context<'_>,
    workspace: &mut Workspace,
    page: Vec<u8>,
) -> Result<u32, Status> {
    let core = context.core;
    context.resolve(workspace, page.len() as u64, true).await?;
    let mut at = 0;
    let mut sent = core.clock.now();
    for extent in workspace.collector.extents() {
        let count = extent.bytes() as usize;
        if let Extent::Memory(segment) = extent {
            let bytes: Rc<[u8]> = page[at..at + count].into();
            let epoch = workspace.collector.epoch();
            let written = core.port.write_bytes(segment.address, bytes, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, count as u64);
        }
        at += count;
    }
    core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()?;
    Ok(0)
}

/// The entries of a queue to be created, if the size and place are possible.
fn queue_entries(core: &Core, qsize_z: u16, pc: bool, base: u64) -> Result<u32, Status> {
    let entries = u32::from(qsize_z) + 1;
    if !(2..=core.config.controller.queue_entries_max).contains(&entries) {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    // CAP.CQR: queues are physically contiguous.
    if !pc {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if !base.is_multiple_of(u64::from(core.registers.page_bytes.get())) {
        return Err(Status::PRP_OFFSET_INVALID.with_dnr());
    }
    Ok(entries)
}

fn create_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateCq::parse(context.sqe);
    let granted = core.queues_granted.get().map_or(core.config.controller.io_queues_max, |(_, cqs)| cqs);
    if command.qid == 0 || command.qid > granted || core.completion_queue(command.qid).is_some() {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let entries = queue_entries(core, command.qsize_z, command.pc, context.sqe.prp1)?;
    if core.registers.cc.get().iocqes() != 4 {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    if command.ien && command.iv >= core.config.controller.vectors {
        return Err(Status::INVALID_INTERRUPT_VECTOR.with_dnr());
    }
    let vector = command.ien.then_some(command.iv);
    core.queue_created(Doorbell::CompletionHead(command.qid));
    let queue = CompletionQueue::new(command.qid, context.sqe.prp1, entries, vector);
    core.queues.borrow_mut().completion[command.qid as usize] = Some(queue.clone());
    core.queues_changed();
    core.shadow_completion(&queue);
    Ok(0)
}

fn create_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateSq::parse(context.sqe);
    let granted = core.queues_granted.get().map_or(core.config.controller.io_queues_max, |(sqs, _)| sqs);
    if command.qid == 0 || command.qid > granted || core.submission_queue(command.qid).is_some() {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let entries = queue_entries(core, command.qsize_z, command.pc, context.sqe.prp1)?;
    if core.registers.cc.get().iosqes() != 6 {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    if command.cqid == 0 || command.cqid > core.config.controller.io_queues_max {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let cq = core.completion_queue(command.cqid).ok_or(Status::COMPLETION_QUEUE_INVALID.with_dnr())?;
    core.add_submission_queue(command.qid, context.sqe.prp1, entries, cq, command.qprio);
    Ok(0)
}

/// Commands of the queue are aborted and complete before this does.
async fn delete_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.submission_queue(qid)).flatten();
    let queue = queue.filter(|queue| queue.fate.get() == Fate::Live);
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    queue.fate.set(Fate::Deleting);
    core.arbiter.remove(qid);
    core.delete_train(&queue);
    core.delete_halves(qid);
    core.delete_partials(qid);
    queue.drain().await;
    context.check()?; // a reset: the queue is gone already
    let cq = &queue.completion_queue;
    cq.users.set(cq.users.get() - 1);
    core.queues.borrow_mut().submission[qid as usize] = None;
    core.queues_changed();
    Ok(0)
}

fn delete_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.completion_queue(qid)).flatten();
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    if queue.users.get() > 0 {
        return Err(Status::INVALID_QUEUE_DELETION.with_dnr());
    }
    core.queues.borrow_mut().completion[qid as usize] = None;
    core.queues_changed();
    Ok(0)
}

/// Dword 0 of Abort's completion: bit 0 set says that the command was not aborted. It completes after the command.
async fn abort(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = Abort::parse(context.sqe);
    if core.submission_queue(command.sqid).is_none() {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if core.aborts.get() >= ABORTS_MAX {
        return Err(Status::ABORT_LIMIT_EXCEEDED);
    }
    if command.sqid == 0 && core.events.abort(command.cid) {
        core.answer_events();
        return Ok(0);
    }
    if core.abort_train(command.sqid, command.cid)
        || core.abort_waiting(command.sqid, command.cid)
        || core.abort_half(command.sqid, command.cid)
    {
        return Ok(0);
    }
    let running = core.slots.iter().find_map(|slot| Some((slot, slot.runs(command.sqid, command.cid)?)));
    let Some((slot, member)) = running else { return Ok(Abort::NOT_ABORTED) };
    core.aborts.set(core.aborts.get() + 1);
    let aborted = slot.abort(member).await;
    core.aborts.set(core.aborts.get() - 1);
    context.check()?;
    Ok(if aborted { 0 } else { Abort::NOT_ABORTED })
}
