//! `byteway compare`: one scenario with some of its keys varied, every combination run, and the differences in a table,
//! in charts and in words.
//!
//! | file | what |
//! |---|---|
//! | `vary.rs` | `--vary`: keys, lists and ranges of values |
//! | `plan.rs` | all points, each a validated scenario, and their baselines |
//! | `fingerprint.rs` | the identity of a point's results |
//! | `fnv.rs` | the hash of fingerprints |
//! | `store.rs` | storage of points, to resume from |
//! | `pareto.rs` | throughput and cost, where drives have a price |
//! | `outcome.rs` | running points in parallel, and their outcomes |
//! | `finding/` | knees, crossovers, the best point, in words |
//! | `reach.rs` | the sizes at which a method is better than another |
//! | `sizes.rs` | the payload sizes up to which a method is better, to the byte |
//! | `tried.rs` | what findings became with other constants |
//! | `sensitivity.rs` | findings that rest on assumed constants |
//! | `comparison.rs` | the complete result, and `compare.json` |
//! | `table.rs` | the table for the terminal, and `compare.csv` |
//! | `report.rs` | `report.html` |
//!
//! Results depend only on the scenario and the values, not on the number of threads or on resumed points.

mod comparison;
mod finding;
mod fingerprint;
pub(crate) mod fnv;
mod outcome;
mod pareto;
mod plan;
mod reach;
mod report;
mod sensitivity;
mod sizes;
mod store;
mod table;
mod tried;
mod vary;

pub use comparison::{Comparison, Point, Replicate};
pub(crate) use finding::is_power_chance;
pub use finding::{Corner, Fact, Finding, FindingInput, SHOWN_MAX};
pub use fingerprint::{Fingerprint, SOURCES, fingerprint};
pub use outcome::{CompareOptions, PointOutcomes, run_all};
pub(crate) use plan::job_count;
pub use plan::{Plan, Planned, PlannedRun, Request};
pub use reach::Reach;
pub use report::report;
pub use sensitivity::{plan_trials, sensitivity};
pub use sizes::with_payload;
pub(crate) use store::{Kept, read_kept};
pub use store::{Store, StoreError};
pub use tried::{Change, Sensitivity, TrialEnd, Tried};
pub use vary::{Amount, Axis, Jobs, POINTS_MAX, Scale, Value};
pub(crate) use vary::{place, resolve};

impl Store {
    /// Writes all files about the comparison as a whole.
    pub fn write_all(&self, comparison: &Comparison) -> Result<(), StoreError> {
        self.publish(&[
            ("compare.json", comparison.to_json()),
            ("compare.csv", comparison.to_csv()),
            ("report.html", report(comparison).render()),
        ])
    }
}
