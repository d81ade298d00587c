//! One operation on pairs.

use serde::{Deserialize, Serialize};

use super::key::KeyBytes;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Stores a pair, whether there is one of its key or not.
    Store,
    /// Stores a pair of a key that had none.
    Insert,
    /// Retrieves a pair's value.
    Retrieve,
    /// Retrieves a pair's value, and stores another.
    Modify,
    /// Deletes a pair.
    Delete,
    /// Asks whether there is a pair.
    Exist,
    /// Goes over pairs in the order of their keys.
    Scan,
}

impl Verb {
    /// All, in the order in which they are reported.
    pub const ALL: [Verb; 7] =
        [Verb::Store, Verb::Insert, Verb::Retrieve, Verb::Modify, Verb::Delete, Verb::Exist, Verb::Scan];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Store => "store",
            Verb::Insert => "insert",
            Verb::Retrieve => "retrieve",
            Verb::Modify => "modify",
            Verb::Delete => "delete",
            Verb::Exist => "exist",
            Verb::Scan => "scan",
        }
    }
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvOp {
    /// What it does.
    pub verb: Verb,
    /// The pair's key; of a scan, the least.
    pub key: KeyBytes,
    /// Bytes of the value that is stored; of a trace's Retrieve, what the value had when the trace was recorded (0: nothing was
    /// found).
    pub bytes: u32,
    /// Pairs that a scan goes over, at most.
    pub count: u32,
    /// The pair's number; that of a new record must be given to [`Inserted::end`](super::Inserted::end).
    pub number: u64,
}
