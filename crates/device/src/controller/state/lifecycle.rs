//! Where the controller is between disabled, ready and shut down (NVMe Base 2.1, 3.5 to 3.7).

use byteway_clock::{Clock, Notify};
use std::cell::Cell;

/// Resets of the function, by count.
pub struct FunctionResets {
    pub(crate) asked: Cell<u64>,
    pub(crate) done: Cell<u64>,
    /// One is done.
    pub(crate) ended: Notify,
}

impl FunctionResets {
    /// None yet.
    pub fn new(clock: &Clock) -> Self {
        FunctionResets { asked: Cell::default(), done: Cell::default(), ended: Notify::new(clock) }
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
