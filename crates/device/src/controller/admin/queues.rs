//! Admin commands for queues: create, delete; and Abort (NVMe Base 2.1, 5.2 and 5.1.1).

use crate::controller::command::context::Context;
use crate::controller::core::Core;
use crate::controller::queue::ring::{CompletionQueue, QueueFate, SubmissionQueue};
use crate::controller::state::slot::ABORTS_MAX;
use byteway_wire::nvme::{Abort, CreateCq, CreateSq, DeleteQueue, Doorbell, Status};

/// The number of entries of a new queue, if its size and address are valid.
fn queue_entries(core: &Core, qsize_z: u16, pc: bool, base: u64) -> Result<u32, Status> {
    let entries = u32::from(qsize_z) + 1;
    if !(2..=core.config.controller.queue_entries_max).contains(&entries) {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    // CAP.CQR: queues must be physically contiguous.
    if !pc {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if !base.is_multiple_of(u64::from(core.registers.page_bytes.get())) {
        return Err(Status::PRP_OFFSET_INVALID.with_dnr());
    }
    Ok(entries)
}

pub(crate) fn create_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateCq::parse(context.sqe);
    let granted = core.queues.granted.get().map_or(core.config.controller.io_queues_max, |(_, cqs)| cqs);
    if command.qid == 0 || command.qid > granted || core.queues.completion(command.qid).is_some() {
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
    core.queues.announce(Doorbell::CompletionHead(command.qid));
    let queue = CompletionQueue::new(command.qid, context.sqe.prp1, entries, vector);
    core.queues.add_completion(queue.clone());
    core.shadow_completion(&queue);
    Ok(0)
}

pub(crate) fn create_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateSq::parse(context.sqe);
    let granted = core.queues.granted.get().map_or(core.config.controller.io_queues_max, |(sqs, _)| sqs);
    if command.qid == 0 || command.qid > granted || core.queues.submission(command.qid).is_some() {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let entries = queue_entries(core, command.qsize_z, command.pc, context.sqe.prp1)?;
    if core.registers.cc.get().iosqes() != 6 {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    if command.cqid == 0 || command.cqid > core.config.controller.io_queues_max {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let cq = core.queues.completion(command.cqid).ok_or(Status::COMPLETION_QUEUE_INVALID.with_dnr())?;
    core.queues.announce(Doorbell::SubmissionTail(command.qid));
    let base = context.sqe.prp1;
    let queue = SubmissionQueue::new(&core.clock, command.qid, base, entries, cq, command.qprio);
    core.queues.add_submission(queue.clone());
    core.shadow_submission(&queue);
    core.queues.arbiter.add(queue);
    Ok(0)
}

/// Deletes a submission queue. Its commands are aborted and complete first.
pub(crate) async fn delete_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.queues.submission(qid)).flatten();
    let queue = queue.filter(|queue| queue.fate.get() == QueueFate::Live);
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    queue.fate.set(QueueFate::Deleting);
    core.queues.arbiter.remove(qid);
    core.delete_train(&queue);
    core.delete_halves(qid);
    core.delete_partials(qid);
    queue.drain().await;
    context.check()?; // after a reset the queue no longer exists
    let cq = &queue.completion_queue;
    cq.users.set(cq.users.get() - 1);
    core.queues.remove_submission(qid);
    Ok(0)
}

pub(crate) fn delete_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.queues.completion(qid)).flatten();
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    if queue.users.get() > 0 {
        return Err(Status::INVALID_QUEUE_DELETION.with_dnr());
    }
    core.queues.remove_completion(qid);
    Ok(0)
}

/// Dword 0 of Abort's completion: bit 0 set means that the command was not aborted. Abort completes after the command.
pub(crate) async fn abort(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = Abort::parse(context.sqe);
    if core.queues.submission(command.sqid).is_none() {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if core.slots.aborts.get() >= ABORTS_MAX {
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
    let running = core.slots.running(command.sqid, command.cid);
    let Some((slot, member)) = running else { return Ok(Abort::NOT_ABORTED) };
    core.slots.aborts.set(core.slots.aborts.get() + 1);
    let aborted = slot.abort(member).await;
    core.slots.aborts.set(core.slots.aborts.get() - 1);
    context.check()?;
    Ok(if aborted { 0 } else { Abort::NOT_ABORTED })
}
