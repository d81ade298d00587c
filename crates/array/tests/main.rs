//! Arrays over drives in memory, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod bridge;
mod crash;
mod degraded;
mod double_failure;
mod drives;
mod levels;
mod model;
mod ram;
