//! A cut at every poll of 2,000 operations on a drive that collects all the time.

use crate::number;
use byteway_lab::fuzz::every::Every;

// There is a moment, between two steps that nobody thinks of as two, at which the power must not go.
#[test]
fn the_power_may_be_cut_at_any_poll() {
    let every = Every { seed: 1, ops: 2000, step: number("BYTEWAY_CRASH_EVERY", 331), threads: 2 };
    let cuts = every.cut(|_, _| ());
    if let Some((plan, failure)) = cuts.failure {
        panic!("{failure}\n{}", plan.to_toml());
    }
    assert!(cuts.polls > 40_000, "{} polls are not 2,000 operations", cuts.polls);
    assert!(cuts.tally.cuts >= cuts.polls / every.step, "{:?}", cuts.tally);
    assert!(cuts.tally.blocks_collected > cuts.tally.runs, "{:?}", cuts.tally);
}
