//! Simulated runs: builds the world of a scenario from its plan, executes the jobs, and collects the results.
//!
//! | file | what |
//! |---|---|
//! | [`build`] | builds the world of a scenario, and its parts, from a plan |
//! | `jbof.rs` | figures of a JBOF over the measured part of a run |
//! | [`run`] | a simulated run, from its plan to its summary |
//! | [`probe`] | a run as one point of many: it has an outcome, whatever fails |
//! | [`jobs`] | execution of jobs: workers and their I/Os, on any drive |
//! | [`lsm`] | an LSM tree on the host, for jobs with `engine = "leveldb"` |
//! | [`remote`] | runs over a network: the target, the network, the host's associations |
//! | [`error`] | errors |
//!
//! Data flows one way: a [`Scenario`](byteway_scenario::Scenario) -> [`run`] -> [`Results`](byteway_results::results::Results); a benchmark
//! of a served drive, in the crate `serving`, joins at the jobs.
//!
//! A scenario is run, and its reads are verified:
//!
//! ```
//! use byteway_text::interrupt::Interrupt;
//! use byteway_text::progress::Progress;
//! use byteway_run::run::{Session, run};
//! use byteway_scenario::{Options, Scenario};
//! use std::path::Path;
//!
//! let text = r#"
//!     drive.profile = "samsung-970-pro"
//!     job = [{ rw = "randread", bs = "4 KiB", count = 1000 }]
//! "#;
//! let scenario = Scenario::from_text("reads.toml", Path::new(""), text, &Options::default())?;
//! let session = Session { progress: &mut Progress::hidden(), interrupt: &Interrupt::default() };
//! let summary = run(&scenario, session)?.summary;
//! assert_eq!(summary.ios, 1000);
//! assert_eq!((summary.verification.reads, summary.verification.mismatches), (1000, 0));
//! assert!(summary.elapsed_ns > 0.0, "virtual time has passed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it serves no drive and attaches to no other process. It implements no protocol and charges no time, which the
//! crates below it do. It reads no user files, and draws nothing.

pub mod build;
pub mod error;
mod jbof;
pub mod jobs;
pub mod lsm;
pub mod probe;
pub mod remote;
pub mod run;
