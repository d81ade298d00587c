//! The laboratory: what a user types and reads, and the run in between. The `byteway` binary is one call of
//! [`cli::main_with`].
//!
//! | file | what |
//! |---|---|
//! | [`cli`] | the command line and its exit codes |
//! | [`scenario`] | the scenario file and the device file, and what is left of them once everything is looked up and checked |
//! | [`profile`] | the constants of drives and hosts (`profiles/*.toml`), and the flash geometry that follows |
//! | [`run`] | a run in simulation, from its plan to its summary |
//! | [`serve`] | drives for hosts in other processes: sockets, and what was served |
//! | [`mod@bench`] | jobs on a drive that another process serves, in real time |
//! | [`jobs`] | jobs at play: workers, their I/Os and how they end, whatever the drive is |
//! | [`pairs`] | one request to a key-value drive, in a directory or served |
//! | [`build`] | the parts of a simulation from a plan |
//! | [`measure`] | what is measured while it runs: recorders, series, `ios.parquet` |
//! | [`summary`] | what a run found: `summary.json`, tables |
//! | [`results`] | the summary with the series over time, distributions and wear; `results.parquet` |
//! | `columns` | what the Parquet files have in common |
//! | [`mod@report`] | `report.html` |
//! | [`mod@compare`] | many runs side by side |
//! | [`threshold`] | from which size on fine-grained transfer no longer pays |
//! | [`reproduce`] | what papers say, measured again |
//! | [`timeline`] | `spans.json`: every I/O and every use of a resource as tracks of time |
//! | [`output`], [`progress`], [`interrupt`] | the output folder, the progress bar, Ctrl-C |
//! | `shell` | commands that reports tell one to type |
//! | `source` | TOML that keeps the place of every value through merging and overriding |
//!
//! Data flows one way: text -> `ScenarioFile` -> `Scenario` -> `run` -> `Results` -> tables and files; a benchmark joins at
//! the jobs. A served drive's goes text -> `DeviceFile` -> `Device` -> `Service`, and the rest is the crate `serve`'s.
//!
//! What it does not do: it knows no protocol and charges no time; that is the business of the crates below it. It
//! reads no profile of a drive other than those in TOML.

pub mod bench;
pub mod build;
pub mod cli;
pub mod compare;
pub mod interrupt;
pub mod jobs;
pub mod lsm;
pub mod media;
pub mod pairs;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod serve;
mod shell;
pub mod terminal;
pub mod threshold;
