//! Numbers of channels and dies, and the link, where they are not known: whole numbers, compared by how well the
//! other constants then fit the reads.

use super::constant::{Constant, Values};
use super::error::FitError;
use super::estimate::estimate;
use super::measurement::{Figure, Point, State};
use super::model::{Model, Setup};
use super::search::Search;
use byteway_pushdown::drive_model::DriveModel;
use byteway_scenario::profile::Profile;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use byteway_text::table::rate;
use serde::Serialize;

/// A number that the points decide, or leave open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// Key of the profile.
    pub key: &'static str,
    /// Its value.
    pub value: u32,
    /// Whether the points decide it.
    pub identified: bool,
    /// Why, in a sentence.
    pub why: String,
}

/// Rounds of changes, at most: each doubles or halves a number.
const ROUNDS_MAX: usize = 4;

/// Steps of the search for each structure: a wrong one is off by much more than further steps gain.
const STEPS: usize = 3;

/// Factor by which another structure must fit better to be taken, and by which the runner-up must fit worse
/// for the structure to be identified.
const BETTER: f64 = 1.3;

/// Bytes a second without flash, of the fastest such point.
fn without_flash<'a>(points: &[&'a Point]) -> Option<(f64, &'a Point)> {
    let rates = points.iter().filter(|point| {
        point.load.state == State::Unwritten && point.load.outstanding() >= 8 && point.load.bs >= 32_768
    });
    let rates = rates.flat_map(|point| {
        point
            .figures
            .iter()
            .filter(|(figure, _)| matches!(figure, Figure::Iops(_)))
            .map(|(_, iops)| (iops * point.load.bs as f64, *point))
    });
    rates.max_by(|left, right| left.0.total_cmp(&right.0))
}

