//! Who waits for what, in order: the list behind semaphore, channel, notify and station.
//!
//! A node is a waiter. Granting moves a value into it and takes it off the line; a waiter that is dropped leaves the
//! line, or gives back the grant that it did not get to see.

use crate::task::TaskId;
use std::cell::RefCell;

const NONE: u32 = u32::MAX;

/// A place in the line; returned to the line by `take` or `cancel`.
#[derive(Debug)]
pub(crate) struct Ticket(u32);

enum State<G> {
    Free,
    Waiting,
    Granted(G),
}

struct Node<W, G> {
    task: TaskId,
    want: Option<W>,
    state: State<G>,
    previous: u32,
    next: u32,
}

struct Line<W, G> {
    nodes: Vec<Node<W, G>>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    waiting: usize,
}

/// A line of tasks, each wanting a `W` and granted a `G`.
pub(crate) struct WaitLine<W, G>(RefCell<Line<W, G>>);

impl<W, G> Default for WaitLine<W, G> {
    fn default() -> Self {
        WaitLine(RefCell::new(Line {
            nodes: Vec::new(),
            free: Vec::new(),
            head: NONE,
            tail: NONE,
            waiting: 0,
        }))
    }
}

impl<W, G> WaitLine<W, G> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().waiting
    }

    pub(crate) fn join(&self, task: TaskId, want: W) -> Ticket {
        let mut line = self.0.borrow_mut();
        let line = &mut *line;
        let previous = line.tail;
        let node = Node { task, want: Some(want), state: State::Waiting, previous, next: NONE };
        let index = match line.free.pop() {
            Some(index) => {
                line.nodes[index as usize] = node;
                index
            }
            None => {
                line.nodes.push(node);
                (line.nodes.len() - 1) as u32
            }
        };
        match previous {
            NONE => line.head = index,
            p => line.nodes[p as usize].next = index,
        }
        line.tail = index;
        line.waiting += 1;
        Ticket(index)
    }

    /// What the first in line wants.
    pub(crate) fn first<R>(&self, look: impl FnOnce(&W) -> R) -> Option<R> {
        let line = self.0.borrow();
        match line.head {
            NONE => None,
            head => line.nodes[head as usize].want.as_ref().map(look),
        }
    }

    /// Grants to the first in line; the caller wakes the task. Nobody waiting: the grant comes back.
    pub(crate) fn grant(&self, make: impl FnOnce(W) -> G) -> Option<TaskId> {
        let mut line = self.0.borrow_mut();
        let head = line.head;
        if head == NONE {
            return None;
        }
        line.unlink(head);
        let node = &mut line.nodes[head as usize];
        let want = node.want.take().expect("a waiter wants something");
        node.state = State::Granted(make(want));
        Some(node.task)
    }

    /// The grant, if it has come; the ticket is then spent.
    pub(crate) fn take(&self, ticket: &mut Option<Ticket>) -> Option<G> {
        let index = ticket.as_ref().expect("a spent ticket is not polled").0;
        let mut line = self.0.borrow_mut();
        let node = &mut line.nodes[index as usize];
        if matches!(node.state, State::Waiting) {
            return None;
        }
        let State::Granted(grant) = std::mem::replace(&mut node.state, State::Free) else {
            unreachable!("a ticket points to a node in use")
        };
        line.free.push(index);
        *ticket = None;
        Some(grant)
    }

    /// Leaves the line. A grant that had already come is returned, to be passed on.
    pub(crate) fn cancel(&self, ticket: &mut Option<Ticket>) -> Option<G> {
        let index = ticket.take()?.0;
        let mut line = self.0.borrow_mut();
        if matches!(line.nodes[index as usize].state, State::Waiting) {
            line.unlink(index);
        }
        let node = &mut line.nodes[index as usize];
        let want = node.want.take();
        let state = std::mem::replace(&mut node.state, State::Free);
        line.free.push(index);
        drop(line);
        drop(want); // what it wanted to send may, as it is dropped, come back to this line
        match state {
            State::Granted(grant) => Some(grant),
            _ => None,
        }
    }
}

impl<W, G> Line<W, G> {
    fn unlink(&mut self, index: u32) {
        let (previous, next) = (self.nodes[index as usize].previous, self.nodes[index as usize].next);
        match previous {
            NONE => self.head = next,
            p => self.nodes[p as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            n => self.nodes[n as usize].previous = previous,
        }
        self.waiting -= 1;
    }
}
