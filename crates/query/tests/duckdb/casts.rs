//! Decimals as floating-point numbers, where their digits are more than a float holds.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, RecordBatch};
use byteway_clock::random::Rng;
use byteway_query::{Column, ColumnType, Schema};

use crate::oracle::Oracle;
use crate::table::Table;
use crate::{Outcome, compare};

const ROWS: usize = 400;
const DECIMALS: [(&str, u8, u8); 6] = [
    ("money", 12, 2),
    ("mid", 18, 4),
    ("long", 38, 10),
    ("unit", 38, 37),
    ("whole", 38, 1),
    ("small", 20, 19),
];

/// Decimals of all lengths, and floats next to what the shorter ones are.
fn table(folder: &std::path::Path) -> Table {
    let mut random = Rng::new(11).stream("decimals");
    let column = |name: &str, column_type| Column { name: name.to_owned(), column_type, nullable: false };
    let (mut columns, mut arrays): (Vec<Column>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (name, precision, scale) in DECIMALS {
        let value = |_| {
            let wide = i128::from(random.below(u64::MAX)) << 64 | i128::from(random.below(u64::MAX));
            let digits = 1 + random.below(u64::from(precision)) as u32;
            wide % 10i128.pow(digits)
        };
        let values = Decimal128Array::from_iter_values((0..ROWS).map(value));
        let column_type = ColumnType::Decimal { precision, scale };
        columns.push(column(name, column_type));
        arrays.push(Arc::new(values.with_data_type(column_type.to_arrow())));
    }
    columns.push(column("f", ColumnType::Float32));
    arrays.push(Arc::new(Float32Array::from_iter_values((0..ROWS).map(|n| 16_777_200.0 + 2.0 * n as f32))));
    columns.push(column("d", ColumnType::Float64));
    arrays.push(Arc::new(Float64Array::from_iter_values(
        (0..ROWS).map(|n| 9.007_199_254_740_992e15 + n as f64),
    )));
    let schema = Schema::new(columns).unwrap();
    let rows = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    Table::new("numbers", &rows, &[150], folder)
}

// A decimal of which whole and fraction are rounded apart is rounded twice: rows at the end of a range come or go, on the drive and on the
// host alike, so that no comparison of these two shows it.
#[test]
fn decimals_are_rounded_once() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    oracle.ask(&table.create(folder.path()));
    let mut queries = Vec::new();
    for (name, ..) in DECIMALS {
        queries.push(format!("SELECT CAST({name} AS FLOAT), CAST({name} AS DOUBLE) FROM numbers"));
        queries.push(format!("SELECT {name}, f FROM numbers WHERE {name} < f OR {name} = f"));
        queries.push(format!("SELECT {name} * d, {name} + f FROM numbers WHERE {name} <= d"));
    }
    for constant in ["16777217.1", "16777216.9", "16777219.0000001", "75164388.96", "16777216.5"] {
        for comparison in ["=", "<", ">=", "<>"] {
            queries.push(format!("SELECT f FROM numbers WHERE f {comparison} {constant}"));
        }
    }
    for constant in ["9007199254740993.1", "9007199254740992.9", "9007199254740994.5"] {
        for comparison in ["=", "<", ">=", "<>"] {
            queries.push(format!("SELECT d FROM numbers WHERE d {comparison} {constant}"));
        }
    }
    for sql in queries {
        assert_eq!(compare(&mut oracle, &table, &sql), Outcome::Same, "{sql}");
    }
}
