//! Runs the tests crate by crate: first what needs no program from outside, last what boots a guest. Says before what it needs and how long
//! it takes, and counts at its end what was skipped for want of something: libtest shows such tests as passed.

#![allow(clippy::disallowed_methods, reason = "people are told how long their tests took")]

use crate::page::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a newcomer waits for: 3,900 s of processors from nothing, measured on a loaded machine of two cores.
const ABOUT: &str = "half an hour from nothing on two cores, more than half of it building; 10 GB of disk";

/// Programs with tests that need something from outside, from what most people have to what few have: they run last.
const NEED: [&str; 3] = ["duckdb", "byteway", "guest"];

/// What some tests need, whether it is here, and how to get it.
fn needs(root: &Path) -> [(&'static str, bool, &'static str); 5] {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let traces = variable("BYTEWAY_TRACES").unwrap_or_else(|| root.join("../shared/traces"));
    let guest = variable("BYTEWAY_GUEST_DIR").unwrap_or_else(|| root.join("target/guest"));
    let python = variable("BYTEWAY_PYTHON").unwrap_or_else(|| "python3".into());
    let duckdb = Command::new(python).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
    let program = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
    };
    [
        ("real traces", traces.is_dir(), "name their folder in BYTEWAY_TRACES"),
        (
            "DuckDB",
            duckdb.is_ok_and(|status| status.success()),
            "pip install duckdb, and name that python in BYTEWAY_PYTHON",
        ),
        ("Chromium", program("chromium"), "apt install chromium"),
        ("Prometheus", program("prometheus"), "apt install prometheus"),
        (
            "a Linux guest",
            guest.is_dir(),
            "guest/build, which unpacks Debian packages in target/guest and installs nothing",
        ),
    ]
}

/// A program with tests.
#[derive(Debug)]
struct TestProgram {
    /// Name of the package.
    package: String,
    /// Name of the target: the crate, or its folder of tests.
    target: String,
    /// Cargo's option for it: `--lib`, `--bin` or `--test`.
    option: &'static str,
    executable: PathBuf,
    folder: PathBuf,
}

impl TestProgram {
    /// Place in the order: unit tests, other tests, and what needs programs from outside.
    fn order(&self) -> usize {
        let is_unit = self.option != "--test";
        match NEED.iter().position(|name| !is_unit && *name == self.target) {
            Some(at) => 2 + at,
            None => usize::from(!is_unit),
        }
    }

    /// Its program in one line of Cargo's messages in JSON, if the line has one.
    fn parse(line: &str) -> Option<TestProgram> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
        let executable = message["executable"].as_str().filter(|_| is_test)?;
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let id = message["package_id"].as_str()?;
        let target = &message["target"];
        // path+file:///…/crates/kv#byteway-kv@0.2.0, or …/crates/byteway#0.2.0 where the folder has the name of the package.
        let (path, name) = id.rsplit_once('#')?;
        let name = name.rsplit_once('@').map_or_else(|| path.rsplit('/').next(), |(name, _)| Some(name))?;
        let option = match target["kind"][0].as_str()? {
            "test" => "--test",
            "bin" => "--bin",
            _ => "--lib",
        };
        Some(TestProgram {
            package: name.to_owned(),
            target: target["name"].as_str()?.to_owned(),
            option,
            executable: executable.into(),
            folder: manifest.parent()?.to_owned(),
        })
    }

    /// What runs it again alone.
    fn again(&self) -> String {
        let target = if self.option == "--lib" { String::new() } else { format!(" {}", self.target) };
        format!("cargo test -p {} {}{target}", self.package, self.option)
    }
}

/// Builds the tests of the workspace, or of what `arguments` name up to `--`, and runs them with the arguments behind it; then the examples
/// of the documentation. Says what was skipped, and why.
///
/// # Errors
/// A test fails, or Cargo can't be run.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), Error> {
    let split = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (of_cargo, of_tests) = (&arguments[..split], arguments.get(split + 1..).unwrap_or_default());
    let which: &[&str] =
        match of_cargo.iter().any(|argument| argument.starts_with("-p") || argument == "--package") {
            true => &[],
            false => &["--workspace"],
        };
    let cargo = |more: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["test", "--locked"]).args(which).args(of_cargo).args(more).current_dir(root);
        command
    };
    say(&format!("It takes {ABOUT}.\n"));
    for (name, is_here, how) in needs(root) {
        let found =
            if is_here { "found".to_owned() } else { format!("missing, its tests are skipped: {how}") };
        say(&format!("  {name:<14} {found}\n"));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    std::fs::create_dir_all(&target)
        .map_err(|error| Error::Found(format!("{}: {error}", target.display())))?;
    let skips = target.join("skipped-tests");
    let _ = std::fs::remove_file(&skips);
    let begun = Instant::now();
    let mut programs = build(cargo(&["--no-run", "--message-format", "json-render-diagnostics"]))?;
    programs.sort_by_key(|program| (program.order(), program.package.clone(), program.target.clone()));
    say(&format!("built in {} s\n", begun.elapsed().as_secs()));
    let (mut failed, mut took) = (Vec::new(), Vec::new());
    for (number, program) in (1..).zip(&programs) {
        say(&format!("\n[{number}/{}] {} {}\n", programs.len() + 1, program.package, program.target));
        let begun = Instant::now();
        let status = Command::new(&program.executable)
            .args(of_tests)
            .arg("--quiet")
            .env("BYTEWAY_SKIPPED", &skips)
            .env("CARGO_MANIFEST_DIR", &program.folder)
            .current_dir(&program.folder)
            .status();
        took.push((begun.elapsed(), format!("{} {}", program.package, program.target)));
        if !status.is_ok_and(|status| status.success()) {
            failed.push(program.again());
        }
    }
    say(&format!("\n[{0}/{0}] examples of the documentation\n", programs.len() + 1));
    let begun = Instant::now();
    if of_tests.is_empty() && !cargo(&["--doc", "--quiet"]).status().is_ok_and(|status| status.success()) {
        failed.push("cargo test --workspace --doc".to_owned());
    }
    took.push((begun.elapsed(), "examples of the documentation".to_owned()));
    say(&slowest(took));
    say(&skipped(&std::fs::read_to_string(&skips).unwrap_or_default()));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::Found(format!("tests fail; to run them again:\n  {}", failed.join("\n  ")))),
    }
}

