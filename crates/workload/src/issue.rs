//! When I/Os are issued: closed and open loops, rate limits, pauses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::direction::ByKind;
use byteway_text::units::Picos;

/// Arrival process of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Poisson: independent arrivals with this mean rate.
    #[default]
    Poisson,
    /// Evenly spaced.
    Fixed,
}

/// The event that makes the next I/O due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// The completion of an earlier I/O.
    Closed,
    /// A rate, independent of completions.
    Open {
        /// I/Os per second, over all workers of the job.
        rate_iops: u64,
        /// Arrival process.
        arrival: Arrival,
    },
    /// The times of the trace.
    Trace,
}

/// Rate limit of a closed loop by kind of I/O, over all workers of the job; `None`: unlimited. As in fio, a
/// job that has fallen behind may catch up: the limit applies to the average since the job's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// I/Os per second.
    Iops(ByKind<Option<u64>>),
    /// Bytes per second.
    Bytes(ByKind<Option<u64>>),
}

/// Pauses of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// Time from the completion of the last I/O before the pause to the next I/O.
    pub time: Picos,
    /// I/Os between two pauses, at least 1.
    pub blocks: u32,
}
