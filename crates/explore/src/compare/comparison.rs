//! The result of a comparison, and the file `compare.json`:
//!
//! ```text
//! byteway, scenario    version, and name of the scenario
//! partial              whether the comparison was interrupted, so that some points were not run
//! baseline             the point that others are compared with, human-readable
//! replicates           runs of each point, by Student's t; omitted for single runs
//! metric               key in `figures` of the figure that is shown first
//! keys[]               key, paths (keys of the scenario), unit (null: names), values[], numbers[] (null: names)
//! points[]             in order, the first key slowest:
//!   index, values      value by key
//!   status, reason     "done"; "failed", with the reason; "not-run"
//!   figures            iops, bytes_per_second, mean_ns, p50_ns, p99_ns, p99_9_ns (of all I/Os of all jobs),
//!                      read_p99_9_ns (unless all I/Os are reads), wire_bytes_per_io, payload_bytes_per_io
//!                      (both directions), write_amplification, map_miss_ratio, wear_spread, retries_per_read (if
//!                      the drive has a map cache, wear leveling, or read retries),
//!                      log_pages, index_pages (flash pages programmed by a key-value drive),
//!                      host_ns_per_io, device_ns_per_io (processor time; if transfers are measured)
//!   busiest            resource, mean (share of the time)
//!   half_widths        of the 95 % intervals of the figures, which are then means; only with several replicates
//!   replicates[]       seed, status, reason, figures of each run; only with several
//!   against, ratios    index of the point to compare with, and each figure as a multiple of its figure
//!   summary            contents of summary.json of the run, or of the first replicate
//! findings[]           kind, details, and text (a sentence), the most significant first
//! sensitivity[]        with --sensitivity, for each trial: section, key, value and source of a constant, the value tried,
//!                      status, reason, and changes[]: the index of a finding, and what is found instead (null: nothing)
//! ```
//!
//! Missing values are null.

use serde::ser::{Serialize, Serializer};

use super::finding::{Fact, Finding, FindingInput, findings, most_telling_first, throughput_of};
use super::plan::{Plan, Planned, describe};
use super::sizes;
use super::tried::{Change, Sensitivity, TrialEnd, Tried};
use super::vary::{Axis, Scale};
use crate::assumption::Trial;
use crate::replicate::Repeat;
use byteway_results::RunResult;
use byteway_results::figures::{Figures, Metric, fallen, is_fallback};
use byteway_results::replicates::of_replicate;
use byteway_results::summary::Summary;
use byteway_run::probe::PointOutcome;
use byteway_scenario::Scenario;
use byteway_text::table::grouped;

/// The result of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// Name of the scenario.
    pub scenario: String,
    /// Text of the scenario.
    pub text: String,
    /// Command to repeat the comparison.
    pub command: String,
    /// The varied keys.
    pub axes: Vec<Axis>,
    /// Baseline of the points, in words.
    pub baseline: String,
    /// Runs of each point.
    pub repeat: Repeat,
    /// The figure shown first: by default mean latency for comparisons of transfer methods and of open loops, throughput for others.
    pub metric: Metric,
    /// All points.
    pub points: Vec<Point>,
    /// Findings on the points.
    pub findings: Vec<Finding>,
    /// What became of the findings with other values of constants, if that was asked.
    pub sensitivity: Option<Sensitivity>,
    /// Whether it was interrupted: points, or probes for findings, are missing.
    pub interrupted: bool,
}

/// A point of a comparison.
#[derive(Debug)]
pub struct Point {
    /// The point as input of findings.
    pub seen: FindingInput,
    /// Outcome of the point. Of several replicates it is that of the first, or the first failure.
    pub outcome: PointOutcome,
    /// Figures of the point, even if some of its I/Os failed; the means of several replicates, if all succeeded.
    pub figures: Option<Figures>,
    /// The runs, if there are several.
    pub replicates: Vec<Replicate>,
    /// Index of its baseline.
    pub against: usize,
}

/// A run of a point that has several.
#[derive(Clone, Debug)]
pub struct Replicate {
    /// Seed: `--set seed=N` runs it alone.
    pub seed: u64,
    /// Name of its outcome.
    pub status: &'static str,
    /// Why it failed.
    pub reason: Option<String>,
    /// Its figures.
    pub figures: Option<Figures>,
}

