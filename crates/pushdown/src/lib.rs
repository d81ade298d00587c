//! Queries on a drive with tables: loaded rows, and execution on the drive, on this host, or split between them.
//!
//! | file | what |
//! |---|---|
//! | [`session`] | [`Session`](session::Session): an attached driver with its clients |
//! | [`load`] | loads Parquet files and generated rows into tables |
//! | [`plan`] | chooses where to execute a query |
//! | [`program`] | queries with a row filter program, on the drive or this host |
//! | `sample.rs` | estimates selectivity from a few row groups |
//! | `reading.rs` | reads columns to this host, with several commands in flight |
//! | [`query`] | executes a query on the drive or this host |
//! | [`split`] | splits a query that the drive refuses as a whole |
//! | [`drive_model`] | estimate of a drive's capabilities from its profile |
//! | [`error`] | errors |
//!
//! Data flows one way: a query -> [`split`] -> [`plan`] -> [`query`] or [`program`] -> the host crate's clients.
//!
//! What it does not do: it attaches to no drive and builds none, so it is the same for a simulated drive, one in a data directory and one
//! that another process serves. It evaluates no expression itself (the crate `query` does), and measures no jobs.

pub mod drive_model;
pub mod error;
pub mod load;
pub mod plan;
pub mod program;
pub mod query;
mod reading;
mod sample;
pub mod session;
pub mod split;

pub use reading::READ_DEPTH;
