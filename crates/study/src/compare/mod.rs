//! `byteway compare`: one scenario with some of its keys varied, every combination run, and the differences in a table,
//! in charts and in words.
//!
//! | file | what |
//! |---|---|
//! | `vary.rs` | `--vary`: keys, lists and ranges of values |
//! | `plan.rs` | all points, each a scenario that was loaded and checked; what is compared with what |
//! | `fingerprint.rs` | what a point comes to, as a number |
//! | `fnv.rs` | the hash behind it |
//! | `found.rs` | what is kept of a run |
//! | `store.rs` | points that were run before |
//! | `pareto.rs` | throughput beside cost, where drives have a price |
//! | `outcome.rs` | running points, several at once, and what became of each |
//! | `figures.rs` | the figures, and differences between them |
//! | `finding/` | knees, crossovers, the best point, in words |
//! | `sizes.rs` | up to which payload size a method pays, to the byte |
//! | `comparison.rs` | all of it together, and `compare.json` |
//! | `table.rs` | the table of the terminal, and `compare.csv` |
//! | `report.rs` | `report.html` |
//!
//! Results depend on the scenario and the values alone: not on how many run at once, nor on which were run before.

mod comparison;
mod figures;
mod finding;
mod fingerprint;
mod fnv;
mod found;
mod outcome;
mod pareto;
mod plan;
mod report;
mod sizes;
mod store;
mod table;
mod vary;

pub use comparison::{Comparison, Point};
pub(crate) use figures::equal;
pub use figures::{Figures, Metric};
pub use finding::{Corner, Fact, Finding, SHOWN_MAX, Seen};
pub use fingerprint::{Fingerprint, SOURCES};
pub use found::Found;
pub(crate) use outcome::run_followed;
pub use outcome::{Manner, Outcome, Ran, probe, run_all};
pub use plan::{Plan, Planned, Request};
pub use report::report;
pub use sizes::{Reach, with_payload};
pub use store::{Store, StoreError};
pub use vary::{Axis, Jobs, POINTS_MAX, Scale, Value};

impl Store {
    /// Writes everything that shows the comparison as a whole.
    pub fn write_all(&self, comparison: &Comparison) -> Result<(), StoreError> {
        self.publish(&[
            ("compare.json", comparison.to_json()),
            ("compare.csv", comparison.to_csv()),
            ("report.html", report(comparison).render()),
        ])
    }
}
