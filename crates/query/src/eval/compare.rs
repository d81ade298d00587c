//! Comparisons that produce bitmaps, 64 rows per word.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::vector::Vector;
use crate::schema::ColumnType;
use crate::statement::Comparison;
use crate::value::Value;
use crate::values::{Native, with_primitive};
use crate::work::{Operator, Work};

/// A bit for each value: whether `holds`.
fn bits<T: Copy>(values: &[T], holds: impl Fn(T) -> bool) -> BooleanBuffer {
    let mut words: Vec<u64> = Vec::with_capacity(values.len().div_ceil(64));
    let (blocks, rest) = values.as_chunks::<64>();
    // Fixed loop length, so that the compiler emits vector instructions.
    let word = |block: &[T]| {
        block.iter().enumerate().fold(0u64, |word, (bit, &value)| word | u64::from(holds(value)) << bit)
    };
    words.extend(blocks.iter().map(|block| word(block)));
    if !rest.is_empty() {
        words.push(word(rest));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, values.len())
}

fn bits_of_two<T: Copy>(a: &[T], b: &[T], holds: impl Fn(T, T) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(a.len().min(b.len()), |row| holds(a[row], b[row]))
}

/// Selects the comparison once instead of for each row. `less` implements DuckDB's order.
macro_rules! by_comparison {
    ($comparison:expr, $run:ident, $less:expr, $equal:expr) => {{
        let (less, equal) = ($less, $equal);
        match $comparison {
            Comparison::Eq => $run!(|a, b| equal(a, b)),
            Comparison::Ne => $run!(|a, b| !equal(a, b)),
            Comparison::Lt => $run!(|a, b| less(a, b)),
            Comparison::Le => $run!(|a, b| !less(b, a)),
            Comparison::Gt => $run!(|a, b| less(b, a)),
            Comparison::Ge => $run!(|a, b| !less(a, b)),
        }
    }};
}

/// Compares two vectors of one type. Null where an operand is null.
pub fn compare(
    comparison: Comparison,
    column_type: ColumnType,
    left: Vector,
    right: Vector,
    rows: usize,
    work: &mut Work,
) -> BooleanArray {
    let text = column_type == ColumnType::Utf8;
    work.add_rows(if text { Operator::CompareText } else { Operator::Compare }, rows);
    match (left, right) {
        (Vector::Constant(Value::Null), _) | (_, Vector::Constant(Value::Null)) => {
            BooleanArray::new_null(rows)
        }
        (Vector::Array(array), Vector::Constant(value)) => {
            with_constant(comparison, column_type, &array, &value, work)
        }
        (Vector::Constant(value), Vector::Array(array)) => {
            with_constant(comparison.flipped(), column_type, &array, &value, work)
        }
        (Vector::Constant(left), Vector::Constant(right)) => {
            let holds = comparison.holds(left.order(&right));
            BooleanArray::new(
                if holds { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) },
                None,
            )
        }
        (Vector::Array(left), Vector::Array(right)) => {
            let values = two(comparison, column_type, &left, &right, work);
            BooleanArray::new(values, NullBuffer::union(left.nulls(), right.nulls()))
        }
    }
}

fn with_constant(
    comparison: Comparison,
    column_type: ColumnType,
    array: &ArrayRef,
    constant: &Value,
    work: &mut Work,
) -> BooleanArray {
    let values = with_primitive!(column_type, T => {
        let constant = <<T as arrow_array::ArrowPrimitiveType>::Native>::from_value(constant);
        let values: &[_] = array.as_primitive::<T>().values();
        one(comparison, values, constant)
    }, else match constant {
        Value::Bool(constant) => boolean(comparison, array.as_boolean().values(), &match constant {
            true => BooleanBuffer::new_set(array.len()),
            false => BooleanBuffer::new_unset(array.len()),
        }),
        Value::Text(constant) => {
            let texts = array.as_string::<i32>();
            work.text_bytes += text_bytes(texts);
            let constant = constant.as_bytes();
            BooleanBuffer::collect_bool(texts.len(), |row| {
                comparison.holds(texts.value(row).as_bytes().cmp(constant))
            })
        }
        other => unreachable!("{other:?} is not a {column_type}"),
    });
    BooleanArray::new(values, array.nulls().cloned())
}

