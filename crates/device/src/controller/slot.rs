//! Command slots: each executes one command after another, from parsing to completion.
//!
//! Nearly all commands are plain, and a call carries them out ([`Records`]), as the record of its slot: a step, and what waits for the
//! next. Any other command is a task's, which is written as a flow from top to bottom and may wait anywhere.
//!
//! A task is made with the first command of its slot that is one, not with each: a command then allocates nothing, and
//! the slots are the limit of commands in execution. An Abort finds its target among them.

use crate::controller::admin;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::Workspace;
use crate::controller::command_set::CommandSets;
use crate::controller::command_set::lending::HeldByLoan;
use crate::controller::command_set::nvm::plain::Plain;
use crate::controller::core::Core;
use crate::controller::queue::ring::QueueFate;
use crate::controller::queue::waiting::Waiting;
use crate::controller::state::slot::{Command, Member, Payload, Slot};
use byteway_clock::{Delay, Handler, Stage, Time};
use byteway_firmware::{Progress, Route, WorkKind};
use byteway_transfer::collector::Supported;
use byteway_wire::nvme::vendor::Chunk;
use byteway_wire::nvme::{SglRules, Status};
use std::cell::{OnceCell, RefCell};
use std::pin::pin;
use std::rc::Rc;

/// Runs a command slot until its task is killed.
pub async fn run(sets: Rc<CommandSets>, index: u32) {
    let core = &sets.core;
    let slot = core.slots.at(index).clone();
    let mut workspace = Workspace::new(supported(core));
    loop {
        let Command { sqe, permit, span, payload, second, parse, .. } = slot.next().await;
        if let Some(second) = second {
            run_fused(&sets, &slot, &mut workspace, Waiting { sqe, permit, span }, *second).await;
            core.free_slot(index);
            core.end();
            continue;
        }
        let queue = permit.queue().clone();
        core.clock.works_for([span]);
        let lent = sets.lending.of(&queue);
        // The command sets that execute the command: the borrower's, if the queue is lent.
        let at = lent.as_ref().map_or(&sets, |lent| &lent.borrower);
        let _held = lent.as_ref().map(|lent| HeldByLoan::of(&lent.borrower.core));
        let context = Context {
            core: &at.core,
            route: lent.as_ref().map_or_else(|| core.route(queue.id, &sqe), |lent| lent.loan.route),
            loan: lent.as_ref().map(|lent| &*lent.loan),
            slot: &slot,
            queue: &queue,
            permit: &permit,
            sqe: &sqe,
            span,
            payload,
            member: Member::First,
        };
        (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
        // A command without its parse reserved is charged for fetching and parsing here; then the pipeline's latency passes.
        let parse = match parse {
            Some(parse) => parse,
            None => {
                let parse = core.placement.chain_apart(WorkKind::Fetch, WorkKind::Parse).await;
                let parse = at.after_parse(queue.id, &sqe, parse);
                core.clock.sleep_until(parse.end).await;
                parse
            }
        };
        context.charge_firmware(parse.queued);
        match payload {
            Payload::Train(slots) => context.take_in(slots.count()).await,
            Payload::Chunked(slots) => context.take_in(Chunk::count(slots.bytes)).await,
            Payload::Pointer | Payload::Refused(_) => {}
        }
        let outcome = match (context.check(), &lent) {
            (Err(status), _) => Err(status),
            (Ok(()), Some(lent)) => {
                let executed = {
                    let execution = pin!(at.execute(&context, &mut workspace));
                    lent.loan.unless_revoked(execution).await
                };
                // A cancelled command may have left its workspace in any state.
                executed.unwrap_or_else(|| {
                    workspace = Workspace::new(supported(core));
                    Err(Status::COMMAND_INTERRUPTED)
                })
            }
            (Ok(()), None) if queue.id == 0 => admin::execute(&sets, &context, &mut workspace).await,
            (Ok(()), None) => at.execute(&context, &mut workspace).await,
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
                at.end_failed(&context);
                (status, [workspace.failed_dword, 0])
            }
        };
        // Only now does the command hold no namespace: changes of namespaces wait for this.
        at.core.background.command_ended();
        let complete = core.placement.reserve(WorkKind::Complete, 1);
        core.clock.sleep_until(complete.end).await;
        context.charge_firmware(complete.queued);
        if lent.is_some() {
            core.placement.note_lent(&[WorkKind::Fetch, WorkKind::Parse, WorkKind::Complete]);
        }
        // A queue that is being reset gets no completion: the permit is dropped below, and gives its completion slot
        // back.
        if queue.fate.get() != QueueFate::Reset {
            if status != Status::SUCCESS {
                let (lba, information) = (workspace.failed_lba, workspace.failed_information);
                core.errors.record(queue.id, &sqe, status, lba, information);
            }
            match result {
                Some(bytes) => core.post_result(permit, sqe.cid(), dwords, bytes, span),
                None => core.post(permit, sqe.cid(), status, dwords, span),
            }
        }
        // The permit is used and the slot is clear before `end`, which a reset waits for.
        slot.clear(status, Status::SUCCESS);
        core.free_slot(index);
        core.end();
    }
}

