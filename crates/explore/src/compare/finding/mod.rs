//! Findings of a comparison, in words: knees, crossovers, effects and the best point.
//!
//! Terms. A *series* is the points along one key, with all other keys equal. Its *plateau* begins at the
//! first value from which throughput stays within 5 % of the series' best. In a closed loop with N
//! outstanding I/Os, Little's law states N = X R (throughput times mean latency), so X(N) <= min(N / R_min,
//! X_max): the asymptotic bounds of operational analysis (Denning and Buzen, "The operational analysis of
//! queueing network models", Computing Surveys 1978). They meet in a *corner* at N* = X_max R_min: with fewer
//! I/Os the drive must idle, with more some must wait. The *knee* is measured, not computed: the point with
//! the most throughput for its latency, X / R (Kleinrock, "Power and deterministic rules of thumb for
//! probabilistic problems in computer communications", ICC 1979). The plateau begins well beyond the corner
//! if requests are distributed randomly over resources: at N* some dies have several reads and others none. A
//! *crossover* lies between two values of a numeric key if one of two series leads at the first and the other
//! at the second.
//!
//! An *effect* is the set of figures that differ between the first value of a key of the drive and another.
//!
//! No claim is made about a difference below 1 %, a knee in fewer than three points, or a failed point; nor, of points with several
//! replicates, about a difference whose 95 % intervals overlap.

mod agreement;
mod effect;
pub(super) mod fact;

use super::sizes::is_method;
use super::vary::{Axis, Scale};
use crate::compare::plan::describe;
use byteway_results::figures::{Figures, Metric, equal};
use fact::{RIVALS_MAX, with};

pub use fact::{Corner, Fact, Finding, FindingInput, Series, series, throughput_of, without};

use byteway_text::table::time;
use byteway_text::units::Bytes;

/// Throughput on the plateau, relative to the best.
const PLATEAU: f64 = 0.95;

/// Findings of one kind, at most.
const FINDINGS_MAX: usize = 60;

/// Findings shown unfolded, at most.
pub const SHOWN_MAX: usize = 5;

impl Fact {
    /// Unfolded findings of its kind, at most, if there are others. Comparisons in pairs produce one for each
    /// pair.
    fn shown_max(&self) -> usize {
        match self {
            Fact::Reach { .. } | Fact::Crossover { .. } => SHOWN_MAX - 1,
            _ => 2,
        }
    }

    /// Whether it is the first of its kind: the latency of a single payload; other figures follow from it or
    /// agree.
    fn is_first_of_kind(&self) -> bool {
        !matches!(self, Fact::Crossover { metric, .. } if *metric != Metric::MeanNs)
    }

