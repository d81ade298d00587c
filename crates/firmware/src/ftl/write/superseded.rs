//! Discarding of superseded contents. Once a newer version of a unit is safe in flash, no read, garbage
//! collection or recovery returns the older one: only its spare area matters, until its superblock is erased.
//! A drive that keeps bytes in memory discards them then, so that its memory depends on what it holds and not
//! on all that was ever written. Translation pages are kept as bytes in any case: a cached map writes one for
//! about every write of the host.
//!
//! Versions of a translation page are compared by what they reflect, which two of them may have in common:
//! recovery then reads the one that the root names, which may be the older. So neither is discarded before a
//! version that reflects more is safe.
//!
//! A read that has looked up the older version may be in flight, so superseded contents wait for such reads.
//! Reads are counted by the turn in which they started, and the turn changes when none of the previous turn
//! is left.

use byteway_flash::{Outdated, Ppa};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};

/// Superseded units, and host requests in flight.
#[derive(Default)]
pub(in crate::ftl) struct Superseded {
    /// What of the medium's contents is discarded.
    kinds: Discarded,
    turn: Cell<usize>,
    /// Operations (reads, writes, flushes and the like) in flight, by the turn in which they started.
    in_flight: [Cell<u32>; 2],
    /// Superseded units by the turn in which they were superseded.
    units: [RefCell<Vec<Outdated>>; 2],
    /// Translation pages, and where versions of them lie that reflect as much as the latest. Never iterated.
    equals: RefCell<FxHashMap<u64, Vec<Ppa>>>,
}

/// What is discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) enum Discarded {
    /// The medium keeps everything.
    #[default]
    Nothing,
    /// Only translation pages, since other contents are patterns that take no memory of their own.
    Pages,
    /// Contents of all units.
    All,
}

impl Superseded {
    pub(in crate::ftl) fn new(kinds: Discarded) -> Self {
        Superseded { kinds, ..Self::default() }
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

    /// Adds a unit of the host whose newer version is safe.
    #[inline]
    pub(in crate::ftl) fn add(&self, unit: Outdated) {
        if self.kinds == Discarded::All {
            self.units[self.turn.get()].borrow_mut().push(unit);
        }
    }

    /// Adds a translation page whose newer version is safe. `reflects`: what the version there reflects.
    pub(in crate::ftl) fn add_page(&self, page: Outdated, reflects: u64) {
        if self.kinds == Discarded::Nothing {
            return;
        }
        let Outdated { ppa, lpa, sequence } = page;
        let mut equals = self.equals.borrow_mut();
        if reflects >= sequence {
            return equals.entry(lpa).or_default().push(ppa);
        }
        let mut units = self.units[self.turn.get()].borrow_mut();
        units.extend(equals.remove(&lpa).into_iter().flatten().map(|ppa| Outdated { ppa, lpa, sequence }));
        units.push(page);
    }

    /// Calls `forget` with the units that no read in flight can refer to.
    pub(in crate::ftl) fn settle(&self, forget: impl FnOnce(&mut Vec<Outdated>)) {
        let before = 1 - self.turn.get();
        if self.kinds != Discarded::Nothing && self.in_flight[before].get() == 0 {
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
        let superseded = Superseded::new(Discarded::All);
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

    // The root may name the older of two versions that reflect the same, and recovery reads that one. Both
    // must go once a third one reflects more, or memory grows with every such pair.
    #[test]
    fn of_versions_that_reflect_the_same_none_goes_before_a_later_one_is_there() {
        let superseded = Superseded::new(Discarded::Pages);
        let page = |ppa, sequence| Outdated { ppa: Ppa(ppa), lpa: 5, sequence };
        let gone = || {
            let mut gone = Vec::new();
            (0..2).for_each(|_| superseded.settle(|units| gone.append(units)));
            gone
        };
        superseded.add_page(page(1, 7), 6);
        assert_eq!(gone(), [page(1, 7)]);
        superseded.add_page(page(2, 7), 7);
        superseded.add_page(page(3, 7), 7);
        assert_eq!(gone(), []);
        superseded.add_page(page(4, 9), 7);
        assert_eq!(gone(), [page(2, 9), page(3, 9), page(4, 9)]);
        superseded.add(page(8, 9));
        assert_eq!(gone(), [], "what the host wrote is a pattern");
    }
}
