//! The driver, its queues and its oracle against a controller that must not be trusted.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod driver;
mod fake;
mod io;
mod kv_oracle;
mod oracle;
mod payload;
mod power_cuts;
mod queue;
mod shared;
