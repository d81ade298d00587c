//! Maps the rows of a batch to group numbers.
//!
//! Each key column numbers its values in order of first appearance. The numbers of several columns are then combined two at a time, from
//! left to right. A row therefore costs one look-up of at most 128 bits per column and one per combination, and no allocation: only new
//! values are copied.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_buffer::NullBuffer;
use rustc_hash::FxHashMap;

use super::numbers::Numbers;
use crate::schema::ColumnType;

/// Longest string, in bytes, whose look-up key is an integer: the bytes with the length above them.
const SHORT_BYTES: usize = 7;

/// The limit of the number of groups is exceeded.
#[derive(Debug)]
pub(super) struct TooManyGroups;

/// Group numbers by key.
#[derive(Debug)]
pub(super) struct Keys {
    columns: Vec<KeyColumn>,
    /// Combined numbers: of columns 0 and 1, of the result and column 2, and so on.
    pairs: Vec<Numbers<u64>>,
    /// Numbers of one column's values in the current batch, by row.
    scratch: Vec<u32>,
    most: usize,
}

impl Keys {
    /// Empty, for key columns of these types and at most `most` groups.
    pub fn new(types: impl Iterator<Item = ColumnType>, most: usize) -> Self {
        let columns: Vec<KeyColumn> = types.map(|column_type| KeyColumn::new(column_type, most)).collect();
        let pairs = columns.iter().skip(1).map(|_| Numbers::new(most)).collect();
        Self { columns, pairs, scratch: Vec::new(), most }
    }

    /// Number of groups so far.
    pub fn count(&self) -> usize {
        match self.pairs.last() {
            Some(pairs) => pairs.len(),
            None => self.columns.first().map_or(0, |column| column.count as usize),
        }
    }

    /// Memory in use, in bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(KeyColumn::memory_bytes).sum();
        columns + self.pairs.iter().map(Numbers::memory_bytes).sum::<usize>()
    }

    /// Sets `numbers` to the group of each row. New groups are numbered in row order, after the existing ones.
    ///
    /// # Errors
    /// More than `most` groups. This bounds every column and combination as well: none has more distinct values than there are groups.
    pub fn assign(&mut self, arrays: &[ArrayRef], numbers: &mut Vec<u32>) -> Result<(), TooManyGroups> {
        let Self { columns, pairs, scratch, most } = self;
        for (index, (column, array)) in columns.iter_mut().zip(arrays).enumerate() {
            let Some(pairs) = index.checked_sub(1).and_then(|pair| pairs.get_mut(pair)) else {
                column.assign(array, numbers)?;
                continue;
            };
            column.assign(array, scratch)?;
            for (number, &right) in numbers.iter_mut().zip(scratch.iter()) {
                *number = pairs.of(u64::from(*number) << 32 | u64::from(right));
            }
            if pairs.len() > *most {
                return Err(TooManyGroups);
            }
        }
        Ok(())
    }
}

/// Numbers of one column's values.
#[derive(Debug)]
struct KeyColumn {
    column_type: ColumnType,
    /// Values of at most 64 bits, and short strings.
    narrow: Numbers<u64>,
    /// Decimals: Arrow stores all of them in 128 bits.
    wide: Numbers<u128>,
    /// Longer strings. Never iterated.
    long: FxHashMap<Box<str>, u32>,
    long_bytes: usize,
    null: Option<u32>,
    count: u32,
    most: usize,
}

impl KeyColumn {
    fn new(column_type: ColumnType, most: usize) -> Self {
        Self {
            column_type,
            narrow: Numbers::new(most),
            wide: Numbers::new(most),
            long: FxHashMap::default(),
            long_bytes: 0,
            null: None,
            count: 0,
            most,
        }
    }

    fn memory_bytes(&self) -> usize {
        let long = self.long.capacity() * 32 + self.long_bytes;
        self.narrow.memory_bytes() + self.wide.memory_bytes() + long
    }

