//! Damaged input from a host or from flash must give an error, never a panic, a hang or excessive memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use byteway_clock::random::{Rng, Stream};
use byteway_query::rest::{PushPolicy, TableFacts, WholeQuery};
use byteway_query::{Execution, Form, GroupMeta, QueryError, Schema, Task, Work, group, ipc};

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..300).map(|n| (n % 7 != 0).then_some(n / 40))));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..300).map(|n| format!("text {}", n % 5))));
    let more: ArrayRef =
        Arc::new(StringArray::from_iter((0..300).map(|n| (n % 3 != 0).then_some(format!("{n}")))));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("t", texts, true), ("m", more, true)])
        .unwrap()
}

/// Flips bits, replaces bytes, removes and duplicates ranges, truncates.
fn damage(bytes: &[u8], random: &mut Stream) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len() as u64) as usize;
        let end = (at + 1 + random.below(8) as usize).min(bytes.len());
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5) as usize],
            2 => drop(bytes.drain(at..end)),
            3 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

// A worn page or a lying host must not crash the drive: chunks and metadata with a correct CRC and wrong content.
#[test]
fn damaged_tables_are_errors() {
    let schema = Schema::from_arrow(&batch().schema()).unwrap();
    let (meta, bytes) = group::encode(&schema, &batch()).unwrap();
    let mut random = Rng::new(1).stream("damage");
    let (mut refused, mut read) = (0, 0);
    for _ in 0..40_000 {
        let column = random.below(3) as usize;
        let (offset, length) = meta.ranges(&[column])[0];
        let chunk = damage(&bytes[offset as usize..][..length as usize], &mut random);
        let mut lying = meta.clone();
        lying.chunks[column].bytes = chunk.len() as u32;
        lying.chunks[column].crc = crc32c::crc32c(&chunk);
        if random.chance(0.2) {
            lying.rows = random.below(group::ROWS_MAX as u64) as u32;
        }
        if random.chance(0.2) {
            lying.chunks[column].encoding = byteway_query::Encoding::ALL[random.below(3) as usize];
        }
        if random.chance(0.1) {
            lying.chunks[column].zone.nulls = random.below(300) as u32;
        }
        match group::decode(&schema, column, &lying, &chunk, &mut Work::default()) {
            Ok(array) => {
                assert_eq!(array.len(), lying.rows as usize);
                read += 1;
            }
            Err(_) => refused += 1,
        }
        let mut bytes = damage(&meta.to_bytes(), &mut random);
        assert!(bytes == meta.to_bytes() || GroupMeta::from_bytes(&schema, &bytes).is_err());
        // With a correct CRC the metadata must at least describe a row group of this schema.
        let end = bytes.len().saturating_sub(4);
        bytes.truncate(end);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        if let Ok(meta) = GroupMeta::from_bytes(&schema, &bytes) {
            assert_eq!(meta.chunks.len(), 3);
            let task = Task::segment("t", "n > 3 AND t LIKE 'text 1%' OR m IS NULL").unwrap();
            Execution::new(task.bind(&schema).unwrap(), &schema).unwrap().may_match(&meta);
        }
        let _ = Schema::from_bytes(&damage(&schema.to_bytes(), &mut random));
    }
    assert!(refused > 10_000 && read > 100, "{refused} refused, {read} read");
}

const QUERIES: [&str; 5] = [
    "SELECT n, t FROM tab WHERE n BETWEEN 1 AND 5 AND t LIKE 'te%' LIMIT 3",
    "SELECT t, count(*), sum(n * 2 + 1) AS s FROM tab GROUP BY t HAVING count(*) > 1 ORDER BY s DESC",
    "SELECT CASE WHEN n IN (1, 2, NULL) THEN -n ELSE 7 END FROM tab WHERE NOT (m IS NULL OR n <> 4)",
    "SELECT avg(n) FROM tab WHERE CAST(n AS DECIMAL(20,2)) >= 1.5 AND n % 3 // 2 = 0",
    "SELECT count(*) FROM tab WHERE DATE '2000-01-31' + INTERVAL '1' MONTH > TIMESTAMP '2000-02-01 00:00:00'",
];

