//! Payload in the entries behind its command, in order (ByteExpress 3.3): a train is the command and those entries.
//!
//! What a train is says its command's entry alone ([`Framing`](byteway_wire::nvme::vendor::Framing)), so the entries of
//! such a queue are taken in order, by one fetch task at a time, and never is payload taken for a command:
//!
//! - A doorbell may expose a part of a train. The rest is read when the doorbell has exposed all of it. Until then the
//!   command waits here with its permit; it holds neither a command slot nor a fetch task, and only its queue waits.
//! - Deletion of the queue, Abort and reset end that wait. After an Abort the rest is skipped as it comes.
//! - A train that the queue can never hold, or that is longer than the drive takes, cannot be skipped either: where
//!   the next command begins can't be known. The queue is broken, and the host deletes it.

use crate::controller::Core;
use crate::controller::queue::{Fate, Fetching, Permit, SubmissionQueue};
use byteway_clock::SpanId;
use byteway_transfer::method::fits;
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AsyncEvent, Sqe, Status};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A command whose payload comes behind it.
pub struct Train {
    /// The command.
    pub sqe: Sqe,
    /// The right and duty to complete it.
    pub permit: Permit,
    /// Who follows it.
    pub span: SpanId,
    /// Its payload.
    pub slots: InlineSlots,
}

impl Train {
    /// The queue that it came from.
    pub fn queue(&self) -> &Rc<SubmissionQueue> {
        self.permit.queue()
    }
}

/// A train of which the doorbell has not exposed all.
struct Waiting {
    /// None: it was aborted, and what comes is skipped.
    train: Option<Train>,
    /// What has come.
    carried: Vec<u8>,
}

/// The trains that wait, by their queues.
#[derive(Default)]
pub struct Trains(RefCell<BTreeMap<u16, Waiting>>);

impl Trains {
    /// Forgets them, as a reset does: their commands do not complete.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Takes the train of queue `id`, with what has come of it.
    pub fn take(&self, id: u16) -> Option<(Train, Vec<u8>)> {
        let waiting = self.0.borrow_mut().remove(&id)?;
        Some((waiting.train?, waiting.carried))
    }
}

impl Core {
    /// Whether a train of `slots` can be taken from `queue`.
    pub(super) fn takes_train(&self, queue: &SubmissionQueue, slots: InlineSlots) -> bool {
        slots.bytes <= self.config.transfer.inline_bytes_max && fits(queue.entries(), slots.count())
    }

    /// The queue is not fetched from any more, and the host is told.
    pub(super) fn break_queue(&self, queue: &SubmissionQueue) {
        queue.fetching.set(Fetching::Broken);
        self.raise(AsyncEvent::QUEUE_BROKEN);
    }

    /// The train waits until the doorbell has exposed the entries that are missing; `carried` is what has come.
    pub(super) fn park_train(&self, train: Train, carried: Vec<u8>, missing: u32) {
        let queue = train.permit.queue().clone();
        match queue.fate.get() {
            Fate::Live => {
                queue.missing.set(missing);
                self.trains.0.borrow_mut().insert(queue.id, Waiting { train: Some(train), carried });
            }
            Fate::Deleting => self.refuse(train, Status::ABORTED_SQ_DELETED),
            Fate::Reset => {}
        }
    }

    /// The queue is being deleted: its train ends.
    pub(super) fn delete_train(&self, queue: &SubmissionQueue) {
        if let Some((train, _)) = self.trains.take(queue.id) {
            self.refuse(train, Status::ABORTED_SQ_DELETED);
        }
    }

    /// Aborts the command `cid` of queue `sqid`, if that is a train that waits.
    pub(super) fn abort_train(&self, sqid: u16, cid: u16) -> bool {
        let mut trains = self.trains.0.borrow_mut();
        let Some(waiting) = trains.get_mut(&sqid) else { return false };
        let Some(train) = waiting.train.take_if(|train| train.sqe.cid() == cid) else { return false };
        drop(trains);
        let queue = train.permit.queue().clone();
        self.skip_train(&queue); // first: the completion says that the entries are free
        self.refuse(train, Status::ABORT_REQUESTED);
        self.fetchable.notify_one(); // what is behind it, if all of it was there, and only a slot was not
        true
    }

    /// Skips what the doorbell has exposed of a train that was aborted.
    pub(super) fn skip_train(&self, queue: &SubmissionQueue) {
        let mut trains = self.trains.0.borrow_mut();
        if trains.get(&queue.id).is_some_and(|waiting| waiting.train.is_none()) {
            let count = queue.missing.get().min(queue.waiting());
            queue.consume(count);
            queue.missing.set(queue.missing.get() - count);
            if queue.missing.get() == 0 {
                trains.remove(&queue.id);
            }
        }
    }

    /// Completes a command that had no slot yet.
    fn refuse(&self, train: Train, status: Status) {
        let Train { sqe, permit, span, .. } = train;
        self.errors.record(permit.queue().id, &sqe, status, 0, 0);
        self.post(permit, sqe.cid(), status, [0; 2], span);
    }
}
