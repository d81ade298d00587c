//! Runs of one scenario with several seeds, in parallel: each depends on its scenario alone, so that the number of threads affects only
//! the elapsed time.

use byteway_results::RunResult;
use byteway_results::figures::Figures;
use byteway_results::replicates::{REPLICATES_MAX, ReplicateRow, Replicates, seeds};
use byteway_results::results::Results;
use byteway_results::results::batches::batch_means;
use byteway_run::probe::{PointOutcome, run_point};
use byteway_scenario::Scenario;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of runs of a scenario, each with another seed: 1 to [`REPLICATES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat(u16);

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat(1)
    }
}

impl Repeat {
    /// # Errors
    /// It is 0, or too many.
    pub fn new(count: u64) -> Result<Repeat, InputError> {
        match u16::try_from(count) {
            Ok(count @ 1..=REPLICATES_MAX) => Ok(Repeat(count)),
            _ => Err(InputError::new(
                format!("there cannot be {count} replicates"),
                format!("write 1, for a single run, to {REPLICATES_MAX}"),
            )),
        }
    }

    /// The number of runs.
    pub fn count(self) -> usize {
        self.0.into()
    }

    /// Whether there are several runs, and hence means and intervals.
    pub fn is_several(self) -> bool {
        self.0 > 1
    }

    /// Seeds of the runs of a scenario with this seed, which is the first of them.
    pub fn seeds(self, seed: u64) -> Vec<u64> {
        seeds(seed, self.0)
    }
}

/// The scenario with another seed.
pub(crate) fn with_seed(scenario: &Scenario, seed: u64) -> Scenario {
    Scenario { seed, ..scenario.clone() }
}

/// Does `work` for each of `count` numbers, in as many threads as there are, at least one. After an interrupt none is begun.
pub(crate) fn in_parallel(
    threads: usize,
    count: usize,
    interrupt: &Interrupt,
    work: &(impl Fn(usize) + Sync),
) {
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        (at < count && !interrupt.is_raised()).then_some(at)
    };
    let work = || {
        while let Some(at) = take() {
            work(at);
        }
    };
    std::thread::scope(|scope| {
        let others = threads.min(count).saturating_sub(1);
        for _ in 0..others {
            scope.spawn(work);
        }
        work();
    });
}

/// Locks a mutex. A poisoned lock is usable, because runs panic outside of it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run may inject failures on purpose: unlike a comparison, it accepts failed commands, which its summary lists.
fn with_failed_commands(outcome: PointOutcome) -> PointOutcome {
    match outcome {
        PointOutcome::Failed(_, Some(found))
            if found.summary.verification.mismatches == 0 && found.summary.ios > 0 =>
        {
            PointOutcome::Done(found)
        }
        other => other,
    }
}

/// Adds to a run's summary what tells its figures from chance: runs the other replicates, and takes the means. If one was not run, the
/// summary is partial. A single run has the means of its batches instead.
pub fn replicate(
    results: &mut Results,
    scenario: &Scenario,
    repeat: Repeat,
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
) {
    if !repeat.is_several() {
        results.summary.batch_means = batch_means(&results.series, &scenario.jobs);
        return;
    }
    let seeds = repeat.seeds(scenario.seed);
    let mut outcomes = vec![PointOutcome::NotRun; seeds.len()];
    outcomes[0] = PointOutcome::of(RunResult { summary: results.summary.clone(), curves: results.curves() });
    bar.begin_at(1);
    let done = Mutex::new(Vec::new());
    in_parallel(threads, seeds.len() - 1, interrupt, &|other| {
        let outcome = run_point(&with_seed(scenario, seeds[other + 1]), interrupt);
        locked(&done).push((other + 1, outcome));
        bar.one();
    });
    for (index, outcome) in locked(&done).drain(..) {
        outcomes[index] = outcome;
    }
    outcomes = outcomes.into_iter().map(with_failed_commands).collect();
    results.summary.partial |= outcomes.contains(&PointOutcome::NotRun);
    let rows = seeds.into_iter().zip(&outcomes).map(|(seed, outcome)| {
        let failure = match outcome {
            PointOutcome::Done(_) => None,
            PointOutcome::Failed(reason, _) => Some(reason.clone()),
            PointOutcome::NotRun => Some("not run".to_owned()),
        };
        ReplicateRow { seed, failure }
    });
    let runs = rows.collect();
    // A mean over fewer would pass for one over all.
    let all: Option<Vec<Figures>> =
        outcomes.iter().map(|outcome| Some(Figures::of(outcome.done()?))).collect();
    let figures = all.map(|all| Figures::means(&all)).unwrap_or_default();
    results.summary.replicates = Some(Replicates { runs, figures });
}
