//! Replays the corpus of the fuzz target `programs` (`fuzz/corpus/programs`), with its past failures, without a fuzzer.

mod harness;

use std::path::{Path, PathBuf};

/// The files of a folder, sorted by name; empty if the folder does not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

// Without a replay, a past failure or rare path would only be tested again by users.
#[test]
fn what_was_kept_still_breaks_nothing() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let kept = files(&fuzz.join("corpus/programs"));
    assert!(kept.len() > 20, "the corpus is there");
    for path in kept.into_iter().chain(files(&fuzz.join("regressions/programs"))) {
        let bytes = std::fs::read(&path).unwrap();
        let ran = std::panic::catch_unwind(|| harness::run(&bytes));
        assert!(ran.is_ok(), "fuzz/run programs replay {}", path.display());
    }
}

// A target that executes nothing finds nothing: requires accepted programs, selected rows, object files.
#[test]
fn the_target_runs_what_it_is_given() {
    use byteway_program::assemble::*;
    use byteway_program::instruction::{jump, size};
    let filter = assemble(&[load(size::BYTE, R0, R1, 0), jump(jump::EQ, R0, 1, 1), mov(R0, 0), exit()]);
    for shape in [0x00, 0x0f, 0xe3] {
        let mut input = vec![shape, 0x29, 4];
        input.extend_from_slice(&filter);
        input.extend((0..200).map(|at| at % 2));
        harness::run(&input);
    }
    harness::run(&[0x10, 0, 255]);
    harness::run(&[]);
}
