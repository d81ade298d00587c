//! One I/O of a job.

use byteway_trace::Kind;

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// What it does.
    pub kind: Kind,
    /// First logical block, within the namespace.
    pub lba: u64,
    /// Logical blocks, at least 1 and at most [`JobSettings::transfer_blocks_max`](crate::JobSettings::transfer_blocks_max).
    pub blocks: u32,
    /// When it is due, in picoseconds since the job began, and under a rate before when it may not be issued; `None` in a
    /// closed loop without one.
    pub at: Option<u64>,
}