    /// Sets `numbers` to the number of each row's value.
    fn assign(&mut self, array: &ArrayRef, numbers: &mut Vec<u32>) -> Result<(), TooManyGroups> {
        numbers.clear();
        numbers.reserve(array.len());
        let (narrow, wide, count, most) = (&mut self.narrow, &mut self.wide, &mut self.count, self.most);
        // Assigns the number of a new value. Above the limit all values share one number, and none is stored.
        let next = |count: &mut u32| {
            *count = (*count + 1).min((most as u32).saturating_add(2));
            *count - 1
        };
        let mut null = |count: &mut u32| *self.null.get_or_insert_with(|| next(count));
        let valid = array.nulls();
        // Keys are injective: distinct values of a column have distinct keys.
        macro_rules! fixed {
            ($type:ty, $key:expr) => {{
                let keys = array.as_primitive::<$type>().values().iter().copied().map($key);
                each(valid, keys, numbers, count, &mut null, |key, count| narrow.of_or(key, || next(count)));
            }};
        }
        match self.column_type {
            ColumnType::Bool => {
                let keys = array.as_boolean().values().iter().map(u64::from);
                each(valid, keys, numbers, count, &mut null, |key, count| narrow.of_or(key, || next(count)));
            }
            ColumnType::Int8 => fixed!(Int8Type, |value| value as u64),
            ColumnType::Int16 => fixed!(Int16Type, |value| value as u64),
            ColumnType::Int32 => fixed!(Int32Type, |value| value as u64),
            ColumnType::Int64 => fixed!(Int64Type, |value| value as u64),
            ColumnType::UInt8 => fixed!(UInt8Type, u64::from),
            ColumnType::UInt16 => fixed!(UInt16Type, u64::from),
            ColumnType::UInt32 => fixed!(UInt32Type, u64::from),
            ColumnType::UInt64 => fixed!(UInt64Type, |value| value),
            ColumnType::Float32 => fixed!(Float32Type, |value| float_key(f64::from(value))),
            ColumnType::Float64 => fixed!(Float64Type, float_key),
            ColumnType::Date => fixed!(Date32Type, |value| value as u64),
            ColumnType::Timestamp => fixed!(TimestampMicrosecondType, |value| value as u64),
            ColumnType::HugeInt | ColumnType::Decimal { .. } => {
                let keys = array.as_primitive::<Decimal128Type>().values().iter().map(|&value| value as u128);
                each(valid, keys, numbers, count, &mut null, |key, count| wide.of_or(key, || next(count)));
            }
            ColumnType::Utf8 => {
                let texts = array.as_string::<i32>();
                let (long, long_bytes) = (&mut self.long, &mut self.long_bytes);
                let mut long = |row: usize, count: &mut u32| {
                    let text = texts.value(row);
                    long.get(text).copied().unwrap_or_else(|| {
                        let number = next(count);
                        if number as usize <= most {
                            long.insert(text.into(), number);
                            *long_bytes += text.len();
                        }
                        number
                    })
                };
                each(valid, 0..texts.len(), numbers, count, &mut null, |row, count| {
                    match short(texts, row) {
                        Some(key) => narrow.of_or(key, || next(count)),
                        None => long(row, count),
                    }
                });
            }
        }
        if self.count as usize > most { Err(TooManyGroups) } else { Ok(()) }
    }
}

/// Numbers the values of a batch, nulls included.
fn each<K>(
    valid: Option<&NullBuffer>,
    keys: impl Iterator<Item = K>,
    numbers: &mut Vec<u32>,
    count: &mut u32,
    null: &mut impl FnMut(&mut u32) -> u32,
    mut number: impl FnMut(K, &mut u32) -> u32,
) {
    match valid {
        None => numbers.extend(keys.map(|key| number(key, count))),
        Some(valid) => {
            let keys = keys.zip(valid.iter());
            numbers
                .extend(keys.map(|(key, is_valid)| if is_valid { number(key, count) } else { null(count) }));
        }
    }
}

/// Key of a floating-point value: -0 equals 0, and all NaNs are equal.
fn float_key(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// A short string's bytes and length as an integer. `None` if it is too long.
fn short(texts: &StringArray, row: usize) -> Option<u64> {
    let offsets = texts.value_offsets();
    let (begin, end) = (offsets[row] as usize, offsets[row + 1] as usize);
    let length = end - begin;
    if length > SHORT_BYTES {
        return None;
    }
    let bytes = texts.value_data();
    // Eight bytes are loaded at once; bytes of the next string are masked off.
    let word = match bytes.get(begin..begin + 8).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => u64::from_le_bytes(*bytes) & ((1 << (8 * length)) - 1),
        None => bytes[begin..end].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    Some(word | (length as u64) << 56)
}
