//! Trains of which the doorbell has exposed only a part (ByteExpress 3.3).

use crate::controller::queue::ring::{Permit, SubmissionQueue};
use byteway_clock::SpanId;
use byteway_wire::nvme::Sqe;
use byteway_wire::nvme::vendor::InlineSlots;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A command whose payload follows it in the submission queue.
pub struct Train {
    /// The command.
    pub sqe: Sqe,
    /// The permit to complete it.
    pub permit: Permit,
    /// Trace span of the I/O.
    pub span: SpanId,
    /// Number of the entries with its payload.
    pub slots: InlineSlots,
}

impl Train {
    /// The queue that the command came from.
    pub fn queue(&self) -> &Rc<SubmissionQueue> {
        self.permit.queue()
    }
}

/// A train that waits for further entries.
struct ParkedTrain {
    /// `None`: it was aborted, and its further entries are skipped.
    train: Option<Train>,
    /// Payload received so far.
    carried: Vec<u8>,
}

/// Trains that wait for further entries, at most one per queue.
#[derive(Default)]
pub struct Trains(RefCell<BTreeMap<u16, ParkedTrain>>);

impl Trains {
    /// Drops them without completions, as a reset does.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    /// Takes the train of queue `id`, with the payload received so far.
    pub fn take(&self, id: u16) -> Option<(Train, Vec<u8>)> {
        let waiting = self.0.borrow_mut().remove(&id)?;
        Some((waiting.train?, waiting.carried))
    }

    /// Parks a train until the doorbell has exposed the `missing` entries; `carried` is the payload received so far.
    pub(crate) fn park(&self, train: Train, carried: Vec<u8>, missing: u32) {
        debug_assert!(missing > 0, "a complete train does not wait");
        let queue = train.queue();
        queue.missing.set(missing);
        let id = queue.id;
        let before = self.0.borrow_mut().insert(id, ParkedTrain { train: Some(train), carried });
        // The queue is fetched in order and offers nothing while entries are missing, so a second train can't come up.
        debug_assert!(before.is_none(), "queue {id} has two trains");
    }

    /// Takes the train of queue `sqid` if its command is `cid`. Its further entries will be skipped.
    pub(crate) fn abort(&self, sqid: u16, cid: u16) -> Option<Train> {
        let mut trains = self.0.borrow_mut();
        trains.get_mut(&sqid)?.train.take_if(|train| train.sqe.cid() == cid)
    }

    /// Skips entries of an aborted train, as far as the doorbell has exposed them.
    pub(crate) fn skip(&self, queue: &SubmissionQueue) {
        let mut trains = self.0.borrow_mut();
        if trains.get(&queue.id).is_some_and(|waiting| waiting.train.is_none()) {
            let count = queue.missing.get().min(queue.waiting());
            queue.consume(count);
            queue.missing.set(queue.missing.get() - count);
            if queue.missing.get() == 0 {
                trains.remove(&queue.id);
            }
        }
    }
}
