//! A record: one I/O of a trace.

use serde::{Deserialize, Serialize};

/// The operation of an I/O.
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
    /// Time since the first record in picoseconds; not less than that of the record before.
    pub time_ps: u64,
    /// The device or disk number of the trace.
    pub device: u32,
    /// Start address in bytes.
    pub offset_bytes: u64,
    /// Length in bytes: at least one; the end is below 2^63.
    pub bytes: u64,
    /// The operation.
    pub kind: Kind,
}
