//! The map of a tenant's units at lenders, in host memory only.

use std::collections::BTreeMap;
use std::ops::Range;

/// Consecutive units at a lender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) lender: usize,
    /// First unit in the lender's spare namespace.
    pub(super) at: u64,
    pub(super) count: u64,
}

/// Consecutive units in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) units: Range<u64>,
    /// `None`: at home.
    pub(super) run: Option<Run>,
}

/// The map of a tenant's units at lenders. Other units are at home.
#[derive(Default)]
pub(super) struct RedirectionMap {
    /// Runs by first unit, without overlaps.
    runs: BTreeMap<u64, Run>,
    /// Number of units stored at each drive.
    held: Vec<u64>,
}

impl RedirectionMap {
    pub(super) fn new(drives: usize) -> Self {
        RedirectionMap { runs: BTreeMap::new(), held: vec![0; drives] }
    }

    /// Number of units at a lender.
    pub(super) fn held(&self, lender: usize) -> u64 {
        self.held[lender]
    }

    /// Whether no unit is stored at a lender.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first run that overlaps `units`.
    fn overlapping(&self, units: &Range<u64>) -> Option<(u64, Run)> {
        let before = self.runs.range(..=units.start).next_back();
        let before = before.filter(|(first, run)| **first + run.count > units.start);
        let found = before.or_else(|| self.runs.range(units.clone()).next())?;
        (!units.is_empty()).then_some((*found.0, *found.1))
    }

    /// The places of `units`, part by part in order.
    pub(super) fn parts(&self, units: Range<u64>, out: &mut Vec<Part>) {
        out.clear();
        let mut next = units.start;
        while let Some((first, run)) = self.overlapping(&(next..units.end)) {
            let (begin, end) = (first.max(next), (first + run.count).min(units.end));
            if next < begin {
                out.push(Part { units: next..begin, run: None });
            }
            let run = Run { at: run.at + (begin - first), count: end - begin, ..run };
            out.push(Part { units: begin..end, run: Some(run) });
            next = end;
        }
        if next < units.end {
            out.push(Part { units: next..units.end, run: None });
        }
    }

    /// Removes `units`, which are at home from now on. Appends the freed space at lenders to `freed`.
    pub(super) fn remove(&mut self, units: Range<u64>, freed: &mut Vec<Run>) {
        while let Some((first, run)) = self.overlapping(&units) {
            self.runs.remove(&first);
            let (begin, end) = (first.max(units.start), (first + run.count).min(units.end));
            if first < begin {
                self.runs.insert(first, Run { count: begin - first, ..run });
            }
            if end < first + run.count {
                let rest = Run { at: run.at + (end - first), count: first + run.count - end, ..run };
                self.runs.insert(end, rest);
            }
            self.held[run.lender] -= end - begin;
            freed.push(Run { at: run.at + (begin - first), count: end - begin, ..run });
        }
    }

    /// Adds units from `first` on, so far at home, at a lender.
    pub(super) fn insert(&mut self, first: u64, run: Run) {
        debug_assert!(self.overlapping(&(first..first + run.count)).is_none(), "a unit is in one place");
        self.held[run.lender] += run.count;
        if let Some((before, last)) = self.runs.range_mut(..first).next_back()
            && *before + last.count == first
            && last.lender == run.lender
            && last.at + last.count == run.at
        {
            last.count += run.count;
            return;
        }
        self.runs.insert(first, run);
    }

    /// The first run from `from` on at a `wanted` lender.
    pub(super) fn next(&self, from: u64, wanted: impl Fn(usize) -> bool) -> Option<(u64, Run)> {
        self.runs.range(from..).find(|(_, run)| wanted(run.lender)).map(|(first, run)| (*first, *run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    // A run split at a wrong unit would return another tenant's data. Check against a model that stores each unit
    // separately.
    #[test]
    fn it_says_of_every_unit_what_one_that_knows_each_says() {
        const UNITS: u64 = 64;
        let mut stream = Rng::new(3).stream("map");
        let mut map = RedirectionMap::new(3);
        let mut truth: Vec<Option<(usize, u64)>> = vec![None; UNITS as usize];
        let (mut next_at, mut freed, mut parts) = (0, Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let count = 1 + stream.below(12);
            let first = stream.below(UNITS - count + 1);
            let units = first..first + count;
            freed.clear();
            map.remove(units.clone(), &mut freed);
            let mut was: Vec<(usize, u64)> =
                units.clone().filter_map(|unit| truth[unit as usize].take()).collect();
            let mut given: Vec<(usize, u64)> = freed
                .iter()
                .flat_map(|run| (run.at..run.at + run.count).map(|at| (run.lender, at)))
                .collect();
            was.sort_unstable();
            given.sort_unstable();
            assert_eq!(given, was, "what was there is given back, once");
            if stream.chance(0.6) {
                let lender = stream.below(3) as usize;
                // Often right after the last placement, as in sequential writes.
                next_at += if stream.chance(0.5) { 0 } else { 7 };
                map.insert(first, Run { lender, at: next_at, count });
                for unit in units {
                    truth[unit as usize] = Some((lender, next_at));
                    next_at += 1;
                }
            }
            let from = stream.below(UNITS);
            map.parts(from..UNITS, &mut parts);
            let mut at = from;
            for part in &parts {
                assert!(part.units.start == at && !part.units.is_empty(), "{parts:?}");
                for unit in part.units.clone() {
                    let place = part.run.map(|run| (run.lender, run.at + (unit - part.units.start)));
                    assert_eq!(place, truth[unit as usize], "unit {unit}");
                }
                at = part.units.end;
            }
            assert_eq!(at, UNITS);
            for lender in 0..3 {
                let held = truth.iter().flatten().filter(|place| place.0 == lender).count() as u64;
                assert_eq!(map.held(lender), held);
            }
        }
        assert!(map.next(0, |lender| lender == 1).is_some_and(|(_, run)| run.lender == 1));
    }
}
