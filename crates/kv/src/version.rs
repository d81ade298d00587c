//! The tables of the index: level-0 runs that wait to be merged, and levels, each a run larger than the one above.

use super::key::Key;
use super::table::Slice;

/// Tables in key order that do not overlap.
pub(super) type Run = Vec<Slice>;

/// All tables. Upper runs hold newer entries than lower ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Version {
    /// Runs of flushed memtables, one each, the newest first.
    pub(super) waiting: Vec<Run>,
    /// Level 1 first. The last one is not empty, once tidied.
    pub(super) levels: Vec<Run>,
}

/// The table of a run that may hold `key`.
pub(super) fn find<'a>(run: &'a [Slice], key: &Key) -> Option<&'a Slice> {
    let after = run.partition_point(|slice| slice.from <= *key);
    let slice = run.get(after.checked_sub(1)?)?;
    (*key <= slice.table.last).then_some(slice)
}

impl Version {
    /// All runs, the newest first.
    pub(super) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.waiting.iter().chain(&self.levels)
    }

    pub(super) fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.runs().flatten()
    }

    /// Drops empty runs, and empty levels at the end.
    pub(super) fn tidy(&mut self) {
        self.waiting.retain(|run| !run.is_empty());
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
    }

    /// Whether every key has at most one entry: there is one run at most.
    pub(super) fn is_merged(&self) -> bool {
        self.runs().filter(|run| !run.is_empty()).count() <= 1
    }

    /// Tables that a level may have. Level 1 is number 0.
    pub(super) fn tables_max(level: usize, ratio: u32) -> usize {
        (ratio as usize).saturating_pow(level as u32 + 1)
    }
}
