//! Units that the host has read from flash, kept in DRAM for the next time. The one that was not asked for longest makes room.
//!
//! A unit is kept with where flash had it, and how often that superblock had been erased: it is given only while the map says the
//! same place, so nothing has to be taken out when a unit is written, deallocated or moved.

use crate::ftl::blocks::Blocks;
use byteway_flash::Ppa;
use byteway_wire::content::Content;
use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

/// Where flash had a unit, which has the same content there as long as both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Origin {
    ppa: Ppa,
    erases: u32,
}

impl Origin {
    /// Of a unit that is read now.
    pub(in crate::ftl) fn of(ppa: Ppa, blocks: &Blocks) -> Self {
        Origin { ppa, erases: blocks.erases(blocks.block_of(ppa)) }
    }
}

struct Frame {
    lpa: u64,
    origin: Origin,
    content: Content,
    newer: u32,
    older: u32,
}

/// The cache.
pub(in crate::ftl) struct ReadCache {
    capacity: usize,
    frames: Vec<Frame>,
    index: FxHashMap<u64, u32>,
    newest: u32,
    oldest: u32,
}

impl ReadCache {
    /// For so many units, at least one.
    pub(in crate::ftl) fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1) as usize;
        ReadCache { capacity, frames: Vec::new(), index: FxHashMap::default(), newest: NONE, oldest: NONE }
    }

    /// Units in it.
    pub(in crate::ftl) fn len(&self) -> usize {
        self.frames.len()
    }

    /// What a unit holds that flash has there.
    pub(in crate::ftl) fn get(&mut self, lpa: u64, origin: Origin) -> Option<Content> {
        let index = *self.index.get(&lpa)?;
        if self.frames[index as usize].origin != origin {
            return None;
        }
        self.unlink(index);
        self.link(index);
        Some(self.frames[index as usize].content.clone())
    }

    /// Keeps what was read of a unit.
    pub(in crate::ftl) fn put(&mut self, lpa: u64, origin: Origin, content: &Content) {
        let index = match self.index.get(&lpa) {
            Some(index) => *index,
            None if self.frames.len() < self.capacity => {
                self.frames.push(Frame { lpa, origin, content: Content::Zero, newer: NONE, older: NONE });
                let index = self.frames.len() as u32 - 1;
                self.index.insert(lpa, index);
                self.link(index);
                index
            }
            None => {
                let index = self.oldest;
                let replaced = std::mem::replace(&mut self.frames[index as usize].lpa, lpa);
                self.index.remove(&replaced);
                self.index.insert(lpa, index);
                index
            }
        };
        self.unlink(index);
        self.link(index);
        let frame = &mut self.frames[index as usize];
        (frame.origin, frame.content) = (origin, content.clone());
    }

    /// Keeps nothing any more.
    pub(in crate::ftl) fn clear(&mut self) {
        *self = ReadCache::new(self.capacity as u32);
    }

    fn unlink(&mut self, index: u32) {
        let Frame { newer, older, .. } = self.frames[index as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.frames[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.frames[older as usize].newer = newer,
        }
    }

    /// Links one that is in no list as the newest.
    fn link(&mut self, index: u32) {
        let older = std::mem::replace(&mut self.newest, index);
        let frame = &mut self.frames[index as usize];
        (frame.newer, frame.older) = (NONE, older);
        match older {
            NONE => self.oldest = index,
            older => self.frames[older as usize].newer = index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(place: u64) -> Origin {
        Origin { ppa: Ppa(place), erases: 0 }
    }

    fn held(cache: &mut ReadCache, lpas: std::ops::Range<u64>) -> Vec<u64> {
        lpas.filter(|lpa| cache.index.contains_key(lpa)).collect()
    }

    // A list that loses a link loses frames: the cache would shrink, or go round in a circle.
    #[test]
    fn the_one_not_asked_for_longest_makes_room() {
        let mut cache = ReadCache::new(3);
        (0..3).for_each(|lpa| cache.put(lpa, origin(lpa), &Content::Zero));
        assert!(cache.get(0, origin(0)).is_some());
        cache.put(3, origin(3), &Content::Zero);
        assert_eq!(held(&mut cache, 0..5), [0, 2, 3]);
        cache.put(2, origin(9), &Content::Zero);
        cache.put(4, origin(4), &Content::Zero);
        assert_eq!(held(&mut cache, 0..5), [2, 3, 4]);
        assert_eq!(cache.len(), 3);
        assert!(cache.get(2, origin(2)).is_none(), "it was elsewhere");
        assert!(cache.get(2, origin(9)).is_some());
        cache.clear();
        assert_eq!((cache.len(), cache.get(2, origin(9))), (0, None));
    }

    // What lies at a place after an erase is something else.
    #[test]
    fn an_erase_makes_another_place_of_it() {
        let mut cache = ReadCache::new(1);
        cache.put(7, origin(1), &Content::Zero);
        assert!(cache.get(7, Origin { erases: 1, ..origin(1) }).is_none());
    }
}
