//! Reasons for which a query ends without a complete result.

use crate::controller::command_set::programs::filter::FilterError;
use byteway_query::{FormatError, QueryError};
use byteway_tables::TablesError;
use byteway_wire::nvme::vendor::csd::Problem;

/// Reason for which a query ends early.
pub(crate) enum Failure {
    Query(QueryError),
    Damaged(FormatError),
    Store(TablesError),
    Program(FilterError),
}

impl Failure {
    pub(crate) fn problem(&self) -> (Problem, String) {
        match self {
            Failure::Query(error) => (problem_of(error), error.to_string()),
            Failure::Damaged(error) => (Problem::Media, error.to_string()),
            Failure::Store(error) => (Problem::Media, error.to_string()),
            Failure::Program(error) => (Problem::Program, error.to_string()),
        }
    }
}

/// Problem code of an error, for the host.
pub(crate) fn problem_of(error: &QueryError) -> Problem {
    match error {
        QueryError::Refused(_) => Problem::Refused,
        QueryError::Overflow { .. } | QueryError::DivisionByZero(_) | QueryError::Limit { .. } => {
            Problem::Execution
        }
        _ => Problem::Malformed,
    }
}