/// A plain command under way. Its entry, permit and span stay in its slot.
struct Record {
    /// The instant at which the next step is due, if it is not another call's to say.
    due: Time,
    stage: CommandStage,
}

/// What is left to do of a command.
enum CommandStage {
    /// Nothing: there is none.
    Free,
    /// All, from this step on.
    Plain(Plain),
    /// Its completion, with this status, once it has waited for a core; and its block, for the error log.
    Complete { status: Status, queued: Delay, lba: u64 },
}

/// The plain commands of a controller, by slot.
pub struct Records {
    sets: Rc<CommandSets>,
    /// Made when a slot has its first one, as the slots are.
    all: Vec<OnceCell<Box<RefCell<Record>>>>,
}

/// What a step comes to.
type Progressed = Result<Progress<()>, Status>;

impl Records {
    /// Has calls carry out the plain commands of a controller.
    pub fn start(sets: &Rc<CommandSets>) -> Handler {
        let slots = &sets.core.slots;
        let all = (0..slots.count()).map(|_| OnceCell::new()).collect();
        let records = Records { sets: sets.clone(), all };
        let handler = sets.core.clock.handle(move |index| records.go_on(index));
        slots.call_by(handler);
        handler
    }

    /// Carries a slot's command on, as far as it goes without a wait.
    fn go_on(&self, index: u32) {
        let core = &self.sets.core;
        let free = || Box::new(RefCell::new(Record { due: Time::ZERO, stage: CommandStage::Free }));
        let record = &mut *self.all[index as usize].get_or_init(free).borrow_mut();
        let slot = core.slots.at(index);
        if record.due > Time::ZERO {
            core.clock.note_call(std::mem::take(&mut record.due));
        }
        loop {
            let progressed = match &mut record.stage {
                CommandStage::Plain(plain) => self.step(slot, |context| plain.go_on(context)),
                CommandStage::Complete { .. } => return self.complete(index, slot, record),
                CommandStage::Free => match self.begin(slot, record) {
                    Some(begun) => begun,
                    None => return core.slots.leave_to_task(index),
                },
            };
            let at = match progressed {
                Ok(Progress::Until(at)) => at,
                Ok(Progress::Called) => return,
                Ok(Progress::Ended(())) => self.end(slot, record, Status::SUCCESS),
                Err(status) => self.end(slot, record, status),
            };
            if !core.clock.has_passed(at) {
                record.due = at;
                return;
            }
        }
    }

    /// Begins the command that has been parsed, if it is plain.
    #[inline]
    fn begin(&self, slot: &Slot, record: &mut Record) -> Option<Progressed> {
        let (plain, queued) = {
            let command = slot.carried_out();
            let Command { sqe, permit, parse, .. } = command.as_ref()?;
            let plain = self.sets.plain(permit.queue(), sqe)?;
            (plain, parse.map_or(Delay::ZERO, |parse| parse.queued))
        };
        slot.set_called(true);
        record.stage = CommandStage::Plain(plain);
        let CommandStage::Plain(plain) = &mut record.stage else { return None };
        Some(self.step(slot, |context| {
            context.charge_firmware(queued);
            context.check()?;
            plain.begin(context)
        }))
    }

    /// Ends what a command does, with this status. Returns the instant at which it is to be completed.
    #[inline]
    fn end(&self, slot: &Slot, record: &mut Record, status: Status) -> Time {
        let core = &self.sets.core;
        let CommandStage::Plain(Plain { lba, .. }) = record.stage else { return Time::ZERO };
        if status != Status::SUCCESS {
            let _ = self.step(slot, |context| {
                self.sets.end_failed(context);
                Ok(Progress::Called)
            });
        }
        let complete = core.placement.reserve(WorkKind::Complete, 1);
        record.stage = CommandStage::Complete { status, queued: complete.queued, lba };
        // Only now does the command hold no namespace: changes of namespaces wait for this.
        core.background.command_ended();
        complete.end
    }

    /// Completes a command.
    #[inline]
    fn complete(&self, index: u32, slot: &Slot, record: &mut Record) {
        let CommandStage::Complete { status, queued, lba } = record.stage else { return };
        record.stage = CommandStage::Free;
        slot.set_called(false);
        let Some(Command { sqe, permit, span, .. }) = slot.carried_out().take() else { return };
        let core = &self.sets.core;
        core.clock.works_for([span]);
        core.port.spans().charge_split(span, core.clock.now(), queued, Stage::Firmware);
        // A queue that is being reset gets no completion: the permit is dropped, and gives its completion slot back.
        let queue = permit.queue();
        match queue.fate.get() {
            QueueFate::Reset => drop(permit),
            QueueFate::Live | QueueFate::Deleting => {
                if status != Status::SUCCESS {
                    core.errors.record(queue.id, &sqe, status, lba, 0);
                }
                core.post(permit, sqe.cid(), status, [0; 2], span);
            }
        }
        // The permit is used and the slot is clear before `end`, which a reset waits for.
        slot.clear(status, Status::SUCCESS);
        core.free_slot(index);
        core.end();
    }

