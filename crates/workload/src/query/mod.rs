//! Queries over the tables of a computational drive: which, how they are said, and who executes them; and the rows of its tables.
//!
//! | file | what |
//! |---|---|
//! | `place.rs`, `plan.rs` | who executes a job's queries; which they are, and in which order |
//! | `draw.rs`, `tpch.rs` | rows of documented generators |
//! | [`parquet`] | Parquet files, which may lie |
//! | `table.rs` | a table's rows, from a file or a generator |

mod draw;
pub mod parquet;
mod place;
mod plan;
mod table;
mod tpch;

pub use draw::{Amount, Generator};
pub use place::QueryPlace;
pub use plan::{QueryPlan, QueryTask, QueryTurns};
pub use table::{Batches, ROWS_MAX, RowSource, TableRows};
