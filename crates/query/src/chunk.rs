//! Encoding of a column's values as bytes: an optional null bitmap, then the values in the smallest of three layouts.
//!
//! - Plain: values in row order. A boolean is 1 byte, a decimal 4, 8 or 16 by its precision. Strings are the end offset of each (32 bits),
//!   then all their bytes. A null is stored as zero or an empty string.
//! - Run-length: number of runs (32 bits), length of each (32 bits), then their values in plain.
//! - Dictionary: number of values (32 bits), index of each row's value (8 bits, 16 with more than 256 values), then the values in plain.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use rustc_hash::FxHashMap;

use crate::bytes::{FormatError, Reader};
use crate::error::QueryError;
use crate::schema::ColumnType;
use crate::work::Encoding;

/// Upper limit of a chunk's decoded strings in bytes. A dictionary can expand few bytes to many.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Upper limit of a dictionary's values.
const DICTIONARY_MAX: usize = 1 << 16;

/// Appends a column's values in the smallest encoding, and returns which one that is.
///
/// # Errors
/// The strings exceed [`TEXT_BYTES_MAX`] bytes.
pub fn encode(
    array: &ArrayRef,
    column_type: ColumnType,
    bytes: &mut Vec<u8>,
) -> Result<Encoding, QueryError> {
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        let start = bytes.len();
        bytes.resize(start + array.len().div_ceil(8), 0);
        for row in nulls.valid_indices() {
            bytes[start + row / 8] |= 1 << (row % 8);
        }
    }
    if column_type == ColumnType::Utf8 {
        let values: Vec<&str> = array.as_string::<i32>().iter().map(Option::unwrap_or_default).collect();
        let text: usize = values.iter().map(|value| value.len()).sum();
        if text > TEXT_BYTES_MAX {
            let (found, max) = (text as u64, TEXT_BYTES_MAX as u64);
            return Err(QueryError::Limit { what: "bytes of text in a column of a group", found, max });
        }
        return Ok(layout(&values, |value| 4 + value.len(), plain_text, bytes));
    }
    macro_rules! fixed {
        ($type:ty, $stored:ty) => {{
            let array = array.as_primitive::<$type>();
            let values: Vec<[u8; size_of::<$stored>()]> =
                (0..array.len())
                    .map(|row| {
                        if array.is_valid(row) { (array.value(row) as $stored).to_le_bytes() } else { [0; _] }
                    })
                    .collect();
            layout(
                &values,
                |_| size_of::<$stored>(),
                |values, bytes| bytes.extend(values.as_flattened()),
                bytes,
            )
        }};
    }
    Ok(match (column_type, column_type.stored_bytes()) {
        (ColumnType::Bool, _) => {
            let array = array.as_boolean();
            let values: Vec<u8> =
                (0..array.len()).map(|row| u8::from(array.is_valid(row) && array.value(row))).collect();
            layout(&values, |_| 1, |values, bytes| bytes.extend(values), bytes)
        }
        (ColumnType::Int8, _) => fixed!(Int8Type, i8),
        (ColumnType::Int16, _) => fixed!(Int16Type, i16),
        (ColumnType::Int32, _) => fixed!(Int32Type, i32),
        (ColumnType::Int64, _) => fixed!(Int64Type, i64),
        (ColumnType::UInt8, _) => fixed!(UInt8Type, u8),
        (ColumnType::UInt16, _) => fixed!(UInt16Type, u16),
        (ColumnType::UInt32, _) => fixed!(UInt32Type, u32),
        (ColumnType::UInt64, _) => fixed!(UInt64Type, u64),
        (ColumnType::Float32, _) => fixed!(Float32Type, f32),
        (ColumnType::Float64, _) => fixed!(Float64Type, f64),
        (ColumnType::Date, _) => fixed!(Date32Type, i32),
        (ColumnType::Timestamp, _) => fixed!(TimestampMicrosecondType, i64),
        (ColumnType::Decimal { precision, scale }, stored) => {
            let array = array.as_primitive::<Decimal128Type>();
            let most = 10u128.pow(u32::from(precision)) - 1;
            if let Some(value) = array.iter().flatten().find(|value| value.unsigned_abs() > most) {
                return Err(QueryError::Batch(format!(
                    "{value} does not fit into DECIMAL({precision},{scale})"
                )));
            }
            match stored {
                Some(4) => fixed!(Decimal128Type, i32),
                Some(8) => fixed!(Decimal128Type, i64),
                _ => fixed!(Decimal128Type, i128),
            }
        }
        (ColumnType::HugeInt, _) => fixed!(Decimal128Type, i128),
        (ColumnType::Utf8, _) => unreachable!("strings are encoded above"),
    })
}

