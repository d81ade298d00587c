//! `byteway trace convert` as a user meets it, and replays of what it wrote.

mod common;

use std::path::Path;
use std::process::{Command, Output};

use byteway_lab::scenario::{Options, Scenario};
use byteway_lab::workload::Beyond;
use common::finish;

fn byteway(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .args(["trace", "convert"])
        .args(arguments)
        .output()
        .expect("the binary is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const TRACE: &str = "1000 0 8 8 1\n2000 3 16 8 0\n2500 0 24 16 1\n";

// What was assumed and what was lost must stand where the user looks, and the trace alone on the output.
#[test]
fn a_trace_is_converted_and_what_was_lost_is_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.trace"), TRACE).unwrap();
    let output = byteway(folder.path(), &["t.trace", "-", "--to", "msr"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "0,host,0,Read,4096,4096,0\n10,host,3,Write,8192,4096,0\n15,host,0,Read,12288,8192,0\n"
    );
    let notes = text(&output.stderr);
    assert!(notes.contains("0 = write and 1 = read") && notes.contains("3 records"), "{notes}");
    let output =
        byteway(folder.path(), &["t.trace", "t.tencent.csv.gz", "--time-scale", "0.5", "--head", "2"]);
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("1 times were rounded down to the format's resolution of 1 s"), "{notes}");
    let output =
        byteway(folder.path(), &["t.tencent.csv.gz", "-", "--to", "iolog3", "--device", "3", "--quiet"]);
    assert_eq!(
        text(&output.stdout),
        "fio version 3 iolog\n0 device-3 add\n0 device-3 open\n0 device-3 write 8192 4096\n"
    );
    assert!(output.stderr.is_empty());
    let output = byteway(folder.path(), &["t.trace", "-", "--to", "mqsim", "--reads-are", "0"]);
    assert!(text(&output.stdout).starts_with("0 0 8 8 0\n"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("as asked for: 0 = read"));
}

// Half a trace under the name of a whole one would be believed.
#[test]
fn what_cannot_be_converted_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.trace"), TRACE).unwrap();
    std::fs::write(folder.path().join("log"), "fio version 3 iolog\n0 a trim 0 4096\n").unwrap();
    std::fs::write(folder.path().join("bad.trace"), format!("{TRACE}3 0 x 8 1\n")).unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = byteway(folder.path(), arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in: {message}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "{arguments:?}");
    };
    refused(&["t.trace", "o.csv"], &["does not say which format", "--to", "msr"]);
    refused(&["t.trace", "o.oraclegeneral"], &["t.trace:2:1", "no direction", "--lossy"]);
    refused(&["t.trace", "o.vscsi1"], &["second device", "--device", "--lossy"]);
    refused(&["log", "o.mqsim"], &["log:2:1", "trim", "blkparse", "--lossy"]);
    refused(&["log", "o.mqsim", "--reads-are", "0"], &["iolog3", "--reads-are"]);
    refused(&["log", "o.mqsim", "--reads-are", "2"], &["--reads-are", "0..=1"]);
    refused(&["log", "o.mqsim", "--action", "X"], &["--action", "Q, D, C"]);
    refused(&["log", "o.iolog2", "--action", "C"], &["--action", "no effect"]);
    refused(&["bad.trace", "o.msr"], &["bad.trace:4:1", "`x`", "--skip-bad-lines"]);
    refused(&["t.trace", "o.msr", "--device", "9"], &["no record to convert", "3 of other devices"]);
    refused(&["t.trace", "o.msr", "--device", "x"], &["major,minor"]);
    refused(&["t.trace", "o.msr", "--time-scale", "0"], &["--time-scale", "0.000001"]);
    refused(&["t.trace", "o.msr", "--head", "0"], &["--head"]);
    refused(&["t.trace", "none/o.msr"], &["cannot write to `none/o.msr`"]);
    refused(&["absent", "o.msr"], &["cannot read the trace `absent`"]);
    refused(&[".", "o.msr"], &["not a regular file"]);
    let output = byteway(folder.path(), &["bad.trace", "o.msr", "--skip-bad-lines"]);
    assert!(
        output.status.success() && text(&output.stderr).contains("first line 4"),
        "{}",
        text(&output.stderr)
    );
}

// Where a trace is too large for the drive the scenario says what becomes of it, and the result what became of it.
#[test]
fn a_trace_larger_than_the_drive_is_laid_as_the_scenario_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for index in 0..400u64 {
        let lba = index.wrapping_mul(2_654_435_761) % (1 << 35) / 8 * 8;
        lines.push_str(&format!("{} {} {lba} 8 {}\n", index * 1000, index % 3, index % 2));
    }
    let path = folder.path().join("t.trace");
    std::fs::write(&path, lines).unwrap();
    let load = |lines: &str| {
        let text = format!(
            "[drive]\nprofile = 'mqsim-mlc'\n[[job]]\n[job.trace]\nfile = '{}'\n{lines}",
            path.display()
        );
        Scenario::from_text("t.toml", Path::new(""), &text, &Options::default())
    };
    for (lines, note) in [
        ("beyond = \"wrap\"\n", "wrapped"),
        ("wrap = true\n", "wrapped"),
        ("beyond = \"scale\"\n", "scaled down"),
        ("beyond = \"compact\"\n", "units of 4 KiB"),
        ("beyond = \"compact\"\ndevice = \"spread\"\n", "3 devices have an equal slice"),
        ("wrap = true\nreads_are = 0\n", "as asked for: 0 = read"),
    ] {
        let scenario = load(lines).unwrap_or_else(|error| panic!("{lines}: {error}"));
        assert!(scenario.notes().iter().any(|text| text.contains(note)), "{lines}: {:?}", scenario.notes());
        assert_eq!(finish(&scenario).ios, scenario.command_count().unwrap(), "{lines}");
    }
    for (lines, words) in [
        ("", "beyond = \"scale\""),
        ("wrap = true\nbeyond = \"scale\"\n", "contradicts `beyond`"),
        ("beyond = \"fold\"\n", "`error`, `wrap`, `scale`, `compact`"),
        ("wrap = true\nreads_are = 2\n", "reads_are"),
        ("wrap = true\naction = \"C\"\n", "has no effect"),
        ("wrap = true\naction = \"X\"\n", "`Q`, `D`, `C`"),
        ("wrap = true\ndevice = \"some\"\n", "\"spread\""),
        ("wrap = true\nformat = \"mqsin\"\n", "did you mean `mqsim`"),
    ] {
        let error = load(lines).err().unwrap_or_else(|| panic!("{lines} was taken"));
        assert!(error.to_string().contains(words), "{lines}: {error}");
    }
    assert_eq!(Beyond::default(), Beyond::Error);
}
