//! Figures of a run by which runs are compared, and differences between them.

use serde::{Deserialize, Serialize};

use crate::RunResult;
use crate::interval::{Interval, t_quantile};
use crate::replicates::MeanRow;
use crate::summary::{KindSummary, Latency, Summary};
use byteway_text::number::ratio;
use byteway_text::table::grouped;
use byteway_workload::Kind;

pub use crate::metric::Metric;

/// All figures of a point; `None` where there is none, such as write amplification without writes. Those of several replicates are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Figures {
    values: [Option<f64>; Metric::ALL.len()],
    /// Half widths of the means' 95 % intervals; `None` in a single run.
    half_widths: [Option<f64>; Metric::ALL.len()],
    /// Runs that the means are over; 0 is one, too.
    replicates: u16,
}

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
        Figures::from_fn(|metric| match metric {
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
        })
    }

    /// Figures whose values a function gives.
    pub fn from_fn(of: impl Fn(Metric) -> Option<f64>) -> Figures {
        Figures { values: Metric::ALL.map(of), ..Figures::default() }
    }

    /// The means of replicates, with their intervals; a single one's own figures. A figure that one of them lacks has no mean: it would be
    /// one over fewer.
    pub fn mean_of(replicates: &[Figures]) -> Figures {
        if let &[one] = replicates {
            return one;
        }
        let Some(degrees) = replicates.len().checked_sub(1) else { return Figures::default() };
        let t = t_quantile(degrees);
        let intervals = Metric::ALL.map(|metric| {
            let values =
                replicates.iter().map(|figures| figures.get(metric)).collect::<Option<Vec<f64>>>()?;
            Interval::of(&values, t)
        });
        Figures {
            values: intervals.map(|interval| Some(interval?.mean)),
            half_widths: intervals.map(|interval| Some(interval?.half_width)),
            replicates: u16::try_from(replicates.len()).unwrap_or(u16::MAX),
        }
    }

    /// The same as rows, each with the values that it is the mean of.
    pub fn means(replicates: &[Figures]) -> Vec<MeanRow> {
        let means = Figures::mean_of(replicates);
        let row = |metric: Metric| {
            let (mean, half_width) = (means.get(metric)?, means.half_width(metric)?);
            let values = replicates.iter().filter_map(|figures| figures.get(metric)).collect();
            Some(MeanRow { figure: metric.key().to_owned(), mean, half_width, values })
        };
        Metric::ALL.into_iter().filter_map(row).collect()
    }

    /// The value of a figure.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        self.values[metric as usize]
    }

    /// Half the width of a mean's 95 % interval; `None` in a single run, which tells nothing about its spread.
    pub fn half_width(&self, metric: Metric) -> Option<f64> {
        self.half_widths[metric as usize]
    }

    /// A figure in words: `51,200 ± 310` of replicates.
    pub fn show(&self, metric: Metric) -> Option<String> {
        let value = self.get(metric)?;
        Some(self.half_width(metric).map_or_else(|| metric.show(value), |half| metric.show_mean(value, half)))
    }

    /// Whether two points are too close in a figure for a claim: [`equal`], or within [`chance`](Figures::is_chance). False if one lacks it.
    pub fn is_close(&self, other: &Figures, metric: Metric) -> bool {
        let pair = self.get(metric).zip(other.get(metric));
        pair.is_some_and(|(own, other)| equal(own, other)) || self.is_chance(other, metric)
    }

    /// Whether the intervals of two points do not part in a figure. Never in single runs, which have none, nor in figures that do not depend
    /// on the seed.
    pub fn is_chance(&self, other: &Figures, metric: Metric) -> bool {
        let width = self.half_width(metric).unwrap_or(0.0) + other.half_width(metric).unwrap_or(0.0);
        let pair = self.get(metric).zip(other.get(metric));
        width > 0.0 && pair.is_some_and(|(own, other)| (own - other).abs() <= width)
    }

    /// What is called equal, in a sentence.
    pub fn closeness(&self) -> String {
        match self.replicates {
            0 | 1 => "within 1 %".to_owned(),
            replicates => format!("within 1 %, or within chance at {replicates} replicates"),
        }
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

    // Chance would pass for a difference, or a difference for chance.
    #[test]
    fn figures_differ_where_they_are_apart_and_their_intervals_part() {
        let figures = |iops: f64, wire: f64| {
            Figures::from_fn(|metric| match metric {
                Metric::Iops => Some(iops),
                Metric::WireBytesPerIo => Some(wire),
                _ => None,
            })
        };
        let of = |iops: [f64; 3], wire: f64| Figures::mean_of(&iops.map(|iops| figures(iops, wire)));
        // 4.303 s / sqrt(3): 100 +- 24.8, and 140 +- 24.8 or 2.5.
        let (slow, fast) = (of([90.0, 100.0, 110.0], 512.0), of([130.0, 140.0, 150.0], 512.1));
        let sure = of([139.0, 140.0, 141.0], 512.0);
        assert_eq!(slow.show(Metric::Iops).unwrap(), "100 ± 25");
        assert!(slow.is_chance(&fast, Metric::Iops) && slow.is_close(&fast, Metric::Iops));
        assert!(!slow.is_chance(&sure, Metric::Iops) && !slow.is_close(&sure, Metric::Iops));
        // The same in every replicate: no chance, however little they differ, and equal below 1 %.
        assert!(
            !slow.is_chance(&fast, Metric::WireBytesPerIo) && slow.is_close(&fast, Metric::WireBytesPerIo)
        );
        assert_eq!(slow.show(Metric::WireBytesPerIo).unwrap(), "512 B");
        // Single runs have no intervals, and nothing is chance.
        let (one, other) = (figures(100.0, 1.0), figures(102.0, 1.0));
        assert!(!one.is_close(&other, Metric::Iops) && one.closeness() == "within 1 %");
        assert_eq!(Figures::mean_of(&[one]), one);
        assert_eq!(Figures::mean_of(&[one, Figures::default()]).get(Metric::Iops), None, "a mean over fewer");
    }

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
