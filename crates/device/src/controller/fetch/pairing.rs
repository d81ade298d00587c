//! Fused operations (NVMe Base 2.1, 3.4.2): pairing the two commands that are executed as one.
//!
//! The second command is in the entry after the first, and one doorbell write exposes both. They are paired once they
//! are fetched ([`Pairing`]), and executed in one command slot. If a read of entries ends between them, the first
//! waits, without a slot, for the read of the second:
//!
//! - If that read is in flight, the wait ends by itself. A shorter read may end before a longer one that began earlier: then it is the second
//!   that waits, for the read of the first.
//! - If the second is exposed but not taken, the first lends its completion slot meanwhile, so that it holds nothing
//!   that the other needs ([`Permit::lend`](crate::controller::queue::ring::Permit::lend)).
//!
//! Abort, deletion of the queue and a reset end the wait. A half without the other (the next entry is not exposed, or
//! is not a second half) is aborted; so is one whose completion queue could never hold both completions.
//!
//! The payload is where the data pointers say. A command whose payload lies in its queue can't be fused.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::entry::{EntryResources, start};
use crate::controller::queue::ring::{QueueFate, SubmissionQueue};
use crate::controller::queue::waiting::Waiting;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::Stage;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_NONE, FUSE_SECOND};
use byteway_wire::nvme::{Sqe, Status};

/// A command that may be half of a fused operation, and its slot, if it has one.
struct Candidate {
    command: Waiting,
    slot: Option<u32>,
}

impl Candidate {
    fn fetched(sqe: Sqe, place: EntryResources) -> Self {
        let EntryResources { permit, slot, span } = place;
        Candidate { command: Waiting { sqe, permit, span }, slot: Some(slot) }
    }
}

/// Dispatches the commands of one read of submission queue entries, fused pairs together.
pub struct Pairing<'a> {
    sets: &'a CommandSets,
    queue: &'a SubmissionQueue,
    /// Index of the read's first entry.
    first: u32,
    /// First half of a fused pair in the previous entry.
    open: Option<Candidate>,
}

impl<'a> Pairing<'a> {
    /// Pairing for a finished read of `queue` that began with entry `first`.
    pub fn new(sets: &'a CommandSets, queue: &'a SubmissionQueue, first: u32) -> Self {
        Pairing { sets, queue, first, open: None }
    }

