//! The model that is fitted is the simulator: a point's figures under some constants are those of a short run,
//! which depends on nothing else, so that the number of threads affects only the elapsed time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::constant::{Constant, Values, settings};
use super::error::FitError;
use super::measurement::{Figure, Load, Point, State};
use byteway_content::UNIT_BYTES;
use byteway_results::RunResult;
use byteway_run::probe::{PointOutcome, run_with_series};
use byteway_scenario::profile::Profile;
use byteway_scenario::{Options, Scenario};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::units::{Bytes, Rate};
use byteway_workload::Kind;

/// Units of 4 KiB that a run writes to fill a write buffer, at most.
const FILL_UNITS_MAX: u64 = 128_000;

/// I/Os of a run, at least: random addresses vary the mean of fewer by more than a percent.
const IOS_MIN: u64 = 400;

/// I/Os of a run with one outstanding, and with several, at least.
const IOS_ALONE: u64 = 1500;
const IOS_QUEUED: u64 = 5000;

/// I/Os of a run before it is measured, for each outstanding one.
const WARMUP_EACH: u64 = 4;

/// I/Os that are measured for each outstanding one: how long runs are.
#[derive(Clone, Copy, Debug)]
struct Each {
    /// As a rule.
    usual: u64,
    /// At most this many units of 4 KiB in all.
    units: u64,
    /// At least, however large they are.
    least: u64,
}

/// In a search, which compares many runs with one another, and can't wait. As a run ends the queue drains, earlier at one die than at
/// another: its rate is off by up to 13 %, in all of them alike.
const IN_A_SEARCH: Each = Each { usual: 50, units: 32_000, least: 4 };

/// Where the figures themselves are told: rates are right within 2 %.
const AS_A_RESULT: Each = Each { usual: 200, units: 64_000, least: 32 };

/// Rows of pages over all dies that are programmed for each page type, at least.
const ROWS_EACH: u64 = 4;

/// Blocks of every die that are written in steady state while it is measured.
const BLOCKS_STEADY: u64 = 2;

/// What is simulated besides the constants that are searched.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A built-in profile, or the path of one.
    pub base: String,
    /// The host's profile.
    pub host: String,
    /// Further keys of the scenario, `KEY=VALUE`.
    pub sets: Vec<String>,
}

/// The figures of points on a base as it is, in the order of a point's figures; `None`: an interrupt came before.
///
/// # Errors
/// The base, the host or a key is invalid, the base can't be simulated under one of the loads, or a run failed.
pub fn figures_on_base(
    setup: &Setup,
    points: &[Point],
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
) -> Result<Vec<Option<Vec<f64>>>, FitError> {
    let mut model = Model { each: AS_A_RESULT, ..Model::new(setup, points, threads, interrupt, bar)? };
    for point in points {
        scenario(setup, &point.load, model.length(point), &[])?;
    }
    let requests: Vec<_> = (0..points.len()).map(|at| (at, Values::new())).collect();
    match model.figures(&requests) {
        Ok(_) | Err(FitError::Interrupted) => {
            Ok((0..points.len()).map(|at| model.simulated(at, &Values::new())).collect())
        }
        Err(error) => Err(error),
    }
}

/// The simulator as a function of constants.
pub(super) struct Model<'a> {
    setup: &'a Setup,
    points: &'a [Point],
    /// The base profile, with the overrides of `setup`.
    pub(super) base: Profile,
    pub(super) threads: usize,
    pub(super) interrupt: &'a Interrupt,
    pub(super) bar: &'a dyn Points,
    /// How long they are.
    each: Each,
    /// Figures by point and the constants that they depend on; `None`: such a drive can't be simulated.
    cache: BTreeMap<(usize, Vec<u64>), Option<Vec<f64>>>,
}

/// The constants that a point depends on, as bits.
fn key(point: &Point, values: &Values) -> Vec<u64> {
    let of = |(constant, value): &(Constant, f64)| constant.touches(&point.load).then(|| value.to_bits());
    values.iter().filter_map(of).collect()
}

