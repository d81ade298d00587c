//! Discarding of superseded contents. Once a newer version of a unit is safe in flash, no read, garbage
//! collection or recovery returns the older one: only its spare area matters, until its superblock is erased.
//! A drive that keeps bytes in memory discards them then, so that its memory depends on what it holds and not
//! on all that was ever written.
//!
//! A read that has looked up the older version may be in flight, so superseded contents wait for such reads.
//! Reads are counted by the turn in which they started, and the turn changes when none of the previous turn
//! is left.

use byteway_flash::Outdated;
use std::cell::{Cell, RefCell};

/// Superseded units, and host requests in flight.
#[derive(Default)]
pub(in crate::ftl) struct Superseded {
    /// The medium can discard contents.
    is_kept: bool,
    turn: Cell<usize>,
    /// Operations (reads, writes, flushes and the like) in flight, by the turn in which they started.
    in_flight: [Cell<u32>; 2],
    /// Superseded units by the turn in which they were superseded.
    units: [RefCell<Vec<Outdated>>; 2],
}

impl Superseded {
    /// `is_kept`: whether the medium can discard contents.
    pub(in crate::ftl) fn new(is_kept: bool) -> Self {
        Superseded { is_kept, ..Self::default() }
    }

    /// Counts the start of a host request. Returns its turn.
    #[inline]
    pub(in crate::ftl) fn begin(&self) -> usize {
        let turn = self.turn.get();
        self.in_flight[turn].set(self.in_flight[turn].get() + 1);
        turn
    }

    /// Counts the end of a request that started in this turn.
    #[inline]
    pub(in crate::ftl) fn end(&self, turn: usize) {
        debug_assert!(self.in_flight[turn].get() > 0, "a request that ends has started");
        self.in_flight[turn].set(self.in_flight[turn].get() - 1);
    }

    /// Whether any host request is in flight.
    pub(in crate::ftl) fn is_any_in_flight(&self) -> bool {
        self.in_flight.iter().any(|count| count.get() > 0)
    }

    /// Adds a unit whose newer version is safe.
    #[inline]
    pub(in crate::ftl) fn add(&self, unit: Outdated) {
        if self.is_kept {
            self.units[self.turn.get()].borrow_mut().push(unit);
        }
    }

    /// Calls `forget` with the units that no read in flight can refer to.
    pub(in crate::ftl) fn settle(&self, forget: impl FnOnce(&mut Vec<Outdated>)) {
        let before = 1 - self.turn.get();
        if self.is_kept && self.in_flight[before].get() == 0 {
            forget(&mut self.units[before].borrow_mut());
            self.turn.set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_flash::Ppa;

    // A read that has looked a unit up must find it; and contents that no read can ask for must be discarded.
    #[test]
    fn a_unit_stays_while_a_read_may_be_at_it() {
        let superseded = Superseded::new(true);
        let unit = |ppa| Outdated { ppa: Ppa(ppa), lpa: 0, sequence: 1 };
        let settle = || {
            let mut gone = Vec::new();
            superseded.settle(|units| gone.extend(units.drain(..).map(|unit| unit.ppa.0)));
            gone
        };
        let early = superseded.begin();
        superseded.add(unit(1));
        assert_eq!(settle(), []); // the turn changes, as nothing is left of the one before
        let late = superseded.begin();
        superseded.add(unit(2));
        assert_eq!((settle(), settle()), (vec![], vec![]), "one that began before is in flight");
        superseded.end(early);
        assert_eq!(settle(), [1]);
        superseded.add(unit(3));
        assert_eq!(settle(), [], "the later one may be at the second");
        superseded.end(late);
        assert_eq!(settle(), [2]);
        assert_eq!(settle(), [3]);
        assert!(!superseded.is_any_in_flight());
    }
}
