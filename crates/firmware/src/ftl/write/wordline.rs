//! Wordlines of host superblocks that are being filled.
//!
//! The stripes of a wordline share cells: an interrupted program destroys the earlier ones. A programmed
//! stripe therefore counts only when the last stripe of its wordline is programmed. Until then it is *held*:
//! its units keep their slots, and flash keeps what they replace. A write that cannot wait has the rest of
//! the wordline padded.
//!
//! With power-loss protection started programs complete, and each stripe is a wordline of its own.

use crate::ftl::write::die_set::DieSet;
use byteway_flash::{BlockId, Geometry};
use std::ops::Range;

/// A programmed stripe that waits for its wordline.
pub(in crate::ftl) struct Held {
    pub(in crate::ftl) block: BlockId,
    pub(in crate::ftl) stripe: u32,
    /// Number of the stripe, in order of allocation.
    pub(in crate::ftl) number: u64,
    /// Buffer slots of the stripe's units, in their order in the stripe.
    pub(in crate::ftl) slots: Vec<u32>,
}

/// The wordlines of a stream of all dies.
pub(in crate::ftl) struct Wordlines {
    stripes: u32,
    pages: u32,
    /// Dies with a wordline of which some stripes are allocated and some are not.
    begun: DieSet,
    count: u32,
    /// For each of these, the lowest sequence number of a unit in it.
    since: Vec<u64>,
    held: Vec<Vec<Held>>,
    /// Scratch for stripes that are taken out.
    taken: Vec<Held>,
    /// Last allocated stripe of each die.
    last: Vec<(BlockId, u32)>,
    /// Superblocks of each die that were closed within a wordline, each with its last stripe: no later
    /// program can destroy it.
    closed: Vec<Vec<(BlockId, u32)>>,
    /// Slot lists for reuse.
    spare: Vec<Vec<u32>>,
    /// A defect on purpose: see [`Defect::TakeAlong`](crate::ftl::Defect::TakeAlong).
    takes_along: bool,
}

impl Wordlines {
    /// Wordlines of `stripes` stripes.
    pub(in crate::ftl) fn new(geometry: &Geometry, stripes: u32, takes_along: bool) -> Self {
        let dies = geometry.dies();
        Wordlines {
            stripes,
            pages: geometry.pages,
            begun: DieSet::new(dies),
            count: 0,
            since: vec![0; dies as usize],
            held: (0..dies).map(|_| Vec::new()).collect(),
            taken: Vec::new(),
            last: vec![(BlockId(0), 0); dies as usize],
            closed: (0..dies).map(|_| Vec::new()).collect(),
            spare: Vec::new(),
            takes_along,
        }
    }

    /// Stripes of a wordline.
    pub(in crate::ftl) fn stripes(&self) -> u32 {
        self.stripes
    }

    /// Whether a stripe is the last one of its wordline.
    pub(in crate::ftl) fn ends_with(&self, stripe: u32) -> bool {
        (stripe + 1).is_multiple_of(self.stripes) || stripe + 1 == self.pages
    }

    /// Records the allocation of a stripe whose first unit has the sequence number `first`.
    pub(in crate::ftl) fn give(&mut self, die: u32, block: BlockId, stripe: u32, first: Option<u64>) {
        if self.stripes == 1 {
            return;
        }
        self.last[die as usize] = (block, stripe);
        if stripe.is_multiple_of(self.stripes) {
            self.begun.set(die, true);
            self.count += 1;
            self.since[die as usize] = u64::MAX;
        }
        // Units come in order of sequence, except those of a failed program.
        let since = &mut self.since[die as usize];
        *since = first.unwrap_or(u64::MAX).min(*since);
        if self.ends_with(stripe) {
            self.begun.set(die, false);
            self.count -= 1;
        }
    }

    /// Closes the superblock that a die has been filling. Returns it with the stripes of its last wordline,
    /// if they are safe already because no program of that wordline is in flight.
    pub(in crate::ftl) fn close(&mut self, die: u32) -> Option<(BlockId, Range<u32>)> {
        let index = die as usize;
        if self.stripes == 1 || !self.begun.contains(die) {
            return None;
        }
        self.begun.set(die, false);
        self.count -= 1;
        let (block, stripe) = self.last[index];
        self.closed[index].push((block, stripe));
        self.safe_wordline(die, block, stripe).map(|stripes| (block, stripes))
    }