impl<'a> Model<'a> {
    /// The model of these points on a base.
    ///
    /// # Errors
    /// The base, the host or a key is invalid, or the base is no drive with firmware of its own.
    pub(super) fn new(
        setup: &'a Setup,
        points: &'a [Point],
        threads: usize,
        interrupt: &'a Interrupt,
        bar: &'a dyn Points,
    ) -> Result<Model<'a>, FitError> {
        let any = Load {
            rw: byteway_workload::Rw::RandRead,
            bs: 4096,
            iodepth: 1,
            numjobs: 1,
            rwmixread: 100,
            rate: None,
            arrivals: None,
            state: State::Filled,
        };
        let scenario = scenario(setup, &any, (0, 1), &[])?;
        let plan = match &scenario.drives[..] {
            [only] if scenario.target.is_none() && scenario.jbof.is_none() => &only.plan,
            _ => {
                let what = "constants are fitted for a single drive on the host's own link";
                return Err(InputError::new(what, "leave out what else the keys of --set add").into());
            }
        };
        let profile = &plan.profile;
        if profile.takes_host() || profile.bridge.is_some() || !plan.personality.has_blocks() {
            let what = format!("`{}` is not a drive of blocks with firmware of its own", setup.base);
            return Err(
                InputError::new(what, "choose another --base: `byteway profile list` lists them").into()
            );
        }
        let base = profile.clone();
        Ok(Model { setup, points, base, threads, interrupt, bar, each: IN_A_SEARCH, cache: BTreeMap::new() })
    }

    /// The figures of points under values; `None` where such a drive can't be simulated.
    ///
    /// # Errors
    /// Interrupted, or a run failed for another reason than its constants.
    pub(super) fn figures(
        &mut self,
        requests: &[(usize, Values)],
    ) -> Result<Vec<Option<Vec<f64>>>, FitError> {
        let keys: Vec<(usize, Vec<u64>)> =
            requests.iter().map(|(point, values)| (*point, key(&self.points[*point], values))).collect();
        let mut todo: Vec<usize> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if !self.cache.contains_key(key) && !todo.iter().any(|other| keys[*other] == *key) {
                todo.push(at);
            }
        }
        // The longest runs begin first, so that no thread is left alone with one.
        todo.sort_by_key(|at| std::cmp::Reverse(self.weight(requests[*at].0)));
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        let work = || {
            while let Some(&at) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.interrupt.is_raised() {
                    break;
                }
                let (point, values) = &requests[at];
                let found = self.simulate(*point, values);
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((at, found));
                self.bar.one();
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(todo.len()) {
                scope.spawn(work);
            }
            work();
        });
        let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        // What was simulated is kept, whatever ended the others.
        let mut ended = Ok(());
        for (at, found) in done {
            match found {
                Ok(found) => drop(self.cache.insert(keys[at].clone(), found)),
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended?;
        let found = keys.iter().map(|key| self.cache.get(key).cloned().ok_or(FitError::Interrupted));
        found.collect()
    }

    /// The figures of a point under values, if they were simulated.
    pub(super) fn simulated(&self, point: usize, values: &Values) -> Option<Vec<f64>> {
        self.cache.get(&(point, key(&self.points[point], values))).cloned().flatten()
    }

    /// A point.
    pub(super) fn point(&self, at: usize) -> &'a Point {
        &self.points[at]
    }

    /// Relative length of a point's run.
    fn weight(&self, point: usize) -> u64 {
        let load = &self.points[point].load;
        let (warmup, count) = self.length(&self.points[point]);
        let units = (warmup + count) * load.bs.div_ceil(UNIT_BYTES as u64);
        if load.state == State::Steady { units * 8 } else { units }
    }

    /// I/Os of a run: before measuring, and measured.
    fn length(&self, point: &Point) -> (u64, u64) {
        let load = &point.load;
        let units = load.bs.div_ceil(UNIT_BYTES as u64);
        let outstanding = load.outstanding();
        let most = (self.each.units / units).max(IOS_MIN);
        let count = match outstanding {
            1 => IOS_ALONE,
            deep => (deep * self.each.usual).max(IOS_QUEUED),
        };
        let count = count.clamp(IOS_MIN, most.max(outstanding * self.each.least));
        // Of I/Os in progress when a measurement begins, a part is done already; and it ends when the last is done. In a short
        // one that shows, by a percent or more: the run is then as short.
        let measured = point.sample.ios.filter(|_| outstanding > 1 && load.rate.is_none());
        let least = if load.rw.has_reads() { IOS_MIN } else { 1 };
        let count = measured.map_or(count, |measured| count.min(measured.max(least)));
        let warmup = outstanding * WARMUP_EACH;
        if !load.has_writes() || load.rate.is_some() {
            return (warmup, count);
        }
        let (flash, firmware) = (&self.base.flash, &self.base.firmware);
        let dies = u64::from(flash.channels * flash.ways * flash.dies);
        let row = dies * u64::from(flash.planes) * flash.page.0;
        let types = flash.read.len().max(flash.program.len()).max(1) as u64;
        let share = if load.rw.is_mixed() { u64::from(100 - load.rwmixread.min(99)) } else { 100 };
        let ios = |bytes: u64| (bytes * 100 / share).div_ceil(load.bs).min(FILL_UNITS_MAX / units);
        let filling = ios(firmware.write_buffer.0 * 2);
        if load.state == State::Steady {
            // Collection goes block by block in all dies at once: shorter runs see a part of its round.
            let blocks = ios(row * u64::from(flash.pages));
            return (warmup + filling.max(blocks), count.max(blocks * BLOCKS_STEADY));
        }
        (warmup + filling, count.max(ios(row * types * ROWS_EACH)))
    }

    fn simulate(&self, point: usize, values: &Values) -> Result<Option<Vec<f64>>, FitError> {
        let point = &self.points[point];
        let settings = settings(&self.base, values);
        let sets: Vec<String> =
            settings.iter().map(|(key, text, _)| format!("drive.override.{key}={text}")).collect();
        let Ok(scenario) = scenario(self.setup, &point.load, self.length(point), &sets) else {
            return Ok(None);
        };
        match run_with_series(&scenario, self.interrupt).0 {
            PointOutcome::Done(found) => {
                let figures = point.figures.iter().map(|(figure, _)| measured(&found, *figure));
                match figures.collect::<Option<Vec<f64>>>() {
                    Some(figures) => Ok(Some(figures)),
                    None => {
                        Err(FitError::Run { point: point.name.clone(), why: "it has no such figure".into() })
                    }
                }
            }
            PointOutcome::Failed(why, _) => Err(FitError::Run { point: point.name.clone(), why }),
            PointOutcome::NotRun => Err(FitError::Interrupted),
        }
    }
}

