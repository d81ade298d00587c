//! The bodies of the targets, which the workspace's tests have too: there without the fuzzer, here with it.

#[path = "../crates/serve/tests/fuzz/harness/mod.rs"]
pub mod harness;

/// Tables and queries.
#[path = "../crates/workload/tests/fuzz/harness/mod.rs"]
pub mod tables;

/// Programs that a drive runs for its host.
#[path = "../crates/program/tests/fuzz/harness.rs"]
pub mod programs;
