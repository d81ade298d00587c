//! The lifecycle state of a controller: disabled, ready or shut down (NVMe Base 2.1, 3.5 to 3.7).

use byteway_clock::{Clock, Notify};
use std::cell::Cell;

/// Requested and completed function-level resets, as counts.
pub struct FunctionResets {
    asked: Cell<u64>,
    done: Cell<u64>,
    /// Notified when a reset has completed.
    ended: Notify,
}

impl FunctionResets {
    /// No resets so far.
    pub fn new(clock: &Clock) -> Self {
        FunctionResets { asked: Cell::default(), done: Cell::default(), ended: Notify::new(clock) }
    }

    /// Requests a reset. Returns its number, for [`FunctionResets::done`].
    pub(crate) fn ask(&self) -> u64 {
        self.asked.set(self.asked.get() + 1);
        self.asked.get()
    }

    /// Waits until the reset with this number is done.
    pub(crate) async fn done(&self, number: u64) {
        while self.done.get() < number {
            self.ended.notified().await;
        }
    }

    /// Marks all requested resets as done.
    pub(crate) fn end(&self) {
        self.done.set(self.asked.get());
        self.ended.notify_all();
    }

    /// Whether a requested reset is not done.
    pub fn is_pending(&self) -> bool {
        self.done.get() < self.asked.get()
    }
}

/// Requested transitions, and whether one is in progress.
pub struct Lifecycle {
    /// CC has changed: wakes the lifecycle task.
    pub changed: Notify,
    /// Function-level resets.
    pub resets: FunctionResets,
    /// A reset, an enabling or a shutdown is in progress.
    pub is_changing: Cell<bool>,
}

impl Lifecycle {
    /// No transition was requested.
    pub fn new(clock: &Clock) -> Self {
        Lifecycle {
            changed: Notify::new(clock),
            resets: FunctionResets::new(clock),
            is_changing: Cell::default(),
        }
    }
}
