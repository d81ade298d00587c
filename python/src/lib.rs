//! The native half of the Python package `byteway`: what it does is in the crates below, how it reads in Python is in `byteway/*.py`.
//!
//! | file | what |
//! |---|---|
//! | `follow.rs` | long work in a thread of its own, with progress and Ctrl-C; the interpreter lock is released |
//! | `error.rs` | errors as exceptions of `byteway.errors` |
//! | `table.rs` | Arrow tables, handed over without a copy by the Arrow C stream interface |
//! | `scenario.rs` | scenarios and their schemas |
//! | `policy.rs` | policies in Python |
//! | `run.rs` | a simulated run and its results |
//! | `study.rs` | comparisons, thresholds, papers measured again |
//! | `fit.rs` | constants of a profile, fitted to measurements |
//! | `sweep.rs` | sweeps, and points that other processes run |
//! | `trace.rs` | block traces |
//! | `session.rs` | a drive that stays attached, in a thread of its own |
//! | `kv.rs`, `csd.rs` | key-value drives, and drives with tables |
//!
//! Every function here takes and gives plain values, JSON, or Arrow; types and documentation are on the Python side. No function
//! panics on input, and a panic of the simulator becomes an exception.

mod csd;
mod error;
mod fit;
mod follow;
mod kv;
mod policy;
mod run;
mod scenario;
mod session;
mod study;
mod sweep;
mod table;
mod trace;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line with these arguments, the first of which is the program's name; returns the exit code. Signals are the
/// command's until it ends.
#[pyfunction]
fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| byteway::cli::exit_code(arguments))
}

/// Native functions of `byteway`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::csd::TablesDrive;
    #[pymodule_export]
    use super::fit::{Fit, Measurements, fit, fit_jobs};
    #[pymodule_export]
    use super::kv::KvDrive;
    #[pymodule_export]
    use super::main;
    #[pymodule_export]
    use super::run::{RunResults, run};
    #[pymodule_export]
    use super::scenario::{Scenario, profile_show, profiles, schema};
    #[pymodule_export]
    use super::study::{Comparison, Reproduction, compare, papers, reproduce, threshold};
    #[pymodule_export]
    use super::sweep::{Sweep, check_folder, run_tasks};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::{trace_convert, trace_formats, trace_inspect, trace_read};
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    /// Hash of the sources from which the simulator was built: results of another one may differ.
    #[pymodule_export]
    const SOURCES: &str = byteway_explore::compare::SOURCES;
}
