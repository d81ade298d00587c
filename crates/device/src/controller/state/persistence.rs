//! What is known of the record on the medium, and whether that is stale.

use crate::controller::namespace::record::{Pending, Totals};
use byteway_clock::{Clock, Notify, Semaphore};
use std::cell::{Cell, RefCell};

/// What is known of the record.
pub struct Persistence {
    /// What was counted before this power cycle.
    pub before: Cell<Totals>,
    /// The change under way.
    pub pending: RefCell<Pending>,
    /// The medium's record has been looked at, and what it says is in force.
    pub(crate) is_restored: Cell<bool>,
    pub(crate) restored: Notify,
    /// The record says that the drive was shut down.
    pub(crate) is_clean: Cell<bool>,
    /// Something was counted that the record does not have.
    pub(crate) is_unsaved: Cell<bool>,
    pub(crate) unsaved: Notify,
    /// One record is written at a time, so none is overwritten by an older one.
    pub(crate) turn: Semaphore,
}

impl Persistence {
    /// Nothing is known.
    pub fn new(clock: &Clock) -> Self {
        Persistence {
            before: Cell::default(),
            pending: RefCell::default(),
            is_restored: Cell::default(),
            restored: Notify::new(clock),
            is_clean: Cell::new(true),
            is_unsaved: Cell::default(),
            unsaved: Notify::new(clock),
            turn: Semaphore::new(clock, 1),
        }
    }

    /// Something was counted.
    #[inline]
    pub fn counted(&self) {
        if !self.is_unsaved.replace(true) {
            self.unsaved.notify_one();
        }
    }
}
