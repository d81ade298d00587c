//! The result of an inspection: what `byteway trace inspect --format json` prints, one object for each trace, keys in the
//! order of the fields. Shares are fractions of 1; times are in nanoseconds, sizes and distances in bytes.

use serde::{Deserialize, Serialize};

use crate::Format;
use crate::Kind;

/// What is in a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inspection {
    /// Version of the program.
    pub byteway: String,
    /// Name of the file, without its folder.
    pub trace: String,
    /// Its format, as told or found.
    pub format: Format,
    /// What was taken for granted about the format: units of time and address, and which code is a write.
    pub assumption: String,
    /// The only device looked at, if one was chosen.
    pub device: Option<u32>,
    /// The inspection was interrupted: the figures cover the beginning of the trace.
    pub partial: bool,
    /// I/Os.
    pub records: u64,
    /// Bytes that they read, write and trim.
    pub bytes: u64,
    /// From the first record to the last.
    pub duration_ns: f64,
    /// Reads, writes, trims, in this order.
    pub kinds: Vec<KindRow>,
    /// How long they are: of all I/Os (`kind` is null), then of the kinds that there are.
    pub sizes: Vec<Sizes>,
    /// Where they are.
    pub addresses: Addresses,
    /// How they come; null without a record.
    pub arrivals: Option<Arrivals>,
    /// Devices that there are.
    pub device_count: u64,
    /// Those with the most I/Os, at most 20, the busiest first.
    pub devices: Vec<DeviceRow>,
    /// Distinct units accessed.
    pub footprint: Footprint,
    /// How soon a unit is written again; null if none is.
    pub updates: Option<Updates>,
    /// How soon a unit is accessed again; null if none is.
    pub reuse: Option<Reuse>,
    /// What a cache would miss; null if nothing is read or written.
    pub miss_ratio_curve: Option<Curve>,
    /// What a reader should know: skipped lines, bounds that were met.
    pub notes: Vec<String>,
}

/// The I/Os of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindRow {
    /// Which.
    pub kind: Kind,
    /// How many.
    pub records: u64,
    /// Of all I/Os.
    pub share: f64,
    /// Bytes read, written or trimmed.
    pub bytes: u64,
    /// Of the bytes of all I/Os.
    pub bytes_share: f64,
}

/// Lengths of I/Os.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// Of which kind; null: of all.
    pub kind: Option<Kind>,
    /// Mean.
    pub mean_bytes: f64,
    /// Shortest.
    pub min_bytes: u64,
    /// Half are not longer.
    pub p50_bytes: u64,
    /// 90 % are not longer.
    pub p90_bytes: u64,
    /// 99 % are not longer.
    pub p99_bytes: u64,
    /// Longest.
    pub max_bytes: u64,
    /// The most frequent sizes, at most eight, the most frequent first.
    pub frequent: Vec<SizeRow>,
}

/// A size that is frequent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// The size.
    pub bytes: u64,
    /// I/Os of this size.
    pub records: u64,
    /// Of the I/Os of the kind.
    pub share: f64,
}

/// Where I/Os are, over all devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Addresses {
    /// Lowest address.
    pub lowest_bytes: u64,
    /// Highest address, exclusive.
    pub end_bytes: u64,
    /// I/Os that begin where the one before on the same device ended.
    pub sequential_share: f64,
    /// I/Os that begin at a multiple of 4 KiB.
    pub begin_aligned_share: f64,
    /// I/Os that begin and end at one.
    pub aligned_share: f64,
}

/// How I/Os come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// I/Os a second over the whole; null if all come at once.
    pub mean_iops: Option<f64>,
    /// The busiest second; seconds are counted from the first record.
    pub peak_second: Peak,
    /// The busiest 100 ms, likewise.
    pub peak_100ms: Peak,
    /// Index of dispersion of the I/Os in each second, variance over mean: 1 if they come independently (Poisson), 0 if
    /// evenly, more the burstier. Null if there are not two seconds.
    pub dispersion_second: Option<f64>,
    /// The same of each 100 ms.
    pub dispersion_100ms: Option<f64>,
    /// Times between I/Os; null if there is only one.
    pub gaps: Option<Gaps>,
}

