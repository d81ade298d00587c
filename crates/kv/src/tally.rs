//! Sums over key-value pairs.

byteway_clock::counters! {
    /// Sums over key-value pairs. An entry adds its own cost. The cost of the entry that it replaces is subtracted when
    /// that is dropped in a merge, or at once if it is known at the store: the new entry then *settles* it
    /// (`Entry::settles`), and nothing is subtracted later.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Tally {
        pub(super) bytes: i64,
        pub(super) keys: i64,
    }
}

impl Tally {
    pub(super) fn gain(&mut self, cost: u32) {
        *self += Tally { bytes: i64::from(cost), keys: i64::from(cost > 0) };
    }

    pub(super) fn lose(&mut self, cost: u32) {
        *self += Tally { bytes: -i64::from(cost), keys: -i64::from(cost > 0) };
    }
}
