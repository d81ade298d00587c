//! Throughput and latency of one kind of I/O, and their tables.

use byteway_text::table::{Cell, Column, Quantity, TextTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reads, writes or trims of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindSummary {
    /// I/Os completed.
    pub ios: u64,
    /// Bytes read, written or trimmed.
    pub bytes: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// From submission (in an open loop: from the due time) to completion.
    pub latency: Latency,
}

/// Latency in nanoseconds. Mean, minimum and maximum are exact, percentiles within 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Minimum.
    pub min_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Maximum.
    pub max_ns: f64,
}

/// A rate per second, rounded to an integer.
pub fn per_second(rate: f64) -> u64 {
    libm::round(rate) as u64
}

/// A table of latencies, all in one unit, behind text columns.
pub fn latency_table<const N: usize>(words: [&str; N]) -> TextTable {
    let percentile = |heading: &str, rank: usize| Column::of(heading, Quantity::Time).same_unit().rank(rank);
    let latencies = [
        Column::of("mean", Quantity::Time),
        percentile("p50", 0),
        percentile("p90", 2),
        percentile("p95", 3),
        percentile("p99", 0),
        percentile("p99.9", 0),
        percentile("p99.99", 1),
        percentile("max", 0),
    ];
    TextTable::new(words.into_iter().map(Column::text).chain(latencies))
}

/// The cells of a row of [`latency_table`] behind the text columns.
pub fn latency_cells(latency: &Latency) -> [Cell; 8] {
    [
        latency.mean_ns,
        latency.p50_ns as f64,
        latency.p90_ns as f64,
        latency.p95_ns as f64,
        latency.p99_ns as f64,
        latency.p99_9_ns as f64,
        latency.p99_99_ns as f64,
        latency.max_ns,
    ]
    .map(Cell::from)
}
