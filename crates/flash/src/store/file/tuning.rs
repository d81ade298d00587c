//! When checkpoints are written.

/// When checkpoints are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Units programmed between checkpoints, which bounds the search at an open.
    pub image_units: u32,
    /// Journal bytes between checkpoints.
    pub journal_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { image_units: 1 << 16, journal_bytes: 8 << 20 }
    }
}
