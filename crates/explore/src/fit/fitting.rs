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
use super::linear::Matrix;
use super::measurement::{Figure, Load, Measurements, Point, State};
use super::model::{Model, Setup};
use super::outcome::{ConstantOutcome, Fit, FittedPoint, Residual, Verdict};
use super::search::{STEPS_MAX, Search};
use super::structure;
use byteway_scenario::profile::Profile;
use byteway_text::error::{InputError, suggest};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::units::excerpt;

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
    let file = file.replace(char::is_control, "?");
    check_sets(&setup.sets)?;
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
        let begin = |&(constant, value): &(Constant, f64)| (constant, constant.visible(value));
        (base_values.iter().map(begin).collect::<Values>(), base_values)
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
    let mut search =
        Search { model: &mut model, points: fitted, base: origin, steps: STEPS_MAX, interrupted: false };
    let settled = settle(&mut search, values, &start, &base)?;
    let (interrupted, fitted) = (search.interrupted, search.points);
    let Settled { values, verdicts, half, .. } = settled;
    let outcomes = constants(&values, &start, &verdicts, &half, interrupted);
    let mut final_values = values;
    for (at, outcome) in outcomes.iter().enumerate() {
        if !matches!(outcome.verdict, Verdict::Fitted { .. }) {
            final_values[at].1 = start[at].1;
        }
    }
    let requests: Vec<_> = (0..points.len()).map(|at| (at, final_values.clone())).collect();
    // After an interrupt, too: without its residuals a result is worth little. But not for longer than a second.
    model.interrupt = &quiet;
    let on_result = if interrupted { model.some_figures(&requests)? } else { model.figures(&requests)? };
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
    let unknown = on_result.iter().filter(|found| found.is_none()).count();
    if interrupted && unknown > 0 {
        notes.push(format!("interrupted: residuals of {unknown} of {} points were not simulated", points.len()));
    }
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

/// Checks that the profile can name what these keys change.
fn check_sets(sets: &[String]) -> Result<(), InputError> {
    for set in sets {
        let (key, value) = set.split_once('=').unwrap_or((set, ""));
        let (key, value) = (key.trim(), value.trim());
        if matches!(key, "drive" | "drive.profile" | "drive.override") {
            let what =
                format!("`{key}` can't be set: the profile that is written names its base and each key");
            let help =
                "name the base by --base, and write a key each, such as drive.override.link.generation=4";
            return Err(InputError::new(what, help));
        }
        if key.starts_with("drive.override.") && value.starts_with('{') {
            let what = format!("`{}` sets a section as a whole", excerpt(set));
            let help = format!("write a key each, such as {key}.KEY=VALUE");
            return Err(InputError::new(what, help));
        }
    }
    Ok(())
}

/// Squares of residuals for each figure, in tolerances, below which a fit needs no more constants.
const ENOUGH: f64 = 3.0;

/// Factor by which more constants must lower the squares of the residuals to be worth it.
const WORTH: f64 = 0.6;

/// What a search found: values, constants that are free, why others aren't, half-widths of intervals.
#[derive(Clone)]
struct Settled {
    values: Values,
    free: Vec<usize>,
    verdicts: Vec<Option<Reason>>,
    half: Vec<Option<f64>>,
}

impl Settled {
    /// Keeps a constant at its base value.
    fn keep(&mut self, at: usize, reason: Reason, start: &Values) {
        self.verdicts[at] = Some(reason);
        self.values[at].1 = start[at].1;
        self.free.retain(|other| *other != at);
    }

    /// Keeps what these derivatives don't determine; whether there was anything.
    fn keep_open(&mut self, mut jacobian: Matrix, start: &Values, base: &Profile) -> bool {
        let mut any = false;
        // The spread says how well figures repeat, so a bad fit of some must not hide what others determine.
        while let Some((column, reason)) = weakest(&jacobian, SPREAD_MIN, &self.free, &self.values, base) {
            self.keep(self.free[column], reason, start);
            let left: Vec<usize> = (0..=self.free.len()).filter(|at| *at != column).collect();
            jacobian = jacobian.columns(&left);
            any = true;
        }
        any
    }
}

