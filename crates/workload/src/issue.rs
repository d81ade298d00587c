//! What makes I/Os due, and what holds them back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::direction::ByKind;
use byteway_console::units::Picos;

/// When I/Os that nobody waits for arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Independently of each other, at the rate in the mean.
    #[default]
    Poisson,
    /// Evenly.
    Fixed,
}

/// What makes the next I/O due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// The completion of one before it.
    Closed,
    /// Time.
    Open {
        /// I/Os a second, over all workers of the job.
        rate_iops: u64,
        /// How they are spaced.
        arrival: Arrival,
    },
    /// The times of the trace.
    Trace,
}

/// What a closed loop may not exceed, over all workers of a job, of each kind; `None` is no limit. A job that has fallen
/// behind may catch up, as fio's may: the limit holds from the job's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// I/Os a second.
    Iops(ByKind<Option<u64>>),
    /// Bytes a second.
    Bytes(ByKind<Option<u64>>),
}

/// A worker's pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// From the end of the last of them until the next is issued.
    pub time: Picos,
    /// I/Os between two pauses, at least 1.
    pub blocks: u32,
}