    /// The stripes of a wordline, if all that it will ever have are programmed and held, and thus safe.
    ///
    /// Never those of another wordline. Flash programs the stripes of a superblock in order, but the tasks
    /// that wait for the programs may run in any order: under `timing = "none"` a later wordline can be
    /// complete here before the end of an earlier program is reported. If the later one released a part of
    /// the earlier one, the rest of that would wait for its siblings indefinitely, and with it every Flush,
    /// every shutdown and the garbage collection of the superblock.
    pub(in crate::ftl) fn safe_wordline(&self, die: u32, block: BlockId, stripe: u32) -> Option<Range<u32>> {
        let first = stripe / self.stripes * self.stripes;
        let mut end = (first + self.stripes).min(self.pages);
        let closed = self.closed[die as usize].iter().find(|(closed, _)| *closed == block);
        if let Some((_, last)) = closed.filter(|(_, last)| (first..end).contains(last)) {
            end = last + 1;
        }
        let held = self.held[die as usize].iter();
        let count = held.filter(|held| held.block == block && (first..end).contains(&held.stripe)).count();
        debug_assert!(count <= (end - first) as usize, "a stripe is held once");
        let taken = if self.takes_along { 0..end } else { first..end };
        (count == (end - first) as usize).then_some(taken)
    }

    /// The ready die for the next stripe, searching from `from` on. `full`: a full stripe waits. `urgent`:
    /// waiting units must not wait longer. Units buffered before `flush_to` must not be delayed either.
    /// `may_begin`: there are slots for another wordline.
    pub(in crate::ftl) fn choose(
        &self,
        ready: &DieSet,
        from: u32,
        full: bool,
        urgent: bool,
        flush_to: u64,
        may_begin: bool,
    ) -> Option<u32> {
        if self.stripes == 1 {
            return ready.next(from);
        }
        if full && may_begin {
            return ready.next(from);
        }
        // Padding a begun wordline serves a flush; a new one would only add to what has to be padded.
        if !full {
            let must_end = ready.find(&self.begun, from, |die| self.since[die as usize] < flush_to);
            if must_end.is_some() || !urgent {
                return must_end;
            }
        }
        let begun = ready.find(&self.begun, from, |_| true);
        if begun.is_some() || !may_begin { begun } else { ready.next(from) }
    }

    /// Whether a wordline must be padded for units buffered before `flush_to`.
    pub(in crate::ftl) fn must_end(&self, ready: &DieSet, flush_to: u64) -> bool {
        self.count > 0 && ready.find(&self.begun, 0, |die| self.since[die as usize] < flush_to).is_some()
    }

    /// A slot list for another stripe.
    pub(in crate::ftl) fn slots(&mut self) -> Vec<u32> {
        self.spare.pop().unwrap_or_default()
    }

    /// Holds a programmed stripe.
    pub(in crate::ftl) fn hold(&mut self, die: u32, held: Held) {
        self.held[die as usize].push(held);
    }

    /// Wordlines in progress.
    pub(in crate::ftl) fn count(&self) -> u32 {
        self.count
    }

    /// Whether a die has a partly allocated wordline.
    pub(in crate::ftl) fn is_begun(&self, die: u32) -> bool {
        self.count > 0 && self.begun.contains(die)
    }

    /// Abandons the wordline in progress of a die, whose superblock has failed. Its programmed units are
    /// lost.
    pub(in crate::ftl) fn abandon(&mut self, die: u32) {
        if self.is_begun(die) {
            self.begun.set(die, false);
            self.count -= 1;
        }
    }

    /// Takes the held stripes among `stripes` of a superblock. Return the list empty, with
    /// [`Wordlines::give_back`].
    pub(in crate::ftl) fn take_held(&mut self, die: u32, block: BlockId, stripes: Range<u32>) -> Vec<Held> {
        let mut taken = std::mem::take(&mut self.taken);
        let held = &mut self.held[die as usize];
        taken.extend(held.extract_if(.., |held| held.block == block && stripes.contains(&held.stripe)));
        taken.sort_unstable_by_key(|held| held.stripe);
        self.closed[die as usize].retain(|(closed, last)| *closed != block || !stripes.contains(last));
        taken
    }

