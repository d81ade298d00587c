//! Rows computed from their numbers, for tests of drives that must know the expected result.

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// The string of a row; `None` for each tenth.
pub fn numbered_text(row: i64) -> Option<String> {
    (row % 10 != 0).then(|| format!("row {row}"))
}

/// Rows with two columns: `n`, the row's number, and `t`, a string of it, null for each tenth.
pub fn numbered(first: i64, count: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(first..first + count);
    let texts: StringArray = (first..first + count).map(numbered_text).collect();
    let schema =
        Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8, true)]);
    let columns: Vec<arrow_array::ArrayRef> = vec![Arc::new(numbers), Arc::new(texts)];
    RecordBatch::try_new(Arc::new(schema), columns).expect("the columns match the schema")
}
