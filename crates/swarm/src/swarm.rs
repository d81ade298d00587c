//! Many runs, on all processors, until a number of them is done or a time is over.
//!
//! Each run is its own simulation, and only its number and the seed decide what it does. The time decides nothing but
//! how many runs there are; of several failures the one with the lowest number is reported.

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

/// Runs that making a failure smaller may take, usually.
pub const SHRINK_RUNS_MAX: u64 = 3000;

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Swarm {
    /// The seed.
    pub seed: u64,
    /// The number of the first run.
    pub first: u64,
    /// Runs at most.
    pub runs: u64,
    /// At once.
    pub threads: usize,
    /// Runs that making a failure smaller may take.
    pub shrink_runs_max: u64,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its number.
    pub index: u64,
    /// How it failed as it was drawn.
    pub failure: Failure,
    /// The same, made smaller.
    pub shrunken: Shrunken,
}

/// What a swarm found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What all runs did that ended.
    pub tally: Tally,
    /// The first that failed.
    pub finding: Option<Finding>,
}

impl Swarm {
    /// Runs until all runs are done, one has failed, or `is_over` says so, which is asked before each run with how many
    /// there were. `change` has each plan before it is run.
    pub fn fly(&self, change: impl Fn(&mut Plan) + Sync, is_over: impl Fn(&Tally) -> bool + Sync) -> Found {
        self.fly_until(change, is_over, || false)
    }

    /// [`fly`](Self::fly), and when `is_stopped`, a failure is not made smaller any more.
    pub fn fly_until(
        &self,
        change: impl Fn(&mut Plan) + Sync,
        is_over: impl Fn(&Tally) -> bool + Sync,
        is_stopped: impl Fn() -> bool,
    ) -> Found {
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
                let so_far = *tally.lock().expect("nobody panics with it");
                if stop.load(Ordering::Relaxed) || is_over(&so_far) {
                    return;
                }
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index - self.first >= self.runs {
                    return;
                }
                let ended = run_caught(&drawn(index));
                tally.lock().expect("nobody panics with it").add(&ended.tally);
                if let Some(failure) = ended.failure {
                    // Runs with lower numbers have begun, and end: the lowest is kept.
                    stop.store(true, Ordering::Relaxed);
                    let mut kept = first_failed.lock().expect("nobody panics with it");
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
        let failed = first_failed.into_inner().expect("nobody panics with it");
        let finding = failed.map(|(index, failure)| {
            // A plan that is not run does not fail: what was found so far remains.
            let again = |plan: &Plan| if is_stopped() { None } else { run_caught(plan).failure };
            let shrunken = shrink(&drawn(index), &failure, self.shrink_runs_max, again);
            Finding { index, failure, shrunken }
        });
        Found { tally: tally.into_inner().expect("nobody panics with it"), finding }
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
    /// A panic on this thread is a failure of the run, and need not be printed.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    /// Where the last one was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics of runs are noted; others are printed as ever.
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

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it says nothing".to_owned())
}
