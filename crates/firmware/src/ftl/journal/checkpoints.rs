//! State of checkpoints.

use crate::ftl::config::MediaError;
use crate::ftl::counters::FtlCounters;
use crate::ftl::journal::root::Root;

/// State of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Checkpoints {
    /// Number of the last root; its slot is this modulo 2.
    pub(in crate::ftl) generation: u64,
    /// Units programmed when the last checkpoint began.
    pub(in crate::ftl) units_then: u64,
    /// Checkpoints requested, and those of them completed.
    pub(in crate::ftl) asked: u64,
    pub(in crate::ftl) done: u64,
    /// The next checkpoint to begin belongs to a shutdown.
    pub(in crate::ftl) is_shutdown: bool,
    /// Why the last checkpoint of a shutdown was not written.
    pub(in crate::ftl) failed: Option<MediaError>,
    /// The last root is that of a shutdown, and nothing has come since.
    pub(in crate::ftl) is_clean: bool,
    /// Dirty translation pages were dropped from DRAM without being written, so no root may be written any
    /// more.
    pub(in crate::ftl) is_over: bool,
    pub(in crate::ftl) power_cycles: u64,
    pub(in crate::ftl) unsafe_shutdowns: u64,
}

impl Checkpoints {
    /// Continues from the last root. A power cut came after it, unless it `was_clean`.
    pub(in crate::ftl) fn recovered(&mut self, root: &Root, was_clean: bool) {
        self.generation = root.generation;
        self.power_cycles = root.power_cycles + 1;
        self.unsafe_shutdowns = root.unsafe_shutdowns + u64::from(!was_clean);
    }

    /// Whether one is due, after `every` programmed units.
    pub(in crate::ftl) fn is_due(&self, every: u64, counters: &FtlCounters) -> bool {
        let Checkpoints { units_then, asked, done, .. } = *self;
        every > 0 && asked == done && counters.units_programmed() - units_then >= every
    }
}
