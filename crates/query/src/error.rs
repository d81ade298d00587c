//! Errors of parsing, binding and executing queries.

use thiserror::Error;

use crate::bytes::FormatError;
use crate::schema::ColumnType;

/// Valid SQL that a drive does not support: the host executes it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{construct} is not pushed down: {why}")]
pub struct Refusal {
    /// The construct in SQL's terms: "JOIN", "window function", "sub-query".
    pub construct: String,
    /// Why it is refused, and what is supported.
    pub why: String,
}

/// A position in SQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqlPosition {
    /// Line, from 1; 0 if unknown.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

impl std::fmt::Display for SqlPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => Ok(()),
            line => write!(f, " at line {line}, column {}", self.column),
        }
    }
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Invalid SQL.
    #[error("invalid SQL: {0}")]
    Syntax(String),
    /// A construct that a drive does not support.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A construct that neither a drive nor the host supports.
    #[error("{construct}{place} is supported neither by a drive nor by this host: {why}")]
    Unsupported {
        /// The construct in SQL's terms.
        construct: String,
        /// Position in the text, if known.
        place: SqlPosition,
        /// Why, and what is supported.
        why: String,
    },
    /// A malformed task, schema, metadata or chunk.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A limit is exceeded.
    #[error("{what}: {found} given, limit {max}")]
    Limit {
        /// Name of the limited quantity.
        what: &'static str,
        /// The number found or required.
        found: u64,
        /// The limit.
        max: u64,
    },
    /// A column that the table does not have.
    #[error("table {table:?} has no column {name:?}; its columns are {columns}")]
    UnknownColumn {
        /// Table name.
        table: String,
        /// Column name.
        name: String,
        /// Names of the table's columns, abbreviated if there are many.
        columns: String,
    },
    /// Incompatible types.
    #[error("{construct} of {found}: {why}")]
    Type {
        /// The operator, function or clause.
        construct: String,
        /// The types found.
        found: String,
        /// The types it takes.
        why: String,
    },
    /// A misplaced or incomplete clause.
    #[error("{construct}: {problem}")]
    Misplaced {
        /// The construct.
        construct: String,
        /// The invalid value, and the valid range.
        problem: String,
    },
    /// A string that is not a value of the required type.
    #[error("{text:?} is not a valid {column_type}: {why}")]
    Text {
        /// The string, truncated to 40 characters.
        text: String,
        /// The required type.
        column_type: ColumnType,
        /// Valid form.
        why: String,
    },
    /// A result out of its type's range.
    #[error("overflow in {operation} of {column_type}")]
    Overflow {
        /// The operation.
        operation: &'static str,
        /// The type of the result.
        column_type: ColumnType,
    },
    /// Division of an integer or decimal by zero, an error as in DuckDB 2.
    #[error("division by zero in {0}")]
    DivisionByZero(&'static str),
    /// A batch that does not match the schema.
    #[error("batch does not match: {0}")]
    Batch(String),
    /// An error of Arrow.
    #[error("arrow: {0}")]
    Arrow(String),
}

impl From<arrow_schema::ArrowError> for QueryError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}

/// Checks a number against a limit of what is parsed.
pub(crate) fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), QueryError> {
    match found > max {
        true => Err(QueryError::Limit { what, found: found as u64, max: max as u64 }),
        false => Ok(()),
    }
}

pub(crate) fn refuse(construct: impl Into<String>, why: impl Into<String>) -> QueryError {
    Refusal { construct: construct.into(), why: why.into() }.into()
}
