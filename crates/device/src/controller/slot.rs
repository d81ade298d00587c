//! A command slot: it executes one command after another, from parsing to completion.

use crate::controller::admin;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::CommandSets;
use crate::controller::queue::ring::Fate;
use crate::controller::queue::waiting::Waiting;
use crate::controller::state::slot::{Command, Member, Payload, Slot};
use byteway_clock::{Service, Stage};
use byteway_firmware::Work;
use byteway_transfer::collector::Supported;
use byteway_wire::nvme::vendor::Chunk;
use byteway_wire::nvme::{SglRules, Status};
use std::rc::Rc;

/// A command slot's life.
pub async fn run(sets: Rc<CommandSets>, index: u32) {
    let core = &sets.core;
    let slot = core.slots.at(index).clone();
    let sgl = core.config.controller.sgl.then(SglRules::default);
    let mut workspace = Workspace::new(Supported { sgl });
    loop {
        let Command { sqe, permit, span, payload, second, parse } = slot.next().await;
        if let Some(second) = second {
            run_fused(&sets, &slot, &mut workspace, Waiting { sqe, permit, span }, *second).await;
            core.free_slot(index);
            core.end();
            continue;
        }
        let queue = permit.queue().clone();
        core.clock.works_for([span]);
        let context = Context {
            core,
            slot: &slot,
            queue: &queue,
            permit: &permit,
            sqe: &sqe,
            span,
            payload,
            member: Member::First,
        };
        (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
        let parse = match parse {
            Some(parse) => parse,
            None => {
                let parse = core.placement.chain_apart(Work::Fetch, Work::Parse).await;
                let end = parse.end + sets.pipeline(queue.id, &sqe);
                core.clock.sleep_until(end).await;
                Service { end, ..parse }
            }
        };
        context.charge_firmware(parse.queued);
        match payload {
            Payload::Train(slots) => context.take_in(slots.count()).await,
            Payload::Chunked(slots) => context.take_in(Chunk::count(slots.bytes)).await,
            Payload::Pointer | Payload::Refused(_) => {}
        }
        let outcome = match context.check() {
            Err(status) => Err(status),
            Ok(()) if queue.id == 0 => admin::execute(&sets, &context, &mut workspace).await,
            Ok(()) => match sets.plain(&context) {
                Some(plain) if plain.is_read() => {
                    plain.read(&context, &mut workspace).await.map(|()| Reply::Done([0; 2]))
                }
                Some(plain) => plain.write(&context, &mut workspace).await.map(|()| Reply::Done([0; 2])),
                None => sets.execute(&context, &mut workspace).await,
            },
        };
        let mut result = None;
        let (status, dwords) = match outcome {
            Ok(Reply::Done(dwords)) => (Status::SUCCESS, dwords),
            Ok(Reply::Result(dwords)) => {
                result = Some(&workspace.bytes[..]);
                (Status::SUCCESS, dwords)
            }
            Ok(Reply::Parked) => {
                core.park(permit, sqe.cid());
                slot.clear(Status::SUCCESS, Status::SUCCESS);
                core.free_slot(index);
                core.end();
                continue;
            }
            Err(status) => {
                sets.end_failed(&context);
                (status, [workspace.failed_dword, 0])
            }
        };
        core.background.command_ended();
        let complete = core.placement.reserve(Work::Complete, 1);
        core.clock.sleep_until(complete.end).await;
        context.charge_firmware(complete.queued);
        if queue.fate.get() != Fate::Reset {
            if status != Status::SUCCESS {
                let (lba, information) = (workspace.failed_lba, workspace.failed_information);
                core.errors.record(queue.id, &sqe, status, lba, information);
            }
            match result {
                Some(bytes) => core.post_result(permit, sqe.cid(), dwords, bytes, span),
                None => core.post(permit, sqe.cid(), status, dwords, span),
            }
        }
        slot.clear(status, Status::SUCCESS);
        core.free_slot(index);
        core.end();
    }
}

/// Executes a fused operation, and completes both commands in their order, in a slot that the caller frees.
async fn run_fused(
    sets: &CommandSets,
    slot: &Slot,
    workspace: &mut Workspace,
    first: Waiting,
    second: Waiting,
) {
    let core = &sets.core;
    let queue = first.permit.queue().clone();
    core.clock.works_for([first.span, second.span]);
    let both = [(&first, Member::First), (&second, Member::Second)].map(|(command, member)| {
        let Waiting { sqe, permit, span } = command;
        Context { core, slot, queue: &queue, permit, sqe, span: *span, payload: Payload::Pointer, member }
    });
    (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
    let parsed = [
        core.placement.chain_apart(Work::Fetch, Work::Parse).await,
        core.placement.chain_apart(Work::Fetch, Work::Parse).await,
    ];
    let pipelines = sets.pipeline(queue.id, both[0].sqe) + sets.pipeline(queue.id, both[1].sqe);
    core.clock.sleep_until(parsed[0].end.max(parsed[1].end) + pipelines).await;
    both.iter().for_each(|context| context.charge_firmware(parsed[0].queued + parsed[1].queued));
    let statuses = sets.execute_fused(&both, workspace).await;
    core.background.command_ended();
    both[1].charge(Stage::Queueing); // until here for what the first needed alone
    let complete = core.placement.run(Work::Complete, 2).await;
    both[0].charge_firmware(complete.queued);
    both[1].charge_firmware(complete.queued);
    if queue.fate.get() != Fate::Reset {
        for (Waiting { sqe, permit, span }, status) in [first, second].into_iter().zip(statuses) {
            if status != Status::SUCCESS {
                core.errors.record(queue.id, &sqe, status, workspace.failed_lba, 0);
            }
            core.post(permit, sqe.cid(), status, [0; 2], span);
        }
    }
    slot.clear(statuses[0], statuses[1]);
}
