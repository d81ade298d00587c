//! Fitting: from measurements to constants.
//!
//! 1. Points are held out, by name or every so many of a kind.
//! 2. The base is simulated, and constants are moved by closed-form estimates.
//! 3. The search descends with all constants free. What the derivatives there don't determine is kept at the
//!    base's value, one constant after the other, the least certain first; the rest is searched again.
//! 4. All points are simulated with the result: fitted ones and those held out.

use super::constant::{Constant, Values, settings, tells_page_types};
use super::error::FitError;
use super::estimate::{estimate, share_of_type};
use super::identify::{Reason, half_widths, weakest};
use super::measurement::{Figure, Load, Measurements, Point, State};
use super::model::{Model, Setup};
use super::outcome::{ConstantOutcome, Fit, FittedPoint, Residual, Verdict};
use super::search::Search;
use super::structure;
use byteway_console::error::{InputError, suggest};
use byteway_console::interrupt::Interrupt;
use byteway_console::progress::Points;
use byteway_console::units::excerpt;
use byteway_scenario::profile::Profile;

/// Which points are held out.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldOut {
    /// Of each kind of points the third, and every fourth after it.
    EveryFourth,
    /// Those with these names.
    Named(Vec<String>),
}

/// What to fit, and how.
pub struct Request<'a> {
    /// Name of the measurements' file, for the profile.
    pub file: String,
    /// The measurements.
    pub measurements: Measurements,
    /// Base, host, further keys.
    pub setup: Setup,
    /// Points that are not fitted.
    pub hold_out: HoldOut,
    /// Whether numbers of channels and dies, and the link, are searched, too.
    pub structure: bool,
    /// Number of threads, at least 1. The result does not depend on it.
    pub threads: usize,
    /// Interrupt flag: the best constants so far are kept.
    pub interrupt: &'a Interrupt,
    /// Progress, in runs.
    pub bar: &'a dyn Points,
}

/// Runs of a fit with this many points, roughly, for a display of progress.
pub fn runs(points: usize) -> usize {
    points * 40
}

/// Least standard deviation of a residual, in tolerances: measurements repeat no better than that.
const SPREAD_MIN: f64 = 1.0;

/// Half of a 95 % confidence interval by the residuals that remain, above which a constant is not called
/// fitted.
const HALF_WIDTH_SHOWN: f64 = 0.3;

/// Rounds of searching and keeping constants, at most.
const ROUNDS_MAX: usize = 8;

/// Fits constants of a profile to measurements.
///
/// # Errors
/// The input is invalid, a run failed, or there was an interrupt before the base was simulated.
pub fn fit(request: Request<'_>) -> Result<Fit, FitError> {
    let Request { file, mut measurements, mut setup, hold_out, structure, threads, interrupt, bar } = request;
    let mut notes = std::mem::take(&mut measurements.notes);
    let probe = Model::new(&setup, &[], threads, interrupt, bar)?.base;
    select(&mut measurements.points, &probe);
    let points = measurements.points;
    let held = held_out(&points, &hold_out)?;
    let fitted: Vec<usize> = (0..points.len()).filter(|at| !held[*at]).collect();
    if fitted.is_empty() {
        let what = "all points are held out: none is left to fit";
        return Err(InputError::new(what, "hold fewer out, or write --hold-out none").into());
    }
    let mut derived = Vec::new();
    if structure {
        derived = structure::search(&mut setup, &points, &fitted, threads, interrupt, bar)?;
    }
    let quiet = Interrupt::default();
    let mut model = Model::new(&setup, &points, threads, interrupt, bar)?;
    let base = model.base.clone();
    let (mut values, start) = {
        let base_values: Values =
            Constant::all(&base).into_iter().map(|constant| (constant, constant.of(&base))).collect();
        let low = |&(constant, value): &(Constant, f64)| (constant, value.max(constant.bounds().low));
        (base_values.iter().map(low).collect::<Values>(), base_values)
    };
    // The base as it is: what it gives without any fit, and whether it can be simulated at all.
    let requests: Vec<_> = (0..points.len()).map(|at| (at, start.clone())).collect();
    let on_base: Option<Vec<Vec<f64>>> = model.figures(&requests)?.into_iter().collect();
    let Some(on_base) = on_base else {
        let what = format!("`{}` can't be simulated under these loads", setup.base);
        return Err(InputError::new(what, "choose a base with room for the depths that were measured").into());
    };
    let chosen: Vec<&Point> = fitted.iter().map(|at| &points[*at]).collect();
    let simulated: Vec<Vec<f64>> = fitted.iter().map(|at| on_base[*at].clone()).collect();
    let origin = values.clone();
    values = estimate(&base, &values, &chosen, &simulated);
    let mut search = Search { model: &mut model, points: fitted, base: origin, interrupted: false };
    let mut free: Vec<usize> = (0..values.len()).collect();
    let mut verdicts: Vec<Option<Reason>> = vec![None; values.len()];
    let found = settle(&mut search, &mut values, &start, &mut free, &mut verdicts, &base);
    let half = match found {
        Err(FitError::Interrupted) => {
            search.interrupted = true;
            vec![None; values.len()]
        }
        found => found?,
    };
    let (interrupted, fitted) = (search.interrupted, search.points);
    let outcomes = constants(&values, &start, &verdicts, &half, interrupted);
    let mut final_values = values;
    for (at, outcome) in outcomes.iter().enumerate() {
        if !matches!(outcome.verdict, Verdict::Fitted { .. }) {
            final_values[at].1 = start[at].1;
        }
    }
    let requests: Vec<_> = (0..points.len()).map(|at| (at, final_values.clone())).collect();
    // After an interrupt the residuals of the result are still worth the second that they take.
    if interrupted {
        model.interrupt = &quiet;
    }
    let on_result = model.figures(&requests)?;
    let residuals = |at: usize| -> Vec<Residual> {
        let found = on_result[at].as_ref();
        let each = points[at].figures.iter().enumerate();
        let of = |(number, (figure, measured)): (usize, &(Figure, f64))| Residual {
            figure: *figure,
            measured: *measured,
            base: on_base[at][number],
            simulated: found.map_or(f64::NAN, |found| found[number]),
        };
        each.map(of).collect()
    };
    let rows = (0..points.len()).map(|at| FittedPoint {
        name: points[at].name.clone(),
        load: points[at].load.clone(),
        source: points[at].source.clone(),
        held_out: !fitted.contains(&at),
        residuals: residuals(at),
    });
    if let Some(note) = limit_note(&points, &base) {
        notes.push(note);
    }
    Ok(Fit {
        file,
        base: setup.base.clone(),
        host: setup.host.clone(),
        sets: setup.sets.clone(),
        settings: settings(&base, &final_values),
        derived,
        constants: outcomes,
        points: rows.collect(),
        notes,
        partial: interrupted,
        profile: base,
    })
}

