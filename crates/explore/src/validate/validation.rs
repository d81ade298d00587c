//! Every point of a drive simulated as its authors ran it, and how far off the model is.

use super::dataset::{DATASETS, Dataset};
use crate::fit::{Figure, FitError, Load, Role, Setup, figures_on_base};
use byteway_text::error::{InputError, suggest};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::units::excerpt;
use byteway_workload::Rw;
use serde::Serialize;

/// What is validated.
pub struct Request<'a> {
    /// A profile that has measurements.
    pub profile: &'a str,
    /// Further keys of the scenarios, `KEY=VALUE`.
    pub sets: &'a [String],
    /// One in so many points is simulated, from the first on; at least 1.
    pub every: usize,
    /// Number of threads, at least 1. The result does not depend on it.
    pub threads: usize,
    /// Interrupt flag: what was simulated is kept.
    pub interrupt: &'a Interrupt,
    /// Progress, in points.
    pub bar: &'a dyn Points,
}

/// A figure of which the error is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// I/Os per second.
    Throughput,
    /// Mean latency.
    Mean,
    /// 99th percentile of the latency.
    P99,
}

impl Measure {
    /// All of them.
    pub const ALL: [Measure; 3] = [Measure::Throughput, Measure::Mean, Measure::P99];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Throughput => "throughput",
            Measure::Mean => "mean latency",
            Measure::P99 => "p99",
        }
    }

    /// The mean absolute error that a profile with a real drive's name should have at most: two runs of one load differ by up to
    /// 5 % in what was measured.
    pub fn aim(self) -> f64 {
        match self {
            Measure::Throughput => 0.08,
            Measure::Mean => 0.1,
            Measure::P99 => 0.25,
        }
    }

    /// Whether a figure is one of these.
    pub fn is(self, figure: Figure) -> bool {
        match (self, figure) {
            (Measure::Throughput, Figure::Iops(_)) | (Measure::Mean, Figure::Mean(_)) => true,
            (Measure::P99, Figure::Percentile(_, share)) => share == 99.0,
            _ => false,
        }
    }
}

/// The error of throughput or mean latency that no point should have.
pub const WORST_MAX: f64 = 0.3;

/// A point, measured and simulated.
#[derive(Clone, Debug)]
pub struct HeldPoint {
    /// Its measurements.
    pub dataset: Dataset,
    /// Its name there.
    pub name: String,
    /// The load.
    pub load: Load,
    /// What it is for.
    pub role: Role,
    /// What was measured.
    pub figures: Vec<HeldFigure>,
}

/// A figure of a point: times in nanoseconds, rates in I/Os per second.
#[derive(Clone, Copy, Debug)]
pub struct HeldFigure {
    /// The figure.
    pub figure: Figure,
    /// What was measured.
    pub measured: f64,
    /// What was simulated; `None`: an interrupt came before.
    pub simulated: Option<f64>,
}

impl HeldPoint {
    /// Simulated / measured - 1.
    pub fn error(&self, measure: Measure) -> Option<f64> {
        let found = self.figures.iter().find(|held| measure.is(held.figure))?;
        found.simulated.map(|simulated| simulated / found.measured - 1.0)
    }
}

/// Errors of several points.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Points that have the figure.
    pub count: usize,
    /// Mean absolute error, as a share.
    pub mean: f64,
    /// The error that is largest by its size.
    pub worst: f64,
}

/// A profile, held against measurements.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The profile.
    pub profile: String,
    /// Further keys, as they were given.
    pub sets: Vec<String>,
    /// One in so many points was simulated.
    pub every: usize,
    /// All points, in the order of the files.
    pub points: Vec<HeldPoint>,
    /// It was interrupted.
    pub partial: bool,
}

impl Validation {
    /// Kinds of load, in the order of their first points.
    pub fn kinds(&self) -> Vec<Rw> {
        let mut kinds = Vec::new();
        self.points.iter().for_each(|point| {
            if !kinds.contains(&point.load.rw) {
                kinds.push(point.load.rw);
            }
        });
        kinds
    }

