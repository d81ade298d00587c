//! Real block traces through scenario and generator, where they are at hand, and a small generated one in any case.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use byteway_clock::random::Rng;
use byteway_lab::scenario::{Options, Scenario};
use byteway_lab::workload::{Generator, Io, Kind};

/// The folder of the real traces: `BYTEWAY_TRACES`, or `../shared/traces` beside the repository.
fn traces() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("BYTEWAY_TRACES").map_or(beside, PathBuf::from);
    folder.is_dir().then_some(folder)
}

fn load(profile: &str, trace: &Path, lines: &str) -> Scenario {
    let text = format!(
        "[drive]\nprofile = \"{profile}\"\n[[job]]\n[job.trace]\nfile = '{}'\n{lines}",
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

// Without real traces nobody knows whether the formats are read as their authors write them.
#[test]
fn real_traces_are_replayed_whole() {
    let Some(folder) = traces() else {
        println!("SKIPPED: no real traces here; set BYTEWAY_TRACES to their folder");
        return;
    };
    for profile in ["samsung-970-pro", "mqsim-mlc", "cosmos-plus"] {
        for (name, records) in [("tpcc-small", 6_999), ("wsrch-small", 24_783)] {
            let trace = folder.join(format!("block/mqsim/{name}.trace"));
            if !trace.is_file() {
                println!("SKIPPED: {name} is not in {}", folder.display());
                continue;
            }
            let scenario = load(profile, &trace, "wrap = true\n");
            // A few records are longer than one command may be, and become several.
            assert!((records..records + records / 100).contains(&ios(&scenario).len()), "{name}");
            let note = &scenario.notes()[0];
            assert!(note.contains(&format!("{records} records")) && note.contains("0 = write"), "{note}");
            let one = load(profile, &trace, "wrap = true\ndevice = 0\n");
            assert!(ios(&one).len() < records && !ios(&one).is_empty());
        }
    }
}

// The same for those who have none, and for MSR's format, of which no file is at hand.
#[test]
fn generated_traces_are_replayed_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut stream = Rng::new(1).stream("trace");
    let (mut mqsim, mut msr) = (String::new(), String::new());
    let mut expected = Vec::new();
    for index in 0..1000u64 {
        let (lba, blocks) = (stream.below(1 << 27) * 8, 8 * (1 + stream.below(16)));
        let (time_ns, write) = (5_000_000 + index * 700, stream.chance(0.3));
        writeln!(mqsim, "{time_ns} {} {lba} {blocks} {}", index % 16, u32::from(!write)).unwrap();
        let kind = if write { "Write" } else { "Read" };
        let ticks = 128_166_372_003_061_629 + index * 7;
        writeln!(msr, "{ticks},host,{},{kind},{},{},99", index % 16, lba * 512, blocks * 512).unwrap();
        expected.push((
            index * 700_000,
            if write { Kind::Write } else { Kind::Read },
            lba / 8,
            (blocks / 8) as u32,
        ));
    }
    for (name, text) in [("a.trace", mqsim), ("b.csv", msr)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let scenario = load("samsung-970-pro", &path, "");
        let found: Vec<_> =
            ios(&scenario).iter().map(|io| (io.at.unwrap(), io.kind, io.lba, io.blocks)).collect();
        assert_eq!(found, expected, "{name}");
    }
}

// The first scenario that anyone runs must at least be valid.
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
