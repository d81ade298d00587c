//! Queries over the tables of a computational drive (their order, form and place of execution), and the rows
//! of these tables.
//!
//! | file | what |
//! |---|---|
//! | `place.rs`, `plan.rs` | where a job's queries are executed; their tasks and order |
//! | `draw.rs`, `tpch.rs`, `columns.rs` | rows of documented generators; their schemas |
//! | [`parquet`] | Parquet files, including malformed ones |
//! | `table.rs` | a table's rows, from a file or a generator |

mod columns;
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
