//! Helpers common to the figures and recipes of several papers.

use crate::point::{PointResult, Points, Spec};
use byteway_report::{Axis, Chart, Ink, Unit};
use byteway_text::table::time;

/// A change in percent.
pub(crate) fn change(ours: f64, theirs: f64) -> f64 {
    (ours / theirs - 1.0) * 100.0
}

/// A signed difference of times.
pub(crate) fn difference(ns: f64) -> String {
    format!("{}{}", if ns < 0.0 { "-" } else { "" }, time(ns.abs()))
}

/// A line over sizes; failed points are omitted.
pub(crate) fn line(
    points: &Points,
    sizes: impl IntoIterator<Item = u64>,
    spec: impl Fn(u64) -> Spec,
    figure: impl Fn(PointResult<'_>) -> f64,
) -> Vec<(f64, f64)> {
    let at = |bytes: u64| Some((bytes as f64, figure(points.at(&spec(bytes)).ok()?)));
    sizes.into_iter().filter_map(at).collect()
}

pub(crate) fn over_sizes() -> Axis {
    Axis::log("payload", Unit::BinaryBytes)
}

/// A point stated by the paper, unless its reference point failed.
pub(crate) fn stated(
    points: &Points,
    bytes: u64,
    against: &Spec,
    value: impl Fn(PointResult<'_>) -> f64,
) -> Vec<(f64, f64)> {
    points.at(against).map(|seen| (bytes as f64, value(seen))).into_iter().collect()
}

/// Stacked stages of each point; failed points are omitted.
pub(crate) fn stages(points: &Points, specs: impl IntoIterator<Item = (&'static str, Spec)>) -> Chart {
    let all: Vec<(&str, PointResult<'_>)> =
        specs.into_iter().filter_map(|(name, spec)| Some((name, points.at(&spec).ok()?))).collect();
    let mut chart = Chart::new(
        Axis::names("", all.iter().map(|(name, _)| *name)),
        Axis::linear("mean latency", Unit::Nanoseconds),
    )
    .stacked();
    let mut names: Vec<&str> = Vec::new();
    for (stage, _) in all.iter().flat_map(|(_, seen)| seen.stages()) {
        if !names.contains(&stage) {
            names.push(stage);
        }
    }
    for (index, stage) in names.into_iter().enumerate() {
        let values = all.iter().map(|(_, seen)| seen.stage(stage)).collect();
        chart = chart.bars(stage, Ink::nth(index), values);
    }
    chart
}
