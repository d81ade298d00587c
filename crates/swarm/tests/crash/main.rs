//! Power cuts and other faults: random runs, a cut at every poll of one run, defects on purpose, and past failures.
//!
//! `BYTEWAY_CRASH_RUNS` (default 300) is the number of random runs, `BYTEWAY_CRASH_SEED` (1) their seed. `BYTEWAY_CRASH_EVERY` (331) is the
//! distance of cuts in polls; 1 is for release builds, or `byteway fuzz --every-poll`. `BYTEWAY_CRASH_DEFECT` is how the names of the
//! defects begin that are planted (all).

mod defects;
mod every_poll;
mod regressions;
mod swarm;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number")))
}
