//! What is known of the record on the medium, and whether that is stale.

use crate::controller::namespace::record::{Pending, Totals};
use byteway_clock::{Clock, Notify, Permit, Semaphore};
use std::cell::{Cell, RefCell};

/// What is known of the record.
pub struct Persistence {
    /// What was counted before this power cycle.
    pub before: Cell<Totals>,
    /// The change under way.
    pub pending: RefCell<Pending>,
    /// The medium's record has been looked at, and what it says is in force.
    is_restored: Cell<bool>,
    restored: Notify,
    /// The record says that the drive was shut down.
    is_clean: Cell<bool>,
    /// Something was counted that the record does not have.
    is_unsaved: Cell<bool>,
    unsaved: Notify,
    /// One record is written at a time, so none is overwritten by an older one.
    turn: Semaphore,
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

    /// Waits until what the medium says is in force.
    pub async fn restored(&self) {
        while !self.is_restored.get() {
            self.restored.notified().await;
        }
    }

    /// What the medium says is in force.
    pub fn end_restore(&self) {
        self.is_restored.set(true);
        self.restored.notify_all();
    }

    /// Waits until something was counted that the record does not have.
    pub async fn unsaved(&self) {
        self.unsaved.notified().await;
    }

    /// Waits for the turn to write the record, which has what was counted until then. The turn ends with the permit.
    pub async fn begin_store(&self) -> Permit {
        let turn = self.turn.acquire(1).await;
        self.is_unsaved.set(false);
        turn
    }

    /// The drive is in use: it is not shut down any more.
    pub fn begin_use(&self) {
        if self.is_clean.replace(false) {
            self.counted();
        }
    }

    /// The drive is shut down.
    pub fn end_use(&self) {
        self.is_clean.set(true);
    }

    /// Whether the drive is shut down.
    pub fn is_clean(&self) -> bool {
        self.is_clean.get()
    }
}
