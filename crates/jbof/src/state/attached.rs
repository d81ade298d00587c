//! The host's side of a drive: its driver and queue pairs, and the bindings of these.

use crate::decision::policy::Weight;
use crate::weights::{QueueWeights, weight};
use byteway_host::Driver;
use byteway_host::{QueuePair, Redirection, ShadowId};
use byteway_wire::nvme::QueuePriority;
use std::cell::RefCell;

/// Driver and queue pairs of a drive, until the host restarts or the drive is removed.
pub(crate) struct Attached {
    pub(crate) driver: Driver,
    /// Power-on number of the drive that it is attached to.
    pub(crate) life: u64,
    /// The queue pair that the drive may lend.
    pub(crate) shadow: QueuePair,
    /// Queue pairs of the drive's users, whose commands may be redirected.
    pub(crate) users: RefCell<Vec<UserQueue>>,
}

/// A queue pair of a drive's users.
pub(crate) struct UserQueue {
    pub(crate) redirection: Redirection,
    pub(crate) class: QueuePriority,
}

impl Attached {
    /// The users' queue pair with this completion queue.
    pub(crate) fn find(&self, cqid: u16) -> Option<Redirection> {
        let users = self.users.borrow();
        users.iter().map(|user| &user.redirection).find(|user| user.queue().cqid() == cqid).cloned()
    }

    /// Weight of its queue with this completion queue, among all queues; `is_bound`: its shadow queue is in use, too.
    pub(crate) fn weight(&self, weights: Option<QueueWeights>, cqid: u16, is_bound: bool) -> Weight {
        let users = self.users.borrow();
        let users = users.iter().map(|user| (user.class, user.redirection.queue().cqid()));
        let shadow = is_bound.then_some((QueuePriority::Low, self.shadow.cqid()));
        weight(weights, &users.chain(shadow).collect::<Vec<_>>(), cqid)
    }
}

/// A binding of a lender's shadow queue pair to a borrower's queue pair.
pub(crate) struct Bound {
    pub(crate) lender: usize,
    /// Power-on number of the lender at binding.
    pub(crate) life: u64,
    /// Index of the lender's descriptor.
    pub(crate) index: usize,
    pub(crate) borrower: usize,
    /// Completion queue of the borrower's queue pair.
    pub(crate) queue: u16,
    pub(crate) shadow: QueuePair,
    pub(crate) redirection: Redirection,
    pub(crate) id: ShadowId,
}