    fn core(&self) -> &'a Core {
        &self.sets.core
    }

    /// Takes the command in entry `index` of the read. Entries are passed in order.
    #[inline]
    pub fn command(&mut self, index: u32, sqe: Sqe, place: EntryResources) {
        let is_behind_half = self.open.is_some() || index == 0 && !self.core().parked.halves.is_empty();
        match sqe.fuse() {
            FUSE_NONE if !is_behind_half => start(self.sets, sqe, place),
            _ => self.look(index, sqe, place),
        }
    }

    /// Notes that entry `index` of the read is not a command.
    pub fn part(&mut self, index: u32) {
        if let Some(first) = self.before(index) {
            self.end_alone(first);
        }
    }

    #[cold]
    fn look(&mut self, index: u32, sqe: Sqe, place: EntryResources) {
        let before = self.before(index);
        let queue = self.queue;
        let fuse = if queue.id == 0 { FUSE_NONE } else { sqe.fuse() }; // admin commands check the field themselves
        match (before, fuse) {
            (Some(first), FUSE_SECOND) => return self.start_both(first, sqe, place),
            (Some(first), _) => self.end_alone(first),
            (None, _) => {}
        }
        match fuse {
            FUSE_FIRST => self.open = Some(Candidate::fetched(sqe, place)),
            FUSE_SECOND if index == 0 && queue.is_reading_until(self.first) => {
                self.wait_for_first(sqe, place)
            }
            FUSE_SECOND => self.end_alone(Candidate::fetched(sqe, place)),
            _ => start(self.sets, sqe, place),
        }
    }

    /// Parks a second half, in the first entry of the read, whose first half is in a read in flight.
    fn wait_for_first(&self, sqe: Sqe, place: EntryResources) {
        let (core, EntryResources { permit, slot, span }) = (self.core(), place);
        core.parked.halves.put(self.first, Waiting { sqe, permit, span });
        core.free_slot(slot);
        core.queues.freed();
    }

    /// The first half in the entry before `index`, if there is one.
    fn before(&mut self, index: u32) -> Option<Candidate> {
        if index > 0 || self.core().parked.halves.is_empty() {
            return self.open.take();
        }
        let queue = self.queue;
        let before = if self.first == 0 { queue.entries() - 1 } else { self.first - 1 };
        let command = self.core().parked.halves.take_at(queue, before, FUSE_FIRST)?;
        Some(Candidate { command, slot: None })
    }

    /// Ends the read: all `count` entries were dispatched.
    pub fn end(mut self, count: u32) {
        let (core, queue) = (self.core(), self.queue);
        let next = queue.after(self.first, count);
        let second = match core.parked.halves.is_empty() {
            true => None,
            false => core.parked.halves.take_at(queue, next, FUSE_SECOND),
        };
        match (self.open.take(), second) {
            (None, None) => {}
            (Some(first), None) => self.leave(first, count),
            (None, Some(second)) => self.end_alone(Candidate { command: second, slot: None }),
            // A first half of this read has its slot; of a read before, it would be the last of that.
            (Some(Candidate { command, slot }), Some(Waiting { sqe, permit, span })) => {
                let slot = slot.expect("what a read ends with was fetched by it");
                self.start_both(
                    Candidate { command, slot: None },
                    sqe,
                    EntryResources { permit, slot, span },
                );
            }
        }
    }

    /// Parks the first half in the last of `count` entries until the next entry is read, if that can happen.
    fn leave(&self, first: Candidate, count: u32) {
        let (core, queue) = (self.core(), self.queue);
        let next = queue.after(self.first, count);
        let is_coming = queue.is_reading_from(next);
        let is_exposed = queue.head() == next && queue.waiting() > 0;
        // A queue is full with one entry empty, so it must have more than two entries to hold both completions.
        let holds_both = queue.completion_queue.entries() > 2;
        let can_wait = is_coming || is_exposed && holds_both;
        if !is_live(queue) || !can_wait {
            return self.end_alone(first);
        }
        let Candidate { command, slot } = first;
        if !is_coming {
            command.permit.lend();
        }
        core.parked.halves.put(queue.after(self.first, count - 1), command);
        if let Some(slot) = slot {
            core.free_slot(slot);
        }
        // The lent completion slot may be what another queue waits for.
        core.queues.freed();
    }

    fn start_both(&self, first: Candidate, second: Sqe, place: EntryResources) {
        let core = self.core();
        let Waiting { sqe, permit, span } = first.command;
        core.port.spans().charge(span, core.clock.now(), Stage::Fetch);
        if let Some(spare) = first.slot {
            core.free_slot(spare);
        }
        let EntryResources { permit: second_permit, slot, span: second_span } = place;
        let second = Waiting { sqe: second, permit: second_permit, span: second_span };
        let second = Some(Box::new(second));
        core.start(slot, Command { second, ..Command::new(sqe, permit, span, Payload::Pointer) });
    }

    /// Ends a half without the other.
    fn end_alone(&self, half: Candidate) {
        let status = Status::ABORTED_MISSING_FUSED;
        let Candidate { command, slot } = half;
        match slot {
            Some(slot) => {
                let Waiting { sqe, permit, span } = command;
                let refused = Payload::Refused(status);
                self.core().start(slot, Command::new(sqe, permit, span, refused));
            }
            None => self.core().refuse_half(command, status),
        }
    }
}

fn is_live(queue: &SubmissionQueue) -> bool {
    queue.fate.get() == QueueFate::Live
}