    /// Takes back the memory of released stripes.
    pub(in crate::ftl) fn give_back(&mut self, mut held: Vec<Held>) {
        self.spare.extend(held.drain(..).map(|held| held.slots));
        self.taken = held;
    }

    /// Lowest number of a held stripe.
    pub(in crate::ftl) fn lowest(&self) -> Option<u64> {
        self.held.iter().flatten().map(|held| held.number).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 6, pages: 8, page_bytes: 8192 };

    // Without modelled time, the task that waits for a wordline's last stripe may run before the one that
    // waits for its first, which would then be held indefinitely, and a flush with it.
    #[test]
    fn a_wordline_is_safe_when_all_of_it_is_known_to_be_programmed() {
        let mut lines = Wordlines::new(&GEOMETRY, 3, false);
        let block = BlockId(2);
        let hold = |lines: &mut Wordlines, stripe| {
            lines.hold(0, Held { block, stripe, number: 1, slots: Vec::new() });
            lines.safe_wordline(0, block, stripe)
        };
        (0..4).for_each(|stripe| lines.give(0, block, stripe, Some(1)));
        assert_eq!([2, 0, 3, 1].map(|stripe| hold(&mut lines, stripe)), [None, None, None, Some(0..3)]);
        let held = lines.take_held(0, block, 0..3);
        assert_eq!(held.iter().map(|held| held.stripe).collect::<Vec<_>>(), [0, 1, 2]);
        lines.give_back(held);
        // The superblock is closed behind stripe 3, which is programmed.
        assert_eq!(lines.close(0), Some((block, 3..4)));
        let held = lines.take_held(0, block, 3..4);
        lines.give_back(held);
        // It was closed with a program in flight, and the die has since begun another one.
        let other = BlockId(3);
        (0..2).for_each(|stripe| lines.give(0, other, stripe, Some(1)));
        lines.hold(0, Held { block: other, stripe: 0, number: 1, slots: Vec::new() });
        assert_eq!(lines.close(0), None);
        lines.give(0, BlockId(4), 0, Some(1));
        lines.hold(0, Held { block: other, stripe: 1, number: 1, slots: Vec::new() });
        assert_eq!(lines.safe_wordline(0, other, 1), Some(0..2));
        lines.take_held(0, other, 0..2);
        // The last wordline is short.
        (6..8).for_each(|stripe| lines.give(0, block, stripe, Some(1)));
        assert_eq!([7, 6].map(|stripe| hold(&mut lines, stripe)), [None, Some(6..8)]);
    }

    // Without modelled time the end of a wordline may be reported before that of the previous one. Parts of
    // that were once held indefinitely: no flush and no shutdown completed any more.
    #[test]
    fn a_wordline_that_is_whole_first_takes_nothing_of_the_one_before() {
        let mut lines = Wordlines::new(&GEOMETRY, 2, false);
        let block = BlockId(2);
        (0..4).for_each(|stripe| lines.give(0, block, stripe, Some(1)));
        let mut settled = Vec::new();
        for stripe in [0, 2, 3, 1] {
            lines.hold(0, Held { block, stripe, number: 1, slots: Vec::new() });
            if let Some(stripes) = lines.safe_wordline(0, block, stripe) {
                let held = lines.take_held(0, block, stripes);
                settled.push(held.iter().map(|held| held.stripe).collect::<Vec<_>>());
                lines.give_back(held);
            }
        }
        assert_eq!(settled, [[2, 3], [0, 1]]);
        assert_eq!(lines.lowest(), None, "nothing is held any more");
        // The same for a later wordline that is closed early.
        (4..7).for_each(|stripe| lines.give(0, block, stripe, Some(1)));
        for stripe in [4, 6] {
            lines.hold(0, Held { block, stripe, number: 1, slots: Vec::new() });
        }
        assert_eq!(lines.close(0), Some((block, 6..7)));
        let held = lines.take_held(0, block, 6..7);
        lines.give_back(held);
        lines.hold(0, Held { block, stripe: 5, number: 1, slots: Vec::new() });
        assert_eq!(lines.safe_wordline(0, block, 5), Some(4..6));
    }
}
