//! What was seen, and how often, in little memory.

use crate::policy::hash::hash;

/// Most entries that a filter or a sketch is made for; with more, more of what it says is wrong.
const ENTRIES_MAX: u64 = 1 << 26;

/// A power of two of at least `per_entry` places for each of so many entries.
fn places(entries: u64, per_entry: u64) -> usize {
    (entries.clamp(1, ENTRIES_MAX) * per_entry).next_power_of_two() as usize
}

/// Places of a unit, each by a hash function of its own, made of two (Kirsch and Mitzenmacher).
fn places_of<const N: usize>(unit: u64, count: usize) -> [usize; N] {
    let hash = hash(unit);
    let (first, step) = (hash as u32, (hash >> 32) as u32 | 1);
    std::array::from_fn(|n| first.wrapping_add(step.wrapping_mul(n as u32)) as usize & (count - 1))
}

/// A Bloom filter: what was seen is in it, and of the rest one or two percent, if no more was seen than it is made for.
#[derive(Clone, Debug)]
pub(super) struct Filter(Vec<u64>);

impl Filter {
    /// For so many units.
    pub(super) fn new(entries: u64) -> Self {
        Filter(vec![0; places(entries, 16).div_ceil(64)])
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.bits(unit).into_iter().all(|at| self.0[at / 64] & (1 << (at % 64)) != 0)
    }

    pub(super) fn add(&mut self, unit: u64) {
        self.bits(unit).into_iter().for_each(|at| self.0[at / 64] |= 1 << (at % 64));
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    fn bits(&self, unit: u64) -> [usize; 2] {
        places_of(unit, self.0.len() * 64)
    }
}

/// A count-min sketch: how often each unit was seen, up to 15, or more than that where units share all places.
#[derive(Clone, Debug)]
pub(super) struct Counts(Vec<u8>);

/// Highest count.
const COUNT_MAX: u8 = 15;

impl Counts {
    /// For so many units.
    pub(super) fn new(entries: u64) -> Self {
        Counts(vec![0; places(entries, 4)])
    }

    pub(super) fn of(&self, unit: u64) -> u8 {
        self.places(unit).into_iter().map(|at| self.0[at]).min().unwrap_or(0)
    }

    /// Counts a unit: of its places, those with the lowest count.
    pub(super) fn add(&mut self, unit: u64) {
        let least = self.of(unit);
        if least < COUNT_MAX {
            for at in self.places(unit) {
                self.0[at] = self.0[at].max(least + 1);
            }
        }
    }

    pub(super) fn halve(&mut self) {
        self.0.iter_mut().for_each(|count| *count /= 2);
    }

    fn places(&self, unit: u64) -> [usize; 4] {
        places_of(unit, self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A filter that forgets keeps nothing; one that remembers what was never there keeps everything.
    #[test]
    fn a_filter_has_what_it_was_given_and_little_else() {
        let mut filter = Filter::new(1000);
        (0..1000).for_each(|unit| filter.add(unit * 7));
        assert!((0..1000).all(|unit| filter.has(unit * 7)));
        let wrong = (0..10_000u64).filter(|unit| unit % 7 != 0 && filter.has(*unit)).count();
        assert!(wrong < 250, "{wrong} of 8,571");
        filter.clear();
        assert!((0..7000).all(|unit| !filter.has(unit)));
    }

    #[test]
    fn counts_are_never_too_low_and_seldom_too_high() {
        let mut counts = Counts::new(1000);
        (0..1000u64).for_each(|unit| (0..unit % 20).for_each(|_| counts.add(unit)));
        let right = |unit: &u64| (unit % 20).min(u64::from(COUNT_MAX)) as u8;
        assert!((0..1000).all(|unit| counts.of(unit) >= right(&unit)));
        let wrong = (0..1000).filter(|unit| counts.of(*unit) != right(unit)).count();
        assert!(wrong < 100, "{wrong}");
        counts.halve();
        assert_eq!(counts.of(19), 7);
    }
}