/// The scenario of a load, with `(warm-up, count)` I/Os.
fn scenario(
    setup: &Setup,
    load: &Load,
    (warmup, count): (u64, u64),
    sets: &[String],
) -> Result<Scenario, InputError> {
    let rw = serde_json::to_value(load.rw).ok();
    let mix = if load.rw.is_mixed() { format!("rwmixread = {}\n", load.rwmixread) } else { String::new() };
    let rate = load.rate.map_or(String::new(), |rate| format!("rate = \"{}\"\n", Rate(rate)));
    let pace = match load.arrivals {
        None => format!("iodepth = {}", load.iodepth),
        Some(arrivals) => {
            format!("issue = \"open\"\niodepth = 64\narrival = \"poisson\"\nrate_iops = {arrivals}")
        }
    };
    let lba = if load.bs.is_multiple_of(UNIT_BYTES as u64) { "" } else { "lba_size = \"512 B\"\n" };
    let text = format!(
        "name = \"point\"\n[drive]\nprofile = {}\nprecondition = \"{}\"\n{lba}[host]\nprofile = {}\nverify = false\n\
         [measure]\nwarmup = {warmup}\n[[job]]\nrw = {}\nbs = \"{}\"\n{pace}\nnumjobs = {}\ncount = {}\n{mix}{rate}",
        quoted(&setup.base),
        load.state.precondition(),
        quoted(&setup.host),
        rw.unwrap_or_default(),
        Bytes(load.bs),
        load.numjobs,
        warmup + count,
    );
    let sets = setup.sets.iter().chain(sets).cloned().collect();
    Scenario::from_text("point.toml", Path::new(""), &text, &Options { sets, ..Options::default() })
}

