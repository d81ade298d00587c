//! Time since the last host request.

use byteway_clock::{Clock, Notify, Time};
use std::cell::Cell;

/// The last host request, and those in progress.
pub(in crate::ftl) struct Idleness {
    pub(super) last: Cell<Time>,
    /// Host requests in progress.
    pub(super) in_flight: Cell<u32>,
    /// The task waits for the host to become idle.
    pub(super) is_watched: Cell<bool>,
    pub(super) stirred: Notify,
}

impl Idleness {
    pub(in crate::ftl) fn new(clock: &Clock) -> Self {
        Idleness {
            last: Cell::new(Time::ZERO),
            in_flight: Cell::new(0),
            is_watched: Cell::new(false),
            stirred: Notify::new(clock),
        }
    }
}
