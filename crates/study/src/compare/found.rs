//! What a comparison keeps of a run.

use byteway_measure::results::Curve;
use byteway_measure::summary::Summary;
use serde::{Deserialize, Serialize};

/// What a comparison keeps of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// As `byteway run` has it.
    pub summary: Summary,
    /// How the latencies are distributed.
    pub curves: Vec<Curve>,
}
