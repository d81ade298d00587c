//! Place of execution of queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a job's queries are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryPlace {
    /// The drive executes the query and returns the result.
    #[default]
    Drive,
    /// The host executes the query, after reading its columns.
    Host,
    /// The place with the shorter estimated time; chosen once per query, before the measurement.
    Adaptive,
    /// Nowhere: the drive parses the query, binds it to its table, and reports whether it would execute it.
    /// This measures the transfer of the query to the drive.
    Check,
}

impl QueryPlace {
    /// Name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            QueryPlace::Drive => "drive",
            QueryPlace::Host => "host",
            QueryPlace::Adaptive => "adaptive",
            QueryPlace::Check => "check",
        }
    }
}
