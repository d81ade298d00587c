//! Changes of namespaces that commands wait for: one at a time.

use crate::controller::namespace::{Format, Namespace};
use byteway_clock::{Clock, Notify};
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::{Sanitize, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A change.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A new namespace.
    Create {
        /// Of so many blocks, or units.
        blocks: u64,
        /// What it holds.
        format: Format,
    },
    /// A namespace is deleted, or all.
    Delete(u32),
    /// A namespace is attached, or detached.
    Attach {
        /// Which.
        nsid: u32,
        /// Attached, not detached.
        attach: bool,
    },
    /// A namespace is formatted, or all that are attached.
    Format {
        /// Which.
        nsid: u32,
        /// With blocks of this size.
        block: BlockSize,
        /// What it held is erased from the media.
        erase: bool,
    },
    /// A namespace, or all that are attached, are protected from writing, or not any more.
    Protect {
        /// Which.
        nsid: u32,
        /// How.
        state: WriteProtection,
    },
    /// A sanitize operation begins, or its failure is left.
    Sanitize(Sanitize),
}

/// How a change has ended, as soon as it has: dword 0 of its command's completion.
pub(crate) type Outcome = Rc<Cell<Option<Result<u32, Status>>>>;

/// A change that was accepted.
pub(crate) struct Accepted {
    pub(crate) operation: Operation,
    /// Which of the drive's controllers was asked for it, from 0.
    pub(crate) controller: usize,
    pub(crate) outcome: Outcome,
}

/// Where changes wait for being made.
pub struct Operations {
    /// One was accepted and has not ended.
    is_busy: Cell<bool>,
    next: RefCell<Option<Accepted>>,
    arrived: Notify,
    /// One has ended; or whoever waits is to look at its queue.
    changed: Notify,
    /// How many wait for commands to end.
    quiescing: Cell<u32>,
    released: Notify,
}

impl Operations {
    /// None.
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

    /// A command has ended, and holds no namespace any more.
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

    /// Accepts a change that a controller was asked for, while there is none.
    pub(crate) fn accept(&self, operation: Operation, controller: usize) -> Outcome {
        debug_assert!(!self.is_busy.get(), "changes are made one at a time");
        self.is_busy.set(true);
        let outcome = Outcome::default();
        self.next.replace(Some(Accepted { operation, controller, outcome: outcome.clone() }));
        self.arrived.notify_one();
        outcome
    }

    /// Waits for a change to be made.
    pub(crate) async fn next(&self) -> Accepted {
        loop {
            self.arrived.notified().await;
            if let Some(next) = self.next.take() {
                return next;
            }
        }
    }

    /// The change has ended.
    pub(crate) fn end(&self, outcome: &Outcome, result: Result<u32, Status>) {
        outcome.set(Some(result));
        self.is_busy.set(false);
        self.changed.notify_all();
    }

    /// Commands that wait for a change are to look at their queue.
    pub(crate) fn wake_commands(&self) {
        self.changed.notify_all();
    }

    /// Waits until a change has ended, or a command that waits for one is to look at its queue.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until no command holds a namespace: only `holders`, who are known to.
    pub(crate) async fn quiesce(&self, namespace: &Rc<Namespace>, holders: usize) {
        self.quiescing.set(self.quiescing.get() + 1);
        while Rc::strong_count(namespace) > holders {
            self.released.notified().await;
        }
        self.quiescing.set(self.quiescing.get() - 1);
    }
}
