//! What a trace is made of: one I/O after the other.

use serde::{Deserialize, Serialize};

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Dataset Management, deallocate.
    Trim,
}

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the first record, in picoseconds; never less than the record before.
    pub time_ps: u64,
    /// The device or disk number of the trace.
    pub device: u32,
    /// Where it begins, in bytes.
    pub offset_bytes: u64,
    /// How long it is, in bytes: at least one, and it ends below 2^63.
    pub bytes: u64,
    /// What is done.
    pub kind: Kind,
}
