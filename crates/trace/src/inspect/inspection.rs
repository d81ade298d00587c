//! The result of an inspection: the JSON object that `byteway trace inspect --format json` prints for each
//! trace, with keys in field order. Shares are fractions of 1; times are in nanoseconds, sizes and distances
//! in bytes.

use serde::{Deserialize, Serialize};

use crate::Kind;

/// Statistics of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Version of the program.
    pub byteway: String,
    /// Name of the file, without its directory.
    pub trace: String,
    /// Name of the format, as given or detected.
    pub format: String,
    /// Assumptions about the format: units of time and address, and the code of a write.
    pub assumption: String,
    /// The selected device; null: all.
    pub device: Option<u32>,
    /// Whether the inspection was interrupted: the figures then cover the beginning of the trace.
    pub partial: bool,
    /// Number of I/Os.
    pub records: u64,
    /// Bytes read, written and trimmed.
    pub bytes: u64,
    /// Time from the first record to the last.
    pub duration_ns: f64,
    /// Reads, writes, trims, in this order.
    pub kinds: Vec<KindRow>,
    /// Lengths: of all I/Os (`kind` is null), then of each kind that occurs.
    pub sizes: Vec<Sizes>,
    /// Addresses of the I/Os.
    pub addresses: Addresses,
    /// Arrival times; null without a record.
    pub arrivals: Option<Arrivals>,
    /// Number of devices.
    pub device_count: u64,
    /// The devices with the most I/Os, at most 20, in descending order.
    pub devices: Vec<DeviceRow>,
    /// Distinct units accessed.
    pub footprint: Footprint,
    /// Update distances; null if no unit is written twice.
    pub updates: Option<Updates>,
    /// Reuse distances; null if no unit is accessed twice.
    pub reuse: Option<Reuse>,
    /// Miss ratio by cache size; null if nothing is read or written.
    pub miss_ratio_curve: Option<Curve>,
    /// Notes on the figures: skipped lines, limits that were reached.
    pub notes: Vec<String>,
}

/// The I/Os of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindRow {
    /// The kind.
    pub kind: Kind,
    /// Number of I/Os.
    pub records: u64,
    /// Share of all I/Os.
    pub share: f64,
    /// Bytes read, written or trimmed.
    pub bytes: u64,
    /// Share of the bytes of all I/Os.
    pub bytes_share: f64,
}

/// Lengths of I/Os.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// The kind; null: all.
    pub kind: Option<Kind>,
    /// Mean length.
    pub mean_bytes: f64,
    /// Shortest length.
    pub min_bytes: u64,
    /// Median.
    pub p50_bytes: u64,
    /// 90th percentile.
    pub p90_bytes: u64,
    /// 99th percentile.
    pub p99_bytes: u64,
    /// Longest length.
    pub max_bytes: u64,
    /// The most frequent sizes, at most eight, in descending order.
    pub frequent: Vec<SizeRow>,
}

/// A frequent size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// The size in bytes.
    pub bytes: u64,
    /// Number of I/Os with this size.
    pub records: u64,
    /// Share of the I/Os of the kind.
    pub share: f64,
}

/// Addresses of I/Os, over all devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Addresses {
    /// Lowest address, in bytes.
    pub lowest_bytes: u64,
    /// Highest address in bytes, exclusive.
    pub end_bytes: u64,
    /// Share of I/Os that begin where the one before on the same device ended.
    pub sequential_share: f64,
    /// Share of I/Os that begin at a multiple of 4 KiB.
    pub begin_aligned_share: f64,
    /// Share of I/Os that begin and end at a multiple of 4 KiB.
    pub aligned_share: f64,
}

/// Arrival process of the I/Os.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Mean rate in I/Os per second; null if all arrive at once.
    pub mean_iops: Option<f64>,
    /// The busiest second, counted from the first record.
    pub peak_second: Peak,
    /// The busiest interval of 100 ms.
    pub peak_100ms: Peak,
    /// Index of dispersion (variance over mean) of the I/Os per second: 1 for a Poisson process, 0 for evenly
    /// spaced arrivals, larger for bursts. Null for less than two seconds.
    pub dispersion_second: Option<f64>,
    /// The same per 100 ms.
    pub dispersion_100ms: Option<f64>,
    /// Times between I/Os; null if there is only one I/O.
    pub gaps: Option<Gaps>,
}

