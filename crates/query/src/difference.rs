//! Comparison of result rows with expected rows.

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;

use crate::display::text;
use crate::error::QueryError;

/// Concatenates batches in order. Without any, returns an empty batch.
///
/// # Errors
/// A batch has another schema.
pub fn concat<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
) -> Result<RecordBatch, QueryError> {
    Ok(concat_batches(schema, batches)?)
}

/// Describes the first difference between rows and expected rows; `None` if they are equal and in the same order. Batch boundaries do not
/// matter, and columns are matched by position.
pub fn difference(found: &[RecordBatch], expected: &[RecordBatch]) -> Option<String> {
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let (rows, wanted) = (count(found), count(expected));
    if rows != wanted {
        return Some(format!("{rows} rows instead of {wanted}"));
    }
    let (mut left, mut right) = (found.iter(), expected.iter());
    let (mut own, mut other) = (left.next().cloned(), right.next().cloned());
    let mut row = 0;
    while let (Some(a), Some(b)) = (&own, &other) {
        let count = a.num_rows().min(b.num_rows());
        if a.num_columns() != b.num_columns() {
            return Some(format!("{} columns instead of {}", a.num_columns(), b.num_columns()));
        }
        for (column, (x, y)) in a.columns().iter().zip(b.columns()).enumerate() {
            let (x, y) = (x.slice(0, count), y.slice(0, count));
            if x.to_data() == y.to_data() {
                continue;
            }
            // Equal values of different types, or distinct NaNs, are differences to a reader of the bytes.
            let at = (0..count).find(|at| text(&x, *at) != text(&y, *at)).unwrap_or(0);
            let shown = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
            let (found, expected) = (shown(text(&x, at)), shown(text(&y, at)));
            return Some(format!(
                "column {column} of row {} is {found} ({}) instead of {expected} ({})",
                row + at,
                x.data_type(),
                y.data_type()
            ));
        }
        row += count;
        let rest = |batch: &RecordBatch| batch.slice(count, batch.num_rows() - count);
        let (a, b) = (rest(a), rest(b));
        own = if a.num_rows() > 0 { Some(a) } else { left.next().cloned() };
        other = if b.num_rows() > 0 { Some(b) } else { right.next().cloned() };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int64Array};
    use std::sync::Arc;

    fn batch(integers: &[i64], floats: &[f64]) -> RecordBatch {
        let integers = Arc::new(Int64Array::from(integers.to_vec())) as _;
        let floats = Arc::new(Float64Array::from(floats.to_vec())) as _;
        RecordBatch::try_from_iter([("i", integers), ("f", floats)]).unwrap()
    }

    // A drive batches results by row group, a host by read: that is not a mismatch. A missing, changed or moved row is one.
    #[test]
    fn only_other_rows_are_a_difference() {
        let whole = [batch(&[1, 2, 3], &[0.5, f64::NAN, -0.0])];
        let parts = [batch(&[1], &[0.5]), batch(&[], &[]), batch(&[2, 3], &[f64::NAN, -0.0])];
        assert_eq!(difference(&parts, &whole), None);
        assert_eq!(difference(&whole, &parts), None);
        let joined = concat(&whole[0].schema(), &parts).unwrap();
        assert_eq!(difference(&[joined], &whole), None);
        assert_eq!(difference(&[], &whole).unwrap(), "0 rows instead of 3");
        let swapped = [batch(&[1, 3, 2], &[0.5, f64::NAN, -0.0])];
        assert_eq!(
            difference(&swapped, &parts).unwrap(),
            "column 0 of row 1 is 3 (Int64) instead of 2 (Int64)"
        );
        let other = [batch(&[1, 2, 3], &[0.5, f64::NAN, 1.0])];
        assert!(difference(&other, &whole).unwrap().starts_with("column 1 of row 2 is 1"));
    }
}
