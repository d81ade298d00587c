//! Incomplete payloads, in chunks and streams, within the limits of the configuration.

use crate::config::{CommandSet, DriveConfig};
use crate::controller::queue::waiting::Waiting;
use byteway_clock::{Clock, Notify, Time};
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Pipelined, Serialized};
use byteway_transfer::reassembly::Reassembly;
use byteway_wire::nvme::Sqe;
use std::cell::{Cell, RefCell, RefMut};

/// The incomplete payloads.
pub struct State {
    /// Buffers for payloads in chunks and for pipelined streams.
    pub pool: Pool,
    /// Buffers for serialized streams, one per queue.
    pub streams: Pool,
    /// Payloads in chunks.
    pub reassembly: Reassembly<Waiting>,
    /// Serialized streams, each with the command that began it.
    pub serialized: Serialized<StreamHead>,
    /// Pipelined streams.
    pub pipelined: Pipelined<StreamHead>,
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
    /// Whether the timeout task sleeps, because nothing was incomplete when it last looked.
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

    /// Whether nothing is incomplete, so that all buffers are free.
    pub fn is_empty(&self) -> bool {
        let state = self.state.borrow();
        state.pool.used() == 0 && state.streams.used() == 0
    }

    /// The state, for adding to it. Wakes the timeout task.
    pub fn state(&self) -> RefMut<'_, State> {
        if self.rests.take() {
            self.begun.notify_one();
        }
        self.state.borrow_mut()
    }

    /// The state, for taking from it.
    pub(crate) fn known(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// The earliest timeout; `None`: nothing is incomplete.
    pub(crate) fn until(&self) -> Option<Time> {
        self.state.borrow().until()
    }

    /// Waits until something is incomplete.
    pub(crate) async fn begun(&self) {
        self.rests.set(true);
        self.begun.notified().await;
    }

    /// Drops everything without completions, as a reset does.
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
            drop(state); // dropping a permit wakes tasks that may borrow this again
        }
    }
}

/// The command that began a stream. Its command set takes the payload when it is complete.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead {
    /// Command set of the payload's command.
    pub set: CommandSet,
    /// The command.
    pub sqe: Sqe,
    /// Identifies the namespace, which may since have been replaced by another with the same NSID; 0: no namespace.
    pub uid: u64,
}
