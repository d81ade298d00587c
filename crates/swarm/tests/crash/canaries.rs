//! Deliberate defects: a swarm that does not detect them would not detect real ones.

use byteway_swarm::draw::draw;
use byteway_swarm::failure::Kind;
use byteway_swarm::plan::{
    ArrayCanarySpec, BoxCanarySpec, CanarySpec, KvCanarySpec, Plan, ProgramsCanarySpec, TablesCanarySpec,
};
use byteway_swarm::swarm::{Swarm, run_caught};

/// The first run that detects the defect.
fn found(canary: CanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 2000, threads: 2, shrink_runs_max: 0 };
    let found = swarm.fly(|plan| plan.drive.canary = Some(canary), |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    // In a debug build an assertion of the translation layer may fail before a host reads anything. Contents of an older state may already
    // be released, which reads as an error.
    // A drive whose map is gone refuses to start.
    let says = |text: &str| finding.failure.kind == Kind::Error && finding.failure.text.contains(text);
    let is_gone = says("Unrecovered") || says("the controller was not ready");
    assert!(is_gone || matches!(finding.failure.kind, Kind::Data | Kind::Panic), "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

#[test]
fn trims_that_are_ignored() {
    assert!(found(CanarySpec::IgnoreTrims) < 100);
}

#[test]
fn the_older_of_two_copies() {
    assert!(found(CanarySpec::OlderCopy) < 100);
}

#[test]
fn a_stripe_that_counts_before_its_wordline_is_whole() {
    assert!(found(CanarySpec::TrustTorn) < 300);
}

#[test]
fn a_dump_that_is_forgotten() {
    assert!(found(CanarySpec::ForgetDump) < 100);
}

#[test]
fn a_superblock_that_is_erased_too_early() {
    assert!(found(CanarySpec::EraseEarly) < 2000);
}

/// The first run that hangs.
fn found_as_a_hang(canary: CanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 2000, threads: 2, shrink_runs_max: 0 };
    let found = swarm.fly(|plan| plan.drive.canary = Some(canary), |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    // A host that waits for a shutdown eventually gives up.
    let has_given_up = finding.failure.text.contains("was not shut down");
    assert!(finding.failure.kind == Kind::Hang || has_given_up, "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

// A past error: a served drive with `timing = "none"` stopped after a few clients, and the swarm could not find it because every program
// took time.
#[test]
fn a_wordline_that_takes_parts_of_another_along() {
    assert!(found_as_a_hang(CanarySpec::TakeAlong) < 300);
}

#[test]
fn a_shutdown_that_never_ends() {
    assert!(found_as_a_hang(CanarySpec::StallShutdown) < 100);
}

/// The first run that detects a defect of a KV store.
fn found_in_pairs(canary: KvCanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 2000, threads: 2, shrink_runs_max: 0 };
    let found = swarm.fly(|plan| plan.drive.kv.canary = Some(canary), |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    // Checksum mismatches surface as errors.
    let kinds = [Kind::Data, Kind::Error, Kind::Panic];
    assert!(kinds.contains(&finding.failure.kind), "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

#[test]
fn values_that_are_torn() {
    assert!(found_in_pairs(KvCanarySpec::TrustTorn) < 2000);
}

#[test]
fn pages_of_pairs_that_capacitors_forget() {
    assert!(found_in_pairs(KvCanarySpec::ForgetSave) < 200);
}

#[test]
fn the_older_of_two_records() {
    assert!(found_in_pairs(KvCanarySpec::OlderRecord) < 200);
}

#[test]
fn a_segment_that_is_used_again_too_early() {
    assert!(found_in_pairs(KvCanarySpec::ReuseEarly) < 2000);
}

#[test]
fn a_value_that_is_moved_blindly() {
    assert!(found_in_pairs(KvCanarySpec::MoveBlindly) < 2000);
}

/// The first run that detects a defect of tables. Runs of drives without tables are skipped.
fn found_in_tables(canary: TablesCanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 6000, threads: 2, shrink_runs_max: 0 };
    let change = |plan: &mut Plan| match plan.drive.has_tables() {
        true => plan.drive.tables_canary = Some(canary),
        false => {
            plan.ops.truncate(1);
            plan.faults.clear();
            plan.neighbours.clear();
        }
    };
    let found = swarm.fly(change, |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    // Row groups that were not written have another checksum, which reads as an error.
    assert!(matches!(finding.failure.kind, Kind::Data | Kind::Error), "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

// After a power cut the catalog names row groups that are not in flash.
#[test]
fn an_append_whose_catalog_comes_before_its_rows() {
    assert!(found_in_tables(TablesCanarySpec::CatalogFirst) < 6000);
}

// A power cut leaves part of an append, which must be atomic.
#[test]
fn an_append_that_is_committed_in_parts() {
    assert!(found_in_tables(TablesCanarySpec::OneByOne) < 6000);
}

// A row group with result rows is not read.
#[test]
fn zone_maps_of_another_row_group() {
    assert!(found_in_tables(TablesCanarySpec::ForeignZones) < 2000);
}

/// The first run that detects a defect of an array. Runs of other drives are skipped.
fn found_in_an_array(canary: ArrayCanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 6000, threads: 2, shrink_runs_max: 0 };
    let change = |plan: &mut Plan| match &mut plan.drive.array {
        Some(array) => array.canary = Some(canary),
        None => {
            plan.ops.truncate(1);
            plan.faults.clear();
            plan.neighbours.clear();
        }
    };
    let found = swarm.fly(change, |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    assert_eq!(finding.failure.kind, Kind::Data, "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

// Without marks nothing is repaired after a power cut: wrong parity then reconstructs garbage for a member lost later.
#[test]
fn a_write_intent_log_that_is_left_out() {
    assert!(found_in_an_array(ArrayCanarySpec::NoIntentLog) < 6000);
}

// Units whose parity cannot be trusted must fail to read, not return made-up data.
#[test]
fn lost_units_that_are_not_marked() {
    assert!(found_in_an_array(ArrayCanarySpec::NoLostMarks) < 6000);
}

// Writes acknowledged from a bridge's memory are not on any member yet.
#[test]
fn a_bridge_whose_memory_forgets() {
    assert!(found_in_an_array(ArrayCanarySpec::ForgetMemory) < 1000);
}

// Only the journal can repair a stripe with a missing member that a power cut has torn.
#[test]
fn a_journal_that_is_left_out() {
    assert!(found_in_an_array(ArrayCanarySpec::NoJournal) < 6000);
}

/// The first run that detects the defect that `broken` installs in an enclosure. Runs in which `broken` returns `false` are skipped.
fn found_in_a_box(broken: impl Fn(&mut Plan) -> bool + Sync) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 6000, threads: 2, shrink_runs_max: 0 };
    let change = |plan: &mut Plan| {
        if !broken(plan) {
            plan.drive.canary = None;
            plan.jbof = None;
            plan.ops.truncate(1);
            plan.faults.clear();
            plan.neighbours.clear();
        }
    };
    let found = swarm.fly(change, |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("it was not found: {:?}", found.tally));
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

/// As above, for a defect of the enclosure itself.
fn found_in_binding(canary: BoxCanarySpec) -> u64 {
    found_in_a_box(|plan| plan.jbof.as_mut().map(|spec| spec.canary = Some(canary)).is_some())
}

/// As above, for a drive in an enclosure that has borrowed DRAM.
fn found_in_borrowed_dram(canary: CanarySpec) -> u64 {
    found_in_a_box(|plan| {
        plan.drive.canary = Some(canary);
        plan.neighbours.iter_mut().for_each(|other| other.drive.canary = Some(canary));
        plan.jbof.as_ref().is_some_and(|spec| spec.dram)
    })
}

// Two drives that trust the same stale descriptor both get the lender: commands of one execute on the data of the other.
#[test]
fn a_stale_descriptor_that_is_believed() {
    assert!(found_in_binding(BoxCanarySpec::StaleDescriptor) < 6000);
}

// A lender whose queue is unbound while commands are in transit executes them on its own data.
#[test]
fn a_shadow_queue_that_is_unbound_without_drain() {
    assert!(found_in_binding(BoxCanarySpec::UnbindWithoutDrain) < 6000);
}

// Uncommitted changes are not replayed: entries revert to older values.
#[test]
fn a_log_commit_that_is_skipped() {
    assert!(found_in_borrowed_dram(CanarySpec::SkipCommit) < 6000);
}

// Dirty pages that are not read back revert to their state in flash.
#[test]
fn borrowed_dram_that_is_given_back_unread() {
    assert!(found_in_borrowed_dram(CanarySpec::ReturnUnread) < 6000);
}

/// The first run that detects a defect of programs. Runs of drives without programs are skipped.
fn found_in_programs(canary: ProgramsCanarySpec) -> u64 {
    let swarm = Swarm { seed: 5, first: 0, runs: 6000, threads: 2, shrink_runs_max: 0 };
    let change = |plan: &mut Plan| match &mut plan.drive.programs {
        Some(programs) => programs.canary = Some(canary),
        None => {
            plan.ops.truncate(1);
            plan.faults.clear();
            plan.neighbours.clear();
        }
    };
    let found = swarm.fly(change, |_| false);
    let finding = found.finding.unwrap_or_else(|| panic!("{canary:?} was not found: {:?}", found.tally));
    assert_eq!(finding.failure.kind, Kind::Data, "{}", finding.failure);
    let control = run_caught(&draw(swarm.seed, finding.index));
    assert_eq!(control.failure, None, "the same run without the defect");
    finding.index
}

#[test]
fn a_store_of_a_program_that_is_lost() {
    assert!(found_in_programs(ProgramsCanarySpec::LoseStore) < 300);
}

#[test]
fn a_row_that_a_filter_does_not_see() {
    assert!(found_in_programs(ProgramsCanarySpec::SkipRow) < 3000);
}
