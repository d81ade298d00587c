//! Priority classes of queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Class of a job's submission queues under weighted round robin (NVMe Base 2.1, 3.4.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Strictly before all others.
    Urgent,
    /// With the high weight.
    High,
    /// With the medium weight.
    #[default]
    Medium,
    /// With the low weight.
    Low,
}
