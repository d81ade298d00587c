//! How long nothing has come from the host.

use byteway_clock::{Clock, Notify, Time};
use std::cell::Cell;

/// When something last came, and what of it is not done.
pub(in crate::ftl) struct Idleness {
    pub(super) last: Cell<Time>,
    /// What has come and is not done.
    pub(super) under_way: Cell<u32>,
    /// The task waits for the host to become idle.
    pub(super) is_watched: Cell<bool>,
    pub(super) stirred: Notify,
}

impl Idleness {
    pub(in crate::ftl) fn new(clock: &Clock) -> Self {
        Idleness {
            last: Cell::new(Time::ZERO),
            under_way: Cell::new(0),
            is_watched: Cell::new(false),
            stirred: Notify::new(clock),
        }
    }
}
