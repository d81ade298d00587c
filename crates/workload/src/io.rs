//! One I/O of a job.

use byteway_trace::Kind;

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The operation.
    pub kind: Kind,
    /// First logical block, within the namespace.
    pub lba: u64,
    /// Logical blocks, at least 1 and at most [`JobSettings::transfer_blocks_max`](crate::JobSettings::transfer_blocks_max).
    pub blocks: u32,
    /// Due time in picoseconds since the job began; under a rate limit, the earliest time of issue. `None` in
    /// a closed loop without a limit.
    pub at: Option<u64>,
}
