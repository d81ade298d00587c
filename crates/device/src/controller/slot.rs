//! Command slots: tasks made once, each executing one command after another.

use crate::controller::queue::{Fate, Permit, SubmissionQueue};
use byteway_clock::{Clock, SpanId, TaskId};
use byteway_wire::nvme::{Sqe, Status};
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
}

/// A place in which commands are executed.
pub struct Slot {
    clock: Clock,
    waiting: Cell<Option<TaskId>>,
    inbox: RefCell<Option<Command>>,
    /// The queue and identifier of the command that runs here.
    running: Cell<Option<(u16, u16)>>,
    aborted: Cell<bool>,
}

impl Slot {
    /// An empty slot.
    pub fn new(clock: &Clock) -> Rc<Self> {
        Rc::new(Slot {
            clock: clock.clone(),
            waiting: Cell::default(),
            inbox: RefCell::default(),
            running: Cell::default(),
            aborted: Cell::default(),
        })
    }

    /// Hands the slot a command.
    pub fn dispatch(&self, command: Command) {
        self.running.set(Some((command.permit.queue().id, command.sqe.cid())));
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

    /// The command has ended.
    pub fn clear(&self) {
        self.running.set(None);
    }

    /// Whether command `cid` of queue `sqid` runs here.
    pub fn runs(&self, sqid: u16, cid: u16) -> bool {
        self.running.get() == Some((sqid, cid))
    }

    /// Asks the command to end; it looks after each wait.
    pub fn abort(&self) {
        self.aborted.set(true);
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
