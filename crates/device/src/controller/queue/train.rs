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
pub(crate) struct ParkedTrain {
    /// None: it was aborted, and what comes is skipped.
    pub(crate) train: Option<Train>,
    /// What has come.
    pub(crate) carried: Vec<u8>,
}

/// The trains that wait, by their queues.
#[derive(Default)]
pub struct Trains(pub(crate) RefCell<BTreeMap<u16, ParkedTrain>>);

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
