//! Encoding of rows as byte strings whose equality and order are those of the rows.
//!
//! The encoding follows Arrow's row format, with DuckDB's order: NaN is a single value above all numbers, -0 equals 0, and nulls are placed
//! as ORDER BY requires.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;

use crate::schema::ColumnType;

/// Type and order of a key column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyColumn {
    pub column_type: ColumnType,
    pub descending: bool,
    pub nulls_first: bool,
}

impl KeyColumn {
    /// A column that is only compared for equality.
    pub fn plain(column_type: ColumnType) -> Self {
        Self { column_type, descending: false, nulls_first: false }
    }

    /// Appends the encoding of a row's value.
    pub fn encode(self, array: &ArrayRef, row: usize, bytes: &mut Vec<u8>) {
        if array.is_null(row) {
            return bytes.push(if self.nulls_first { 0 } else { 2 });
        }
        bytes.push(1);
        let begin = bytes.len();
        macro_rules! signed {
            ($type:ty) => {{
                let value = i64::from(array.as_primitive::<$type>().value(row));
                bytes.extend((value as u64 ^ 1 << 63).to_be_bytes());
            }};
        }
        macro_rules! unsigned {
            ($type:ty) => {
                bytes.extend(u64::from(array.as_primitive::<$type>().value(row)).to_be_bytes())
            };
        }
        match self.column_type {
            ColumnType::Bool => bytes.push(u8::from(array.as_boolean().value(row))),
            ColumnType::Int8 => signed!(Int8Type),
            ColumnType::Int16 => signed!(Int16Type),
            ColumnType::Int32 => signed!(Int32Type),
            ColumnType::Int64 => signed!(Int64Type),
            ColumnType::Date => signed!(Date32Type),
            ColumnType::Timestamp => signed!(TimestampMicrosecondType),
            ColumnType::UInt8 => unsigned!(UInt8Type),
            ColumnType::UInt16 => unsigned!(UInt16Type),
            ColumnType::UInt32 => unsigned!(UInt32Type),
            ColumnType::UInt64 => unsigned!(UInt64Type),
            ColumnType::HugeInt | ColumnType::Decimal { .. } => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                bytes.extend((value as u128 ^ 1 << 127).to_be_bytes());
            }
            ColumnType::Float32 => float(f64::from(array.as_primitive::<Float32Type>().value(row)), bytes),
            ColumnType::Float64 => float(array.as_primitive::<Float64Type>().value(row), bytes),
            ColumnType::Utf8 => {
                // A zero byte is escaped as 0, 255, so that the terminator 0, 0 sorts below any longer string.
                for &byte in array.as_string::<i32>().value(row).as_bytes() {
                    bytes.push(byte);
                    if byte == 0 {
                        bytes.push(0xff);
                    }
                }
                bytes.extend([0, 0]);
            }
        }
        if self.descending {
            bytes[begin..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

fn float(value: f64, bytes: &mut Vec<u8>) {
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
    let bits = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    bytes.extend(bits.to_be_bytes());
}

/// End of a chain.
const END: u32 = u32::MAX;

/// Keys in one buffer, with an index by content.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// First key of the chain of each hash. Never iterated.
    heads: FxHashMap<u64, u32>,
    next: Vec<u32>,
}

impl KeyTable {
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let chains =
            self.heads.capacity() * (size_of::<(u64, u32)>() + 1) + self.next.capacity() * size_of::<u32>();
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + chains
    }

    /// The bytes of a key.
    pub fn get(&self, index: usize) -> &[u8] {
        let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[index]]
    }

