//! What the points show, in words: knees, crossovers and the best point.
//!
//! Terms. A *series* is the points along one key, all other keys alike. Its *plateau* begins at the first value from which
//! throughput stays within 5 % of the series' best. In a closed loop with N I/Os outstanding Little's law says
//! N = X R (throughput times mean latency), so X(N) <= min(N / R_min, X_max): the asymptotic bounds of operational
//! analysis (Denning and Buzen, "The operational analysis of queueing network models", Computing Surveys 1978). They
//! meet in a *corner* at N* = X_max R_min: with fewer outstanding, the drive must idle; with more, some must wait.
//! The *knee* is measured, not computed: the point with the most throughput for its latency, X / R (Kleinrock, "Power and
//! deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979).
//! The plateau begins well beyond the corner where requests fall on resources by chance: at N* some
//! dies have several reads and others none. A *crossover* lies between two values of a numeric key if one of two series is
//! ahead at the first and the other at the second.
//!
//! An *effect* is what changes with a key of the drive's own: whatever differs between its first value and another.
//!
//! Nothing is claimed of a difference below 1 %, of a knee in fewer than three points, or of a point that failed.

mod effect;

use serde::Serialize;

use super::figures::{Figures, Metric, equal};
use super::plan::describe;
use super::sizes::{Reach, is_method};
use super::vary::{Axis, Scale};
use byteway_console::table::time;
use byteway_console::units::Bytes;

/// A finding: what it is about for programs, and a sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// For programs.
    #[serde(flatten)]
    pub fact: Fact,
    /// For people.
    pub text: String,
}

/// What was found. Values are as the user wrote them; `others` is the values of all other keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fact {
    /// How throughput goes with a key.
    Knee {
        /// The key.
        key: String,
        /// The other keys.
        others: String,
        /// Where the plateau begins; `None` if throughput still rises, or has fallen, at the last value.
        plateau: Option<String>,
        /// The most throughput for its latency; `None` if that is at an end, or the key isn't how many I/Os are
        /// outstanding.
        knee: Option<String>,
        /// Where the bounds meet.
        little: Option<Corner>,
    },
    /// One value overtakes another.
    Crossover {
        /// The key along which.
        key: String,
        /// The other keys.
        others: String,
        /// In what.
        metric: Metric,
        /// Who is ahead after it.
        leader: String,
        /// Who was ahead before it.
        behind: String,
        /// The last value at which `behind` was ahead, and the first at which `leader` is.
        between: (String, String),
        /// Where the figures would be equal if they changed evenly in between; none if these values are more than a factor
        /// of 2 apart: figures that come in steps, as of commands and pages, are anywhere there.
        at: Option<f64>,
    },
    /// Up to which payload size a method is better than another.
    Reach {
        /// The method.
        method: String,
        /// The one that it is compared with.
        against: String,
        /// The other keys.
        others: String,
        /// Where its mean latency is lower.
        latency: Reach,
        /// Where it takes fewer bytes on the wire.
        wire: Reach,
        /// Where it takes fewer bytes of payload, as a performance counter sees them.
        payload: Reach,
    },
    /// Where the gain of a fine-grained method over whole pages comes from.
    Gain {
        /// The payload's size, bytes.
        bytes: u64,
        /// The other keys.
        others: String,
        /// Mean latency by PRP, by SGL and inline, nanoseconds.
        prp_ns: f64,
        /// By SGL: exactly the bytes, DMA set up all the same.
        sgl_ns: f64,
        /// Inline: no DMA.
        inline_ns: f64,
    },
    /// Points of which payloads went by the fallback, each with how many.
    Fallback {
        /// The points.
        points: Vec<String>,
    },
    /// Two values never change places.
    NoCrossover {
        /// The key along which.
        key: String,
        /// The other keys.
        others: String,
        /// The two values.
        values: (String, String),
        /// Who is ahead in what; `None`: nobody.
        ahead: Vec<(Metric, Option<String>)>,
    },
    /// The best point in a figure.
    Best {
        /// The figure.
        metric: Metric,
        /// Index of the point: of equal ones that with the least latency.
        point: usize,
        /// Others that are equal to it.
        equal: Vec<usize>,
    },
    /// What another value of a key of the drive's changes.
    Effect {
        /// The key.
        key: String,
        /// The other keys.
        others: String,
        /// Its first value, and the other one.
        values: (String, String),
        /// The figures that differ.
        changes: Vec<Change>,
    },
    /// More of the same, left out.
    Omitted {
        /// How many.
        count: usize,
    },
}

