//! The fixture: scenarios on a drive of round numbers (`round.toml`), or on any other, run from text to summary.

use byteway_console::error::with_causes;
use byteway_console::interrupt::Interrupt;
use byteway_console::progress::Progress;
use byteway_lab::error::RunError;
use byteway_lab::run::{Session, run as run_scenario};
use byteway_measure::results::Results;
use byteway_measure::summary::{KindSummary, Summary};
use byteway_scenario::{Options, Scenario};
use byteway_workload::Source;
use std::path::{Path, PathBuf};

/// The folder from which scenarios name their profiles.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/byteway/common")
}

/// A real trace, or a parameter file that others wrote: below `BYTEWAY_TRACES`, or below `../shared/traces` next to the
/// repository. `None`, and said, if it is missing; a test fails instead where `BYTEWAY_TRACES` is set, and in continuous
/// integration (`CI`), for there a test that is skipped looks like one that passes.
pub fn real(path: &str) -> Option<PathBuf> {
    let named = std::env::var_os("BYTEWAY_TRACES").map(PathBuf::from);
    let required = named.is_some() || std::env::var_os("CI").is_some();
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let file = named.unwrap_or_else(beside).join(path);
    if file.is_file() {
        return Some(file);
    }
    let missing =
        format!("{} is missing: set BYTEWAY_TRACES to the folder of the real traces", file.display());
    assert!(!required, "{missing}");
    eprintln!("SKIPPED: {missing}");
    None
}

/// The drive and the host of round numbers. `drive` has more lines of `[drive]`, such as `override.flash.ways = 1`; the
/// jobs are in `rest`.
pub fn round(drive: &str, rest: &str) -> String {
    format!("[host]\nprofile = 'round-host.toml'\n[drive]\nprofile = 'round.toml'\n{drive}\n{rest}\n")
}

/// A scenario from its text.
pub fn scenario(text: &str) -> Scenario {
    scenario_with(text, &[])
}

/// The same, with what `--set` would add.
pub fn scenario_with(text: &str, sets: &[&str]) -> Scenario {
    let options = Options { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Options::default() };
    match Scenario::from_text("test.toml", &folder(), text, &options) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}\nin\n{text}"),
    }
}

/// Where each job is written: `job.0`, `kv.0`. A section may be a job on each of several drives: `mix/a`, `mix/b`.
pub fn sections(scenario: &Scenario) -> Vec<String> {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let places = scenario.jobs.iter().map(|job| {
        let kind = if matches!(job.source, Source::Pairs(_)) { "kv" } else { "job" };
        let name = job.name.split('/').next().unwrap_or_default();
        if !sections.contains(&(kind, name)) {
            sections.push((kind, name));
        }
        let of_kind = sections.iter().filter(|section| section.0 == kind).count();
        format!("{kind}.{}", of_kind - 1)
    });
    places.collect()
}

/// Runs a scenario to its end. No command may fail and every read must verify.
pub fn run(text: &str) -> Summary {
    finish(&scenario(text))
}

/// The same, with what `--set` would add.
pub fn run_with(text: &str, sets: &[&str]) -> Summary {
    finish(&scenario_with(text, sets))
}

/// Runs what was read before.
pub fn finish(scenario: &Scenario) -> Summary {
    let summary = run_until(scenario, &Interrupt::default());
    assert!(!summary.partial, "nobody interrupted it");
    summary
}

/// Runs until the end, or until `interrupt` is raised. No command may fail and every read must verify.
pub fn run_until(scenario: &Scenario, interrupt: &Interrupt) -> Summary {
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt };
    checked(run_scenario(scenario, session)).summary
}

/// All the results of a scenario. No command may fail and every read must verify.
pub fn results(text: &str) -> Results {
    results_with(text, &[])
}

/// The same, with what `--set` would add.
pub fn results_with(text: &str, sets: &[&str]) -> Results {
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt: &Interrupt::default() };
    checked(run_scenario(&scenario_with(text, sets), session))
}

fn checked(results: Result<Results, RunError>) -> Results {
    let results = match results {
        Ok(results) => results,
        Err(error) => panic!("{}", with_causes(&error)),
    };
    let summary = &results.summary;
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert_eq!(summary.verification.mismatches, 0, "{:?}", summary.notes);
    results
}

/// The reads of the only job.
pub fn reads(summary: &Summary) -> &KindSummary {
    summary.jobs[0].read.as_ref().expect("the job reads")
}

/// The writes of the only job.
pub fn writes(summary: &Summary) -> &KindSummary {
    summary.jobs[0].write.as_ref().expect("the job writes")
}

/// Asserts that `found` is within `percent` of `expected`, and says by how much it is off if not.
pub fn assert_within(percent: f64, found: f64, expected: f64, what: &str) {
    let off = (found / expected - 1.0) * 100.0;
    assert!(
        off.abs() <= percent,
        "{what}: {found} against {expected} is off by {off:+.3} %, not {percent} %"
    );
}
