//! Replays the fuzzer's corpus (`fuzz/corpus`) and past failures (`fuzz/regressions`) without the fuzzer.
//! `fuzz/run` searches for new ones.

mod harness;

use harness::TARGETS;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The files of a directory, sorted by name; none if it does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    files.sort();
    files
}

// Without replay, fixed defects could return unnoticed. One test runs all inputs in sequence, because memory
// is counted for the whole process.
#[test]
fn inputs_take_time_and_memory_in_proportion() {
    kept_inputs_break_nothing();
    repeated_pieces_of_a_task_are_parsed_once();
}

fn kept_inputs_break_nothing() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, ..) in TARGETS {
        assert!(!files(&fuzz.join("corpus").join(name)).is_empty(), "the corpus is there");
        for folder in ["regressions", "corpus"] {
            for path in files(&fuzz.join(folder).join(name)) {
                let bytes = std::fs::read(&path).expect("a kept input can be read");
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| harness::run(name, &bytes))) {
                    eprintln!("it was fuzz/run {name} replay {}", path.display());
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

/// Fragments of tasks, to be repeated. A parser that tries one alternative, fails and tries another doubles
/// its work at each.
const PIECES: [&str; 30] = [
    ".a",
    "(",
    "a.",
    "a",
    "1",
    "'t'",
    "NOT ",
    "- ",
    "CASE WHEN a THEN ",
    "CAST(",
    "a::",
    "INT",
    " AND ",
    "[",
    "{'a': ",
    "EXISTS(",
    " IN (",
    " BETWEEN ",
    " LIKE ",
    " IS NULL",
    "f(",
    ", ",
    "INTERVAL ",
    "DATE ",
    "x -> ",
    " COLLATE ",
    "a[1:",
    "ROW(",
    "*",
    " OVER (",
];

// A task of 50 bytes would keep a drive busy for minutes.
fn repeated_pieces_of_a_task_are_parsed_once() {
    for (first, second) in PIECES.iter().flat_map(|first| PIECES.map(|second| (*first, second))) {
        let repeated = [first, second].concat().repeat(16);
        for end in ["", ".", ")", " 1", ";", "]"] {
            for (form, begin) in [(0, "SELECT * FROM t WHERE a"), (0, "SELECT a"), (1, "t a"), (1, "t ")] {
                let task = [&[form], begin.as_bytes(), repeated.as_bytes(), end.as_bytes()].concat();
                let before = INSTRUMENTED_SYSTEM.stats().bytes_allocated;
                harness::run("tasks", &task);
                let allocated = INSTRUMENTED_SYSTEM.stats().bytes_allocated - before;
                assert!(allocated < 16 << 20, "{allocated} bytes for {:?}", String::from_utf8_lossy(&task));
            }
        }
    }
}
