//! Fitting: from measurements to constants.
//!
//! 1. Points are held out, by name or every so many of a kind.
//! 2. The base is simulated, and constants are moved by closed-form estimates.
//! 3. The search descends with all constants free. What the derivatives there don't determine is kept at the
//!    base's value, one constant after the other, the least certain first; the rest is searched again.
//! 4. If residuals remain, what was kept may move, too, held near the base; moves that cut residuals stay, and the
//!    result says that the points don't identify them.
//! 5. All points are simulated with the result: fitted ones and those held out.
//!
//! Residuals count by their squares while they are small; one point that is wrong decides about nothing.

use super::constant::{Constant, Values, settings, tells_page_types};
use super::error::FitError;
use super::estimate::{estimate, share_of_type};
use super::identify::{Reason, half_widths, weakest};
use super::linear::Matrix;
use super::measurement::{Figure, Load, Measurements, Point, Role, State};
use super::model::{Model, Setup};
use super::outcome::{ConstantOutcome, Fit, FittedPoint, RESIDUAL_MAX, Residual, Verdict};
use super::search::{Loss, PRIOR, STRANGE, Search};
use super::structure;
use byteway_scenario::profile::Profile;
use byteway_text::error::{InputError, suggest};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::units::excerpt;

/// Which points are held out.
#[derive(Clone, Debug, PartialEq)]
pub enum HoldOut {
    /// Those that the table says, if it does; else of each kind of points the third, and every fourth after it.
    AsTheyAre,
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
    let all = measurements.points.len();
    measurements.points.retain(|point| point.role != Some(Role::Aside));
    if all > 0 && measurements.points.is_empty() {
        let what = "all points are set aside by the table (`use`): none is left to fit";
        return Err(InputError::new(what, "write fit for rows of which the drive was the limit").into());
    }
    if measurements.points.len() < all {
        notes.push(format!(
            "{} of {all} points are set aside by the table, and not looked at",
            all - measurements.points.len()
        ));
    }
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
    let mut model = Model::new(&setup, &points, threads, interrupt, bar)?;
    let base = model.base.clone();
    let start: Values =
        Constant::all(&base).into_iter().map(|constant| (constant, constant.of(&base))).collect();
    let origin = start.iter().map(|&(constant, value)| (constant, constant.visible(value))).collect();
    // The base as it is: what it gives without any fit, and whether it can be simulated at all.
    let requests: Vec<_> = (0..points.len()).map(|at| (at, start.clone())).collect();
    let on_base: Option<Vec<Vec<f64>>> = model.figures(&requests)?.into_iter().collect();
    let Some(on_base) = on_base else {
        let what = format!("`{}` can't be simulated under these loads", setup.base);
        return Err(InputError::new(what, "choose a base with room for the depths that were measured").into());
    };
    let mut search = Search::new(&mut model, fitted, origin);
    search.loss = Loss::Linear(STRANGE);
    let settled = settle(&mut search, &start, &base)?;
    let (mut interrupted, best, fitted) = (search.interrupted, search.best.take(), search.points);
    let outcomes = match best.filter(|_| interrupted) {
        Some((_, values)) => cut_short(&values, &start, &settled),
        None => constants(&settled, &start),
    };
    let final_values: Values = outcomes.iter().map(|outcome| (outcome.constant, outcome.value)).collect();
    if !interrupted {
        let requests: Vec<_> = (0..points.len()).map(|at| (at, final_values.clone())).collect();
        interrupted = match model.figures(&requests) {
            Err(FitError::Interrupted) => true,
            found => found.map(|_| false)?,
        };
    }
    // After an interrupt, those that were simulated on the way: all others would take a run each.
    let on_result: Vec<_> = (0..points.len()).map(|at| model.simulated(at, &final_values)).collect();
    let residuals = |at: usize| -> Vec<Residual> {
        let found = on_result[at].as_ref();
        let each = points[at].figures.iter().enumerate();
        let of = |(number, (figure, measured)): (usize, &(Figure, f64))| Residual {
            figure: *figure,
            measured: *measured,
            base: on_base[at][number],
            simulated: found.map(|found| found[number]),
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
    let mut found = Fit {
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
    };
    found.notes.extend(found.strange_note());
    Ok(found)
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

/// Cost of the residuals for each figure, in squares of tolerances, below which a fit needs no more constants.
const ENOUGH: f64 = 3.0;

/// Factor by which more constants must lower the cost of the residuals to be worth it.
const WORTH: f64 = 0.6;

/// The same, for constants that stay near the base.
const WORTH_NEAR: f64 = 0.95;

/// Factor, and squares of tolerances for each figure, by which the cost must rise without a constant's move for the
/// move to stay.
const WORTH_ALONE: f64 = 1.02;
const WORTH_LEAST: f64 = 0.02;

/// Logarithm of the factor by which a constant that is not identified may leave the base at the cost of a tolerance.
const NEAR: f64 = 0.1;

/// Median residuals from which on the weight of a point falls.
const FAR: f64 = 4.0;

/// Closed-form estimates, one on top of the other, at most: each moves a rate by a factor of five, at most.
const ESTIMATES_MAX: usize = 4;

/// What a search found.
#[derive(Clone)]
struct Settled {
    values: Values,
    /// Constants that are free.
    free: Vec<usize>,
    /// Why others aren't identified.
    verdicts: Vec<Option<Reason>>,
    /// Whether one that isn't identified has another value than the base's, which cuts residuals.
    improved: Vec<bool>,
    /// Half-widths of intervals.
    half: Vec<Option<f64>>,
}

impl Settled {
    fn new(values: Values) -> Settled {
        let count = values.len();
        Settled {
            values,
            free: (0..count).collect(),
            verdicts: vec![None; count],
            improved: vec![false; count],
            half: vec![None; count],
        }
    }

    /// Keeps a constant at its base value.
    fn keep(&mut self, at: usize, reason: Reason, start: &Values) {
        self.verdicts[at] = Some(reason);
        self.values[at].1 = start[at].1;
        self.free.retain(|other| *other != at);
    }

    /// Takes a value that is better than the base's, though the points don't determine it.
    fn improve(&mut self, at: usize, reason: Reason) {
        self.verdicts[at] = Some(reason);
        self.improved[at] = true;
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

/// The middle of the sizes of residuals.
fn median_size(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

/// Standard deviation of the residuals that have weight: each counts by its pull, its weight times it.
fn spread(residuals: &[f64], loss: Loss, free: usize) -> f64 {
    let weights = residuals.iter().map(|residual| loss.weight(*residual));
    let freedom = (weights.clone().sum::<f64>() - free as f64).max(1.0);
    let pulls = weights.zip(residuals).map(|(weight, residual)| weight * weight * residual * residual);
    (pulls.sum::<f64>() / freedom).sqrt().max(SPREAD_MIN)
}

/// Finds constants, from the base on; after an interrupt, what it had found.
fn settle(search: &mut Search<'_, '_>, start: &Values, base: &Profile) -> Result<Settled, FitError> {
    let mut settled = Settled::new(start.clone());
    let found = try_settle(search, &mut settled, start, base);
    if matches!(found, Err(FitError::Interrupted)) {
        search.interrupted = true;
    } else {
        found?;
    }
    Ok(settled)
}

/// Searches with the constants that the derivatives at the estimate determine; and with all others, too, if that is
/// not enough and more of them are worth it. Along a line that the points leave open, a search would wander to
/// where some resource begins to limit, and take that for an answer.
fn try_settle(
    search: &mut Search<'_, '_>,
    settled: &mut Settled,
    start: &Values,
    base: &Profile,
) -> Result<(), FitError> {
    search.residuals(start)?;
    let mut all = Settled::new(begin(search, base)?);
    let count = all.values.len();
    let jacobian = search.jacobian(&all.values, &all.free)?;
    // What no point depends on costs runs in every derivative.
    let touched: Vec<usize> = (0..count).filter(|column| jacobian.norm(*column) > 0.0).collect();
    for at in (0..count).filter(|at| !touched.contains(at)) {
        all.keep(at, Reason::Untouched, start);
    }
    *settled = all.clone();
    settled.keep_open(jacobian.columns(&touched), start, base);
    rounds(search, settled, start, base)?;
    let with_few = search.cost(&settled.values)?;
    if settled.free.len() < all.free.len() && with_few > ENOUGH {
        for (at, (_, value)) in settled.values.iter().enumerate() {
            if settled.free.contains(&at) {
                all.values[at].1 = *value;
            }
        }
        rounds(search, &mut all, start, base)?;
        if search.cost(&all.values)? < WORTH * with_few {
            *settled = all;
        }
    }
    move_near(search, settled, &touched, start)?;
    meet_dismissed(search, settled, &touched, start)?;
    intervals(search, settled)?;
    put_back(search, settled, start)
}

/// Where a search begins: closed-form estimates, each on top of the one before, as long as they come nearer.
fn begin(search: &mut Search<'_, '_>, base: &Profile) -> Result<Values, FitError> {
    let mut values = search.base.clone();
    let mut cost = search.cost(&values)?;
    for _ in 0..ESTIMATES_MAX {
        let Some(simulated) = search.figures(&values)? else { break };
        let points: Vec<&Point> = search.points.iter().map(|at| search.model.point(*at)).collect();
        let next = estimate(base, &values, &points, &simulated);
        let found = search.cost(&next)?;
        if found >= cost {
            break;
        }
        let is_done = found > WORTH_NEAR * cost;
        (values, cost) = (next, found);
        if is_done {
            break;
        }
    }
    Ok(values)
}

/// Descends to what most points say, and from there to where those that say something else have next to no weight.
fn descend(search: &mut Search<'_, '_>, values: &mut Values, free: &[usize]) -> Result<(), FitError> {
    search.loss = Loss::Linear(STRANGE);
    search.descend(values, free)?;
    let Some(residuals) = search.residuals(values)? else { return Ok(()) };
    if residuals.iter().any(|residual| residual.abs() > STRANGE) {
        search.loss = Loss::Logarithmic(FAR * median_size(&residuals).max(SPREAD_MIN));
        search.descend(values, free)?;
    }
    Ok(())
}

/// Searches, and keeps what is not identified at its base value, until all that is free is identified.
fn rounds(
    search: &mut Search<'_, '_>,
    settled: &mut Settled,
    start: &Values,
    base: &Profile,
) -> Result<(), FitError> {
    for _ in 0..ROUNDS_MAX {
        descend(search, &mut settled.values, &settled.free)?;
        let jacobian = search.jacobian(&settled.values, &settled.free)?;
        if !settled.keep_open(jacobian, start, base) {
            break;
        }
    }
    Ok(())
}

/// Descends with those constants free, too, that are not identified, held near the base.
fn descend_near(
    search: &mut Search<'_, '_>,
    values: &mut Values,
    touched: &[usize],
    open: &[usize],
    start: &Values,
) -> Result<(), FitError> {
    for &at in open {
        // What the base does not charge at all has no value to be near to.
        search.priors[at] = if start[at].1 == search.base[at].1 { NEAR } else { PRIOR };
    }
    let found = descend(search, values, touched);
    search.priors.fill(PRIOR);
    found
}

/// Moves the constants that are not identified, too, if residuals remain and that cuts them.
fn move_near(
    search: &mut Search<'_, '_>,
    settled: &mut Settled,
    touched: &[usize],
    start: &Values,
) -> Result<(), FitError> {
    let before = search.cost(&settled.values)?;
    let open: Vec<usize> = touched.iter().copied().filter(|at| !settled.free.contains(at)).collect();
    if before <= ENOUGH || open.is_empty() {
        return Ok(());
    }
    let (mut moved, loss) = (settled.clone(), search.loss);
    open.iter().for_each(|at| moved.values[*at].1 = search.base[*at].1);
    descend_near(search, &mut moved.values, touched, &open, start)?;
    if search.cost(&moved.values)? >= WORTH_NEAR * before {
        search.loss = loss;
        return Ok(());
    }
    for &at in open.iter().filter(|at| moved.values[**at].1 != start[**at].1) {
        moved.improved[at] = true;
    }
    *settled = moved;
    Ok(())
}

/// Starts once more, from where the points that were given up are met: of a few points, most can be met at the cost of
/// one that other constants would have met with them, and a descent does not get from here to there.
fn meet_dismissed(
    search: &mut Search<'_, '_>,
    settled: &mut Settled,
    touched: &[usize],
    start: &Values,
) -> Result<(), FitError> {
    let before = search.cost(&settled.values)?;
    let Some(figures) = search.figures(&settled.values)? else { return Ok(()) };
    let is_off = |(at, found): &(&usize, &Vec<f64>)| {
        let mut pairs = search.model.point(**at).figures.iter().zip(*found);
        pairs.any(|((_, measured), found)| libm::fabs(found / measured - 1.0) > RESIDUAL_MAX)
    };
    let dismissed: Vec<usize> =
        search.points.iter().zip(&figures).filter(is_off).map(|(at, _)| *at).collect();
    if before <= ENOUGH || dismissed.is_empty() {
        return Ok(());
    }
    let (mut other, loss) = (settled.clone(), search.loss);
    let mut alone = Search::new(search.model, dismissed, settled.values.clone());
    alone.descend(&mut other.values, touched)?;
    search.interrupted |= alone.interrupted;
    let open: Vec<usize> = touched.iter().copied().filter(|at| !settled.free.contains(at)).collect();
    descend_near(search, &mut other.values, touched, &open, start)?;
    if search.cost(&other.values)? >= WORTH * before {
        search.loss = loss;
        return Ok(());
    }
    for &at in open.iter().filter(|at| other.values[**at].1 != start[**at].1) {
        other.improved[at] = true;
    }
    *settled = other;
    Ok(())
}

/// The intervals of what is free. What the residuals that remain leave open, and what is at the end of its range, has a
/// better value than the base's, but is not identified.
fn intervals(search: &mut Search<'_, '_>, settled: &mut Settled) -> Result<(), FitError> {
    for at in settled.free.clone() {
        let (constant, value) = settled.values[at];
        let bounds = constant.bounds();
        if value <= bounds.low * 1.001 || value >= bounds.high * 0.999 {
            settled.improve(at, Reason::AtBound);
        }
    }
    let Some(residuals) = search.residuals(&settled.values)? else { return Ok(()) };
    let jacobian = search.jacobian(&settled.values, &settled.free)?;
    let mut jacobian = jacobian.scaled(&search.loss.roots(&residuals));
    loop {
        let spread = spread(&residuals, search.loss, settled.free.len());
        let widths = half_widths(&jacobian, spread);
        let open = widths.iter().copied().enumerate().max_by(|left, right| left.1.total_cmp(&right.1));
        let Some((column, half_width)) = open.filter(|(_, half_width)| *half_width > HALF_WIDTH_SHOWN) else {
            settled.free.iter().zip(widths).for_each(|(at, width)| settled.half[*at] = Some(width));
            return Ok(());
        };
        settled.improve(settled.free[column], Reason::Weak { half_width });
        let left: Vec<usize> = (0..=settled.free.len()).filter(|at| *at != column).collect();
        jacobian = jacobian.columns(&left);
    }
}

/// Puts back to the base what is not identified and cuts no residuals by itself; the least moved first.
fn put_back(search: &mut Search<'_, '_>, settled: &mut Settled, start: &Values) -> Result<(), FitError> {
    let mut improved: Vec<usize> = (0..start.len()).filter(|at| settled.improved[*at]).collect();
    let moved = |at: usize| libm::fabs(libm::log(settled.values[at].1 / search.base[at].1));
    improved.sort_by(|left, right| moved(*left).total_cmp(&moved(*right)));
    let mut cost = search.cost(&settled.values)?;
    for at in improved {
        let mut without = settled.values.clone();
        without[at].1 = start[at].1;
        let found = search.cost(&without)?;
        if found <= cost * WORTH_ALONE + WORTH_LEAST {
            (settled.values, cost) = (without, found);
            settled.improved[at] = false;
        }
    }
    Ok(())
}

/// What became of each constant.
fn constants(settled: &Settled, start: &Values) -> Vec<ConstantOutcome> {
    let Settled { values, verdicts, improved, half, .. } = settled;
    let given = |constant: Constant| -> Vec<Constant> {
        let rests = |(_, reason): &(usize, &Option<Reason>)| matches!(reason, Some(Reason::Together { with, .. }) if with.contains(&constant));
        verdicts.iter().enumerate().filter(rests).map(|(at, _)| values[at].0).collect()
    };
    let outcome = |at: usize| {
        let (constant, value) = values[at];
        let verdict = match (&verdicts[at], half[at]) {
            (Some(reason), _) if improved[at] => Verdict::Improved(reason.clone()),
            (Some(reason), _) => Verdict::Assumed(reason.clone()),
            (None, half_width) => Verdict::Fitted { half_width, given: given(constant) },
        };
        let value = if matches!(verdict, Verdict::Assumed(_)) { start[at].1 } else { value };
        ConstantOutcome { constant, base: start[at].1, value, verdict }
    };
    (0..values.len()).map(outcome).collect()
}

/// What became of each constant before an interrupt: these are the best values that were simulated.
fn cut_short(values: &Values, start: &Values, settled: &Settled) -> Vec<ConstantOutcome> {
    let outcome = |(at, &(constant, value)): (usize, &(Constant, f64))| {
        let base = start[at].1;
        let verdict = match value == base {
            true => Verdict::Assumed(settled.verdicts[at].clone().unwrap_or(Reason::Interrupted)),
            false => Verdict::Fitted { half_width: None, given: Vec::new() },
        };
        ConstantOutcome { constant, base, value, verdict }
    };
    values.iter().enumerate().map(outcome).collect()
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
        HoldOut::AsTheyAre if points.iter().any(|point| point.role.is_some()) => {
            Ok(points.iter().map(|point| point.role == Some(Role::Judge)).collect())
        }
        HoldOut::AsTheyAre => {
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
