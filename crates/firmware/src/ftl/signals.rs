//! The signals between the tasks of a translation layer.

use byteway_clock::{Clock, Notify};

/// Notifications between tasks.
pub(super) struct Signals {
    /// Buffer slots were freed: programmed, or dropped while they waited.
    pub(super) settled: Notify,
    /// Housekeeping is due.
    pub(super) housekeeping: Notify,
    /// Parts of units may need merging.
    pub(super) mergers: Notify,
    /// A journal page may need writing.
    pub(super) journal: Notify,
    /// A checkpoint is requested.
    pub(super) checkpoint: Notify,
    /// Superblocks of a purge were erased, or never will be.
    pub(super) purged: Notify,
    /// The drive's health may have become worse.
    pub(super) health_changed: Notify,
    /// A die started garbage collection because few superblocks are free, outside any window.
    pub(super) collection_begun: Notify,
}

impl Signals {
    pub(super) fn new(clock: &Clock) -> Self {
        Signals {
            settled: Notify::new(clock),
            housekeeping: Notify::new(clock),
            mergers: Notify::new(clock),
            journal: Notify::new(clock),
            checkpoint: Notify::new(clock),
            purged: Notify::new(clock),
            health_changed: Notify::new(clock),
            collection_begun: Notify::new(clock),
        }
    }
}

/// Notifications of reading ahead.
pub(super) struct AheadSignals {
    /// Units are due.
    pub(super) due: Notify,
    /// Units have come, or will not.
    pub(super) came: Notify,
}

impl AheadSignals {
    pub(super) fn new(clock: &Clock) -> Self {
        AheadSignals { due: Notify::new(clock), came: Notify::new(clock) }
    }
}
