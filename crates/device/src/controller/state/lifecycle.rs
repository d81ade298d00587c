//! Where the controller is between disabled, ready and shut down (NVMe Base 2.1, 3.5 to 3.7).

use byteway_clock::{Clock, Notify};
use std::cell::Cell;

/// Resets of the function, by count.
pub struct FunctionResets {
    asked: Cell<u64>,
    done: Cell<u64>,
    /// One is done.
    ended: Notify,
}

impl FunctionResets {
    /// None yet.
    pub fn new(clock: &Clock) -> Self {
        FunctionResets { asked: Cell::default(), done: Cell::default(), ended: Notify::new(clock) }
    }

    /// Asks for one, which is done at the latest when the number that this gives is.
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

    /// All that were asked for are done.
    pub(crate) fn end(&self) {
        self.done.set(self.asked.get());
        self.ended.notify_all();
    }

    /// Whether one was asked for and is not done.
    pub fn under_way(&self) -> bool {
        self.done.get() < self.asked.get()
    }
}

/// What the host has asked for, and whether it is being done.
pub struct Lifecycle {
    /// CC has changed: the lifecycle's task has to look.
    pub changed: Notify,
    /// Resets of the function.
    pub resets: FunctionResets,
    /// A reset, an enabling or a shutdown is in progress.
    pub is_changing: Cell<bool>,
}

impl Lifecycle {
    /// Nothing was asked for.
    pub fn new(clock: &Clock) -> Self {
        Lifecycle {
            changed: Notify::new(clock),
            resets: FunctionResets::new(clock),
            is_changing: Cell::default(),
        }
    }
}