/// Prints at once, though the output is a pipe: it stands between that of other programs.
fn say(text: &str) {
    print!("{text}");
    let _ = std::io::stdout().flush();
}

/// The test programs that Cargo builds; what it says to people is shown.
fn build(mut cargo: Command) -> Result<Vec<TestProgram>, Error> {
    let failed = |error: std::io::Error| Error::Found(format!("cargo test: {error}"));
    let mut child = cargo.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let lines = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).lines());
    let programs = lines.map_while(Result::ok).filter_map(|line| TestProgram::parse(&line)).collect();
    match child.wait().map_err(failed)?.success() {
        true => Ok(programs),
        false => Err(Error::Found("the tests can't be built".to_owned())),
    }
}

/// The programs that took longest.
fn slowest(mut took: Vec<(Duration, String)>) -> String {
    took.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    let all: u64 = took.iter().map(|(time, _)| time.as_secs()).sum();
    let mut text = format!("\n{all} s to run; the slowest:\n");
    for (time, name) in took.iter().take(8) {
        text += &format!("  {:>4} s  {name}\n", time.as_secs());
    }
    text
}

/// What a list of lines `TEST<tab>REASON` comes to: a reason and its tests once each.
fn skipped(list: &str) -> String {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (test, reason) in list.lines().filter_map(|line| line.split_once('\t')) {
        let tests = reasons.entry(reason).or_default();
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    let tests: BTreeSet<&str> = reasons.values().flatten().copied().collect();
    if tests.is_empty() {
        return "no test was skipped\n".to_owned();
    }
    let mut text = format!("{} tests were skipped, which counts as passed above:\n", tests.len());
    for (reason, tests) in reasons {
        text += &format!("  {reason}\n    {}\n", tests.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // A count of lines would count a test that needs two files twice; one without reasons would not tell what to install.
    #[test]
    fn skipped_tests_are_counted_once_and_say_what_they_need() {
        assert_eq!(skipped(""), "no test was skipped\n");
        let list = "a::b\tx is missing\na::b\ty is missing\nc\tx is missing\nc\tx is missing\n";
        assert_eq!(
            skipped(list),
            "2 tests were skipped, which counts as passed above:\n  x is missing\n    a::b, c\n  y is missing\n    a::b\n"
        );
    }

    // A program that is not recognised is built, and its tests never run.
    #[test]
    fn test_programs_are_found_and_run_in_order() {
        let line = |id: &str, kind: &str, name: &str, is_test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"{id}\",\"manifest_path\":\"/a/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\"profile\":{{\"test\":{is_test}}},\
                 \"executable\":\"/t/{name}\"}}"
            )
        };
        let byteway = "path+file:///w/crates/byteway#0.2.0";
        let lines = [
            line(byteway, "test", "guest", true),
            line(byteway, "test", "byteway", true),
            line("path+file:///w/crates/kv#byteway-kv@0.2.0", "test", "kv", true),
            line(byteway, "bin", "byteway", false),
            line(byteway, "bin", "byteway", true),
            line(byteway, "lib", "byteway", true),
            "{\"reason\":\"build-finished\",\"success\":true}".to_owned(),
        ];
        let mut found: Vec<TestProgram> = lines.iter().filter_map(|line| TestProgram::parse(line)).collect();
        found.sort_by_key(TestProgram::order);
        let again: Vec<String> = found.iter().map(TestProgram::again).collect();
        assert_eq!(
            again,
            [
                "cargo test -p byteway --bin byteway",
                "cargo test -p byteway --lib",
                "cargo test -p byteway-kv --test kv",
                "cargo test -p byteway --test byteway",
                "cargo test -p byteway --test guest"
            ]
        );
    }
}
