//! Addresses of the shadow doorbells, and the queues that they cover (NVMe Base 2.1, annex B.5).

use crate::controller::queue::ring::{CompletionQueue, Mirror, SubmissionQueue};
use byteway_wire::nvme::Doorbell;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The shadow doorbells of a controller.
#[derive(Default)]
pub struct Shadow {
    pub(crate) buffers: Cell<Option<Buffers>>,
    pub(crate) armed: Cell<bool>,
    /// The queues that are covered, as of [`Queues::epoch`](super::Queues::epoch) `queues_epoch`.
    pub(crate) queues: RefCell<Vec<Queue>>,
    pub(crate) queues_epoch: Cell<u64>,
}

/// Addresses of the two buffers.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) doorbells: u64,
    pub(crate) events: u64,
}

#[derive(Clone)]
pub(crate) enum Queue {
    Submission(Rc<SubmissionQueue>),
    Completion(Rc<CompletionQueue>),
}

impl Queue {
    pub(crate) fn doorbell(&self) -> Doorbell {
        match self {
            Queue::Submission(queue) => Doorbell::SubmissionTail(queue.id),
            Queue::Completion(queue) => Doorbell::CompletionHead(queue.id),
        }
    }

    pub(crate) fn mirror(&self) -> &Mirror {
        match self {
            Queue::Submission(queue) => &queue.mirror,
            Queue::Completion(queue) => &queue.mirror,
        }
    }

    /// The tail or head that was taken last.
    pub(crate) fn place(&self) -> u32 {
        match self {
            Queue::Submission(queue) => queue.tail(),
            Queue::Completion(queue) => queue.head(),
        }
    }

    pub(crate) fn entries(&self) -> u32 {
        match self {
            Queue::Submission(queue) => queue.entries(),
            Queue::Completion(queue) => queue.entries(),
        }
    }

    /// The index before the current one: the last that the host reaches.
    pub(crate) fn behind(&self) -> u32 {
        self.place().checked_sub(1).unwrap_or(self.entries() - 1)
    }
}

impl Shadow {
    /// Whether queue `id` has shadow doorbells.
    pub(crate) fn covers(&self, id: u16) -> bool {
        id > 0 && self.buffers.get().is_some()
    }

    /// Drops the buffers, as a reset does.
    pub fn clear(&self) {
        self.buffers.set(None);
        self.queues.borrow_mut().clear();
        // No epoch has this value, so the list is rebuilt.
        self.queues_epoch.set(u64::MAX);
    }
}
