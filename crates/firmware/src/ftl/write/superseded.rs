//! Contents that nobody will ask for again. Once a newer state of a unit is safe in flash, no read, no collection and no recovery
//! gives the older one: of it only the spare area counts, until its superblock is erased. A drive in memory that keeps bytes lets
//! go of it then, so that it takes the memory of what it holds and not of all that was ever written.
//!
//! A read that has looked the older one up may be under way. So what is superseded waits for those: reads are counted by the turn
//! in which they began, and the turn changes when none of the one before is left.

use byteway_flash::Outdated;
use std::cell::{Cell, RefCell};

/// Units that were superseded, and what of the host's is under way.
#[derive(Default)]
pub(in crate::ftl) struct Superseded {
    /// The medium lets go of contents.
    is_kept: bool,
    turn: Cell<usize>,
    /// By turn: reads, writes, flushes and the like that have begun in it and not ended.
    under_way: [Cell<u32>; 2],
    /// By the turn in which they were superseded.
    units: [RefCell<Vec<Outdated>>; 2],
}

impl Superseded {
    /// `is_kept`: there is a medium that lets go of contents.
    pub(in crate::ftl) fn new(is_kept: bool) -> Self {
        Superseded { is_kept, ..Self::default() }
    }

    /// Something of the host's begins: in which turn.
    #[inline]
    pub(in crate::ftl) fn begin(&self) -> usize {
        let turn = self.turn.get();
        self.under_way[turn].set(self.under_way[turn].get() + 1);
        turn
    }

    /// What has begun in this turn ends.
    #[inline]
    pub(in crate::ftl) fn end(&self, turn: usize) {
        self.under_way[turn].set(self.under_way[turn].get() - 1);
    }

    /// Whether anything of the host's is under way.
    pub(in crate::ftl) fn is_under_way(&self) -> bool {
        self.under_way.iter().any(|count| count.get() > 0)
    }

    /// A newer state of this unit is safe.
    #[inline]
    pub(in crate::ftl) fn add(&self, unit: Outdated) {
        if self.is_kept {
            self.units[self.turn.get()].borrow_mut().push(unit);
        }
    }

    /// Lets `forget` have what no read can be at any more.
    pub(in crate::ftl) fn settle(&self, forget: impl FnOnce(&mut Vec<Outdated>)) {
        let before = 1 - self.turn.get();
        if self.is_kept && self.under_way[before].get() == 0 {
            forget(&mut self.units[before].borrow_mut());
            self.turn.set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_flash::Ppa;

    // A read that has looked a unit up must find it; and what nobody reads must not stay for ever.
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
        assert_eq!((settle(), settle()), (vec![], vec![]), "one that began before is under way");
        superseded.end(early);
        assert_eq!(settle(), [1]);
        superseded.add(unit(3));
        assert_eq!(settle(), [], "the later one may be at the second");
        superseded.end(late);
        assert_eq!(settle(), [2]);
        assert_eq!(settle(), [3]);
        assert!(!superseded.is_under_way());
    }
}
