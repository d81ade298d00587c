//! Fused operations (NVMe Base 2.1, 3.4.2): two commands that are executed as one, and how they find each other.
//!
//! The second is in the entry behind the first, and one doorbell write exposes both. They are put together when they have
//! been fetched ([`Pairing`]), and executed in one command slot. Where a read of entries ends between them, the first waits,
//! without a slot, for the read of the second:
//!
//! - if that is in flight, it ends by itself. Reads of a queue end in the order in which they began, as the link is in order;
//! - if the second is exposed and not taken, the first lends its place in the completion queue meanwhile, so that it holds
//!   nothing that the other needs ([`Permit::lend`](crate::controller::queue::ring::Permit::lend)).
//!
//! Abort, deletion of the queue and a reset end the wait. A half without the other (the next entry is not exposed, or is no
//! second) is aborted; so is one whose completion queue could never hold both completions.
//!
//! Payload comes where the data pointers say. A command whose payload lies in its queue is no half.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::place::{Place, start};
use crate::controller::queue::ring::{Fate, SubmissionQueue};
use crate::controller::queue::waiting::Waiting;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::Stage;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_NONE, FUSE_SECOND};
use byteway_wire::nvme::{Sqe, Status};

/// A command that may be one of two, and its slot, if it has one.
struct Candidate {
    command: Waiting,
    slot: Option<u32>,
}

impl Candidate {
    fn fetched(sqe: Sqe, place: Place) -> Self {
        let Place { permit, slot, span } = place;
        Candidate { command: Waiting { sqe, permit, span }, slot: Some(slot) }
    }
}

/// Hands out the commands of one read of entries, the two of a fused operation together.
pub struct Pairing<'a> {
    sets: &'a CommandSets,
    queue: &'a SubmissionQueue,
    /// The read's first entry.
    first: u32,
    /// A first half in the entry before.
    open: Option<Candidate>,
}

impl<'a> Pairing<'a> {
    /// For the read of `queue` that began with entry `first` and has ended.
    pub fn new(sets: &'a CommandSets, queue: &'a SubmissionQueue, first: u32) -> Self {
        Pairing { sets, queue, first, open: None }
    }

    fn core(&self) -> &'a Core {
        &self.sets.core
    }

    /// The entry `index` of the read is this command. Entries come in order.
    #[inline]
    pub fn command(&mut self, index: u32, sqe: Sqe, place: Place) {
        let is_behind_half = self.open.is_some() || index == 0 && !self.core().parked.halves.is_empty();
        match sqe.fuse() {
            FUSE_NONE if !is_behind_half => start(self.sets, sqe, place),
            _ => self.look(index, sqe, place),
        }
    }

    /// The entry `index` of the read is something else.
    pub fn part(&mut self, index: u32) {
        if let Some(first) = self.before(index) {
            self.end_alone(first);
        }
    }

    #[cold]
    fn look(&mut self, index: u32, sqe: Sqe, place: Place) {
        let before = self.before(index);
        let queue = self.queue;
        let fuse = if queue.id == 0 { FUSE_NONE } else { sqe.fuse() }; // the admin commands refuse it themselves
        match (before, fuse) {
            (Some(first), FUSE_SECOND) => return self.start_both(first, sqe, place),
            (Some(first), _) => self.end_alone(first),
            (None, _) => {}
        }
        match fuse {
            FUSE_FIRST => self.open = Some(Candidate::fetched(sqe, place)),
            FUSE_SECOND => self.end_alone(Candidate::fetched(sqe, place)),
            _ => start(self.sets, sqe, place),
        }
    }

    /// The first half in the entry before `index`, if there is one.
    fn before(&mut self, index: u32) -> Option<Candidate> {
        if index > 0 || self.core().parked.halves.is_empty() {
            return self.open.take();
        }
        let queue = self.queue;
        let before = if self.first == 0 { queue.entries() - 1 } else { self.first - 1 };
        let command = self.core().parked.halves.take_at(queue, before)?;
        Some(Candidate { command, slot: None })
    }

    /// All `count` entries of the read were handed out.
    pub fn end(mut self, count: u32) {
        if let Some(first) = self.open.take() {
            self.leave(first, count);
        }
    }

    /// The first half in the last of `count` entries waits for the entry behind, if that can come.
    fn leave(&self, first: Candidate, count: u32) {
        let (core, queue) = (self.core(), self.queue);
        let next = queue.after(self.first, count);
        let is_coming = queue.is_reading_from(next);
        let is_exposed = queue.head() == next && queue.waiting() > 0;
        // A queue is full with one entry empty.
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
        // For the place that was lent: another queue may have waited for it.
        core.queues.freed();
    }

    fn start_both(&self, first: Candidate, second: Sqe, place: Place) {
        let core = self.core();
        let Waiting { sqe, permit, span } = first.command;
        core.port.spans().charge(span, core.clock.now(), Stage::Fetch);
        if let Some(spare) = first.slot {
            core.free_slot(spare);
        }
        let Place { permit: second_permit, slot, span: second_span } = place;
        let second = Waiting { sqe: second, permit: second_permit, span: second_span };
        let second = Some(Box::new(second));
        core.start(slot, Command { sqe, permit, span, payload: Payload::Pointer, second, parse: None });
    }

    /// A half without the other.
    fn end_alone(&self, half: Candidate) {
        let status = Status::ABORTED_MISSING_FUSED;
        let Candidate { command, slot } = half;
        match slot {
            Some(slot) => {
                let Waiting { sqe, permit, span } = command;
                let payload = Payload::Refused(status);
                self.core().start(slot, Command { sqe, permit, span, payload, second: None, parse: None });
            }
            None => self.core().refuse_half(command, status),
        }
    }
}

fn is_live(queue: &SubmissionQueue) -> bool {
    queue.fate.get() == Fate::Live
}
