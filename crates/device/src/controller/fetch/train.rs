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

use crate::controller::core::Core;
use crate::controller::queue::ring::{Fate, Fetching, SubmissionQueue};
use crate::controller::queue::train::Train;
use byteway_transfer::method::fits;
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AsyncEvent, Status};

impl Core {
    /// Whether a train of `slots` can be taken from `queue`.
    pub(crate) fn takes_train(&self, queue: &SubmissionQueue, slots: InlineSlots) -> bool {
        slots.bytes <= self.config.transfer.inline_bytes_max && fits(queue.entries(), slots.count())
    }

    /// The queue is not fetched from any more, and the host is told.
    pub(crate) fn break_queue(&self, queue: &SubmissionQueue) {
        queue.fetching.set(Fetching::Broken);
        self.events.raise(AsyncEvent::QUEUE_BROKEN);
    }

    /// The train waits until the doorbell has exposed the entries that are missing; `carried` is what has come.
    pub(crate) fn park_train(&self, train: Train, carried: Vec<u8>, missing: u32) {
        match train.queue().fate.get() {
            Fate::Live => self.parked.trains.park(train, carried, missing),
            Fate::Deleting => self.refuse(train, Status::ABORTED_SQ_DELETED),
            Fate::Reset => {}
        }
    }
}
