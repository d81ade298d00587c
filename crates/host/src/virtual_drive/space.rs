//! Spare space of a drive, from which borrowers' writes get their places.

use std::collections::BTreeMap;

/// Holes that are looked at for one place, at most: what fits into none of them goes home.
const LOOKS_MAX: usize = 64;

/// Units of a spare namespace, of which runs are taken and given back.
pub(super) struct Space {
    units: u64,
    free: u64,
    /// Holes: the first unit, and how many.
    holes: BTreeMap<u64, u64>,
    /// Where the last place ended: the next one is behind it, so that a sequence stays one.
    next: u64,
}

impl Space {
    pub(super) fn new(units: u64) -> Self {
        let holes = (units > 0).then_some((0, units)).into_iter().collect();
        Space { units, free: units, holes, next: 0 }
    }

    /// Units that are free.
    pub(super) fn free(&self) -> u64 {
        self.free
    }

    /// Units in all.
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Takes `count` units in one piece. Gives the first; none: there is no such piece near the last one.
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

    /// Gives units back.
    pub(super) fn give(&mut self, first: u64, count: u64) {
        let (mut first, mut size) = (first, count);
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

    // A unit that two have is one whose data is gone; one that nothing has any more is space lost until the host restarts.
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
                // In two parts, as a run that is overwritten in part.
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
