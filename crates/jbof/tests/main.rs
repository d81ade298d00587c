//! Drives that lend each other resources, as hosts see them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod central;
mod dram;
mod failures;
mod fixture;
mod lending;
mod redirect;
mod sharing;
mod vh;
