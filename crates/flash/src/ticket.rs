//! Tickets: how one who submits operations learns that they are done, without an allocation.

use byteway_clock::{Clock, Delay, TaskId};
use byteway_wire::content::Content;
use std::cell::RefCell;
use std::future::Future;
use std::iter;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// How the operations of a ticket went.
///
/// The times are those of the operation that ended last; they sum to the time from its submission to its end. Across a link
/// nobody tells cells from channel: what an operation did not wait at this end is all in `channel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Waiting for the die, and for the channel; of a program or an erase also while it was suspended.
    pub queued: Delay,
    /// Sensing, with every retry; programming, erasing, and what it took to resume them.
    pub cell: Delay,
    /// Command cycles and data on the channel, with those of retries.
    pub channel: Delay,
    /// One of the operations was not done: an address beyond the array, a program out of order or of a block that
    /// isn't erased, a program or an erase that failed, a read that could not deliver all of its units.
    pub failed: bool,
    /// Units that reads could not deliver, of all operations: of torn stripes, beyond what can be corrected, beyond the
    /// array. [`Ticket::is_unreadable`] tells which.
    pub unreadable: u32,
}

/// What stands behind a ticket.
#[derive(Default)]
pub(crate) struct Node {
    remaining: u32,
    /// Somebody has the ticket.
    held: bool,
    task: Option<TaskId>,
    outcome: Outcome,
    contents: Vec<Content>,
    /// Places in `contents` that could not be read.
    unreadable: Vec<u32>,
}

impl Node {
    fn clear(&mut self) {
        self.contents.clear();
        self.unreadable.clear();
        self.outcome = Outcome::default();
    }
}

/// All tickets' nodes. They are reused, with the memory of their contents.
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

    /// The ticket was dropped: its operations go on, and the last one frees the node.
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

    /// Tickets that are held, or whose operations are not done.
    pub(crate) fn in_use(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds an operation that will deliver `units` units; gives the place of the first in the contents.
    pub(crate) fn add(&mut self, index: u32, units: usize) -> usize {
        let node = &mut self.nodes[index as usize];
        node.remaining += 1;
        let at = node.contents.len();
        node.contents.extend(iter::repeat_with(Content::default).take(units));
        at
    }

    /// Where a read delivers its units; nowhere, if nobody will look.
    pub(crate) fn contents_at(&mut self, index: u32, at: usize) -> &mut [Content] {
        let node = &mut self.nodes[index as usize];
        if node.held { &mut node.contents[at..] } else { &mut [] }
    }

    /// A read of the units in `mask`, which delivers from `at` on, could not read those in `bad`.
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

    /// An operation has ended. Gives the task to be woken, if it was the last one and somebody waits.
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

/// The tickets of a data end. Whatever carries its operations out reports here that they are done: the dies of an array, or
/// what has come back over a link. Cheap to clone.
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

    /// A ticket to submit under.
    pub(crate) fn ticket(&self) -> Ticket {
        let index = self.tickets(Tickets::open);
        Ticket { desk: self.clone(), index }
    }

    #[inline]
    pub(crate) fn tickets<R>(&self, look: impl FnOnce(&mut Tickets) -> R) -> R {
        look(&mut self.0.tickets.borrow_mut())
    }

    /// An operation has ended: whoever waits for the ticket goes on, if it was the last one.
    #[inline]
    pub(crate) fn complete(&self, index: u32, outcome: Outcome) {
        if let Some(task) = self.tickets(|tickets| tickets.complete(index, outcome)) {
            self.0.clock.wake(task);
        }
    }

    /// Whether a ticket is one of this end.
    pub(crate) fn has_issued(&self, ticket: &Ticket) -> bool {
        Rc::ptr_eq(&self.0, &ticket.desk.0)
    }
}

/// Collects operations: submit any number under it, then wait for all of them.
///
/// What the reads deliver is kept in the order of submission, and within a read in the order of its units, as it was
/// when the read's data moved; later erases don't change it. After a wait the ticket can be used again;
/// [`clear`](Ticket::clear) it first. Dropped early, its operations go on: they belong to the data end.
pub struct Ticket {
    desk: Desk,
    pub(crate) index: u32,
}

impl Ticket {
    fn node<R>(&self, look: impl FnOnce(&mut Node) -> R) -> R {
        self.desk.tickets(|tickets| look(&mut tickets.nodes[self.index as usize]))
    }

    /// Waits until every operation submitted under it is done.
    pub fn wait(&self) -> Wait<'_> {
        Wait { ticket: self, yielded: false }
    }

    /// Operations that are not done.
    pub fn remaining(&self) -> u32 {
        self.node(|node| node.remaining)
    }

    /// Units delivered, or to be delivered.
    pub fn units(&self) -> usize {
        self.node(|node| node.contents.len())
    }

    /// What a unit held; `index` counts from what `submit_read` gave. Zero before it is delivered, and beyond the
    /// end.
    pub fn content(&self, index: usize) -> Content {
        self.node(|node| node.contents.get(index).cloned().unwrap_or_default())
    }

    /// The same, which it then no longer has.
    pub fn take(&self, index: usize) -> Content {
        self.node(|node| node.contents.get_mut(index).map(std::mem::take).unwrap_or_default())
    }

    /// Whether a read could not deliver a unit; `index` counts as for [`content`](Ticket::content), which is zero then.
    pub fn is_unreadable(&self, index: usize) -> bool {
        self.node(|node| node.unreadable.iter().any(|place| *place as usize == index))
    }

    /// Moves all contents to the end of `out`, in order of submission. To be called when nothing remains.
    pub fn take_contents(&self, out: &mut Vec<Content>) {
        self.node(|node| {
            debug_assert_eq!(node.remaining, 0, "contents are there after the wait");
            match node.remaining {
                0 => out.append(&mut node.contents),
                _ => out.extend_from_slice(&node.contents),
            }
        });
    }

    /// Forgets contents and outcome, for the next use. To be called when nothing remains.
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
    /// It yielded under `timing = "none"`, when everything was done.
    yielded: bool,
}

impl Future for Wait<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let clock = &self.ticket.desk.0.clock;
        let task = clock.current();
        let outcome = self.ticket.node(|node| {
            if node.remaining == 0 {
                return Some(node.outcome);
            }
            node.task = Some(task);
            None
        });
        match outcome {
            // Nothing was waited for, so this is where a task that only uses flash lets others run.
            Some(_) if clock.is_immediate() && !self.yielded && !clock.skip_step() => {
                clock.wake(task);
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
