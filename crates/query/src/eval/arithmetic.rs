//! Arithmetic. Overflow is an error, as is division of integers and decimals by zero; a null operand gives null and cannot fail.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::NullBuffer;

use super::vector::Vector;
use crate::error::QueryError;
use crate::schema::ColumnType;
use crate::statement::Arithmetic;
use crate::value::Value;
use crate::work::Operator;

/// The kind of work that arithmetic on this type counts as.
pub fn operator(column_type: ColumnType) -> Operator {
    match column_type {
        ColumnType::HugeInt | ColumnType::Decimal { .. } => Operator::ArithmeticWide,
        _ => Operator::Arithmetic,
    }
}

/// Integers with checked arithmetic.
trait Whole: Copy + Default + PartialEq {
    fn apply(operation: Arithmetic, a: Self, b: Self) -> Option<Self>;
    fn negated(self) -> Option<Self>;
}

macro_rules! whole {
    ($($type:ty),*) => {$(
        impl Whole for $type {
            #[inline(always)]
            fn apply(operation: Arithmetic, a: Self, b: Self) -> Option<Self> {
                match operation {
                    Arithmetic::Add => a.checked_add(b),
                    Arithmetic::Subtract => a.checked_sub(b),
                    Arithmetic::Multiply => a.checked_mul(b),
                    Arithmetic::Divide | Arithmetic::DivideWhole => a.checked_div(b),
                    // The remainder of the minimum by -1 is 0, not an overflow.
                    Arithmetic::Remainder => (b != 0).then(|| a.wrapping_rem(b)),
                }
            }

            #[inline(always)]
            fn negated(self) -> Option<Self> {
                self.checked_neg()
            }
        }
    )*};
}
whole!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

fn name(operation: Arithmetic) -> &'static str {
    match operation {
        Arithmetic::Add => "addition",
        Arithmetic::Subtract => "subtraction",
        Arithmetic::Multiply => "multiplication",
        Arithmetic::Divide | Arithmetic::DivideWhole => "division",
        Arithmetic::Remainder => "remainder",
    }
}

/// Applies an operation to two vectors of `rows` rows, which have the operand types that the type rules require.
pub fn arithmetic(
    operation: Arithmetic,
    column_type: ColumnType,
    [left, right]: [Vector; 2],
    types: [ColumnType; 2],
    rows: usize,
) -> Result<ArrayRef, QueryError> {
    if let ColumnType::Decimal { precision, .. } = column_type
        && let Some(array) = decimals(operation, precision, [&left, &right])
    {
        return Ok(Arc::new(array.with_data_type(column_type.to_arrow())));
    }
    let (left, right) = (left.into_array(types[0], rows)?, right.into_array(types[1], rows)?);
    arrays(operation, column_type, &left, &right)
}

