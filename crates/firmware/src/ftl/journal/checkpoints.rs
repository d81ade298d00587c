//! State of checkpoints.

use crate::ftl::config::MediaError;
use crate::ftl::counters::FtlCounters;
use crate::ftl::journal::root::Root;

/// State of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Checkpoints {
    /// Number of the last root; its slot is this modulo 2.
    generation: u64,
    /// Units programmed when the last checkpoint began.
    units_then: u64,
    /// Checkpoints requested, and those of them completed.
    asked: u64,
    done: u64,
    /// The next checkpoint to begin belongs to a shutdown.
    is_shutdown: bool,
    /// Why the last checkpoint of a shutdown was not written.
    failed: Option<MediaError>,
    /// The last root is that of a shutdown, and nothing has come since.
    is_clean: bool,
    /// Dirty translation pages were dropped from DRAM without being written, so no root may be written any
    /// more.
    is_over: bool,
    power_cycles: u64,
    unsafe_shutdowns: u64,
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
        every > 0 && !self.is_pending() && counters.units_programmed() - self.units_then >= every
    }

    /// Whether one is requested, or being written.
    pub(in crate::ftl) fn is_pending(&self) -> bool {
        self.asked != self.done
    }

    /// Requests one, unless one is pending. Returns whether it did.
    pub(in crate::ftl) fn ask(&mut self) -> bool {
        let asks = !self.is_pending();
        self.asked += u64::from(asks);
        asks
    }

    /// Requests that of a shutdown. Returns its turn.
    pub(in crate::ftl) fn ask_for_shutdown(&mut self) -> u64 {
        self.asked += 1;
        self.is_shutdown = true;
        self.asked
    }

    /// The turn of the next one, if one is requested, and whether it belongs to a shutdown.
    pub(in crate::ftl) fn next(&mut self) -> Option<(u64, bool)> {
        self.is_pending().then(|| (self.asked, std::mem::take(&mut self.is_shutdown)))
    }

    /// Begins one: numbers its root, whose other fields are the caller's.
    pub(in crate::ftl) fn begin(&mut self, counters: &FtlCounters) -> Root {
        debug_assert!(self.is_pending(), "a checkpoint begins that was not requested");
        self.units_then = counters.units_programmed();
        Root {
            generation: self.generation + 1,
            power_cycles: self.power_cycles,
            unsafe_shutdowns: self.unsafe_shutdowns,
            ..Root::default()
        }
    }

    /// Records that a root is in force.
    pub(in crate::ftl) fn written(&mut self, root: &Root) {
        debug_assert_eq!(self.generation + 1, root.generation, "one checkpoint is written at a time");
        (self.generation, self.is_clean) = (root.generation, root.is_clean);
    }

    /// Records the end of a turn, with what went wrong: without free space there is no checkpoint.
    pub(in crate::ftl) fn end(&mut self, turn: u64, is_shutdown: bool, failed: Option<MediaError>) {
        debug_assert!((self.done..=self.asked).contains(&turn), "checkpoints end in turn");
        self.done = turn;
        if is_shutdown {
            self.failed = failed;
        }
    }

    /// Whether a turn has ended.
    pub(in crate::ftl) fn has_ended(&self, turn: u64) -> bool {
        self.done >= turn
    }

    /// Why the last checkpoint of a shutdown was not written.
    pub(in crate::ftl) fn failure(&self) -> Option<MediaError> {
        self.failed
    }

    /// Whether a last root can be in force that nothing has come after.
    pub(in crate::ftl) fn is_as_written(&self) -> bool {
        (self.is_clean || self.power_cycles == 0) && !self.is_over
    }

    /// Whether no root may be written any more.
    pub(in crate::ftl) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Notes that a dirty translation page is dropped from DRAM without being written.
    pub(in crate::ftl) fn give_up(&mut self) {
        self.is_over = true;
    }

    /// Power cycles, and unsafe shutdowns among them.
    pub(in crate::ftl) fn power_cycles(&self) -> (u64, u64) {
        (self.power_cycles, self.unsafe_shutdowns)
    }
}
