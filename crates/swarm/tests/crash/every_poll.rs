//! A power cut at every poll of 2,000 operations on a drive with continuous garbage collection.

use crate::number;
use byteway_swarm::every::Every;

// Finds steps that look atomic but are not: a cut between them breaks the drive.
#[test]
fn the_power_may_be_cut_at_any_poll() {
    let every = Every { seed: 1, ops: 2000, step: number("BYTEWAY_CRASH_EVERY", 331), threads: 2 };
    let cuts = every.cut(|_, _| false);
    if let Some((plan, failure)) = cuts.failure {
        panic!("{failure}\n{}", plan.to_toml());
    }
    assert_eq!(cuts.done, cuts.wanted, "all were cut at");
    assert!(cuts.wanted >= cuts.polls / every.step, "{} of {} polls", cuts.wanted, cuts.polls);
    assert!(cuts.polls > 40_000, "{} polls are not 2,000 operations", cuts.polls);
    assert!(cuts.tally.cuts >= cuts.polls / every.step, "{:?}", cuts.tally);
    assert!(cuts.tally.blocks_collected > cuts.tally.runs, "{:?}", cuts.tally);
}

// A time limit must be checked between runs; and polls in ascending order would leave the last ones untested.
#[test]
fn cuts_that_are_stopped_early_are_scattered_over_all_polls() {
    let every = Every { seed: 1, ops: 60, step: 7, threads: 1 };
    let cuts = every.cut(|done, _| done >= 8);
    assert!(cuts.failure.is_none());
    assert_eq!(cuts.done, 8);
    assert!(cuts.wanted > 100, "{} are too few for the test", cuts.wanted);
    // A run is polled up to its cut: in ascending order all runs would end early.
    let mean = cuts.tally.polls / (cuts.done + 1);
    assert!(mean > cuts.polls / 4, "{mean} of {} polls", cuts.polls);
}
