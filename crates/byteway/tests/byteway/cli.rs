//! The binary as seen by a user: any invalid input ends with exit code 2, a message with position and help, and no output written.

use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = "[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\nrw = \"randread\"\ncount = 100\n";

fn byteway(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder)
        .args(arguments)
        .output()
        .expect("the binary is built")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder exists");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("its entries can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Runs with a scenario in `s.toml` and a trace in `t.trace`, and asserts a refusal with these words.
fn refused(scenario: &str, trace: &str, arguments: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join("s.toml"), scenario).expect("it can be written");
    std::fs::write(folder.path().join("t.trace"), trace).expect("it can be written");
    let before = names(folder.path());
    let mut all = vec!["run", "s.toml"];
    all.extend(arguments);
    let output = byteway(folder.path(), &all);
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(output.stdout.is_empty(), "{message}");
    assert_eq!(names(folder.path()), before, "{message}");
    for word in words.iter().chain(&["error: ", "help: "]) {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
}

// The missing spans would otherwise only be noticed after the run.
#[test]
fn spans_without_a_place_or_of_nothing_are_refused() {
    refused(SCENARIO, "", &["--spans"], &["spans.json has no folder", "--out DIR"]);
    refused(SCENARIO, "", &["--spans-ios", "5"], &["spans.json has no folder", "--out DIR"]);
    refused(SCENARIO, "", &["--out", "o", "--spans-ios", "0"], &["--spans-ios must not be 0", "1 or more"]);
}

// Without the position the user searches the whole file; without the help, the manual.
#[test]
fn a_wrong_scenario_is_refused_with_place_and_cure() {
    let unknown_key = SCENARIO.replace("count", "cuont");
    refused(
        &unknown_key,
        "",
        &["--out", "o"],
        &["s.toml:5:1", "unknown key `cuont`", "did you mean `count`?"],
    );
    let wrong_unit = format!("{SCENARIO}bs = \"4 kb\"\n");
    refused(
        &wrong_unit,
        "",
        &["--out", "o"],
        &["s.toml:6:6", "unknown unit `kb`", "4 kB", "KiB", "\"4 KiB\""],
    );
    let geometry = SCENARIO.replace("[[job]]", "[drive.override]\nflash.planes = 3\n[[job]]");
    refused(&geometry, "", &["--out", "o"], &["s.toml:4:16", "`flash.planes` = 3", "1, 2, 4, 8"]);
    refused(SCENARIO, "", &["--set", "job.0.bs=5 KiB"], &["--set job.0.bs=5 KiB", "multiple of 4 KiB"]);
    refused(SCENARIO, "", &["--set", "job.0.size=1 TiB"], &["not within the namespace", "512 GiB"]);
    // A key of the profile, as people write it first: on the command line and in a file.
    let own = "write `drive.override.flash.read`";
    refused(SCENARIO, "", &["--set", "drive.flash.read=50 us"], &["unknown key `flash` in `drive`", own]);
    let section = SCENARIO.replace("[[job]]", "[drive.flash]\nread = \"50 us\"\n[[job]]");
    refused(&section, "", &[], &["unknown key `flash` in `drive`", "write `drive.override.flash`"]);
}

// Users did not write the trace: the line number is the only help in finding the error.
#[test]
fn a_wrong_trace_is_refused_with_its_line() {
    let scenario = "[drive]\nprofile = \"mqsim-mlc\"\n[[job]]\n[job.trace]\nfile = \"t.trace\"\n";
    let broken = "1 0 8 8 1\n2 0 8 8 0\n3 0 eight 8 1\n";
    refused(scenario, broken, &["--out", "o"], &["t.trace:3:1", "`eight`", "--skip-bad-lines"]);
    let beyond = "1 0 8 8 1\n2 0 99999999999 8 0\n";
    refused(scenario, beyond, &["--out", "o"], &["t.trace:2:1", "LBA", "wrap = true"]);
    refused(scenario, "", &[], &["no record", "format"]);
    // Representable by the clock, but beyond the limit of a run: this once was a panic during the run.
    let late = "0 0 8 8 1\n18446744073709551 0 8 8 1\n";
    refused(scenario, late, &["--out", "o"], &["job `job0`", "200 days", "time_scale"]);
    refused(&scenario.replace("t.trace", "u.trace"), "", &[], &["s.toml:5:8", "cannot read the trace"]);
}

// If this were detected after the run, hours of simulation would be lost.
#[test]
fn an_unwritable_folder_is_refused_before_the_run() {
    refused(SCENARIO, "", &["--out", "t.trace"], &["output folder `t.trace`", "not a folder", "--out"]);
    refused(SCENARIO, "", &["--out", "t.trace/o"], &["output folder", "not a folder"]);
    refused(SCENARIO, "", &["--out", "/proc/byteway/o"], &["output folder", "/proc"]);
}

// Without a folder the records of all I/Os would be lost at the end; and a refusal must leave no files.
#[test]
fn every_io_needs_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    let output = byteway(folder.path(), &["run", "s.toml", "--ios"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--out <DIR>"), "{message}");
    let scenario = "[drive]\nprofile = \"mqsim-mlc\"\n[[job]]\n[job.trace]\nfile = \"t.trace\"\n";
    let late = "0 0 8 8 1\n18446744073709551 0 8 8 1\n";
    refused(scenario, late, &["--ios", "--out", "o"], &["job `job0`", "200 days"]);
}

// A file that is not a scenario must be refused with a message as well.
#[test]
fn a_file_that_is_no_scenario_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("binary.toml"), [b'a', b'\n', 0xff, 0xfe]).unwrap();
    for (file, word) in [("absent.toml", "cannot read"), (".", "folder"), ("binary.toml", "binary.toml:2:1")]
    {
        let output = byteway(folder.path(), &["run", file]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(word) && message.contains("help: "), "{message}");
    }
    assert_eq!(byteway(folder.path(), &["rnu"]).status.code(), Some(2));
    assert_eq!(byteway(folder.path(), &["run"]).status.code(), Some(2));
}

// The help is the manual that users read; editors complete from the schema.
#[test]
fn help_teaches_and_the_schema_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let help = |arguments: &[&str]| String::from_utf8(byteway(folder.path(), arguments).stdout).unwrap();
    assert!(help(&["--help"]).contains("byteway run scenarios/first.toml"));
    assert!(help(&["run", "--help"]).contains("profile = \"samsung-970-pro\""));
    assert!(help(&["serve", "--help"]).contains("memory-backend-memfd"));
    assert!(help(&["bench", "--help"]).contains("--rwmixread 70"));
    for of in ["scenario", "device", "profile", "host"] {
        let output = byteway(folder.path(), &["schema", of]);
        assert!(output.status.success());
        let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        // A profile is complete, or the difference from another one.
        let whole = if of == "profile" { &schema["anyOf"][0] } else { &schema };
        assert_eq!(whole["additionalProperties"], serde_json::Value::Bool(false), "{of}");
    }
}
