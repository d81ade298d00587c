//! Many runs of scenarios, and what they say about a drive: comparisons, sweeps, fits and thresholds.
//!
//! | file | what |
//! |---|---|
//! | [`assumption`] | trials of constants that are assumed, one at a time |
//! | [`mod@compare`] | comparisons: every combination of varied keys, and the differences |
//! | [`sweep`] | sweeps: points of a space, chosen by a search, and their rows |
//! | [`mod@fit`] | constants of a profile from measurements of a real drive |
//! | [`mod@validate`] | a profile against public measurements of the real drive |
//! | [`replicate`] | runs of one scenario with several seeds |
//! | [`threshold`] | the payload size from which fine-grained transfer is no longer faster |
//!
//! A drive with eight outstanding reads does more of them per second than with one:
//!
//! ```
//! use byteway_explore::compare::{Plan, Request};
//! use byteway_run::probe::probe;
//! use byteway_results::figures::{Figures, Metric};
//! use byteway_text::interrupt::Interrupt;
//!
//! let folder = tempfile::tempdir()?;
//! let scenario = folder.path().join("reads.toml");
//! let text = "[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\nrw = \"randread\"\ncount = 1000\n";
//! std::fs::write(&scenario, text)?;
//! let varies = vec!["iodepth=1,8".to_owned()];
//! let scenario = scenario.into();
//! let request = Request { scenario, varies, ..Request::default() };
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
//! What it does not do: it simulates nothing itself, which the crate `lab` does. Claims of papers are measured by the crate
//! `papers`, and charts are drawn by the crate `report`.

pub mod assumption;
pub mod compare;
pub mod fit;
pub mod replicate;
pub mod sweep;
pub mod threshold;
pub mod validate;
