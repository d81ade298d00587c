//! Casts, both implicit (from the type rules) and explicit.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, PrimitiveArray};

use crate::calendar::MICROS_PER_DAY;
use crate::error::QueryError;
use crate::schema::ColumnType;
use crate::value::Value;
use crate::values::{Native, with_primitive};

/// Casts an array.
pub fn cast(array: &ArrayRef, from: ColumnType, to: ColumnType) -> Result<ArrayRef, QueryError> {
    let overflow = || QueryError::Overflow { operation: "cast", column_type: to };
    match to {
        ColumnType::Float32 => Ok(to_float::<Float32Type>(array, from, |value, scale| {
            decimal_to_float(value, scale, (1 << 24, 10), |value| value as f32)
        })),
        ColumnType::Float64 => Ok(to_float::<Float64Type>(array, from, |value, scale| {
            decimal_to_float(value, scale, (1 << 53, 22), |value| value as f64)
        })),
        ColumnType::Decimal { .. } if is_only_wider(from, to) => {
            Ok(Arc::new(array.as_primitive::<Decimal128Type>().clone().with_data_type(to.to_arrow())))
        }
        _ => {
            // The other types are integers times a power of ten, days or microseconds.
            let scaled = |value: i128| match (from, to) {
                (ColumnType::Date, ColumnType::Timestamp) => Some(value * i128::from(MICROS_PER_DAY)),
                (ColumnType::Timestamp, ColumnType::Date) => {
                    Some(value.div_euclid(i128::from(MICROS_PER_DAY)))
                }
                _ => match (scale(from), scale(to)) {
                    (a, b) if b >= a => value.checked_mul(10i128.pow(u32::from(b - a))),
                    // Rounds half away from zero.
                    (a, b) => {
                        let power = 10i128.pow(u32::from(a - b));
                        let half = power / 2 * value.signum();
                        Some((value.checked_add(half)?) / power)
                    }
                },
            };
            let (low, high) = range(to);
            integers(
                array,
                from,
                to,
                |value| scaled(value).filter(|value| (low..=high).contains(value)),
                overflow,
            )
        }
    }
}

/// Whether a decimal only gains digits before the point, so that its stored values stay the same.
fn is_only_wider(from: ColumnType, to: ColumnType) -> bool {
    let digits = |column_type| match column_type {
        ColumnType::Decimal { precision, scale } => Some((precision, scale)),
        _ => None,
    };
    matches!((digits(from), digits(to)), (Some(from), Some(to)) if from.0 <= to.0 && from.1 == to.1)
}

fn scale(column_type: ColumnType) -> u8 {
    match column_type {
        ColumnType::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

fn range(column_type: ColumnType) -> (i128, i128) {
    match column_type {
        ColumnType::Decimal { precision, .. } => {
            let most = 10i128.pow(u32::from(precision)) - 1;
            (-most, most)
        }
        ColumnType::Date => (i32::MIN.into(), i32::MAX.into()),
        ColumnType::Timestamp => (i64::MIN.into(), i64::MAX.into()),
        other => other.integer_range().unwrap_or_else(|| unreachable!("no cast to {other} exists")),
    }
}

/// The values of an integer array of any width.
fn wide(array: &ArrayRef, from: ColumnType) -> Vec<i128> {
    with_primitive!(from, T => {
        let widen = |value: &<T as arrow_array::ArrowPrimitiveType>::Native| match value.to_value() {
            Value::Integer(value) => value,
            _ => 0,
        };
        array.as_primitive::<T>().values().iter().map(widen).collect()
    }, else unreachable!("{from} is not an integer type"))
}

fn integers(
    array: &ArrayRef,
    from: ColumnType,
    to: ColumnType,
    value: impl Fn(i128) -> Option<i128>,
    overflow: impl Fn() -> QueryError,
) -> Result<ArrayRef, QueryError> {
    let wide = wide(array, from);
    with_primitive!(to, T => {
        type Of = <T as arrow_array::ArrowPrimitiveType>::Native;
        let mut values: Vec<Of> = Vec::with_capacity(wide.len());
        for (row, from) in wide.into_iter().enumerate() {
            values.push(match value(from) {
                Some(value) => Of::from_value(&Value::Integer(value)),
                None if array.is_null(row) => Of::default(),
                None => return Err(overflow()),
            });
        }
        let array = PrimitiveArray::<T>::new(values.into(), array.nulls().cloned());
        Ok(Arc::new(array.with_data_type(to.to_arrow())) as ArrayRef)
    }, else unreachable!("no cast to {to} exists"))
}

fn to_float<T: arrow_array::ArrowPrimitiveType<Native: Native>>(
    array: &ArrayRef,
    from: ColumnType,
    decimal: impl Fn(i128, u8) -> T::Native,
) -> ArrayRef {
    let values: Vec<T::Native> = match from {
        ColumnType::Float32 => {
            let widen = |value: &f32| T::Native::from_value(&Value::Float(f64::from(*value)));
            array.as_primitive::<Float32Type>().values().iter().map(widen).collect()
        }
        ColumnType::Float64 => {
            let narrow = |value: &f64| T::Native::from_value(&Value::Float(*value));
            array.as_primitive::<Float64Type>().values().iter().map(narrow).collect()
        }
        _ => wide(array, from).into_iter().map(|value| decimal(value, scale(from))).collect(),
    };
    Arc::new(PrimitiveArray::<T>::new(values.into(), array.nulls().cloned()))
}

/// The float next to a decimal, as in DuckDB: one division where digits and power of ten are exact in the type (powers up to `power_max`), and
/// else by its text, which is rounded once.
fn decimal_to_float<F: std::ops::Div<Output = F> + std::str::FromStr>(
    value: i128,
    scale: u8,
    (exact, power_max): (i128, u8),
    float: impl Fn(i128) -> F,
) -> F {
    if scale == 0 {
        return float(value);
    }
    if scale <= power_max && (-exact..=exact).contains(&value) {
        return float(value) / float(10i128.pow(u32::from(scale)));
    }
    // An integer with an exponent is a number to every parser.
    format!("{value}e-{scale}").parse().unwrap_or_else(|_| float(0))
}