/// Appends values in the encoding that takes the fewest bytes.
fn layout<T: Copy + Eq + std::hash::Hash>(
    values: &[T],
    size: impl Fn(T) -> usize,
    plain: impl Fn(&[T], &mut Vec<u8>),
    bytes: &mut Vec<u8>,
) -> Encoding {
    let plain_bytes: usize = values.iter().map(|&value| size(value)).sum();
    let (mut run_bytes, mut previous) = (4, None);
    for &value in values {
        if previous != Some(value) {
            run_bytes += 4 + size(value);
            previous = Some(value);
        }
    }
    // Never iterated: the dictionary's order is that of first appearance.
    let mut found: FxHashMap<T, u32> = FxHashMap::default();
    let mut dictionary = Vec::new();
    let mut indexes: Vec<u16> = Vec::with_capacity(values.len());
    let mut dictionary_bytes = 4;
    let limit = plain_bytes.min(run_bytes);
    let worth = values.iter().all(|&value| {
        let next = dictionary.len() as u32;
        let index = *found.entry(value).or_insert(next);
        if index == next {
            dictionary.push(value);
            dictionary_bytes += size(value);
        }
        indexes.push(index as u16);
        // Stops early if most values are distinct.
        dictionary.len() <= DICTIONARY_MAX && dictionary_bytes + indexes.len() < limit
    });
    let width = if dictionary.len() > 256 { 2 } else { 1 };
    dictionary_bytes += values.len() * width;
    if worth && dictionary_bytes < limit {
        bytes.extend((dictionary.len() as u32).to_le_bytes());
        match width {
            1 => bytes.extend(indexes.iter().map(|&index| index as u8)),
            _ => bytes.extend(indexes.iter().flat_map(|index| index.to_le_bytes())),
        }
        plain(&dictionary, bytes);
        return Encoding::Dictionary;
    }
    if run_bytes >= plain_bytes {
        plain(values, bytes);
        return Encoding::Plain;
    }
    let (mut runs, mut lengths): (Vec<T>, Vec<u32>) = (Vec::new(), Vec::new());
    for &value in values {
        match lengths.last_mut().filter(|_| runs.last() == Some(&value)) {
            Some(length) => *length += 1,
            None => {
                runs.push(value);
                lengths.push(1);
            }
        }
    }
    bytes.extend((runs.len() as u32).to_le_bytes());
    bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
    plain(&runs, bytes);
    Encoding::RunLength
}

fn plain_text(values: &[&str], bytes: &mut Vec<u8>) {
    let mut end = 0u32;
    for value in values {
        end += value.len() as u32;
        bytes.extend(end.to_le_bytes());
    }
    values.iter().for_each(|value| bytes.extend(value.as_bytes()));
}

/// Which stored value each row has.
enum Rows {
    /// Row `i` has value `i`.
    Same,
    /// Index into the dictionary, by row. Invariant: in range.
    Index(Vec<u16>),
    /// Length of each run. Invariant: their sum is the number of rows.
    Runs(Vec<u32>),
}

