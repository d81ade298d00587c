//! Halves of fused operations that wait for the other (NVMe Base 2.1, 3.4.2): first ones mostly, and second ones whose read ended before that of
//! the first.

use crate::controller::queue::ring::SubmissionQueue;
use crate::controller::queue::waiting::Waiting;
use std::cell::RefCell;

/// A command that waits for the other half.
pub(crate) struct Half {
    /// Index of its entry in the ring.
    entry: u32,
    pub(crate) command: Waiting,
}

impl Half {
    pub(crate) fn is(&self, sqid: u16, cid: u16) -> bool {
        self.command.permit.queue().id == sqid && self.command.sqe.cid() == cid
    }
}

/// Commands that wait for their other half: at most one at each end of each read of entries.
#[derive(Default)]
pub struct Halves(RefCell<Vec<Half>>);

impl Halves {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Drops them without completions, as a reset does.
    pub fn clear(&self) {
        drop(self.0.take());
    }

    /// Commands of `queue` that have lent their completion slot reserve one again.
    pub fn take_back(&self, queue: &SubmissionQueue) {
        let halves = self.0.borrow();
        let own = halves.iter().filter(|half| half.command.permit.queue().id == queue.id);
        own.for_each(|half| half.command.permit.take_back());
    }

    pub(crate) fn put(&self, entry: u32, command: Waiting) {
        self.0.borrow_mut().push(Half { entry, command });
    }

    /// Removes the first one that matches.
    pub(crate) fn take(&self, is_meant: impl Fn(&Half) -> bool) -> Option<Waiting> {
        let mut halves = self.0.borrow_mut();
        let index = halves.iter().position(is_meant)?;
        Some(halves.remove(index).command)
    }

    pub(crate) fn take_at(&self, queue: &SubmissionQueue, entry: u32, fuse: u8) -> Option<Waiting> {
        let is_in = |half: &Half| half.entry == entry && half.command.permit.queue().id == queue.id;
        self.take(|half| is_in(half) && half.command.sqe.fuse() == fuse)
    }
}
