//! Running all points of a paper, several at once, each for itself, so that their number changes nothing but how long it
//! takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::claim::Claim;
use super::paper::Paper;
use super::point::{Lengths, Points, Spec};
use super::reproduction::Agreement;
use crate::compare::{Found, Outcome, run_followed};
use byteway_console::interrupt::Interrupt;
use byteway_console::progress::Points as Counter;

/// How to run.
pub struct Manner<'a> {
    /// How long points are, at least 1.
    pub lengths: Lengths,
    /// How long the points are by which that is judged.
    pub others: Lengths,
    /// Runs at once, at least 1.
    pub threads: usize,
    /// Says when to stop.
    pub interrupt: &'a Interrupt,
    /// Counts points.
    pub bar: &'a dyn Counter,
}

/// Every point that these claims need, and with `figures` those that only the paper's figures show, once.
pub fn specs(paper: &Paper, claims: &[Claim], figures: bool) -> Vec<Spec> {
    let recipes = claims.iter().filter(|claim| claim.needs.is_there());
    let recipes = recipes.filter_map(|claim| paper.recipe(&claim.id));
    let drawn = if figures { (paper.drawn)() } else { Vec::new() };
    let all = recipes.flat_map(|recipe| (recipe.points)()).chain(drawn);
    all.collect::<BTreeSet<Spec>>().into_iter().collect()
}

/// Of the points those that are run once more, with another number of payloads.
pub fn twice(paper: &Paper, specs: &[Spec]) -> Vec<Spec> {
    (paper.agreement)().into_iter().filter(|spec| specs.contains(spec)).collect()
}

/// Runs the points.
pub fn work(paper: &Paper, specs: &[Spec], manner: &Manner<'_>) -> (Points, Vec<Agreement>) {
    let twice = twice(paper, specs);
    // The longest first: the others then fill the time beside it.
    let mut tasks: Vec<(&Spec, u64)> = twice.iter().map(|spec| (spec, manner.others.of(spec))).collect();
    tasks.extend(specs.iter().map(|spec| (spec, manner.lengths.of(spec))));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((spec, payloads)) = tasks.get(index) else { break };
            if manner.interrupt.is_raised() {
                break;
            }
            let outcome = match spec.scenario(*payloads) {
                Ok(scenario) => {
                    let (outcome, series) = run_followed(&scenario, manner.interrupt);
                    (honest(outcome), series.filter(|_| spec.is_followed()))
                }
                Err(error) => (Outcome::Failed(format!("{error}"), None), None),
            };
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(index, outcome);
            manner.bar.one();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..manner.threads.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let first = twice.len();
    let mut series = Vec::new();
    let points = specs.iter().enumerate().map(|(at, spec)| {
        let (outcome, followed) = done.remove(&(first + at)).unwrap_or((Outcome::NotRun, None));
        series.extend(followed.map(|followed| (spec.clone(), followed)));
        (spec.clone(), outcome)
    });
    let points = Points::new(points.collect::<Vec<_>>()).with_series(series);
    let agreements = twice.iter().enumerate().filter_map(|(at, spec)| {
        let outcome = done.remove(&at).map_or(Outcome::NotRun, |(outcome, _)| outcome);
        let other = Points::new([(spec.clone(), outcome)]);
        Some(Agreement::between(spec, points.at(spec).ok()?, other.at(spec).ok()?))
    });
    let agreements = agreements.collect();
    (points, agreements)
}

/// A point of which payloads went another way than was asked for shows another method.
fn honest(outcome: Outcome) -> Outcome {
    let fallbacks = |found: &Found| found.summary.transfer.as_ref().map_or(0, |transfer| transfer.fallbacks);
    match outcome {
        Outcome::Done(found) if fallbacks(&found) > 0 => {
            let why = format!("{} of {} payloads went by the fallback", fallbacks(&found), found.summary.ios);
            Outcome::Failed(why, Some(found))
        }
        outcome => outcome,
    }
}