/// The busiest stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// I/Os in it.
    pub records: u64,
    /// As I/Os a second.
    pub iops: f64,
    /// When it begins; the first of several.
    pub at_ns: f64,
}

/// Times between one I/O and the next. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Mean.
    pub mean_ns: f64,
    /// Half are not longer.
    pub p50_ns: u64,
    /// 90 % are not longer.
    pub p90_ns: u64,
    /// 99 % are not longer.
    pub p99_ns: u64,
    /// 99.9 % are not longer.
    pub p99_9_ns: u64,
    /// Longest.
    pub max_ns: f64,
    /// I/Os that come at the same time as the one before.
    pub zero_share: f64,
    /// Variance over the mean's square: 1 if I/Os come independently (Poisson), 0 if evenly. Null if all gaps are zero.
    pub variation: Option<f64>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRow {
    /// Its number in the trace.
    pub device: u32,
    /// Its I/Os.
    pub records: u64,
    /// Of all I/Os.
    pub share: f64,
    /// Its bytes.
    pub bytes: u64,
    /// Reads, of its I/Os.
    pub read_share: f64,
    /// I/Os that begin where the one before ended.
    pub sequential_share: f64,
    /// Lowest address.
    pub lowest_bytes: u64,
    /// Highest address, exclusive.
    pub end_bytes: u64,
}

/// Distinct units that are accessed, a unit of one device being another than that of the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Length of a unit.
    pub unit_bytes: u64,
    /// Whether the numbers of units are exact; if not, they are estimated from a sample.
    pub exact: bool,
    /// Share of the units that were looked at, 1 if exact.
    pub sampling_rate: f64,
    /// Accesses to units, by reads and writes.
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

/// How much is written to other units, or to the same ones again, between two writes of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// Writes of units that were written before, of all writes of units.
    pub share: f64,
    /// 10 % of the updates come after no more than so many bytes.
    pub p10_bytes: u64,
    /// Half of them.
    pub p50_bytes: u64,
    /// 90 % of them.
    pub p90_bytes: u64,
    /// 99 % of them.
    pub p99_bytes: u64,
}

/// Reuse distances: how many distinct other units, in bytes, are accessed between two accesses of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reuse {
    /// Accesses that are the first of their unit, of all.
    pub first_touch_share: f64,
    /// 10 % of the other accesses have no longer distance.
    pub p10_bytes: u64,
    /// Half of them.
    pub p50_bytes: u64,
    /// 90 % of them.
    pub p90_bytes: u64,
    /// 99 % of them.
    pub p99_bytes: u64,
}

/// How the distances were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// From all units.
    Exact,
    /// From a sample of fixed size.
    Shards,
}

/// The miss ratio of a cache of units that replaces the least recently used one, by its size. Reads and writes alike look
/// for a unit in it and bring it in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// How it was found.
    pub method: Method,
    /// Length of a unit.
    pub unit_bytes: u64,
    /// The sample followed from it; null without a sample.
    pub seed: Option<u64>,
    /// Units looked at, at the end.
    pub sampled_units: u64,
    /// Of all units, 1 if all were.
    pub sampling_rate: f64,
    /// Cache sizes are not told apart below it: what one sampled unit stands for.
    pub resolution_units: u64,
    /// Whether the curve is exact.
    pub exact: bool,
    /// What is known of its error, in words.
    pub basis: String,
    /// By cache size, in rising order, up to the size in which everything fits.
    pub points: Vec<CurvePoint>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Cache size in units.
    pub units: u64,
    /// Cache size in bytes.
    pub bytes: u64,
    /// Accesses that miss, of all.
    pub miss_ratio: f64,
}

impl Inspection {
    /// As JSON: pretty-printed, a newline at the end.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("an inspection has only string keys");
        json.push('\n');
        json
    }
}
