//! Columnar tables as bytes, and a query engine over them: what a computational drive stores and executes.
//!
//! | file | what |
//! |---|---|
//! | [`schema`], [`value`], [`values`] | columns and their types; single values, and arrays of them |
//! | [`group`], [`chunk`], [`zone`] | storage format: a row group's metadata, a column's encoding, its minimum and maximum |
//! | [`task`] | payload of a push-down command, in one of three forms: [`Task`] |
//! | [`statement`] | a parsed query: [`Statement`] |
//! | [`mod@sql`], [`compact`] | statements as SQL text, and in binary |
//! | [`mod@bind`] | binds a statement to a schema, with DuckDB's types |
//! | [`expr`] | the bound query: [`Query`] |
//! | [`engine`] | execution over batches: [`Execution`]; [`prune`] decides which row groups can be skipped |
//! | `eval`, [`like`], `aggregate` | expressions and aggregates over batches |
//! | [`work`] | counts of the work done: [`Work`] |
//! | [`cost`], [`estimate`] | the cost of work; selectivity of conditions |
//! | [`ipc`], [`mod@stream`], [`display`] | results as bytes, incrementally, and as text |
//! | [`difference`] | concatenation and comparison of result rows |
//! | [`row_filter`] | columns for a program that filters rows, and the rows that it selects |
//! | [`rest`] | a query that a drive does not do: what of it is pushed down, and what is left for a host |
//! | [`pieces`] | columns that are read in pieces |
//! | [`rows`] | rows that follow from their numbers, for tests of drives |
//! | [`error`], `bytes` | errors; checked decoding |
//!
//! The semantics are those of DuckDB, version 2: result types, three-valued logic, overflow as an error, NaN as the greatest number. An
//! unsupported construct is refused by name ([`Refusal`]), so that the host can execute it.
//!
//! All input is validated: tasks, SQL, encoded tables. Errors say what is wrong and where; memory and recursion are bounded.
//!
//! A query is parsed, bound to a schema, and executed over a batch:
//!
//! ```
//! use byteway_query::display::text;
//! use byteway_query::{Execution, Form, Schema, Task, rows};
//!
//! let batch = rows::numbered(0, 100);
//! let schema = Schema::from_arrow(&batch.schema())?;
//! let task = Task::parse(Form::Sql, b"SELECT sum(n), count(t) FROM numbered WHERE n < 20")?;
//! let mut execution = Execution::new(task.bind(&schema)?, &schema)?;
//! execution.push(&batch.project(execution.columns())?)?;
//! let result = execution.finish()?.expect("an aggregate has a row");
//! assert_eq!(text(result.column(0), 0).as_deref(), Some("190"));
//! assert_eq!(text(result.column(1), 0).as_deref(), Some("18"), "`t` is null in rows 0 and 10");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it reads no flash, charges no time and knows no commands. It is a function of the bytes passed to it.

mod aggregate;
pub mod bind;
mod bytes;
mod calendar;
pub mod chunk;
pub mod compact;
pub mod cost;
pub mod difference;
pub mod display;
pub mod engine;
pub mod error;
pub mod estimate;
mod eval;
pub mod expr;
pub mod group;
pub mod ipc;
pub mod like;
pub mod pieces;
pub mod prune;
pub mod rest;
pub mod row_filter;
pub mod rows;
pub mod schema;
pub mod sql;
pub mod statement;
pub mod stream;
pub mod task;
pub mod value;
pub mod values;
pub mod work;
pub mod zone;

pub use bytes::FormatError;
pub use engine::Execution;
pub use error::{QueryError, Refusal, SqlPosition};
pub use expr::Query;
pub use group::GroupMeta;
pub use schema::{Column, ColumnType, Schema, SchemaError};
pub use statement::Statement;
pub use task::{Form, Task};
pub use value::Value;
pub use work::{Encoding, Operator, Work};

pub use arrow_array::{ArrayRef, RecordBatch};
pub use arrow_schema::DataType;
pub use arrow_schema::SchemaRef;