impl Finding {
    /// Whether it says more exactly what another says.
    pub(super) fn replaces(&self, other: &Finding) -> bool {
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
    /// At the first.
    pub from: f64,
    /// At the other.
    pub to: f64,
}

/// Where the asymptotic bounds meet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Corner {
    /// Outstanding I/Os there.
    pub outstanding: f64,
    /// X_max: the most I/Os a second of the series.
    pub iops_max: f64,
    /// R_min: mean latency with the fewest outstanding.
    pub latency_ns: f64,
    /// With how many outstanding that was measured: if more than one waits for a resource, N* is too high.
    pub measured_at: u64,
}

/// A point, as findings see it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Index of its value on each axis.
    pub choice: Vec<usize>,
    /// `None` if it failed or was not run, or if they are those of the fallback of its transfer method.
    pub figures: Option<Figures>,
    /// I/Os outstanding at all times, in a closed loop.
    pub outstanding: Option<u64>,
}

/// The plateau is where throughput is at least this share of the best.
const PLATEAU: f64 = 0.95;

/// Values of a key of which each is held against each other.
const RIVALS_MAX: usize = 6;

/// Findings of one kind.
const FINDINGS_MAX: usize = 60;

/// Findings that are shown at once; the rest is folded.
pub const SHOWN_MAX: usize = 5;

impl Fact {
    /// How many of its kind are shown at once, as long as there are others. Of what holds each value against another there is
    /// one for each.
    fn shown_max(&self) -> usize {
        match self {
            Fact::Reach { .. } | Fact::Crossover { .. } => SHOWN_MAX - 1,
            _ => 2,
        }
    }

    /// Of its kind the first: a latency is what a single payload takes; the other figures follow it, or say the same.
    fn is_first_of_kind(&self) -> bool {
        !matches!(self, Fact::Crossover { metric, .. } if *metric != Metric::MeanNs)
    }

    /// How much it tells, the least number most: what questions the figures, what answers the question, what sums up, and
    /// last what didn't happen.
    fn weight(&self, sizes_differ: bool) -> usize {
        match self {
            Fact::Fallback { .. } => 0,
            Fact::Gain { .. } => 1,
            Fact::Reach { .. } => 2,
            Fact::Knee { knee: Some(_), .. } => 3,
            // The most bytes a second are those of the longest I/Os, and the least latency that of the shortest.
            Fact::Best { .. } if sizes_differ => 8,
            Fact::Best { .. } => 4,
            Fact::Effect { changes, .. } if !changes.is_empty() => 5,
            Fact::Crossover { .. } => 6,
            Fact::Knee { .. } => 7,
            Fact::Effect { .. } | Fact::NoCrossover { .. } => 8,
            Fact::Omitted { .. } => 9,
        }
    }
}

/// Puts the findings that tell most first: a few of each kind, then all others by kind.
pub fn most_telling_first(findings: &mut Vec<Finding>) {
    let by_bytes =
        |finding: &Finding| matches!(finding.fact, Fact::Best { metric: Metric::BytesPerSecond, .. });
    let sizes_differ = findings.iter().any(by_bytes);
    findings.sort_by_key(|finding| (finding.fact.weight(sizes_differ), !finding.fact.is_first_of_kind()));
    let mut rest = Vec::new();
    let mut first = Vec::new();
    let mut of_kind = [0; 10];
    for finding in findings.drain(..) {
        let count = &mut of_kind[finding.fact.weight(sizes_differ)];
        *count += 1;
        match *count <= finding.fact.shown_max() && first.len() < SHOWN_MAX {
            true => first.push(finding),
            false => rest.push(finding),
        }
    }
    findings.extend(first.into_iter().chain(rest));
}

