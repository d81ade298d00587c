//! Figures of a run by which runs are compared, and differences between them.

use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::summary::{KindSummary, Latency, Summary};
use byteway_text::number::ratio;
use byteway_text::table::{Quantity, bytes, grouped, number, percent, rate, time};
use byteway_workload::Kind;

/// A figure of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// I/Os per second of all jobs.
    Iops,
    /// Bytes per second of all jobs.
    BytesPerSecond,
    /// Mean latency of all I/Os, in nanoseconds.
    MeanNs,
    /// Median latency of all I/Os.
    P50Ns,
    /// 99th percentile of the latency.
    P99Ns,
    /// 99.9th percentile of the latency.
    #[serde(rename = "p99_9_ns")]
    P999Ns,
    /// 99.9th percentile of the latency of reads, where there are other I/Os as well.
    #[serde(rename = "read_p99_9_ns")]
    ReadP999Ns,
    /// Bytes on the link per I/O, both directions, with headers, CRC and framing.
    WireBytesPerIo,
    /// The same for payload only, as a performance counter counts it.
    PayloadBytesPerIo,
    /// Bytes programmed per byte that the host wrote.
    WriteAmplification,
    /// Share of map lookups that miss in DRAM, where DRAM holds a part of the map.
    MapMissRatio,
    /// (Highest - lowest) / mean erase count, with wear leveling.
    WearSpread,
    /// Retries per read, where reads may be retried.
    RetriesPerRead,
    /// Flash pages programmed for the value log and its records, on a key-value drive.
    LogPages,
    /// Flash pages programmed for the index and its manifest, on a key-value drive.
    IndexPages,
    /// Processor time of the host per I/O, where transfers are measured.
    HostNsPerIo,
    /// Processor time of the drive per I/O, where transfers are measured.
    DeviceNsPerIo,
    /// Processor time of the target per I/O, for drives behind one.
    TargetNsPerIo,
    /// Price of a drive in a box, in dollars.
    DriveDollars,
    /// I/Os per second per dollar of all drives of a box.
    IopsPerDollar,
    /// Energy of the drives of a box per I/O, in microjoules.
    MicrojoulesPerIo,
}

impl Metric {
    /// All figures, in the order of tables.
    pub const ALL: [Metric; 21] = [
        Metric::Iops,
        Metric::BytesPerSecond,
        Metric::MeanNs,
        Metric::P50Ns,
        Metric::P99Ns,
        Metric::P999Ns,
        Metric::ReadP999Ns,
        Metric::WireBytesPerIo,
        Metric::PayloadBytesPerIo,
        Metric::WriteAmplification,
        Metric::MapMissRatio,
        Metric::WearSpread,
        Metric::RetriesPerRead,
        Metric::LogPages,
        Metric::IndexPages,
        Metric::HostNsPerIo,
        Metric::DeviceNsPerIo,
        Metric::TargetNsPerIo,
        Metric::DriveDollars,
        Metric::IopsPerDollar,
        Metric::MicrojoulesPerIo,
    ];

