//! Tickets: completion and results of submitted operations, without an allocation for each.

use byteway_clock::{Awaited, Clock, Delay, TaskId};
use byteway_content::Content;
use std::cell::RefCell;
use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Result of a ticket's operations.
///
/// The times are those of the operation that ended last, and sum to its total time. Across a link, cells and
/// channel cannot be reported apart: all time that an operation did not wait at this end is in `channel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Waiting for the die and the channel; for a program or an erase, also the time of its suspensions.
    pub queued: Delay,
    /// The part of it for the die, by what that did meanwhile: reads and programs for hosts, erases, and reads
    /// and programs of collection, wear leveling and refresh. The rest is for the channel, its own or that of the
    /// operations before it.
    pub die: [Delay; 4],
    /// The part of it in which a hot drive rested and the die did nothing.
    pub rest: Delay,
    /// Sensing with all retries, programming, erasing, and the time to resume.
    pub cell: Delay,
    /// Command cycles and data on the channel, those of retries included.
    pub channel: Delay,
    /// An operation failed: an address beyond the array, a program out of order or of a superblock that is
    /// not erased, a failed program or erase, or a read that could not deliver all of its units.
    pub failed: bool,
    /// Units that reads could not deliver: of torn stripes, uncorrectable, or beyond the array.
    /// [`Ticket::is_unreadable`] identifies them.
    pub unreadable: u32,
}

impl Outcome {
    /// What it waited for: the die, by what that did meanwhile, the rests of a hot drive, and the channel. The sum is
    /// [`Outcome::queued`].
    pub fn waits(&self) -> [(Awaited, Delay); 6] {
        let [reads, programs, erases, collection] = self.die;
        let channel = self.queued.saturating_sub(self.die.into_iter().sum::<Delay>() + self.rest);
        [
            (Awaited::DieReads, reads),
            (Awaited::DiePrograms, programs),
            (Awaited::DieErases, erases),
            (Awaited::DieCollection, collection),
            (Awaited::Channel, channel),
            (Awaited::Throttle, self.rest),
        ]
    }
}

/// State of a ticket.
#[derive(Default)]
pub(crate) struct Node {
    remaining: u32,
    /// The ticket is held by a caller.
    held: bool,
    task: Option<TaskId>,
    outcome: Outcome,
    contents: Vec<Content>,
    /// Indices in `contents` of unreadable units.
    unreadable: Vec<u32>,
}

impl Node {
    fn clear(&mut self) {
        self.contents.clear();
        self.unreadable.clear();
        self.outcome = Outcome::default();
    }
}

/// Nodes of all tickets, which are reused with the memory of their contents.
#[derive(Default)]
pub(crate) struct Tickets {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl Tickets {
    fn open(&mut self) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            (self.nodes.len() - 1) as u32
        });
        self.nodes[index as usize].held = true;
        index
    }

    /// The ticket was dropped: its operations continue, and the last one frees the node.
    fn close(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.held = false;
        node.task = None;
        if node.remaining == 0 {
            self.free(index);
        }
    }

    fn free(&mut self, index: u32) {
        let node = &mut self.nodes[index as usize];
        node.clear();
        self.free.push(index);
    }

    /// Tickets that are held or have operations in flight.
    pub(crate) fn in_use(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds an operation that will deliver `units` units. Returns the index of the first in the contents.
    pub(crate) fn add(&mut self, index: u32, units: usize) -> usize {
        let node = &mut self.nodes[index as usize];
        node.remaining += 1;
        let at = node.contents.len();
        node.contents.extend(iter::repeat_with(Content::default).take(units));
        at
    }

    /// Destination of a read's units; empty if the ticket was dropped.
    pub(crate) fn contents_at(&mut self, index: u32, at: usize) -> &mut [Content] {
        let node = &mut self.nodes[index as usize];
        if node.held { &mut node.contents[at..] } else { &mut [] }
    }

    /// Marks the units in `bad` unreadable, for a read of the units in `mask` that delivers from index `at`
    /// on.
    pub(crate) fn mark_unreadable(&mut self, index: u32, at: usize, mask: u64, bad: u64) {
        let node = &mut self.nodes[index as usize];
        if !node.held {
            return;
        }
        let units = (0..u64::BITS).filter(|unit| mask >> unit & 1 == 1);
        for (place, _) in (at..).zip(units).filter(|(_, unit)| bad >> unit & 1 == 1) {
            if let Some(content) = node.contents.get_mut(place) {
                *content = Content::Zero;
            }
            node.unreadable.push(place as u32);
        }
    }

    /// Completes an operation. Returns the waiting task if it was the last one.
    pub(crate) fn complete(&mut self, index: u32, outcome: Outcome) -> Option<TaskId> {
        let node = &mut self.nodes[index as usize];
        node.outcome = Outcome {
            failed: outcome.failed | node.outcome.failed,
            unreadable: outcome.unreadable + node.outcome.unreadable,
            ..outcome
        };
        node.remaining -= 1;
        if node.remaining > 0 {
            return None;
        }
        if !node.held {
            self.free(index);
            return None;
        }
        node.task.take()
    }
}