/// Everything that the points show.
pub fn findings(axes: &[Axis], points: &[Seen]) -> Vec<Finding> {
    let mut all = best(axes, points);
    all.extend(capped(effect::effects(axes, points)));
    let knees = axes.iter().enumerate().filter(|(_, axis)| axis.is_numeric());
    let knees =
        knees.flat_map(|(at, _)| series(axes, points, at)).filter_map(|series| knee(axes, points, &series));
    all.extend(capped(knees.collect()));
    let mut crossings = Vec::new();
    for (names, _) in axes.iter().enumerate().filter(|(_, axis)| !axis.is_numeric()) {
        for (along, _) in axes.iter().enumerate().filter(|(_, axis)| axis.is_numeric()) {
            crossings.extend(crossovers(axes, points, names, along));
        }
    }
    all.extend(capped(crossings));
    all
}

fn capped(mut found: Vec<Finding>) -> Vec<Finding> {
    if found.len() > FINDINGS_MAX {
        let count = found.len() - FINDINGS_MAX;
        found.truncate(FINDINGS_MAX);
        let text = format!("{count} more of this kind are left out here");
        found.push(Finding { fact: Fact::Omitted { count }, text });
    }
    found
}

/// The points along one axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// The axis.
    pub axis: usize,
    /// The choice of all other axes.
    pub others: Vec<usize>,
    /// Indices of the points: numbers rising, names in their order.
    pub points: Vec<usize>,
}

