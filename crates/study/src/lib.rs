//! Studies of many runs: comparisons, reproductions of papers, thresholds, and reports.
//!
//! | file | what |
//! |---|---|
//! | [`mod@compare`] | comparisons of many runs |
//! | [`reproduce`] | claims of papers, measured again |
//! | [`threshold`] | the payload size from which fine-grained transfer is no longer faster |
//! | [`mod@report`] | `report.html`: of a run, of a comparison, of a reproduction |
//! | `shell` | shell commands in reports |
//!
//! What it does not do: it simulates nothing itself; the crate `lab` performs its runs.

pub mod compare;
pub mod report;
pub mod reproduce;
mod shell;
pub mod threshold;
