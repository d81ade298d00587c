//! Estimates in closed form, from which the search starts: latencies at depth 1 differ by what a constant adds,
//! rates by what it divides.

use super::constant::{Constant, Values, rounded};
use super::measurement::{Figure, Load, Point, State};
use byteway_scenario::profile::Profile;
use byteway_workload::Kind;

/// What was measured and what the base gives, of one figure.
struct Pair<'a> {
    load: &'a Load,
    figure: Figure,
    measured: f64,
    simulated: f64,
}

impl Pair<'_> {
    fn is_alone(&self) -> bool {
        self.load.outstanding() == 1
    }

    fn more(&self) -> f64 {
        self.measured - self.simulated
    }
}

/// The middle of some differences; `None` without any.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The share in percent at which a page type is found among reads of single pages: its middle.
pub(super) fn share_of_type(kind: usize, types: usize) -> f64 {
    (kind as f64 + 0.5) * 100.0 / types as f64
}

/// Moves the values of the base towards the measurements. `simulated` are the figures of `points` on the
/// base.
pub(super) fn estimate(base: &Profile, start: &Values, points: &[&Point], simulated: &[Vec<f64>]) -> Values {
    let pairs: Vec<Pair<'_>> = points
        .iter()
        .zip(simulated)
        .flat_map(|(point, simulated)| {
            point.figures.iter().zip(simulated).map(|((figure, measured), simulated)| Pair {
                load: &point.load,
                figure: *figure,
                measured: *measured,
                simulated: *simulated,
            })
        })
        .collect();
    let means = |kind: Kind, state: State, fits: &dyn Fn(&Load) -> bool| {
        let own = pairs.iter().filter(|pair| {
            pair.is_alone()
                && pair.figure == Figure::Mean(kind)
                && pair.load.state == state
                && fits(pair.load)
                && !pair.load.rw.is_mixed()
        });
        median(own.map(Pair::more).collect())
    };
    let small = |load: &Load| load.bs <= 4096;
    let large = |load: &Load| load.bs > 4096 && load.bs <= 65_536;
    let unwritten = means(Kind::Read, State::Unwritten, &small);
    let unwritten_large = means(Kind::Read, State::Unwritten, &large);
    let filled =
        means(Kind::Read, State::Filled, &small).or_else(|| means(Kind::Read, State::Filled, &large));
    let written =
        means(Kind::Write, State::Filled, &small).or_else(|| means(Kind::Write, State::Filled, &large));
    let types = base.flash.read.len();
    let sense = |kind: usize| {
        let wanted = share_of_type(kind, types);
        let own = pairs.iter().filter(|pair| match pair.figure {
            Figure::Percentile(Kind::Read, share) => {
                pair.is_alone() && small(pair.load) && (share - wanted).abs() < 50.0 / types as f64
            }
            _ => false,
        });
        let more = median(own.map(Pair::more).collect()).or(filled)?;
        Some(more - unwritten.unwrap_or(0.0))
    };
    let rates = pairs.iter().filter(|pair| {
        pair.figure == Figure::Iops(Kind::Write) && !pair.load.rw.is_mixed() && pair.load.rate.is_none()
    });
    let slower = median(rates.map(|pair| pair.simulated / pair.measured).collect());
    let moved = |(constant, value): &(Constant, f64)| {
        let (constant, value) = (*constant, *value);
        let better = match constant {
            Constant::ReadLatency => unwritten.map(|more| value + more),
            Constant::ReadLargeLatency => unwritten_large.map(|more| value + more),
            Constant::WriteLatency => written.map(|more| value + more),
            Constant::FlashRead(kind) => {
                sense(kind).map(|more| (value + more).clamp(value / 5.0, value * 5.0))
            }
            Constant::Program => slower.map(|factor| value * factor.clamp(0.2, 5.0)),
            _ => None,
        };
        let bounds = constant.bounds();
        let better = better.filter(|better| better.is_finite());
        (constant, rounded(constant, better.unwrap_or(value).clamp(bounds.low, bounds.high)))
    };
    start.iter().map(moved).collect()
}
