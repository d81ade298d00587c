//! The gate, which keeps writes out while the members' states change.
//!
//! A gate rather than a lock that each write takes: a write may lose a member in its middle and end without it, so what
//! has to wait is not the failure but its record. Writes inside end; those that come meanwhile wait, and plan with the
//! new states.

use byteway_clock::{Clock, Notify};
use std::cell::Cell;

/// Keeps writes out while the members' states change.
pub(crate) struct Gate {
    is_closed: Cell<bool>,
    in_flight: Cell<u32>,
    /// Notified when a slot has failed.
    closed: Notify,
    drained: Notify,
    opened: Notify,
}

/// Reason why a write was not carried out.
pub(crate) enum Stopped {
    /// A member failed before anything was written: retry with the others.
    Again,
    /// Too many members have failed.
    Broken,
    /// Data of the stripe that the parity needs are unreadable.
    Unreadable,
}

impl Gate {
    pub(crate) fn new(clock: &Clock) -> Self {
        let notify = || Notify::new(clock);
        Gate {
            is_closed: Cell::default(),
            in_flight: Cell::default(),
            closed: notify(),
            drained: notify(),
            opened: notify(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Closes the gate: a failure is to be recorded.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.closed.notify_one();
    }

    /// Waits until the gate is closed. For one task, the one that opens it again.
    pub(crate) async fn closing(&self) {
        while !self.is_closed.get() {
            self.closed.notified().await;
        }
    }

    /// Waits until no write is inside.
    pub(crate) async fn drain(&self) {
        debug_assert!(self.is_closed.get(), "writes that enter meanwhile would never end");
        while self.in_flight.get() > 0 {
            self.drained.notified().await;
        }
    }

    /// Opens the gate: the states are durable.
    pub(crate) fn reopen(&self) {
        debug_assert!(self.is_closed.get(), "a gate is opened twice");
        debug_assert_eq!(self.in_flight.get(), 0, "a write inside has planned with old states");
        self.is_closed.set(false);
        self.opened.notify_all();
    }

    /// Waits until a state change in progress is durable.
    pub(crate) async fn open(&self) {
        while self.is_closed.get() {
            self.opened.notified().await;
        }
    }

    /// Enters the gate: states do not change until the result is dropped.
    pub(crate) async fn enter(&self) -> Entered<'_> {
        self.open().await;
        self.in_flight.set(self.in_flight.get() + 1);
        Entered(self)
    }
}

/// A write in flight.
pub(crate) struct Entered<'a>(&'a Gate);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        debug_assert!(self.0.in_flight.get() > 0, "a write leaves that has not entered");
        self.0.in_flight.set(self.0.in_flight.get() - 1);
        if self.0.in_flight.get() == 0 {
            self.0.drained.notify_one();
        }
    }
}
