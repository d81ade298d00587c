//! Runs the points that are not yet stored, several in parallel, and collects their outcomes. Each is
//! independent, so that the number of threads affects only the elapsed time.

use std::sync::Mutex;

use super::plan::Plan;
use super::store::{Store, StoreError};
use crate::replicate::{in_parallel, locked, with_seed};
use byteway_run::probe::{PointOutcome, run_point};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;

/// Options of running points.
pub struct CompareOptions<'a> {
    /// Number of threads, at least 1.
    pub threads: usize,
    /// Store for completed points.
    pub store: Option<&'a Store>,
    /// Whether to run stored points again.
    pub fresh: bool,
    /// Interrupt flag.
    pub interrupt: &'a Interrupt,
    /// Progress counter of runs.
    pub bar: &'a dyn Points,
}

/// Outcomes of all runs.
pub struct PointOutcomes {
    /// The outcomes: those of the first point's replicates first.
    pub outcomes: Vec<PointOutcome>,
    /// Number of runs taken from the store.
    pub resumed: usize,
    /// Whether all completed runs could be stored.
    pub kept: Result<(), StoreError>,
}

/// Runs all points. A run that cannot be stored keeps its outcome.
///
/// # Errors
/// The store contains something that cannot be removed; nothing was run.
pub fn run_all(plan: &Plan, options: &CompareOptions<'_>) -> Result<PointOutcomes, StoreError> {
    let count = plan.runs();
    let mut outcomes = vec![PointOutcome::NotRun; count];
    let mut resumed = 0;
    // The first storage error.
    let trouble = Mutex::new(None);
    if let (Some(store), false) = (options.store, options.fresh) {
        let kept = store.kept();
        for (number, outcome) in outcomes.iter_mut().enumerate() {
            let (_, run) = plan.run(number);
            if let Some(found) = kept.get(&run.fingerprint) {
                if let Err(error) = store.keep(number, &run.fingerprint, found) {
                    locked(&trouble).get_or_insert(error);
                }
                *outcome = PointOutcome::Done(Box::new(found.clone()));
                resumed += 1;
            }
        }
    }
    options.bar.begin_at(resumed as u64);
    let todo: Vec<usize> = (0..count).filter(|at| outcomes[*at] == PointOutcome::NotRun).collect();
    // Remove a run of an earlier comparison, so that it cannot be mistaken for this one if the run fails.
    if let Some(store) = options.store {
        todo.iter().try_for_each(|number| store.forget(*number))?;
        store.clear(count)?;
    }
    let done = Mutex::new(Vec::new());
    in_parallel(options.threads, todo.len(), options.interrupt, &|at| {
        let number = todo[at];
        let (point, run) = plan.run(number);
        let outcome = run_point(&with_seed(&point.scenario, run.seed), options.interrupt);
        if let (PointOutcome::Done(found), Some(store)) = (&outcome, options.store)
            && let Err(error) = store.keep(number, &run.fingerprint, found)
        {
            locked(&trouble).get_or_insert(error);
        }
        locked(&done).push((number, outcome));
        options.bar.one();
    });
    for (number, outcome) in locked(&done).drain(..) {
        outcomes[number] = outcome;
    }
    let trouble = locked(&trouble).take();
    let kept = trouble.map_or(Ok(()), |error| Err(StoreError::Point(Box::new(error))));
    Ok(PointOutcomes { outcomes, resumed, kept })
}
