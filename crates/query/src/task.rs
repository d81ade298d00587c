//! Tasks: the payload of a push-down command, in one of three forms.

use crate::bind;
use crate::bytes::{FormatError, Reader};
use crate::error::QueryError;
use crate::expr::Query;
use crate::schema::{NAME_BYTES_MAX, Schema};
use crate::statement::{Statement, TASK_BYTES_MAX};
use crate::{compact, sql};

/// Encoding of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A complete SELECT as SQL text.
    Sql,
    /// Table name, space, and predicate as SQL text; returns all columns of the rows for which it holds. ByteExpress 2.2.2, figure 4: the
    /// drive knows the schema, so table and predicate are enough. Without a predicate, all rows.
    Segment,
    /// Binary: see [`compact`].
    Compact,
}

impl Form {
    /// All forms, in the order of their codes in a command.
    pub const ALL: [Form; 3] = [Self::Sql, Self::Segment, Self::Compact];

    /// Code in a command.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The form with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// A task: parsed, not yet bound to a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    form: Form,
    bytes: Vec<u8>,
    statement: Statement,
}

impl Task {
    /// Parses a payload.
    ///
    /// # Errors
    /// Too long, malformed, or an unsupported construct.
    pub fn parse(form: Form, bytes: &[u8]) -> Result<Self, QueryError> {
        if bytes.len() > TASK_BYTES_MAX {
            let (found, max) = (bytes.len() as u64, TASK_BYTES_MAX as u64);
            return Err(QueryError::Limit { what: "bytes of a task", found, max });
        }
        let statement = match form {
            Form::Sql => sql::parse(text(bytes)?)?,
            Form::Segment => {
                let text = text(bytes)?;
                let (table, predicate) = text.split_once(' ').unwrap_or((text, ""));
                if table.is_empty() || table.len() > NAME_BYTES_MAX {
                    let problem =
                        format!("must begin with a table's name of 1 to {NAME_BYTES_MAX} bytes and a space");
                    return Err(QueryError::Misplaced { construct: "segment".to_owned(), problem });
                }
                let mut statement = Statement::all(table);
                if !predicate.trim().is_empty() {
                    statement.filter = Some(sql::parse_predicate(predicate)?);
                }
                statement
            }
            Form::Compact => compact::decode(bytes)?,
        };
        Ok(Self { form, bytes: bytes.to_vec(), statement })
    }

    /// Encodes a statement in the compact form. With `schema`, columns are written as indexes.
    ///
    /// # Errors
    /// A column that the schema does not have, or more than [`TASK_BYTES_MAX`] bytes.
    pub fn compact(statement: &Statement, schema: Option<&Schema>) -> Result<Self, QueryError> {
        Self::parse(Form::Compact, &compact::encode(statement, schema)?)
    }

    /// A task in segment form, from a table and a predicate.
    ///
    /// # Errors
    /// Same as [`parse`](Self::parse).
    pub fn segment(table: &str, predicate: &str) -> Result<Self, QueryError> {
        Self::parse(Form::Segment, format!("{table} {predicate}").trim_end().as_bytes())
    }

    /// The form of the payload.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The payload.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Name of the table whose schema [`bind`](Self::bind) needs.
    pub fn table(&self) -> &str {
        &self.statement.table
    }

    /// The parsed statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Binds the task to the table's schema.
    ///
    /// # Errors
    /// An unknown column, incompatible types, or an unsupported construct.
    pub fn bind(&self, schema: &Schema) -> Result<Query, QueryError> {
        bind::bind(&self.statement, schema)
    }
}

fn text(bytes: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let mut reader = Reader::new("task", bytes);
        let _ = reader.take(error.valid_up_to());
        reader.error("SQL text is not valid UTF-8")
    })
}