/// A text as a TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A figure of a run.
fn measured(found: &RunResult, figure: Figure) -> Option<f64> {
    let job = found.summary.jobs.first()?;
    let kind = match figure.kind() {
        Kind::Read => job.read.as_ref(),
        Kind::Write => job.write.as_ref(),
        Kind::Trim => job.trim.as_ref(),
    }?;
    match figure {
        Figure::Mean(_) => Some(kind.latency.mean_ns),
        Figure::Iops(_) => Some(kind.iops),
        Figure::Percentile(kind, share) => {
            let curve = found.curves.iter().find(|curve| curve.kind == kind)?;
            let (latency, _) = curve.points.iter().find(|(_, upto)| *upto * 100.0 >= share)?;
            Some(*latency)
        }
    }
    .filter(|value| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::measurement::Sample;
    use super::*;
    use byteway_text::progress::Hidden;
    use byteway_workload::Rw;

    fn point(rw: Rw, bs: u64, iodepth: u32, state: State, rate: Option<u64>) -> Point {
        let load = Load { rw, bs, iodepth, numjobs: 1, rwmixread: 70, rate, arrivals: None, state };
        let figures = load.rw.kinds().iter().map(|kind| (Figure::Iops(*kind), 1.0)).collect();
        Point { name: load.words(), load, figures, source: None, sample: Sample::default(), role: None }
    }

    // A constant that a point depends on, and that is taken not to, would never be fitted to it.
    #[test]
    fn a_constant_that_is_said_not_to_touch_a_load_does_not() {
        let setup = Setup {
            base: "samsung-970-pro".into(),
            host: "linux-polled".into(),
            sets: vec!["drive.capacity=\"8 GiB\"".into()],
        };
        let points = [
            point(Rw::RandRead, 4096, 1, State::Filled, None),
            point(Rw::RandRead, 4096, 8, State::Unwritten, None),
            point(Rw::Read, 65_536, 4, State::Filled, None),
            point(Rw::RandWrite, 4096, 1, State::Filled, Some(20_000_000)),
            point(Rw::Write, 65_536, 8, State::Filled, None),
        ];
        let interrupt = Interrupt::default();
        let mut model = Model::new(&setup, &points, 2, &interrupt, &Hidden).unwrap();
        let base = model.base.clone();
        let mut requests = Vec::new();
        for (at, point) in points.iter().enumerate() {
            requests.push((at, Vec::new()));
            for constant in Constant::all(&base).into_iter().filter(|constant| !constant.touches(&point.load))
            {
                requests.push((at, vec![(constant, constant.of(&base) * 1.5)]));
            }
        }
        // Each on its own: the cache is what the promise is for.
        let found: Vec<_> =
            requests.iter().map(|(at, values)| model.simulate(*at, values).unwrap()).collect();
        for ((at, values), found_here) in requests.iter().zip(&found) {
            let first = requests.iter().position(|(other, values)| other == at && values.is_empty()).unwrap();
            assert_eq!(*found_here, found[first], "{}: {values:?}", points[*at].name);
        }
        assert!(model.figures(&[(0, Vec::new())]).unwrap()[0].is_some());
    }
}
