//! Many runs on all processors, until a number of runs or a time limit is reached.
//!
//! Each run is a separate simulation, determined by its number and the seed. Time only limits the number of runs; of several failures, the
//! one with the lowest number is reported.

use super::draw::draw;
use super::failure::{Failure, Kind};
use super::plan::Plan;
use super::rig::{Ended, run};
use super::shrink::{Shrunken, shrink};
use super::tally::Tally;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, Once};

/// Default limit of the runs spent on shrinking.
pub const SHRINK_RUNS_MAX: u64 = 3000;

/// Configuration of a swarm.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// Seed.
    pub seed: u64,
    /// Number of the first run.
    pub first: u64,
    /// Upper limit of runs.
    pub runs: u64,
    /// Number of threads.
    pub threads: usize,
    /// Limit of the runs spent on shrinking.
    pub shrink_runs_max: u64,
}

/// A failed run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Run number.
    pub index: u64,
    /// The failure of the plan as drawn.
    pub failure: Failure,
    /// The shrunk plan.
    pub shrunken: Shrunken,
}

/// Result of a swarm.
#[derive(Clone, Debug, Default)]
pub struct SwarmResult {
    /// Counts of all completed runs.
    pub tally: Tally,
    /// The first failed run, if any.
    pub finding: Option<Finding>,
}

impl Swarm {
    /// Runs until all runs are done, one has failed, or `is_over` returns `true`; it is called before each run with the counts so far.
    /// `change` can modify each plan before its run.
    pub fn fly(
        &self,
        change: impl Fn(&mut Plan) + Sync,
        is_over: impl Fn(&Tally) -> bool + Sync,
    ) -> SwarmResult {
        self.fly_until(change, is_over, || false)
    }

    /// Like [`fly`](Self::fly); once `is_stopped`, a failure is no longer shrunk.
    pub fn fly_until(
        &self,
        change: impl Fn(&mut Plan) + Sync,
        is_over: impl Fn(&Tally) -> bool + Sync,
        is_stopped: impl Fn() -> bool,
    ) -> SwarmResult {
        let next = AtomicU64::new(self.first);
        let stop = AtomicBool::new(false);
        let tally = Mutex::new(Tally::default());
        let first_failed: Mutex<Option<(u64, Failure)>> = Mutex::new(None);
        let drawn = |index| {
            let mut plan = draw(self.seed, index);
            change(&mut plan);
            plan
        };
        let work = || {
            loop {
                let so_far = *tally.lock().expect("no thread panics with the lock held");
                if stop.load(Ordering::Relaxed) || is_over(&so_far) {
                    return;
                }
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index - self.first >= self.runs {
                    return;
                }
                let ended = run_caught(&drawn(index));
                *tally.lock().expect("no thread panics with the lock held") += ended.tally;
                if let Some(failure) = ended.failure {
                    // Runs with lower numbers have already started and will finish, so the lowest failure is kept.
                    stop.store(true, Ordering::Relaxed);
                    let mut kept = first_failed.lock().expect("no thread panics with the lock held");
                    if kept.as_ref().is_none_or(|(other, _)| index < *other) {
                        *kept = Some((index, failure));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let failed = first_failed.into_inner().expect("no thread panics with the lock held");
        let finding = failed.map(|(index, failure)| {
            // A plan that is not run counts as passing, so that the best plan so far remains.
            let again = |plan: &Plan| if is_stopped() { None } else { run_caught(plan).failure };
            let shrunken = shrink(&drawn(index), &failure, self.shrink_runs_max, again);
            Finding { index, failure, shrunken }
        });
        SwarmResult { tally: tally.into_inner().expect("no thread panics with the lock held"), finding }
    }
}

/// Runs a plan; a panic is a failure.
pub fn run_caught(plan: &Plan) -> Ended {
    note_panics();
    CATCHING.set(true);
    let caught = catch_unwind(AssertUnwindSafe(|| run(plan)));
    CATCHING.set(false);
    caught.unwrap_or_else(|panic| {
        let place = PLACE.take().map_or_else(String::new, |place| format!(" ({place})"));
        let text = format!("{}{place}", message(&*panic));
        Ended {
            tally: Tally { runs: 1, ..Tally::default() },
            failure: Some(Failure::new(Kind::Panic, text)),
            lives: Vec::new(),
        }
    })
}

thread_local! {
    /// Whether a panic on this thread is a failure of the run, which need not be printed.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    /// Location of the last such panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a hook that records panics of runs; others are printed as usual.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                return others(panic);
            }
            let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
            PLACE.replace(place);
        }));
    });
}

/// Message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
