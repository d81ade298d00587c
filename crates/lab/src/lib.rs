//! The laboratory: what a user types and reads, and the run in between. The `byteway` binary is one call of
//! [`cli::main_with`].
//!
//! | file | what |
//! |---|---|
//! | [`cli`] | the command line and its exit codes |
//! | [`scenario`] | the scenario file, and what is left of it once everything is looked up and checked |
//! | [`profile`] | the constants of drives and hosts (`profiles/*.toml`), and the flash geometry that follows |
//! | [`units`] | numbers with their units: "4 KiB", "3.2 us" |
//! | [`workload`] | what a job asks of the drive, I/O by I/O |
//! | [`trace`] | block traces as a stream of records |
//! | [`run`] | a run from its plan to its summary |
//! | [`build`] | the parts of a simulation from a plan |
//! | [`measure`] | what is measured while it runs |
//! | [`summary`] | what a run found: recorders, `summary.json`, tables |
//! | [`output`], [`progress`], [`interrupt`] | the output folder, the progress bar, Ctrl-C |
//! | [`error`] | wrong input: place, mistake, cure |
//! | `source` | TOML that keeps the place of every value through merging and overriding |
//!
//! Data flows one way: text -> `ScenarioFile` -> `Scenario` -> `run` -> `Summary` -> tables and files.
//!
//! What it does not do: it knows no protocol and charges no time; that is the business of the crates below it. It
//! compares no runs, draws no charts, and reads no profile of a drive other than those in TOML.

pub mod build;
pub mod cli;
pub mod error;
pub mod interrupt;
pub mod measure;
pub mod output;
pub mod profile;
pub mod progress;
pub mod run;
pub mod scenario;
mod source;
pub mod summary;
pub mod trace;
pub mod units;
pub mod workload;
