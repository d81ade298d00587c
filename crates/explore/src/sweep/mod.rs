//! `byteway sweep`: points of a space of keys and values, chosen by a search, run anywhere, and never twice.
//!
//! | file | what |
//! |---|---|
//! | `space.rs` | [`Space`]: the scenario, the varied keys, the search; and its file |
//! | `dimension.rs` | a varied key: values in order, or a range that is drawn from |
//! | `search/` | which points come next: all, drawn ones, or those that find a knee, a crossover, a Pareto front |
//! | `plan.rs` | [`Sweep`]: points that are asked for, and their rows |
//! | `task.rs` | [`Task`]: a point as it travels to another process; running it |
//! | `cache.rs` | [`PointCache`]: results by fingerprint, on disk, shared by processes |
//! | `local.rs` | running a sweep in threads of this process |
//! | `row.rs` | [`Row`]: outcome and figures of a point |
//! | `dataset.rs` | the data set `sweep.parquet` |
//! | `table.rs` | the table for the terminal, and `sweep.json` |
//!
//! The rows depend on the space alone: not on who runs the points, in which order they end, or what the cache holds. A search asks for its
//! next points only when the rows of all points before are there.

mod cache;
mod dataset;
mod dimension;
mod local;
mod plan;
mod row;
mod search;
mod space;
mod table;
mod task;

pub use cache::PointCache;
pub use dimension::{Dimension, DimensionSection, Spacing};
pub use local::{LocalOptions, run_local};
pub use plan::{Answer, Sweep};
pub use row::{Row, RowStatus};
pub use search::{SearchMethod, SearchSection};
pub use space::{Space, SpaceFile, load_space};
pub use task::{Origin, Ran, Task};
