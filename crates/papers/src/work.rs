//! Runs all points of a paper, several in parallel. Each is independent, so that the number of threads
//! affects only the elapsed time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::claim::Claim;
use crate::paper::Paper;
use crate::point::{Lengths, Points, Spec};
use crate::reproduction::Agreement;
use byteway_results::RunResult;
use byteway_run::probe::{PointOutcome, run_with_series};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points as Counter;

/// Options of running points.
pub(crate) struct ReproduceOptions<'a> {
    /// Lengths of points, at least 1.
    pub(crate) lengths: Lengths,
    /// Lengths of the repeated points that judge whether a shorter run is representative.
    pub(crate) others: Lengths,
    /// Number of threads, at least 1.
    pub(crate) threads: usize,
    /// Interrupt flag.
    pub(crate) interrupt: &'a Interrupt,
    /// Progress counter of points.
    pub(crate) bar: &'a dyn Counter,
}

/// All distinct points that these claims need, and with `figures` those of the paper's figures only.
pub(crate) fn specs(paper: &Paper, claims: &[Claim], figures: bool) -> Vec<Spec> {
    let recipes = claims.iter().filter(|claim| claim.needs.is_there());
    let recipes = recipes.filter_map(|claim| paper.recipe(&claim.id));
    let drawn = if figures { (paper.drawn)() } else { Vec::new() };
    let all = recipes.flat_map(|recipe| (recipe.points)()).chain(drawn);
    all.collect::<BTreeSet<Spec>>().into_iter().collect()
}

/// The points that are run a second time, with another number of payloads.
pub(crate) fn twice(paper: &Paper, specs: &[Spec]) -> Vec<Spec> {
    (paper.agreement)().into_iter().filter(|spec| specs.contains(spec)).collect()
}

/// Runs the points; returns their outcomes.
pub(crate) fn work(
    paper: &Paper,
    specs: &[Spec],
    options: &ReproduceOptions<'_>,
) -> (Points, Vec<Agreement>) {
    let twice = twice(paper, specs);
    // Start the longest points first, so that the others fill the remaining time.
    let mut tasks: Vec<(&Spec, u64)> = twice.iter().map(|spec| (spec, options.others.of(spec))).collect();
    tasks.extend(specs.iter().map(|spec| (spec, options.lengths.of(spec))));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((spec, payloads)) = tasks.get(index) else { break };
            if options.interrupt.is_raised() {
                break;
            }
            let outcome = match spec.scenario(*payloads) {
                Ok(scenario) => {
                    let (outcome, series) = run_with_series(&scenario, options.interrupt);
                    (honest(outcome), series.filter(|_| spec.is_followed()))
                }
                Err(error) => (PointOutcome::Failed(format!("{error}"), None), None),
            };
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(index, outcome);
            options.bar.one();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let first = twice.len();
    let mut series = Vec::new();
    let points = specs.iter().enumerate().map(|(at, spec)| {
        let (outcome, followed) = done.remove(&(first + at)).unwrap_or((PointOutcome::NotRun, None));
        series.extend(followed.map(|followed| (spec.clone(), followed)));
        (spec.clone(), outcome)
    });
    let points = Points::new(points.collect::<Vec<_>>()).with_series(series);
    let agreements = twice.iter().enumerate().filter_map(|(at, spec)| {
        let outcome = done.remove(&at).map_or(PointOutcome::NotRun, |(outcome, _)| outcome);
        let other = Points::new([(spec.clone(), outcome)]);
        Some(Agreement::between(spec, points.at(spec).ok()?, other.at(spec).ok()?))
    });
    let agreements = agreements.collect();
    (points, agreements)
}

/// Fails a point if payloads used another method than the configured one.
fn honest(outcome: PointOutcome) -> PointOutcome {
    let fallbacks =
        |found: &RunResult| found.summary.transfer.as_ref().map_or(0, |transfer| transfer.fallbacks);
    match outcome {
        PointOutcome::Done(found) if fallbacks(&found) > 0 => {
            let why = format!("{} of {} payloads used the fallback", fallbacks(&found), found.summary.ios);
            PointOutcome::Failed(why, Some(found))
        }
        outcome => outcome,
    }
}
