//! Zone maps: bounds of a chunk's values, known without reading the chunk.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};

use crate::bytes::{FormatError, Reader};
use crate::schema::ColumnType;
use crate::value::Value;

/// Upper limit of a string's minimum and maximum in bytes. Longer ones are truncated, the maximum rounded up.
pub const TEXT_BYTES_MAX: usize = 32;

/// Bounds of a chunk's values.
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneMap {
    /// Lower bound, inclusive; `None` if all values are null or NaN.
    pub min: Option<Value>,
    /// Upper bound of the values other than NaN, inclusive; `None` likewise, or if no short string is greater.
    pub max: Option<Value>,
    /// Number of nulls.
    pub nulls: u32,
    /// Whether there is a NaN, which is greater than `max`.
    pub nan: bool,
    /// Number of rows.
    pub rows: u32,
}

impl ZoneMap {
    /// The zone map of a column's values.
    pub fn of(array: &ArrayRef, column_type: ColumnType) -> Self {
        let mut zone = Self {
            min: None,
            max: None,
            nulls: array.null_count() as u32,
            nan: false,
            rows: array.len() as u32,
        };
        macro_rules! integers {
            ($type:ty) => {{
                let array = array.as_primitive::<$type>();
                let mut bounds = None;
                for value in array.iter().flatten() {
                    let (low, high) = bounds.get_or_insert((value, value));
                    (*low, *high) = ((*low).min(value), (*high).max(value));
                }
                bounds.map(|(low, high)| (Value::Integer(low as i128), Value::Integer(high as i128)))
            }};
        }
        macro_rules! floats {
            ($type:ty) => {{
                let mut bounds = None;
                for value in array.as_primitive::<$type>().iter().flatten() {
                    if value.is_nan() {
                        zone.nan = true;
                        continue;
                    }
                    let (low, high) = bounds.get_or_insert((value, value));
                    (*low, *high) = ((*low).min(value), (*high).max(value));
                }
                bounds.map(|(low, high)| (Value::Float(low as f64), Value::Float(high as f64)))
            }};
        }
        let bounds = match column_type {
            ColumnType::Bool => {
                let array = array.as_boolean();
                let trues = array.true_count();
                let values = array.len() - array.null_count();
                (values > 0).then_some((Value::Bool(trues == values), Value::Bool(trues > 0)))
            }
            ColumnType::Int8 => integers!(Int8Type),
            ColumnType::Int16 => integers!(Int16Type),
            ColumnType::Int32 => integers!(Int32Type),
            ColumnType::Int64 => integers!(Int64Type),
            ColumnType::UInt8 => integers!(UInt8Type),
            ColumnType::UInt16 => integers!(UInt16Type),
            ColumnType::UInt32 => integers!(UInt32Type),
            ColumnType::UInt64 => integers!(UInt64Type),
            ColumnType::HugeInt | ColumnType::Decimal { .. } => integers!(Decimal128Type),
            ColumnType::Date => integers!(Date32Type),
            ColumnType::Timestamp => integers!(TimestampMicrosecondType),
            ColumnType::Float32 => floats!(Float32Type),
            ColumnType::Float64 => floats!(Float64Type),
            ColumnType::Utf8 => {
                let mut bounds: Option<(&str, &str)> = None;
                for value in array.as_string::<i32>().iter().flatten() {
                    let (low, high) = bounds.get_or_insert((value, value));
                    (*low, *high) = ((*low).min(value), (*high).max(value));
                }
                if let Some((low, high)) = bounds {
                    zone.min = Some(Value::Text(cut(low).to_owned()));
                    zone.max = round_up(high).map(Value::Text);
                }
                None
            }
        };
        if let Some((low, high)) = bounds {
            (zone.min, zone.max) = (Some(low), Some(high));
        }
        zone
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend(self.nulls.to_le_bytes());
        bytes.push(u8::from(self.nan));
        for bound in [&self.min, &self.max] {
            bound.as_ref().unwrap_or(&Value::Null).write(bytes);
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, column_type: ColumnType) -> Result<Self, FormatError> {
        let (rows, nulls, nan) = (reader.u32()?, reader.u32()?, reader.flag()?);
        let mut bound = || {
            let value = Value::read(reader, TEXT_BYTES_MAX)?;
            let fits = match (&value, column_type) {
                (Value::Null, _)
                | (Value::Bool(_), ColumnType::Bool)
                | (Value::Text(_), ColumnType::Utf8)
                | (Value::Float(_), ColumnType::Float32 | ColumnType::Float64) => true,
                (Value::Integer(_), other) => !matches!(
                    other,
                    ColumnType::Bool | ColumnType::Utf8 | ColumnType::Float32 | ColumnType::Float64
                ),
                _ => false,
            };
            match fits {
                true => Ok(Some(value).filter(|value| !value.is_null())),
                false => Err(reader.error(format!("bound {value:?} is not a {column_type}"))),
            }
        };
        let (min, max) = (bound()?, bound()?);
        if nan && !matches!(column_type, ColumnType::Float32 | ColumnType::Float64) {
            return Err(reader.error(format!("a {column_type} is NaN")));
        }
        if nulls > rows {
            return Err(reader.error(format!("{nulls} nulls in {rows} rows")));
        }
        if let (Some(low), Some(high)) = (&min, &max)
            && low.order(high).is_gt()
        {
            return Err(reader.error(format!("the minimum {low:?} is greater than the maximum {high:?}")));
        }
        Ok(Self { min, max, nulls, nan, rows })
    }
}

/// The longest prefix of a string that fits into [`TEXT_BYTES_MAX`] bytes.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A string that fits and is not less: a prefix with its last character incremented; `None` if there is none.
fn round_up(text: &str) -> Option<String> {
    let start = cut(text);
    if start.len() == text.len() {
        return Some(start.to_owned());
    }
    let mut chars: Vec<char> = start.chars().collect();
    while let Some(last) = chars.pop() {
        // The successor skips the surrogates, and may need one byte more.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            let mut raised: String = chars.iter().collect();
            raised.push(next);
            if raised.len() <= TEXT_BYTES_MAX {
                return Some(raised);
            }
        }
    }
    None
}
