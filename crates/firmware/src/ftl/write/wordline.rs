//! Wordlines of the host's that are being filled.
//!
//! The stripes of a wordline share cells: a program that is cut off takes the earlier ones with it. So what was
//! programmed first counts only when the last stripe of its wordline is there. Until then a stripe is *held*: its units
//! keep their slots, and flash keeps what they replace. Whoever can't wait has the rest of the wordline padded.
//!
//! With power-loss protection a program that has begun ends, and each stripe is a wordline of its own.

use crate::ftl::write::die_set::DieSet;
use byteway_flash::{BlockId, Geometry};
use std::ops::Range;

/// A stripe that is programmed, and waits for its wordline.
pub(in crate::ftl) struct Held {
    pub(in crate::ftl) block: BlockId,
    pub(in crate::ftl) stripe: u32,
    /// In the order in which stripes were given out.
    pub(in crate::ftl) number: u64,
    /// The slots whose units it has, in the order of the stripe.
    pub(in crate::ftl) slots: Vec<u32>,
}

/// The wordlines of all dies.
pub(in crate::ftl) struct Wordlines {
    stripes: u32,
    pages: u32,
    /// How many may be begun at once: the slots of all their units are taken until they end.
    most: u32,
    /// Dies with a wordline that is begun and not given out as a whole.
    begun: DieSet,
    count: u32,
    /// Of those, the lowest number of a unit in it.
    since: Vec<u64>,
    held: Vec<Vec<Held>>,
    /// Memory for those that are taken out.
    taken: Vec<Held>,
    /// Of each die, the last stripe that was given out.
    last: Vec<(BlockId, u32)>,
    /// Superblocks of each die that were closed within a wordline, and the last stripe of each: nothing will come that
    /// could take it along.
    closed: Vec<Vec<(BlockId, u32)>>,
    /// Memory of held stripes' slots.
    spare: Vec<Vec<u32>>,
    /// Broken on purpose: see [`Canary::TakeAlong`](crate::ftl::Canary::TakeAlong).
    takes_along: bool,
}

