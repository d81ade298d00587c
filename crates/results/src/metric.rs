//! The figures by which runs are compared: their names, units, and how they are shown.

use serde::Serialize;

use byteway_text::table::{Quantity, bytes, grouped, number, percent, rate, time};

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
    /// Price of a drive in a JBOF, in dollars.
    DriveDollars,
    /// I/Os per second per dollar of all drives of a JBOF.
    IopsPerDollar,
    /// Energy of the drives of a JBOF per I/O, in microjoules.
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
            Metric::IopsPerDollar => "All jobs together, divided by the cost of all drives of the JBOF",
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

    /// A mean with the half width of its interval, in a sentence; exact means are without.
    pub fn show_mean(self, mean: f64, half_width: f64) -> String {
        let (shown, half) = (self.show(mean), self.show(half_width));
        match half.rfind('0') {
            _ if half_width == 0.0 => shown,
            // Never ± 0 for what has a width.
            Some(last) if !half.contains(|c: char| ('1'..='9').contains(&c)) => {
                format!("{shown} ± <{}1{}", &half[..last], &half[last + 1..])
            }
            _ => format!("{shown} ± {half}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // "± 0" would be taken for an exact mean.
    #[test]
    fn a_mean_is_shown_with_its_interval_unless_it_is_exact() {
        assert_eq!(Metric::Iops.show_mean(51_200.0, 310.0), "51,200 ± 310");
        assert_eq!(Metric::Iops.show_mean(51_200.0, 0.0), "51,200");
        assert_eq!(Metric::Iops.show_mean(5.0, 0.2), "5 ± <1");
        assert_eq!(Metric::WireBytesPerIo.show_mean(512.0, 0.03), "512 B ± <0.1 B");
        assert_eq!(Metric::MapMissRatio.show_mean(0.5, 0.0001), "50.0 % ± <0.1 %");
    }
}
