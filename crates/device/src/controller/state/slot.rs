//! Command slots: one task each, which executes one command after another. A slot is made when it is taken for the first
//! time, and its task with its first command that is a task's: few drives ever use as many slots as they have, and each task takes
//! tens of kilobytes.

use crate::controller::queue::ring::{Permit, QueueFate, SubmissionQueue};
use crate::controller::queue::waiting::Waiting;
use byteway_clock::{Clock, Delay, Handler, Notify, Service, SpanId, TaskId, Time};
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AdminOpcode, Sqe, Status};
use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Slots reserved for admin commands, so that an admin command never waits for I/O.
const ADMIN_SLOTS: usize = 8;
/// Maximum number of concurrent Abort commands (ACL + 1). Each waits in its slot for the command that it aborts, and
/// other admin commands must find a free slot.
pub const ABORTS_MAX: u32 = 4;

/// A command that was fetched.
pub struct Command {
    /// Submission queue entry.
    pub sqe: Sqe,
    /// The permit to complete it.
    pub permit: Permit,
    /// Trace span of the I/O.
    pub span: SpanId,
    /// Source of its payload.
    pub payload: Payload,
    /// The second command, if this is the first of a fused operation.
    pub second: Option<Box<Waiting>>,
    /// End of the parsing, if a core was reserved for it at fetch: the slot does nothing before. `None`: the slot does
    /// the parsing.
    pub parse: Option<Service>,
    /// Whether it may be carried out by calls: they look at it first, once it is parsed.
    pub may_be_plain: bool,
}

impl Command {
    /// A command that its slot's task carries out, parsing included.
    pub fn new(sqe: Sqe, permit: Permit, span: SpanId, payload: Payload) -> Command {
        Command { sqe, permit, span, payload, second: None, parse: None, may_be_plain: false }
    }
}

/// Selects a command in a slot: a fused operation has two, any other command only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The first or only one.
    First,
    /// The second of a fused operation.
    Second,
}

/// Identifiers of the commands in a slot.
#[derive(Clone, Copy)]
struct Running {
    sqid: u16,
    first: u16,
    second: Option<u16>,
}

/// Source of a command's payload at execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The data pointer, if the command has data.
    Pointer,
    /// The entries after the command, already in the slot's buffer.
    Train(InlineSlots),
    /// Chunks, already in the slot's buffer.
    Chunked(InlineSlots),
    /// Unavailable; the command fails with this status.
    Refused(Status),
}

/// A command slot.
pub struct Slot {
    clock: Clock,
    /// Its task, once there is one.
    pub task: Cell<Option<TaskId>>,
    waiting: Cell<Option<TaskId>>,
    /// The call that carries out plain commands; `None`: the task carries out all.
    call: Cell<Option<TaskId>>,
    /// Whether that call carries out the command in the inbox.
    is_called: Cell<bool>,
    inbox: RefCell<Option<Command>>,
    /// Payload from the submission queue, filled before the command is dispatched. Reused.
    pub carried: RefCell<Vec<u8>>,
    running: Cell<Option<Running>>,
    /// Whether the current command can be aborted.
    abortable: Cell<bool>,
    /// Whether an Abort was requested for the first and for the second command.
    aborted: [Cell<bool>; 2],
    /// Number of commands that ran here; a fused operation counts as one.
    turn: Cell<u64>,
    /// Final statuses of the last turn.
    ended_with: Cell<[Status; 2]>,
    ended: Notify,
}

impl Slot {
    /// A free slot.
    pub fn new(clock: &Clock) -> Rc<Self> {
        Rc::new(Slot {
            clock: clock.clone(),
            task: Cell::default(),
            waiting: Cell::default(),
            call: Cell::default(),
            is_called: Cell::default(),
            inbox: RefCell::default(),
            carried: RefCell::default(),
            running: Cell::default(),
            abortable: Cell::default(),
            aborted: Default::default(),
            turn: Cell::default(),
            ended_with: Cell::default(),
            ended: Notify::new(clock),
        })
    }