/// The busiest interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// I/Os in the interval.
    pub records: u64,
    /// The same in I/Os per second.
    pub iops: f64,
    /// Start of the interval; of several, the first.
    pub at_ns: f64,
}

/// Times between consecutive I/Os. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Longest.
    pub max_ns: f64,
    /// Share of I/Os with the same time as the one before.
    pub zero_share: f64,
    /// Squared coefficient of variation (variance over squared mean): 1 for a Poisson process, 0 for evenly
    /// spaced arrivals. Null if all gaps are zero.
    pub variation: Option<f64>,
}

/// Statistics of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Device number in the trace.
    pub device: u32,
    /// Number of I/Os.
    pub records: u64,
    /// Share of all I/Os.
    pub share: f64,
    /// Bytes of its I/Os.
    pub bytes: u64,
    /// Share of reads in its I/Os.
    pub read_share: f64,
    /// Share of I/Os that begin where the one before ended.
    pub sequential_share: f64,
    /// Lowest address.
    pub lowest_bytes: u64,
    /// Highest address, exclusive.
    pub end_bytes: u64,
}

/// Distinct units accessed. Units of different devices are distinct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Length of a unit, in bytes.
    pub unit_bytes: u64,
    /// Whether the counts are exact; otherwise they are estimated from a sample.
    pub exact: bool,
    /// Sampled share of the units, 1 if exact.
    pub sampling_rate: f64,
    /// Accesses to units by reads and writes.
    pub accesses: u64,
    /// Units accessed.
    pub units: u64,
    /// Units read.
    pub read_units: u64,
    /// Units written.
    pub written_units: u64,
    /// Units read and written.
    pub both_units: u64,
}

/// Update distance: bytes written, to other units or to the same ones again, between two writes of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// Share of writes to units that were written before.
    pub share: f64,
    /// 10th percentile.
    pub p10_bytes: u64,
    /// Median.
    pub p50_bytes: u64,
    /// 90th percentile.
    pub p90_bytes: u64,
    /// 99th percentile.
    pub p99_bytes: u64,
}

/// Reuse distance: distinct other units accessed, in bytes, between two accesses of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reuse {
    /// Share of accesses that are the first to their unit.
    pub first_touch_share: f64,
    /// 10th percentile of the other accesses.
    pub p10_bytes: u64,
    /// Median.
    pub p50_bytes: u64,
    /// 90th percentile.
    pub p90_bytes: u64,
    /// 99th percentile.
    pub p99_bytes: u64,
}

/// Method by which the distances were obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// From all units.
    Exact,
    /// From a sample of fixed size.
    Shards,
}

/// Miss ratio of a cache of units with least-recently-used replacement, by its size. Reads and writes both
/// look units up and insert them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Method.
    pub method: Method,
    /// Length of a unit, in bytes.
    pub unit_bytes: u64,
    /// Seed of the sample; null without a sample.
    pub seed: Option<u64>,
    /// Sampled units, at the end.
    pub sampled_units: u64,
    /// Sampled share of all units, 1 if all.
    pub sampling_rate: f64,
    /// Resolution of cache sizes: the number of units that one sampled unit stands for.
    pub resolution_units: u64,
    /// Whether the curve is exact.
    pub exact: bool,
    /// Error of the estimate, human-readable.
    pub basis: String,
    /// Points in ascending order of cache size, up to the size in which everything fits.
    pub points: Vec<CurvePoint>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Cache size in units.
    pub units: u64,
    /// Cache size in bytes.
    pub bytes: u64,
    /// Share of accesses that miss.
    pub miss_ratio: f64,
}

impl Inspection {
    /// Formats as pretty-printed JSON with a final newline.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("an inspection has only string keys");
        json.push('\n');
        json
    }
}
