//! The JBOF of a plan.

use serde::{Deserialize, Serialize};

/// A JBOF whose drives, the plan's drive and its neighbors, lend each other processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JbofSpec {
    /// Period of daemons and host, in microseconds.
    pub period_us: u64,
    /// Utilization in percent above which a processor counts as busy.
    pub watermark: u32,
    /// Upper limit of the peers from which a drive borrows at the same time.
    pub loans: u32,
    /// Entries of each queue.
    pub entries: u32,
    /// Whether queues have weights.
    #[serde(default)]
    pub weighted: bool,
    /// Timeout in microseconds after which a command is aborted.
    pub timeout_us: u64,
    /// Core time for the translation of a unit, in nanoseconds.
    pub translate_ns: u64,
    /// Host processor time for a submission, in nanoseconds. During it the command is in transit and no drive knows of it.
    #[serde(default)]
    pub submit_ns: u64,
    /// Whether drives also lend each other DRAM, a translation page per segment.
    #[serde(default)]
    pub dram: bool,
}
