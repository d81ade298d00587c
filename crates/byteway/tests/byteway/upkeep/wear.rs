//! Wear under a skewed load: nearly all writes go to a fifth of the drive, until blocks were erased dozens of times.

use crate::common::{assert_within, run_with};
use byteway_results::summary::{Summary, WearSummary};

/// 2 dies of 1 GiB in total, with blocks of 1 MiB: large enough for a spread, small enough to be overwritten fifty times.
fn skewed(sets: &[&str]) -> Summary {
    let text = include_str!("../../../../../scenarios/wear.toml");
    run_with(text, sets)
}

fn wear(summary: &Summary) -> WearSummary {
    summary.upkeep.as_ref().and_then(|upkeep| upkeep.wear).expect("it is told")
}

// The most worn blocks determine a drive's end of life. The default of the scenario has dynamic wear leveling only.
#[test]
fn static_levelling_keeps_the_spread_within_a_tenth_of_the_mean() {
    // Without it, a fifth of the writes suffices to show the effect.
    let without = skewed(&["job.0.io_size=6 GiB"]);
    let with = skewed(&["drive.override.firmware.wear.static_spread=2"]);
    let (uneven, even) = (wear(&without), wear(&with));
    assert!(even.mean > 50.0, "a spread of few erases says nothing: {even:?}");
    assert!(even.spread < 0.1, "{even:?}");
    assert!((even.spread - (even.max - even.min) as f64 / even.mean).abs() < 1e-5, "{even:?}");
    // Cold data stays in place: the least worn blocks are as new, the others wear faster than the mean.
    assert!(uneven.spread > 1.0, "{uneven:?}");
    // Its cost is reported, and is low.
    let part = |cause: &str| {
        let upkeep = with.upkeep.as_ref().expect("it is told");
        upkeep.programmed.iter().find(|row| row.cause == cause).map_or(0.0, |row| row.per_unit_written)
    };
    assert!(part("levelling") > 0.0 && part("levelling") < 0.5, "{:?}", with.upkeep);
    let upkeep = with.upkeep.as_ref().expect("it is told");
    let parts: f64 = upkeep.programmed.iter().map(|row| row.per_unit_written).sum();
    assert_within(0.01, parts, with.write_amplification.expect("the host wrote"), "the parts and the whole");
}
