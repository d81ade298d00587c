//! What tests need from outside: real traces, a guest, a browser, DuckDB.
//!
//! A test whose need is missing calls [`missing`] and returns. It is skipped then, which libtest shows as passed: so the reason goes to
//! stderr and, for `cargo xtask test`, which counts it at its end, to the file that `BYTEWAY_SKIPPED` names. Where the need is required,
//! the test fails instead.
//!
//! ```no_run
//! # fn find_program(_: &str) -> Option<()> { None }
//! fn a_report_opens() {
//!     let Some(browser) = find_program("chromium") else {
//!         return byteway_testkit::needs::missing("chromium is not in PATH", byteway_testkit::needs::is_required("BYTEWAY_BROWSER"));
//!     };
//! }
//! # a_report_opens();
//! ```
//!
//! What it does not do: it is not part of the program; only tests use it.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Whether continuous integration requires it: `CI` is set.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Whether the environment variable `name` is `required`.
pub fn is_required(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "required")
}

/// Skips the running test: prints the reason to stderr, past the test's capture, and counts it as skipped.
///
/// # Panics
/// If the need is required: the test fails.
pub fn missing(what: &str, is_required: bool) {
    assert!(!is_required, "{what}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = std::io::stderr().write_all(format!("SKIPPED: {test}: {what}\n").as_bytes());
    if let Some(path) = std::env::var_os("BYTEWAY_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let line = format!("{test}\t{}\n", what.replace(['\n', '\t'], " "));
        // One write: tests of several processes append to the file.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// A real file: `path` below `BYTEWAY_TRACES`, or below `../shared/traces` next to the repository. `None` if it is missing, and the test
/// is skipped.
///
/// # Panics
/// If it is missing where `BYTEWAY_TRACES` or `CI` is set: the test fails.
pub fn trace(path: &str) -> Option<PathBuf> {
    let named = std::env::var_os("BYTEWAY_TRACES").map(PathBuf::from);
    let is_required = named.is_some() || is_ci();
    let next_to_clone = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let file = named.unwrap_or_else(next_to_clone).join(path);
    if file.is_file() {
        return Some(file);
    }
    let what = format!("{} is missing: set BYTEWAY_TRACES to the folder of the real traces", file.display());
    missing(&what, is_required);
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    // Run by the test below, in a process of its own, with an environment of its own.
    #[test]
    fn a_need_that_is_missing() {
        if std::env::var_os("BYTEWAY_NEEDS_TEST").is_some() {
            assert_eq!(trace("no/such.trace"), None);
        }
    }

    // A test that is skipped looks like one that passes: a machine that has lost its traces would go on testing nothing.
    #[test]
    fn what_is_missing_is_counted_or_fails() {
        let folder = std::env::temp_dir().join(format!("byteway-testkit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let list = folder.join("skipped");
        let run = |name: &str, value: &Path| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "needs::tests::a_need_that_is_missing"]).env("BYTEWAY_NEEDS_TEST", "1");
            command.env_remove("CI").env_remove("BYTEWAY_TRACES").env_remove("BYTEWAY_SKIPPED");
            command.env(name, value).output().unwrap()
        };
        let skipped = run("BYTEWAY_SKIPPED", &list);
        assert!(skipped.status.success());
        assert!(String::from_utf8_lossy(&skipped.stderr).contains("no/such.trace is missing"));
        let lines = std::fs::read_to_string(&list).unwrap();
        assert!(
            lines.starts_with("needs::tests::a_need_that_is_missing\t") && lines.lines().count() == 1,
            "{lines}"
        );
        for name in ["CI", "BYTEWAY_TRACES"] {
            assert!(!run(name, &folder).status.success(), "{name}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
