//! An entry that is to be read: the resources that it gets before, and the start of its command.

use crate::controller::command_set::{CommandSets, execute_at_once};
use crate::controller::core::Core;
use crate::controller::queue::ring::Permit;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::{Service, SpanId};
use byteway_firmware::WorkKind;
use byteway_wire::nvme::{Sqe, Status};

/// The resources that an entry gets before it is read: permit, command slot, trace span. An entry that is not a command
/// gives them back ([`EntryResources::give_back`]), or passes them to a command that waits for it.
pub struct EntryResources {
    /// The permit to complete it.
    pub permit: Permit,
    /// The command slot that will execute it.
    pub slot: u32,
    /// Trace span of the I/O.
    pub span: SpanId,
}

impl EntryResources {
    /// Gives permit and slot back.
    pub fn give_back(self, core: &Core) {
        drop(self.permit);
        core.free_slot(self.slot);
    }
}

/// Starts a command without inline payload: immediately if it needs no wait, otherwise in its slot.
#[inline]
pub fn start(sets: &CommandSets, sqe: Sqe, place: EntryResources) {
    let core = &sets.core;
    if core.clock.is_immediate() && !core.clock.is_traced() && place.permit.queue().id > 0 {
        return start_at_once(sets, sqe, place);
    }
    let EntryResources { permit, slot, span } = place;
    let parse = reserve_parse(sets, &sqe, permit.queue().id, span);
    let may_be_plain = sets.may_be_plain(permit.queue(), &sqe);
    core.start(slot, Command { parse, may_be_plain, ..Command::new(sqe, permit, span, Payload::Pointer) });
}

/// Executes an I/O command within this call, if it needs no wait.
fn start_at_once(sets: &CommandSets, sqe: Sqe, place: EntryResources) {
    let core = &sets.core;
    let EntryResources { permit, slot, span } = place;
    core.name_span(&permit, &sqe);
    if execute_at_once(core, permit.queue(), &sqe, span) {
        core.background.command_ended();
        core.post(permit, sqe.cid(), Status::SUCCESS, [0; 2], span);
        return core.free_slot(slot);
    }
    core.start(slot, Command::new(sqe, permit, span, Payload::Pointer));
}

/// Reserves a core for parsing a command, so that its slot is woken once for both. `None`: this takes several waits, or
/// none.
#[inline]
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
    let parse = placement.chain(WorkKind::Fetch, WorkKind::Parse);
    if clock.is_traced() {
        clock.swap_ios(&mut ios);
    }
    parse.map(|parse| sets.after_parse(queue, sqe, parse))
}
