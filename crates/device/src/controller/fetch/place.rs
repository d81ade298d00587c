//! What an entry is given before it is read.

use crate::controller::command_set::{CommandSets, execute_at_once};
use crate::controller::core::Core;
use crate::controller::queue::ring::Permit;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::{Service, SpanId};
use byteway_firmware::Work;
use byteway_wire::nvme::{Sqe, Status};

/// What an entry was given before it was read: the right to complete, a command slot, and who follows it. An entry that
/// is no command gives them back ([`Place::give_back`]), or to a command that has waited for it.
pub struct Place {
    /// Its permit.
    pub permit: Permit,
    /// The command slot that will execute it.
    pub slot: u32,
    /// Who follows it.
    pub span: SpanId,
}

impl Place {
    /// Needs neither permit nor slot.
    pub fn give_back(self, core: &Core) {
        drop(self.permit);
        core.free_slot(self.slot);
    }
}

/// A command without payload in the queue goes to its slot, unless it can be done at once.
pub fn start(sets: &CommandSets, sqe: Sqe, place: Place) {
    let core = &sets.core;
    let Place { permit, slot, span } = place;
    let is_at_once = core.clock.is_immediate() && !core.clock.is_traced() && permit.queue().id > 0;
    if is_at_once && execute_at_once(core, permit.queue(), &sqe) {
        core.background.command_ended();
        core.post(permit, sqe.cid(), Status::SUCCESS, [0; 2], span);
        return core.free_slot(slot);
    }
    let parse = reserve_parse(sets, &sqe, permit.queue().id, span);
    core.start(slot, Command { sqe, permit, span, payload: Payload::Pointer, second: None, parse });
}

/// Reserves a core to parse a command, so that its slot is woken once for both. None: that is several waits, or none.
pub fn reserve_parse(sets: &CommandSets, sqe: &Sqe, queue: u16, span: SpanId) -> Option<Service> {
    let Core { clock, placement, .. } = &*sets.core;
    if clock.is_immediate() {
        return None;
    }
    let mut ios = Vec::new();
    if clock.is_traced() {
        clock.swap_ios(&mut ios);
        clock.works_for([span]);
    }
    let parse = placement.chain(Work::Fetch, Work::Parse);
    if clock.is_traced() {
        clock.swap_ios(&mut ios);
    }
    parse.map(|parse| Service { end: parse.end + sets.pipeline(queue, sqe), ..parse })
}
