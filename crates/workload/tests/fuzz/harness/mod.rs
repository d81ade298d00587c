//! The bodies of the fuzzer's targets: what hosts send about tables and what users load, as functions of some
//! bytes.
//!
//! Two users: the fuzzer (the directory `fuzz` of the workspace, a separate package), which searches for
//! failing inputs, and the test next to this directory, which replays stored inputs.
//!
//! | file | what |
//! |---|---|
//! | [`tasks`] | target: push-down tasks in three forms, executed over a small table |
//! | [`encoded`] | target: Arrow streams, chunks of columns, descriptions of row groups, schemas |
//! | [`parquet`] | target: Parquet files, loaded as a table |
//!
//! Each target's module doc states what it verifies. Hangs are detected from outside: by the fuzzer's time
//! limit for an input, or by that of the test runner.

pub mod encoded;
pub mod parquet;
pub mod tasks;

use stats_alloc::INSTRUMENTED_SYSTEM;

/// A target: name of its directory in the corpus, function, and limit of bytes that an input may allocate in
/// total.
pub type Target = (&'static str, fn(&[u8]), usize);

/// All targets.
pub const TARGETS: [Target; 3] = [
    ("tasks", tasks::run, 256 << 20),
    ("encoded", encoded::run, 512 << 20),
    ("parquet", parquet::run, 1 << 30),
];

/// Runs a target, and asserts that its total allocations are bounded. Memory is counted only if
/// [`INSTRUMENTED_SYSTEM`] is the program's allocator.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target, most) =
        TARGETS.into_iter().find(|target| target.0 == name).expect("there is such a target");
    let before = INSTRUMENTED_SYSTEM.stats().bytes_allocated;
    target(bytes);
    let allocated = INSTRUMENTED_SYSTEM.stats().bytes_allocated - before;
    assert!(allocated <= most, "{allocated} bytes were allocated for {} of input", bytes.len());
}
