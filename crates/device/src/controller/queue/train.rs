//! Trains that the doorbell has not exposed all of (ByteExpress 3.3).

use crate::controller::queue::ring::{Permit, SubmissionQueue};
use byteway_clock::SpanId;
use byteway_wire::nvme::Sqe;
use byteway_wire::nvme::vendor::InlineSlots;
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
struct ParkedTrain {
    /// None: it was aborted, and what comes is skipped.
    train: Option<Train>,
    /// What has come.
    carried: Vec<u8>,
}

/// The trains that wait, by their queues.
#[derive(Default)]
pub struct Trains(RefCell<BTreeMap<u16, ParkedTrain>>);

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

    /// The train waits until the doorbell has exposed the entries that are missing; `carried` is what has come.
    pub(crate) fn park(&self, train: Train, carried: Vec<u8>, missing: u32) {
        let queue = train.queue();
        queue.missing.set(missing);
        let id = queue.id;
        self.0.borrow_mut().insert(id, ParkedTrain { train: Some(train), carried });
    }

    /// Takes the train of queue `sqid`, if its command is `cid`: what comes of it is to be skipped.
    pub(crate) fn abort(&self, sqid: u16, cid: u16) -> Option<Train> {
        let mut trains = self.0.borrow_mut();
        trains.get_mut(&sqid)?.train.take_if(|train| train.sqe.cid() == cid)
    }

    /// Skips what the doorbell has exposed of a train that was aborted.
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
