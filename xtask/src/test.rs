//! Runs the tests, and counts those that were skipped for want of something outside: libtest shows them as passed.

use crate::page::Error;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Runs `cargo test --workspace --locked` with more arguments, and says what was skipped, and why.
///
/// # Errors
/// A test fails, or Cargo can't be run.
pub fn run(root: &Path, arguments: &[String]) -> Result<(), Error> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    std::fs::create_dir_all(&target)
        .map_err(|error| Error::Found(format!("{}: {error}", target.display())))?;
    let list = target.join("skipped-tests");
    let _ = std::fs::remove_file(&list);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--workspace", "--locked"])
        .args(arguments)
        .env("BYTEWAY_SKIPPED", &list)
        .current_dir(root)
        .status()
        .map_err(|error| Error::Found(format!("cargo test: {error}")))?;
    print!("{}", skipped(&std::fs::read_to_string(&list).unwrap_or_default()));
    if status.success() { Ok(()) } else { Err(Error::Found("tests fail".to_owned())) }
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
    let tests: std::collections::BTreeSet<&str> = reasons.values().flatten().copied().collect();
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
}
