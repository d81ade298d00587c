//! Waiters in FIFO order: the list behind semaphore, channel and notify.
//!
//! A node is a waiter. Granting moves a value into the node and unlinks it. A waiter that is dropped leaves
//! the line, or returns a grant that it has not yet seen.

use crate::task::TaskId;
use std::cell::{Cell, RefCell};

const NONE: u32 = u32::MAX;

/// A waiter's node; `take` or `cancel` frees it.
#[derive(Debug)]
pub struct Ticket(u32);

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
}

/// A line of tasks, each of which wants a `W` and is granted a `G`.
pub(crate) struct WaitLine<W, G> {
    line: RefCell<Line<W, G>>,
    /// Beside the line, since it is usually all that is looked at.
    waiting: Cell<usize>,
}

impl<W, G> Default for WaitLine<W, G> {
    fn default() -> Self {
        let line = Line { nodes: Vec::new(), free: Vec::new(), head: NONE, tail: NONE };
        WaitLine { line: RefCell::new(line), waiting: Cell::default() }
    }
}

impl<W, G> WaitLine<W, G> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.get()
    }

    pub(crate) fn join(&self, task: TaskId, want: W) -> Ticket {
        let mut line = self.line.borrow_mut();
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
        self.waiting.set(self.waiting.get() + 1);
        Ticket(index)
    }

    /// Applies `look` to the first waiter's request.
    pub(crate) fn first<R>(&self, look: impl FnOnce(&W) -> R) -> Option<R> {
        let line = self.line.borrow();
        match line.head {
            NONE => None,
            head => line.nodes[head as usize].want.as_ref().map(look),
        }
    }

    /// Grants to the first waiter and returns its task, for the caller to wake. None, without calling `make`,
    /// if no task waits.
    pub(crate) fn grant(&self, make: impl FnOnce(W) -> G) -> Option<TaskId> {
        let mut line = self.line.borrow_mut();
        let head = line.head;
        if head == NONE {
            return None;
        }
        debug_assert!(matches!(line.nodes[head as usize].state, State::Waiting), "only waiters are linked");
        line.unlink(head);
        self.waiting.set(self.waiting.get() - 1);
        let node = &mut line.nodes[head as usize];
        let want = node.want.take().expect("a waiter wants something");
        node.state = State::Granted(make(want));
        Some(node.task)
    }

    /// Takes the grant, if it has come, and frees the node: the ticket is then spent.
    pub(crate) fn take(&self, ticket: &mut Option<Ticket>) -> Option<G> {
        let index = ticket.as_ref().expect("a spent ticket is not polled").0;
        let mut line = self.line.borrow_mut();
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

    /// Leaves the line. Returns a grant that had already come, which the caller must pass on.
    pub(crate) fn cancel(&self, ticket: &mut Option<Ticket>) -> Option<G> {
        let index = ticket.take()?.0;
        let mut line = self.line.borrow_mut();
        if matches!(line.nodes[index as usize].state, State::Waiting) {
            line.unlink(index);
            self.waiting.set(self.waiting.get() - 1);
        }
        let node = &mut line.nodes[index as usize];
        let want = node.want.take();
        let state = std::mem::replace(&mut node.state, State::Free);
        line.free.push(index);
        drop(line);
        drop(want); // its drop may come back to this line, so no borrow is held
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
    }
}
