//! Input of a program that filters rows ([`byteway_program::filter`]): columns of fixed width, little-endian, followed by a null flag (1
//! byte) for each column.
//!
//! | type | layout |
//! |---|---|
//! | integers | 1, 2, 4 or 8 bytes |
//! | BOOLEAN | 1 byte, 0 or 1 |
//! | FLOAT, DOUBLE | IEEE 754 bits, 4 or 8 bytes |
//! | DATE | days since 1970-01-01, 4 bytes, signed |
//! | TIMESTAMP | microseconds since 1970-01-01T00:00, 8 bytes, signed |
//! | DECIMAL(p, s) | unscaled signed integer: 4 bytes for p up to 9, 8 up to 18, else 16 |
//! | VARCHAR | refused: it has no fixed width |
//!
//! A row is laid out like a C struct: the columns in the order given, then a byte for each of them, in the same order, 1 if its value is
//! null, else 0. Columns that are never null have this byte too, so that the layout depends on the types alone. A null's value is zero. For
//! example, `a INTEGER, b BIGINT` is `struct { int32_t a; int64_t b; uint8_t a_is_null, b_is_null; }`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_select::filter::FilterBuilder;
use byteway_program::rows::RowsError;
use byteway_program::{Column, Rows};

use crate::error::QueryError;
use crate::schema::{ColumnType, Schema};
use crate::values::with_primitive;

/// Upper limit of a program's columns.
pub const COLUMNS_MAX: usize = 64;

/// The columns of a table that a program reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterColumns {
    columns: Vec<(usize, ColumnType)>,
}

impl FilterColumns {
    /// Resolves columns by name, in order; duplicates are allowed.
    ///
    /// # Errors
    /// No or too many columns, an unknown column, or a type without fixed width.
    pub fn bind<'a>(
        names: impl IntoIterator<Item = &'a str>,
        table: &str,
        schema: &Schema,
    ) -> Result<Self, QueryError> {
        let construct = || "program".to_owned();
        let mut columns = Vec::new();
        for name in names {
            let Some(index) = schema.find(name) else {
                let names: Vec<&str> =
                    schema.columns().iter().take(8).map(|column| column.name.as_str()).collect();
                let (table, name) = (table.to_owned(), name.to_owned());
                return Err(QueryError::UnknownColumn { table, name, columns: names.join(", ") });
            };
            let column_type = schema.columns()[index].column_type;
            if column_type.stored_bytes().is_none() {
                let found = format!("column {name:?}, which is {column_type}");
                let why = "a program reads columns of fixed width only".to_owned();
                return Err(QueryError::Type { construct: construct(), found, why });
            }
            if columns.len() == COLUMNS_MAX {
                let (found, max) = (COLUMNS_MAX as u64 + 1, COLUMNS_MAX as u64);
                return Err(QueryError::Limit { what: "columns of a program", found, max });
            }
            columns.push((index, column_type));
        }
        if columns.is_empty() {
            let problem = "name at least one column that it reads".to_owned();
            return Err(QueryError::Misplaced { construct: construct(), problem });
        }
        Ok(Self { columns })
    }

    /// Column indexes in the table's schema, in order.
    pub fn indexes(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().map(|(index, _)| *index)
    }

    /// Converts arrays of these columns, in order, to rows.
    ///
    /// # Errors
    /// The arrays do not match the columns.
    pub fn rows(&self, arrays: &[ArrayRef]) -> Result<FixedRows, QueryError> {
        if arrays.len() != self.columns.len() {
            let (have, need) = (arrays.len(), self.columns.len());
            return Err(QueryError::Batch(format!("a program gets {have} columns, expected {need}")));
        }
        let mut columns = Vec::with_capacity(2 * arrays.len());
        for (array, (_, column_type)) in arrays.iter().zip(&self.columns) {
            if *array.data_type() != column_type.to_arrow() {
                let have = array.data_type();
                return Err(QueryError::Batch(format!(
                    "a program's column is {have}, expected {column_type}"
                )));
            }
            columns.push(values(array, *column_type));
        }
        for array in arrays {
            let nulls = array.nulls();
            let null = |row| u8::from(nulls.is_some_and(|nulls| nulls.is_null(row)));
            columns.push(((0..array.len()).map(null).collect(), 1));
        }
        Ok(FixedRows { columns })
    }
}

/// Bytes of the values, zero for nulls, and the width of a value in bytes.
fn values(array: &ArrayRef, column_type: ColumnType) -> (Vec<u8>, usize) {
    let width = column_type.stored_bytes().unwrap_or(0);
    let nulls = array.nulls();
    let is_null = |row| nulls.is_some_and(|nulls| nulls.is_null(row));
    let mut bytes = Vec::with_capacity(array.len() * width);
    with_primitive!(column_type, Arrow => {
        for (row, value) in array.as_primitive::<Arrow>().values().iter().enumerate() {
            let start = bytes.len();
            if !is_null(row) {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
            // A decimal of few digits is stored in fewer bytes than Arrow's 16.
            bytes.resize(start + width, 0);
        }
    }, else {
        if let Some(array) = array.as_boolean_opt() {
            bytes.extend((0..array.len()).map(|row| u8::from(!is_null(row) && array.value(row))));
        }
    });
    (bytes, width)
}

/// Rows of fixed-width columns, owning their bytes.
#[derive(Debug, Clone)]
pub struct FixedRows {
    columns: Vec<(Vec<u8>, usize)>,
}

impl FixedRows {
    /// The rows as a program takes them.
    ///
    /// # Errors
    /// The columns differ in length.
    pub fn rows(&self) -> Result<Rows<'_>, RowsError> {
        let columns: Vec<Column<'_>> =
            self.columns.iter().map(|(bytes, width)| Column { bytes, width: *width }).collect();
        Rows::of(&columns)
    }
}

/// Selects rows of each array by ascending row numbers below `rows`.
///
/// # Errors
/// An array does not have `rows` rows.
pub fn keep(arrays: &[ArrayRef], selected: &[u32], rows: usize) -> Result<Vec<ArrayRef>, QueryError> {
    let mut is_kept = vec![false; rows];
    for row in selected {
        match is_kept.get_mut(*row as usize) {
            Some(kept) => *kept = true,
            None => return Err(QueryError::Batch(format!("row {row} of {rows}"))),
        }
    }
    let filter = FilterBuilder::new(&BooleanArray::from(is_kept)).optimize().build();
    arrays.iter().map(|array| Ok(filter.filter(array)?)).collect()
}