impl Rows {
    /// Reads what precedes the values: the mapping from rows, and the number of values that follow.
    fn read(reader: &mut Reader<'_>, encoding: Encoding, rows: usize) -> Result<(Self, usize), FormatError> {
        if encoding == Encoding::Plain {
            return Ok((Self::Same, rows));
        }
        let count = reader.u32()? as usize;
        if count > rows || (encoding == Encoding::Dictionary && count > DICTIONARY_MAX) {
            return Err(reader.error(format!("{count} values exceed {rows} rows")));
        }
        if encoding == Encoding::RunLength {
            let (lengths, _) = reader.take(count * 4)?.as_chunks::<4>();
            let lengths: Vec<u32> = lengths.iter().map(|&length| u32::from_le_bytes(length)).collect();
            let sum: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
            if sum != rows as u64 {
                return Err(reader.error(format!("run lengths sum to {sum}, expected {rows}")));
            }
            return Ok((Self::Runs(lengths), count));
        }
        let indexes: Vec<u16> = match count {
            0..=256 => reader.take(rows)?.iter().map(|&index| u16::from(index)).collect(),
            _ => {
                let (indexes, _) = reader.take(rows * 2)?.as_chunks::<2>();
                indexes.iter().map(|&index| u16::from_le_bytes(index)).collect()
            }
        };
        if let Some(index) = indexes.iter().find(|&&index| usize::from(index) >= count) {
            return Err(reader.error(format!("value index {index} is out of range: {count} values")));
        }
        Ok((Self::Index(indexes), count))
    }

    /// Expands the stored values to one for each row.
    fn spread<T: Copy>(self, values: Vec<T>) -> Vec<T> {
        match self {
            Self::Same => values,
            Self::Index(indexes) => indexes.into_iter().map(|index| values[usize::from(index)]).collect(),
            Self::Runs(lengths) => {
                let mut all = Vec::with_capacity(lengths.iter().map(|&length| length as usize).sum());
                for (value, length) in values.into_iter().zip(lengths) {
                    all.resize(all.len() + length as usize, value);
                }
                all
            }
        }
    }
}

/// Decodes a column. It allocates memory for `rows` values, and at most [`TEXT_BYTES_MAX`] for strings.
///
/// # Errors
/// The bytes are not an [`encode`] result for this number of rows and nulls.
pub fn decode(
    column_type: ColumnType,
    encoding: Encoding,
    rows: usize,
    nulls: usize,
    bytes: &[u8],
) -> Result<ArrayRef, FormatError> {
    let mut reader = Reader::new("chunk", bytes);
    let validity = match nulls {
        0 => None,
        _ => {
            let bitmap = Buffer::from(reader.take(rows.div_ceil(8))?);
            let validity = NullBuffer::new(BooleanBuffer::new(bitmap, 0, rows));
            if validity.null_count() != nulls {
                let have = validity.null_count();
                return Err(reader.error(format!("null bitmap has {have} nulls, expected {nulls}")));
            }
            Some(validity)
        }
    };
    let (spread, count) = Rows::read(&mut reader, encoding, rows)?;
    macro_rules! fixed {
        ($type:ty, $stored:ty) => {{
            let values = fixed::<{ size_of::<$stored>() }>(&mut reader, count)?;
            if let (Rows::Same, true) =
                (&spread, size_of::<$stored>() == size_of::<<$type as ArrowPrimitiveType>::Native>())
            {
                // Reuses the bytes as the array's buffer, without a copy.
                let values = ScalarBuffer::from(Buffer::from(values.as_flattened()));
                let array = PrimitiveArray::<$type>::new(values, validity);
                Arc::new(array.with_data_type(column_type.to_arrow())) as ArrayRef
            } else {
                let values = values.iter().map(|&value| <$stored>::from_le_bytes(value) as _).collect();
                let array = PrimitiveArray::<$type>::new(spread.spread::<_>(values).into(), validity);
                Arc::new(array.with_data_type(column_type.to_arrow())) as ArrayRef
            }
        }};
    }
    let array = match (column_type, column_type.stored_bytes()) {
        (ColumnType::Bool, _) => {
            let values = reader.take(count)?;
            if let Some(value) = values.iter().find(|&&value| value > 1) {
                return Err(reader.error(format!("boolean is {value}, expected 0 or 1")));
            }
            let values = spread.spread(values.to_vec());
            let values = BooleanBuffer::collect_bool(rows, |row| values[row] == 1);
            Arc::new(BooleanArray::new(values, validity)) as ArrayRef
        }
        (ColumnType::Int8, _) => fixed!(Int8Type, i8),
        (ColumnType::Int16, _) => fixed!(Int16Type, i16),
        (ColumnType::Int32, _) => fixed!(Int32Type, i32),
        (ColumnType::Int64, _) => fixed!(Int64Type, i64),
        (ColumnType::UInt8, _) => fixed!(UInt8Type, u8),
        (ColumnType::UInt16, _) => fixed!(UInt16Type, u16),
        (ColumnType::UInt32, _) => fixed!(UInt32Type, u32),
        (ColumnType::UInt64, _) => fixed!(UInt64Type, u64),
        (ColumnType::Float32, _) => fixed!(Float32Type, f32),
        (ColumnType::Float64, _) => fixed!(Float64Type, f64),
        (ColumnType::Date, _) => fixed!(Date32Type, i32),
        (ColumnType::Timestamp, _) => fixed!(TimestampMicrosecondType, i64),
        (ColumnType::Decimal { precision, scale }, stored) => {
            let array = match stored {
                Some(4) => fixed!(Decimal128Type, i32),
                Some(8) => fixed!(Decimal128Type, i64),
                _ => fixed!(Decimal128Type, i128),
            };
            let most = 10i128.pow(u32::from(precision)) - 1;
            // Values below nulls are checked too: kernels process them and rely on the precision.
            let values = array.as_primitive::<Decimal128Type>().values();
            if values.iter().any(|&value| value > most || value < -most) {
                return Err(reader.error(format!("a value does not fit into DECIMAL({precision},{scale})")));
            }
            array
        }
        (ColumnType::HugeInt, _) => fixed!(Decimal128Type, i128),
        (ColumnType::Utf8, _) => Arc::new(texts(&mut reader, spread, count, rows, validity)?),
    };
    reader.end()?;
    Ok(array)
}

