//! The program and the crates behind it as a user meets them: one binary, for each of them would link all of Byteway again.
//!
//! `browser`, `common` and `imports` are what others use; the rest are tests, by what they are about. The guest and
//! the soak have binaries of their own.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod binding;
mod both_runners;
mod browser;
mod capacity;
mod cli;
mod commands;
mod common;
mod compare;
mod drives;
mod imports;
mod interrupted;
mod jbof;
mod jobs;
mod kv;
mod measuring;
mod media;
mod methods;
mod mqsim;
mod multipath;
mod network;
mod outlook_latency;
mod physics_latency;
mod physics_limits;
mod placement;
mod profiles;
mod report;
mod reproduce;
mod reproducible;
mod scenarios;
mod serve;
mod shutdown;
mod spans;
mod steady;
mod structure;
mod tables;
mod trace_convert;
mod trace_formats;
mod trace_inspect;
mod traces;
mod transfer;
mod upkeep;
mod write_amplification;
