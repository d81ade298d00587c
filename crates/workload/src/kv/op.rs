//! A key-value operation.

use serde::{Deserialize, Serialize};

use super::key::KeyBytes;

/// The verb of a key-value operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Stores a key-value pair, whether its key exists or not.
    Store,
    /// Stores a key-value pair with a new key.
    Insert,
    /// Retrieves the value of a key.
    Retrieve,
    /// Retrieves the value of a key, and stores another.
    Modify,
    /// Deletes a key-value pair.
    Delete,
    /// Checks whether a key exists.
    Exist,
    /// Reads key-value pairs in key order.
    Scan,
}

impl Verb {
    /// All verbs, in the order of the report.
    pub const ALL: [Verb; 7] =
        [Verb::Store, Verb::Insert, Verb::Retrieve, Verb::Modify, Verb::Delete, Verb::Exist, Verb::Scan];

    /// Name in scenarios and reports.
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
    /// The verb.
    pub verb: Verb,
    /// The key; for a scan, the first key.
    pub key: KeyBytes,
    /// Length of the value to store, in bytes; for a Retrieve in a trace, the length of the value when the
    /// trace was recorded (0: not found).
    pub bytes: u32,
    /// Maximum number of key-value pairs in a scan.
    pub count: u32,
    /// Number of the key-value pair. That of a new record must be passed to
    /// [`Inserted::end`](super::Inserted::end).
    pub number: u64,
}
