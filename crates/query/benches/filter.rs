//! Throughput of the engine in rows per CPU second: comparisons, groups and TPC-H's arithmetic, in memory, on one thread.
//!
//! Run `cargo bench -p byteway-query`. The first two results have a guaranteed minimum: 200 million rows per second and core.

#![allow(clippy::unwrap_used, reason = "a benchmark's set-up fails as the benchmark does")]

use std::sync::Arc;

use arrow_array::types::Decimal128Type;
use arrow_array::{
    ArrayRef, Date32Array, Float64Array, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use byteway_query::{Execution, Form, Schema, Task, Work, group};
use rustix::time::{ClockId, clock_gettime};

const ROWS: usize = 1 << 17;

fn main() {
    let random = |row: usize| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let of = |modulus: u64| (0..ROWS).map(move |row| random(row) % modulus);
    let decimals = |modulus: u64| -> ArrayRef {
        let values = PrimitiveArray::<Decimal128Type>::from_iter_values(of(modulus).map(i128::from));
        Arc::new(values.with_precision_and_scale(15, 2).unwrap())
    };
    let words = ["A", "N", "R"];
    let texts = (0..ROWS).map(|row| words[random(row) as usize % 3]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("f", Arc::new(Float64Array::from_iter_values(of(1000).map(|value| value as f64)))),
        ("n", Arc::new(Int64Array::from_iter_values(of(1000).map(|value| value as i64)))),
        ("day", Arc::new(Date32Array::from_iter_values(of(2500).map(|value| value as i32)))),
        ("price", decimals(10_000_000)),
        ("discount", decimals(10)),
        ("word", Arc::new(StringArray::from_iter_values(texts))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    for sql in [
        "SELECT count(*) FROM t WHERE f > 500",
        "SELECT count(*) FROM t WHERE n > 500",
        "SELECT count(*) FROM t WHERE f > 500 AND n < 600",
        "SELECT f FROM t WHERE n = 5",
        "SELECT sum(n) FROM t WHERE f > 500",
        "SELECT count(*) FROM t WHERE price > 50000.00",
        "SELECT count(*) FROM t WHERE day < DATE '1973-01-01' + INTERVAL '90' DAY",
        "SELECT count(*) FROM t WHERE word LIKE 'A%'",
        "SELECT sum(price * discount) FROM t WHERE discount BETWEEN 0.05 AND 0.07",
        "SELECT word, sum(price * (1 - discount)), count(*) FROM t GROUP BY word",
    ] {
        let query = Task::parse(Form::Sql, sql.as_bytes()).unwrap().bind(&schema).unwrap();
        let mut execution = Execution::new(query, &schema).unwrap();
        let input = batch.project(execution.columns()).unwrap();
        let (begun, mut rounds) = (cpu_seconds(), 0);
        while cpu_seconds() - begun < 0.5 {
            execution.push(&input).unwrap();
            rounds += 1;
        }
        let seconds = cpu_seconds() - begun;
        println!("{:8.1} million rows a CPU-second: {sql}", (rounds * ROWS) as f64 / seconds / 1e6);
    }
    let begun = cpu_seconds();
    let (meta, bytes) = group::encode(&schema, &batch).unwrap();
    println!("{:8.1} million values a CPU-second encoded", (6 * ROWS) as f64 / (cpu_seconds() - begun) / 1e6);
    for (column, chunk) in meta.chunks.iter().enumerate() {
        let encoded = &bytes[chunk.offset as usize..][..chunk.bytes as usize];
        let (begun, mut rounds) = (cpu_seconds(), 0);
        while cpu_seconds() - begun < 0.2 {
            group::decode(&schema, column, &meta, encoded, &mut Work::default()).unwrap();
            rounds += 1;
        }
        let million = (rounds * ROWS) as f64 / (cpu_seconds() - begun) / 1e6;
        let name = &schema.columns()[column].name;
        println!("{million:8.1} million values a CPU-second decoded: {name}, {:?}", chunk.encoding);
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
