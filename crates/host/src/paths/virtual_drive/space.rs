//! Spare space of a drive, for borrowers' writes.

use std::collections::BTreeMap;

/// Maximum number of free extents examined per allocation: a write that fits in none of them goes home.
const LOOKS_MAX: usize = 64;

/// Units of a spare namespace, allocated in runs.
pub(super) struct Space {
    units: u64,
    free: u64,
    /// Free extents: first unit, and length.
    holes: BTreeMap<u64, u64>,
    /// End of the last allocation: the next one continues there, so that a sequence stays contiguous.
    next: u64,
}

impl Space {
    pub(super) fn new(units: u64) -> Self {
        let holes = (units > 0).then_some((0, units)).into_iter().collect();
        Space { units, free: units, holes, next: 0 }
    }

    /// Number of free units.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Number of units.
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Allocates `count` contiguous units; returns the first. `None`: no such extent near the last allocation.
    pub(super) fn take(&mut self, count: u64) -> Option<u64> {
        let ahead = self.holes.range(self.next..).chain(self.holes.range(..self.next));
        let (first, size) = ahead.take(LOOKS_MAX).find(|(_, size)| **size >= count)?;
        let (first, size) = (*first, *size);
        self.holes.remove(&first);
        if size > count {
            self.holes.insert(first + count, size - count);
        }
        self.next = first + count;
        self.free -= count;
        Some(first)
    }

    /// Frees units.
    pub(super) fn give(&mut self, first: u64, count: u64) {
        let (mut first, mut size) = (first, count);
        debug_assert!(self.free <= self.units, "units are freed twice");
        self.free += count;
        if let Some((before, its)) = self.holes.range(..first).next_back().map(|(at, size)| (*at, *size))
            && before + its == first
        {
            self.holes.remove(&before);
            (first, size) = (before, its + size);
        }
        if let Some(behind) = self.holes.remove(&(first + size)) {
            size += behind;
        }
        self.holes.insert(first, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // A unit allocated twice is lost data; a unit that is never freed is lost space, until the host restarts.
    #[test]
    fn each_unit_is_taken_once_and_comes_back() {
        let mut stream = Rng::new(5).stream("space");
        let mut space = Space::new(256);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let mut owned = [false; 256];
        for _ in 0..10_000 {
            let count = 1 + stream.below(20);
            if let Some(first) = space.take(count) {
                for unit in first..first + count {
                    assert!(!std::mem::replace(&mut owned[unit as usize], true), "unit {unit} twice");
                }
                taken.push((first, count));
            }
            while !taken.is_empty() && stream.chance(0.5) {
                let (first, count) = taken.swap_remove(stream.below(taken.len() as u64) as usize);
                // In two parts, as a run that is partly overwritten.
                let part = stream.below(count + 1);
                [(first, part), (first + part, count - part)]
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .for_each(|(first, count)| space.give(first, count));
                (first..first + count).for_each(|unit| owned[unit as usize] = false);
            }
            assert_eq!(space.free(), owned.iter().filter(|owned| !**owned).count() as u64);
        }
        taken.into_iter().for_each(|(first, count)| space.give(first, count));
        assert_eq!(space.take(256), Some(0), "it is whole again");
        assert_eq!(space.take(1), None);
    }
}
