//! What a comparison found, and `compare.json`:
//!
//! ```text
//! byteway, scenario    version, and name of the scenario
//! partial              it was interrupted: some points were not run
//! baseline             what points are compared with, in words
//! metric               the figure that is shown first, by its key in `figures`
//! keys[]               key, paths (keys of the scenario), unit (null: names), values[], numbers[] (null: names)
//! points[]             in order, the first key slowest:
//!   index, values      value by key
//!   status, reason     "done"; "failed", with the reason; "not-run"
//!   figures            iops, bytes_per_second, mean_ns, p50_ns, p99_ns, p99_9_ns (of all I/Os of all jobs),
//!                      read_p99_9_ns (where there are others beside reads), wire_bytes_per_io, payload_bytes_per_io
//!                      (both directions), write_amplification, map_miss_ratio, wear_spread, retries_per_read (where
//!                      the drive has a map cache, looks after wear, or tries reads again),
//!                      log_pages, index_pages (pages of flash programmed by a drive of keys and values),
//!                      host_ns_per_io, device_ns_per_io (processor time; where how payloads cross is measured)
//!   busiest            resource, mean (share of the time)
//!   against, ratios    the point that it is compared with, and each figure as a multiple of that point's
//!   summary            what summary.json of the run holds
//! findings[]           kind, its details, and text: a sentence; the most telling ones first
//! ```
//!
//! What does not exist is null.

use serde::ser::{Serialize, Serializer};

use super::figures::{Figures, Metric, fallen, is_fallback};
use super::finding::{Fact, Finding, Seen, findings, most_telling_first, throughput_of};
use super::found::Found;
use super::outcome::Outcome;
use super::plan::{Plan, describe};
use super::sizes;
use super::vary::{Axis, Scale};
use byteway_console::table::grouped;
use byteway_measure::summary::Summary;
use byteway_scenario::Scenario;

/// What a comparison found.
#[derive(Debug)]
pub struct Comparison {
    /// Name of the scenario.
    pub scenario: String,
    /// Its text.
    pub text: String,
    /// How to run the comparison again.
    pub command: String,
    /// What is varied.
    pub axes: Vec<Axis>,
    /// What the points are compared with.
    pub baseline: String,
    /// The figure that is shown first: what was asked for, or else mean latency where methods of transfer are compared, and
    /// throughput otherwise.
    pub metric: Metric,
    /// All points.
    pub points: Vec<Point>,
    /// What they show.
    pub findings: Vec<Finding>,
    /// It was interrupted: points, or runs between them that findings rest on, are missing.
    pub interrupted: bool,
}

/// A point of a comparison.
#[derive(Debug)]
pub struct Point {
    /// What findings see of it.
    pub seen: Seen,
    /// What became of it.
    pub outcome: Outcome,
    /// Its figures, even if some of its I/Os failed.
    pub figures: Option<Figures>,
    /// Index of the point that it is compared with.
    pub against: usize,
}

/// Points of which payloads went by the fallback.
fn fallbacks(axes: &[Axis], points: &[Point]) -> Option<Finding> {
    let fallen = points.iter().filter_map(|point| {
        let summary = &point.outcome.found()?.summary;
        let count = fallen(summary);
        let name = describe(axes, &point.seen.choice);
        (count > 0).then(|| format!("{name} ({} of {})", grouped(count), grouped(summary.ios)))
    });
    let points: Vec<String> = fallen.collect();
    if points.is_empty() {
        return None;
    }
    let text = format!(
        "payloads went by the fallback, because their method could not carry them: {}; where most did, the figures are not \
         the method's, and nothing is concluded from them",
        points.join("; ")
    );
    Some(Finding { fact: Fact::Fallback { points }, text })
}

impl Comparison {
    /// From what was planned and what became of it. `probe` runs what lies between the points: where a payload's size and
    /// method are varied, the sizes up to which a method pays are looked for to the byte.
    pub fn new(plan: Plan, outcomes: Vec<Outcome>, probe: &dyn Fn(&Scenario) -> Option<Found>) -> Comparison {
        let first = plan.points.first().map(|point| &point.scenario);
        let scenario = first.map(|scenario| scenario.name.clone()).unwrap_or_default();
        let text = first.map(|scenario| scenario.text.clone()).unwrap_or_default();
        let point = |(planned, outcome): (&super::plan::Planned, Outcome)| Point {
            seen: Seen {
                choice: planned.choice.clone(),
                figures: outcome.done().filter(|found| !is_fallback(&found.summary)).map(Figures::of),
                outstanding: planned.outstanding(),
            },
            figures: outcome.found().map(Figures::of),
            outcome,
            against: planned.against,
        };
        let points: Vec<Point> = plan.points.iter().zip(outcomes).map(point).collect();
        let seen: Vec<Seen> = points.iter().map(|point| point.seen.clone()).collect();
        let sizes = sizes::findings(&plan, &seen, probe);
        let mut findings = findings(&plan.axes, &seen);
        findings.retain(|finding| !sizes.iter().any(|better| better.replaces(finding)));
        findings.splice(0..0, sizes);
        findings.extend(fallbacks(&plan.axes, &points));
        most_telling_first(&mut findings);
        let metric = plan.metric.unwrap_or_else(|| match plan.axes.iter().any(sizes::is_method) {
            true => Metric::MeanNs,
            false => throughput_of(points.iter().filter_map(|point| point.figures.as_ref())),
        });
        Comparison {
            scenario,
            text,
            command: plan.command,
            axes: plan.axes,
            baseline: plan.baseline,
            metric,
            points,
            findings,
            interrupted: false,
        }
    }