/// Searches with the constants that the derivatives at the estimate determine; and with all others, too, if that is
/// not enough and more of them are worth it. Along a line that the points leave open, a search would wander to
/// where some resource begins to limit, and take that for an answer.
fn settle(
    search: &mut Search<'_, '_>,
    estimated: Values,
    start: &Values,
    base: &Profile,
) -> Result<Settled, FitError> {
    let count = estimated.len();
    let mut all = Settled {
        values: estimated,
        free: (0..count).collect(),
        verdicts: vec![None; count],
        half: vec![None; count],
    };
    // Interrupted here, there is nothing better than the base.
    let jacobian = search.jacobian(&all.values, &all.free)?;
    // What no point depends on costs runs in every derivative.
    let touched: Vec<usize> = (0..count).filter(|column| jacobian.norm(*column) > 0.0).collect();
    for at in (0..count).filter(|at| !touched.contains(at)) {
        all.keep(at, Reason::Untouched, start);
    }
    let mut few = all.clone();
    few.keep_open(jacobian.columns(&touched), start, base);
    rounds(search, &mut few, start, base)?;
    let cost = |search: &mut Search<'_, '_>, settled: &Settled| -> Result<f64, FitError> {
        let residuals = search.residuals(&settled.values)?.unwrap_or_default();
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        Ok(if residuals.is_empty() { f64::INFINITY } else { squares / residuals.len() as f64 })
    };
    if search.interrupted || few.free.len() == all.free.len() {
        return Ok(few);
    }
    let with_few = cost(search, &few)?;
    if with_few <= ENOUGH {
        return Ok(few);
    }
    for (at, (_, value)) in few.values.iter().enumerate() {
        if few.free.contains(&at) {
            all.values[at].1 = *value;
        }
    }
    rounds(search, &mut all, start, base)?;
    let is_better = !search.interrupted && cost(search, &all)? < WORTH * with_few;
    Ok(if is_better { all } else { few })
}

/// Searches, and keeps what is not identified at its base value, until all that is free is identified.
fn rounds(
    search: &mut Search<'_, '_>,
    settled: &mut Settled,
    start: &Values,
    base: &Profile,
) -> Result<(), FitError> {
    for _ in 0..ROUNDS_MAX {
        search.descend(&mut settled.values, &settled.free)?;
        let jacobian = match search.interrupted {
            true => Err(FitError::Interrupted),
            false => search.jacobian(&settled.values, &settled.free),
        };
        let jacobian = match jacobian {
            Err(FitError::Interrupted) => {
                search.interrupted = true;
                return Ok(());
            }
            found => found?,
        };
        if settled.keep_open(jacobian.clone(), start, base) {
            continue;
        }
        let Some(residuals) = search.residuals(&settled.values)? else { return Ok(()) };
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let freedom = residuals.len().saturating_sub(settled.free.len()).max(1);
        let spread = (squares / freedom as f64).sqrt().max(SPREAD_MIN);
        let widths = half_widths(&jacobian, spread);
        // Residuals that are larger than tolerances leave more open.
        let open = widths.iter().copied().enumerate().max_by(|left, right| left.1.total_cmp(&right.1));
        if let Some((column, half_width)) = open.filter(|(_, half_width)| *half_width > HALF_WIDTH_SHOWN) {
            settled.keep(settled.free[column], Reason::Weak { half_width }, start);
            continue;
        }
        settled.free.iter().zip(widths).for_each(|(at, width)| settled.half[*at] = Some(width));
        return Ok(());
    }
    Ok(())
}

/// What became of each constant.
fn constants(
    values: &Values,
    start: &Values,
    verdicts: &[Option<Reason>],
    half: &[Option<f64>],
    interrupted: bool,
) -> Vec<ConstantOutcome> {
    let given = |constant: Constant| -> Vec<Constant> {
        let rests = |(_, reason): &(usize, &Option<Reason>)| matches!(reason, Some(Reason::Together { with, .. }) if with.contains(&constant));
        verdicts.iter().enumerate().filter(rests).map(|(at, _)| values[at].0).collect()
    };
    let outcome = |at: usize| {
        let ((constant, value), base) = (&values[at], &start[at].1);
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
    (0..values.len()).map(outcome).collect()
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
    let carries = byteway_pushdown::drive_model::DriveModel::of(base).link_rate;
    (bytes > carries * 1.05).then(|| {
        format!(
            "point `{name}` moved {}, more than PCIe Gen{} x{} of the base carries ({}): set `drive.override.link.generation` or \
             `lanes`, or add --structure",
            byteway_text::table::rate(bytes),
            base.link.generation,
            base.link.lanes,
            byteway_text::table::rate(carries)
        )
    })
}
