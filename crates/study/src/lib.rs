//! Studies of many runs: comparisons, reproductions of papers, thresholds, and reports.
//!
//! | file | what |
//! |---|---|
//! | [`mod@compare`] | comparisons of many runs |
//! | [`reproduce`] | claims of papers, measured again |
//! | [`mod@fit`] | constants of a profile from measurements of a real drive |
//! | [`threshold`] | the payload size from which fine-grained transfer is no longer faster |
//! | [`mod@report`] | `report.html`: of a run, of a comparison, of a reproduction |
//! | `shell` | shell commands in reports |
//!
//! A drive with eight outstanding reads does more of them per second than with one:
//!
//! ```
//! use byteway_text::interrupt::Interrupt;
//! use byteway_scenario::Options;
//! use byteway_study::compare::{Figures, Metric, Plan, Request, probe};
//!
//! let folder = tempfile::tempdir()?;
//! let scenario = folder.path().join("reads.toml");
//! let text = "[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\nrw = \"randread\"\ncount = 1000\n";
//! std::fs::write(&scenario, text)?;
//! let varies = vec!["iodepth=1,8".to_owned()];
//! let scenario = scenario.into();
//! let request = Request { scenario, varies, baseline: None, metric: None, options: Options::default() };
//! let plan = Plan::load(&request)?;
//! let iops = plan.points.iter().map(|point| {
//!     let found = probe(&point.scenario, &Interrupt::default()).expect("the run succeeds");
//!     Figures::of(&found).get(Metric::Iops).expect("every run has this figure")
//! });
//! let iops: Vec<f64> = iops.collect();
//! assert!(iops[1] > 4.0 * iops[0], "{iops:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it simulates nothing itself; the crate `lab` performs its runs.

pub mod compare;
pub mod fit;
pub mod report;
pub mod reproduce;
mod shell;
pub mod sweep;
pub mod threshold;