    /// Hands the slot a command. Its call is made, or its task wakes, when the command is parsed.
    #[inline]
    fn dispatch(&self, command: Command) {
        debug_assert!(self.running.get().is_none(), "a slot runs two commands");
        let qid = command.permit.queue().id;
        let second = command.second.as_ref().map(|second| second.sqe.cid());
        self.running.set(Some(Running { sqid: qid, first: command.sqe.cid(), second }));
        // Two Aborts that abort each other would wait for each other, and a queue can't stay half deleted.
        let opcode = AdminOpcode(command.sqe.opcode());
        self.abortable.set(qid != 0 || !matches!(opcode, AdminOpcode::ABORT | AdminOpcode::DELETE_SQ));
        self.aborted.iter().for_each(|aborted| aborted.set(false));
        let parsed = command.parse.map_or(Time::ZERO, |parse| parse.end);
        let call = self.call_for(&command);
        *self.inbox.borrow_mut() = Some(command);
        // A task that was made for this command waits for nothing yet.
        if let Some(waiter) = call.or_else(|| self.waiting.take()).or(self.task.get()) {
            self.clock.wake_at(parsed, waiter);
        }
    }

    /// The call that looks at a command first, if one does.
    fn call_for(&self, command: &Command) -> Option<TaskId> {
        self.call.get().filter(|_| command.may_be_plain && command.parse.is_some())
    }

    /// For that call: the command that it carries out, which stays here until it is complete; spares moving it from place to place.
    #[inline]
    pub fn carried_out(&self) -> RefMut<'_, Option<Command>> {
        self.inbox.borrow_mut()
    }

    /// For that call: sets whether it carries the command out.
    #[inline]
    pub fn set_called(&self, is_called: bool) {
        self.is_called.set(is_called);
    }

    /// Waits for the next command; called by the slot's task.
    pub async fn next(&self) -> Command {
        poll_fn(|_| {
            let mut inbox = self.inbox.borrow_mut();
            match inbox.as_ref().map(|command| command.parse) {
                _ if self.is_called.get() => self.waiting.set(Some(self.clock.current())),
                None => self.waiting.set(Some(self.clock.current())),
                // The task was woken early, or was not waiting when the command arrived.
                Some(Some(parse)) if parse.end > self.clock.now() => {
                    self.clock.wake_at(parse.end, self.clock.current());
                }
                Some(_) => return inbox.take().map_or(Poll::Pending, Poll::Ready),
            }
            Poll::Pending
        })
        .await
    }

    /// Clears the slot: the command has ended with `first`; of a fused operation the second has ended with `second`.
    pub fn clear(&self, first: Status, second: Status) {
        debug_assert!(self.running.get().is_some(), "a command ends in a slot that runs none");
        self.running.set(None);
        self.ended_with.set([first, second]);
        self.turn.set(self.turn.get() + 1);
        self.ended.notify_all();
    }

    /// The command of this slot that is `cid` of queue `sqid`, if any.
    pub fn runs(&self, sqid: u16, cid: u16) -> Option<Member> {
        let running = self.running.get().filter(|running| running.sqid == sqid)?;
        match running {
            Running { first, .. } if first == cid => Some(Member::First),
            Running { second: Some(second), .. } if second == cid => Some(Member::Second),
            _ => None,
        }
    }

    /// The submission queue of the running command, if there is one.
    pub fn queue(&self) -> Option<u16> {
        self.running.get().map(|running| running.sqid)
    }

    /// Requests that the command end at its next check, and waits until it has. Returns whether this Abort caused the
    /// end: `false` if an earlier Abort made the same request, as that one reports it.
    pub async fn abort(&self, member: Member) -> bool {
        if !self.abortable.get() || self.aborted[member as usize].replace(true) {
            return false;
        }
        let turn = self.turn.get();
        let mut status = None;
        while status.is_none() {
            self.ended.notified().await;
            // Read the status at the first notification: the slot's next command may end before a second one.
            status = (self.turn.get() != turn).then(|| self.ended_with.get()[member as usize]);
        }
        status == Some(Status::ABORT_REQUESTED)
    }

    /// The status that ends a running command of `queue`, if it must end.
    pub fn check(&self, queue: &SubmissionQueue, member: Member) -> Result<(), Status> {
        match queue.fate.get() {
            QueueFate::Live if self.aborted[member as usize].get() => Err(Status::ABORT_REQUESTED),
            QueueFate::Live => Ok(()),
            QueueFate::Deleting | QueueFate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }
}

