//! Ranges of a tenant's units that are in use: by any number of readers, or by one that changes them. First come, first served, so that
//! a copy is not passed over by reads again and again.

use byteway_clock::{Clock, Notify};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// What a range is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Others may read it as well.
    Read,
    /// No other command may use it.
    Change,
}

struct Entry {
    range: Range<u64>,
    usage: Use,
    number: u64,
    granted: bool,
    waiter: Option<Rc<Notify>>,
}

impl Entry {
    fn is_against(&self, range: &Range<u64>, usage: Use) -> bool {
        let overlaps = self.range.start < range.end && range.start < self.range.end;
        overlaps && (self.usage == Use::Change || usage == Use::Change)
    }
}

struct Inner {
    clock: Clock,
    /// In the order in which they came.
    entries: RefCell<Vec<Entry>>,
    waiting: Cell<usize>,
    next: Cell<u64>,
    /// Waiters that serve again.
    pool: RefCell<Vec<Rc<Notify>>>,
}

/// Ranges in use and those that are waited for: as many as commands are in flight, so a list.
#[derive(Clone)]
pub(super) struct RangeLocks(Rc<Inner>);

impl RangeLocks {
    pub(super) fn new(clock: &Clock) -> Self {
        RangeLocks(Rc::new(Inner {
            clock: clock.clone(),
            entries: RefCell::default(),
            waiting: Cell::default(),
            next: Cell::default(),
            pool: RefCell::default(),
        }))
    }

    /// Waits until no earlier use, or wait for one, is against this one.
    pub(super) async fn lock(&self, range: Range<u64>, usage: Use) -> RangeLock {
        let inner = &*self.0;
        let number = inner.next.get();
        inner.next.set(number + 1);
        let lock = RangeLock { locks: self.clone(), number };
        let waiter = {
            let mut entries = inner.entries.borrow_mut();
            let granted = !entries.iter().any(|entry| entry.is_against(&range, usage));
            let waiter = (!granted).then(|| {
                inner.waiting.set(inner.waiting.get() + 1);
                inner.pool.borrow_mut().pop().unwrap_or_else(|| Rc::new(Notify::new(&inner.clock)))
            });
            entries.push(Entry { range, usage, number, granted, waiter: waiter.clone() });
            waiter
        };
        if let Some(waiter) = waiter {
            waiter.notified().await;
            inner.pool.borrow_mut().push(waiter);
        }
        lock
    }

    /// Ranges in use or waited for.
    pub(super) fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }
}

/// A range in use, until dropped.
pub(super) struct RangeLock {
    locks: RangeLocks,
    number: u64,
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        let inner = &*self.locks.0;
        let mut entries = inner.entries.borrow_mut();
        let Some(index) = entries.iter().position(|entry| entry.number == self.number) else { return };
        let gone = entries.remove(index);
        if !gone.granted {
            inner.waiting.set(inner.waiting.get() - 1);
        }
        if inner.waiting.get() == 0 {
            return;
        }
        for index in 0..entries.len() {
            let (before, rest) = entries.split_at_mut(index);
            let entry = &mut rest[0];
            if entry.granted
                || !gone.is_against(&entry.range, entry.usage)
                || before.iter().any(|other| other.is_against(&entry.range, entry.usage))
            {
                continue;
            }
            entry.granted = true;
            inner.waiting.set(inner.waiting.get() - 1);
            if let Some(waiter) = entry.waiter.take() {
                waiter.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor};

    // A read that overtook a copy could be told a place that is given to another tenant's data meanwhile; reads that waited for each
    // other would make a busy drive slower than it is.
    #[test]
    fn readers_share_and_changes_wait_their_turn() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = RangeLocks::new(&clock);
        let order = Rc::new(RefCell::new(Vec::new()));
        let uses = [
            (0..4, Use::Read),
            (2..6, Use::Read),
            (3..5, Use::Change),
            (0..4, Use::Read),
            (7..9, Use::Change),
        ];
        for (number, (range, usage)) in uses.into_iter().enumerate() {
            let (clock, locks, order) = (clock.clone(), locks.clone(), order.clone());
            executor.clock().spawn("user", async move {
                let _lock = locks.lock(range, usage).await;
                clock.sleep(Delay::from_ns(10)).await;
                order.borrow_mut().push((number, clock.now().0 / 1000));
            });
        }
        let watch = locks.clone();
        executor
            .run(async move {
                clock.sleep(Delay::from_ns(100)).await;
                assert_eq!(watch.len(), 0);
            })
            .unwrap();
        // The fourth reads what the third waits for, and came after it.
        assert_eq!(*order.borrow(), [(0, 10), (1, 10), (4, 10), (2, 20), (3, 30)]);
    }

    // One that waits and is dropped holds nothing: what waited behind it would wait indefinitely.
    #[test]
    fn a_wait_that_is_dropped_lets_others_go() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = RangeLocks::new(&clock);
        let ended = executor.run(async move {
            let held = locks.lock(0..4, Use::Read).await;
            let own = locks.clone();
            let waits = clock.spawn("waits", async move { drop(own.lock(0..4, Use::Change).await) });
            clock.sleep(Delay::from_ns(1)).await;
            let (own, done) = (locks.clone(), Rc::new(Cell::new(false)));
            let reads = done.clone();
            clock.spawn("reads", async move {
                let _lock = own.lock(2..3, Use::Read).await;
                reads.set(true);
            });
            clock.sleep(Delay::from_ns(1)).await;
            assert!(!done.get(), "it came after one that changes");
            clock.kill(waits);
            clock.sleep(Delay::from_ns(1)).await;
            drop(held);
            (done.get(), locks.len())
        });
        assert_eq!(ended, Ok((true, 0)));
    }
}
