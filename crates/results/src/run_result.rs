//! The result of a run as a comparison stores it.

use crate::results::Curve;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// The result of a run in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The summary, as in `byteway run`.
    pub summary: Summary,
    /// The latency distributions.
    pub curves: Vec<Curve>,
}
