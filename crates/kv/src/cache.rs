//! The DRAM cache of index units, with CLOCK replacement.

use byteway_content::UNIT_BYTES;
use byteway_content::UnitBytes;
use rustc_hash::FxHashMap;

/// The bytes of one unit.
pub(super) type Unit = [u8; UNIT_BYTES];

struct Frame {
    name: u64,
    unit: UnitBytes,
    is_used: bool,
}

/// The cache. Its key combines a table's number and the unit's index there; table numbers are never reused, so an entry
/// never goes stale.
pub(super) struct Cache {
    frames: Vec<Frame>,
    places: FxHashMap<u64, u32>,
    frames_max: usize,
    hand: usize,
}

impl Cache {
    pub(super) fn new(frames_max: u32) -> Cache {
        Cache { frames: Vec::new(), places: FxHashMap::default(), frames_max: frames_max as usize, hand: 0 }
    }

    pub(super) fn get(&mut self, name: u64) -> Option<UnitBytes> {
        let frame = &mut self.frames[*self.places.get(&name)? as usize];
        frame.is_used = true;
        Some(frame.unit.clone())
    }

    pub(super) fn put(&mut self, name: u64, unit: UnitBytes) {
        if self.places.contains_key(&name) || self.frames_max == 0 {
            return;
        }
        let frame = Frame { name, unit, is_used: false };
        if self.frames.len() < self.frames_max {
            self.places.insert(name, self.frames.len() as u32);
            self.frames.push(frame);
            return;
        }
        while std::mem::take(&mut self.frames[self.hand].is_used) {
            self.hand = (self.hand + 1) % self.frames_max;
        }
        let old = std::mem::replace(&mut self.frames[self.hand], frame);
        self.places.remove(&old.name);
        self.places.insert(name, self.hand as u32);
        self.hand = (self.hand + 1) % self.frames_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A cache that returned another unit than the one asked for would answer with another table's entries.
    #[test]
    fn what_is_used_stays_and_nothing_is_mixed_up() {
        let mut cache = Cache::new(3);
        for name in 0..20u64 {
            cache.put(name, UnitBytes::from([name as u8; UNIT_BYTES]));
            assert_eq!(cache.get(0).map(|unit| unit[9]), Some(0), "the one that is used all the time");
            for other in 0..=name {
                assert!(cache.get(other).is_none_or(|unit| unit[0] == other as u8));
                if other > 0 {
                    cache
                        .frames
                        .iter_mut()
                        .filter(|frame| frame.name == other)
                        .for_each(|frame| frame.is_used = false);
                }
            }
            assert!(cache.frames.len() <= 3 && cache.places.len() == cache.frames.len());
        }
    }
}
