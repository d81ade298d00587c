//! Tests without DuckDB: hand-written tables and hostile input.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod engine;
mod hostile;
mod tables;
