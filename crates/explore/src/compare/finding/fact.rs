//! What a finding is, and the points that findings are made of.

use crate::compare::plan::describe;
use crate::compare::reach::Reach;
use crate::compare::vary::Axis;
use byteway_results::figures::{Figures, Metric, equal};
use serde::Serialize;

/// Maximum number of values of a key that are compared pairwise.
pub(super) const RIVALS_MAX: usize = 6;

/// A finding: a fact for programs, and a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The fact.
    #[serde(flatten)]
    pub fact: Fact,
    /// The sentence.
    pub text: String,
}

/// A fact. Values are in the user's notation; `others` are the values of all other keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fact {
    /// Throughput along a key.
    Knee {
        /// The key.
        key: String,
        /// The other keys.
        others: String,
        /// Begin of the plateau; `None` if throughput still rises, or has fallen, at the last value.
        plateau: Option<String>,
        /// The value with the most throughput for its latency; `None` if it is at an end, or if the key is
        /// not the number of outstanding I/Os.
        knee: Option<String>,
        /// The corner of the bounds.
        little: Option<Corner>,
    },
    /// One value overtakes another.
    Crossover {
        /// The key along which.
        key: String,
        /// The other keys.
        others: String,
        /// The figure.
        metric: Metric,
        /// The leader behind the crossover.
        leader: String,
        /// The leader before the crossover.
        behind: String,
        /// The last value with `behind` in the lead, and the first with `leader`.
        between: (String, String),
        /// Interpolated value of equality; `None` if these values are more than a factor of 2 apart, because
        /// figures may change in steps (of commands or pages) anywhere between.
        at: Option<f64>,
    },
    /// The payload sizes up to which a method is better than another.
    Reach {
        /// The method.
        method: String,
        /// The method that it is compared with.
        against: String,
        /// The other keys.
        others: String,
        /// Sizes at which its mean latency is lower.
        latency: Reach,
        /// Sizes at which it has fewer wire bytes.
        wire: Reach,
        /// Sizes at which it has fewer payload bytes, as a performance counter counts them.
        payload: Reach,
    },
    /// Sources of a fine-grained method's gain over whole pages.
    Gain {
        /// Size of the payload in bytes.
        bytes: u64,
        /// The other keys.
        others: String,
        /// Mean latency by PRP, in nanoseconds.
        prp_ns: f64,
        /// Latency of SGL: exact length, with DMA setup.
        sgl_ns: f64,
        /// Inline: without DMA.
        inline_ns: f64,
    },
    /// Points whose payloads used the fallback, each with their number.
    Fallback {
        /// The points.
        points: Vec<String>,
    },
    /// Two values never change the lead.
    NoCrossover {
        /// The key along which.
        key: String,
        /// The other keys.
        others: String,
        /// The two values.
        values: (String, String),
        /// The leader by figure; `None`: neither leads.
        ahead: Vec<(Metric, Option<String>)>,
    },
    /// The best point in a figure.
    Best {
        /// The figure.
        metric: Metric,
        /// Index of the point; of equal ones, that with the lowest latency.
        point: usize,
        /// Points that are equal to it.
        equal: Vec<usize>,
    },
    /// Effect of another value of a key of the drive.
    Effect {
        /// The key.
        key: String,
        /// The other keys.
        others: String,
        /// The first value, and the other one.
        values: (String, String),
        /// The figures that differ.
        changes: Vec<Change>,
    },
    /// Further findings of a kind that were omitted.
    Omitted {
        /// Number of findings.
        count: usize,
    },
}

impl Finding {
    /// Whether it replaces another finding by a more exact one.
    pub(in crate::compare) fn replaces(&self, other: &Finding) -> bool {
        let Fact::Reach { method, against, others, .. } = &self.fact else { return false };
        let same = |a: &String, b: &String, with: &String| {
            with == others && ((a == method && b == against) || (a == against && b == method))
        };
        match &other.fact {
            Fact::Crossover { leader, behind, others, metric, .. } => {
                same(leader, behind, others)
                    && matches!(
                        metric,
                        Metric::Iops
                            | Metric::MeanNs
                            | Metric::P99Ns
                            | Metric::WireBytesPerIo
                            | Metric::PayloadBytesPerIo
                    )
            }
            Fact::NoCrossover { values: (a, b), others, .. } => same(a, b, others),
            _ => false,
        }
    }
}

/// A figure that differs between two points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The figure.
    pub metric: Metric,
    /// Value at the first point.
    pub from: f64,
    /// Value at the other point.
    pub to: f64,
}

/// The corner of the asymptotic bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corner {
    /// Outstanding I/Os at the corner, N*.
    pub outstanding: f64,
    /// X_max: highest throughput of the series in I/Os per second.
    pub iops_max: f64,
    /// R_min: mean latency with the fewest outstanding I/Os, in nanoseconds.
    pub latency_ns: f64,
    /// Outstanding I/Os at that measurement: if more than one waits for a resource, N* is overestimated.
    pub measured_at: u64,
}

/// A point as the input of findings.
#[derive(Clone, Debug)]
pub struct FindingInput {
    /// Index of its value on each axis.
    pub choice: Vec<usize>,
    /// `None` if it failed, was not run, or used the fallback of its transfer method.
    pub figures: Option<Figures>,
    /// Constant number of outstanding I/Os, in a closed loop.
    pub outstanding: Option<u64>,
}

/// The points along one axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// The axis.
    pub axis: usize,
    /// The choices on all other axes.
    pub others: Vec<usize>,
    /// Indices of the points: numbers ascending, names in order.
    pub points: Vec<usize>,
}

/// All series along an axis, in the order of the points.
pub fn series(axes: &[Axis], points: &[FindingInput], axis: usize) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let mut others = point.choice.clone();
        others[axis] = 0;
        let at = *places.entry(others.clone()).or_insert_with(|| {
            all.push(Series { axis, others, points: Vec::new() });
            all.len() - 1
        });
        all[at].points.push(index);
    }
    let number = |index: &usize| axes[axis].values[points[*index].choice[axis]].number.unwrap_or(0.0);
    for series in &mut all {
        series.points.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    all
}

impl Series {
    /// The other keys in words; empty if there are none.
    pub fn others(&self, axes: &[Axis]) -> String {
        without(axes, &self.others, &[self.axis])
    }
}

/// A choice in words, without some axes.
pub fn without(axes: &[Axis], choice: &[usize], left_out: &[usize]) -> String {
    let keep: Vec<usize> = (0..axes.len()).filter(|at| !left_out.contains(at)).collect();
    let axes: Vec<Axis> = keep.iter().map(|at| axes[*at].clone()).collect();
    let choice: Vec<usize> = keep.iter().map(|at| choice[*at]).collect();
    describe(&axes, &choice)
}

pub(super) fn with(others: &str) -> String {
    if others.is_empty() { String::new() } else { format!("with {others}: ") }
}

/// The figure of throughput: I/Os, or bytes if I/Os have several sizes.
pub fn throughput_of<'a>(all: impl Iterator<Item = &'a Figures>) -> Metric {
    let mut sizes = all
        .filter_map(|figures| figures.get(Metric::BytesPerSecond)?.checked_div(figures.get(Metric::Iops)?));
    let first = sizes.next();
    match first.is_none_or(|first| sizes.all(|size| equal(size, first))) {
        true => Metric::Iops,
        false => Metric::BytesPerSecond,
    }
}

trait CheckedDiv {
    fn checked_div(self, by: f64) -> Option<f64>;
}

impl CheckedDiv for f64 {
    fn checked_div(self, by: f64) -> Option<f64> {
        (by != 0.0).then(|| self / by)
    }
}