    /// Rank by importance, smallest first: doubts about the figures, answers, summaries, and crossovers that
    /// do not occur.
    fn weight(&self, sizes_differ: bool) -> usize {
        match self {
            Fact::Fallback { .. } => 0,
            Fact::Gain { .. } => 1,
            Fact::Reach { .. } => 2,
            Fact::Knee { knee: Some(_), .. } => 3,
            // The most bytes per second are trivially those of the longest I/Os, and the lowest latency that
            // of the shortest.
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

/// Sorts by importance: a few of each kind, then the others by kind.
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

/// All findings on the points. `by_latency` if throughput says nothing of the drive, because it is what was asked for.
pub fn findings(axes: &[Axis], points: &[FindingInput], by_latency: bool) -> Vec<Finding> {
    let mut all = best(axes, points, by_latency);
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
        let text = format!("{count} more of this kind are omitted here");
        found.push(Finding { fact: Fact::Omitted { count }, text });
    }
    found
}

fn knee(axes: &[Axis], points: &[FindingInput], series: &Series) -> Option<Finding> {
    let axis = &axes[series.axis];
    let seen: Vec<(&FindingInput, &Figures)> =
        series.points.iter().filter_map(|at| Some((&points[*at], points[*at].figures.as_ref()?))).collect();
    if seen.len() < 3 {
        return None;
    }
    let metric = throughput_of(seen.iter().map(|(_, figures)| *figures));
    let x: Vec<f64> = seen.iter().map(|(_, figures)| figures.get(metric).unwrap_or(0.0)).collect();
    let is_close = |a: usize, b: usize| seen[a].1.is_close(seen[b].1, metric);
    let label = |at: usize| axis.values[seen[at].0.choice[series.axis]].label.clone();
    let by_throughput = |a: &usize, b: &usize| x[*a].total_cmp(&x[*b]);
    let highest = (0..x.len()).max_by(by_throughput)?;
    let most = x[highest];
    let first_best = (0..x.len()).find(|at| is_close(*at, highest))?;
    let last = x.len() - 1;
    let is_below = |at: &usize| x[*at] < PLATEAU * most && !is_close(*at, highest);
    let plateau = (0..x.len()).rev().find(is_below).map_or(0, |below| below + 1);
    let is_chance = x.iter().skip(plateau).any(|x| *x < PLATEAU * most);
    let or_chance = if is_chance { ", or within chance of it" } else { "" };
    let noun = metric.noun();
    let shown = match metric {
        Metric::Iops => iops(most),
        _ => metric.show(most),
    };
    let key = &axis.key;
    let mut text = with(&series.others(axes));
    if (0..x.len()).all(|one| (0..one).all(|other| is_close(one, other))) {
        text += &format!("{noun} do not depend on {key} ({shown}, {})", seen[0].1.closeness());
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
        text += &format!("{noun} are within 5 % of their best ({shown}{or_chance}) at every {key}");
    } else {
        text += &format!(
            "{noun} are within 5 % of their best ({shown}{or_chance}) from {key} {} on",
            label(plateau)
        );
    }
    let rises = seen.windows(2).all(|pair| pair[0].0.outstanding < pair[1].0.outstanding);
    let concurrency = metric == Metric::Iops && rises && seen[0].0.outstanding.is_some();
    let (mut knee, mut little) = (None, None);
    // Where throughput is proportional to the depth, or constant, power is largest at an end: no knee.
    let turn = concurrency.then(|| power_peak(&seen, &x)).flatten().filter(|(at, _)| (1..last).contains(at));
    if let Some((_, false)) = turn {
        text += &format!(
            "; there is no certain knee: several values are equal in throughput relative to latency ({})",
            seen[0].1.closeness()
        );
    }
    let turn = turn.filter(|(_, is_certain)| *is_certain).map(|(at, _)| at);
    if let (Some(at), Some(alone_ns), Some(measured_at)) =
        (turn, seen[0].1.get(Metric::MeanNs), seen[0].0.outstanding)
    {
        let corner =
            Corner { outstanding: most * alone_ns / 1e9, iops_max: most, latency_ns: alone_ns, measured_at };
        text += &format!(
            "; the knee, the highest throughput relative to latency, is at {}; Little's law ({} x {}) puts it at {} outstanding",
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

/// The first point whose power (throughput / latency) is within 1 % of the largest, and whether the intervals tell it from all others.
fn power_peak(seen: &[(&FindingInput, &Figures)], x: &[f64]) -> Option<(usize, bool)> {
    let latency: Option<Vec<f64>> = seen.iter().map(|(_, figures)| figures.get(Metric::MeanNs)).collect();
    let latency = latency.filter(|latency| latency.iter().all(|ns| *ns > 0.0))?;
    let power: Vec<f64> = x.iter().zip(&latency).map(|(x, latency)| x / latency).collect();
    let most = power.iter().copied().fold(0.0, f64::max);
    let peak = power.iter().position(|power| equal(*power, most))?;
    let is_chance = |at: usize| at != peak && is_power_chance(seen[at].1, seen[peak].1);
    Some((peak, !(0..power.len()).any(is_chance)))
}

/// Whether the intervals of two points' power (throughput / latency) overlap: the bounds of a quotient are the quotients of bounds. Never in
/// single runs.
pub(crate) fn is_power_chance(one: &Figures, other: &Figures) -> bool {
    let bounds = |figures: &Figures| {
        let (iops, mean) = (figures.get(Metric::Iops)?, figures.get(Metric::MeanNs)?);
        let (of_iops, of_mean) = (figures.half_width(Metric::Iops)?, figures.half_width(Metric::MeanNs)?);
        let high = if mean > of_mean { (iops + of_iops) / (mean - of_mean) } else { f64::INFINITY };
        Some(((iops - of_iops) / (mean + of_mean), high))
    };
    let both = bounds(one).zip(bounds(other));
    both.is_some_and(|((low, high), (other_low, other_high))| low <= other_high && other_low <= high)
}

/// Figures in which one value may overtake another. I/Os and bytes per second are equivalent.
const CONTESTED: [Metric; 6] = [
    Metric::Iops,
    Metric::MeanNs,
    Metric::P99Ns,
    Metric::WireBytesPerIo,
    Metric::PayloadBytesPerIo,
    Metric::WriteAmplification,
];

/// Crossovers between the values of `names` along a numeric axis.
fn crossovers(axes: &[Axis], points: &[FindingInput], names: usize, along: usize) -> Vec<Finding> {
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

fn between(
    axes: &[Axis],
    points: &[FindingInput],
    names: usize,
    one: &Series,
    other: &Series,
) -> Vec<Finding> {
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
    // The transfer of single payloads shows in the mean; throughput and tail would repeat it.
    let crossing = |figures: &Figures| figures.get(Metric::HostNsPerIo).is_some();
    let is_crossing = is_method(&axes[names]) && pairs.iter().all(|(_, a, b)| crossing(a) && crossing(b));
    let repeats = |metric: &Metric| is_crossing && matches!(metric, Metric::Iops | Metric::P99Ns);
    for metric in CONTESTED.into_iter().filter(|metric| !repeats(metric)) {
        // The lead of `b` over `a`, and the sign of a certain lead.
        let leads: Vec<(usize, f64, i32)> = pairs
            .iter()
            .filter_map(|(at, of_a, of_b)| {
                let (a, b) = (of_a.get(metric)?, of_b.get(metric)?);
                let lead = if metric.more_is_better() { b - a } else { a - b };
                let who = if of_a.is_close(of_b, metric) { 0 } else { lead.total_cmp(&0.0) as i32 };
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
        let is_chance =
            |(_, a, b): &&(usize, &Figures, &Figures)| CONTESTED.iter().any(|metric| a.is_chance(b, *metric));
        let chance = pairs.iter().find(is_chance).map(|(_, a, _)| format!("; equal: {}", a.closeness()));
        let text = format!(
            "{}{a} and {b} do not cross over the range of {} in {list}{}",
            with(&others),
            axis.key,
            chance.unwrap_or_default()
        );
        let fact = Fact::NoCrossover { key: axis.key.clone(), others, values: (a, b), ahead };
        found.push(Finding { fact, text });
    }
    found
}

/// Zero of the lead, interpolated on the scale of the axis.
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

fn best(axes: &[Axis], points: &[FindingInput], by_latency: bool) -> Vec<Finding> {
    let done: Vec<(usize, &Figures)> =
        points.iter().enumerate().filter_map(|(at, point)| Some((at, point.figures.as_ref()?))).collect();
    if done.len() < 2 {
        return Vec::new();
    }
    let first = match by_latency {
        true => (Metric::MeanNs, "lowest mean latency"),
        false => (throughput_of(done.iter().map(|(_, figures)| *figures)), "highest throughput"),
    };
    let closeness = done[0].1.closeness();
    let mut found = Vec::new();
    for (metric, noun) in [first, (Metric::P99Ns, "lowest p99 latency")] {
        let all: Vec<(usize, f64, f64, &Figures)> = done
            .iter()
            .filter_map(|(at, figures)| {
                Some((*at, figures.get(metric)?, figures.get(Metric::MeanNs).unwrap_or(0.0), *figures))
            })
            .collect();
        let sign = if metric.more_is_better() { -1.0 } else { 1.0 };
        let Some((.., top)) = all.iter().min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1))) else {
            continue;
        };
        let mut equals: Vec<_> =
            all.iter().filter(|(.., figures)| figures.is_close(top, metric)).copied().collect();
        let are_equal = |(.., one): &(usize, f64, f64, &Figures)| {
            all.iter().all(|(.., other)| one.is_close(other, metric))
        };
        // One with a wide interval may be close to each of two that differ.
        if equals.len() == all.len() && all.iter().all(are_equal) {
            let what = format!("all {} points are equal in {} ({closeness})", all.len(), metric.noun());
            let (point, ..) = equals.remove(0);
            let equal = equals.iter().map(|(at, ..)| *at).collect();
            found.push(Finding { fact: Fact::Best { metric, point, equal }, text: what });
            continue;
        }
        let least = equals.iter().map(|(_, _, mean, _)| *mean).fold(f64::MAX, f64::min);
        let Some(chosen) = equals.iter().position(|(_, _, mean, _)| equal(*mean, least)) else { continue };
        let (point, value, ..) = equals.remove(chosen);
        let shown = match metric {
            Metric::Iops => iops(value),
            _ => metric.show(value),
        };
        let mut text = format!("{noun}: {shown} at {}", describe(axes, &points[point].choice));
        match equals.len() {
            0 => {}
            1..=3 => {
                let names = equals.iter().map(|(at, ..)| describe(axes, &points[*at].choice));
                text += &format!(" (equal {closeness}: {})", names.collect::<Vec<_>>().join("; "));
            }
            more => text += &format!(" ({more} others are equal {closeness})"),
        }
        let equal = equals.iter().map(|(at, ..)| *at).collect();
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

/// A value on an axis, in words.
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
