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
    /// More groups than a drive holds, which the host makes instead (`rest`).
    TooManyGroups,
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
        (Err(QueryError::Limit { what, .. }), Answer::Rows(_, rows))
            if what.contains("groups") && rows.len() > byteway_query::engine::GROUPS_MAX =>
        {
            Outcome::TooManyGroups
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
            if ours == theirs
                || (table.rows > VECTOR_ROWS && sums_floats(&types, sql) && are_close(&ours, &theirs))
            {
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

/// Rows of DuckDB's vectors: up to this many it adds in the order of the rows, as this crate does.
const VECTOR_ROWS: u64 = 2048;

/// Whether a result has sums of floating-point numbers. SQL leaves the order of additions open, and each order rounds otherwise; DuckDB's
/// depends on its vectors and threads.
fn sums_floats(types: &[ColumnType], sql: &str) -> bool {
    types.contains(&ColumnType::Float64) && (sql.contains("sum(") || sql.contains("avg("))
}

/// Whether rows are the same but for the last bits of floating-point numbers: 1.5e-11 of them, 65,536 roundings.
fn are_close(ours: &[Vec<serde_json::Value>], theirs: &[Vec<serde_json::Value>]) -> bool {
    let float = |value: &serde_json::Value| {
        let bits = value.as_str().filter(|text| text.len() == 16)?;
        Some(f64::from_bits(u64::from_str_radix(bits, 16).ok()?))
    };
    let close = |(ours, theirs): (&serde_json::Value, &serde_json::Value)| match (float(ours), float(theirs))
    {
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= ours.abs().max(theirs.abs()) * 1.5e-11,
        _ => ours == theirs,
    };
    let same_row =
        |(ours, theirs): (&Vec<_>, &Vec<_>)| ours.len() == theirs.len() && ours.iter().zip(theirs).all(close);
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(same_row)
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