/// All series along an axis, in the order of the points.
pub fn series(axes: &[Axis], points: &[Seen], axis: usize) -> Vec<Series> {
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

/// A choice in words, some axes left out.
pub fn without(axes: &[Axis], choice: &[usize], left_out: &[usize]) -> String {
    let keep: Vec<usize> = (0..axes.len()).filter(|at| !left_out.contains(at)).collect();
    let axes: Vec<Axis> = keep.iter().map(|at| axes[*at].clone()).collect();
    let choice: Vec<usize> = keep.iter().map(|at| choice[*at]).collect();
    describe(&axes, &choice)
}

fn with(others: &str) -> String {
    if others.is_empty() { String::new() } else { format!("with {others}: ") }
}

/// By which figure throughput is told: I/Os, or bytes if the I/Os are not all of one size.
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

fn knee(axes: &[Axis], points: &[Seen], series: &Series) -> Option<Finding> {
    let axis = &axes[series.axis];
    let seen: Vec<(&Seen, &Figures)> =
        series.points.iter().filter_map(|at| Some((&points[*at], points[*at].figures.as_ref()?))).collect();
    if seen.len() < 3 {
        return None;
    }
    let metric = throughput_of(seen.iter().map(|(_, figures)| *figures));
    let x: Vec<f64> = seen.iter().map(|(_, figures)| figures.get(metric).unwrap_or(0.0)).collect();
    let label = |at: usize| axis.values[seen[at].0.choice[series.axis]].label.clone();
    let (least, most) = x.iter().fold((f64::MAX, 0.0f64), |(least, most), x| (least.min(*x), most.max(*x)));
    let first_best = x.iter().position(|x| equal(*x, most))?;
    let last = x.len() - 1;
    let plateau = x.iter().rposition(|x| *x < PLATEAU * most).map_or(0, |below| below + 1);
    let noun = metric.noun();
    let shown = match metric {
        Metric::Iops => iops(most),
        _ => metric.show(most),
    };
    let key = &axis.key;
    let mut text = with(&series.others(axes));
    if equal(least, most) {
        text += &format!("{noun} do not depend on {key} ({shown}, within 1 %)");
    } else if plateau > last {
        let (at, end) = (label(first_best), label(last));
        text += &format!(
            "{noun} are best at {key}={at} ({shown}) and fall to {:.0} % of that at {end}",
            x[last] / most * 100.0
        );
    } else if plateau == last {
        text += &format!(
            "{noun} still rise at the last value of {key}: {} at {}, {:.0} % more than at {}",
            shown,
            label(last),
            (x[last] / x[last - 1] - 1.0) * 100.0,
            label(last - 1)
        );
    } else if plateau == 0 {
        text += &format!("{noun} are within 5 % of their best ({shown}) at every {key}");
    } else {
        text += &format!("{noun} are within 5 % of their best ({shown}) from {key} {} on", label(plateau));
    }
    let rises = seen.windows(2).all(|pair| pair[0].0.outstanding < pair[1].0.outstanding);
    let concurrency = metric == Metric::Iops && rises && seen[0].0.outstanding.is_some();
    let (mut knee, mut little) = (None, None);
    // Where throughput keeps pace with what is outstanding, or never rises, power is the most at an end: no knee.
    let turn = concurrency.then(|| power_peak(&seen, &x)).flatten().filter(|at| (1..last).contains(at));
    if let (Some(at), Some(alone_ns), Some(measured_at)) =
        (turn, seen[0].1.get(Metric::MeanNs), seen[0].0.outstanding)
    {
        let corner =
            Corner { outstanding: most * alone_ns / 1e9, iops_max: most, latency_ns: alone_ns, measured_at };
        text += &format!(
            "; the knee, the most throughput for its latency, is at {}; Little's law ({} x {}) puts it at {} outstanding",
            label(at),
            iops(most),
            time(alone_ns),
            short(corner.outstanding)
        );
        if corner.measured_at > 1 {
            text += &format!(
                ", or fewer: the latency was measured with {} outstanding, not on an idle drive",
                corner.measured_at
            );
        }
        knee = Some(label(at));
        little = Some(corner);
    }
    let plateau = (plateau < last).then(|| label(plateau));
    let fact = Fact::Knee { key: key.clone(), others: series.others(axes), plateau, knee, little };
    Some(Finding { fact, text })
}

/// The first point whose throughput for its latency is within 1 % of the most.
fn power_peak(seen: &[(&Seen, &Figures)], x: &[f64]) -> Option<usize> {
    let latency: Option<Vec<f64>> = seen.iter().map(|(_, figures)| figures.get(Metric::MeanNs)).collect();
    let latency = latency.filter(|latency| latency.iter().all(|ns| *ns > 0.0))?;
    let power: Vec<f64> = x.iter().zip(&latency).map(|(x, latency)| x / latency).collect();
    let most = power.iter().copied().fold(0.0, f64::max);
    power.iter().position(|power| equal(*power, most))
}

/// Figures in which one value may overtake another. I/Os and bytes a second would say the same.
const CONTESTED: [Metric; 6] = [
    Metric::Iops,
    Metric::MeanNs,
    Metric::P99Ns,
    Metric::WireBytesPerIo,
    Metric::PayloadBytesPerIo,
    Metric::WriteAmplification,
];

/// What the values of `names` do to each other along a numeric axis.
fn crossovers(axes: &[Axis], points: &[Seen], names: usize, along: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    let all = series(axes, points, along);
    for (index, one) in all.iter().enumerate() {
        for other in &all[index + 1..] {
            let differ: Vec<usize> =
                (0..axes.len()).filter(|at| one.others[*at] != other.others[*at]).collect();
            let rivals = [one.others[names], other.others[names]];
            if differ == [names] && (rivals[0] == 0 || rivals.iter().all(|at| *at < RIVALS_MAX)) {
                found.extend(between(axes, points, names, one, other));
            }
        }
    }
    found
}

fn between(axes: &[Axis], points: &[Seen], names: usize, one: &Series, other: &Series) -> Vec<Finding> {
    let axis = &axes[one.axis];
    let label = |series: &Series| axes[names].values[series.others[names]].label.clone();
    let (a, b) = (label(one), label(other));
    let others = without(axes, &one.others, &[one.axis, names]);
    let pairs: Vec<(usize, &Figures, &Figures)> = one
        .points
        .iter()
        .zip(&other.points)
        .filter_map(|(a, b)| {
            Some((points[*a].choice[one.axis], points[*a].figures.as_ref()?, points[*b].figures.as_ref()?))
        })
        .collect();
    let (mut found, mut ahead, mut always) = (Vec::new(), Vec::new(), Vec::new());
    // How single payloads cross shows in the mean; throughput and the tail would only repeat it.
    let crossing = |figures: &Figures| figures.get(Metric::HostNsPerIo).is_some();
    let is_crossing = is_method(&axes[names]) && pairs.iter().all(|(_, a, b)| crossing(a) && crossing(b));
    let repeats = |metric: &Metric| is_crossing && matches!(metric, Metric::Iops | Metric::P99Ns);
    for metric in CONTESTED.into_iter().filter(|metric| !repeats(metric)) {
        // How far `b` is ahead of `a`, and who leads for certain.
        let leads: Vec<(usize, f64, i32)> = pairs
            .iter()
            .filter_map(|(at, of_a, of_b)| {
                let (a, b) = (of_a.get(metric)?, of_b.get(metric)?);
                let lead = if metric.more_is_better() { b - a } else { a - b };
                let who = if equal(a, b) { 0 } else { lead.total_cmp(&0.0) as i32 };
                Some((*at, lead, who))
            })
            .collect();
        if leads.len() < 2 {
            continue;
        }
        let certain: Vec<usize> = (0..leads.len()).filter(|at| leads[*at].2 != 0).collect();
        let turns: Vec<_> = certain.windows(2).filter(|turn| leads[turn[0]].2 != leads[turn[1]].2).collect();
        if turns.is_empty() {
            let who = certain.first().map(|at| if leads[*at].2 > 0 { b.clone() } else { a.clone() });
            always.push(certain.len() == leads.len());
            ahead.push((metric, who));
        }
        for turn in turns {
            let (leader, behind) = if leads[turn[1]].2 > 0 { (&b, &a) } else { (&a, &b) };
            let value = |at: usize| &axis.values[leads[at].0];
            let (Some(at), from, to) =
                (interpolated(axis, &leads[turn[0]..=turn[1]]), value(turn[0]), value(turn[1]))
            else {
                continue;
            };
            let is_near = from.number.zip(to.number).is_some_and(|(from, to)| to <= 2.0 * from);
            let at = is_near.then_some(at);
            let about = at.map(|at| format!(" (at about {} by interpolation)", on_scale(&axis.scale, at)));
            let text = format!(
                "{}{leader} overtakes {behind} between {} {} and {}{}, in {}",
                with(&others),
                axis.key,
                from.label,
                to.label,
                about.unwrap_or_default(),
                metric.noun()
            );
            let fact = Fact::Crossover {
                key: axis.key.clone(),
                others: others.clone(),
                metric,
                leader: leader.clone(),
                behind: behind.clone(),
                between: (from.label.clone(), to.label.clone()),
                at,
            };
            found.push(Finding { fact, text });
        }
    }
    if !ahead.is_empty() {
        let list = ahead.iter().zip(&always).map(|((metric, who), always)| match (who, always) {
            (Some(who), true) => format!("{} ({who} is ahead)", metric.noun()),
            (Some(who), false) => format!("{} ({who} is ahead or equal)", metric.noun()),
            (None, _) => format!("{} (equal)", metric.noun()),
        });
        let list = list.collect::<Vec<_>>().join(", ");
        let text = format!("{}{a} and {b} never change places over {} in {list}", with(&others), axis.key);
        let fact = Fact::NoCrossover { key: axis.key.clone(), others, values: (a, b), ahead };
        found.push(Finding { fact, text });
    }
    found
}

/// Where the lead changes its sign, on the axis as it is drawn.
fn interpolated(axis: &Axis, leads: &[(usize, f64, i32)]) -> Option<f64> {
    let pair = leads.windows(2).find(|pair| pair[0].1 * pair[1].1 <= 0.0 && pair[0].1 != pair[1].1)?;
    let (low, high) = (axis.values[pair[0].0].number?, axis.values[pair[1].0].number?);
    let part = pair[0].1 / (pair[0].1 - pair[1].1);
    if axis.is_geometric() {
        let at = libm::log(low) + part * (libm::log(high) - libm::log(low));
        return Some(libm::exp(at));
    }
    Some(low + part * (high - low))
}

fn best(axes: &[Axis], points: &[Seen]) -> Vec<Finding> {
    let done: Vec<(usize, &Figures)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at, point.figures.as_ref()?))).collect();
    if done.len() < 2 {
        return Vec::new();
    }
    let throughput = throughput_of(done.iter().map(|(_, figures)| *figures));
    let mut found = Vec::new();
    for (metric, noun) in [(throughput, "most throughput"), (Metric::P99Ns, "least p99 latency")] {
        let all: Vec<(usize, f64, f64)> = done
            .iter()
            .filter_map(|(at, figures)| {
                Some((*at, figures.get(metric)?, figures.get(Metric::MeanNs).unwrap_or(0.0)))
            })
            .collect();
        let sign = if metric.more_is_better() { -1.0 } else { 1.0 };
        let Some(top) =
            all.iter().map(|(_, value, _)| *value).min_by(|a, b| (sign * a).total_cmp(&(sign * b)))
        else {
            continue;
        };
        let mut equals: Vec<_> = all.iter().filter(|(_, value, _)| equal(*value, top)).copied().collect();
        if equals.len() == all.len() {
            let what = format!("all {} points are equal in {} (within 1 %)", all.len(), metric.noun());
            let (point, _, _) = equals.remove(0);
            let equal = equals.iter().map(|(at, _, _)| *at).collect();
            found.push(Finding { fact: Fact::Best { metric, point, equal }, text: what });
            continue;
        }
        let least = equals.iter().map(|(_, _, mean)| *mean).fold(f64::MAX, f64::min);
        let Some(chosen) = equals.iter().position(|(_, _, mean)| equal(*mean, least)) else { continue };
        let (point, value, _) = equals.remove(chosen);
        let shown = match metric {
            Metric::Iops => iops(value),
            _ => metric.show(value),
        };
        let mut text = format!("{noun}: {shown} at {}", describe(axes, &points[point].choice));
        match equals.len() {
            0 => {}
            1..=3 => {
                let names = equals.iter().map(|(at, _, _)| describe(axes, &points[*at].choice));
                text += &format!(" (equal within 1 %: {})", names.collect::<Vec<_>>().join("; "));
            }
            more => text += &format!(" ({more} others are equal within 1 %)"),
        }
        let equal = equals.iter().map(|(at, _, _)| *at).collect();
        found.push(Finding { fact: Fact::Best { metric, point, equal }, text });
    }
    found
}

/// "372 K IOPS".
fn iops(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.2} M IOPS", value / 1e6),
        value if value >= 1e4 => format!("{:.0} K IOPS", value / 1e3),
        value => format!("{value:.0} IOPS"),
    }
}

/// A number with about three digits.
fn short(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A number on an axis, for people.
fn on_scale(scale: &Scale, at: f64) -> String {
    match scale {
        Scale::Numbers(unit) if unit == "B" && at < 1024.0 => Bytes(at as u64).to_string(),
        Scale::Numbers(unit) if unit == "B" && at < 1048576.0 => format!("{:.1} KiB", at / 1024.0),
        Scale::Numbers(unit) if unit == "B" => format!("{:.1} MiB", at / 1048576.0),
        Scale::Numbers(unit) if unit == "ns" => time(at),
        Scale::Numbers(unit) if !unit.is_empty() => format!("{} {unit}", short(at)),
        _ => short(at),
    }
}

#[cfg(test)]
mod tests;