/// Searches, and keeps what is not identified at its base value; returns half-widths of confidence
/// intervals.
fn settle(
    search: &mut Search<'_, '_>,
    values: &mut Values,
    start: &Values,
    free: &mut Vec<usize>,
    verdicts: &mut [Option<Reason>],
    base: &Profile,
) -> Result<Vec<Option<f64>>, FitError> {
    let spread = |residuals: &[f64], free: usize| {
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        (squares / residuals.len().saturating_sub(free).max(1) as f64).sqrt().max(SPREAD_MIN)
    };
    // What no point depends on costs runs in every derivative.
    let jacobian = search.jacobian(values, free)?;
    let untouched: Vec<usize> =
        (0..free.len()).filter(|column| jacobian.norm(*column) == 0.0).map(|column| free[column]).collect();
    for at in untouched {
        keep(at, Reason::Untouched, values, start, free, verdicts);
    }
    for _ in 0..ROUNDS_MAX {
        search.descend(values, free)?;
        if search.interrupted {
            return Ok(vec![None; values.len()]);
        }
        let mut jacobian = search.jacobian(values, free)?;
        // The spread says how well figures repeat, so a bad fit of some must not hide what others determine.
        let mut dropped = false;
        while let Some((column, reason)) = weakest(&jacobian, SPREAD_MIN, free, values, base) {
            keep(free[column], reason, values, start, free, verdicts);
            let left: Vec<usize> = (0..=free.len()).filter(|at| *at != column).collect();
            jacobian = jacobian.columns(&left);
            dropped = true;
        }
        if !dropped {
            let Some(residuals) = search.residuals(values)? else { break };
            let widths = half_widths(&jacobian, spread(&residuals, free.len()));
            // Residuals that are larger than tolerances leave more open.
            let open = widths.iter().copied().enumerate().max_by(|left, right| left.1.total_cmp(&right.1));
            if let Some((column, half_width)) = open.filter(|(_, half_width)| *half_width > HALF_WIDTH_SHOWN)
            {
                keep(free[column], Reason::Weak { half_width }, values, start, free, verdicts);
                continue;
            }
            let mut half = vec![None; values.len()];
            free.iter().zip(widths).for_each(|(at, width)| half[*at] = Some(width));
            return Ok(half);
        }
    }
    Ok(vec![None; values.len()])
}

/// Keeps a constant at its base value.
fn keep(
    at: usize,
    reason: Reason,
    values: &mut Values,
    start: &Values,
    free: &mut Vec<usize>,
    verdicts: &mut [Option<Reason>],
) {
    verdicts[at] = Some(reason);
    values[at].1 = start[at].1;
    free.retain(|other| *other != at);
}

