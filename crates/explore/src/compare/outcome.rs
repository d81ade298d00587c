//! Runs the points that are not yet stored, several in parallel, and collects their outcomes. Each is
//! independent, so that the number of threads affects only the elapsed time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::plan::Plan;
use super::store::{Store, StoreError};
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
    /// Progress counter of points.
    pub bar: &'a dyn Points,
}

/// Outcomes of all points.
pub struct PointOutcomes {
    /// The outcomes, in order.
    pub outcomes: Vec<PointOutcome>,
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
    let mut outcomes: Vec<PointOutcome> = plan.points.iter().map(|_| PointOutcome::NotRun).collect();
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
                outcomes[index] = PointOutcome::Done(Box::new(found.clone()));
                resumed += 1;
            }
        }
    }
    options.bar.begin_at(resumed as u64);
    let todo: Vec<usize> =
        (0..plan.points.len()).filter(|at| outcomes[*at] == PointOutcome::NotRun).collect();
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
            let outcome = run_point(&point.scenario, options.interrupt);
            if let (PointOutcome::Done(found), Some(store)) = (&outcome, options.store)
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
