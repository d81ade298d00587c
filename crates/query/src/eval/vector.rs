//! A value for each row.

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray};

use crate::chunk::TEXT_BYTES_MAX;
use crate::error::QueryError;
use crate::schema::ColumnType;
use crate::value::Value;
use crate::values;

/// A value for each row: a constant or an array.
#[derive(Debug, Clone)]
pub(crate) enum Vector {
    Constant(Value),
    Array(ArrayRef),
}

impl Vector {
    /// Converts to an array.
    ///
    /// # Errors
    /// Too many bytes of repeated strings: a task of 64 KiB could otherwise expand to gigabytes.
    pub fn into_array(self, column_type: ColumnType, rows: usize) -> Result<ArrayRef, QueryError> {
        match self {
            Self::Array(array) => Ok(array),
            Self::Constant(value) => {
                if let Value::Text(text) = &value {
                    check_text(text.len().saturating_mul(rows))?;
                }
                Ok(values::repeat(&value, column_type, rows))
            }
        }
    }

    /// Booleans as an array.
    pub fn into_boolean(self, rows: usize) -> BooleanArray {
        match self {
            Self::Array(array) => array.as_boolean().clone(),
            Self::Constant(value) => values::repeat(&value, ColumnType::Bool, rows).as_boolean().clone(),
        }
    }
}

/// Checks a column's bytes of strings against the limit of a batch.
pub fn check_text(bytes: usize) -> Result<(), QueryError> {
    match bytes > TEXT_BYTES_MAX {
        true => {
            let (found, max) = (bytes as u64, TEXT_BYTES_MAX as u64);
            Err(QueryError::Limit { what: "bytes of text in a column of a batch", found, max })
        }
        false => Ok(()),
    }
}