// Arbitrary bytes from a host, in any form, must give an error or a query that runs.
#[test]
fn damaged_tasks_are_errors_or_other_queries() {
    let schema = Schema::from_arrow(&batch().schema()).unwrap();
    let mut random = Rng::new(1).stream("tasks");
    let mut ran = 0;
    let mut run = |form: Form, bytes: &[u8]| {
        let Ok(query) = Task::parse(form, bytes).and_then(|task| task.bind(&schema)) else { return };
        let mut execution = Execution::new(query, &schema).unwrap();
        let columns = batch().project(execution.columns()).unwrap();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(300));
        let columns = RecordBatch::try_new_with_options(
            schema.project(execution.columns().iter().copied()),
            columns.columns().to_vec(),
            &options,
        );
        let _ = execution.push(&columns.unwrap()).and_then(|_| execution.finish());
        ran += 1;
    };
    for _ in 0..3_000 {
        let sql = QUERIES[random.below(5) as usize];
        run(Form::Sql, &damage(sql.as_bytes(), &mut random));
        let (_, predicate) = sql.split_once("WHERE ").unwrap_or(("", "n = 1"));
        run(Form::Segment, &damage(format!("tab {predicate}").as_bytes(), &mut random));
        let task = Task::parse(Form::Sql, sql.as_bytes()).unwrap();
        let compact = Task::compact(task.statement(), Some(&schema)).unwrap();
        for _ in 0..5 {
            run(Form::Compact, &damage(compact.to_bytes(), &mut random));
        }
    }
    assert!(ran > 500, "{ran} ran");
}

// Deep and long texts of 64 KiB: parsing, binding and dropping them must fit the test thread's stack of 2 MiB, and end quickly.
#[test]
fn deep_and_long_tasks_are_refused_by_name() {
    let wide = |piece: &str, times: usize| format!("tab {}", piece.repeat(times));
    let deep =
        |open: &str, close: &str, times: usize| format!("tab {}1{}", open.repeat(times), close.repeat(times));
    for segment in [
        deep("(", ")", 1000),
        deep("(", ")", 30_000),
        deep("NOT ", "", 15_000),
        deep("- ", "", 1000),
        deep("CASE WHEN ", " THEN 1 END", 400),
        deep("CAST(", " AS INTEGER)", 500),
        deep("sum(", ")", 1000),
        deep("1 + (", ")", 1000),
        deep("a.", "", 10_000),
        wide("1 + ", 1500) + "1 = 1",
        wide("n = 1 AND ", 500) + "n = 1",
        wide("n = 1 OR NOT ", 300) + "n = 1",
        wide("1 IS NULL IS FALSE ", 300),
        wide("n BETWEEN n BETWEEN ", 500) + "1 AND 2",
        format!("tab n IN ({}1)", "1, ".repeat(20_000)),
        format!("tab {}1{}", "CASE WHEN n BETWEEN ".repeat(30), " AND 2 THEN TRUE END".repeat(30)),
        format!("tab t LIKE '{}'", "%a".repeat(20_000)),
        format!("tab n = {}", "1".repeat(60_000)),
        format!("tab {}", "x".repeat(60_000)),
        format!("tab [{}", "[".repeat(30_000)),
        format!("tab {}", "{".repeat(30_000)),
        format!("tab n::{}", "ARRAY<".repeat(300)),
        format!("tab x{}", "(x".repeat(800)),
        "x".repeat(70_000),
        "\u{0}".to_owned(),
        String::new(),
    ] {
        let schema = Schema::from_arrow(&batch().schema()).unwrap();
        let shown: String = segment.chars().take(60).collect();
        match Task::parse(Form::Segment, segment.as_bytes()).and_then(|task| task.bind(&schema)) {
            Ok(query) => drop(Execution::new(query, &schema).unwrap()),
            Err(QueryError::Format(error)) => panic!("{shown}: {error}"),
            Err(error) => assert!(error.to_string().len() < 1000, "{shown}: {error}"),
        }
    }
    for sql in [
        format!("SELECT * FROM {}tab{}", "(".repeat(40), ")".repeat(40)),
        format!("SELECT {}1{} FROM tab", "(".repeat(35), ")".repeat(35)),
        format!("SELECT * FROM tab WHERE n IN {}SELECT 1", "(".repeat(30)),
        format!("{}SELECT 1", "WITH x AS (".repeat(500)),
        "SELECT ".to_owned() + &"a.".repeat(3000) + "b FROM tab",
        "SELECT ".to_owned() + &"n, ".repeat(20_000) + "n FROM tab",
    ] {
        assert!(Task::parse(Form::Sql, sql.as_bytes()).is_err() || sql.len() < 200 || sql.contains("n, "));
    }
}

