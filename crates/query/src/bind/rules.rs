//! Type rules: result types, and the types to which operands are cast. They match `typeof` of DuckDB 2.0.

use crate::error::{QueryError, refuse};
use crate::schema::{ColumnType, PRECISION_MAX};
use crate::statement::Arithmetic;

use ColumnType::*;

/// Largest precision of a decimal in 64 bits. Products of such decimals stay in 64 bits and can overflow there.
const PRECISION_INT64: u8 = 18;

/// The type of an integer constant without context.
pub(super) fn integer_literal(value: i128) -> ColumnType {
    match value {
        -0x7fff_ffff..=0x7fff_ffff => Int32,
        _ if i64::try_from(value).is_ok() => Int64,
        _ => HugeInt,
    }
}

pub(super) fn is_numeric(column_type: ColumnType) -> bool {
    column_type.integer_bits().is_some() || matches!(column_type, Float32 | Float64 | Decimal { .. })
}

/// Precision and scale of the decimal that holds all values of an integer type.
fn as_decimal(column_type: ColumnType) -> Option<(u8, u8)> {
    Some(match column_type {
        Decimal { precision, scale } => (precision, scale),
        Int8 | UInt8 => (3, 0),
        Int16 | UInt16 => (5, 0),
        Int32 | UInt32 => (10, 0),
        Int64 => (19, 0),
        UInt64 => (20, 0),
        HugeInt => (38, 0),
        _ => return None,
    })
}

/// The wider of two integer types, if one holds all values of the other.
fn wider(a: ColumnType, b: ColumnType) -> Option<ColumnType> {
    let ((a_bits, a_signed), (b_bits, b_signed)) = (a.integer_bits()?, b.integer_bits()?);
    match (a_signed, b_signed) {
        (true, true) | (false, false) => Some(if a_bits >= b_bits { a } else { b }),
        (true, false) => (a_bits > b_bits).then_some(a),
        (false, true) => (b_bits > a_bits).then_some(b),
    }
}

/// The type in which values of two types are compared or combined; `None` if there is none.
pub(super) fn common(a: ColumnType, b: ColumnType) -> Result<Option<ColumnType>, QueryError> {
    if a == b {
        return Ok(Some(a));
    }
    if let (Some((a_bits, a_signed)), Some((b_bits, b_signed))) = (a.integer_bits(), b.integer_bits()) {
        let unsigned = if a_signed { b_bits } else { a_bits };
        debug_assert!(wider(a, b).is_some() || a_signed != b_signed);
        return Ok(Some(wider(a, b).unwrap_or(match unsigned {
            8 => Int16,
            16 => Int32,
            32 => Int64,
            _ => HugeInt,
        })));
    }
    Ok(match (a, b) {
        (Date, Timestamp) | (Timestamp, Date) => Some(Timestamp),
        (Float64, other) | (other, Float64) if is_numeric(other) => Some(Float64),
        (Float32, other) | (other, Float32) if is_numeric(other) => Some(Float32),
        _ => match (as_decimal(a), as_decimal(b)) {
            (Some((a_precision, a_scale)), Some((b_precision, b_scale))) => {
                let scale = a_scale.max(b_scale);
                let precision = (a_precision - a_scale).max(b_precision - b_scale) + scale;
                if precision > PRECISION_MAX {
                    return Err(refuse(
                        format!("{a} with {b}"),
                        "no decimal of at most 38 digits holds both",
                    ));
                }
                Some(Decimal { precision, scale })
            }
            _ => None,
        },
    })
}

/// Types of an arithmetic operation: those to which the operands are cast, and that of the result.
pub(super) struct Types {
    pub left: ColumnType,
    pub right: ColumnType,
    pub result: ColumnType,
}

impl Types {
    fn all(column_type: ColumnType) -> Self {
        Self { left: column_type, right: column_type, result: column_type }
    }
}

pub(super) fn arithmetic(operation: Arithmetic, a: ColumnType, b: ColumnType) -> Result<Types, QueryError> {
    if !is_numeric(a) || !is_numeric(b) {
        return Err(QueryError::Type {
            construct: operation.symbol().to_owned(),
            found: format!("{a} and {b}"),
            why: "operands must be two numbers, or a constant date or timestamp and an interval".to_owned(),
        });
    }
    let integers = a.integer_bits().is_some() && b.integer_bits().is_some();
    match operation {
        Arithmetic::Divide => {
            let single = (a == Float32 || b == Float32) && a != Float64 && b != Float64;
            return Ok(Types::all(if single { Float32 } else { Float64 }));
        }
        Arithmetic::DivideWhole if !integers => {
            return Err(refuse(format!("// of {a} and {b}"), "operands must be integers"));
        }
        _ => {}
    }
    if integers {
        // DuckDB has overloads for equal types only. Without a lossless cast the next overload for both is BIGINT or HUGEINT.
        let neither = if a == UInt64 || b == UInt64 { HugeInt } else { Int64 };
        return Ok(Types::all(wider(a, b).unwrap_or(neither)));
    }
    if a == Float64 || b == Float64 {
        return Ok(Types::all(Float64));
    }
    if a == Float32 || b == Float32 {
        return Ok(Types::all(Float32));
    }
    let (Some((a_precision, a_scale)), Some((b_precision, b_scale))) = (as_decimal(a), as_decimal(b)) else {
        unreachable!("a number is an integer, a decimal or a floating-point value");
    };
    let refused = |why: &str| Err(refuse(format!("{a} {} {b}", operation.symbol()), why));
    match operation {
        Arithmetic::Add | Arithmetic::Subtract => {
            let scale = a_scale.max(b_scale);
            let precision = (a_precision - a_scale).max(b_precision - b_scale) + scale + 1;
            Ok(Types::all(Decimal { precision: precision.min(PRECISION_MAX), scale }))
        }
        Arithmetic::Multiply => {
            let scale = a_scale + b_scale;
            if scale > PRECISION_MAX {
                return refused("the product has a scale above 38");
            }
            let wide = a_precision.max(b_precision) > PRECISION_INT64;
            let precision = match a_precision + b_precision {
                sum if sum > PRECISION_INT64 && !wide && scale < PRECISION_INT64 => PRECISION_INT64,
                sum => sum.min(PRECISION_MAX),
            };
            let side = |precision, scale| Decimal { precision, scale };
            Ok(Types {
                left: side(a_precision, a_scale),
                right: side(b_precision, b_scale),
                result: side(precision, scale),
            })
        }
        Arithmetic::Remainder if a != HugeInt && b != HugeInt => match common(a, b)? {
            Some(both) => Ok(Types::all(both)),
            None => refused("no decimal of at most 38 digits holds both"),
        },
        _ => refused("not supported for these decimals"),
    }
}

/// Whether an explicit cast is supported: DuckDB's implicit casts, and casts between integers and decimals.
pub(super) fn can_cast(from: ColumnType, to: ColumnType) -> bool {
    let exact = |column_type| as_decimal(column_type).is_some();
    match (from, to) {
        _ if from == to => true,
        (Date, Timestamp) | (Timestamp, Date) | (Float32, Float64) => true,
        (_, Float32 | Float64) => exact(from),
        _ => exact(from) && exact(to),
    }
}