/// The outcome of a point, its replicates, and their means: only if all are complete, or they would be over fewer.
fn joined(
    planned: &Planned,
    mut outcomes: Vec<PointOutcome>,
) -> (PointOutcome, Vec<Replicate>, Option<Figures>) {
    let figures: Vec<Option<Figures>> = outcomes.iter().map(|one| Some(Figures::of(one.found()?))).collect();
    let count = outcomes.len();
    if count == 1 {
        return (outcomes.remove(0), Vec::new(), figures[0]);
    }
    let seeds = planned.replicates.iter().map(|run| run.seed);
    let each = seeds.zip(&outcomes).zip(&figures).map(|((seed, outcome), figures)| {
        let (status, reason) = outcome.status();
        Replicate { seed, status, reason: reason.map(str::to_owned), figures: *figures }
    });
    let replicates: Vec<Replicate> = each.collect();
    let failure = replicates.iter().enumerate().find_map(|(index, one)| {
        let reason = of_replicate(index, count, one.seed, one.reason.as_deref()?);
        Some(PointOutcome::Failed(reason, None))
    });
    let missing = outcomes.contains(&PointOutcome::NotRun).then_some(PointOutcome::NotRun);
    let outcome = failure.or(missing).unwrap_or_else(|| outcomes.swap_remove(0));
    let all: Option<Vec<Figures>> = figures.into_iter().collect();
    let mean = all.filter(|_| outcome.done().is_some()).map(|all| Figures::mean_of(&all));
    (outcome, replicates, mean)
}

/// A finding on points whose payloads used the fallback.
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
        "payloads used the fallback because their method could not carry them: {}; where most did, the figures are not \
         the method's, and no conclusions are drawn from them",
        points.join("; ")
    );
    Some(Finding { fact: Fact::Fallback { points }, text })
}

impl Comparison {
    /// The result of a plan and its outcomes. `probe` runs scenarios between the points, to find the payload
    /// sizes up to which a method is better, if sizes and methods are varied.
    pub fn new(
        plan: Plan,
        outcomes: Vec<PointOutcome>,
        probe: &dyn Fn(&Scenario) -> Option<RunResult>,
    ) -> Comparison {
        let first = plan.points.first().map(|point| &point.scenario);
        let scenario = first.map(|scenario| scenario.name.clone()).unwrap_or_default();
        let text = first.map(|scenario| scenario.text.clone()).unwrap_or_default();
        let mut outcomes = outcomes.into_iter();
        let point = |planned: &Planned| {
            let runs: Vec<PointOutcome> = outcomes.by_ref().take(plan.repeat.count()).collect();
            let is_fallen = runs.iter().filter_map(PointOutcome::found).any(|one| is_fallback(&one.summary));
            let (outcome, replicates, figures) = joined(planned, runs);
            Point {
                seen: FindingInput {
                    choice: planned.choice.clone(),
                    figures: figures.filter(|_| outcome.done().is_some() && !is_fallen),
                    outstanding: planned.outstanding(),
                },
                figures,
                outcome,
                replicates,
                against: planned.against,
            }
        };
        let points: Vec<Point> = plan.points.iter().map(point).collect();
        let seen: Vec<FindingInput> = points.iter().map(|point| point.seen.clone()).collect();
        let sizes = sizes::findings(&plan, &seen, probe);
        let is_open = plan.points.iter().all(Planned::is_open);
        let mut findings = findings(&plan.axes, &seen, is_open);
        findings.retain(|finding| !sizes.iter().any(|better| better.replaces(finding)));
        findings.splice(0..0, sizes);
        findings.extend(fallbacks(&plan.axes, &points));
        most_telling_first(&mut findings);
        // The throughput of an open loop is what was asked for, and equal by construction.
        let by_latency = plan.axes.iter().any(sizes::is_method) || is_open;
        let metric = plan.metric.unwrap_or_else(|| match by_latency {
            true => Metric::MeanNs,
            false => throughput_of(points.iter().filter_map(|point| point.figures.as_ref())),
        });
        Comparison {
            scenario,
            text,
            command: plan.command,
            axes: plan.axes,
            baseline: plan.baseline,
            repeat: plan.repeat,
            metric,
            points,
            findings,
            sensitivity: None,
            interrupted: false,
        }
    }

    /// Whether points or probes are missing.
    pub fn is_partial(&self) -> bool {
        let (not_run, _) = PointOutcome::NotRun.status();
        let is_missing = |point: &Point| {
            point.outcome == PointOutcome::NotRun || point.replicates.iter().any(|one| one.status == not_run)
        };
        let is_untried = self.sensitivity.as_ref().is_some_and(Sensitivity::is_partial);
        self.interrupted || is_untried || self.points.iter().any(is_missing)
    }

    /// Number of failed points.
    pub fn failed(&self) -> usize {
        self.points.iter().filter(|point| matches!(point.outcome, PointOutcome::Failed(..))).count()
    }