    /// Key in JSON and CSV.
    pub fn key(self) -> &'static str {
        match self {
            Metric::Iops => "iops",
            Metric::BytesPerSecond => "bytes_per_second",
            Metric::MeanNs => "mean_ns",
            Metric::P50Ns => "p50_ns",
            Metric::P99Ns => "p99_ns",
            Metric::P999Ns => "p99_9_ns",
            Metric::ReadP999Ns => "read_p99_9_ns",
            Metric::WireBytesPerIo => "wire_bytes_per_io",
            Metric::PayloadBytesPerIo => "payload_bytes_per_io",
            Metric::WriteAmplification => "write_amplification",
            Metric::MapMissRatio => "map_miss_ratio",
            Metric::WearSpread => "wear_spread",
            Metric::RetriesPerRead => "retries_per_read",
            Metric::LogPages => "log_pages",
            Metric::IndexPages => "index_pages",
            Metric::HostNsPerIo => "host_ns_per_io",
            Metric::DeviceNsPerIo => "device_ns_per_io",
            Metric::TargetNsPerIo => "target_ns_per_io",
            Metric::DriveDollars => "drive_dollars",
            Metric::IopsPerDollar => "iops_per_dollar",
            Metric::MicrojoulesPerIo => "microjoules_per_io",
        }
    }

    /// Heading of its column.
    pub fn header(self) -> &'static str {
        match self {
            Metric::Iops => "IOPS",
            Metric::BytesPerSecond => "throughput",
            Metric::MeanNs => "mean",
            Metric::P50Ns => "p50",
            Metric::P99Ns => "p99",
            Metric::P999Ns => "p99.9",
            Metric::ReadP999Ns => "read p99.9",
            Metric::WireBytesPerIo => "wire / I/O",
            Metric::PayloadBytesPerIo => "payload / I/O",
            Metric::WriteAmplification => "WA",
            Metric::MapMissRatio => "map misses",
            Metric::WearSpread => "wear spread",
            Metric::RetriesPerRead => "retries",
            Metric::LogPages => "log pages",
            Metric::IndexPages => "index pages",
            Metric::HostNsPerIo => "host CPU",
            Metric::DeviceNsPerIo => "drive CPU",
            Metric::TargetNsPerIo => "target CPU",
            Metric::DriveDollars => "dollars",
            Metric::IopsPerDollar => "IOPS / dollar",
            Metric::MicrojoulesPerIo => "uJ / I/O",
        }
    }

    /// Name in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Metric::Iops => "IOPS",
            Metric::BytesPerSecond => "bytes per second",
            Metric::MeanNs => "mean latency",
            Metric::P50Ns => "median latency",
            Metric::P99Ns => "p99 latency",
            Metric::P999Ns => "p99.9 latency",
            Metric::ReadP999Ns => "p99.9 latency of reads",
            Metric::WireBytesPerIo => "wire bytes per I/O",
            Metric::PayloadBytesPerIo => "payload bytes per I/O",
            Metric::WriteAmplification => "write amplification",
            Metric::MapMissRatio => "map misses per lookup",
            Metric::WearSpread => "spread of wear over its mean",
            Metric::RetriesPerRead => "retries per read",
            Metric::LogPages => "pages of the value log",
            Metric::IndexPages => "pages of the index",
            Metric::HostNsPerIo => "host processor time per I/O",
            Metric::DeviceNsPerIo => "drive processor time per I/O",
            Metric::TargetNsPerIo => "target processor time per I/O",
            Metric::DriveDollars => "dollars per drive",
            Metric::IopsPerDollar => "IOPS per dollar",
            Metric::MicrojoulesPerIo => "energy per I/O",
        }
    }

    /// The figure with this key, or with its heading in tables: `p99_ns` is also `p99`, and `write_amplification` is `WA`.
    pub fn named(name: &str) -> Option<Metric> {
        Metric::ALL
            .into_iter()
            .find(|metric| metric.key() == name || metric.header().eq_ignore_ascii_case(name))
    }

    /// Quantity of the figure; `None` for counts.
    pub fn quantity(self) -> Option<Quantity> {
        match self {
            Metric::Iops | Metric::LogPages | Metric::IndexPages | Metric::IopsPerDollar => None,
            Metric::DriveDollars | Metric::MicrojoulesPerIo => Some(Quantity::Number),
            Metric::BytesPerSecond => Some(Quantity::Rate),
            Metric::MeanNs
            | Metric::P50Ns
            | Metric::P99Ns
            | Metric::P999Ns
            | Metric::ReadP999Ns
            | Metric::HostNsPerIo
            | Metric::DeviceNsPerIo
            | Metric::TargetNsPerIo => Some(Quantity::Time),
            Metric::WireBytesPerIo | Metric::PayloadBytesPerIo => Some(Quantity::Bytes),
            Metric::WriteAmplification | Metric::RetriesPerRead => Some(Quantity::Number),
            Metric::MapMissRatio | Metric::WearSpread => Some(Quantity::Share),
        }
    }

    /// Rank in tables: if not all fit, those with the highest rank are omitted first.
    pub fn rank(self) -> usize {
        match self {
            Metric::MeanNs => 1,
            Metric::P99Ns => 2,
            Metric::Iops => 3,
            // The purpose of packing.
            Metric::ReadP999Ns | Metric::LogPages | Metric::TargetNsPerIo | Metric::DriveDollars => 4,
            Metric::WriteAmplification
            | Metric::MapMissRatio
            | Metric::WearSpread
            | Metric::RetriesPerRead
            | Metric::IopsPerDollar
            | Metric::IndexPages => 5,
            Metric::WireBytesPerIo => 6,
            Metric::HostNsPerIo | Metric::DeviceNsPerIo => 8,
            Metric::P999Ns => 9,
            Metric::BytesPerSecond => 10,
            Metric::P50Ns => 11,
            Metric::MicrojoulesPerIo => 7,
            Metric::PayloadBytesPerIo => 12,
        }
    }

    /// Description below a chart.
    pub fn meaning(self) -> &'static str {
        match self {
            Metric::Iops | Metric::BytesPerSecond => "All jobs together",
            Metric::MeanNs => "Mean of all I/Os of all jobs, from submission to completion",
            Metric::P50Ns => "The median of all I/Os",
            Metric::P99Ns => "1 % of all I/Os took longer",
            Metric::P999Ns => "0.1 % of all I/Os took longer",
            Metric::ReadP999Ns => "0.1 % of all reads took longer",
            Metric::WireBytesPerIo => "Both directions of the link, with headers, CRC and framing",
            Metric::PayloadBytesPerIo => "Both directions of the link, as a performance counter sees it",
            Metric::WriteAmplification => "Bytes programmed into flash per byte written by the host",
            Metric::MapMissRatio => "Share of map lookups whose page was not in DRAM",
            Metric::WearSpread => {
                "Difference of erase counts between the most and least worn block, relative to the mean"
            }
            Metric::RetriesPerRead => "Mean number of retries per flash read",
            Metric::LogPages => "Pages of flash programmed for the value log and its records",
            Metric::IndexPages => "Pages of flash programmed for the index and its manifest",
            Metric::HostNsPerIo | Metric::DeviceNsPerIo => "Work per I/O, without polling for completions",
            Metric::DriveDollars => "Flash, DRAM, controller and the rest, at the scenario's prices",
            Metric::IopsPerDollar => "All jobs together, divided by the cost of all drives of the enclosure",
            Metric::MicrojoulesPerIo => {
                "Energy of the drives' flash, processors, links and DRAM, without the host"
            }
            Metric::TargetNsPerIo => "Work of the target's processors per I/O, including interrupts",
        }
    }

    /// Whether larger values are better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Metric::Iops | Metric::BytesPerSecond | Metric::IopsPerDollar)
    }

    /// A value with its unit, in a sentence.
    pub fn show(self, value: f64) -> String {
        match self.quantity() {
            None => grouped(libm::round(value) as u64),
            Some(Quantity::Rate) => rate(value),
            Some(Quantity::Time) => time(value),
            Some(Quantity::Bytes | Quantity::BinaryBytes) => bytes(value),
            Some(Quantity::Share) => percent(value),
            Some(Quantity::Number) => number(value),
        }
    }
}