/// All command slots of a controller, and the number of activities in flight.
pub struct Slots {
    clock: Clock,
    all: Vec<OnceCell<Rc<Slot>>>,
    /// Called with the index of a slot, to carry out its plain command.
    calls: Cell<Option<Handler>>,
    /// Starts the task of a slot.
    start: OnceCell<Box<dyn Fn(u32) -> Option<TaskId>>>,
    free_io: RefCell<Vec<u32>>,
    free_admin: RefCell<Vec<u32>>,
    /// Reads of entries and commands in flight.
    in_flight: Cell<u32>,
    /// Start of the current busy period.
    busy_since: Cell<Time>,
    quiet: Notify,
    /// Abort commands that wait for their target.
    pub aborts: Cell<u32>,
}

impl Slots {
    /// `io` slots for I/O commands, in addition to those for admin commands.
    pub fn new(clock: &Clock, io: usize) -> Self {
        let all = vec![OnceCell::new(); io + ADMIN_SLOTS];
        Slots {
            clock: clock.clone(),
            free_io: RefCell::new((0..io as u32).rev().collect()),
            free_admin: RefCell::new((io as u32..all.len() as u32).rev().collect()),
            all,
            calls: Cell::default(),
            start: OnceCell::new(),
            in_flight: Cell::default(),
            busy_since: Cell::default(),
            quiet: Notify::new(clock),
            aborts: Cell::default(),
        }
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Slot `index`.
    #[inline]
    pub fn at(&self, index: u32) -> &Rc<Slot> {
        self.all[index as usize].get_or_init(|| {
            let slot = Slot::new(&self.clock);
            slot.call.set(self.calls.get().map(|calls| calls.with(index)));
            slot
        })
    }

    /// Sets what is called for commands which may be plain, before any slot is taken.
    pub fn call_by(&self, calls: Handler) {
        self.calls.set(Some(calls));
    }

    /// Sets what starts the task of a slot. Only the first call has an effect.
    pub fn start_by(&self, start: impl Fn(u32) -> Option<TaskId> + 'static) {
        self.start.set(Box::new(start)).ok();
    }

    /// Takes a free slot.
    pub fn take(&self, admin: bool) -> Option<u32> {
        let free = if admin { &self.free_admin } else { &self.free_io };
        let index = free.borrow_mut().pop()?;
        debug_assert!(self.at(index).queue().is_none(), "a free slot runs a command");
        Some(index)
    }

    /// Hands a slot a command. Commands begin in the order of these calls: the pieces of a payload rely on it where modelled waits take no
    /// time. So a task is made here, and not when its slot is taken.
    #[inline]
    pub fn dispatch(&self, index: u32, command: Command) {
        let slot = self.at(index);
        if slot.call_for(&command).is_none() {
            self.start_task(index, slot);
        }
        slot.dispatch(command);
    }

    /// For the call of a slot: leaves its command to the slot's task, in the same instant and before all else.
    pub fn leave_to_task(&self, index: u32) {
        let slot = self.at(index);
        if slot.inbox.borrow().is_none() {
            return; // it was ended since
        }
        self.start_task(index, slot);
        slot.waiting.set(None);
        if let Some(task) = slot.task.get() {
            self.clock.wake_first(task);
        }
    }

    /// Starts the task of a slot, if it has none.
    fn start_task(&self, index: u32, slot: &Slot) {
        if slot.task.get().is_none() {
            slot.task.set(self.start.get().and_then(|start| start(index)));
        }
    }

    /// The slots that were taken before.
    fn made(&self) -> impl Iterator<Item = &Rc<Slot>> {
        self.all.iter().filter_map(OnceCell::get)
    }

    /// The tasks of all slots that have one, which they lose.
    pub fn take_tasks(&self) -> impl Iterator<Item = TaskId> {
        self.made().filter_map(|slot| slot.task.take())
    }

    /// Frees slot `index`.
    pub fn give_back(&self, index: u32) {
        debug_assert!(!self.free_io.borrow().contains(&index) && !self.free_admin.borrow().contains(&index));
        if (index as usize) < self.all.len() - ADMIN_SLOTS {
            self.free_io.borrow_mut().push(index);
        } else {
            self.free_admin.borrow_mut().push(index);
        }
    }

    /// Whether an admin slot is free, and the number of free I/O slots.
    pub fn free(&self) -> (bool, u32) {
        (!self.free_admin.borrow().is_empty(), self.free_io.borrow().len() as u32)
    }

    /// Whether all slots are free.
    pub fn all_free(&self) -> bool {
        self.free_io.borrow().len() + self.free_admin.borrow().len() == self.all.len()
    }

    /// The slot that runs command `cid` of queue `sqid`, and which of its commands that is.
    pub fn running(&self, sqid: u16, cid: u16) -> Option<(&Rc<Slot>, Member)> {
        self.made().find_map(|slot| Some((slot, slot.runs(sqid, cid)?)))
    }

    /// Begins an activity that a reset waits for.
    pub fn begin(&self, now: Time) {
        if self.in_flight.get() == 0 {
            self.busy_since.set(now);
        }
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Ends an activity. If it was the last one, returns the length of the busy period.
    pub fn end(&self, now: Time) -> Option<Delay> {
        debug_assert!(self.in_flight.get() > 0, "more activities have ended than begun");
        self.in_flight.set(self.in_flight.get() - 1);
        let is_quiet = self.in_flight.get() == 0;
        is_quiet.then(|| {
            self.quiet.notify_all();
            now.since(self.busy_since.get())
        })
    }

    /// Whether anything is in flight.
    pub fn is_busy(&self) -> bool {
        self.in_flight.get() > 0
    }

    /// Waits until nothing is in flight.
    pub async fn drain(&self) {
        while self.in_flight.get() > 0 {
            self.quiet.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::queue::ring::CompletionQueue;
    use byteway_clock::Executor;
    use byteway_wire::nvme::QueuePriority;

    /// Slots whose tasks log their indices when they get a command, and commands of a queue.
    fn bench(clock: &Clock) -> (Rc<Slots>, Rc<SubmissionQueue>, Rc<RefCell<Vec<u32>>>) {
        let (slots, begun) = (Rc::new(Slots::new(clock, 1000)), Rc::<RefCell<Vec<u32>>>::default());
        let (weak, log, inner) = (Rc::downgrade(&slots), begun.clone(), clock.clone());
        slots.start_by(move |index| {
            let (slot, log) = (weak.upgrade()?.at(index).clone(), log.clone());
            Some(inner.spawn("command slot", async move {
                loop {
                    let command = slot.next().await;
                    log.borrow_mut().push(index);
                    drop(command);
                    slot.clear(Status::SUCCESS, Status::SUCCESS);
                }
            }))
        });
        let completion = CompletionQueue::new(1, 0, 1000, None);
        let queue = SubmissionQueue::new(clock, 1, 0, 1000, completion, QueuePriority::Medium);
        queue.set_tail(900).expect("it is empty");
        (slots, queue, begun)
    }

    fn dispatch(slots: &Slots, queue: &Rc<SubmissionQueue>, index: u32) {
        let (_, permit) = queue.take();
        let (sqe, span, payload) = (Sqe::default(), SpanId::NONE, Payload::Pointer);
        let command = Command { sqe, permit, span, payload, second: None, parse: None, may_be_plain: false };
        slots.dispatch(index, command);
    }

    // With a task for each slot from the start, most of a drive's memory, and of the time to make it, was in tasks that
    // never had a command.
    #[test]
    fn a_slot_gets_its_task_with_its_first_command() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (slots, queue, begun) = bench(&clock);
        assert_eq!((slots.take(false), slots.take(false), slots.take(true)), (Some(0), Some(1), Some(1000)));
        assert_eq!(slots.take_tasks().count(), 0, "they have no command");
        dispatch(&slots, &queue, 1);
        executor.run(async move { clock.sleep(Delay(1)).await }).expect("it sleeps");
        assert_eq!(*begun.borrow(), [1]);
        assert_eq!((slots.take_tasks().count(), slots.take_tasks().count()), (1, 0));
    }

    // A past error: of the pieces of a payload in one read of entries, those in new slots came before those in slots that had a task.
    #[test]
    fn commands_begin_in_the_order_in_which_they_are_dispatched() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (slots, queue, begun) = bench(&clock);
        let (inner, test_slots) = (clock.clone(), slots.clone());
        let test = async move {
            (0..4).for_each(|_| _ = test_slots.take(false));
            dispatch(&test_slots, &queue, 2);
            inner.sleep(Delay(1)).await;
            (0..4).for_each(|index| dispatch(&test_slots, &queue, 3 - index));
            inner.sleep(Delay(1)).await;
        };
        executor.run(test).expect("it sleeps");
        assert_eq!(*begun.borrow(), [2, 3, 2, 1, 0]);
    }
}
