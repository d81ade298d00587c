//! Command slots: tasks made once, each executing one command after another.

use crate::controller::queue::ring::{Fate, Permit, SubmissionQueue};
use crate::controller::queue::waiting::Waiting;
use byteway_clock::{Clock, Delay, Notify, Service, SpanId, TaskId, Time};
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AdminOpcode, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Slots for admin commands, beside those for I/O: an admin command never waits for I/O.
const ADMIN_SLOTS: usize = 8;
/// Abort commands executed at once. Each waits in its slot for the command that it aborts; other admin commands have
/// slots left.
pub const ABORTS_MAX: u32 = 4;

/// A command that was fetched.
pub struct Command {
    /// Its entry.
    pub sqe: Sqe,
    /// The right and duty to complete it.
    pub permit: Permit,
    /// Who follows it.
    pub span: SpanId,
    /// Where its payload is.
    pub payload: Payload,
    /// The other command, if this is the first of a fused operation.
    pub second: Option<Box<Waiting>>,
    /// When it is parsed, if a core was reserved as it was handed over: its slot does nothing before. None: the slot sees to it.
    pub parse: Option<Service>,
}

/// Which of the commands in a slot: a fused operation has two, all others only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// The first, or the only one.
    First,
    /// The second of a fused operation.
    Second,
}

/// The commands in a slot.
#[derive(Clone, Copy)]
struct Running {
    sqid: u16,
    first: u16,
    second: Option<u16>,
}

/// Where a command's payload is, when the command is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Where its data pointer says, if it has any.
    Pointer,
    /// It came behind the command, and lies in the slot's buffer.
    Train(InlineSlots),
    /// It came in chunks, and lies in the slot's buffer.
    Chunked(InlineSlots),
    /// It can't be had, for this reason.
    Refused(Status),
}

/// A place in which commands are executed.
pub struct Slot {
    clock: Clock,
    waiting: Cell<Option<TaskId>>,
    inbox: RefCell<Option<Command>>,
    /// Payload that came by the queue, filled before the command is handed over. Reused from command to command.
    pub carried: RefCell<Vec<u8>>,
    running: Cell<Option<Running>>,
    /// Whether that command can be aborted.
    abortable: Cell<bool>,
    /// Whether an Abort has asked for the first, and for the second.
    aborted: [Cell<bool>; 2],
    /// Counts the commands that ran here, fused ones as one.
    turn: Cell<u64>,
    /// How the commands of the last turn ended.
    ended_with: Cell<[Status; 2]>,
    ended: Notify,
}