/// Decimals without overflow: a loop without an early exit, which vectorizes. `None` if a result overflows, or for other vectors and
/// operations.
fn decimals(
    operation: Arithmetic,
    precision: u8,
    sides: [&Vector; 2],
) -> Option<PrimitiveArray<Decimal128Type>> {
    let most = 10i128.pow(u32::from(precision)) - 1;
    macro_rules! run {
        ($pairs:expr, $nulls:expr) => {{
            let mut fit = true;
            let mut keep = |(value, overflows): (i128, bool)| {
                fit &= !overflows & (value <= most) & (value >= -most);
                value
            };
            let values: Vec<i128> = match operation {
                Arithmetic::Add => $pairs.map(|(a, b)| keep(a.overflowing_add(b))).collect(),
                Arithmetic::Subtract => $pairs.map(|(a, b)| keep(a.overflowing_sub(b))).collect(),
                Arithmetic::Multiply => $pairs.map(|(a, b)| keep(product(a, b))).collect(),
                _ => return None,
            };
            fit.then(|| PrimitiveArray::new(values.into(), $nulls))
        }};
    }
    match sides {
        [Vector::Array(left), Vector::Array(right)] => {
            let nulls = NullBuffer::union(left.nulls(), right.nulls());
            let (left, right) =
                (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
            run!(left.values().iter().copied().zip(right.values().iter().copied()), nulls)
        }
        [Vector::Array(left), Vector::Constant(Value::Integer(right))] => {
            let values = left.as_primitive::<Decimal128Type>().values();
            run!(values.iter().map(|left| (*left, *right)), left.nulls().cloned())
        }
        [Vector::Constant(Value::Integer(left)), Vector::Array(right)] => {
            let values = right.as_primitive::<Decimal128Type>().values();
            run!(values.iter().map(|right| (*left, *right)), right.nulls().cloned())
        }
        _ => None,
    }
}

/// A product, and whether it overflows. 64-bit operands, the usual case, take a single multiplication.
#[inline(always)]
fn product(a: i128, b: i128) -> (i128, bool) {
    let (low_a, low_b) = (a as i64, b as i64);
    match i128::from(low_a) == a && i128::from(low_b) == b {
        true => (i128::from(low_a) * i128::from(low_b), false),
        false => a.overflowing_mul(b),
    }
}

/// Applies an operation to two arrays of equal length.
fn arrays(
    operation: Arithmetic,
    column_type: ColumnType,
    left: &ArrayRef,
    right: &ArrayRef,
) -> Result<ArrayRef, QueryError> {
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    macro_rules! floats {
        ($type:ty) => {{
            let (left, right) = (left.as_primitive::<$type>(), right.as_primitive::<$type>());
            let pairs = left.values().iter().zip(right.values());
            let values: Vec<_> = match operation {
                Arithmetic::Add => pairs.map(|(a, b)| a + b).collect(),
                Arithmetic::Subtract => pairs.map(|(a, b)| a - b).collect(),
                Arithmetic::Multiply => pairs.map(|(a, b)| a * b).collect(),
                Arithmetic::Divide | Arithmetic::DivideWhole => pairs.map(|(a, b)| a / b).collect(),
                Arithmetic::Remainder => pairs.map(|(a, b)| a % b).collect(),
            };
            Ok(Arc::new(PrimitiveArray::<$type>::new(values.into(), nulls)) as ArrayRef)
        }};
    }
    match column_type {
        ColumnType::Float32 => floats!(Float32Type),
        ColumnType::Float64 => floats!(Float64Type),
        ColumnType::Decimal { precision, .. } => {
            let most = 10i128.pow(u32::from(precision)) - 1;
            whole::<Decimal128Type>(operation, column_type, left, right, nulls, |value| {
                (-most..=most).contains(&value)
            })
        }
        _ => integers(operation, column_type, left, right, nulls),
    }
}

/// Integer arithmetic; the caller handles all other types.
fn integers(
    operation: Arithmetic,
    column_type: ColumnType,
    left: &ArrayRef,
    right: &ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, QueryError> {
    macro_rules! run {
        ($type:ty) => {
            whole::<$type>(operation, column_type, left, right, nulls, |_| true)
        };
    }
    match column_type {
        ColumnType::Int8 => run!(Int8Type),
        ColumnType::Int16 => run!(Int16Type),
        ColumnType::Int32 => run!(Int32Type),
        ColumnType::Int64 => run!(Int64Type),
        ColumnType::UInt8 => run!(UInt8Type),
        ColumnType::UInt16 => run!(UInt16Type),
        ColumnType::UInt32 => run!(UInt32Type),
        ColumnType::UInt64 => run!(UInt64Type),
        ColumnType::HugeInt => run!(Decimal128Type),
        other => unreachable!("{other} is not an integer type"),
    }
}

fn whole<T: ArrowPrimitiveType<Native: Whole>>(
    operation: Arithmetic,
    column_type: ColumnType,
    left: &ArrayRef,
    right: &ArrayRef,
    nulls: Option<NullBuffer>,
    fits: impl Fn(T::Native) -> bool,
) -> Result<ArrayRef, QueryError> {
    let (left, right) = (left.as_primitive::<T>(), right.as_primitive::<T>());
    let zero = T::Native::default();
    let mut values = Vec::with_capacity(left.len());
    for (row, (&a, &b)) in left.values().iter().zip(right.values()).enumerate() {
        let value = match T::Native::apply(operation, a, b) {
            Some(value) if fits(value) => value,
            // The value below a null is arbitrary and must not cause an error.
            _ if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => zero,
            _ => return Err(failure(operation, column_type, b == zero)),
        };
        values.push(value);
    }
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    Ok(Arc::new(array.with_data_type(column_type.to_arrow())))
}

#[cold]
fn failure(operation: Arithmetic, column_type: ColumnType, zero: bool) -> QueryError {
    match operation {
        Arithmetic::DivideWhole | Arithmetic::Remainder if zero => {
            QueryError::DivisionByZero(operation.symbol())
        }
        _ => QueryError::Overflow { operation: name(operation), column_type },
    }
}

/// Negates each number.
pub fn negate(column_type: ColumnType, array: &ArrayRef) -> Result<ArrayRef, QueryError> {
    macro_rules! run {
        ($type:ty) => {{
            let array = array.as_primitive::<$type>();
            let mut values = Vec::with_capacity(array.len());
            for (row, &value) in array.values().iter().enumerate() {
                values.push(match value.negated() {
                    Some(value) => value,
                    None if array.is_null(row) => value,
                    None => return Err(QueryError::Overflow { operation: "negation", column_type }),
                });
            }
            let array = PrimitiveArray::<$type>::new(values.into(), array.nulls().cloned());
            Ok(Arc::new(array.with_data_type(column_type.to_arrow())) as ArrayRef)
        }};
    }
    match column_type {
        ColumnType::Int8 => run!(Int8Type),
        ColumnType::Int16 => run!(Int16Type),
        ColumnType::Int32 => run!(Int32Type),
        ColumnType::Int64 => run!(Int64Type),
        ColumnType::UInt8 => run!(UInt8Type),
        ColumnType::UInt16 => run!(UInt16Type),
        ColumnType::UInt32 => run!(UInt32Type),
        ColumnType::UInt64 => run!(UInt64Type),
        ColumnType::HugeInt | ColumnType::Decimal { .. } => run!(Decimal128Type),
        ColumnType::Float32 => {
            Ok(Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| -value)))
        }
        ColumnType::Float64 => {
            Ok(Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| -value)))
        }
        other => unreachable!("{other} is not a numeric type"),
    }
}
