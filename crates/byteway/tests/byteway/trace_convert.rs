//! `byteway trace convert` as a user meets it, and replays of what it wrote.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::finish;
use byteway_scenario::{Options, Scenario};
use byteway_workload::Beyond;

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

// Assumptions and losses must be visible to the user, with only the trace on the standard output.
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

// A partial trace must not look complete.
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
    refused(&["t.trace", "o.csv"], &["does not name an output format", "--to", "msr"]);
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

// For a trace larger than the drive the scenario selects the mapping, and the result reports its effect.
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
        assert!(scenario.notes(0).iter().any(|text| text.contains(note)), "{lines}: {:?}", scenario.notes(0));
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

/// Runs the program with `input` in a pipe, which cannot be rewound.
fn piped(folder: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary is built");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    // In a separate thread, because the program writes before it has read everything. It may stop reading early.
    std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("it ends")
    })
}

// A pipe can be read only once; every command that takes a trace accepts one, plain and compressed.
#[test]
fn the_standard_input_is_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String =
        (0..20_000u64).map(|at| format!("{} 0 {} 8 {}\n", at * 1000, at * 8 % 4096, at % 2)).collect();
    std::fs::write(folder.path().join("t.trace"), &lines).unwrap();
    let scenario = "[drive]\nprofile = 'mqsim-mlc'\ncapacity = '1 GiB'\n[[job]]\nnumjobs = 2\ncount = 500\n[job.trace]\n\
                    beyond = 'compact'\nfile = ";
    std::fs::write(folder.path().join("pipe.toml"), format!("name = 't'\n{scenario}'-'\n")).unwrap();
    std::fs::write(folder.path().join("file.toml"), format!("name = 't'\n{scenario}'t.trace'\n")).unwrap();
    let run = |file: &str, input: &[u8]| {
        let output = piped(folder.path(), &["run", file, "--quiet", "--format", "json"], input);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let from_file = run("file.toml", b"");
    for packed in ["t.trace", "t.gz", "t.xz", "t.zst"] {
        if packed != "t.trace" {
            assert!(byteway(folder.path(), &["t.trace", packed, "--to", "mqsim"]).status.success());
        }
        let bytes = std::fs::read(folder.path().join(packed)).unwrap();
        let output = piped(folder.path(), &["trace", "convert", "-", "-", "--to", "mqsim"], &bytes);
        assert_eq!(text(&output.stdout), lines, "{packed}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("stdin taken as MQSim"));
        let output = piped(folder.path(), &["trace", "inspect", "-"], &bytes);
        assert!(text(&output.stdout).starts_with("stdin: "), "{packed}: {}", text(&output.stderr));
        assert_eq!(run("pipe.toml", &bytes).replace("stdin taken", "t.trace taken"), from_file, "{packed}");
    }
    let output = piped(folder.path(), &["trace", "convert", "-", "-", "--to", "mqsim"], b"not a trace\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("stdin:1:1"), "{}", text(&output.stderr));
}

// Any file in columns is a trace, on the command line and in a scenario.
#[test]
fn columns_are_named_by_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.csv");
    std::fs::write(&path, "when;what;where;much\n10;write;4096;4096\n12.5;read;0;8192\n").unwrap();
    let names = "time_us,op,offset,bytes";
    let output = byteway(folder.path(), &["mine.csv", "-", "--columns", names, "--to", "msr"]);
    assert_eq!(
        text(&output.stdout),
        "0,host,0,Write,4096,4096,0\n25,host,0,Read,0,8192,0\n",
        "{}",
        text(&output.stderr)
    );
    assert!(text(&output.stderr).contains("mine.csv taken as columns time_us,op,offset,bytes"));
    let load = |lines: &str| {
        let text = format!(
            "[drive]\nprofile = 'mqsim-mlc'\n[[job]]\n[job.trace]\nfile = '{}'\n{lines}",
            path.display()
        );
        Scenario::from_text("t.toml", Path::new(""), &text, &Options::default())
    };
    assert_eq!(load(&format!("columns = '{names}'\n")).unwrap().command_count(), Some(2));
    let closed = load("columns = '-,op,offset,bytes'\nmode = 'closed'\n").unwrap();
    assert!(closed.notes(0).iter().any(|note| note.contains("no column is a time")), "{:?}", closed.notes(0));
    for (lines, what) in [
        ("columns = '-,op,offset,bytes'\n", "open replay needs the times"),
        ("columns = 'time,op,offset,bytes'\n", "time_us"),
        ("columns = 'time_us,op,offset,bytes'\nunit = 'bytes'\n", "determine their units"),
        ("columns = 'time_us,op,offset,bytes'\nformat = 'msr'\n", "contradicts the format msr"),
        ("unit = 'blocks'\n", "`bytes`, `sectors`"),
    ] {
        let error = load(lines).err().unwrap_or_else(|| panic!("{lines} was taken")).to_string();
        assert!(error.contains(what), "{lines}: {error}");
    }
    std::fs::write(&path, "0 0 0 4096 1\n1 0 8192 4096 1\n").unwrap();
    assert!(load("beyond = 'wrap'\n").unwrap().notes(0).iter().any(|note| note.contains("--unit bytes")));
    let asked = load("unit = 'bytes'\n").unwrap();
    assert!(!asked.notes(0).iter().any(|note| note.contains("warning")), "{:?}", asked.notes(0));
}