    /// The value of a point on an axis.
    pub fn label(&self, point: &Point, axis: usize) -> &str {
        &self.axes[axis].values[point.seen.choice[axis]].label
    }

    /// A figure relative to the baseline's; `None` for the baseline itself, and if either is missing.
    pub fn ratio(&self, index: usize, metric: Metric) -> Option<f64> {
        let point = &self.points[index];
        if point.against == index {
            return None;
        }
        point.figures.as_ref()?.ratio(self.points[point.against].seen.figures.as_ref()?, metric)
    }

    /// The contents of `compare.json`.
    pub fn to_json(&self) -> String {
        let json = Json {
            byteway: env!("CARGO_PKG_VERSION"),
            scenario: &self.scenario,
            partial: self.is_partial(),
            baseline: &self.baseline,
            replicates: self.repeat.is_several().then(|| self.repeat.count()),
            metric: self.metric,
            keys: self.axes.iter().map(key).collect(),
            points: (0..self.points.len()).map(|index| self.point(index)).collect(),
            findings: &self.findings,
            sensitivity: self.sensitivity.as_ref().map(|found| found.trials.iter().map(trial).collect()),
        };
        let mut json = serde_json::to_string_pretty(&json).expect("a comparison has only string keys");
        json.push('\n');
        json
    }

    fn point(&self, index: usize) -> PointJson<'_> {
        let point = &self.points[index];
        let values = self.axes.iter().enumerate();
        let (status, reason) = point.outcome.status();
        let summary = point.outcome.found().map(|found| &found.summary);
        let replicates = point.replicates.iter().map(|one| ReplicateJson {
            seed: one.seed,
            status: one.status,
            reason: one.reason.as_deref(),
            figures: one.figures.map(|figures| table(&|metric| figures.get(metric))),
        });
        let means = point.figures.filter(|_| self.repeat.is_several());
        PointJson {
            index,
            values: Ordered(values.map(|(at, axis)| (axis.key.as_str(), self.label(point, at))).collect()),
            status,
            reason,
            figures: point.figures.as_ref().map(|figures| table(&|metric| figures.get(metric))),
            half_widths: means.map(|means| table(&|metric| means.half_width(metric))),
            replicates: replicates.collect(),
            busiest: summary.and_then(Summary::busiest).map(|(resource, mean)| Busiest { resource, mean }),
            against: point.against,
            ratios: (point.against != index).then(|| table(&|metric| self.ratio(index, metric))),
            summary,
        }
    }
}

fn table<'a>(of: &dyn Fn(Metric) -> Option<f64>) -> Ordered<'a, Option<f64>> {
    Ordered(Metric::ALL.map(|metric| (metric.key(), of(metric))).to_vec())
}

fn trial(one: &Tried) -> TrialJson<'_> {
    let Trial { section, key, source, .. } = &one.trial;
    let (value, tried) = one.trial.listed();
    let (status, reason, changes) = match &one.end {
        TrialEnd::Done(changes) => ("done", None, &changes[..]),
        TrialEnd::Failed(reason) => ("failed", Some(reason.as_str()), &[][..]),
        TrialEnd::NotRun => ("not-run", None, &[][..]),
    };
    TrialJson { section, key, value, tried, source, status, reason, changes }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    replicates: Option<usize>,
    metric: Metric,
    keys: Vec<KeyJson<'a>>,
    points: Vec<PointJson<'a>>,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Vec<TrialJson<'a>>>,
}

#[derive(serde::Serialize)]
struct TrialJson<'a> {
    section: &'a str,
    key: &'a str,
    value: String,
    tried: String,
    source: &'a str,
    status: &'static str,
    reason: Option<&'a str>,
    changes: &'a [Change],
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
    #[serde(skip_serializing_if = "Option::is_none")]
    half_widths: Option<Ordered<'a, Option<f64>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replicates: Vec<ReplicateJson<'a>>,
    busiest: Option<Busiest<'a>>,
    against: usize,
    ratios: Option<Ordered<'a, Option<f64>>>,
    summary: Option<&'a Summary>,
}

#[derive(serde::Serialize)]
struct ReplicateJson<'a> {
    seed: u64,
    status: &'static str,
    reason: Option<&'a str>,
    figures: Option<Ordered<'a, Option<f64>>>,
}

#[derive(serde::Serialize)]
struct Busiest<'a> {
    resource: &'a str,
    mean: f64,
}

/// A map that is serialized in its own order.
struct Ordered<'a, T>(Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Ordered<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}
