//! Drives composed of other drives.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod array;
mod box_failures;
mod box_fixture;
mod box_sharing;
mod central;
mod dram;
mod fixture;
mod hosted;
mod jbof;
mod partial;
mod together;
mod vh;