    /// Errors of points of a role, and of a kind of load; `None` if there is no such point.
    pub fn spread(&self, role: Role, rw: Option<Rw>, measure: Measure) -> Option<Spread> {
        let points = self.points.iter().filter(|point| point.role == role);
        let points = points.filter(|point| rw.is_none_or(|rw| point.load.rw == rw));
        let errors: Vec<f64> = points.filter_map(|point| point.error(measure)).collect();
        let worst = *errors.iter().max_by(|left, right| left.abs().total_cmp(&right.abs()))?;
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        Some(Spread { count: errors.len(), mean, worst })
    }

    /// Points that judge and are off in throughput or mean latency by more than any should be.
    pub fn far_off(&self) -> usize {
        let judge = self.points.iter().filter(|point| point.role == Role::Judge);
        let is_off = |point: &&HeldPoint| {
            let errors = [Measure::Throughput, Measure::Mean].map(|measure| point.error(measure));
            errors.iter().flatten().any(|error| error.abs() > WORST_MAX)
        };
        judge.filter(is_off).count()
    }
}

/// The profiles that have measurements, each once, in the order of these.
pub fn profiles() -> Vec<&'static str> {
    let mut profiles: Vec<&str> = DATASETS.iter().map(|dataset| dataset.profile).collect();
    profiles.dedup();
    profiles
}

/// The measurements of a profile.
///
/// # Errors
/// There are none.
pub fn datasets_of(profile: &str) -> Result<Vec<Dataset>, InputError> {
    let own: Vec<Dataset> = DATASETS.into_iter().filter(|dataset| dataset.profile == profile).collect();
    if own.is_empty() {
        let what = format!("no measurements of `{}` are built in", excerpt(profile));
        return Err(InputError::new(what, suggest(profile, &profiles())));
    }
    Ok(own)
}

/// Refuses what would be another drive or another load than was measured.
fn check_sets(sets: &[String]) -> Result<(), InputError> {
    for set in sets {
        let key = set.split('=').next().unwrap_or_default().trim();
        if !key.starts_with("drive.override.") && !key.starts_with("host.override.") {
            let what = format!("`{}` can't be set: the load is as it was measured", excerpt(key));
            let help = "set keys of the profiles alone: drive.override.flash.channels=16, host.override.submit=\"1 us\"";
            return Err(InputError::new(what, help));
        }
    }
    Ok(())
}

/// Simulates the points of a profile as they were measured.
///
/// # Errors
/// There are no measurements of this profile, a key is invalid, or a run failed.
pub fn validate(request: &Request<'_>) -> Result<Validation, FitError> {
    let Request { profile, sets, every, threads, interrupt, bar } = *request;
    check_sets(sets)?;
    let mut held = Vec::new();
    for dataset in datasets_of(profile)? {
        let points: Vec<_> = dataset.measurements()?.points.into_iter().step_by(every).collect();
        let sets = dataset.sets.iter().map(|set| (*set).to_owned()).chain(sets.iter().cloned()).collect();
        let setup = Setup { base: profile.to_owned(), host: dataset.host.to_owned(), sets };
        let found = figures_on_base(&setup, &points, threads, interrupt, bar)?;
        held.extend(points.into_iter().zip(found).map(|(point, found)| {
            let held = |(at, &(figure, measured)): (usize, &(Figure, f64))| HeldFigure {
                figure,
                measured,
                simulated: found.as_ref().map(|found| found[at]),
            };
            let figures = point.figures.iter().enumerate().map(held).collect();
            // Every row says it; a table of one's own need not.
            let role = point.role.unwrap_or(Role::Judge);
            HeldPoint { dataset, name: point.name, load: point.load, role, figures }
        }));
    }
    let partial = held.iter().any(|point| point.figures.iter().any(|held| held.simulated.is_none()));
    Ok(Validation { profile: profile.to_owned(), sets: sets.to_vec(), every, points: held, partial })
}
