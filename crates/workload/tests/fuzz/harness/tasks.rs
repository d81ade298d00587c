//! Fuzzed tasks of a host: the first byte selects the form, the others are the task.
//!
//! Verified: no panic; the size of a result is plausible for the rows of the table; the task's compact form
//! is equivalent; row groups that zone maps exclude contain no row of the result. Not verified: the result
//! itself (compared with DuckDB elsewhere).

use std::sync::{Arc, LazyLock};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
    UInt8Array,
};
use byteway_query::{Execution, Form, GroupMeta, Query, QueryError, Schema, Task, Work, group, ipc, stream};

/// Rows of the table, and of a row group.
const ROWS: i64 = 96;
const GROUP_ROWS: usize = 32;
/// Limit of a result in bytes: each of 1024 outputs may repeat a string of the task for each row.
const RESULT_BYTES: usize = 64 << 20;

struct Table {
    schema: Schema,
    groups: Vec<(GroupMeta, Vec<u8>)>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let rows = || 0..ROWS;
    let columns: [(&str, ArrayRef); 7] = [
        ("n", Arc::new(Int64Array::from_iter(rows().map(|n| (n % 7 != 0).then_some(n - 20))))),
        ("u", Arc::new(UInt8Array::from_iter_values(rows().map(|n| (n * 5 % 256) as u8)))),
        (
            "f",
            Arc::new(Float64Array::from_iter_values(
                rows().map(|n| if n % 9 == 0 { f64::NAN } else { n as f64 / 8.0 }),
            )),
        ),
        (
            "d",
            Arc::new(
                Decimal128Array::from_iter_values(rows().map(|n| i128::from(n) * 105 - 999))
                    .with_precision_and_scale(15, 2)
                    .expect("15 digits are allowed"),
            ),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(rows().map(|n| (n * 40) as i32)))),
        ("b", Arc::new(BooleanArray::from_iter(rows().map(|n| (n % 5 != 0).then_some(n % 2 == 0))))),
        (
            "t",
            Arc::new(StringArray::from_iter(
                rows().map(|n| (n % 6 != 0).then(|| format!("text {}", n % 11))),
            )),
        ),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)));
    let batch = batch.expect("columns have one length");
    let schema = Schema::from_arrow(&batch.schema()).expect("tables have such columns");
    let group =
        |first| group::encode(&schema, &batch.slice(first, GROUP_ROWS)).expect("rows are as the schema says");
    let groups = (0..ROWS as usize).step_by(GROUP_ROWS).map(group).collect();
    Table { schema, groups }
});

pub fn run(bytes: &[u8]) {
    let Some((&form, payload)) = bytes.split_first() else { return };
    let Some(form) = Form::from_code(form % 3) else { return };
    let Ok(task) = Task::parse(form, payload) else { return };
    let bound = task.bind(&TABLE.schema);
    if let Ok(compact) = Task::compact(task.statement(), Some(&TABLE.schema)) {
        let again =
            Task::parse(Form::Compact, compact.to_bytes()).expect("it was made here").bind(&TABLE.schema);
        // NaN differs from itself, but its text does not. Of several errors either form may tell another.
        if bound.is_ok() || again.is_ok() {
            assert_eq!(format!("{bound:?}"), format!("{again:?}"), "the compact form asks something else");
        }
    }
    let Ok(query) = bound else { return };
    let (whole, pruned) = (execute(query.clone(), false), execute(query, true));
    match (whole, pruned) {
        (Ok(whole), Ok(pruned)) => assert!(whole == pruned, "zone maps change the result"),
        // Rows that fail may be in excluded row groups.
        (Err(_), _) => {}
        (Ok(_), Err(error)) => panic!("it fails only with zone maps: {error}"),
    }
}

/// The result as a stream.
fn execute(query: Query, prunes: bool) -> Result<Vec<u8>, QueryError> {
    let mut execution = Execution::new(query, &TABLE.schema)?;
    let columns = execution.columns().to_vec();
    let mut results = Vec::new();
    for (meta, bytes) in &TABLE.groups {
        if prunes && !execution.may_match(meta) {
            continue;
        }
        let mut work = Work::default();
        let decode = |&column: &usize| {
            let (offset, length) = meta.ranges(&[column])[0];
            let chunk = &bytes[offset as usize..][..length as usize];
            group::decode(&TABLE.schema, column, meta, chunk, &mut work).expect("it was encoded here")
        };
        let arrays = columns.iter().map(decode).collect();
        let batch = stream::batch(&TABLE.schema, &columns, arrays, meta.rows as usize)?;
        results.extend(execution.push(&batch)?);
    }
    results.extend(execution.finish()?);
    let schema = execution.result_schema();
    // The boundaries of batches are not part of the result.
    let whole = arrow_select::concat::concat_batches(&schema, &results)?;
    let bytes = ipc::encode(&schema, &[whole])?;
    assert!(bytes.len() <= RESULT_BYTES, "{} bytes of result", bytes.len());
    Ok(bytes)
}
