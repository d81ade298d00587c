//! The timeout of incomplete payloads in chunks and streams.
//!
//! A payload ends when it is complete, when the queue of its command or stream is deleted, when its command is aborted,
//! at a reset, or at its timeout. A command that waits for it then fails.

use crate::controller::core::Core;
use crate::controller::queue::partial::State;
use crate::controller::state::counters::add;
use byteway_wire::nvme::Status;
use std::rc::Rc;

/// Drops payloads that have been incomplete for too long.
pub async fn run(core: Rc<Core>) {
    loop {
        core.give_up_late();
        let until = core.parked.partials.until();
        match until {
            Some(until) => core.clock.timer(until.since(core.clock.now())).await,
            None => {
                core.parked.partials.begun().await;
            }
        }
    }
}

impl Core {
    fn give_up_late(&self) {
        let now = self.clock.now();
        loop {
            let mut state = self.parked.partials.known();
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
}
