//! How commands end that were fetched and wait without a command slot: for the rest of a train, for chunks, or for the
//! other half of a fused operation. Abort, deletion of the queue and a time-out complete them; a reset forgets them.

use crate::controller::core::Core;
use crate::controller::queue::partial::State;
use crate::controller::queue::ring::{Fate, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::queue::waiting::Waiting;
use byteway_clock::Time;
use byteway_wire::nvme::Status;

impl Core {
    /// The queue is being deleted: its train ends.
    pub(crate) fn delete_train(&self, queue: &SubmissionQueue) {
        if let Some((train, _)) = self.parked.trains.take(queue.id) {
            self.refuse(train, Status::ABORTED_SQ_DELETED);
        }
    }

    /// Aborts the command `cid` of queue `sqid`, if that is a train that waits.
    pub(crate) fn abort_train(&self, sqid: u16, cid: u16) -> bool {
        let Some(train) = self.parked.trains.abort(sqid, cid) else { return false };
        self.parked.trains.skip(train.queue()); // first: the completion says that the entries are free
        self.refuse(train, Status::ABORT_REQUESTED);
        self.queues.wake_fetch(); // what is behind it, if all of it was there, and only a slot was not
        true
    }

    /// Completes a command that had no slot yet.
    pub(crate) fn refuse(&self, train: Train, status: Status) {
        let Train { sqe, permit, span, .. } = train;
        self.errors.record(permit.queue().id, &sqe, status, 0, 0);
        self.post(permit, sqe.cid(), status, [0; 2], span);
    }

    /// Aborts the command `cid` of queue `sqid`, if it waits for the other half and can complete.
    pub(crate) fn abort_half(&self, sqid: u16, cid: u16) -> bool {
        self.port.settle_writes();
        let half = self.parked.halves.take(|half| half.is(sqid, cid) && half.command.permit.has_place());
        half.map(|half| self.refuse_half(half, Status::ABORT_REQUESTED)).is_some()
    }

    /// The queue is being deleted: its halves end. One whose completion has no place ends without: it is completed
    /// implicitly by the deletion (NVMe Base 2.1, 5.2.4).
    pub(crate) fn delete_halves(&self, qid: u16) {
        self.port.settle_writes();
        while let Some(half) = self.parked.halves.take(|half| half.command.permit.queue().id == qid) {
            if half.permit.has_place() {
                self.refuse_half(half, Status::ABORTED_SQ_DELETED);
            }
        }
    }

    pub(crate) fn refuse_half(&self, half: Waiting, status: Status) {
        half.permit.take_back();
        self.refuse_waiting(half, status);
    }

    /// The queue is being deleted: its streams, and its commands that wait, end.
    pub(crate) fn delete_partials(&self, queue: u16) {
        loop {
            let mut state = self.parked.partials.known();
            let State { pool, streams, reassembly, serialized, pipelined } = &mut *state;
            serialized.give_up(streams, queue);
            pipelined.give_up_queue(pool, queue);
            let waiting = reassembly.give_up_command(pool, |waiting| waiting.permit.queue().id == queue);
            drop(state);
            let Some(waiting) = waiting else { return };
            self.refuse_waiting(waiting, Status::ABORTED_SQ_DELETED);
        }
    }

    /// Aborts the command `cid` of queue `sqid`, if it waits for chunks.
    pub(crate) fn abort_waiting(&self, sqid: u16, cid: u16) -> bool {
        let mut state = self.parked.partials.known();
        let State { pool, reassembly, .. } = &mut *state;
        let is_meant = |waiting: &Waiting| waiting.permit.queue().id == sqid && waiting.sqe.cid() == cid;
        let waiting = reassembly.give_up_command(pool, is_meant);
        drop(state);
        waiting.map(|waiting| self.refuse_waiting(waiting, Status::ABORT_REQUESTED)).is_some()
    }

    /// Completes a command that has no slot.
    pub(crate) fn refuse_waiting(&self, waiting: Waiting, status: Status) {
        let Waiting { sqe, permit, span } = waiting;
        let status = match permit.queue().fate.get() {
            Fate::Live => status,
            Fate::Deleting => Status::ABORTED_SQ_DELETED,
            Fate::Reset => return,
        };
        self.errors.record(permit.queue().id, &sqe, status, 0, 0);
        self.post(permit, sqe.cid(), status, [0; 2], span);
        self.queues.freed();
    }

    /// When a payload that begins now is given up.
    pub(crate) fn partial_until(&self) -> Time {
        self.clock.now() + self.config.transfer.partial_timeout
    }
}