fn fixed<'a, const N: usize>(reader: &mut Reader<'a>, count: usize) -> Result<&'a [[u8; N]], FormatError> {
    Ok(reader.take(count * N)?.as_chunks().0)
}

fn texts(
    reader: &mut Reader<'_>,
    spread: Rows,
    count: usize,
    rows: usize,
    validity: Option<NullBuffer>,
) -> Result<StringArray, FormatError> {
    let mut offsets = Vec::with_capacity(count + 1);
    offsets.push(0i32);
    let ends = fixed::<4>(reader, count)?;
    for &end in ends {
        let end = u32::from_le_bytes(end);
        let before = offsets.last().copied().unwrap_or(0);
        match i32::try_from(end) {
            Ok(end) if end >= before => offsets.push(end),
            _ => return Err(reader.error(format!("string ends at {end}, before its start {before}"))),
        }
    }
    let length = offsets.last().copied().unwrap_or(0) as usize;
    if length > TEXT_BYTES_MAX {
        return Err(reader.error(format!("{length} bytes of strings exceed the limit of {TEXT_BYTES_MAX}")));
    }
    let text = Buffer::from(reader.take(length)?);
    let values = StringArray::try_new(OffsetBuffer::new(offsets.into()), text, None);
    let values = values.map_err(|error| reader.error(error.to_string()))?;
    let size = |index: usize| values.value_length(index) as usize;
    // The total is checked before memory is allocated for it.
    let total: usize = match &spread {
        Rows::Same => {
            let (offsets, text, _) = values.into_parts();
            return StringArray::try_new(offsets, text, validity)
                .map_err(|error| reader.error(error.to_string()));
        }
        Rows::Index(indexes) => indexes.iter().map(|&index| size(usize::from(index))).sum(),
        Rows::Runs(lengths) => {
            lengths.iter().enumerate().map(|(run, &times)| size(run) * times as usize).sum()
        }
    };
    if total > TEXT_BYTES_MAX {
        return Err(reader.error(format!("{total} bytes of strings exceed the limit of {TEXT_BYTES_MAX}")));
    }
    let mut builder = StringBuilder::with_capacity(rows, total);
    match spread {
        Rows::Same => {}
        Rows::Index(indexes) => {
            indexes.iter().for_each(|&index| builder.append_value(values.value(usize::from(index))));
        }
        Rows::Runs(lengths) => {
            for (run, times) in lengths.into_iter().enumerate() {
                (0..times).for_each(|_| builder.append_value(values.value(run)));
            }
        }
    }
    let (offsets, text, _) = builder.finish().into_parts();
    StringArray::try_new(offsets, text, validity).map_err(|error| reader.error(error.to_string()))
}
