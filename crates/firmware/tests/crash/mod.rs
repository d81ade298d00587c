//! Power cuts at any poll, also while the power has just come back: what was durable is there, nothing else comes, and
//! what was found once is found again.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod alone;
mod borrowed;
mod corners;
mod fixture;
mod hosts;
