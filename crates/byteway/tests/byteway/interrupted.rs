//! Ctrl-C: an interrupted run keeps its results so far, marked as partial.

use crate::common::{round, run_until, scenario};
use byteway_run::error::RunError;
use byteway_run::run::{Session, run as run_scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::process::Command;
use std::time::Duration;

/// Much longer than any test waits.
const ENDLESS: &str = "[[job]]\nname = \"mix\"\nrw = \"randrw\"\niodepth = 16\nruntime = \"10000 s\"\n[[job]]\nname = \"open\"\n\
                       rw = \"randread\"\nissue = \"open\"\nrate_iops = 1000\niodepth = 8\nruntime = \"10000 s\"\n";

#[allow(clippy::disallowed_methods, reason = "the user's patience passes in wall time")]
fn wait(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Whether a process handles SIGINT, and its processor time in hundredths of a second.
fn state_of(process: &str) -> (bool, u64) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    let status = read("status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let handles = u64::from_str_radix(caught.trim(), 16).unwrap_or(0) & (1 << 1) != 0;
    // Fields are counted after the name, which may contain spaces: the 12th is user time.
    let stat = read("stat");
    let time = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11));
    (handles, time.and_then(|time| time.parse().ok()).unwrap_or(0))
}

/// Waits until a process has used this much more processor time: wall-clock time means little on a busy machine. With a full processor,
/// half a minute must suffice.
fn wait_until_busy(process: &str, hundredths: u64) {
    let (_, begin) = state_of(process);
    for _ in 0..1500 {
        wait(20);
        if state_of(process).1 >= begin + hundredths {
            break;
        }
    }
}

// Hours of simulation must not be lost, and a partial result must not look complete.
#[test]
#[allow(clippy::disallowed_methods, reason = "another process than the run must interrupt it")]
fn an_interrupted_run_has_a_partial_summary_that_adds_up() {
    let scenario = scenario(&round("", ENDLESS));
    let interrupt = Interrupt::default();
    let user = interrupt.clone();
    let patience = std::thread::spawn(move || {
        wait_until_busy("self", 30);
        user.raise();
    });
    // The run itself fails if ledger, host memory and controller disagree.
    let summary = run_until(&scenario, &interrupt);
    patience.join().unwrap();
    assert!(summary.partial);
    assert!(summary.ios > 0 && summary.elapsed_ns > 0.0);
    assert_eq!(summary.jobs.iter().map(|job| job.ios).sum::<u64>(), summary.ios);
    let reads = summary.jobs.iter().filter_map(|job| job.read.as_ref()).map(|read| read.ios).sum::<u64>();
    assert_eq!((summary.verification.reads, summary.verification.mismatches), (reads, 0));
    assert!(summary.to_tables().contains("PARTIAL") && summary.to_json().contains("\"partial\": true"));
    // Outstanding I/Os were completed: each has one fetched entry and one completion.
    let crossings = |purpose: &str, direction: &str| {
        let row = summary.link.iter().find(|row| row.purpose == purpose && row.direction == direction);
        row.map_or(0, |row| row.crossings)
    };
    assert_eq!(crossings("SQE fetch", "to device"), summary.ios);
    assert_eq!(crossings("CQE", "to host"), summary.ios);
}

// With an interrupt before the first I/O there are no results, which must not be an error.
#[test]
fn an_interrupt_at_once_leaves_an_empty_summary() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    let summary = run_until(&scenario(&round("", ENDLESS)), &interrupt);
    assert!(summary.partial);
    assert_eq!((summary.ios, summary.iops), (0, 0.0));
    assert!(summary.to_tables().contains("PARTIAL"));
}

// A user sends a signal, not a flag: handler, run, file and exit code must all work.
#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_leaves_a_partial_file_and_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let endless = format!("[drive]\nprofile = \"samsung-970-pro\"\n{ENDLESS}");
    std::fs::write(folder.path().join("endless.toml"), endless).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder.path())
        .args(["run", "endless.toml", "--quiet", "--out", "out", "--ios", "--format", "json"])
        .stdout(std::fs::File::create(folder.path().join("stdout")).unwrap())
        .spawn()
        .unwrap();
    let process = child.id().to_string();
    while !state_of(&process).0 && child.try_wait().unwrap().is_none() {
        wait(20);
    }
    wait_until_busy(&process, 30);
    let sent = Command::new("kill").args(["-INT", &process]).status().unwrap();
    assert!(sent.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let json = std::fs::read_to_string(folder.path().join("out/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(summary["partial"], true);
    assert!(summary["ios"].as_u64().unwrap() > 0);
    assert_eq!(summary["verification"]["mismatches"], 0);
    assert_eq!(std::fs::read_to_string(folder.path().join("stdout")).unwrap(), json);
    // Every I/O measured until then is recorded.
    let ios = std::fs::File::open(folder.path().join("out/ios.parquet")).unwrap();
    let ios = ParquetRecordBatchReaderBuilder::try_new(ios).unwrap();
    assert_eq!(summary["ios"], ios.metadata().file_metadata().num_rows());
}

// Composite drives take time to assemble before the first I/O. Ctrl-C must not wait for that: whenever the interrupt is noticed, the run
// ends immediately with its results so far.
#[test]
fn every_phase_can_be_interrupted() {
    let drives = |profile: &str| {
        format!(
            "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"{profile}\"\ncapacity = \"4 GiB\"\nlba_size = \"512 B\"\n"
        )
    };
    let host = "[host]\nprofile = \"sandy-bridge\"\n";
    let job = "[[job]]\nrw = \"randwrite\"\ncount = 20\n";
    for (text, members) in [
        (format!("{}[array]\nlevel = 5\n{host}{job}", drives("fssd")), 4),
        (format!("{}{host}[[job]]\ndrive = \"all\"\nrw = \"randwrite\"\ncount = 20\n", drives("bssd")), 16),
    ] {
        let scenario = scenario(&text);
        let run = |looks: u64| {
            let (mut progress, interrupt) = (Progress::hidden(), Interrupt::after_looks(looks));
            run_scenario(&scenario, Session { progress: &mut progress, interrupt: &interrupt })
        };
        let mut before = 0;
        let first = loop {
            match run(before) {
                Err(RunError::Interrupted) => before += 1,
                Err(error) => panic!("after {before} looks: {error}"),
                Ok(results) => break results.summary,
            }
        };
        assert!(before >= members, "{before} looks before the jobs begin, and {members} drives are prepared");
        assert!(first.partial, "found when the jobs began: it ends there");
        let mut ios = first.ios;
        for looks in before + 1..before + 200 {
            let summary = run(looks).unwrap().summary;
            assert!(summary.ios >= ios, "{looks} looks: it ends sooner than when it is interrupted sooner");
            ios = summary.ios;
            if !summary.partial {
                break;
            }
        }
        assert!(ios > first.ios, "the jobs never got anywhere");
    }
}
