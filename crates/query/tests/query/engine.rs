//! Hand-computed results: logic, limits, columns read, and work counted.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
};
use byteway_query::{ColumnType, Execution, Form, Operator, QueryError, Schema, Task, Value, group, values};

fn batch() -> RecordBatch {
    let three = [Some(true), Some(false), None];
    let p = BooleanArray::from_iter((0..9).map(|n| three[n / 3]));
    let q = BooleanArray::from_iter((0..9).map(|n| three[n % 3]));
    let columns: [(&str, ArrayRef, bool); 4] = [
        ("p", Arc::new(p), true),
        ("q", Arc::new(q), true),
        ("n", Arc::new(Int32Array::from_iter_values(0..9)), false),
        ("t", Arc::new(StringArray::from_iter_values(["a", "b", "a", "c", "b", "a", "d", "a", "c"])), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Result rows, with the batch pushed in two pieces.
fn run(sql: &str) -> Result<Vec<Vec<Value>>, QueryError> {
    let schema = Schema::from_arrow(&batch().schema()).unwrap();
    let query = Task::parse(Form::Sql, sql.as_bytes())?.bind(&schema)?;
    let types: Vec<ColumnType> = query.outputs.iter().map(|output| output.expr.column_type).collect();
    let mut execution = Execution::new(query, &schema)?;
    let columns: Vec<ArrayRef> =
        execution.columns().iter().map(|&column| batch().column(column).clone()).collect();
    let mut results = Vec::new();
    for (start, length) in [(0, 4), (4, 0), (4, 5)] {
        let columns = columns.iter().map(|column| column.slice(start, length)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let schema = schema.project(execution.columns().iter().copied());
        let piece = RecordBatch::try_new_with_options(schema, columns, &options).unwrap();
        results.extend(execution.push(&piece)?);
    }
    results.extend(execution.finish()?);
    let row = |batch: &RecordBatch, row: usize| {
        let columns = batch.columns().iter().zip(&types);
        columns.map(|(column, column_type)| values::at(column, *column_type, row)).collect()
    };
    Ok(results.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at))).collect())
}

fn integers(sql: &str) -> Vec<i128> {
    let integer = |row: Vec<Value>| match row[..] {
        [Value::Integer(value)] => value,
        _ => panic!("{row:?}"),
    };
    run(sql).unwrap().into_iter().map(integer).collect()
}

// Null is neither true nor false: `NOT (p AND q)` omits the rows in which `p AND q` is null, as `p AND q` does. Rows are p: ttt fff nnn, q:
// tfn ...
#[test]
fn logic_has_three_values() {
    for (filter, rows) in [
        ("p AND q", vec![0]),
        ("NOT (p AND q)", vec![1, 3, 4, 5, 7]),
        ("p OR q", vec![0, 1, 2, 3, 6]),
        ("NOT (p OR q)", vec![4]),
        ("(p AND q) IS NULL", vec![2, 6, 8]),
        ("(p OR q) IS NULL", vec![5, 7, 8]),
        ("p = q", vec![0, 4]),
        ("p <> q", vec![1, 3]),
        ("p IS TRUE", vec![0, 1, 2]),
        ("p IS NOT TRUE", vec![3, 4, 5, 6, 7, 8]),
        ("n IN (1, NULL)", vec![1]),
        ("n NOT IN (1, NULL)", vec![]),
        ("NULL", vec![]),
        ("n > 6 OR NULL", vec![7, 8]),
    ] {
        assert_eq!(integers(&format!("SELECT n FROM t WHERE {filter}")), rows, "{filter}");
    }
}

// A row that an earlier condition has decided must not make the query fail.
#[test]
fn what_is_decided_is_not_evaluated() {
    assert_eq!(integers("SELECT n FROM t WHERE n <> 0 AND 8 // n = 4"), [2]);
    assert_eq!(integers("SELECT n FROM t WHERE n = 0 OR 8 // n = 8"), [0, 1]);
    assert_eq!(integers("SELECT CASE WHEN n = 0 THEN -1 ELSE 8 // n END FROM t WHERE n < 3"), [-1, 8, 4]);
    assert_eq!(run("SELECT 8 // n FROM t").unwrap_err(), QueryError::DivisionByZero("//"));
    let overflow = QueryError::Overflow { operation: "multiplication", column_type: ColumnType::Int32 };
    assert_eq!(run("SELECT n * 2000000000 FROM t").unwrap_err(), overflow);
}

// Groups come in the order of their first rows unless sorted; LIMIT counts result rows.
#[test]
fn groups_have_an_order_and_a_limit() {
    let texts = |sql: &str| -> String {
        let text = |row: &Vec<Value>| match &row[0] {
            Value::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        run(sql).unwrap().iter().map(text).collect()
    };
    assert_eq!(texts("SELECT t FROM t GROUP BY t"), "abcd");
    assert_eq!(texts("SELECT t, count(*) FROM t GROUP BY t ORDER BY 2 DESC, t DESC LIMIT 3"), "acb");
    assert_eq!(texts("SELECT t FROM t GROUP BY t HAVING count(*) = 1"), "d");
    assert_eq!(integers("SELECT n FROM t LIMIT 5"), [0, 1, 2, 3, 4]);
    assert_eq!(integers("SELECT n FROM t WHERE p LIMIT 0"), [] as [i128; 0]);
}

// Without rows, a count is 0 and a sum is null; with a key there are no groups.
#[test]
fn aggregates_of_nothing() {
    let nothing = "FROM t WHERE n > 100";
    let row = run(&format!("SELECT count(*), count(n), sum(n), min(t), avg(n) {nothing}")).unwrap();
    let (zero, null) = (Value::Integer(0), Value::Null);
    assert_eq!(row, [vec![zero.clone(), zero, null.clone(), null.clone(), null]]);
    assert!(run(&format!("SELECT t, count(*) {nothing} GROUP BY t")).unwrap().is_empty());
}

// The model charges what is counted: a comparison of 9 rows, 3 of them gathered; and only the needed columns are read.
#[test]
fn work_is_counted_by_kind() {
    let schema = Schema::from_arrow(&batch().schema()).unwrap();
    let query = Task::segment("t", "t = 'a' AND n >= 2").unwrap().bind(&schema).unwrap();
    let mut execution = Execution::new(query, &schema).unwrap();
    assert_eq!(execution.columns(), [0, 1, 2, 3]);
    let result = execution.push(&batch()).unwrap().unwrap();
    assert_eq!(result.num_rows(), 3);
    let work = execution.work();
    assert_eq!((work.rows_in, work.rows_out), (9, 3));
    assert_eq!(work.rows(Operator::CompareText), 9);
    assert_eq!(work.rows(Operator::Compare), 9);
    assert_eq!(work.rows(Operator::Logic), 9);
    assert_eq!(work.rows(Operator::Gather), 4 * 3);
    assert_eq!(work.text_bytes, 9);
    let query = Task::parse(Form::Sql, b"SELECT count(*) FROM t WHERE n > 4").unwrap().bind(&schema).unwrap();
    assert_eq!(Execution::new(query, &schema).unwrap().columns(), [2]);
}

// A row group may be skipped only if none of its rows can contribute to the result.
#[test]
fn zone_maps_leave_groups_out() {
    let numbers = Int64Array::from(vec![Some(10), Some(20), None]);
    let texts = StringArray::from(vec!["b", "bz", "c"]);
    let columns: [(&str, ArrayRef, bool); 2] =
        [("n", Arc::new(numbers), true), ("t", Arc::new(texts), false)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    let (meta, _) = group::encode(&schema, &batch).unwrap();
    for (predicate, may) in [
        ("n > 20", false),
        ("n >= 20", true),
        ("n < 10", false),
        ("n = 9", false),
        ("n = 15", true),
        ("NOT n <= 20", false),
        ("n BETWEEN 21 AND 30", false),
        ("n BETWEEN 5 AND 10", true),
        ("n IN (1, 2, 30)", false),
        ("n IN (1, 15)", true),
        ("n NOT IN (1, 30)", true),
        ("n > 20.5", false),
        ("n > 19.5", true),
        ("n IS NULL", true),
        ("t IS NULL", false),
        ("n > 20 OR t = 'b'", true),
        ("n > 15 AND t = 'd'", false),
        ("t LIKE 'a%'", false),
        ("t LIKE 'b%'", true),
        ("t LIKE '%a'", true),
        ("t NOT LIKE 'a%'", true),
        ("n + 1 > 100", true),
        ("NULL", false),
    ] {
        let query = Task::segment("x", predicate).unwrap().bind(&schema).unwrap();
        assert_eq!(Execution::new(query, &schema).unwrap().may_match(&meta), may, "{predicate}");
    }
}

// Errors must tell what is wrong with a query, and what would be right.
#[test]
fn errors_say_what_would_be_right() {
    for (sql, part) in [
        ("SELECT x FROM t", "no column \"x\"; its columns are p, q, n, t"),
        ("SELECT n FROM t WHERE t > 5", "> of VARCHAR and INTEGER"),
        ("SELECT n FROM t WHERE n", "WHERE of a INTEGER"),
        ("SELECT n, count(*) FROM t", "must be a key of GROUP BY or part of an aggregate"),
        ("SELECT n FROM t WHERE sum(n) > 1", "not allowed in WHERE"),
        ("SELECT n FROM t GROUP BY 2", "output 2 is out of range"),
        ("SELECT sum(t) FROM t", "sum of VARCHAR"),
        ("SELECT n FROM t ORDER BY n", "ORDER BY of rows"),
        ("SELECT * FROM", "invalid SQL"),
        ("SELECT n FROM t WHERE DATE '2023-02-30' > DATE '2023-01-01'", "not a valid DATE"),
        ("SELECT n FROM t LIMIT -1", "LIMIT"),
    ] {
        let error = run(sql).unwrap_err().to_string();
        assert!(error.contains(part), "{sql}: {error}");
    }
}
