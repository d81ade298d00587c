//! Ending commands that wait without a command slot: for the rest of a train, for chunks, or for the other half of a
//! fused operation. Abort, deletion of the queue and a timeout complete them; a reset drops them.

use crate::controller::core::Core;
use crate::controller::queue::partial::State;
use crate::controller::queue::ring::{QueueFate, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::queue::waiting::Waiting;
use byteway_clock::Time;
use byteway_wire::nvme::Status;

impl Core {
    /// Ends the train of a queue that is being deleted.
    pub(crate) fn delete_train(&self, queue: &SubmissionQueue) {
        if let Some((train, _)) = self.parked.trains.take(queue.id) {
            self.refuse(train, Status::ABORTED_SQ_DELETED);
        }
    }

    /// Aborts the command `cid` of queue `sqid`, if it is a parked train.
    pub(crate) fn abort_train(&self, sqid: u16, cid: u16) -> bool {
        let Some(train) = self.parked.trains.abort(sqid, cid) else { return false };
        self.parked.trains.skip(train.queue()); // first, because the completion reports the entries as free
        self.refuse(train, Status::ABORT_REQUESTED);
        self.queues.wake_fetch(); // if the train was complete and waited only for a slot, later entries are fetchable now
        true
    }

    /// Completes a command that has no slot, with an error.
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

    /// Ends the halves of a queue that is being deleted. One without a completion slot ends without a completion: the
    /// deletion completes it implicitly (NVMe Base 2.1, 5.2.4).
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

    /// Ends the streams and waiting commands of a queue that is being deleted.
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

    /// Completes a waiting command, with an error.
    pub(crate) fn refuse_waiting(&self, waiting: Waiting, status: Status) {
        let Waiting { sqe, permit, span } = waiting;
        let status = match permit.queue().fate.get() {
            QueueFate::Live => status,
            QueueFate::Deleting => Status::ABORTED_SQ_DELETED,
            QueueFate::Reset => return,
        };
        self.errors.record(permit.queue().id, &sqe, status, 0, 0);
        self.post(permit, sqe.cid(), status, [0; 2], span);
        self.queues.freed();
    }

    /// Timeout of a payload that begins now.
    pub(crate) fn partial_until(&self) -> Time {
        self.clock.now() + self.config.transfer.partial_timeout
    }
}
