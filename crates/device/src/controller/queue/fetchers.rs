//! The fetch tasks as whoever has something for them sees them: which have nothing to do.

use byteway_clock::{Clock, TaskId, Time};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// A fetch task.
struct Fetcher {
    task: TaskId,
    /// It is to look for work.
    is_told: Cell<bool>,
}

/// All fetch tasks, by number, and those with nothing to do, in the order in which they ran out of work.
pub struct Fetchers {
    clock: Clock,
    all: RefCell<Vec<Fetcher>>,
    idle: RefCell<VecDeque<u32>>,
    /// Nobody was idle when one was to be told: the next that would be is not.
    is_kept: Cell<bool>,
}

impl Fetchers {
    /// None yet.
    pub fn new(clock: &Clock) -> Self {
        let (all, idle) = (RefCell::default(), RefCell::default());
        Fetchers { clock: clock.clone(), all, idle, is_kept: Cell::default() }
    }

    /// The task that is being polled is one: gives its number.
    pub fn join(&self) -> u32 {
        let mut all = self.all.borrow_mut();
        all.push(Fetcher { task: self.clock.current(), is_told: Cell::default() });
        (all.len() - 1) as u32
    }

    /// One that has nothing to do is idle from now on. False: it is to look again, and is not.
    pub fn rest(&self, number: u32) -> bool {
        let is_kept = self.is_kept.take();
        if !is_kept {
            self.idle.borrow_mut().push_back(number);
        }
        !is_kept
    }

    /// Whether one that was idle is to look for work. It is idle no longer then.
    pub fn is_told(&self, number: u32) -> bool {
        self.all.borrow()[number as usize].is_told.take()
    }

    /// Something may have become fetchable: tells the first that is idle, or the next that would be.
    pub fn tell(&self) {
        match self.take() {
            Some(number) => {
                let all = self.all.borrow();
                let Fetcher { task, is_told } = &all[number as usize];
                is_told.set(true);
                self.clock.wake(*task);
            }
            None => self.is_kept.set(true),
        }
    }

    /// Takes the first that is idle, to give it work.
    pub fn take(&self) -> Option<u32> {
        self.idle.borrow_mut().pop_front()
    }

    /// It has been given work that begins at `at`.
    pub fn wake_at(&self, at: Time, number: u32) {
        self.clock.wake_at(at, self.all.borrow()[number as usize].task);
    }

    /// It was given none.
    pub fn put_back(&self, number: u32) {
        self.idle.borrow_mut().push_front(number);
    }
}
