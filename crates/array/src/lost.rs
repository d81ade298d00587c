//! Lost units: their content is unknown, and reads of them fail until they are written as a whole.
//!
//! A unit is lost when redundancy was needed and could not be trusted: a member failed before parity was
//! repaired after a power cut, or two units of one stripe are unreadable. All members hold a bitmap of the
//! lost units, in pages of one unit.

use crate::area::UNIT_BITS;
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const WORDS: usize = UNIT_BYTES / 8;

/// The pages with bits, as on the members or about to be, and the units rewritten since.
#[derive(Default)]
pub(crate) struct Lost {
    pages: BTreeMap<u64, Box<[u64; WORDS]>>,
    changed: BTreeSet<u64>,
    marked: u64,
    /// Lost units that have been rewritten, but not durably: a power cut would make them lost again.
    written: BTreeSet<u64>,
    /// Number of losses so far.
    losses: u64,
}

/// Units rewritten by the start of a flush.
pub(crate) struct Written {
    units: Vec<u64>,
    losses: u64,
}

impl Lost {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.marked == 0
    }

    /// Number of lost units.
    pub(crate) fn count(&self) -> u64 {
        self.marked - self.written.len() as u64
    }

    pub(crate) fn has(&self, unit: u64) -> bool {
        self.is_marked(unit) && !self.written.contains(&unit)
    }

    /// Lost units of a range.
    pub(crate) fn within(&self, units: Range<u64>) -> Vec<u64> {
        if self.is_empty() {
            return Vec::new();
        }
        units.filter(|unit| self.has(*unit)).collect()
    }

    /// Number of losses so far.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    fn is_marked(&self, unit: u64) -> bool {
        let page = self.pages.get(&(unit / UNIT_BITS));
        let at = unit % UNIT_BITS;
        page.is_some_and(|page| page[(at / 64) as usize] & 1 << (at % 64) != 0)
    }

    /// Marks a unit as lost.
    pub(crate) fn lose(&mut self, unit: u64) {
        self.losses += 1;
        self.written.remove(&unit);
        self.mark(unit, true);
    }

    /// Records that units were written as a whole. Returns whether one of them was lost.
    pub(crate) fn write(&mut self, units: Range<u64>) -> bool {
        if self.is_empty() {
            return false;
        }
        let before = self.written.len();
        for unit in units {
            if self.is_marked(unit) {
                self.written.insert(unit);
            }
        }
        self.written.len() > before
    }

    /// The rewritten units, to be read at the start of a flush; None if there are none.
    pub(crate) fn written(&self) -> Option<Written> {
        let units = || self.written.iter().copied().collect();
        (!self.written.is_empty()).then(|| Written { units: units(), losses: self.losses })
    }

    /// Records the end of the flush.
    pub(crate) fn settle(&mut self, written: &Written) {
        if self.losses != written.losses {
            return; // a unit may have been lost and rewritten since, after the flush began
        }
        for unit in &written.units {
            if self.written.remove(unit) {
                self.mark(*unit, false);
            }
        }
    }

    fn mark(&mut self, unit: u64, lost: bool) {
        if self.is_marked(unit) == lost {
            return;
        }
        let (page, at) = (unit / UNIT_BITS, unit % UNIT_BITS);
        let bits = self.pages.entry(page).or_insert_with(|| Box::new([0; WORDS]));
        bits[(at / 64) as usize] ^= 1 << (at % 64);
        self.changed.insert(page);
        self.marked = if lost { self.marked + 1 } else { self.marked - 1 };
    }

    /// Takes the pages that have changed.
    pub(crate) fn take_changed(&mut self) -> Vec<(u64, Content)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|page| (page, self.encode(page))).collect()
    }

    /// All non-empty pages.
    pub(crate) fn all(&self) -> Vec<(u64, Content)> {
        self.pages.keys().map(|page| (*page, self.encode(*page))).collect()
    }

    fn encode(&self, page: u64) -> Content {
        let mut bytes = [0; UNIT_BYTES];
        if let Some(bits) = self.pages.get(&page) {
            let into = bytes.as_chunks_mut::<8>().0.iter_mut();
            into.zip(bits.iter()).for_each(|(into, word)| *into = word.to_le_bytes());
        }
        Content::of(&bytes, Keep::Stamps)
    }

    /// Loads a page from a member, of an array of `units` units.
    pub(crate) fn load(&mut self, page: u64, content: &Content, units: u64) {
        if *content == Content::Zero {
            return;
        }
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            let first = page * UNIT_BITS + index as u64 * 64;
            (0..64).filter(|bit| word & 1 << bit != 0 && first + bit < units).for_each(|bit| {
                self.mark(first + bit, true);
            });
        }
        self.changed.clear();
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.pages.len() * UNIT_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A bit that is forgotten at the next power-on exposes garbage; one that stays makes good data
    // unreadable.
    #[test]
    fn what_is_lost_is_lost_after_the_power_too_and_nothing_else_is() {
        let mut lost = Lost::default();
        for unit in [0, 63, 64, UNIT_BITS - 1, UNIT_BITS, 3 * UNIT_BITS + 5] {
            lost.lose(unit);
            lost.lose(unit);
        }
        assert!(lost.write(64..65) && !lost.write(65..70));
        assert!((lost.count(), lost.has(64)) == (5, false));
        let written = lost.written().unwrap();
        lost.lose(64);
        lost.settle(&written);
        assert!(lost.has(64), "it was lost again");
        lost.write(64..65);
        lost.settle(&lost.written().unwrap());
        let mut loaded = Lost::default();
        for (page, content) in lost.take_changed() {
            loaded.load(page, &content, 3 * UNIT_BITS + 5); // of an array that ends before the last
        }
        assert!(lost.take_changed().is_empty() && loaded.take_changed().is_empty());
        assert_eq!(loaded.count(), 4);
        assert!(loaded.has(63) && loaded.has(UNIT_BITS) && !loaded.has(64) && !loaded.has(3 * UNIT_BITS + 5));
    }
}
