//! State of the record on the media: what it contains, and whether it is out of date.

use crate::controller::namespace::record::{Pending, Totals};
use byteway_clock::{Clock, Notify, Permit, Semaphore};
use std::cell::{Cell, RefCell};

/// State of the record on the media.
pub struct Persistence {
    /// Counters from before this power cycle.
    pub before: Cell<Totals>,
    /// The namespace change in progress.
    pub pending: RefCell<Pending>,
    /// The record was read from the media and is in effect.
    is_restored: Cell<bool>,
    restored: Notify,
    /// The record marks the drive as shut down.
    is_clean: Cell<bool>,
    /// Bit mask of the controllers that were enabled and not shut down since.
    in_use: Cell<u32>,
    /// Counters have changed since the record was written.
    is_unsaved: Cell<bool>,
    unsaved: Notify,
    /// Serializes writes, so that no record is overwritten by an older one.
    turn: Semaphore,
}

impl Persistence {
    /// State before the record is read.
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

    /// Notes that a counter has changed.
    #[inline]
    pub fn counted(&self) {
        if !self.is_unsaved.replace(true) {
            self.unsaved.notify_one();
        }
    }

    /// Waits until the record on the media is in effect.
    pub async fn restored(&self) {
        while !self.is_restored.get() {
            self.restored.notified().await;
        }
    }

    /// Notes that the record is in effect.
    pub fn end_restore(&self) {
        self.is_restored.set(true);
        self.restored.notify_all();
    }

    /// Waits until counters have changed since the record was written.
    pub async fn unsaved(&self) {
        self.unsaved.notified().await;
    }

    /// Waits for the turn to write the record. Counters count as saved from then on. The turn ends with the permit.
    pub async fn begin_store(&self) -> Permit {
        let turn = self.turn.acquire(1).await;
        self.is_unsaved.set(false);
        turn
    }

    /// Controller `controller` (from 0) is enabled, so the drive is in use.
    pub fn begin_use(&self, controller: usize) {
        self.in_use.set(self.in_use.get() | 1 << controller);
        if self.is_clean.replace(false) {
            self.counted();
        }
    }

    /// Controller `controller` is being shut down. Returns whether the drive is, too: no other controller is in use.
    pub fn end_use(&self, controller: usize) -> bool {
        self.in_use.set(self.in_use.get() & !(1 << controller));
        self.in_use.get() == 0
    }

    /// Marks the drive as shut down, unless a controller is in use again.
    pub fn shut_down(&self) {
        self.is_clean.set(self.in_use.get() == 0);
    }

    /// Whether the drive is shut down.
    pub fn is_clean(&self) -> bool {
        self.is_clean.get()
    }
}
