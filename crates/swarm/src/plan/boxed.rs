//! The box that the drives of a plan are in, if they are.

use serde::{Deserialize, Serialize};

/// A box whose drives lend each other processors: the plan's drive, and its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoxSpec {
    /// How often daemons and host look, microseconds.
    pub period_us: u64,
    /// Above so many percent a processor is busy.
    pub watermark: u32,
    /// Peers that a drive borrows of at once, at most.
    pub loans: u32,
    /// Entries of queue pairs.
    pub entries: u32,
    /// Queues have weights.
    #[serde(default)]
    pub weighted: bool,
    /// After how many microseconds a command that is not answered is aborted.
    pub timeout_us: u64,
    /// What translating a unit takes of a core, nanoseconds.
    pub translate_ns: u64,
    /// Drives lend each other DRAM, too, a translation page a segment.
    #[serde(default)]
    pub dram: bool,
    /// In which way it is broken on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<BoxCanarySpec>,
}

/// What is wrong on purpose with a box: [`byteway_assembly::jbof::Canary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BoxCanarySpec {
    /// A stale descriptor is believed.
    StaleDescriptor,
    /// The host unbinds without waiting for what is under way.
    UnbindWithoutDrain,
}
