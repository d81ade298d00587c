//! Rows that a summary has of several things: what crossed a link or a network, and how busy resources were.

use byteway_console::number::ratio;
use serde::{Deserialize, Serialize};

/// What crossed the link for one purpose in one direction, in both ledgers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// Why: doorbell, sqe-fetch, data, ...
    pub purpose: String,
    /// `to device` or `to host`.
    pub direction: String,
    /// How often.
    pub crossings: u64,
    /// Payload only, as a performance counter sees it.
    pub payload_bytes: u64,
    /// With headers, CRC and framing, as the wire sees it.
    pub wire_bytes: u64,
}

/// How busy several resources of a kind were, as fractions of the time covered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// `dies`, `channels`, `cores`, ...
    pub resource: String,
    /// How many there are.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// The least busy one.
    pub min: f64,
    /// The busiest one.
    pub max: f64,
}

impl Utilisation {
    /// From the busy time of each, and the time in which it was that, picoseconds.
    pub fn of(resource: &str, each: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let (mut count, mut sum, mut elapsed_sum) = (0u64, 0u128, 0u128);
        let (mut min, mut max) = (f64::INFINITY, 0.0f64);
        for (busy_ps, elapsed_ps) in each {
            let share = ratio(busy_ps.into(), elapsed_ps.into());
            count += 1;
            sum += u128::from(busy_ps);
            elapsed_sum += u128::from(elapsed_ps);
            min = min.min(share);
            max = max.max(share);
        }
        Utilisation {
            resource: resource.to_owned(),
            count,
            mean: ratio(sum, elapsed_sum),
            min: if count == 0 { 0.0 } else { min },
            max,
        }
    }
}
