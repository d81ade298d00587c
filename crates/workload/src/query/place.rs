//! Who executes queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who executes a job's queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryPlace {
    /// The drive, which is sent the query and gives its result.
    #[default]
    Drive,
    /// The host, which reads the columns that the query needs.
    Host,
    /// The one that an estimate says takes less time; decided for each query once, before anything is measured.
    Adaptive,
    /// Neither: the drive takes the query, holds it against its table, and says whether it would execute it. What that takes is the way of
    /// the query to the drive.
    Check,
}

impl QueryPlace {
    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            QueryPlace::Drive => "drive",
            QueryPlace::Host => "host",
            QueryPlace::Adaptive => "adaptive",
            QueryPlace::Check => "check",
        }
    }
}
