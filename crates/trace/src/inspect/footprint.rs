//! Footprint: distinct units read and written, and update distances. Exact up to a limit, estimated from a
//! sample of the units beyond it.
//!
//! A unit's key is a hash. When the table is full the sampling rate is halved: only keys with one more
//! leading zero bit stay, and each then stands for twice as many units.

use rustc_hash::FxHashMap;

use super::figures::six_decimals;
use super::inspection::{Footprint as Found, Updates};
use byteway_reuse::{Distances, MissRatioCurve};
use byteway_text::number::ratio;

/// Units in the table, at most: 4 GiB of 4 KiB units, in some 50 MB. Half of it, the smallest sample, has a
/// standard error of 0.14 %.
const UNITS_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Footprint {
    units: FxHashMap<u64, Touched>,
    /// Leading zero bits of the sampled keys; the sampling rate is 2^-zeros.
    zeros: u32,
    read: u64,
    written: u64,
    both: u64,
    accesses: u64,
    writes: u64,
    /// Units written between two writes of a unit, weighted by the inverse sampling rate.
    updates: Distances,
    updated: f64,
}

#[derive(Default)]
struct Touched {
    read: bool,
    /// Number of the last write, from 1; 0: never written.
    written: u64,
}

impl Footprint {
    /// Counts a read or write of a unit.
    #[inline]
    pub(super) fn access(&mut self, key: u64, write: bool) {
        self.accesses += 1;
        self.writes += u64::from(write);
        if key.leading_zeros() >= self.zeros {
            self.touch(key, write);
        }
    }

    fn touch(&mut self, key: u64, write: bool) {
        let unit = self.units.entry(key).or_default();
        let (was_read, was_written) = (unit.read, unit.written > 0);
        if write {
            if was_written {
                let weight = (1u64 << self.zeros) as f64;
                self.updates.add(self.writes - unit.written - 1, weight);
                self.updated += weight;
            }
            unit.written = self.writes;
        } else {
            unit.read = true;
        }
        self.written += u64::from(write && !was_written);
        self.read += u64::from(!write && !was_read);
        self.both += u64::from((write && !was_written && was_read) || (!write && !was_read && was_written));
        // The limit on zeros keeps the weight in range; fewer than 2^80 units cannot reach it.
        if self.units.len() > UNITS_MAX && self.zeros < 60 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.zeros += 1;
        let zeros = self.zeros;
        let (mut read, mut written, mut both) = (0, 0, 0);
        self.units.retain(|key, unit| {
            let stays = key.leading_zeros() >= zeros;
            read += u64::from(stays && unit.read);
            written += u64::from(stays && unit.written > 0);
            both += u64::from(stays && unit.read && unit.written > 0);
            stays
        });
        (self.read, self.written, self.both) = (read, written, both);
    }

    pub(super) fn finish(&self, unit_bytes: u64) -> Found {
        let estimate = |count: u64| count << self.zeros;
        Found {
            unit_bytes,
            exact: self.zeros == 0,
            sampling_rate: 1.0 / (1u64 << self.zeros) as f64,
            accesses: self.accesses,
            // An estimate may exceed what is possible.
            units: estimate(self.units.len() as u64).min(self.accesses),
            read_units: estimate(self.read).min(self.accesses),
            written_units: estimate(self.written).min(self.writes),
            both_units: estimate(self.both).min(self.accesses),
        }
    }

    /// `None` if no unit is written twice.
    pub(super) fn updates(&self, unit_bytes: u64) -> Option<Updates> {
        let distances = MissRatioCurve::new(self.updates.iter(), self.updated);
        let at = |share: f64| Some(distances.distance_at(share)?.saturating_mul(unit_bytes));
        Some(Updates {
            share: match self.zeros {
                0 => ratio(self.updated as u128, self.writes.into()),
                _ => six_decimals((self.updated / self.writes as f64).min(1.0)),
            },
            p10_bytes: at(0.1)?,
            p50_bytes: at(0.5)?,
            p90_bytes: at(0.9)?,
            p99_bytes: at(0.99)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::mix;

    // Writes to a unit that was read before, reads of one that was written, and the total are easily
    // confused.
    #[test]
    fn units_read_and_written_are_told_apart() {
        let mut footprint = Footprint::default();
        assert_eq!((footprint.finish(4096).units, footprint.updates(4096)), (0, None));
        (0..300).for_each(|unit| footprint.access(mix(unit), false));
        (200..600).for_each(|unit| footprint.access(mix(unit), true));
        (250..260).for_each(|unit| footprint.access(mix(unit), false));
        assert_eq!(footprint.updates(4096), None);
        (200..600).for_each(|unit| footprint.access(mix(unit), true));
        let found = footprint.finish(4096);
        assert!(found.exact);
        assert_eq!((found.accesses, found.units, found.both_units), (1110, 600, 100));
        assert_eq!((found.read_units, found.written_units), (300, 400));
        // Between two writes of a unit there are 399 others.
        let updates = footprint.updates(4096).unwrap();
        assert_eq!((updates.share, updates.p10_bytes, updates.p99_bytes), (0.5, 399 * 4096, 399 * 4096));
    }

    // Without a limit, a trace of a large drive would exhaust memory; with wrong scaling, its footprint would
    // be off by a power of 2.
    #[test]
    fn beyond_the_bound_it_is_estimated() {
        let mut footprint = Footprint::default();
        for unit in 0..4_000_000u64 {
            footprint.access(mix(unit), unit.is_multiple_of(4));
        }
        (0..4_000_000).step_by(8).for_each(|unit| footprint.access(mix(unit), true));
        let found = footprint.finish(4096);
        assert!(!found.exact && found.sampling_rate == 0.25 && footprint.units.len() <= UNITS_MAX);
        for (found, expected) in [(found.units, 4e6), (found.read_units, 3e6), (found.written_units, 1e6)] {
            assert!((found as f64 / expected - 1.0).abs() < 0.01, "{found} against {expected}");
        }
        let updates = footprint.updates(1).unwrap();
        assert!((updates.share - 1.0 / 3.0).abs() < 0.01, "{updates:?}");
        // Unit 8k is write number 2k, and then number 1,000,000 + k.
        assert!((updates.p50_bytes as f64 / 750_000.0 - 1.0).abs() < 0.01, "{updates:?}");
    }
}
