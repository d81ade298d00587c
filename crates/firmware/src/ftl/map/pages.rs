//! State of the translation pages: dirty, held, away or void.
//!
//! A page is *dirty* when the map has changed and neither flash nor the write buffer has the change.
//! Buffering a unit does not change a page: until the unit is programmed, its page has the location of the
//! previous version ([`Slot::old`](crate::ftl::buffer::Slot::old)).
//!
//! Under a cached map a page is *held* while the cache has it or loads it. A dirty page that is not held is
//! *away*: its changes are remembered, but it must be read before it can be written. A *void* page was
//! deallocated as a whole: a mark in the directory of pages says so, and there is nothing to read.

use crate::ftl::space::Space;
use std::ops::Range;

/// A bit for each page.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// No bits set, for `pages` pages.
    fn new(pages: u64) -> Self {
        Bits(vec![0; pages.div_ceil(64) as usize])
    }

    #[inline]
    fn get(&self, page: u32) -> bool {
        self.0[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, page: u32, is_in: bool) {
        let (word, bit) = (&mut self.0[(page / 64) as usize], 1 << (page % 64));
        if is_in { *word |= bit } else { *word &= !bit }
    }

    /// Sets the bits of the first `pages` pages.
    fn set_all(&mut self, pages: u32) {
        self.0.fill(u64::MAX);
        if let Some(last) = self.0.last_mut()
            && !pages.is_multiple_of(64)
        {
            *last = u64::MAX >> (64 - pages % 64);
        }
    }
}

/// State of all translation pages.
pub(in crate::ftl) struct Pages {
    pub(in crate::ftl) space: Space,
    /// The map is cached, so pages can be away.
    is_cached: bool,
    dirty: Bits,
    held: Bits,
    void: Bits,
    away: u64,
    /// Position at which the search for a page that is away continues.
    hand: u32,
}

impl Pages {
    pub(in crate::ftl) fn new(space: Space, is_cached: bool) -> Self {
        let count = space.map.1;
        let cached = if is_cached { count } else { 0 };
        Pages {
            space,
            is_cached,
            dirty: Bits::new(count),
            held: Bits::new(cached),
            void: Bits::new(cached),
            away: 0,
            hand: 0,
        }
    }

    /// Number of pages.
    pub(in crate::ftl) fn count(&self) -> u32 {
        self.space.map.1 as u32
    }

    /// The unit in which a page is stored.
    pub(in crate::ftl) fn unit(&self, page: u32) -> u64 {
        self.space.map.0 + u64::from(page)
    }

    /// The units whose entries a page holds.
    pub(in crate::ftl) fn units(&self, page: u32) -> Range<u64> {
        self.space.units_of(page)
    }

    /// Records that a unit's location in flash changed. Units that are not the host's are in no page.
    #[inline]
    pub(in crate::ftl) fn changed(&mut self, lpa: u64) {
        if lpa >= self.space.user {
            return;
        }
        let page = self.space.page_of(lpa);
        if !self.is_cached {
            self.dirty.set(page, true);
        } else if !self.dirty.get(page) || self.void.get(page) {
            self.update(page, |pages| {
                pages.dirty.set(page, true);
                pages.void.set(page, false);
            });
        }
    }

    /// Records that units were deallocated.
    pub(in crate::ftl) fn deallocated(&mut self, first: u64, end: u64) {
        if (first, end) == (0, self.space.user) {
            return self.deallocated_all();
        }
        for page in self.space.page_of(first)..=self.space.page_of(end - 1) {
            let units = self.units(page);
            self.changed(units.start);
            if self.is_cached && first <= units.start && units.end <= end && !self.held.get(page) {
                self.update(page, |pages| pages.void.set(page, true));
            }
        }
    }

    /// Records that every unit was deallocated.
    pub(in crate::ftl) fn deallocated_all(&mut self) {
        self.dirty.set_all(self.count());
        if self.is_cached {
            for (void, held) in self.void.0.iter_mut().zip(&self.held.0) {
                *void = !held;
            }
            self.away = 0;
        }
    }

    /// Whether neither flash nor the write buffer has the page as the map is now.
    pub(in crate::ftl) fn is_dirty(&self, page: u32) -> bool {
        self.dirty.get(page)
    }

