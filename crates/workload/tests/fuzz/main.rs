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
fn what_was_kept_still_breaks_nothing() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, ..) in TARGETS {
        assert!(!files(&fuzz.join("corpus").join(name)).is_empty(), "the corpus is there");
        for folder in ["regressions", "corpus"] {
            for path in files(&fuzz.join(folder).join(name)) {
                let bytes = std::fs::read(&path).unwrap();
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| harness::run(name, &bytes))) {
                    eprintln!("it was fuzz/run {name} replay {}", path.display());
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}