/// All figures of a point; `None` where there is none, such as write amplification without writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Figures([Option<f64>; Metric::ALL.len()]);

impl Figures {
    /// The figures of a run.
    pub fn of(found: &RunResult) -> Figures {
        let summary = &found.summary;
        let ios = u128::from(summary.ios);
        let wire: u128 = summary.link.iter().map(|row| u128::from(row.wire_bytes)).sum();
        let payload: u128 = summary.link.iter().map(|row| u128::from(row.payload_bytes)).sum();
        let per_io = |bytes: u128| (!summary.link.is_empty()).then(|| ratio(bytes, ios));
        let at = |share: f64, of: fn(&Latency) -> u64| percentile(found, share, of, |_| true);
        let upkeep = summary.upkeep.as_ref();
        let store = summary.kv.as_ref().and_then(|kv| kv.store.as_ref());
        Figures(Metric::ALL.map(|metric| match metric {
            Metric::Iops => Some(summary.iops),
            // What moves for a query is its cost, not its use.
            Metric::BytesPerSecond => summary.queries.is_empty().then_some(summary.bytes_per_second),
            Metric::MeanNs => mean(summary),
            Metric::P50Ns => at(0.5, |latency| latency.p50_ns),
            Metric::P99Ns => at(0.99, |latency| latency.p99_ns),
            Metric::P999Ns => at(0.999, |latency| latency.p99_9_ns),
            Metric::ReadP999Ns if streams(summary).all(|(_, kind, _)| kind == Kind::Read) => None,
            Metric::ReadP999Ns => {
                percentile(found, 0.999, |latency| latency.p99_9_ns, |kind| kind == Kind::Read)
            }
            Metric::WireBytesPerIo => per_io(wire),
            Metric::PayloadBytesPerIo => per_io(payload),
            Metric::WriteAmplification => summary.write_amplification,
            Metric::MapMissRatio => upkeep.and_then(|upkeep| Some(upkeep.map_cache?.miss_ratio)),
            Metric::WearSpread => upkeep.and_then(|upkeep| Some(upkeep.wear?.spread)),
            Metric::RetriesPerRead => upkeep.and_then(|upkeep| Some(upkeep.retry.as_ref()?.retries_per_read)),
            Metric::LogPages => store.map(|store| store.log_pages_all() as f64),
            Metric::IndexPages => store.map(|store| store.index_pages() as f64),
            Metric::HostNsPerIo => summary.transfer.as_ref().and_then(|transfer| transfer.host_ns_per_io),
            Metric::DeviceNsPerIo => summary.transfer.as_ref().and_then(|transfer| transfer.device_ns_per_io),
            Metric::TargetNsPerIo => summary.network.as_ref().map(|network| network.target_ns_per_io),
            Metric::DriveDollars => summary.jbof.as_ref().map(|jbof| jbof.dollars),
            Metric::IopsPerDollar => summary.jbof.as_ref().map(|jbof| jbof.iops_per_dollar),
            Metric::MicrojoulesPerIo => {
                let jbof = summary.jbof.as_ref().filter(|_| summary.ios > 0);
                jbof.map(|jbof| jbof.energy.joules() * 1e6 / summary.ios as f64)
            }
        }))
    }

