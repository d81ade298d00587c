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
    /// Which controllers have been enabled and not shut down since, a bit each.
    in_use: Cell<u32>,
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
            in_use: Cell::default(),
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

    /// A controller, from 0, is enabled: the drive is in use, and not shut down any more.
    pub fn begin_use(&self, controller: usize) {
        self.in_use.set(self.in_use.get() | 1 << controller);
        if self.is_clean.replace(false) {
            self.counted();
        }
    }

    /// A controller is being shut down. Whether the drive is, too: no other controller is in use.
    pub fn end_use(&self, controller: usize) -> bool {
        self.in_use.set(self.in_use.get() & !(1 << controller));
        self.in_use.get() == 0
    }

    /// All that there is to write down was written down: the drive is shut down, unless a controller is in use again.
    pub fn shut_down(&self) {
        self.is_clean.set(self.in_use.get() == 0);
    }

    /// Whether the drive is shut down.
    pub fn is_clean(&self) -> bool {
        self.is_clean.get()
    }
}