    /// Has `take` take a step of a slot's command in its context.
    #[inline]
    fn step(&self, slot: &Slot, take: impl FnOnce(&Context<'_>) -> Progressed) -> Progressed {
        let core = &self.sets.core;
        let command = slot.carried_out();
        let Some(Command { sqe, permit, span, .. }) = command.as_ref() else { return Ok(Progress::Called) };
        core.clock.works_for([*span]);
        take(&Context {
            core,
            slot,
            queue: permit.queue(),
            permit,
            sqe,
            span: *span,
            payload: Payload::Pointer,
            member: Member::First,
            route: Route::OWN,
            loan: None,
        })
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        let core = &self.sets.core;
        for record in self.all.iter_mut().filter_map(OnceCell::get_mut) {
            if let CommandStage::Plain(plain) = &mut record.get_mut().stage {
                plain.give_up(core);
            }
        }
    }
}

/// The kinds of data pointers that commands may use.
fn supported(core: &Core) -> Supported {
    Supported { sgl: core.config.controller.sgl.then(SglRules::default) }
}

/// Executes a fused operation and completes both commands in order. The caller frees the slot.
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
    let lent = sets.lending.of(&queue);
    let at = lent.as_ref().map_or(sets, |lent| &*lent.borrower);
    let _held = lent.as_ref().map(|lent| HeldByLoan::of(&lent.borrower.core));
    let loan = lent.as_ref().map(|lent| &*lent.loan);
    let both = [(&first, Member::First), (&second, Member::Second)].map(|(command, member)| {
        let Waiting { sqe, permit, span } = command;
        let route = loan.map_or_else(|| core.route(queue.id, sqe), |loan| loan.route);
        let (core, payload, span) = (&at.core, Payload::Pointer, *span);
        Context { core, slot, queue: &queue, permit, sqe, span, payload, member, route, loan }
    });
    (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
    let parsed = [
        core.placement.chain_apart(WorkKind::Fetch, WorkKind::Parse).await,
        core.placement.chain_apart(WorkKind::Fetch, WorkKind::Parse).await,
    ];
    let pipelines = at.pipeline(queue.id, both[0].sqe) + at.pipeline(queue.id, both[1].sqe);
    core.clock.sleep_until(parsed[0].end.max(parsed[1].end) + pipelines).await;
    both.iter().for_each(|context| context.charge_firmware(parsed[0].queued + parsed[1].queued));
    let statuses = match loan {
        None => at.execute_fused(&both, workspace).await,
        Some(loan) => {
            let executed = {
                let execution = pin!(at.execute_fused(&both, workspace));
                loan.unless_revoked(execution).await
            };
            executed.unwrap_or_else(|| {
                *workspace = Workspace::new(supported(core));
                [Status::COMMAND_INTERRUPTED; 2]
            })
        }
    };
    at.core.background.command_ended();
    both[1].charge(Stage::Queueing); // until here its time went into waiting for the first
    let complete = core.placement.run(WorkKind::Complete, 2).await;
    both[0].charge_firmware(complete.queued);
    both[1].charge_firmware(complete.queued);
    if queue.fate.get() != QueueFate::Reset {
        for (Waiting { sqe, permit, span }, status) in [first, second].into_iter().zip(statuses) {
            if status != Status::SUCCESS {
                core.errors.record(queue.id, &sqe, status, workspace.failed_lba, 0);
            }
            core.post(permit, sqe.cid(), status, [0; 2], span);
        }
    }
    slot.clear(statuses[0], statuses[1]);
}

/// Drops the commands of a lent queue whose borrower was removed: they end without a completion, as in a
/// reset, and their slots become free. The queue stays lent, so that no further command of it is executed.
pub(crate) fn abandon(sets: &Rc<CommandSets>, qid: u16) {
    let core = &sets.core;
    sets.lending.end(qid);
    for index in 0..core.slots.count() {
        let slot = core.slots.at(index);
        if slot.queue() != Some(qid) {
            continue;
        }
        // The new task must exist before the old one dies: the slot may get its next command at once.
        let next = core.clock.spawn("command slot", run(sets.clone(), index));
        if let Some(task) = slot.task.replace(Some(next)) {
            core.clock.kill(task);
        }
        slot.clear(Status::ABORTED_SQ_DELETED, Status::ABORTED_SQ_DELETED);
        core.free_slot(index);
        core.end();
    }
}
