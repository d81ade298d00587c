//! `byteway fit`: constants of a profile, found from measurements of a real drive.
//!
//! | file | what |
//! |---|---|
//! | `jobs.rs` | the fio job set whose results identify the constants |
//! | `fio_json.rs`, `points_csv.rs` | measurements from fio's JSON, and from a table |
//! | `files.rs` | files that are read and written |
//! | `measurement.rs` | points: a load, and the figures that were measured under it |
//! | `constant.rs` | the constants: keys, physical bounds, loads that depend on them |
//! | `model.rs` | figures of points under constants: short simulations, in parallel |
//! | `estimate.rs` | where the search starts: closed-form estimates |
//! | `linear.rs` | least squares with few unknowns |
//! | `search.rs` | the search: Levenberg-Marquardt over simulated figures |
//! | `identify.rs` | what the points determine, and what they don't |
//! | `structure.rs` | numbers of channels and dies, and the link, where they are not known |
//! | `fitting.rs` | the steps of a fit, in order |
//! | `outcome.rs`, `table.rs`, `report.rs` | the result: `fit.json` and the profile; for the terminal; `report.html` |
//! | `error.rs` | why there is no result |
//!
//! Results depend only on the measurements, the base and the keys, not on the number of threads.
//!
//! What it does not do: it guesses nothing. A constant that the points don't identify stays at or near the value of the
//! base, and the result says so; nor does it hide that no constants give what was measured: the fit has then failed.

mod constant;
mod error;
mod estimate;
mod files;
mod fio_json;
mod fitting;
mod identify;
mod jobs;
mod linear;
mod measurement;
mod model;
mod outcome;
mod points_csv;
mod report;
mod search;
mod structure;
mod table;

pub use constant::{Bounds, Constant, ConstantUnit};
pub use error::FitError;
pub use files::{check_folder, read_measurements};
pub use fio_json::read_fio;
pub use fitting::{HoldOut, Request, fit, runs};
pub use identify::{HALF_WIDTH_MAX, Reason};
pub use jobs::JobSet;
pub use measurement::{Figure, Load, Measurements, Point, Role, Sample, State};
pub use model::{Setup, figures_on_base};
pub(crate) use outcome::shown_figure;
pub use outcome::{ConstantOutcome, Fit, FittedPoint, RESIDUAL_MAX, Residual, Spread, Verdict};
pub use points_csv::read_csv;
pub use report::report;
pub use structure::Derived;
