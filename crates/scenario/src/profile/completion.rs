//! How a host learns of completions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the host learns of completions. Every figure of a result says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// A core watches the queue.
    Polled,
    /// The drive sends MSI-X.
    Interrupt,
}
