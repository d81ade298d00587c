//! The same scenario and seed give the same bytes; a change to the model shows in a golden result.

use crate::common::{results, run, run_with, scenario};
use byteway_clock::random::Rng;
use byteway_scenario::Scenario;
use byteway_workload::{Generator, Io};
use std::path::{Path, PathBuf};
use std::process::Command;

/// All features: reads, writes, trims, open and closed loops, garbage collection, interrupts, a time series.
const SCENARIO: &str = r#"
name = "golden"
seed = 42
[drive]
profile = "round.toml"
precondition = "steady"
override.flash.ways = 1
override.firmware.write_buffer = "256 KiB"
[host]
profile = "round-host.toml"
override.completion = "interrupt"
[[job]]
name = "mix"
rw = "randrw"
rwmixread = 60
iodepth = 8
random_distribution = "zipf:1.2"
count = 2000
[[job]]
name = "scan"
rw = "read"
bs = "64 KiB"
iodepth = 2
numjobs = 2
count = 100
[[job]]
name = "arrivals"
rw = "randread"
issue = "open"
rate_iops = 5000
iodepth = 64
runtime = "40 ms"
[[job]]
name = "trims"
rw = "randtrim"
bs = "256 KiB"
count = 100
[measure]
warmup = 20
interval = "10 ms"
"#;

// Otherwise figures could not be verified, nor differences between runs explained.
#[test]
fn the_same_seed_gives_the_same_bytes() {
    let [once, again] = [results(SCENARIO), results(SCENARIO)];
    assert_eq!(once, again);
    assert_eq!(once.to_parquet().unwrap(), again.to_parquet().unwrap());
    let once = once.summary.to_json();
    let other = run_with(SCENARIO, &["seed=43"]).to_json();
    assert_ne!(once, other.replace("\"seed\": 43", "\"seed\": 42"), "the seed is without effect");
}

// Results with a path, a time of day or a folder name would differ between machines.
#[test]
fn the_binary_writes_the_same_bytes_wherever_it_runs() {
    let results: Vec<_> = ["a", "an/other"]
        .iter()
        .map(|name| {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join(name);
            let source = folder.path().join("golden.toml");
            std::fs::write(&source, SCENARIO).unwrap();
            for file in ["round.toml", "round-host.toml"] {
                std::fs::copy(crate::common::folder().join(file), folder.path().join(file)).unwrap();
            }
            let output = Command::new(env!("CARGO_BIN_EXE_byteway"))
                .arg("run")
                .args([&source, Path::new("--ios"), Path::new("--out"), &out])
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let files = ["summary.json", "results.parquet", "latency.parquet", "report.html", "ios.parquet"];
            let files = files.map(|name| std::fs::read(out.join(name)).unwrap());
            assert_eq!(std::fs::read_dir(&out).unwrap().count(), files.len(), "nothing else is left there");
            (output.stdout, files)
        })
        .collect();
    assert!(results[0] == results[1]);
    let found = crate::common::results(SCENARIO);
    let [summary, series, latencies, ..] = &results[0].1;
    assert_eq!(summary, found.summary.to_json().as_bytes(), "the binary runs what the library runs");
    assert!(series == &found.to_parquet().unwrap(), "and measures the same");
    assert!(latencies == &found.to_latency_parquet().unwrap());
}

/// The first I/Os of each worker of a job.
fn ios(scenario: &Scenario, name: &str) -> Vec<Vec<Io>> {
    let job = scenario.jobs.iter().find(|job| job.name == name).expect("the scenario has it");
    let rng = Rng::new(scenario.seed);
    let generator = |worker| Generator::new(job, worker, &rng).expect("the job was checked");
    (0..job.workers).map(|worker| generator(worker).take(500).collect()).collect()
}

// With a single random stream a second job would change the I/Os of the first, and its effect could not be measured.
#[test]
fn another_job_changes_no_address() {
    let plain = scenario(SCENARIO);
    let more =
        "[[job]]\nname = \"before\"\nrw = \"randread\"\ncount = 1000\nnumjobs = 3\n[[job]]\nname = \"mix\"";
    let more = scenario(&SCENARIO.replace("[[job]]\nname = \"mix\"", more));
    assert_eq!(more.jobs.len(), plain.jobs.len() + 1);
    for name in ["mix", "scan", "arrivals", "trims"] {
        let expected = ios(&plain, name);
        assert!(expected.iter().all(|worker| worker.len() >= 20));
        assert_eq!(ios(&more, name), expected, "{name}");
    }
    assert_ne!(ios(&more, "before")[0], ios(&more, "before")[1], "workers draw for themselves");
    let seeded = crate::common::scenario_with(SCENARIO, &["seed=43"]);
    assert_ne!(ios(&seeded, "mix"), ios(&plain, "mix"));
}

/// With this environment variable the golden result is updated.
const BLESS: &str = "BYTEWAY_BLESS";

// An unintended change to the model shows in no other test; an intended one belongs into the commit, as a readable diff.
#[test]
fn the_golden_result_is_unchanged() {
    let found = run(SCENARIO).to_json();
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/byteway/golden/summary.json");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = golden.lines().zip(found.lines()).position(|(golden, found)| golden != found);
    if let Some(line) = differing.or((golden != found).then_some(golden.lines().count())) {
        let of = |text: &str| text.lines().nth(line).unwrap_or("nothing").trim().to_owned();
        panic!(
            "line {} of tests/golden/summary.json is {} and now {}; if the model was meant to change, \
             run this test with {BLESS}=1, and explain the diff in the commit",
            line + 1,
            of(&golden),
            of(&found)
        );
    }
}
