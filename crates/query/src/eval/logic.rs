//! Three-valued logic on bitmaps: true, false and null.

use arrow_array::{Array, BooleanArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};

/// Bitmap of the rows that are true.
pub fn trues(array: &BooleanArray) -> BooleanBuffer {
    match array.nulls() {
        Some(valid) => array.values() & valid.inner(),
        None => array.values().clone(),
    }
}

/// Bitmap of the rows that are false.
pub fn falses(array: &BooleanArray) -> BooleanBuffer {
    match array.nulls() {
        Some(valid) => &!array.values() & valid.inner(),
        None => !array.values(),
    }
}

fn of(trues: BooleanBuffer, falses: &BooleanBuffer) -> BooleanArray {
    let valid = NullBuffer::new(&trues | falses);
    BooleanArray::new(trues, Some(valid).filter(|valid| valid.null_count() > 0))
}

/// False if an operand is false, else null if one is null.
pub fn and(a: &BooleanArray, b: &BooleanArray) -> BooleanArray {
    if a.nulls().is_none() && b.nulls().is_none() {
        return BooleanArray::new(a.values() & b.values(), None);
    }
    of(&trues(a) & &trues(b), &(&falses(a) | &falses(b)))
}

/// True if an operand is true, else null if one is null.
pub fn or(a: &BooleanArray, b: &BooleanArray) -> BooleanArray {
    if a.nulls().is_none() && b.nulls().is_none() {
        return BooleanArray::new(a.values() | b.values(), None);
    }
    of(&trues(a) | &trues(b), &(&falses(a) & &falses(b)))
}

/// Negation; null stays null.
pub fn not(a: &BooleanArray) -> BooleanArray {
    BooleanArray::new(!a.values(), a.nulls().cloned())
}

/// Distributes values to the rows that are set, in order; the others are null.
pub fn scatter(values: &BooleanArray, set: &BooleanBuffer) -> BooleanArray {
    let (mut bits, mut valid) = (BooleanBufferBuilder::new(set.len()), BooleanBufferBuilder::new(set.len()));
    bits.append_n(set.len(), false);
    valid.append_n(set.len(), false);
    for (position, row) in set.set_indices().enumerate() {
        bits.set_bit(row, values.value(position));
        valid.set_bit(row, values.is_valid(position));
    }
    BooleanArray::new(bits.finish(), Some(NullBuffer::new(valid.finish())))
}
