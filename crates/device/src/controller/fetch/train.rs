//! Payload in the entries after its command, in order (ByteExpress 3.3): a train is the command and those entries.
//!
//! Only the command's entry tells how long a train is ([`Framing`](byteway_wire::nvme::vendor::Framing)). So one fetch
//! task at a time reads such a queue, in order, and payload is never taken for a command:
//!
//! - A doorbell may expose only a part of a train. The rest is read when all of it is exposed. Until then the command
//!   waits with its permit; it occupies neither a command slot nor a fetch task, and only its queue waits.
//! - Deletion of the queue, Abort and reset end that wait. After an Abort the rest is skipped as it arrives.
//! - A train that does not fit into the queue, or exceeds the drive's limit, can't be skipped: where the next command
//!   begins is unknown. The queue is broken, and the host must delete it.

use crate::controller::core::Core;
use crate::controller::queue::ring::{Fetching, QueueFate, SubmissionQueue};
use crate::controller::queue::train::Train;
use byteway_transfer::method::fits;
use byteway_wire::nvme::vendor::InlineSlots;
use byteway_wire::nvme::{AsyncEvent, Status};

impl Core {
    /// Whether a train with `slots` can be taken from `queue`.
    pub(crate) fn takes_train(&self, queue: &SubmissionQueue, slots: InlineSlots) -> bool {
        slots.bytes <= self.config.transfer.inline_bytes_max && fits(queue.entries(), slots.count())
    }

    /// Stops fetching from the queue, and reports an event to the host.
    pub(crate) fn break_queue(&self, queue: &SubmissionQueue) {
        queue.fetching.set(Fetching::Broken);
        self.events.raise(AsyncEvent::QUEUE_BROKEN);
    }

    /// Parks a train until the doorbell has exposed the `missing` entries; `carried` is the payload received so far.
    pub(crate) fn park_train(&self, train: Train, carried: Vec<u8>, missing: u32) {
        match train.queue().fate.get() {
            QueueFate::Live => self.parked.trains.park(train, carried, missing),
            QueueFate::Deleting => self.refuse(train, Status::ABORTED_SQ_DELETED),
            QueueFate::Reset => {}
        }
    }
}
