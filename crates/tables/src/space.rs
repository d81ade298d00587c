//! Allocator of the free units of a range, kept as maximal runs.

use crate::config::UnitExtent;
use std::collections::BTreeMap;

/// Upper limit of a row group's extents. An allocation that needs more fails.
const EXTENTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Space {
    /// First unit of each free run, with its length. Invariant: runs are neither adjacent nor overlapping.
    free: BTreeMap<u64, u64>,
    units: u64,
}

impl Space {
    /// An allocator with `count` free units from `first` on.
    pub(crate) fn new(first: u64, count: u64) -> Space {
        let mut space = Space::default();
        space.release(UnitExtent { first, count });
        space
    }

    /// Number of free units.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// Marks an extent as used. `false` if part of it is not free: another row group has it as well.
    pub(crate) fn claim(&mut self, extent: UnitExtent) -> bool {
        let Some((&first, &count)) = self.free.range(..=extent.first).next_back() else { return false };
        let (end, claimed_end) = (first + count, extent.first + extent.count);
        if claimed_end > end {
            return false;
        }
        self.free.remove(&first);
        if first < extent.first {
            self.free.insert(first, extent.first - first);
        }
        if claimed_end < end {
            self.free.insert(claimed_end, end - claimed_end);
        }
        self.units -= extent.count;
        true
    }

    /// Allocates `count` units: the shortest run that is long enough, or else the longest runs until there are enough. `None` if too few
    /// units are free, or if more than [`EXTENTS_MAX`] extents would be needed.
    pub(crate) fn take(&mut self, count: u64) -> Option<Vec<UnitExtent>> {
        if count == 0 || count > self.units {
            return None;
        }
        // Best fit: the shortest run that is long enough, the first of equals.
        let fits =
            self.free.iter().filter(|(_, run)| **run >= count).min_by_key(|(first, run)| (**run, **first));
        let taken = match fits {
            Some((&first, _)) => vec![UnitExtent { first, count }],
            None => {
                let mut runs: Vec<UnitExtent> =
                    self.free.iter().map(|(&first, &count)| UnitExtent { first, count }).collect();
                runs.sort_by_key(|run| (std::cmp::Reverse(run.count), run.first));
                let mut left = count;
                let mut taken = Vec::new();
                for run in runs {
                    let part = UnitExtent { count: run.count.min(left), ..run };
                    taken.push(part);
                    left -= part.count;
                    if left == 0 {
                        break;
                    }
                }
                debug_assert_eq!(left, 0, "the sum of all runs differs from the count of free units");
                taken
            }
        };
        if taken.len() > EXTENTS_MAX {
            return None;
        }
        for extent in &taken {
            assert!(self.claim(*extent), "an allocated run was free");
        }
        Some(taken)
    }

    /// Frees an extent and joins it with adjacent runs.
    pub(crate) fn release(&mut self, extent: UnitExtent) {
        let UnitExtent { mut first, mut count } = extent;
        if count == 0 {
            return;
        }
        debug_assert!(
            self.free.range(..first + count).next_back().is_none_or(|(&run, &units)| run + units <= first),
            "{extent:?} is freed twice"
        );
        self.units += count;
        if let Some((&before, &run)) = self.free.range(..first).next_back()
            && before + run == first
        {
            self.free.remove(&before);
            (first, count) = (before, run + count);
        }
        if let Some(run) = self.free.remove(&(first + count)) {
            count += run;
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(first: u64, count: u64) -> UnitExtent {
        UnitExtent { first, count }
    }

    // A unit in two row groups would give one the bytes of the other.
    #[test]
    fn no_unit_is_taken_twice() {
        let mut space = Space::new(10, 100);
        let [a, b, c] = [40, 30, 30].map(|count| space.take(count).unwrap());
        assert_eq!(
            (a.clone(), b.clone(), c.clone()),
            (vec![extent(10, 40)], vec![extent(50, 30)], vec![extent(80, 30)])
        );
        assert_eq!((space.units(), space.take(1)), (0, None));
        space.release(extent(10, 40));
        space.release(extent(80, 30));
        // No run is long enough: the longest one comes first.
        assert_eq!(space.take(60), Some(vec![extent(10, 40), extent(80, 20)]));
        assert_eq!(space.take(11), None);
        assert_eq!(space.take(10), Some(vec![extent(100, 10)]));
        assert!(!space.claim(extent(10, 1)));
    }

    // Adjacent runs that are not joined would be too short for an allocation that fits into both.
    #[test]
    fn what_is_given_back_becomes_one_run() {
        let mut space = Space::new(0, 90);
        let parts: Vec<_> = (0..3).map(|_| space.take(30).unwrap()[0]).collect();
        for index in [0, 2, 1] {
            space.release(parts[index]);
        }
        assert_eq!(space.take(90), Some(vec![extent(0, 90)]));
        space.release(extent(0, 90));
        assert!(space.claim(extent(30, 30)) && !space.claim(extent(59, 2)) && !space.claim(extent(0, 31)));
        // Best fit: the shortest run that is long enough.
        space.release(extent(30, 10));
        assert_eq!(space.take(25), Some(vec![extent(60, 25)]));
    }
}
