//! Locks of numeric ranges: shared by any number of readers, or held by one writer. First come, first served,
//! so that narrow ranges do not starve a wide one, nor reads a change.

use crate::executor::Clock;
use crate::notify::Notify;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Mode in which a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeUse {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Change,
}

struct Entry {
    range: Range<u64>,
    usage: RangeUse,
    number: u64,
    granted: bool,
    waiter: Option<Rc<Notify>>,
}

impl Entry {
    /// Whether a lock of `range` for `usage` must wait for this one.
    fn excludes(&self, range: &Range<u64>, usage: RangeUse) -> bool {
        let overlaps = self.range.start < range.end && range.start < self.range.end;
        overlaps && (self.usage == RangeUse::Change || usage == RangeUse::Change)
    }
}

struct Inner {
    clock: Clock,
    /// In order of arrival.
    entries: RefCell<Vec<Entry>>,
    waiting: Cell<usize>,
    next: Cell<u64>,
    /// Notifications of finished waiters, for reuse.
    pool: RefCell<Vec<Rc<Notify>>>,
}

/// Range locks of one number space. Cheap to clone.
///
/// Held and awaited ranges form one list, which each lock searches: its length is the number of operations in
/// flight. The list and the waiters keep their memory, so a lock allocates only beyond the previous maximum.
#[derive(Clone)]
pub struct RangeLocks(Rc<Inner>);

impl RangeLocks {
    /// With no range locked.
    pub fn new(clock: &Clock) -> Self {
        RangeLocks(Rc::new(Inner {
            clock: clock.clone(),
            entries: RefCell::default(),
            waiting: Cell::default(),
            next: Cell::default(),
            pool: RefCell::default(),
        }))
    }

    /// Waits until no earlier lock or waiter excludes this one.
    pub async fn lock(&self, range: Range<u64>, usage: RangeUse) -> RangeLock {
        let inner = &*self.0;
        let number = inner.next.get();
        inner.next.set(number + 1);
        let lock = RangeLock { locks: self.clone(), number };
        let waiter = {
            let mut entries = inner.entries.borrow_mut();
            let granted = !entries.iter().any(|entry| entry.excludes(&range, usage));
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

    /// Ranges held or awaited.
    pub fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    /// Whether no range is held or awaited.
    pub fn is_empty(&self) -> bool {
        self.0.entries.borrow().is_empty()
    }

    /// Memory of the list and its waiters, in bytes.
    pub fn bytes(&self) -> u64 {
        let entries = self.0.entries.borrow().capacity() * size_of::<Entry>();
        (entries + self.0.pool.borrow().len() * size_of::<Notify>()) as u64
    }
}

/// A locked range, unlocked on drop.
pub struct RangeLock {
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
        // Waiters behind the dropped lock, in order: each is granted if no earlier entry excludes it.
        for index in 0..entries.len() {
            let (before, rest) = entries.split_at_mut(index);
            let entry = &mut rest[0];
            if entry.granted
                || !gone.excludes(&entry.range, entry.usage)
                || before.iter().any(|other| other.excludes(&entry.range, entry.usage))
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
    use crate::executor::Executor;
    use crate::time::Delay;

    // Two tasks that change a stripe of an array at once would leave the parity of neither. And a wide range
    // that narrow ones overtake again and again would never be locked.
    #[test]
    fn overlapping_ranges_go_one_after_the_other_in_their_order() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = RangeLocks::new(&clock);
        let order = Rc::new(RefCell::new(Vec::new()));
        let ranges = [0..2, 1..5, 4..6, 0..1, 7..8];
        for (number, range) in ranges.into_iter().enumerate() {
            let (clock, locks, order) = (clock.clone(), locks.clone(), order.clone());
            executor.clock().spawn("locker", async move {
                let _lock = locks.lock(range, RangeUse::Change).await;
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
        assert_eq!(*order.borrow(), [(0, 10), (4, 10), (1, 20), (3, 20), (2, 30)]);
    }

    // A read that overtook a copy could look up an address that is given to another tenant's data meanwhile;
    // reads that waited for each other would make a busy drive slower than it is.
    #[test]
    fn readers_share_and_changes_wait_their_turn() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = RangeLocks::new(&clock);
        let order = Rc::new(RefCell::new(Vec::new()));
        let uses = [
            (0..4, RangeUse::Read),
            (2..6, RangeUse::Read),
            (3..5, RangeUse::Change),
            (0..4, RangeUse::Read),
            (7..9, RangeUse::Change),
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

    // A task that is dropped while it waits must not keep its place: those behind it would wait indefinitely.
    #[test]
    fn a_wait_that_is_dropped_lets_others_go() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = RangeLocks::new(&clock);
        let ended = executor.run(async move {
            let held = locks.lock(0..4, RangeUse::Read).await;
            let own = locks.clone();
            let waits = clock.spawn("waits", async move { drop(own.lock(0..4, RangeUse::Change).await) });
            clock.sleep(Delay::from_ns(1)).await;
            let (own, done) = (locks.clone(), Rc::new(Cell::new(false)));
            let reads = done.clone();
            clock.spawn("reads", async move {
                let _lock = own.lock(2..3, RangeUse::Read).await;
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
