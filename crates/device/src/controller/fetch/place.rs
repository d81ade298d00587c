//! What an entry is given before it is read.

use crate::controller::command_set::execute_at_once;
use crate::controller::core::Core;
use crate::controller::queue::ring::Permit;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::SpanId;
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
pub fn start(core: &Core, sqe: Sqe, place: Place) {
    let Place { permit, slot, span } = place;
    let is_at_once = core.clock.is_immediate() && !core.clock.is_traced() && permit.queue().id > 0;
    if is_at_once && execute_at_once(core, permit.queue(), &sqe) {
        core.background.command_ended();
        core.post(permit, sqe.cid(), Status::SUCCESS, [0; 2], span);
        return core.free_slot(slot);
    }
    core.start(slot, Command { sqe, permit, span, payload: Payload::Pointer, second: None });
}
