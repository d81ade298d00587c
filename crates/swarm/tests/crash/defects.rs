//! Defects on purpose: a swarm that does not detect them would not detect real ones.

use byteway_defect::Planted;
use byteway_swarm::draw::draw;
use byteway_swarm::registry::{Entry, Finder, REGISTRY};
use byteway_swarm::swarm::{Swarm, run_caught};

/// The first run of the swarm that fails because of this defect, unless a test of its own finds it.
fn found(Entry { defect, finder }: Entry) -> Option<u64> {
    let Finder::Runs { scope, runs, symptom } = finder else { return None };
    let swarm = Swarm { seed: 5, first: 0, runs, threads: 2, shrink_runs_max: 0 };
    let planted = Planted::from(defect);
    let found = swarm.fly(|plan| scope.plant(planted, plan), |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{defect:?} was not found: {:?}", found.tally));
    assert!(symptom.is(&finding.failure), "{defect:?}: {}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without {defect:?}");
    Some(finding.index)
}

// A real error that shows like one of these would be found as well.
#[test]
fn each_of_the_registry_is_found() {
    let only = std::env::var("BYTEWAY_CRASH_DEFECT").unwrap_or_default();
    for entry in REGISTRY.iter().filter(|entry| entry.defect.name().starts_with(&only)) {
        let run = found(*entry);
        println!(
            "{}: {}",
            entry.defect.name(),
            run.map_or("by a test of its own".into(), |run| format!("run {run}"))
        );
    }
}