    /// The pages that are dirty now.
    pub(in crate::ftl) fn dirty(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.dirty.0.iter().enumerate().filter(|(_, word)| **word != 0);
        let words: Vec<(usize, u64)> = words.map(|(index, word)| (index, *word)).collect();
        words.into_iter().flat_map(|(index, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index as u32 * 64 + bit)
        })
    }

    /// Whether a page has nothing that would have to be read.
    pub(in crate::ftl) fn is_void(&self, page: u32) -> bool {
        self.is_cached && self.void.get(page)
    }

    /// Records that a page is captured for flash as the map is now.
    pub(in crate::ftl) fn written(&mut self, page: u32) {
        self.update(page, |pages| {
            pages.dirty.set(page, false);
            if pages.is_cached {
                pages.void.set(page, false);
            }
        });
    }

    /// Records that the cache holds a page, or no longer does.
    pub(in crate::ftl) fn hold(&mut self, page: u32, is_held: bool) {
        self.update(page, |pages| {
            pages.held.set(page, is_held);
            pages.void.set(page, false);
        });
    }

    /// Number of pages that are away.
    pub(in crate::ftl) fn away(&self) -> u64 {
        self.away
    }

    /// A page that is away; a different one at each call while there are others.
    pub(in crate::ftl) fn next_away(&mut self) -> Option<u32> {
        if self.away == 0 {
            return None;
        }
        let words = self.dirty.0.len();
        let start = (self.hand / 64) as usize;
        let ahead = u64::MAX << (self.hand % 64);
        // The search ends in the word in which it began, with the bits before its start.
        for step in 0..=words {
            let index = (start + step) % words;
            let mask = if step == 0 { ahead } else { u64::MAX };
            let word = self.dirty.0[index] & !self.held.0[index] & !self.void.0[index] & mask;
            if word != 0 {
                let page = index as u32 * 64 + word.trailing_zeros();
                self.hand = (page + 1) % self.count();
                return Some(page);
            }
        }
        None
    }

    /// Whether a page is away.
    pub(in crate::ftl) fn is_away(&self, page: u32) -> bool {
        self.is_cached && self.dirty.get(page) && !self.held.get(page) && !self.void.get(page)
    }

    fn update(&mut self, page: u32, change: impl FnOnce(&mut Self)) {
        let before = self.is_away(page);
        change(self);
        self.away = self.away + u64::from(self.is_away(page)) - u64::from(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        Pages::new(Space::new(200 * 1024 - 5, false), true)
    }

    // A page that stays counted as away would be written again and again; one that is not counted, never.
    #[test]
    fn a_page_is_away_while_it_is_dirty_and_not_held() {
        let mut pages = pages();
        pages.changed(0);
        pages.changed(1023);
        pages.changed(150 * 1024);
        pages.changed(199 * 1024);
        pages.changed(pages.unit(0));
        assert_eq!(pages.away(), 3);
        let expected = [Some(0), Some(150), Some(199), Some(0)];
        assert_eq!([(); 4].map(|()| pages.next_away()), expected);
        pages.written(199);
        pages.hold(0, true);
        assert_eq!((pages.away(), pages.next_away()), (1, Some(150)));
        pages.written(150);
        assert_eq!((pages.away(), pages.next_away()), (0, None));
        pages.hold(0, false);
        assert_eq!((pages.away(), pages.is_dirty(0)), (1, true));
        pages.changed(150 * 1024 + 1);
        assert_eq!(pages.away(), 2, "it is dirty again");
    }

    // A checkpoint without a changed page would persist obsolete locations.
    #[test]
    fn every_dirty_page_is_found() {
        let mut pages = pages();
        let found = |pages: &Pages| -> Vec<u32> { pages.dirty().collect() };
        assert!(found(&pages).is_empty());
        for page in [0, 63, 64, 150, 199] {
            pages.changed(page * 1024);
        }
        assert_eq!(found(&pages), [0, 63, 64, 150, 199]);
        pages.deallocated_all();
        assert_eq!(found(&pages), (0..200).collect::<Vec<_>>());
    }

    // A void page must not be read; one in which something was mapped since must be written.
    #[test]
    fn a_page_is_void_until_something_comes_into_it() {
        let mut pages = pages();
        let end = 200 * 1024 - 5;
        pages.hold(198, true);
        pages.deallocated(196 * 1024 + 1, end);
        let void = |pages: &Pages| (196..200).map(|page| pages.is_void(page)).collect::<Vec<bool>>();
        assert_eq!(void(&pages), [false, true, false, true], "the first in part, the third is held");
        assert!((196..200).all(|page| pages.is_dirty(page)));
        assert_eq!(pages.away(), 1, "those that are void need not be read");
        pages.changed(197 * 1024);
        assert_eq!((void(&pages), pages.away()), (vec![false, false, false, true], 2));
        pages.deallocated_all();
        assert_eq!((void(&pages), pages.away()), (vec![true, true, false, true], 0));
        pages.hold(198, false);
        assert_eq!(pages.away(), 1);
    }
}
