//! Locks of units that are being read, changed and written back.
//!
//! A writer of a unit waits while it is locked, so that its write is not undone. Buffer slots are always
//! acquired before waiting for a lock: the holder of a lock then waits only for flash, and every wait ends.

use byteway_clock::{Clock, Notify, NotifyPlace};
use std::cell::RefCell;
use std::rc::Rc;

struct Shared {
    units: RefCell<Vec<u64>>,
    unlocked: Notify,
}

/// The locked units: few, so a list suffices.
#[derive(Clone)]
pub(in crate::ftl) struct Locks(Rc<Shared>);

impl Locks {
    pub(in crate::ftl) fn new(clock: &Clock) -> Self {
        Locks(Rc::new(Shared { units: RefCell::default(), unlocked: Notify::new(clock) }))
    }

    /// Whether any of `count` units from `first` is locked.
    #[inline]
    fn any(&self, first: u64, count: u32) -> bool {
        let units = self.0.units.borrow();
        !units.is_empty() && units.iter().any(|unit| unit.wrapping_sub(first) < u64::from(count))
    }

    /// Waits until none of `count` units from `first` is locked. That holds until the caller's next wait.
    pub(in crate::ftl) async fn wait(&self, first: u64, count: u32) {
        while self.any(first, count) {
            self.0.unlocked.notified().await;
        }
    }

    /// For a call: whether a unit is free, with a `place` of its own for each wait. Otherwise this call is made again when one may be.
    #[inline]
    pub(in crate::ftl) fn is_free(&self, unit: u64, place: &mut NotifyPlace) -> bool {
        // A wait that has begun ends first.
        while !matches!(place, NotifyPlace::None) || self.any(unit, 1) {
            if !self.0.unlocked.has_notified(place) {
                return false;
            }
            *place = NotifyPlace::None;
        }
        true
    }

    /// Locks a unit once it is free.
    pub(in crate::ftl) async fn lock(&self, unit: u64) -> UnitLock {
        self.wait(unit, 1).await;
        debug_assert!(!self.has(unit), "a unit has one lock");
        self.0.units.borrow_mut().push(unit);
        UnitLock { locks: self.clone(), unit }
    }

    /// Whether a unit is locked.
    pub(in crate::ftl) fn has(&self, unit: u64) -> bool {
        self.any(unit, 1)
    }

    /// Number of locked units.
    pub(in crate::ftl) fn len(&self) -> usize {
        self.0.units.borrow().len()
    }
}

/// A locked unit, until dropped.
pub(in crate::ftl) struct UnitLock {
    locks: Locks,
    unit: u64,
}

impl Drop for UnitLock {
    fn drop(&mut self) {
        let mut units = self.locks.0.units.borrow_mut();
        if let Some(index) = units.iter().position(|unit| *unit == self.unit) {
            units.swap_remove(index);
        }
        drop(units);
        self.locks.0.unlocked.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor};

    // Two halves of a unit written concurrently must both survive, so the second writer waits for the first,
    // even when a writer in between gives up.
    #[test]
    fn a_unit_is_locked_by_one_at_a_time() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let locks = Locks::new(&clock);
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..4 {
            let (clock, locks, order) = (clock.clone(), locks.clone(), order.clone());
            tasks.push(executor.clock().spawn("locker", async move {
                let _lock = locks.lock(7).await;
                clock.sleep(Delay::from_ns(10)).await;
                order.borrow_mut().push((number, clock.now().0));
            }));
        }
        executor
            .run(async move {
                locks.lock(8).await; // another unit is free
                clock.sleep(Delay::from_ns(15)).await;
                clock.kill(tasks[1]); // holds it now
                clock.sleep(Delay::from_ns(100)).await;
                assert_eq!(locks.len(), 0);
            })
            .unwrap();
        assert_eq!(*order.borrow(), [(0, 10_000), (2, 25_000), (3, 35_000)]);
    }
}
