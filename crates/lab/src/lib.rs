//! The laboratory: builds, drives and measures a drive from a plan, in simulation or in real time.
//!
//! | file | what |
//! |---|---|
//! | [`build`] | builds the world of a scenario, and its parts, from a plan |
//! | `boxed.rs` | figures of a JBOF enclosure over the measured part of a run |
//! | [`drive_model`] | estimate of a drive's capabilities from its profile |
//! | [`error`] | errors |
//! | [`run`] | a simulated run, from its plan to its summary |
//! | [`jobs`] | execution of jobs: workers and their I/Os, on any drive |
//! | [`lsm`] | an LSM tree on the host, for jobs with `engine = "leveldb"` |
//! | [`remote`] | runs over a network: the target, the network, the host's associations |
//! | [`serve`] | serves drives to hosts in other processes |
//! | [`mod@bench`] | jobs on a served drive, in real time |
//! | [`nvme_tcp`] | connections to NVMe/TCP targets, and discovery |
//! | [`pairs`] | a single request to a key-value drive, in a directory or served |
//! | [`tables`] | requests to a drive with tables: simulated, in a directory or served |
//! | `spans.rs` | several commands as one operation |
//! | [`location`] | location of a drive that a command accesses |
//! | [`media`] | inspection of a data directory |
//!
//! Data flows one way: a [`Scenario`](byteway_scenario::Scenario) -> [`run`] -> [`Results`](byteway_results::results::Results); a benchmark
//! joins at the jobs. For a served drive it is [`Device`](byteway_scenario::Device) -> `Service`, and the rest is in the crate `serve`.
//!
//! A scenario is run, and its reads are verified:
//!
//! ```
//! use byteway_text::interrupt::Interrupt;
//! use byteway_text::progress::Progress;
//! use byteway_lab::run::{Session, run};
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
//! What it does not do: it implements no protocol and charges no time, which the crates below it do. It reads no user files, and draws
//! nothing.

mod attach;
pub mod bench;
mod boxed;
pub mod build;
pub mod drive_model;
pub mod error;
pub mod jobs;
pub mod location;
pub mod lsm;
pub mod media;
pub mod nvme_tcp;
pub mod pairs;
pub mod probe;
pub mod remote;
pub mod run;
pub mod serve;
mod spans;
pub mod tables;
