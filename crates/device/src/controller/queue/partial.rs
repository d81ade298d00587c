//! Payloads that are incomplete: chunks and streams, and how many there may be of them.

use crate::config::{CommandSet, DriveConfig};
use crate::controller::queue::waiting::Waiting;
use byteway_clock::{Clock, Notify, Time};
use byteway_transfer::partial::Pool;
use byteway_transfer::piggyback::{Pipelined, Serialized};
use byteway_transfer::reassembly::Reassembly;
use byteway_wire::nvme::Sqe;
use std::cell::{Cell, RefCell, RefMut};

/// What is incomplete.
pub struct State {
    /// For payloads in chunks and pipelined streams, together.
    pub pool: Pool,
    /// For serialized streams: one a queue.
    pub streams: Pool,
    /// Payloads in chunks.
    pub reassembly: Reassembly<Waiting>,
    /// Serialized streams; each keeps the command that began it.
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
    /// Nothing was incomplete when the task that gives up what is late last looked.
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

    /// What is incomplete, to add to it: what is late is given up from now on.
    pub fn state(&self) -> RefMut<'_, State> {
        if self.rests.take() {
            self.begun.notify_one();
        }
        self.state.borrow_mut()
    }

    /// What is incomplete, to take from it.
    pub(crate) fn known(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// When the first is late; None: nothing is incomplete.
    pub(crate) fn until(&self) -> Option<Time> {
        self.state.borrow().until()
    }

    /// Waits until something is incomplete again.
    pub(crate) async fn begun(&self) {
        self.rests.set(true);
        self.begun.notified().await;
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

/// The command that began a stream: its command set takes the payload when that is complete.
#[derive(Clone, Copy, Debug)]
pub struct StreamHead {
    /// The set that it is of.
    pub set: CommandSet,
    /// The command.
    pub sqe: Sqe,
    /// What tells the namespace from another one that has its identifier by then; 0: the payload is for none.
    pub uid: u64,
}
