//! Runs the points that are not yet stored, several in parallel, and collects their outcomes. Each is
//! independent, so that the number of threads affects only the elapsed time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::found::RunResult;
use super::plan::Plan;
use super::store::{Store, StoreError};
use byteway_results::results::Series;
use byteway_results::summary::Summary;
use byteway_run::run::{Session, run};
use byteway_scenario::Scenario;
use byteway_text::error::with_causes;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Points, Progress};

/// Outcome of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The point completed.
    Done(Box<RunResult>),
    /// The point failed: the reason, and the result, if there is one.
    Failed(String, Option<Box<RunResult>>),
    /// The comparison was interrupted earlier.
    NotRun,
}

impl Outcome {
    /// The result of a completed point without a failure.
    pub fn done(&self) -> Option<&RunResult> {
        match self {
            Outcome::Done(found) => Some(found),
            Outcome::Failed(..) | Outcome::NotRun => None,
        }
    }

    /// The result, if there is one.
    pub fn found(&self) -> Option<&RunResult> {
        match self {
            Outcome::Done(found) | Outcome::Failed(_, Some(found)) => Some(found),
            Outcome::Failed(_, None) | Outcome::NotRun => None,
        }
    }
}

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
    /// Progress counter of points.
    pub bar: &'a dyn Points,
}

/// Outcomes of all points.
pub struct PointOutcomes {
    /// The outcomes, in order.
    pub outcomes: Vec<Outcome>,
    /// Number of points taken from the store.
    pub resumed: usize,
    /// Whether all completed points could be stored.
    pub kept: Result<(), StoreError>,
}

/// Runs all points. A point that cannot be stored keeps its outcome.
///
/// # Errors
/// The store contains something that cannot be removed; nothing was run.
pub fn run_all(plan: &Plan, options: &CompareOptions<'_>) -> Result<PointOutcomes, StoreError> {
    let mut outcomes: Vec<Outcome> = plan.points.iter().map(|_| Outcome::NotRun).collect();
    let mut resumed = 0;
    // The first storage error.
    let trouble = Mutex::new(None);
    if let (Some(store), false) = (options.store, options.fresh) {
        let kept = store.kept();
        for (index, point) in plan.points.iter().enumerate() {
            if let Some(found) = kept.get(&point.fingerprint) {
                if let Err(error) = store.keep(index, &point.fingerprint, found) {
                    locked(&trouble).get_or_insert(error);
                }
                outcomes[index] = Outcome::Done(Box::new(found.clone()));
                resumed += 1;
            }
        }
    }
    options.bar.begin_at(resumed as u64);
    let todo: Vec<usize> = (0..plan.points.len()).filter(|at| outcomes[*at] == Outcome::NotRun).collect();
    // Remove a point of an earlier comparison, so that it cannot be mistaken for this one if the run fails.
    if let Some(store) = options.store {
        todo.iter().try_for_each(|index| store.forget(*index))?;
        store.clear(plan.points.len())?;
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(&index) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            if options.interrupt.is_raised() {
                break;
            }
            let point = &plan.points[index];
            let outcome = run_one(&point.scenario, options.interrupt);
            if let (Outcome::Done(found), Some(store)) = (&outcome, options.store)
                && let Err(error) = store.keep(index, &point.fingerprint, found)
            {
                locked(&trouble).get_or_insert(error);
            }
            locked(&done).push((index, outcome));
            options.bar.one();
        }
    };
    std::thread::scope(|scope| {
        let others = options.threads.min(todo.len()).saturating_sub(1);
        for _ in 0..others {
            scope.spawn(work);
        }
        work();
    });
    for (index, outcome) in locked(&done).drain(..) {
        outcomes[index] = outcome;
    }
    let trouble = locked(&trouble).take();
    let kept = trouble.map_or(Ok(()), |error| Err(StoreError::Point(Box::new(error))));
    Ok(PointOutcomes { outcomes, resumed, kept })
}

/// Locks a mutex. A poisoned lock is usable, because runs panic outside of it.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a scenario that is not a point of the comparison; `None` if it has no result.
pub fn probe(scenario: &Scenario, interrupt: &Interrupt) -> Option<RunResult> {
    match run_one(scenario, interrupt) {
        Outcome::Done(found) => Some(*found),
        Outcome::Failed(..) | Outcome::NotRun => None,
    }
}

/// Runs a scenario. A run that cannot be compared counts as failed.
pub(crate) fn run_one(scenario: &Scenario, interrupt: &Interrupt) -> Outcome {
    run_followed(scenario, interrupt).0
}

/// Like [`run_one`], with the time series of a completed run.
pub(crate) fn run_followed(scenario: &Scenario, interrupt: &Interrupt) -> (Outcome, Option<Series>) {
    // A panic in one run must not affect the others: the panic hook prints it, and the point fails.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut progress = Progress::hidden();
        run(scenario, Session { progress: &mut progress, interrupt })
    }));
    let results = match ran {
        Ok(Ok(results)) => results,
        // An error during an interrupt will recur when the point is run again.
        Ok(Err(_)) if interrupt.is_raised() => return (Outcome::NotRun, None),
        Ok(Err(error)) => return (Outcome::Failed(with_causes(&error), None), None),
        Err(_) => {
            let why = "the run panicked; this is a defect of Byteway".to_owned();
            return (Outcome::Failed(why, None), None);
        }
    };
    if results.summary.partial {
        return (Outcome::NotRun, None);
    }
    let found = Box::new(RunResult { summary: results.summary, curves: results.curves });
    let outcome = match failure(&found.summary) {
        Some(reason) => Outcome::Failed(reason, Some(found)),
        None => Outcome::Done(found),
    };
    (outcome, Some(results.series))
}

/// The reason for which a run's figures cannot be compared.
fn failure(summary: &Summary) -> Option<String> {
    if summary.verification.mismatches > 0 {
        let (wrong, reads) = (summary.verification.mismatches, summary.verification.reads);
        return Some(format!("{wrong} of {reads} reads did not return what was written"));
    }
    if let Some(row) = summary.errors.first() {
        let all: u64 = summary.errors.iter().map(|row| row.count).sum();
        return Some(format!("{all} commands failed: {}", row.status));
    }
    (summary.ios == 0).then(|| "no I/O was measured".to_owned())
}
