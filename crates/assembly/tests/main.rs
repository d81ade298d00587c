//! Drives that are made of others.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod array;
mod box_failures;
mod box_sharing;
mod central;
mod dram;
mod fixture;
mod hosted;
mod jbof;
mod partial;
mod together;
mod vh;