impl Slot {
    /// An empty slot.
    pub fn new(clock: &Clock) -> Rc<Self> {
        Rc::new(Slot {
            clock: clock.clone(),
            waiting: Cell::default(),
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

    /// Hands the slot a command. Its task wakes when that is parsed.
    pub fn dispatch(&self, command: Command) {
        let qid = command.permit.queue().id;
        let second = command.second.as_ref().map(|second| second.sqe.cid());
        self.running.set(Some(Running { sqid: qid, first: command.sqe.cid(), second }));
        // Two that abort each other would wait for each other; and a queue that is half deleted can't be kept.
        let opcode = AdminOpcode(command.sqe.opcode());
        self.abortable.set(qid != 0 || !matches!(opcode, AdminOpcode::ABORT | AdminOpcode::DELETE_SQ));
        self.aborted.iter().for_each(|aborted| aborted.set(false));
        let parsed = command.parse.map_or(Time::ZERO, |parse| parse.end);
        self.inbox.replace(Some(command));
        if let Some(task) = self.waiting.take() {
            self.clock.wake_at(parsed, task);
        }
    }

    /// The next command, for the slot's task.
    pub async fn next(&self) -> Command {
        poll_fn(|_| {
            let mut inbox = self.inbox.borrow_mut();
            match inbox.as_ref().map(|command| command.parse) {
                None => self.waiting.set(Some(self.clock.current())),
                // Woken early, or it didn't wait when the command came.
                Some(Some(parse)) if parse.end > self.clock.now() => {
                    self.clock.wake_at(parse.end, self.clock.current());
                }
                Some(_) => return inbox.take().map_or(Poll::Pending, Poll::Ready),
            }
            Poll::Pending
        })
        .await
    }

    /// The command has ended, with `status`; of a fused operation, both have.
    pub fn clear(&self, first: Status, second: Status) {
        self.running.set(None);
        self.ended_with.set([first, second]);
        self.turn.set(self.turn.get() + 1);
        self.ended.notify_all();
    }

    /// Which command of this slot is `cid` of queue `sqid`, if one is.
    pub fn runs(&self, sqid: u16, cid: u16) -> Option<Member> {
        let running = self.running.get().filter(|running| running.sqid == sqid)?;
        match running {
            Running { first, .. } if first == cid => Some(Member::First),
            Running { second: Some(second), .. } if second == cid => Some(Member::Second),
            _ => None,
        }
    }

    /// The submission queue whose command runs here, if one does.
    pub fn queue(&self) -> Option<u16> {
        self.running.get().map(|running| running.sqid)
    }

    /// Asks the command to end, which looks after each wait, and waits until it has. Whether this has aborted it: not if an
    /// earlier Abort has asked for the same, which is the one that says so.
    pub async fn abort(&self, member: Member) -> bool {
        if !self.abortable.get() || self.aborted[member as usize].replace(true) {
            return false;
        }
        let turn = self.turn.get();
        let mut status = None;
        while status.is_none() {
            self.ended.notified().await;
            // Read at the first notification: the slot's next command may end before its second.
            status = (self.turn.get() != turn).then(|| self.ended_with.get()[member as usize]);
        }
        status == Some(Status::ABORT_REQUESTED)
    }

    /// Whether a command that runs here, from `queue`, is to go on.
    pub fn check(&self, queue: &SubmissionQueue, member: Member) -> Result<(), Status> {
        match queue.fate.get() {
            Fate::Live if self.aborted[member as usize].get() => Err(Status::ABORT_REQUESTED),
            Fate::Live => Ok(()),
            Fate::Deleting | Fate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }
}

/// All command slots of a controller, and how many commands are in flight.
pub struct Slots {
    all: Vec<Rc<Slot>>,
    free_io: RefCell<Vec<u32>>,
    free_admin: RefCell<Vec<u32>>,
    /// Reads of entries, and commands, in flight.
    in_flight: Cell<u32>,
    /// Since when there has been any.
    busy_since: Cell<Time>,
    quiet: Notify,
    /// Abort commands that wait for the command that they abort.
    pub aborts: Cell<u32>,
}

impl Slots {
    /// `io` slots for I/O commands, and those for admin commands.
    pub fn new(clock: &Clock, io: usize) -> Self {
        let all: Vec<_> = (0..io + ADMIN_SLOTS).map(|_| Slot::new(clock)).collect();
        Slots {
            free_io: RefCell::new((0..io as u32).rev().collect()),
            free_admin: RefCell::new((io as u32..all.len() as u32).rev().collect()),
            all,
            in_flight: Cell::default(),
            busy_since: Cell::default(),
            quiet: Notify::new(clock),
            aborts: Cell::default(),
        }
    }

    /// Slots in all.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Slot `index`.
    #[inline]
    pub fn at(&self, index: u32) -> &Rc<Slot> {
        &self.all[index as usize]
    }

    /// Takes a free slot.
    pub fn take(&self, admin: bool) -> Option<u32> {
        if admin { self.free_admin.borrow_mut().pop() } else { self.free_io.borrow_mut().pop() }
    }

    /// Slot `index` is free again.
    pub fn give_back(&self, index: u32) {
        if (index as usize) < self.all.len() - ADMIN_SLOTS {
            self.free_io.borrow_mut().push(index);
        } else {
            self.free_admin.borrow_mut().push(index);
        }
    }

    /// Whether a slot for an admin command is free, and how many for I/O commands are.
    pub fn free(&self) -> (bool, u32) {
        (!self.free_admin.borrow().is_empty(), self.free_io.borrow().len() as u32)
    }

    /// Whether all slots are free.
    pub fn all_free(&self) -> bool {
        self.free_io.borrow().len() + self.free_admin.borrow().len() == self.all.len()
    }

    /// The slot that runs command `cid` of queue `sqid`, and which of its commands that is.
    pub fn running(&self, sqid: u16, cid: u16) -> Option<(&Rc<Slot>, Member)> {
        self.all.iter().find_map(|slot| Some((slot, slot.runs(sqid, cid)?)))
    }

    /// Begins something that a reset waits for.
    pub fn begin(&self, now: Time) {
        if self.in_flight.get() == 0 {
            self.busy_since.set(now);
        }
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Ends it. If nothing is in flight any more, gives for how long something was.
    pub fn end(&self, now: Time) -> Option<Delay> {
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