    /// Whether some points, or some of what findings rest on, were not run.
    pub fn is_partial(&self) -> bool {
        self.interrupted || self.points.iter().any(|point| point.outcome == Outcome::NotRun)
    }

    /// Points that failed.
    pub fn failed(&self) -> usize {
        self.points.iter().filter(|point| matches!(point.outcome, Outcome::Failed(..))).count()
    }

    /// Value of a point on an axis.
    pub fn label(&self, point: &Point, axis: usize) -> &str {
        &self.axes[axis].values[point.seen.choice[axis]].label
    }

    /// A figure as a multiple of the baseline's; `None` for the baseline itself, and if either has none.
    pub fn ratio(&self, index: usize, metric: Metric) -> Option<f64> {
        let point = &self.points[index];
        if point.against == index {
            return None;
        }
        point.figures.as_ref()?.ratio(self.points[point.against].seen.figures.as_ref()?, metric)
    }

    /// What `compare.json` holds.
    pub fn to_json(&self) -> String {
        let json = Json {
            byteway: env!("CARGO_PKG_VERSION"),
            scenario: &self.scenario,
            partial: self.is_partial(),
            baseline: &self.baseline,
            metric: self.metric,
            keys: self.axes.iter().map(key).collect(),
            points: (0..self.points.len()).map(|index| self.point(index)).collect(),
            findings: &self.findings,
        };
        let mut json = serde_json::to_string_pretty(&json).expect("a comparison has only string keys");
        json.push('\n');
        json
    }

    fn point(&self, index: usize) -> PointJson<'_> {
        let point = &self.points[index];
        let values = self.axes.iter().enumerate();
        let (status, reason) = match &point.outcome {
            Outcome::Done(_) => ("done", None),
            Outcome::Failed(reason, _) => ("failed", Some(reason.as_str())),
            Outcome::NotRun => ("not-run", None),
        };
        let summary = point.outcome.found().map(|found| &found.summary);
        let table = |of: &dyn Fn(Metric) -> Option<f64>| {
            Ordered(Metric::ALL.map(|metric| (metric.key(), of(metric))).to_vec())
        };
        PointJson {
            index,
            values: Ordered(values.map(|(at, axis)| (axis.key.as_str(), self.label(point, at))).collect()),
            status,
            reason,
            figures: point.figures.as_ref().map(|figures| table(&|metric| figures.get(metric))),
            busiest: summary.and_then(Summary::busiest).map(|(resource, mean)| Busiest { resource, mean }),
            against: point.against,
            ratios: (point.against != index).then(|| table(&|metric| self.ratio(index, metric))),
            summary,
        }
    }
}

fn key(axis: &Axis) -> KeyJson<'_> {
    KeyJson {
        key: &axis.key,
        paths: &axis.paths,
        unit: match &axis.scale {
            Scale::Names => None,
            Scale::Numbers(unit) => Some(unit),
        },
        values: axis.values.iter().map(|value| value.label.as_str()).collect(),
        numbers: axis.values.iter().map(|value| value.number).collect(),
    }
}

#[derive(serde::Serialize)]
struct Json<'a> {
    byteway: &'static str,
    scenario: &'a str,
    partial: bool,
    baseline: &'a str,
    metric: Metric,
    keys: Vec<KeyJson<'a>>,
    points: Vec<PointJson<'a>>,
    findings: &'a [Finding],
}

#[derive(serde::Serialize)]
struct KeyJson<'a> {
    key: &'a str,
    paths: &'a [String],
    unit: Option<&'a str>,
    values: Vec<&'a str>,
    numbers: Option<Vec<f64>>,
}

#[derive(serde::Serialize)]
struct PointJson<'a> {
    index: usize,
    values: Ordered<'a, &'a str>,
    status: &'static str,
    reason: Option<&'a str>,
    figures: Option<Ordered<'a, Option<f64>>>,
    busiest: Option<Busiest<'a>>,
    against: usize,
    ratios: Option<Ordered<'a, Option<f64>>>,
    summary: Option<&'a Summary>,
}

#[derive(serde::Serialize)]
struct Busiest<'a> {
    resource: &'a str,
    mean: f64,
}

/// A map that is written in its own order.
struct Ordered<'a, T>(Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Ordered<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
