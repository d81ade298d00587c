//! Fixture: scenarios on a drive of round numbers (`round.toml`) or any other, run from text to summary.

use byteway_results::results::Results;
use byteway_results::summary::{KindSummary, Summary};
use byteway_run::error::RunError;
use byteway_run::run::{Session, run as run_scenario};
use byteway_scenario::{Options, Scenario};
use byteway_text::error::with_causes;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_workload::Source;
use std::path::{Path, PathBuf};

/// The folder relative to which scenarios name their profiles.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/byteway/common")
}

/// A real trace, or a third party's parameter file, if available.
pub use byteway_testkit::needs::trace as real;

/// Drive and host of round numbers. `drive` has further lines of `[drive]`, such as `override.flash.ways = 1`; `rest` has the jobs.
pub fn round(drive: &str, rest: &str) -> String {
    format!("[host]\nprofile = 'round-host.toml'\n[drive]\nprofile = 'round.toml'\n{drive}\n{rest}\n")
}

/// Spare of the drive of a `[drive]` section, in relation to what it holds.
pub fn spare(section: &str) -> f64 {
    let found = scenario(&format!("{section}[[job]]\nrw = 'randwrite'\ncount = 1\n"));
    let plan = &found.drives[0].plan;
    plan.profile.spare(&plan.geometry)
}

/// A `[drive]` section with the spare that its capacity has, in place of its profile's `firmware.op`: a small drive that begins in the
/// steady state must say that it wants it. `section` has no precondition yet.
pub fn with_its_spare(section: &str) -> String {
    // Down, so that it is not a block more.
    let spare = (spare(section) * 1e5).floor() / 1e3;
    let lines = section.lines().filter(|line| !line.starts_with("override.firmware.op"));
    lines.map(|line| format!("{line}\n")).collect::<String>()
        + &format!("override.firmware.op = '{spare} %'\n")
}

/// Parses a scenario.
pub fn scenario(text: &str) -> Scenario {
    scenario_with(text, &[])
}

/// The same, with `--set` overrides.
pub fn scenario_with(text: &str, sets: &[&str]) -> Scenario {
    let options = Options { sets: sets.iter().map(|set| (*set).to_owned()).collect(), ..Options::default() };
    match Scenario::from_text("test.toml", &folder(), text, &options) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{error}\nin\n{text}"),
    }
}

/// Section of each job: `job.0`, `kv.0`, `query.0`. A section may define a job on each of several drives: `mix/a`, `mix/b`.
pub fn sections(scenario: &Scenario) -> Vec<String> {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let places = scenario.jobs.iter().map(|job| {
        let kind = match job.source {
            Source::Pairs(_) => "kv",
            Source::Queries(_) => "query",
            _ => "job",
        };
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

/// The same, with `--set` overrides.
pub fn run_with(text: &str, sets: &[&str]) -> Summary {
    finish(&scenario_with(text, sets))
}

/// Runs a parsed scenario.
pub fn finish(scenario: &Scenario) -> Summary {
    let summary = run_until(scenario, &Interrupt::default());
    assert!(!summary.partial, "there was no interrupt");
    summary
}

/// Runs until the end, or until `interrupt` is raised. No command may fail and every read must verify.
pub fn run_until(scenario: &Scenario, interrupt: &Interrupt) -> Summary {
    let mut progress = Progress::hidden();
    let session = Session { progress: &mut progress, interrupt };
    checked(run_scenario(scenario, session)).summary
}

/// All results of a scenario. No command may fail and every read must verify.
pub fn results(text: &str) -> Results {
    results_with(text, &[])
}

/// The same, with `--set` overrides.
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
    for part in summary.drives.iter().chain([summary]) {
        let queueing = part.spans.iter().find(|row| row.span == "queueing").map_or(0.0, |row| row.mean_ns);
        let waits: f64 = part.waits.iter().map(|row| row.mean_ns).sum();
        assert!((waits - queueing).abs() <= 1e-6 * queueing, "{queueing} ns in queues: {:?}", part.waits);
    }
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

/// Asserts that `found` is within `percent` of `expected`, with the deviation in the message.
pub fn assert_within(percent: f64, found: f64, expected: f64, what: &str) {
    let off = (found / expected - 1.0) * 100.0;
    assert!(
        off.abs() <= percent,
        "{what}: {found} against {expected} is off by {off:+.3} %, not {percent} %"
    );
}
