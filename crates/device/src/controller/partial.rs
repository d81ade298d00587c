//! Payloads that are incomplete: chunks and streams, how many there may be of them, and how they end.
//!
//! A payload ends when it is complete, when the queue of its command or stream is deleted, with Abort of its command, by
//! a reset, or when it was incomplete for too long. A command that has waited for it then fails.

use crate::config::DriveConfig;
use crate::controller::Core;
use crate::controller::log::add;
use crate::controller::queue::{Fate, Permit};
use crate::controller::streams::Destination;
use byteway_clock::{Clock, Notify, SpanId, Time};
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Pipelined, Serialized};
use byteway_transfer::reassembly::Reassembly;
use byteway_wire::nvme::{Sqe, Status};
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

/// A command that waits for the chunks of its payload, or for the other command of its fused operation. It has no command
/// slot meanwhile.
pub struct Waiting {
    /// The command.
    pub sqe: Sqe,
    /// The right and duty to complete it.
    pub permit: Permit,
    /// Who follows it.
    pub span: SpanId,
}

/// What is incomplete.
pub struct State {
    /// For payloads in chunks and pipelined streams, together.
    pub pool: Pool,
    /// For serialized streams: one a queue.
    pub streams: Pool,
    /// Payloads in chunks.
    pub reassembly: Reassembly<Waiting>,
    /// Serialized streams; each knows where its payload goes.
    pub serialized: Serialized<Destination>,
    /// Pipelined streams.
    pub pipelined: Pipelined<Destination>,
}

impl State {
    fn until(&self) -> Option<Time> {
        let all = [self.reassembly.until(), self.serialized.until(), self.pipelined.until()];
        all.into_iter().flatten().min()
    }
}

/// All incomplete payloads of a controller.
pub struct Partials {
    state: RefCell<State>,
    /// Nothing was incomplete when [`run`] last looked.
    rests: Cell<bool>,
    begun: Notify,
}

impl Partials {
    /// None yet.
    pub fn new(clock: &Clock, config: &DriveConfig) -> Self {
        let transfer = &config.transfer;
        Partials {
            state: RefCell::new(State {
                pool: Pool::new(transfer.partial_payloads_max),
                streams: Pool::new(config.controller.io_queues_max.into()),
                reassembly: Reassembly::new(transfer.reassembly_bytes_max),
                serialized: Serialized::default(),
                pipelined: Pipelined::new(transfer.piggyback_bytes_max),
            }),
            rests: Cell::default(),
            begun: Notify::new(clock),
        }
    }

    /// Whether nothing is incomplete, so that all memory is free.
    pub fn is_empty(&self) -> bool {
        let state = self.state.borrow();
        state.pool.used() == 0 && state.streams.used() == 0
    }

    /// What is incomplete, to add to it: [`run`] looks after it from now on.
    pub fn state(&self) -> RefMut<'_, State> {
        if self.rests.take() {
            self.begun.notify_one();
        }
        self.state.borrow_mut()
    }

    /// Forgets everything, as a reset does: commands that wait do not complete.
    pub fn clear(&self, queues_max: u16) {
        loop {
            let mut state = self.state.borrow_mut();
            let State { pool, streams, reassembly, serialized, pipelined } = &mut *state;
            let ended = reassembly.give_up_any(pool);
            if ended.is_none() {
                for queue in 0..=queues_max {
                    serialized.give_up(streams, queue);
                    pipelined.give_up_queue(pool, queue);
                }
                return;
            }
            drop(state); // a permit that is dropped wakes who waits for it
        }
    }
}

/// Gives up what is incomplete for too long.
pub async fn run(core: Rc<Core>) {
    loop {
        core.give_up_late();
        let until = core.partials.state.borrow().until();
        match until {
            Some(until) => core.clock.timer(until.since(core.clock.now())).await,
            None => {
                core.partials.rests.set(true);
                core.partials.begun.notified().await;
            }
        }
    }
}

impl Core {
    /// When a payload that begins now is given up.
    pub(super) fn partial_until(&self) -> Time {
        self.clock.now() + self.config.transfer.partial_timeout
    }

    fn give_up_late(&self) {
        let now = self.clock.now();
        loop {
            let mut state = self.partials.state.borrow_mut();
            let State { pool, streams, reassembly, serialized, pipelined } = &mut *state;
            let late = reassembly.give_up_late(pool, now);
            let is_late =
                late.is_some() || serialized.give_up_late(streams, now) || pipelined.give_up_late(pool, now);
            drop(state);
            if !is_late {
                return;
            }
            add(&self.counters.payloads_given_up, 1);
            if let Some(waiting) = late.flatten() {
                self.refuse_waiting(waiting, Status::DATA_TRANSFER_ERROR);
            }
        }
    }

    /// The queue is being deleted: its streams, and its commands that wait, end.
    pub(super) fn delete_partials(&self, queue: u16) {
        loop {
            let mut state = self.partials.state.borrow_mut();
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
    pub(super) fn abort_waiting(&self, sqid: u16, cid: u16) -> bool {
        let mut state = self.partials.state.borrow_mut();
        let State { pool, reassembly, .. } = &mut *state;
        let is_meant = |waiting: &Waiting| waiting.permit.queue().id == sqid && waiting.sqe.cid() == cid;
        let waiting = reassembly.give_up_command(pool, is_meant);
        drop(state);
        waiting.map(|waiting| self.refuse_waiting(waiting, Status::ABORT_REQUESTED)).is_some()
    }

    /// Completes a command that has no slot.
    pub(super) fn refuse_waiting(&self, waiting: Waiting, status: Status) {
        let Waiting { sqe, permit, span } = waiting;
        let status = match permit.queue().fate.get() {
            Fate::Live => status,
            Fate::Deleting => Status::ABORTED_SQ_DELETED,
            Fate::Reset => return,
        };
        self.errors.record(permit.queue().id, &sqe, status, 0, 0);
        self.post(permit, sqe.cid(), status, [0; 2], span);
        self.room();
    }
}
