//! Queries in this crate and in DuckDB must give the same rows, the same types, and errors in the same cases.
//!
//! | file | what |
//! |---|---|
//! | `oracle` | DuckDB in a process, and when these tests are skipped |
//! | `table` | a table as encoded row groups, and as a file for DuckDB |
//! | `generate` | random tables and queries |
//! | `predicates`, `aggregates` | 10,000 predicates and several thousand aggregates, shrunk when they differ |
//! | `casts` | decimals as floats |
//! | `rest`, `joins` | queries split between drive and host: random ones, and TPC-H's over several tables |
//! | `tpch`, `real` | TPC-H's tables, and tables from simulations |
//! | `sampled` | random queries over these, with constants from their values |
//!
//! By default all 10,000 predicates run, and the smaller tables; `cargo test -- --ignored` runs more on the larger ones.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod aggregates;
mod casts;
mod generate;
mod joins;
mod oracle;
mod predicates;
mod real;
mod rest;
mod sampled;
mod table;
mod tpch;

use byteway_query::{ColumnType, QueryError};
use oracle::{Answer, Oracle, plain, sorted};
use table::Table;

/// Outcome of a query on both sides.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The same rows, or an error on both sides.
    Same,
    /// Not supported here.
    Refused(String),
    /// One side fails by a row's value and the other returns rows. SQL leaves the evaluation order of a query's parts open, so both are
    /// correct.
    OneFailed(String),
    /// A difference.
    Differs(String),
}

/// Runs a query on both sides and compares.
pub fn compare(oracle: &mut Oracle, table: &Table, sql: &str) -> Outcome {
    let answer = oracle.ask(sql);
    let bound = match table.bind(sql) {
        Ok(query) => query,
        Err(QueryError::Refused(refusal)) => return Outcome::Refused(refusal.construct),
        Err(error) => {
            return match answer {
                Answer::Error(_) => Outcome::Same,
                Answer::Rows(..) => Outcome::Differs(format!("here: {error}; there: rows")),
            };
        }
    };
    let types: Vec<ColumnType> = bound.outputs.iter().map(|output| output.expr.column_type).collect();
    let by_values = |error: &str| {
        ["Out of Range", "Conversion", "Invalid Input"].iter().any(|kind| error.starts_with(kind))
    };
    match (table.execute(bound), answer) {
        (Err(QueryError::Overflow { .. } | QueryError::DivisionByZero(_)), Answer::Error(_)) => Outcome::Same,
        (Err(error @ (QueryError::Overflow { .. } | QueryError::DivisionByZero(_))), Answer::Rows(..)) => {
            Outcome::OneFailed(format!("here: {error}; there: rows"))
        }
        (Err(error), answer) => Outcome::Differs(format!("here: {error}; there: {answer:?}")),
        (Ok(_), Answer::Error(error)) if by_values(&error) => {
            Outcome::OneFailed(format!("here: rows; there: {error}"))
        }
        (Ok(_), Answer::Error(error)) => Outcome::Differs(format!("here: rows; there: {error}")),
        (Ok((batches, _)), Answer::Rows(their_types, their_rows)) => {
            let names: Vec<String> = types.iter().map(ColumnType::to_string).collect();
            let same_type = |(ours, theirs): (&String, &String)| ours == theirs || theirs == "\"NULL\"";
            if names.len() != their_types.len() || !names.iter().zip(&their_types).all(same_type) {
                return Outcome::Differs(format!("types here: {names:?}; there: {their_types:?}"));
            }
            let (ours, theirs) = (sorted(plain(&batches, &types)), sorted(their_rows));
            if ours == theirs {
                return Outcome::Same;
            }
            let first = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
            Outcome::Differs(format!(
                "{} rows here, {} there; the first that differ: {first:?}",
                ours.len(),
                theirs.len()
            ))
        }
    }
}

/// Number of random queries; `BYTEWAY_QUERIES` overrides it.
pub fn queries(default: usize) -> usize {
    std::env::var("BYTEWAY_QUERIES")
        .map_or(default, |count| count.parse().expect("BYTEWAY_QUERIES is a number"))
}

/// Seed; `BYTEWAY_SEED` overrides the fixed default.
pub fn seed() -> u64 {
    std::env::var("BYTEWAY_SEED").map_or(1, |seed| seed.parse().expect("BYTEWAY_SEED is a number"))
}