    /// Figures whose values a function gives.
    pub fn from_fn(of: impl Fn(Metric) -> Option<f64>) -> Figures {
        Figures(Metric::ALL.map(of))
    }

    /// The value of a figure.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.0[metric as usize]
    }

    /// The ratio to another point's figure.
    pub fn ratio(&self, base: &Figures, metric: Metric) -> Option<f64> {
        let (own, base) = (self.get(metric)?, base.get(metric)?);
        (base != 0.0).then(|| own / base)
    }
}

/// Payloads and results that did not use the configured method.
pub fn fallen(summary: &Summary) -> u64 {
    summary.transfer.as_ref().map_or(0, |transfer| transfer.fallbacks + transfer.result_fallbacks)
}

/// Whether the figures are those of another method: most payloads used the fallback.
pub fn is_fallback(summary: &Summary) -> bool {
    fallen(summary).saturating_mul(2) > summary.ios
}

/// The figures by job and kind of I/O.
pub fn streams(summary: &Summary) -> impl Iterator<Item = (&str, Kind, &KindSummary)> {
    summary.jobs.iter().flat_map(|job| {
        [(Kind::Read, &job.read), (Kind::Write, &job.write), (Kind::Trim, &job.trim)]
            .into_iter()
            .filter_map(|(kind, found)| Some((job.name.as_str(), kind, found.as_ref()?)))
    })
}

