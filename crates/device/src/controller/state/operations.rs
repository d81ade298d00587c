//! Namespace changes that commands wait for, one at a time.

use crate::controller::namespace::{Format, Namespace};
use byteway_clock::{Clock, Notify};
use byteway_content::BlockSize;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::{Sanitize, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A namespace change.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Creates a namespace.
    Create {
        /// Size in blocks, or in units without blocks.
        blocks: u64,
        /// Format.
        format: Format,
    },
    /// Deletes a namespace, or all.
    Delete(u32),
    /// Attaches or detaches a namespace.
    Attach {
        /// Namespace identifier.
        nsid: u32,
        /// Attach; otherwise detach.
        attach: bool,
    },
    /// Formats a namespace, or all attached ones.
    Format {
        /// Namespace identifier.
        nsid: u32,
        /// New block size.
        block: BlockSize,
        /// Also erase the former contents from the media.
        erase: bool,
    },
    /// Sets the write protection of a namespace, or of all attached ones.
    Protect {
        /// Namespace identifier.
        nsid: u32,
        /// New write protection state.
        state: WriteProtection,
    },
    /// Starts a sanitize operation, or exits its failure state.
    Sanitize(Sanitize),
}

/// The result of a change, once it has ended: dword 0 of the completion.
pub(crate) type Outcome = Rc<Cell<Option<Result<u32, Status>>>>;

/// A change that was accepted.
pub(crate) struct Accepted {
    pub(crate) operation: Operation,
    /// Number of the controller that received the command, from 0.
    pub(crate) controller: usize,
    pub(crate) outcome: Outcome,
}

/// The queue of namespace changes, which holds at most one.
pub struct Operations {
    /// A change was accepted and has not ended.
    is_busy: Cell<bool>,
    next: RefCell<Option<Accepted>>,
    arrived: Notify,
    /// A change has ended, or waiting commands must check their queue.
    changed: Notify,
    /// Number of tasks that wait for commands to end.
    quiescing: Cell<u32>,
    released: Notify,
}

impl Operations {
    /// No changes.
    pub fn new(clock: &Clock) -> Self {
        Operations {
            is_busy: Cell::default(),
            next: RefCell::default(),
            arrived: Notify::new(clock),
            changed: Notify::new(clock),
            quiescing: Cell::default(),
            released: Notify::new(clock),
        }
    }

    /// A command has ended and no longer holds a namespace.
    #[inline]
    pub fn command_ended(&self) {
        if self.quiescing.get() > 0 {
            self.released.notify_all();
        }
    }

    /// Whether a change was accepted and has not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.get()
    }

    /// Accepts a change for a controller. There must be none.
    pub(crate) fn accept(&self, operation: Operation, controller: usize) -> Outcome {
        debug_assert!(!self.is_busy.get(), "changes are made one at a time");
        self.is_busy.set(true);
        let outcome = Outcome::default();
        self.next.replace(Some(Accepted { operation, controller, outcome: outcome.clone() }));
        self.arrived.notify_one();
        outcome
    }

    /// Waits for an accepted change.
    pub(crate) async fn next(&self) -> Accepted {
        loop {
            self.arrived.notified().await;
            if let Some(next) = self.next.take() {
                return next;
            }
        }
    }

    /// Ends the change with `result`.
    pub(crate) fn end(&self, outcome: &Outcome, result: Result<u32, Status>) {
        outcome.set(Some(result));
        self.is_busy.set(false);
        self.changed.notify_all();
    }

    /// Makes commands that wait for a change check their queue.
    pub(crate) fn wake_commands(&self) {
        self.changed.notify_all();
    }

    /// Waits until a change has ended, or waiting commands must check their queue.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until no command holds a namespace. `holders` references belong to known holders and remain.
    pub(crate) async fn quiesce(&self, namespace: &Rc<Namespace>, holders: usize) {
        self.quiescing.set(self.quiescing.get() + 1);
        while Rc::strong_count(namespace) > holders {
            self.released.notified().await;
        }
        self.quiescing.set(self.quiescing.get() - 1);
    }
}
