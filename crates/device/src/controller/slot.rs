//! Command slots: tasks made once, each executing one command after another.

use crate::controller::queue::{Fate, Permit, SubmissionQueue};
use byteway_clock::{Clock, Notify, SpanId, TaskId};
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AdminOpcode, Sqe, Status};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

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
    /// The queue and identifier of the command that runs here.
    running: Cell<Option<(u16, u16)>>,
    /// Whether that command can be aborted.
    abortable: Cell<bool>,
    aborted: Cell<bool>,
    /// Counts the commands that ran here.
    turn: Cell<u64>,
    /// The last of them that ended because it was aborted.
    turn_aborted: Cell<Option<u64>>,
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
            aborted: Cell::default(),
            turn: Cell::default(),
            turn_aborted: Cell::default(),
            ended: Notify::new(clock),
        })
    }

    /// Hands the slot a command.
    pub fn dispatch(&self, command: Command) {
        let qid = command.permit.queue().id;
        self.running.set(Some((qid, command.sqe.cid())));
        // Two that abort each other would wait for each other; and a queue that is half deleted can't be kept.
        let opcode = AdminOpcode(command.sqe.opcode());
        self.abortable.set(qid != 0 || !matches!(opcode, AdminOpcode::ABORT | AdminOpcode::DELETE_SQ));
        self.aborted.set(false);
        self.inbox.replace(Some(command));
        if let Some(task) = self.waiting.take() {
            self.clock.wake(task);
        }
    }

    /// The next command, for the slot's task.
    pub async fn next(&self) -> Command {
        poll_fn(|_| match self.inbox.take() {
            Some(command) => Poll::Ready(command),
            None => {
                self.waiting.set(Some(self.clock.current()));
                Poll::Pending
            }
        })
        .await
    }

    /// The command has ended, with `status`.
    pub fn clear(&self, status: Status) {
        self.running.set(None);
        if status == Status::ABORT_REQUESTED {
            self.turn_aborted.set(Some(self.turn.get()));
        }
        self.turn.set(self.turn.get() + 1);
        self.ended.notify_all();
    }

    /// Whether command `cid` of queue `sqid` runs here.
    pub fn runs(&self, sqid: u16, cid: u16) -> bool {
        self.running.get() == Some((sqid, cid))
    }

    /// Asks the command to end, which looks after each wait, and waits until it has. Whether it was aborted.
    pub async fn abort(&self) -> bool {
        if !self.abortable.get() {
            return false;
        }
        self.aborted.set(true);
        let turn = self.turn.get();
        while self.turn.get() == turn {
            self.ended.notified().await;
        }
        self.turn_aborted.get() == Some(turn)
    }

    /// Whether the command that runs here, from `queue`, is to go on.
    pub fn check(&self, queue: &SubmissionQueue) -> Result<(), Status> {
        match queue.fate.get() {
            Fate::Live if self.aborted.get() => Err(Status::ABORT_REQUESTED),
            Fate::Live => Ok(()),
            Fate::Deleting | Fate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }
}
