//! Drives composed of other drives.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod array;
mod fixture;
mod hosted;
mod partial;
mod together;
