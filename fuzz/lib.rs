//! The bodies of the targets, which the workspace's tests have too: there without the fuzzer, here with it.

#[path = "../crates/serve/tests/fuzz/harness/mod.rs"]
pub mod harness;
