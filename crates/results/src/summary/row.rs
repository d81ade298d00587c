//! Rows common to several parts of a summary: traffic of a link or network, and utilisation.

use byteway_text::number::ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traffic on the link for one purpose in one direction, in both ledgers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRow {
    /// The purpose: doorbell, sqe-fetch, data, ...
    pub purpose: String,
    /// `to device` or `to host`.
    pub direction: String,
    /// Number of packets.
    pub crossings: u64,
    /// Payload bytes only, as a performance counter counts them.
    pub payload_bytes: u64,
    /// Bytes with headers, CRC and framing, as on the wire.
    pub wire_bytes: u64,
}

/// Utilisation of several resources of a kind, as fractions of the covered time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// `dies`, `channels`, `cores`, ...
    pub resource: String,
    /// Number of resources.
    pub count: u64,
    /// Mean utilisation.
    pub mean: f64,
    /// Lowest utilisation.
    pub min: f64,
    /// Highest utilisation.
    pub max: f64,
}

impl Utilisation {
    /// A row from the busy time and the covered time of each resource, in picoseconds.
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
