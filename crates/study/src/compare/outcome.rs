//! What became of each point, and running those that were not run before: several at once, each for itself, so that
//! their number changes nothing but how long it takes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::found::Found;
use super::plan::Plan;
use super::store::{Store, StoreError};
use byteway_console::error::with_causes;
use byteway_console::interrupt::Interrupt;
use byteway_console::progress::{Points, Progress};
use byteway_lab::run::{Session, run};
use byteway_measure::results::Series;
use byteway_measure::summary::Summary;
use byteway_scenario::Scenario;

/// What became of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran to its end.
    Done(Box<Found>),
    /// It did not: why, and what it had found if it came so far.
    Failed(String, Option<Box<Found>>),
    /// The comparison was interrupted before.
    NotRun,
}

impl Outcome {
    /// The figures of a point that ran to its end without a failure.
    pub fn done(&self) -> Option<&Found> {
        match self {
            Outcome::Done(found) => Some(found),
            Outcome::Failed(..) | Outcome::NotRun => None,
        }
    }

    /// Whatever was found.
    pub fn found(&self) -> Option<&Found> {
        match self {
            Outcome::Done(found) | Outcome::Failed(_, Some(found)) => Some(found),
            Outcome::Failed(_, None) | Outcome::NotRun => None,
        }
    }
}

/// How to run.
pub struct Manner<'a> {
    /// Runs at once, at least 1.
    pub threads: usize,
    /// Where to keep what is done.
    pub store: Option<&'a Store>,
    /// Run what was kept again.
    pub fresh: bool,
    /// Says when to stop.
    pub interrupt: &'a Interrupt,
    /// Counts points.
    pub bar: &'a dyn Points,
}

/// What became of the points.
pub struct Ran {
    /// Every point's outcome, in order.
    pub outcomes: Vec<Outcome>,
    /// How many of them had been kept.
    pub resumed: usize,
    /// Whether all that were done could be kept now.
    pub kept: Result<(), StoreError>,
}

/// Runs all points. What cannot be written costs no figures.
///
/// # Errors
/// The store holds something that can't be removed; nothing was run.
pub fn run_all(plan: &Plan, manner: &Manner<'_>) -> Result<Ran, StoreError> {
    let mut outcomes: Vec<Outcome> = plan.points.iter().map(|_| Outcome::NotRun).collect();
    let mut resumed = 0;
    // The first point that could not be written.
    let trouble = Mutex::new(None);
    if let (Some(store), false) = (manner.store, manner.fresh) {
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
    manner.bar.begin_at(resumed as u64);
    let todo: Vec<usize> = (0..plan.points.len()).filter(|at| outcomes[*at] == Outcome::NotRun).collect();
    // What another comparison left in a point's folder must not pass for this one's, should the point fail.
    if let Some(store) = manner.store {
        todo.iter().try_for_each(|index| store.forget(*index))?;
        store.clear(plan.points.len())?;
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(&index) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
            if manner.interrupt.is_raised() {
                break;
            }
            let point = &plan.points[index];
            let outcome = run_one(&point.scenario, manner.interrupt);
            if let (Outcome::Done(found), Some(store)) = (&outcome, manner.store)
                && let Err(error) = store.keep(index, &point.fingerprint, found)
            {
                locked(&trouble).get_or_insert(error);
            }
            locked(&done).push((index, outcome));
            manner.bar.one();
        }
    };
    std::thread::scope(|scope| {
        let others = manner.threads.min(todo.len()).saturating_sub(1);
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
    Ok(Ran { outcomes, resumed, kept })
}

/// A lock that a panicking thread left behind holds what it held: runs panic outside.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a scenario that is no point of the comparison; `None` if it gives no figures.
pub fn probe(scenario: &Scenario, interrupt: &Interrupt) -> Option<Found> {
    match run_one(scenario, interrupt) {
        Outcome::Done(found) => Some(*found),
        Outcome::Failed(..) | Outcome::NotRun => None,
    }
}

/// Runs a scenario. A run that can't be compared is a failure.
pub(crate) fn run_one(scenario: &Scenario, interrupt: &Interrupt) -> Outcome {
    run_followed(scenario, interrupt).0
}

/// The same, with the figures over time of a run that came to its end.
pub(crate) fn run_followed(scenario: &Scenario, interrupt: &Interrupt) -> (Outcome, Option<Series>) {
    // A defect in one run must not cost the others: it says where it is on the error stream, and here that it was.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut progress = Progress::hidden();
        run(scenario, Session { progress: &mut progress, interrupt })
    }));
    let results = match ran {
        Ok(Ok(results)) => results,
        // What fails while it is being stopped shows again when it is run again.
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
    let found = Box::new(Found { summary: results.summary, curves: results.curves });
    let outcome = match failure(&found.summary) {
        Some(reason) => Outcome::Failed(reason, Some(found)),
        None => Outcome::Done(found),
    };
    (outcome, Some(results.series))
}

/// What makes the figures of a run useless for comparing.
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
