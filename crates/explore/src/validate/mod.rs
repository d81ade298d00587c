//! `byteway validate`: a profile, held against what others measured of the real drive.
//!
//! | file | what |
//! |---|---|
//! | `dataset.rs` | the measurements that are built in, with the profile, the host and the source of each |
//! | `validation.rs` | every point simulated, its errors, and their means by kind of load |
//! | `recorded.rs` | the errors of all profiles as they were when last simulated: `measured/errors.csv` |
//! | `table.rs`, `report.rs` | for the terminal; `validation.json` and `report.html` |
//!
//! What it does not do: it moves no constant; `byteway fit` does.

mod dataset;
mod recorded;
mod report;
mod table;
mod validation;

pub use dataset::{DATASETS, Dataset};
pub use recorded::{Errors, csv, recorded};
pub use report::report;
pub use validation::{
    HeldFigure, HeldPoint, Measure, Request, Spread, Validation, WORST_MAX, profiles, validate,
};
