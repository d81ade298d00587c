//! Queries that a drive does not execute as a whole: splits them into a task for each table and a rest, which the host executes over the
//! returned rows.
//!
//! | file | what |
//! |---|---|
//! | `select` | a parsed SELECT: [`WholeQuery`] |
//! | `split` | what is pushed down, what is left, and why: [`Split`] |
//! | `stages` | the join order |
//! | `run` | execution of the rest: [`RestExecution`] |
//! | `join`, `sort`, `key` | hash join; ORDER BY, full or top-N; rows as comparable bytes |
//!
//! A task is pushed to each table: the columns that the rest needs, and the conjuncts of WHERE and ON on this table alone. For a single
//! table, groups with their aggregates are pushed. The host executes what a drive refuses: ORDER BY and OFFSET of rows, DISTINCT, DISTINCT
//! aggregates, more groups than a drive holds, ORDER BY of expressions that are not selected, and inner equi-joins. Types, nulls, overflow
//! and order are DuckDB's, because the same code evaluates the expressions.
//!
//! What it does not do: outer, cross and natural joins, joins without an equality, sub-queries, WITH, window functions, set operations.
//! They are refused with [`QueryError::Unsupported`](crate::QueryError::Unsupported), which gives the position.

mod join;
mod key;
mod run;
mod select;
mod sort;
mod split;
mod stages;

pub use run::{RestExecution, RestLimits};
pub use select::{TABLES_MAX, TableFacts, WholeQuery};
pub use split::{PushPolicy, Rest, Scan, Split};