    /// Appends a key without indexing it; see [`chain`](Self::chain).
    pub fn append(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Indexes the keys for which `which` holds, so that equal keys are found in insertion order.
    pub fn chain(&mut self, which: impl Fn(usize) -> bool) {
        self.next = vec![END; self.len()];
        self.heads.reserve(self.len());
        for index in (0..self.len()).rev().filter(|&index| which(index)) {
            let hash = hash(self.get(index));
            let head = self.heads.entry(hash).or_insert(END);
            self.next[index] = std::mem::replace(head, index as u32);
        }
    }

    /// Inserts a key if it is new, and returns whether it was.
    pub fn insert_new(&mut self, key: &[u8]) -> bool {
        let hash = hash(key);
        let first = self.heads.get(&hash).copied().unwrap_or(END);
        let mut at = first;
        while at != END {
            if self.get(at as usize) == key {
                return false;
            }
            at = self.next[at as usize];
        }
        self.heads.insert(hash, self.len() as u32);
        self.next.push(first);
        self.append(key);
        true
    }

    /// Indexes of the keys equal to `key`, in insertion order.
    pub fn equal<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let mut at = self.heads.get(&hash(key)).copied().unwrap_or(END);
        std::iter::from_fn(move || {
            while at != END {
                let found = at;
                at = self.next[at as usize];
                if self.get(found as usize) == key {
                    return Some(found);
                }
            }
            None
        })
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;
    use crate::values;
    use std::cmp::Ordering;

    fn encoded(key: KeyColumn, found: &[Value]) -> Vec<Vec<u8>> {
        let array = values::array(found.iter(), key.column_type);
        let encode = |row| {
            let mut bytes = Vec::new();
            key.encode(&array, row, &mut bytes);
            bytes
        };
        (0..found.len()).map(encode).collect()
    }

    // A byte order that differs from that of the values would sort, group and join wrongly.
    #[test]
    fn bytes_are_in_the_order_of_values() {
        let integers =
            [i64::MIN, -256, -1, 0, 1, 255, 256, i64::MAX].map(|value| Value::Integer(value.into()));
        let wide = [i128::MIN, -1, 0, 1, i128::MAX].map(Value::Integer);
        let floats = [f64::NEG_INFINITY, -1.5, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        let texts = ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "b", "\u{10ffff}"];
        let cases = [
            (ColumnType::Int64, integers.to_vec()),
            (ColumnType::HugeInt, wide.to_vec()),
            (ColumnType::Bool, vec![Value::Bool(false), Value::Bool(true)]),
            (ColumnType::Float64, floats.map(Value::Float).to_vec()),
            (ColumnType::Utf8, texts.map(|text| Value::Text(text.to_owned())).to_vec()),
        ];
        for (column_type, mut found) in cases {
            for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
                found.push(Value::Null);
                let bytes = encoded(KeyColumn { column_type, descending, nulls_first }, &found);
                found.pop();
                let null = bytes.len() - 1;
                for (a, first) in bytes.iter().enumerate() {
                    for (b, second) in bytes.iter().enumerate() {
                        let expected = match (a == null, b == null) {
                            (true, true) => Ordering::Equal,
                            (true, false) if nulls_first => Ordering::Less,
                            (true, false) => Ordering::Greater,
                            (false, true) if nulls_first => Ordering::Greater,
                            (false, true) => Ordering::Less,
                            _ if descending => b.cmp(&a),
                            _ => a.cmp(&b),
                        };
                        assert_eq!(
                            first.cmp(second),
                            expected,
                            "{column_type} {a} {b} {descending} {nulls_first}"
                        );
                    }
                }
            }
        }
        let zeros = encoded(KeyColumn::plain(ColumnType::Float64), &[Value::Float(0.0), Value::Float(-0.0)]);
        assert_eq!(zeros[0], zeros[1]);
    }

    // A key found twice, or not at all, would produce a wrong number of groups or joined rows.
    #[test]
    fn equal_keys_are_found_in_their_order() {
        let mut table = KeyTable::default();
        for key in ["a", "b", "a", "c", "a"] {
            table.append(key.as_bytes());
        }
        table.chain(|index| index != 2);
        assert_eq!(table.equal(b"a").collect::<Vec<_>>(), [0, 4]);
        assert_eq!(table.equal(b"c").collect::<Vec<_>>(), [3]);
        assert_eq!(table.equal(b"d").count(), 0);
        let mut different = KeyTable::default();
        let new = ["x", "", "x", "xy", ""].map(|key| different.insert_new(key.as_bytes()));
        assert_eq!((new, different.len()), ([true, true, false, true, false], 3));
    }
}
