//! The read cache: units that the host has read from flash, kept in DRAM, with least-recently-used eviction.
//!
//! A unit is kept with its flash address and the erase count of that superblock, and returned only while the
//! map has the same address. So writes, deallocations and moves need not invalidate it.

use crate::ftl::blocks::Blocks;
use crate::ftl::recency::Recency;
use byteway_content::Content;
use byteway_flash::Ppa;
use rustc_hash::FxHashMap;

/// Identity of a unit's version in flash: equal origins mean equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Origin {
    ppa: Ppa,
    erases: u32,
}

impl Origin {
    /// Origin of a unit that is read now.
    pub(in crate::ftl) fn of(ppa: Ppa, blocks: &Blocks) -> Self {
        Origin { ppa, erases: blocks.erases(blocks.block_of(ppa)) }
    }
}

struct Frame {
    lpa: u64,
    origin: Origin,
    content: Content,
}

/// The read cache.
pub(in crate::ftl) struct ReadCache {
    capacity: usize,
    frames: Vec<Frame>,
    index: FxHashMap<u64, u32>,
    recency: Recency,
}

impl ReadCache {
    /// A cache of `capacity` units, at least one.
    pub(in crate::ftl) fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1) as usize;
        ReadCache { capacity, frames: Vec::new(), index: FxHashMap::default(), recency: Recency::default() }
    }

    /// Units in the cache.
    pub(in crate::ftl) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The content of a unit with this origin, if cached.
    pub(in crate::ftl) fn get(&mut self, lpa: u64, origin: Origin) -> Option<Content> {
        let index = *self.index.get(&lpa)?;
        if self.frames[index as usize].origin != origin {
            return None;
        }
        self.recency.touch(index);
        Some(self.frames[index as usize].content.clone())
    }

    /// Caches the content of a unit.
    pub(in crate::ftl) fn put(&mut self, lpa: u64, origin: Origin, content: &Content) {
        let content = content.clone();
        if let Some(index) = self.index.get(&lpa).copied() {
            self.recency.touch(index);
            self.frames[index as usize] = Frame { lpa, origin, content };
            return;
        }
        let oldest = if self.frames.len() < self.capacity { None } else { self.recency.oldest().next() };
        let index = match oldest {
            None => {
                self.frames.push(Frame { lpa, origin, content });
                self.frames.len() as u32 - 1
            }
            Some(index) => {
                self.recency.remove(index);
                let frame = &mut self.frames[index as usize];
                let replaced = std::mem::replace(frame, Frame { lpa, origin, content });
                self.index.remove(&replaced.lpa);
                index
            }
        };
        self.index.insert(lpa, index);
        self.recency.add(index);
    }

    /// Empties the cache.
    pub(in crate::ftl) fn clear(&mut self) {
        *self = ReadCache::new(self.capacity as u32);
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

    // A list that loses a link loses frames: the cache would shrink, or a walk would never end.
    #[test]
    fn the_least_recently_used_unit_is_evicted() {
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

    // After an erase the same address holds something else.
    #[test]
    fn an_erase_makes_another_place_of_it() {
        let mut cache = ReadCache::new(1);
        cache.put(7, origin(1), &Content::Zero);
        assert!(cache.get(7, Origin { erases: 1, ..origin(1) }).is_none());
    }
}
