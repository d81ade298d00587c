//! Block traces through scenario, generator and the whole simulator, with every read verified: real ones if available, and small generated
//! ones always.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::finish;
use byteway_clock::random::Rng;
use byteway_results::summary::Summary;
use byteway_scenario::{Options, Scenario};
use byteway_workload::{Generator, Io, Kind};

const PROFILES: [&str; 3] = ["samsung-970-pro", "mqsim-mlc", "cosmos-plus"];

fn load(profile: &str, trace: &Path, lines: &str) -> Scenario {
    let text = format!(
        "[drive]\nprofile = \"{profile}\"\n[[job]]\niodepth = 32\n[job.trace]\nfile = '{}'\n{lines}",
        trace.display()
    );
    Scenario::from_text("t.toml", Path::new(""), &text, &Options::default()).expect("the scenario is valid")
}

fn ios(scenario: &Scenario) -> Vec<Io> {
    let mut generator =
        Generator::new(&scenario.jobs[0], 0, &Rng::new(scenario.seed)).expect("the trace was read before");
    let ios: Vec<Io> = generator.by_ref().collect();
    assert!(generator.error().is_none());
    for io in &ios {
        let job = &scenario.jobs[0];
        assert!(io.lba + u64::from(io.blocks) <= job.range_lba + job.range_blocks);
        assert!(io.blocks >= 1 && io.blocks <= job.transfer_blocks_max);
    }
    assert!(ios.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(Some(ios.len() as u64), scenario.command_count());
    ios
}

/// The available real traces, with their numbers of records.
fn real() -> Vec<(PathBuf, usize)> {
    let known = [("tpcc-small", 6_999), ("wsrch-small", 24_783)].into_iter();
    let at = |name| crate::common::real(&format!("block/mqsim/{name}.trace"));
    known.filter_map(|(name, records)| Some((at(name)?, records))).collect()
}

// Only real traces show whether the formats are read as their authors write them.
#[test]
fn real_traces_are_replayed_whole() {
    for (trace, records) in real() {
        for profile in PROFILES {
            let scenario = load(profile, &trace, "wrap = true\n");
            // A few records exceed the maximum transfer size and become several I/Os.
            assert!((records..records + records / 100).contains(&ios(&scenario).len()), "{trace:?}");
            let note = &scenario.notes(0)[0];
            assert!(note.contains(&format!("{records} records")) && note.contains("0 = write"), "{note}");
            let one = load(profile, &trace, "wrap = true\ndevice = 0\n");
            assert!(ios(&one).len() < records && !ios(&one).is_empty());
        }
    }
}

// A skipped test looks like a passed one: without its traces a machine would silently test nothing.
#[test]
fn real_traces_that_are_named_and_missing_fail() {
    let empty = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "traces::real_traces_are_replayed_whole"])
        .env("BYTEWAY_TRACES", empty.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("tpcc-small.trace is missing"), "{said}");
}

/// Replays a trace to its end; every read must verify and no command may fail.
fn replay(profile: &str, trace: &Path, lines: &str) -> Summary {
    let scenario = load(profile, trace, lines);
    let summary = finish(&scenario);
    assert_eq!(Some(summary.ios), scenario.command_count());
    let job = &summary.jobs[0];
    let (reads, writes) = (job.read.as_ref().expect("it reads"), job.write.as_ref().expect("it writes"));
    assert!(summary.verification.on);
    assert_eq!(summary.verification.reads, reads.ios);
    // The data transferred on the link are those read and written, except for the units of coarse DMA.
    let data = |direction: &str| {
        let row = summary.link.iter().find(|row| row.purpose == "data" && row.direction == direction);
        row.map_or(0, |row| row.payload_bytes)
    };
    assert_eq!(data("to host"), reads.bytes);
    assert_eq!(data("to device"), writes.bytes);
    summary
}

// The most important test: a real trace on each drive, with its own timing and as fast as possible, with every block verified.
#[test]
fn real_traces_run_on_every_profile_and_verify() {
    for (trace, _) in real() {
        for profile in PROFILES {
            for mode in ["open", "closed"] {
                let summary = replay(profile, &trace, &format!("wrap = true\nmode = \"{mode}\"\n"));
                println!("{}, {profile}, {mode}: {:.0} IOPS", trace.display(), summary.iops);
            }
        }
    }
}

/// Records that are rewritten and read back: times in nanoseconds, devices, addresses and lengths in sectors.
fn records() -> Vec<(u64, u64, Kind, u64, u64)> {
    let mut stream = Rng::new(1).stream("trace");
    let record = |index: u64| {
        let lba = stream.below(if index.is_multiple_of(2) { 1 << 26 } else { 1 << 8 }) * 8;
        let kind = if stream.chance(0.3) { Kind::Write } else { Kind::Read };
        (index * 700, index % 16, kind, lba, 8 * (1 + stream.below(16)))
    };
    (0..1000).map(record).collect()
}

/// The records in both formats, as files in `folder`.
fn generated(folder: &Path) -> [PathBuf; 2] {
    let (mut mqsim, mut msr) = (String::new(), String::new());
    for (time_ns, device, kind, lba, blocks) in records() {
        let (code, name) = if kind == Kind::Write { (0, "Write") } else { (1, "Read") };
        writeln!(mqsim, "{} {device} {lba} {blocks} {code}", 5_000_000 + time_ns)
            .expect("a string takes all");
        // In Windows' ticks of 100 ns.
        let ticks = 128_166_372_003_061_629 + time_ns / 100;
        writeln!(msr, "{ticks},host,{device},{name},{},{},99", lba * 512, blocks * 512)
            .expect("a string takes all");
    }
    [("a.trace", mqsim), ("b.csv", msr)].map(|(name, text)| {
        std::fs::write(folder.join(name), text).expect("the folder is the test's own");
        folder.join(name)
    })
}

// For environments without real traces, and for MSR's format, of which no file is available.
#[test]
fn generated_traces_are_replayed_whole() {
    let folder = tempfile::tempdir().unwrap();
    let expected: Vec<_> = records()
        .into_iter()
        .map(|(time_ns, _, kind, lba, blocks)| (time_ns * 1000, kind, lba / 8, (blocks / 8) as u32))
        .collect();
    for path in generated(folder.path()) {
        let found: Vec<_> = ios(&load("samsung-970-pro", &path, ""))
            .iter()
            .map(|io| (io.at.unwrap(), io.kind, io.lba, io.blocks))
            .collect();
        assert_eq!(found, expected, "{path:?}");
    }
}

// Equal content in different formats must run alike, in every loop and on every drive.
#[test]
fn generated_traces_run_on_every_profile_and_verify() {
    let folder = tempfile::tempdir().unwrap();
    let paths = generated(folder.path());
    for profile in PROFILES {
        for lines in ["", "mode = \"closed\"\n", "time_scale = 100.0\n"] {
            let [mqsim, msr] = paths.each_ref().map(|path| replay(profile, path, lines));
            assert_eq!(mqsim.jobs, msr.jobs, "{profile}, {lines}");
            if lines.contains("time_scale") {
                assert!(mqsim.elapsed_ns > 999.0 * 700.0 * 99.0, "{}", mqsim.elapsed_ns);
            }
        }
    }
}

// The scenarios that users run first must at least be valid.
#[test]
fn the_scenarios_of_the_repository_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            Scenario::load(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
    }
    assert!(count >= 1);
}
