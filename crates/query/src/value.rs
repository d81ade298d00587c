//! A single value, typed by its context: a zone map's column or a constant's expression.

use std::cmp::Ordering;

use crate::bytes::{FormatError, Reader, Write};

/// A value. Its [`ColumnType`](crate::schema::ColumnType) is known from the context.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// Boolean.
    Bool(bool),
    /// Integer of any width; decimal, times 10^scale; date, in days; timestamp, in microseconds.
    Integer(i128),
    /// Floating-point number; single precision is exact in double.
    Float(f64),
    /// String.
    Text(String),
}

impl Value {
    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// DuckDB's order: NaN equals itself and is greater than all numbers, -0 equals 0, strings are ordered by bytes. Panics if a value is
    /// null or the types differ.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Integer(a), Self::Integer(b)) => a.cmp(b),
            (Self::Float(a), Self::Float(b)) => float_order(*a, *b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            _ => unreachable!("{self:?} and {other:?} are not comparable"),
        }
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Null => bytes.push(0),
            Self::Bool(value) => bytes.extend([1, u8::from(*value)]),
            Self::Integer(value) => {
                bytes.push(2);
                bytes.signed(*value);
            }
            Self::Float(value) => {
                bytes.push(3);
                bytes.extend(value.to_bits().to_le_bytes());
            }
            Self::Text(value) => {
                bytes.push(4);
                bytes.text(value);
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, text_max: usize) -> Result<Self, FormatError> {
        Ok(match reader.u8()? {
            0 => Self::Null,
            1 => Self::Bool(reader.flag()?),
            2 => Self::Integer(reader.signed()?),
            3 => Self::Float(reader.f64()?),
            4 => Self::Text(reader.text("bytes of text", text_max)?.to_owned()),
            other => return Err(reader.error(format!("unknown kind {other} of value"))),
        })
    }
}

/// DuckDB's order of floating-point numbers: see [`Value::order`].
pub fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