/// Compares numbers with one constant.
fn one<T: Native + Ordered>(comparison: Comparison, values: &[T], constant: T) -> BooleanBuffer {
    if constant.is_nan() {
        // NaN is greater than all numbers and equals itself.
        return bits(values, |value| comparison.holds(value.order(constant)));
    }
    macro_rules! run {
        (|$a:ident, $b:ident| $holds:expr) => {
            bits(values, |$a| {
                let $b = constant;
                $holds
            })
        };
    }
    // With a constant that is a number, `!less` is also correct for NaN.
    by_comparison!(comparison, run, T::less_than_number, |a: T, b: T| a == b)
}

/// Order of numbers of which at most one is NaN, in one instruction.
trait Ordered: Copy {
    fn is_nan(self) -> bool;
    /// Whether a is less than b; at most one of the two is NaN.
    fn less_than_number(a: Self, b: Self) -> bool;
}

macro_rules! ordered {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            fn is_nan(self) -> bool {
                false
            }

            fn less_than_number(a: Self, b: Self) -> bool {
                a < b
            }
        }
    )*};
}
ordered!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

macro_rules! ordered_float {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }

            fn less_than_number(a: Self, b: Self) -> bool {
                // `a < NaN` must be true, `NaN < b` false.
                a < b || b.is_nan() && !a.is_nan()
            }
        }
    )*};
}
ordered_float!(f32, f64);

fn two(
    comparison: Comparison,
    column_type: ColumnType,
    left: &ArrayRef,
    right: &ArrayRef,
    work: &mut Work,
) -> BooleanBuffer {
    with_primitive!(column_type, T => {
        let (left, right): (&[_], &[_]) = (left.as_primitive::<T>().values(), right.as_primitive::<T>().values());
        macro_rules! run {
            (|$a:ident, $b:ident| $holds:expr) => {
                bits_of_two(left, right, |$a, $b| $holds)
            };
        }
        by_comparison!(comparison, run, |a, b| Native::order(a, b).is_lt(), |a, b| Native::order(a, b).is_eq())
    }, else match column_type {
        ColumnType::Bool => boolean(comparison, left.as_boolean().values(), right.as_boolean().values()),
        _ => {
            let (left, right) = (left.as_string::<i32>(), right.as_string::<i32>());
            work.text_bytes += text_bytes(left) + text_bytes(right);
            BooleanBuffer::collect_bool(left.len(), |row| {
                comparison.holds(left.value(row).as_bytes().cmp(right.value(row).as_bytes()))
            })
        }
    })
}

/// Compares booleans; false is less than true.
fn boolean(comparison: Comparison, a: &BooleanBuffer, b: &BooleanBuffer) -> BooleanBuffer {
    match comparison {
        Comparison::Eq => !&(a ^ b),
        Comparison::Ne => a ^ b,
        Comparison::Lt => &!a & b,
        Comparison::Le => &!a | b,
        Comparison::Gt => a & &!b,
        Comparison::Ge => a | &!b,
    }
}

/// Total length of an array's strings in bytes.
pub fn text_bytes(texts: &StringArray) -> u64 {
    let offsets = texts.value_offsets();
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => (last - first) as u64,
        _ => 0,
    }
}

/// Whether each value is in a sorted list.
pub fn in_list(
    column_type: ColumnType,
    array: &ArrayRef,
    list: &[Value],
    with_null: bool,
    work: &mut Work,
) -> BooleanArray {
    let found = with_primitive!(column_type, T => {
        type Of = <T as arrow_array::ArrowPrimitiveType>::Native;
        let list: Vec<Of> = list.iter().map(Of::from_value).collect();
        let values: &[Of] = array.as_primitive::<T>().values();
        bits(values, |value| list.binary_search_by(|item| Native::order(*item, value)).is_ok())
    }, else match column_type {
        ColumnType::Bool => {
            let values = array.as_boolean().values();
            let has = |wanted| list.contains(&Value::Bool(wanted));
            BooleanBuffer::collect_bool(values.len(), |row| has(values.value(row)))
        }
        _ => {
            let texts = array.as_string::<i32>();
            work.text_bytes += text_bytes(texts);
            let order = |item: &Value, text: &str| match item {
                Value::Text(item) => item.as_bytes().cmp(text.as_bytes()),
                _ => Ordering::Less,
            };
            BooleanBuffer::collect_bool(texts.len(), |row| {
                let text = texts.value(row);
                list.binary_search_by(|item| order(item, text)).is_ok()
            })
        }
    });
    let valid = match (array.nulls(), with_null) {
        (valid, false) => valid.cloned(),
        // A value that is not in a list with a null might equal that null: the result is null.
        (None, true) => Some(NullBuffer::new(found.clone())),
        (Some(valid), true) => Some(NullBuffer::new(valid.inner() & &found)),
    };
    BooleanArray::new(found, valid)
}