impl Wordlines {
    /// Of so many stripes each, for a buffer of so many slots.
    pub(in crate::ftl) fn new(geometry: &Geometry, stripes: u32, slots: u32, takes_along: bool) -> Self {
        let dies = geometry.dies();
        let units = geometry.units_per_stripe();
        Wordlines {
            stripes,
            pages: geometry.pages,
            most: (slots.saturating_sub(units) / (stripes * units)).max(1),
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

    /// A stripe of a die is given out, whose first unit has this number.
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
        // Units come in order, but for those whose program has failed.
        let since = &mut self.since[die as usize];
        *since = first.unwrap_or(u64::MAX).min(*since);
        if self.ends_with(stripe) {
            self.begun.set(die, false);
            self.count -= 1;
        }
    }

    /// The superblock that a die has been filling is closed as it is. Returns it, with the stripes of its last wordline, if
    /// they are safe already: no program of that wordline is in flight.
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

    /// The stripes of a stripe's wordline, if all that it will ever have are programmed and held: they are safe.
    ///
    /// Only this wordline's. Flash programs the stripes of a superblock in order, but the tasks that wait for the programs
    /// may run in any: with `timing = "none"` a later wordline can be whole here before this end of an earlier one is known.
    /// Had the later one taken a part of the earlier one along, the rest of that would wait for its fellows indefinitely, and
    /// with it every Flush, every shutdown and the collection of the superblock.
    pub(in crate::ftl) fn safe_wordline(&self, die: u32, block: BlockId, stripe: u32) -> Option<Range<u32>> {
        let first = stripe / self.stripes * self.stripes;
        let mut end = (first + self.stripes).min(self.pages);
        let closed = self.closed[die as usize].iter().find(|(closed, _)| *closed == block);
        if let Some((_, last)) = closed.filter(|(_, last)| (first..end).contains(last)) {
            end = last + 1;
        }
        let held = self.held[die as usize].iter();
        let count = held.filter(|held| held.block == block && (first..end).contains(&held.stripe)).count();
        let taken = if self.takes_along { 0..end } else { first..end };
        (count == (end - first) as usize).then_some(taken)
    }

    /// Of the dies that are ready, the one that takes the next stripe, looking from `from` on. `full`: a stripe's worth
    /// waits. `urgent`: what waits must not wait on. What was buffered before `flush_to` must not be held up either.
    pub(in crate::ftl) fn choose(
        &self,
        ready: &DieSet,
        from: u32,
        full: bool,
        urgent: bool,
        flush_to: u64,
    ) -> Option<u32> {
        if self.stripes == 1 {
            return ready.next(from);
        }
        if full && self.count < self.most {
            return ready.next(from);
        }
        if !full {
            let must_end = ready.find(&self.begun, from, |die| self.since[die as usize] < flush_to);
            if must_end.is_some() || !urgent {
                return must_end;
            }
        }
        let begun = ready.find(&self.begun, from, |_| true);
        if begun.is_some() || self.count >= self.most { begun } else { ready.next(from) }
    }

    /// Whether a wordline is to be padded for the sake of what was buffered before `flush_to`.
    pub(in crate::ftl) fn must_end(&self, ready: &DieSet, flush_to: u64) -> bool {
        self.count > 0 && ready.find(&self.begun, 0, |die| self.since[die as usize] < flush_to).is_some()
    }

    /// Memory for the slots of another stripe.
    pub(in crate::ftl) fn slots(&mut self) -> Vec<u32> {
        self.spare.pop().unwrap_or_default()
    }

    /// A stripe is programmed, and waits.
    pub(in crate::ftl) fn hold(&mut self, die: u32, held: Held) {
        self.held[die as usize].push(held);
    }

    /// Whether a die has a wordline that is begun and not given out as a whole.
    pub(in crate::ftl) fn is_begun(&self, die: u32) -> bool {
        self.count > 0 && self.begun.contains(die)
    }

    /// Nothing more of the wordline that a die has begun is given out: its superblock has failed. What was programmed in it
    /// is lost.
    pub(in crate::ftl) fn abandon(&mut self, die: u32) {
        if self.is_begun(die) {
            self.begun.set(die, false);
            self.count -= 1;
        }
    }

    /// Takes those of a superblock's `stripes` that are held. To be given back empty.
    pub(in crate::ftl) fn take_held(&mut self, die: u32, block: BlockId, stripes: Range<u32>) -> Vec<Held> {
        let mut taken = std::mem::take(&mut self.taken);
        let held = &mut self.held[die as usize];
        taken.extend(held.extract_if(.., |held| held.block == block && stripes.contains(&held.stripe)));
        taken.sort_unstable_by_key(|held| held.stripe);
        self.closed[die as usize].retain(|(closed, last)| *closed != block || !stripes.contains(last));
        taken
    }

    /// Gives back the memory of stripes that no longer wait.
    pub(in crate::ftl) fn give_back(&mut self, mut held: Vec<Held>) {
        self.spare.extend(held.drain(..).map(|held| held.slots));
        self.taken = held;
    }

    /// The lowest number of a stripe that waits.
    pub(in crate::ftl) fn lowest(&self) -> Option<u64> {
        self.held.iter().flatten().map(|held| held.number).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 6, pages: 8, page_bytes: 8192 };

    // Where programs take no time, the task that waits for a wordline's last stripe may run before the one that waits for
    // its first, which was then held for ever, and a flush with it.
    #[test]
    fn a_wordline_is_safe_when_all_of_it_is_known_to_be_programmed() {
        let mut lines = Wordlines::new(&GEOMETRY, 3, 64, false);
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
        // It was closed while a program was under way, and the die has begun with another one since.
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

    // Where programs take no time the end of a wordline may be known before that of the one before it, which was then held
    // in part for ever: no flush and no shutdown ended any more.
    #[test]
    fn a_wordline_that_is_whole_first_takes_nothing_of_the_one_before() {
        let mut lines = Wordlines::new(&GEOMETRY, 2, 64, false);
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
        // The same where the later wordline is closed as it is.
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
