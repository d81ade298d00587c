//! Counts of a query's work by kind, from which a model of a drive's cores derives cycles.

use std::ops::AddAssign;

/// A kind of work per row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operator {
    /// Comparison of fixed-size values, IS NULL.
    Compare,
    /// Comparison of strings.
    CompareText,
    /// AND, OR, NOT on bitmaps.
    Logic,
    /// LIKE.
    Like,
    /// Look-up of a value in a list.
    InList,
    /// Arithmetic on at most 64 bits.
    Arithmetic,
    /// Arithmetic on decimals and 128-bit integers.
    ArithmeticWide,
    /// Casts.
    Cast,
    /// CASE: selection among values.
    Choose,
    /// Copy of a value of a row that passed the filter.
    Gather,
    /// Encoding and hashing of a group key's value, and look-up of the group.
    GroupProbe,
    /// Addition of a value to an aggregate.
    Aggregate,
    /// Comparison of two rows in a sort.
    Sort,
}

impl Operator {
    /// All kinds, in the order of [`Work::rows`].
    pub const ALL: [Operator; 13] = [
        Self::Compare,
        Self::CompareText,
        Self::Logic,
        Self::Like,
        Self::InList,
        Self::Arithmetic,
        Self::ArithmeticWide,
        Self::Cast,
        Self::Choose,
        Self::Gather,
        Self::GroupProbe,
        Self::Aggregate,
        Self::Sort,
    ];
}

/// Encoding of a chunk's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// Values in row order.
    Plain,
    /// Values with repeat counts.
    RunLength,
    /// Distinct values, and the index of each row's value.
    Dictionary,
}

impl Encoding {
    /// All encodings, in the order of their codes and of [`Work::decoded_bytes`].
    pub const ALL: [Encoding; 3] = [Self::Plain, Self::RunLength, Self::Dictionary];
}

/// Counts of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    rows: [u64; Operator::ALL.len()],
    decoded: [u64; Encoding::ALL.len()],
    /// Bytes of strings that comparisons, LIKE and lists read.
    pub text_bytes: u64,
    /// Rows pushed.
    pub rows_in: u64,
    /// Rows of the result.
    pub rows_out: u64,
    /// Bytes of the result's values.
    pub bytes_out: u64,
}

impl Work {
    /// Rows times operators of a kind: an expression with two additions over 100 rows counts 200.
    pub fn rows(&self, operator: Operator) -> u64 {
        self.rows[operator as usize]
    }

    /// Bytes of chunks decoded, by encoding, in their encoded size.
    pub fn decoded_bytes(&self, encoding: Encoding) -> u64 {
        self.decoded[encoding as usize]
    }

    /// Counts an operator's work on `rows` rows.
    pub fn add_rows(&mut self, operator: Operator, rows: usize) {
        self.rows[operator as usize] += rows as u64;
    }

    /// Counts decoded bytes.
    pub fn add_decoded(&mut self, encoding: Encoding, bytes: usize) {
        self.decoded[encoding as usize] += bytes as u64;
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.rows.iter_mut().zip(other.rows).for_each(|(sum, more)| *sum += more);
        self.decoded.iter_mut().zip(other.decoded).for_each(|(sum, more)| *sum += more);
        self.text_bytes += other.text_bytes;
        self.rows_in += other.rows_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
    }
}