/// Chooses the structure that fits best, and adds it to the keys of `setup`.
///
/// # Errors
/// A run failed, or it was interrupted.
pub(super) fn search(
    setup: &mut Setup,
    points: &[Point],
    fitted: &[usize],
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
) -> Result<Vec<Derived>, FitError> {
    let mut derived = Vec::new();
    let base = Model::new(setup, points, threads, interrupt, bar)?.base;
    let chosen: Vec<&Point> = fitted.iter().map(|at| &points[*at]).collect();
    if let Some((bytes, point)) = without_flash(&chosen) {
        let carries = |generation: u8| {
            let mut profile = base.clone();
            profile.link.generation = generation;
            DriveModel::of(&profile).link_rate
        };
        let off = |generation: u8| libm::fabs(libm::log(bytes / carries(generation)));
        let best =
            (1..=6).min_by(|left, right| off(*left).total_cmp(&off(*right))).unwrap_or(base.link.generation);
        let identified = off(best) < 0.15;
        let generation = if identified { best } else { base.link.generation };
        let why = match identified {
            true => format!(
                "`{}` moves {} without flash; x{} carries {}",
                point.name,
                rate(bytes),
                base.link.lanes,
                rate(carries(best))
            ),
            false => format!(
                "`{}` moves {} without flash, which no link of {} lanes limits",
                point.name,
                rate(bytes),
                base.link.lanes
            ),
        };
        derived.push(Derived { key: "link.generation", value: generation.into(), identified, why });
        setup.sets.push(format!("drive.override.link.generation={generation}"));
    }
    let reads: Vec<usize> = fitted
        .iter()
        .copied()
        .filter(|at| points[*at].load.rw.has_reads() && !points[*at].load.has_writes())
        .collect();
    let is_deep =
        |at: &usize| points[*at].load.state == State::Filled && points[*at].load.outstanding() >= 32;
    if !reads.iter().any(is_deep) {
        let why = "no fitted read has 32 or more outstanding: how many dies and channels work at once does not show";
        for (key, value) in [("flash.channels", base.flash.channels), ("flash.ways", base.flash.ways)] {
            derived.push(Derived { key, value, identified: false, why: why.to_owned() });
        }
        return Ok(derived);
    }
    let cost = |channels: u32, ways: u32| -> Result<f64, FitError> {
        let mut setup = setup.clone();
        setup.sets.extend(keys(channels, ways));
        let mut model = match Model::new(&setup, points, threads, interrupt, bar) {
            Ok(model) => model,
            // No such geometry holds the capacity.
            Err(FitError::Input(_)) => return Ok(f64::INFINITY),
            Err(error) => return Err(error),
        };
        reads_cost(&mut model, &reads)
    };
    let mut seen: Vec<((u32, u32), f64)> = Vec::new();
    let mut here = (base.flash.channels, base.flash.ways);
    let first = cost(here.0, here.1)?;
    seen.push((here, first));
    for _ in 0..ROUNDS_MAX {
        let (channels, ways) = here;
        let at = |seen: &[((u32, u32), f64)], place| {
            seen.iter().find(|(other, _)| *other == place).map(|(_, cost)| *cost)
        };
        for place in
            [(channels, ways * 2), (channels, ways / 2), (channels * 2, ways / 2), (channels / 2, ways * 2)]
        {
            if (1..=64).contains(&place.0) && (1..=64).contains(&place.1) && at(&seen, place).is_none() {
                let found = cost(place.0, place.1)?;
                seen.push((place, found));
            }
        }
        let own = at(&seen, here).unwrap_or(f64::INFINITY);
        let best = seen.iter().min_by(|left, right| left.1.total_cmp(&right.1)).copied();
        match best {
            Some((place, cost)) if cost * BETTER < own => here = place,
            _ => break,
        }
    }
    let own = seen.iter().find(|(place, _)| *place == here).map_or(f64::INFINITY, |(_, cost)| *cost);
    for (key, value, differs) in [
        (
            "flash.channels",
            here.0,
            (|a: (u32, u32), b: (u32, u32)| a.0 != b.0) as fn((u32, u32), (u32, u32)) -> bool,
        ),
        ("flash.ways", here.1, |a, b| a.0 * a.1 != b.0 * b.1),
    ] {
        let rival = seen.iter().filter(|(place, _)| differs(*place, here));
        let rival = rival.min_by(|left, right| left.1.total_cmp(&right.1)).copied();
        let identified = rival.is_none_or(|(_, cost)| cost > own * BETTER);
        let why = match rival {
            Some(((channels, ways), cost)) => format!(
                "squared residuals of the reads are {own:.1} in tolerances; the next, {channels} channels x {ways} ways, has {cost:.1}"
            ),
            None => "nothing else was possible".to_owned(),
        };
        derived.push(Derived { key, value, identified, why });
    }
    setup.sets.extend(keys(here.0, here.1));
    Ok(derived)
}

fn keys(channels: u32, ways: u32) -> [String; 2] {
    [format!("drive.override.flash.channels={channels}"), format!("drive.override.flash.ways={ways}")]
}

/// Squared residuals of reads, after their constants were fitted to them.
fn reads_cost(model: &mut Model<'_>, reads: &[usize]) -> Result<f64, FitError> {
    let base: Profile = model.base.clone();
    let begin = |constant: Constant| (constant, constant.visible(constant.of(&base)));
    let start: Values = Constant::all(&base).into_iter().map(begin).collect();
    let requests: Vec<_> = reads.iter().map(|at| (*at, start.clone())).collect();
    let simulated: Option<Vec<Vec<f64>>> = model.figures(&requests)?.into_iter().collect();
    let Some(simulated) = simulated else { return Ok(f64::INFINITY) };
    let points: Vec<&Point> = reads.iter().map(|at| model.point(*at)).collect();
    let mut values = estimate(&base, &start, &points, &simulated);
    let is_free = |constant: Constant| {
        matches!(
            constant,
            Constant::ReadLatency
                | Constant::ReadLargeLatency
                | Constant::FlashRead(_)
                | Constant::ChannelRate
        )
    };
    let free: Vec<usize> = (0..values.len()).filter(|at| is_free(values[*at].0)).collect();
    let mut search = Search { steps: STEPS, ..Search::new(model, reads.to_vec(), start) };
    search.descend(&mut values, &free)?;
    if search.interrupted {
        return Err(FitError::Interrupted);
    }
    let residuals = search.residuals(&values)?;
    Ok(residuals
        .map_or(f64::INFINITY, |residuals| residuals.iter().map(|residual| residual * residual).sum()))
}
