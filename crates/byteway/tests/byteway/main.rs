//! The program and its crates as seen by a user, as a single test binary: each binary would link all of Byteway again.
//!
//! `browser` and `common` are helpers; the rest are tests, by topic. The guest tests and the soak test have their own binaries.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod adaptive;
mod binding;
mod both_runners;
mod browser;
mod capacity;
mod cli;
mod commands;
mod common;
mod compare;
mod documentation;
mod drives;
mod fit;
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
mod own_formats;
mod own_methods;
mod physics_latency;
mod physics_limits;
mod placement;
mod policies;
mod profiles;
mod queries;
mod replicates;
mod report;
mod reproduce;
mod reproducible;
mod row_programs;
mod scenarios;
mod serve;
mod shutdown;
mod sources;
mod spans;
mod steady;
mod sweep;
mod tables;
mod trace_convert;
mod trace_formats;
mod trace_inspect;
mod traces;
mod transfer;
mod upkeep;
mod waits;
mod watched;
mod write_amplification;
