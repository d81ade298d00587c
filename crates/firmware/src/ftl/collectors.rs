//! Which collectors are called, and which are idle. What they do is in `collect`.

use byteway_clock::{Clock, Notify};
use std::cell::Cell;

/// The calls of all dies' collectors.
pub(super) struct Collectors {
    /// Notified when a die's collector may have work.
    calls: Vec<Notify>,
    /// Every collector has been called because no die could take what waits.
    is_roused: Cell<bool>,
    /// Number of idle collectors.
    resting: Cell<u32>,
}

impl Collectors {
    /// All of them idle.
    pub(super) fn new(clock: &Clock, dies: u32) -> Self {
        let calls = (0..dies).map(|_| Notify::new(clock)).collect();
        Collectors { calls, is_roused: Cell::new(false), resting: Cell::new(dies) }
    }

    /// Calls the collector of a die.
    #[inline]
    pub(super) fn call(&self, die: u32) {
        self.calls[die as usize].notify_one();
    }

    /// Calls all collectors.
    pub(super) fn call_all(&self) {
        self.calls.iter().for_each(Notify::notify_one);
    }

    /// Calls all collectors, the first time: each of them then knows itself when it has work.
    pub(super) fn rouse(&self) {
        if !self.is_roused.replace(true) {
            self.call_all();
        }
    }

    /// Waits until the collector of a die is called.
    pub(super) async fn called(&self, die: u32) {
        self.calls[die as usize].notified().await;
    }

    /// Counts a collector as idle, or as no longer so.
    pub(super) fn rest(&self, rests: bool) {
        let resting = self.resting.get();
        self.resting.set(if rests { resting + 1 } else { resting - 1 });
    }

    /// Whether all are idle, and none is called but that of `but`, which asks.
    pub(super) fn are_at_rest(&self, but: Option<u32>) -> bool {
        let is_called = |(die, call): (u32, &Notify)| but != Some(die) && call.waiting() == 0;
        self.resting.get() as usize == self.calls.len() && !(0..).zip(&self.calls).any(is_called)
    }
}
