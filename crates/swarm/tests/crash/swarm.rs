//! Random runs.

use crate::number;
use byteway_swarm::plan::{Fault, Plan};
use byteway_swarm::swarm::{SHRINK_RUNS_MAX, Swarm};
use byteway_swarm::tally::Tally;

// Finds unexpected errors: durable data lost, deleted data that returns, commands that hang.
#[test]
fn random_runs_find_nothing() {
    let (seed, runs) = (number("BYTEWAY_CRASH_SEED", 1), number("BYTEWAY_CRASH_RUNS", 300));
    let swarm = Swarm { seed, first: 0, runs, threads: 2, shrink_runs_max: SHRINK_RUNS_MAX };
    let found = swarm.fly(|_| (), |_| false);
    if let Some(finding) = found.finding {
        let shrunken = &finding.shrunken;
        panic!(
            "run {} of seed {seed}: {}\nshrunk: {}\n{}",
            finding.index,
            finding.failure,
            shrunken.failure,
            shrunken.plan.to_toml()
        );
    }
    let tally = found.tally;
    assert_eq!(tally.runs, runs);
    // A swarm that does not exercise its features finds nothing either.
    let happened = [
        tally.cuts,
        tally.cuts_mounting,
        tally.cycles,
        tally.resets,
        tally.aborts,
        tally.interrupts_lost,
        tally.replays,
        tally.namespaces_created,
        tally.namespaces_deleted,
        tally.formats,
        tally.sanitized,
        tally.blocks_collected,
        tally.blocks_collected_idle,
        tally.blocks_levelled,
        tally.blocks_refreshed,
        tally.blocks_folded,
        tally.map_misses,
        tally.flash_failures,
        tally.units_uncorrectable,
        tally.blocks_retired,
        tally.ends_of_life,
        tally.in_files,
        tally.untimed,
        tally.hosted,
        tally.partial,
        tally.with_extents,
        tally.arrays,
        tally.bridges,
        tally.members_unplugged,
        tally.jbofs,
        tally.jbof_faults,
        tally.drives_left,
        tally.sessions_cut,
        tally.loans,
        tally.redirected,
        tally.stripes_repaired,
        tally.units_reconstructed,
        tally.units_rebuilt,
        tally.writes_taken,
        tally.parts_merged,
        tally.neighbours,
        tally.with_pairs,
        tally.pairs_stored,
        tally.pairs_refused,
        tally.pairs_verified,
        tally.pairs_merged,
        tally.pairs_collected,
        tally.pairs_replayed,
        tally.with_tables,
        tally.tables_verified,
    ];
    assert!(runs < 300 || happened.iter().all(|count| *count > 0), "{tally:?}");
    // Drives at their end of life refuse all writes.
    assert!(tally.ops_failed * 2 < tally.ops, "most operations are to do something: {tally:?}");
}

// Neighbor drives that were idle, or not verified after a cut, would find nothing.
#[test]
fn neighbour_drives_work_and_are_verified() {
    let plans = (0..).map(|index| byteway_swarm::draw::draw(1, index));
    let is_cut = |plan: &Plan| plan.faults.iter().any(|fault| matches!(fault, Fault::Cut { .. }));
    for plan in plans.filter(|plan| plan.neighbours.len() == 2 && is_cut(plan)).take(3) {
        let with = byteway_swarm::rig::run(&plan);
        let alone = byteway_swarm::rig::run(&Plan { neighbours: Vec::new(), ..plan.clone() });
        assert!(with.failure.is_none() && alone.failure.is_none(), "{:?}", with.failure);
        let (with, alone) = (with.tally, alone.tally);
        assert_eq!((with.neighbours, alone.neighbours, with.runs), (2, 0, 1));
        let verified = |tally: &Tally| tally.blocks_verified + tally.pairs_verified + tally.tables_verified;
        assert!(with.ops > alone.ops && verified(&with) > verified(&alone), "{with:?}");
        // An error in one of them must be found, and the report must name the drive.
        let mut wrong = plan.clone();
        wrong.neighbours[1].drive.blocks = 1;
        assert!(byteway_swarm::rig::run(&wrong).failure.is_some());
    }
}

// A run that is not reproducible cannot be debugged.
#[test]
fn a_run_is_the_same_again() {
    for index in 0..20 {
        let plan = byteway_swarm::draw::draw(9, index);
        let [first, second] = [0; 2].map(|_| byteway_swarm::rig::run(&plan));
        assert_eq!((first.lives, first.tally), (second.lives, second.tally), "run {index}");
    }
}