/// Mean latency of all I/Os.
fn mean(summary: &Summary) -> Option<f64> {
    let (mut ios, mut sum, mut only) = (0u64, 0.0, None);
    for (_, _, found) in streams(summary) {
        only = if ios == 0 { Some(found.latency.mean_ns) } else { None };
        ios += found.ios;
        sum += found.latency.mean_ns * found.ios as f64;
    }
    only.or_else(|| (ios > 0).then(|| sum / ios as f64))
}

/// A percentile of all I/Os of some kinds. Of one kind it is the summary's. Several kinds are merged by their
/// curves; without curves, the slowest one counts.
fn percentile(
    found: &RunResult,
    share: f64,
    of: fn(&Latency) -> u64,
    counts: impl Fn(Kind) -> bool,
) -> Option<f64> {
    let all: Vec<_> = streams(&found.summary).filter(|(_, kind, _)| counts(*kind)).collect();
    let slowest = all.iter().map(|(_, _, stream)| of(&stream.latency)).max()? as f64;
    if all.len() == 1 {
        return Some(slowest);
    }
    let mut steps = Vec::new();
    for (index, (job, kind, _)) in all.iter().enumerate() {
        let curve = found.curves.iter().find(|curve| curve.job == *job && curve.kind == *kind);
        let Some(curve) = curve else { return Some(slowest) };
        steps.extend(curve.points.iter().map(|(latency, share)| (*latency, index, *share)));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted = share * all.iter().map(|(.., stream)| stream.ios).sum::<u64>() as f64;
    let mut reached = vec![0.0; all.len()];
    for (latency, index, share) in steps {
        reached[index] = share * all[index].2.ios as f64;
        if reached.iter().sum::<f64>() >= wanted {
            return Some(latency);
        }
    }
    Some(slowest)
}

/// Relative difference below which two figures are equal.
pub const EQUAL: f64 = 0.01;

/// Whether two figures are too close for a claim.
pub fn equal(a: f64, b: f64) -> bool {
    (a - b).abs() < EQUAL * a.abs().max(b.abs()) || a == b
}

/// A difference in words: `=` below 1 %, percent up to a factor of 2, then a multiple or a fraction.
pub fn difference(ratio: f64) -> String {
    let factor = |factor: f64| match factor {
        factor if factor >= 99.95 => grouped(libm::round(factor) as u64),
        factor if factor >= 9.995 => format!("{factor:.1}"),
        factor => format!("{factor:.2}"),
    };
    match ratio {
        ratio if equal(ratio, 1.0) => "=".to_owned(),
        ratio if ratio > 0.5 && ratio < 2.0 => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        ratio if ratio > 1.0 => format!("x{}", factor(ratio)),
        ratio if ratio > 0.0 => format!("1/{}", factor(1.0 / ratio)),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // "+900 %" is hard to read, and "-90 %" and "-99 %" look alike.
    #[test]
    fn differences_read_in_their_direction() {
        for (ratio, text) in [
            (1.0, "="),
            (1.0099, "="),
            (1.02, "+2.0 %"),
            (0.9, "-10.0 %"),
            (1.999, "+99.9 %"),
            (2.0, "x2.00"),
            (9.5, "x9.50"),
            (21.56, "x21.6"),
            (250.4, "x250"),
            (31_234.0, "x31,234"),
            (0.5, "1/2.00"),
            (0.25, "1/4.00"),
            (0.0648, "1/15.4"),
            (0.00001, "1/100,000"),
            (0.0, "none"),
        ] {
            assert_eq!(difference(ratio), text);
        }
        assert!(equal(100.0, 100.9) && !equal(100.0, 101.5) && equal(0.0, 0.0));
    }
}
