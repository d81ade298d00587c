//! Ranges that one operation at a time changes, first come, first served.

use byteway_clock::{Clock, Notify};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

struct Entry {
    range: Range<u64>,
    number: u64,
    granted: bool,
    waiter: Option<Rc<Notify>>,
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

/// Locked ranges and those that wait: as many as operations are in flight, so a list.
#[derive(Clone)]
pub(crate) struct Locks(Rc<Inner>);

impl Locks {
    pub(crate) fn new(clock: &Clock) -> Self {
        Locks(Rc::new(Inner {
            clock: clock.clone(),
            entries: RefCell::default(),
            waiting: Cell::default(),
            next: Cell::default(),
            pool: RefCell::default(),
        }))
    }

    /// Waits until no earlier lock or wait overlaps `range`.
    pub(crate) async fn lock(&self, range: Range<u64>) -> RangeLock {
        let inner = &*self.0;
        let number = inner.next.get();
        inner.next.set(number + 1);
        let lock = RangeLock { locks: self.clone(), number };
        let waiter = {
            let mut entries = inner.entries.borrow_mut();
            let granted = !entries.iter().any(|entry| overlap(&entry.range, &range));
            let waiter = (!granted).then(|| {
                inner.waiting.set(inner.waiting.get() + 1);
                inner.pool.borrow_mut().pop().unwrap_or_else(|| Rc::new(Notify::new(&inner.clock)))
            });
            entries.push(Entry { range, number, granted, waiter: waiter.clone() });
            waiter
        };
        if let Some(waiter) = waiter {
            waiter.notified().await;
            inner.pool.borrow_mut().push(waiter);
        }
        lock
    }

    /// Ranges that are locked or waited for.
    pub(crate) fn len(&self) -> usize {
        self.0.entries.borrow().len()
    }

    /// Bytes of memory that this takes.
    pub(crate) fn bytes(&self) -> u64 {
        let entries = self.0.entries.borrow().capacity() * size_of::<Entry>();
        (entries + self.0.pool.borrow().len() * size_of::<Notify>()) as u64
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// A locked range, until dropped.
pub(crate) struct RangeLock {
    locks: Locks,
    number: u64,
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        let inner = &*self.locks.0;
        let mut entries = inner.entries.borrow_mut();
        let Some(index) = entries.iter().position(|entry| entry.number == self.number) else { return };
        let gone = entries.remove(index);
        if !gone.granted && gone.waiter.is_some() {
            inner.waiting.set(inner.waiting.get() - 1);
        }
        if inner.waiting.get() == 0 {
            return;
        }
        for index in 0..entries.len() {
            let is_free = !entries[index].granted
                && overlap(&entries[index].range, &gone.range)
                && !entries[..index].iter().any(|before| overlap(&before.range, &entries[index].range));
            if is_free {
                entries[index].granted = true;
                inner.waiting.set(inner.waiting.get() - 1);
                if let Some(waiter) = entries[index].waiter.take() {
                    waiter.notify_one();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor};

    // Parity of a stripe that two change at once is that of neither. And a wide range that is passed over by narrow ones again
    // and again would never be locked.
    #[test]
    fn overlapping_ranges_go_one_after_the_other_in_their_order() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = Locks::new(&clock);
        let order = Rc::new(RefCell::new(Vec::new()));
        let ranges = [0..2, 1..5, 4..6, 0..1, 7..8];
        for (number, range) in ranges.into_iter().enumerate() {
            let (clock, locks, order) = (clock.clone(), locks.clone(), order.clone());
            executor.clock().spawn("locker", async move {
                let _lock = locks.lock(range).await;
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
}
