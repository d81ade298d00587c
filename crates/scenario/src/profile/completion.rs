//! How a host detects completions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the host detects completions. Every result states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Completion {
    /// A core polls the queue.
    Polled,
    /// The drive sends MSI-X.
    Interrupt,
}