/// What became of each constant.
fn constants(
    values: &Values,
    start: &Values,
    verdicts: &[Option<Reason>],
    half: &[Option<f64>],
    interrupted: bool,
) -> Vec<ConstantOutcome> {
    let each = values.iter().zip(start).enumerate();
    let given = |constant: Constant| -> Vec<Constant> {
        let rests = |(_, reason): &(usize, &Option<Reason>)| matches!(reason, Some(Reason::Together { with, .. }) if with.contains(&constant));
        verdicts.iter().enumerate().filter(rests).map(|(at, _)| values[at].0).collect()
    };
    let outcome = |(at, ((constant, value), (_, base))): (usize, (&(Constant, f64), &(Constant, f64)))| {
        let bounds = constant.bounds();
        let at_bound = *value <= bounds.low * 1.001 || *value >= bounds.high * 0.999;
        let verdict = match (&verdicts[at], half[at]) {
            (Some(reason), _) => Verdict::Assumed(reason.clone()),
            (None, _) if at_bound => Verdict::Assumed(Reason::AtBound),
            (None, Some(half_width)) => {
                Verdict::Fitted { half_width: Some(half_width), given: given(*constant) }
            }
            (None, None) if interrupted => Verdict::Fitted { half_width: None, given: given(*constant) },
            (None, None) => Verdict::Assumed(Reason::Weak { half_width: f64::INFINITY }),
        };
        let value = if matches!(verdict, Verdict::Fitted { .. }) { *value } else { *base };
        ConstantOutcome { constant: *constant, base: *base, value, verdict }
    };
    each.map(outcome).collect()
}

/// Keeps of each point the percentiles that tell page types of the base apart.
fn select(points: &mut [Point], base: &Profile) {
    for point in points {
        let types = base.flash.read.len();
        let tells = tells_page_types(&point.load, base);
        let shares: Vec<f64> = point
            .figures
            .iter()
            .filter_map(
                |(figure, _)| if let Figure::Percentile(_, share) = figure { Some(*share) } else { None },
            )
            .collect();
        let nearest = |kind: usize| {
            let wanted = share_of_type(kind, types);
            let near = shares
                .iter()
                .copied()
                .min_by(|left, right| (left - wanted).abs().total_cmp(&(right - wanted).abs()));
            near.filter(|near| (near - wanted).abs() < 25.0 / types as f64)
        };
        let keep: Vec<f64> = if tells { (0..types).filter_map(nearest).collect() } else { Vec::new() };
        // A point of percentiles alone, from a table, keeps them.
        let alone = point.figures.len() == shares.len();
        point.figures.retain(|(figure, _)| match figure {
            Figure::Percentile(_, share) => alone || keep.contains(share),
            _ => true,
        });
    }
}

/// Points of one kind: they are interpolated between each other.
fn kind_of(load: &Load) -> (bool, bool, State, bool, bool) {
    (load.rw.has_reads(), load.has_writes(), load.state, load.outstanding() > 1, load.rw.is_sequential())
}

/// For each point, whether it is held out.
fn held_out(points: &[Point], hold_out: &HoldOut) -> Result<Vec<bool>, InputError> {
    match hold_out {
        HoldOut::Named(names) => {
            if let Some(unknown) = names.iter().find(|name| !points.iter().any(|point| point.name == **name))
            {
                let known: Vec<&str> = points.iter().map(|point| point.name.as_str()).collect();
                let what = format!("--hold-out: there is no point `{}`", excerpt(unknown));
                return Err(InputError::new(what, suggest(unknown, &known)));
            }
            Ok(points.iter().map(|point| names.contains(&point.name)).collect())
        }
        HoldOut::EveryFourth => {
            let mut held = vec![false; points.len()];
            for (at, point) in points.iter().enumerate() {
                let before =
                    points[..at].iter().filter(|other| kind_of(&other.load) == kind_of(&point.load)).count();
                held[at] = before % 4 == 2;
            }
            // The last of a kind would be an extrapolation: of three the middle one is held out.
            for at in 0..points.len() {
                let same: Vec<usize> = (0..points.len())
                    .filter(|other| kind_of(&points[*other].load) == kind_of(&points[at].load))
                    .collect();
                if held[at] && same.last() == Some(&at) {
                    held[at] = false;
                    if same.len() == 3 {
                        held[same[1]] = true;
                    }
                }
            }
            Ok(held)
        }
    }
}

/// What the link of the base can't have carried.
fn limit_note(points: &[Point], base: &Profile) -> Option<String> {
    let most = points.iter().flat_map(|point| {
        point
            .figures
            .iter()
            .filter(|(figure, _)| matches!(figure, Figure::Iops(_)))
            .map(|(_, iops)| (iops * point.load.bs as f64, &point.name))
    });
    let (bytes, name) = most.max_by(|left, right| left.0.total_cmp(&right.0))?;
    let carries = byteway_lab::drive_model::DriveModel::of(base).link_rate;
    (bytes > carries * 1.05).then(|| {
        format!(
            "point `{name}` moved {}, more than PCIe Gen{} x{} of the base carries ({}): set `drive.override.link.generation` or \
             `lanes`, or add --structure",
            byteway_console::table::rate(bytes),
            base.link.generation,
            base.link.lanes,
            byteway_console::table::rate(carries)
        )
    })
}