// A connection's thread may have little of its stack left; what is within the limits must be parsed there, too, and walked, and dropped.
#[test]
#[expect(clippy::disallowed_methods, reason = "the stack of a thread is what is tested")]
fn long_chains_are_parsed_on_a_small_stack() {
    let chains = |count: usize| {
        [
            format!("n{}", " + n".repeat(count)),
            format!("n = 1{}", " AND n = 1".repeat(count)),
            format!("{}n = 1", "NOT ".repeat(count)),
            format!("{}n{} = 1", "(".repeat(count), ")".repeat(count)),
            format!("n = {}1", "- ".repeat(count)),
        ]
    };
    let parse = move || {
        let schema = Schema::from_arrow(&batch().schema()).unwrap();
        let mut parsed = 0;
        for predicate in [5, 20, 35, 400, 1000, 2000].into_iter().flat_map(chains) {
            let sql = format!("SELECT n FROM tab WHERE {predicate}");
            let task = Task::parse(Form::Sql, sql.as_bytes());
            let whole = WholeQuery::parse(&sql);
            let segment = Task::segment("tab", &predicate);
            assert!(whole.is_ok() || segment.is_err(), "{sql}");
            let facts = [TableFacts { name: "tab".to_owned(), schema: schema.clone(), rows: 10 }];
            let _ = whole.and_then(|whole| whole.split(&facts, PushPolicy { groups: true }));
            parsed += usize::from(task.is_ok() && segment.is_ok());
        }
        parsed
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(parse);
    assert!(thread.unwrap().join().unwrap() > 10);
}

// A task of 64 KiB can output a string once per row, or a column a thousand times, which would take gigabytes; Arrow's offsets end at two.
#[test]
fn texts_that_are_repeated_have_a_limit() {
    const ROWS: usize = 65_536;
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| "x".repeat(300))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    let run = |sql: &str| {
        let query = Task::parse(Form::Sql, sql.as_bytes()).unwrap().bind(&schema).unwrap();
        let mut execution = Execution::new(query, &schema).unwrap();
        let columns = batch.project(execution.columns()).unwrap();
        execution.push(&columns).and_then(|_| execution.finish()).map(|_| execution.work().bytes_out)
    };
    let long = "y".repeat(20_000);
    for sql in [
        format!("SELECT n, '{long}' FROM tab"),
        format!("SELECT CASE WHEN n % 2 = 0 THEN '{long}' ELSE 'z{long}' END FROM tab"),
        format!("SELECT count(*) FROM tab WHERE CASE WHEN n > 5 THEN '{long}' ELSE t END = 'a'"),
        format!("SELECT n, min('{long}') FROM tab GROUP BY n"),
        format!("SELECT t{} FROM tab", ", t".repeat(1000)),
    ] {
        match run(&sql) {
            Err(QueryError::Limit { .. }) => {}
            other => panic!("{}: {other:?}", &sql[..30]),
        }
    }
    assert!(run(&format!("SELECT '{long}', t FROM tab WHERE n < 100")).unwrap() > 2_000_000);
    assert!(run(&format!("SELECT CASE WHEN n = 7 THEN '{long}' ELSE t END FROM tab")).unwrap() > 19_000_000);
}

// A refusal must name the construct, so that the host can tell its user why it executes the query itself.
#[test]
fn refusals_name_the_construct() {
    for (sql, construct) in [
        ("SELECT * FROM a JOIN b ON a.x = b.x", "JOIN"),
        ("SELECT * FROM a, b", "JOIN"),
        ("SELECT sum(n) OVER () FROM a", "window function"),
        ("SELECT * FROM a WHERE n IN (SELECT 1)", "sub-query"),
        ("SELECT * FROM (SELECT 1)", "sub-query"),
        ("SELECT DISTINCT n FROM a", "DISTINCT"),
        ("SELECT count(DISTINCT n) FROM a", "DISTINCT"),
        ("SELECT n FROM a UNION SELECT n FROM a", "UNION"),
        ("WITH x AS (SELECT 1) SELECT * FROM x", "sub-query"),
        ("SELECT substr(t, 1, 2) FROM a", "SUBSTRING"),
        ("SELECT upper(t) FROM a", "function upper"),
        ("SELECT EXTRACT(year FROM t) FROM a", "EXTRACT"),
        ("SELECT * FROM a WHERE t ILIKE 'x'", "ILIKE"),
        ("SELECT * FROM a LIMIT 5 OFFSET 5", "OFFSET"),
        ("DELETE FROM a", "DELETE"),
        ("SELECT 1", "SELECT without FROM"),
        ("SELECT t || 'x' FROM a", "operator ||"),
    ] {
        match Task::parse(Form::Sql, sql.as_bytes()) {
            Err(QueryError::Refused(refusal)) => assert_eq!(refusal.construct, construct, "{sql}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

// Any Arrow library must be able to read a result, with or without rows.
#[test]
fn results_come_back_from_their_bytes() {
    let batch = batch();
    for batches in [vec![], vec![batch.clone()], vec![batch.slice(3, 50), batch.clone()]] {
        let bytes = ipc::encode(&batch.schema(), &batches).unwrap();
        assert_eq!(ipc::decode(&bytes).unwrap(), batches);
        let mut random = Rng::new(1).stream("ipc");
        for _ in 0..200 {
            let _ = ipc::decode(&bytes[..random.below(bytes.len() as u64) as usize]);
        }
    }
}
