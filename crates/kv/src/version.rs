//! The tables of the index: runs that wait to be merged, and levels, each a run that is so many times larger than the one
//! above.

use super::key::Key;
use super::table::Slice;

/// Tables in order, none of which overlap.
pub(super) type Run = Vec<Slice>;

/// All tables: those above are newer.
#[derive(Clone, Debug, Default)]
pub(super) struct Version {
    /// Each a memtable's, the newest first.
    pub(super) waiting: Vec<Run>,
    /// Level 1 first. The last one is not empty.
    pub(super) levels: Vec<Run>,
}

/// The table of a run that may hold a key.
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

    /// Without empty levels at the end, and empty runs.
    pub(super) fn tidy(&mut self) {
        self.waiting.retain(|run| !run.is_empty());
        while self.levels.last().is_some_and(Vec::is_empty) {
            self.levels.pop();
        }
    }

    /// Whether all that is known of each key is in one place.
    pub(super) fn is_merged(&self) -> bool {
        self.runs().filter(|run| !run.is_empty()).count() <= 1
    }

    /// How many tables a level may have: its number is 0 for level 1.
    pub(super) fn tables_max(level: usize, ratio: u32) -> usize {
        (ratio as usize).saturating_pow(level as u32 + 1)
    }
}
