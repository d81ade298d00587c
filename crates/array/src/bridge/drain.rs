//! Draining of a bridge's memory to the members.
//!
//! Draining starts when the memory is half full, or when no write has come for a while, and stops at a
//! quarter, or when it is empty. A batch of runs is written, several in parallel and adjacent whole units in
//! one write; a flush makes it durable, and then the memory releases it.

use crate::bridge::Inner;
use crate::bridge::nvram::{Run, runs_of};
use byteway_clock::{Clock, Delay, Notify, SpanId};
use byteway_firmware::MediaError;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum units of one write: 256 KiB.
const RUN_UNITS: usize = 64;
/// Maximum runs between two flushes.
const BATCH_RUNS: usize = 512;
/// Time without writes after which everything is drained.
const IDLE: Delay = Delay::from_ms(10);

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
    /// Runs that have been written, or have failed.
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
}

/// The task that decides when and what to drain.
pub(super) async fn run(inner: Rc<Inner>) {
    let draining = &inner.draining;
    loop {
        let (held, capacity) = (inner.nvram.borrow().bytes(), inner.config.bytes);
        if inner.nvram.borrow().drainable() == 0 {
            inner.drained.notify_all();
            draining.rests.set(true);
            draining.wanted.notified().await;
            draining.rests.set(false);
        } else if held > capacity / 2 || draining.all.get() {
            let least = if draining.all.get() { 0 } else { capacity / 4 };
            inner.drain_to(least).await;
        } else {
            // A pause in the writes is time to drain everything.
            draining.written.set(false);
            let is_called = inner.clock.within(IDLE, draining.wanted.notified()).await.is_some();
            if !is_called && !draining.written.get() {
                inner.drain_to(0).await;
            }
        }
        if draining.stuck.get() {
            // Too many members have failed: the data are kept until they return after a power cycle.
            inner.drained.notify_all();
            std::future::pending::<()>().await;
        }
    }
}

/// A task that writes one run after another.
pub(super) async fn work(inner: Rc<Inner>) {
    let draining = &inner.draining;
    loop {
        let Some(mut run) = draining.queue.borrow_mut().pop_front() else {
            draining.queued.notified().await;
            continue;
        };
        match inner.write_run(&mut run).await {
            Ok(()) => draining.done.borrow_mut().push(run),
            // Its stripe, or the rest of its unit, is unreadable.
            Err(MediaError::Unreadable) => inner.nvram.borrow_mut().pin(&run),
            Err(_) => draining.stuck.set(true),
        }
        draining.left.set(draining.left.get() - 1);
        if draining.left.get() == 0 {
            draining.finished.notify_one();
        }
    }
}

impl Inner {
    /// Drains until the memory holds at most `least` bytes.
    async fn drain_to(&self, least: u64) {
        let draining = &self.draining;
        while self.nvram.borrow().bytes() > least && !draining.stuck.get() {
            let runs = self.choose(least);
            if runs.is_empty() {
                break;
            }
            let before = self.nvram.borrow().bytes();
            self.count(|counters| {
                counters.drains += runs.len() as u64;
                counters.units_drained += runs.iter().map(|run| run.contents.len() as u64).sum::<u64>();
            });
            draining.left.set(runs.len());
            draining.queue.borrow_mut().extend(runs);
            for _ in 0..self.config.drain_depth.max(1) {
                draining.queued.notify_one();
                if draining.queued.waiting() == 0 {
                    break;
                }
            }
            while draining.left.get() > 0 {
                draining.finished.notified().await;
            }
            let done = draining.done.take();
            if self.array.flush(SpanId::NONE).await.is_err() {
                draining.stuck.set(true);
            } else {
                let mut nvram = self.nvram.borrow_mut();
                done.iter().for_each(|run| nvram.release(run));
            }
            self.drained.notify_all();
            // Writes that outpace the drain must not keep it here without yielding.
            if self.nvram.borrow().bytes() >= before {
                self.clock.yield_now().await;
            }
        }
    }

    /// The next runs, from the end of the previous ones.
    fn choose(&self, least: u64) -> Vec<Run> {
        let nvram = self.nvram.borrow();
        let (mut runs, mut bytes, mut units) = (Vec::new(), nvram.bytes(), 0);
        while bytes > least && runs.len() < BATCH_RUNS && units < nvram.drainable() {
            let Some(run) = nvram.next_run(self.draining.cursor.get(), RUN_UNITS) else { break };
            self.draining.cursor.set(run.first + run.contents.len() as u64);
            units += run.contents.len();
            let parts = u64::from(run.parts.count_ones()) * 512;
            bytes = bytes.saturating_sub(parts * run.contents.len() as u64);
            runs.push(run);
        }
        runs
    }

    async fn write_run(&self, run: &mut Run) -> Result<(), MediaError> {
        let (array, span) = (&self.array, SpanId::NONE);
        if run.parts == u8::MAX {
            let mut contents = run.contents.clone();
            return array.write(span, run.first, &mut contents, false).await;
        }
        let Some(content) = run.contents.first() else { return Ok(()) };
        for (offset, bytes) in runs_of(run.parts) {
            if array.takes_parts(offset, bytes) {
                array.write_part(span, run.first, offset, bytes, content, false).await?;
            } else {
                let parts = run.parts;
                let mut whole = [0; 4096];
                content.write_to(&mut whole);
                let edit = |unit: &mut [u8; 4096], marred: &mut u8| {
                    runs_of(parts).for_each(|(offset, bytes)| {
                        let range = offset as usize..(offset + bytes) as usize;
                        unit[range.clone()].copy_from_slice(&whole[range]);
                    });
                    *marred &= !parts;
                };
                return array.edit(span, run.first, edit, false).await;
            }
        }
        Ok(())
    }
}
