//! Power cuts at any poll, also during recovery: durable data are there, nothing else appears, and what was
//! found once is found again.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod alone;
mod borrowed;
mod corners;
pub mod fixture;
mod hosts;
