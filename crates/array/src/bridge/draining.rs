//! What is to be drained, and what is under way.

use super::nvram::Run;
use byteway_clock::{Clock, Delay, Notify};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// The state of draining.
pub(super) struct Draining {
    /// Notified when there may be something to drain.
    wanted: Notify,
    /// There is nothing to drain.
    rests: Cell<bool>,
    /// Everything is to be drained.
    all: Cell<bool>,
    /// A write has come since the last check.
    written: Cell<bool>,
    /// Members have failed to take data: nothing more can be drained.
    stuck: Cell<bool>,
    queue: RefCell<VecDeque<Run>>,
    queued: Notify,
    /// Runs that have been written since the last flush.
    done: RefCell<Vec<Run>>,
    left: Cell<usize>,
    finished: Notify,
    cursor: Cell<u64>,
}

impl Draining {
    pub(super) fn new(clock: &Clock) -> Self {
        let notify = || Notify::new(clock);
        Draining {
            wanted: notify(),
            rests: Cell::default(),
            all: Cell::default(),
            written: Cell::default(),
            stuck: Cell::default(),
            queue: RefCell::default(),
            queued: notify(),
            done: RefCell::default(),
            left: Cell::default(),
            finished: notify(),
            cursor: Cell::default(),
        }
    }

    /// Reports a write. Wakes the drain if it rests, or if the memory `is_filling`.
    pub(super) fn look(&self, is_filling: bool) {
        self.written.set(true);
        if is_filling || self.rests.get() {
            self.wanted.notify_one();
        }
    }

    /// Sets whether everything is to be drained.
    pub(super) fn empty(&self, all: bool) {
        self.all.set(all);
        self.wanted.notify_one();
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.get()
    }

    /// Members have failed to take data.
    pub(super) fn be_stuck(&self) {
        self.stuck.set(true);
    }

    /// Whether everything is to be drained.
    pub(super) fn is_emptying(&self) -> bool {
        self.all.get()
    }

    /// Waits until there may be something to drain.
    pub(super) async fn rest(&self) {
        self.rests.set(true);
        self.wanted.notified().await;
        self.rests.set(false);
    }

    /// Waits for a pause in the writes as long as `idle`. Returns whether there was one.
    pub(super) async fn is_pause(&self, clock: &Clock, idle: Delay) -> bool {
        self.written.set(false);
        let is_called = clock.within(idle, self.wanted.notified()).await.is_some();
        !is_called && !self.written.get()
    }

    /// Hands runs to `workers` tasks that write them.
    pub(super) fn begin(&self, runs: Vec<Run>, workers: u32) {
        debug_assert_eq!(self.left.get(), 0, "a batch begins before the last one has ended");
        debug_assert!(self.done.borrow().is_empty(), "runs that were written are not released");
        self.left.set(runs.len());
        self.queue.borrow_mut().extend(runs);
        for _ in 0..workers {
            self.queued.notify_one();
            if self.queued.waiting() == 0 {
                break;
            }
        }
    }

    /// The next run to write. Waits for one.
    pub(super) async fn next(&self) -> Run {
        loop {
            let run = self.queue.borrow_mut().pop_front();
            match run {
                Some(run) => return run,
                None => self.queued.notified().await,
            }
        }
    }

    /// A run has ended: it is `written`, or has failed.
    pub(super) fn end(&self, written: Option<Run>) {
        debug_assert!(self.left.get() > 0, "a run ends that has not begun");
        self.done.borrow_mut().extend(written);
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.finished.notify_one();
        }
    }

    /// Waits until all runs have ended. Returns those that were written.
    pub(super) async fn ended(&self) -> Vec<Run> {
        while self.left.get() > 0 {
            self.finished.notified().await;
        }
        self.done.take()
    }

    /// Where the next run is looked for.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor.get()
    }

    /// Looks for the next run after this one.
    pub(super) fn pass(&self, run: &Run) {
        self.cursor.set(run.first + run.contents.len() as u64);
    }
}
