//! Conversion between arrays and single values.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray};

use crate::schema::ColumnType;
use crate::value::Value;

/// Runs an expression with `$Arrow` as the Arrow type of a fixed-size column type other than boolean.
macro_rules! with_primitive {
    ($column_type:expr, $Arrow:ident => $body:expr, else $other:expr) => {{
        use arrow_array::types::*;
        use $crate::schema::ColumnType;
        macro_rules! run {
            ($type:ty) => {{
                type $Arrow = $type;
                $body
            }};
        }
        match $column_type {
            ColumnType::Int8 => run!(Int8Type),
            ColumnType::Int16 => run!(Int16Type),
            ColumnType::Int32 => run!(Int32Type),
            ColumnType::Int64 => run!(Int64Type),
            ColumnType::UInt8 => run!(UInt8Type),
            ColumnType::UInt16 => run!(UInt16Type),
            ColumnType::UInt32 => run!(UInt32Type),
            ColumnType::UInt64 => run!(UInt64Type),
            ColumnType::HugeInt | ColumnType::Decimal { .. } => run!(Decimal128Type),
            ColumnType::Float32 => run!(Float32Type),
            ColumnType::Float64 => run!(Float64Type),
            ColumnType::Date => run!(Date32Type),
            ColumnType::Timestamp => run!(TimestampMicrosecondType),
            ColumnType::Bool | ColumnType::Utf8 => $other,
        }
    }};
}
pub(crate) use with_primitive;

/// Conversion between a native value and a [`Value`].
pub(crate) trait Native: Copy + Default + PartialEq {
    fn to_value(self) -> Value;
    /// Zero if the value is null. The type rules exclude values that do not fit.
    fn from_value(value: &Value) -> Self;
    /// Order, as [`Value::order`].
    fn order(self, other: Self) -> std::cmp::Ordering;
}

macro_rules! native {
    ($($type:ty),*) => {$(
        impl Native for $type {
            fn to_value(self) -> Value {
                Value::Integer(self as i128)
            }

            fn from_value(value: &Value) -> Self {
                match value {
                    Value::Integer(value) => *value as $type,
                    _ => 0,
                }
            }

            fn order(self, other: Self) -> std::cmp::Ordering {
                self.cmp(&other)
            }
        }
    )*};
}
native!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! native_float {
    ($($type:ty),*) => {$(
        impl Native for $type {
            fn to_value(self) -> Value {
                Value::Float(self as f64)
            }

            fn from_value(value: &Value) -> Self {
                match value {
                    Value::Float(value) => *value as $type,
                    _ => 0.0,
                }
            }

            fn order(self, other: Self) -> std::cmp::Ordering {
                self.partial_cmp(&other).unwrap_or_else(|| self.is_nan().cmp(&other.is_nan()))
            }
        }
    )*};
}
native_float!(f32, f64);

/// The value of a row. Panics if the array is not of this type, or has no such row.
pub fn at(array: &ArrayRef, column_type: ColumnType, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    with_primitive!(column_type, T => array.as_primitive::<T>().value(row).to_value(), else match column_type {
        ColumnType::Bool => Value::Bool(array.as_boolean().value(row)),
        _ => Value::Text(array.as_string::<i32>().value(row).to_owned()),
    })
}

/// An array of values, which must be null or of this type.
pub fn array<'a>(
    values: impl ExactSizeIterator<Item = &'a Value> + Clone,
    column_type: ColumnType,
) -> ArrayRef {
    with_primitive!(column_type, T => {
        let native = |value: &Value| match value {
            Value::Null => None,
            value => Some(<T as arrow_array::ArrowPrimitiveType>::Native::from_value(value)),
        };
        let array: PrimitiveArray<T> = values.map(native).collect();
        Arc::new(array.with_data_type(column_type.to_arrow())) as ArrayRef
    }, else match column_type {
        ColumnType::Bool => {
            let bool = |value: &Value| match value {
                Value::Bool(value) => Some(*value),
                _ => None,
            };
            Arc::new(values.map(bool).collect::<BooleanArray>())
        }
        _ => {
            let bytes = values.clone().map(|value| match value {
                Value::Text(text) => text.len(),
                _ => 0,
            });
            let mut builder = StringBuilder::with_capacity(values.len(), bytes.sum());
            for value in values {
                match value {
                    Value::Text(text) => builder.append_value(text),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    })
}

/// An array with one value repeated `rows` times.
pub fn repeat(value: &Value, column_type: ColumnType, rows: usize) -> ArrayRef {
    with_primitive!(column_type, T => {
        let array = match value {
            Value::Null => PrimitiveArray::<T>::new_null(rows),
            value => {
                let native = <T as arrow_array::ArrowPrimitiveType>::Native::from_value(value);
                PrimitiveArray::<T>::from_value(native, rows)
            }
        };
        Arc::new(array.with_data_type(column_type.to_arrow())) as ArrayRef
    }, else array(std::iter::repeat_n(value, rows), column_type))
}
