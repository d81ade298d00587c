//! Changes of namespaces that commands wait for: one at a time.

use crate::controller::namespace::Format;
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

pub(crate) type Outcome = Rc<Cell<Option<Result<u32, Status>>>>;

/// Where changes wait for being made.
pub struct Operations {
    /// One was accepted and has not ended.
    pub(crate) is_busy: Cell<bool>,
    pub(crate) next: RefCell<Option<(Operation, Outcome)>>,
    pub(crate) arrived: Notify,
    /// One has ended; or whoever waits is to look at its queue.
    pub changed: Notify,
    /// How many wait for commands to end.
    pub(crate) quiescing: Cell<u32>,
    pub(crate) released: Notify,
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
}