/// The tickets of a data end. Its executor of operations (the dies of an array, or a link) reports
/// completions here. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Desk(Rc<DeskState>);

struct DeskState {
    clock: Clock,
    tickets: RefCell<Tickets>,
}

impl Desk {
    pub(crate) fn new(clock: &Clock) -> Self {
        Desk(Rc::new(DeskState { clock: clock.clone(), tickets: RefCell::default() }))
    }

    /// A new ticket.
    pub(crate) fn ticket(&self) -> Ticket {
        let index = self.tickets(Tickets::open);
        Ticket { desk: self.clone(), index }
    }

    #[inline]
    pub(crate) fn tickets<R>(&self, look: impl FnOnce(&mut Tickets) -> R) -> R {
        look(&mut self.0.tickets.borrow_mut())
    }

    /// Completes an operation, and wakes the waiter after the last one.
    #[inline]
    pub(crate) fn complete(&self, index: u32, outcome: Outcome) {
        if let Some(task) = self.tickets(|tickets| tickets.complete(index, outcome)) {
            self.0.clock.wake(task);
        }
    }

    /// Whether a ticket was issued by this end.
    pub(crate) fn has_issued(&self, ticket: &Ticket) -> bool {
        Rc::ptr_eq(&self.0, &ticket.desk.0)
    }
}

/// Collects operations: submit any number under one ticket, then wait for all of them.
///
/// Read results are kept in the order of submission, and within a read in the order of its units, as of the
/// instant at which the data moved; later erases do not change them. After a wait the ticket can be reused;
/// [`clear`](Ticket::clear) it first. If it is dropped early, its operations continue, because they belong to
/// the data end.
pub struct Ticket {
    desk: Desk,
    pub(crate) index: u32,
}

impl Ticket {
    fn node<R>(&self, look: impl FnOnce(&mut Node) -> R) -> R {
        self.desk.tickets(|tickets| look(&mut tickets.nodes[self.index as usize]))
    }

    /// For a call: the outcome, if every operation submitted under it has completed. Otherwise this call is made again when they have.
    #[inline]
    pub fn outcome(&self) -> Option<Outcome> {
        let task = self.desk.0.clock.current();
        self.node(|node| match node.remaining {
            0 => Some(node.outcome),
            _ => {
                node.task = Some(task);
                None
            }
        })
    }

    /// Waits until every operation submitted under it has completed.
    pub fn wait(&self) -> Wait<'_> {
        Wait { ticket: self, yielded: false }
    }

    /// Operations in flight.
    pub fn remaining(&self) -> u32 {
        self.node(|node| node.remaining)
    }

    /// Units delivered or to be delivered.
    pub fn units(&self) -> usize {
        self.node(|node| node.contents.len())
    }

    /// Content of a unit; `index` counts from the result of `submit_read`. Zero before delivery, and beyond
    /// the end.
    pub fn content(&self, index: usize) -> Content {
        self.node(|node| node.contents.get(index).cloned().unwrap_or_default())
    }

    /// Like [`content`](Ticket::content), moved out of the ticket.
    pub fn take(&self, index: usize) -> Content {
        self.node(|node| node.contents.get_mut(index).map(std::mem::take).unwrap_or_default())
    }

    /// Whether a read could not deliver a unit; its [`content`](Ticket::content) is then zero.
    pub fn is_unreadable(&self, index: usize) -> bool {
        self.node(|node| node.unreadable.iter().any(|place| *place as usize == index))
    }

    /// Moves all contents to the end of `out`, in order of submission. Call only with no operation in flight.
    pub fn take_contents(&self, out: &mut Vec<Content>) {
        self.node(|node| {
            debug_assert_eq!(node.remaining, 0, "contents are there after the wait");
            match node.remaining {
                0 => out.append(&mut node.contents),
                _ => out.extend_from_slice(&node.contents),
            }
        });
    }

    /// Drops contents and outcome, for the next use. Call only with no operation in flight.
    pub fn clear(&self) {
        self.node(|node| {
            debug_assert_eq!(node.remaining, 0, "a ticket is cleared between uses");
            if node.remaining == 0 {
                node.clear();
            }
        });
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.desk.tickets(|tickets| tickets.close(self.index));
    }
}

/// A wait for the operations of a ticket.
#[must_use = "waits only when it is awaited"]
pub struct Wait<'a> {
    ticket: &'a Ticket,
    /// Whether it has yielded under `timing = "none"`, with everything complete.
    yielded: bool,
}

impl Future for Wait<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let clock = &self.ticket.desk.0.clock;
        match self.ticket.outcome() {
            // No wait took place, so a task that only uses flash must let others run here.
            Some(_) if clock.is_immediate() && !self.yielded && !clock.skip_step() => {
                clock.wake(clock.current());
                self.yielded = true;
                Poll::Pending
            }
            Some(outcome) => Poll::Ready(outcome),
            None => Poll::Pending,
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.ticket.node(|node| node.task = None);
    }
}
