//! The laboratory
pub mod error;
pub mod profile;
pub mod scenario;
mod source;
pub mod trace;
pub mod units;
pub mod workload;
