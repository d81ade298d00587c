//! The host's side of a drive: its driver and queue pairs, and the bindings of these.

use crate::jbof::weights::{QueueWeights, weight};
use byteway_host::Driver;
use byteway_host::{QueuePair, Redirection, ShadowId};
use byteway_jbof::policy::Weight;
use byteway_wire::nvme::QueuePriority;
use std::cell::RefCell;

/// Driver and queue pairs of a drive, until the host restarts or the drive is removed.
pub(in crate::jbof) struct Attached {
    pub(in crate::jbof) driver: Driver,
    /// Power-on number of the drive that it is attached to.
    pub(in crate::jbof) life: u64,
    /// The queue pair that the drive may lend.
    pub(in crate::jbof) shadow: QueuePair,
    /// Queue pairs of the drive's users, whose commands may be redirected.
    pub(in crate::jbof) users: RefCell<Vec<UserQueue>>,
}

/// A queue pair of a drive's users.
pub(in crate::jbof) struct UserQueue {
    pub(in crate::jbof) redirection: Redirection,
    pub(in crate::jbof) class: QueuePriority,
}

impl Attached {
    /// The users' queue pair with this completion queue.
    pub(in crate::jbof) fn find(&self, cqid: u16) -> Option<Redirection> {
        let users = self.users.borrow();
        users.iter().map(|user| &user.redirection).find(|user| user.queue().cqid() == cqid).cloned()
    }

    /// Weight of its queue with this completion queue, among all queues; `is_bound`: its shadow queue is in use, too.
    pub(in crate::jbof) fn weight(&self, weights: Option<QueueWeights>, cqid: u16, is_bound: bool) -> Weight {
        let users = self.users.borrow();
        let users = users.iter().map(|user| (user.class, user.redirection.queue().cqid()));
        let shadow = is_bound.then_some((QueuePriority::Low, self.shadow.cqid()));
        weight(weights, &users.chain(shadow).collect::<Vec<_>>(), cqid)
    }
}

/// A binding of a lender's shadow queue pair to a borrower's queue pair.
pub(in crate::jbof) struct Bound {
    pub(in crate::jbof) lender: usize,
    /// Power-on number of the lender at binding.
    pub(in crate::jbof) life: u64,
    /// Index of the lender's descriptor.
    pub(in crate::jbof) index: usize,
    pub(in crate::jbof) borrower: usize,
    /// Completion queue of the borrower's queue pair.
    pub(in crate::jbof) queue: u16,
    pub(in crate::jbof) shadow: QueuePair,
    pub(in crate::jbof) redirection: Redirection,
    pub(in crate::jbof) id: ShadowId,
}
