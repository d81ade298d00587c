//! Invalid commands and payloads about tables and queries: each gets a definite status or problem, and the
//! drive continues to work.

use super::*;
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringArray};
use byteway_host::{QueuePair, Rules};
use byteway_wire::nvme::vendor::csd::{Append, Fetch};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A drive with two namespaces of tables.
fn config_of_two() -> DriveConfig {
    let mut config = config();
    config.namespaces = vec![NamespaceConfig::tables(UNITS / 2), NamespaceConfig::tables(UNITS / 2)];
    config
}

async fn queue(driver: &Driver) -> QueuePair {
    driver.create_queue_pair(QueueConfig::new(64)).await.unwrap()
}

/// A client for a namespace, with a buffer of `bytes` bytes.
async fn client(driver: &Driver, nsid: u32, bytes: u32) -> (TablesClient, IoBuffer) {
    let config = TablesConfig::new(Rules::only(Method::Prp), bytes);
    let client = TablesClient::new(queue(driver).await, nsid, &config);
    let buffer = client.buffer().unwrap();
    (client, buffer)
}

/// The rest of a cursor's result, and how many fetches it took.
async fn drain(client: &TablesClient, buffer: &mut IoBuffer, cursor: u32) -> (Vec<u8>, u32) {
    let (mut bytes, mut part, mut fetches) = (Vec::new(), Vec::new(), 0);
    loop {
        let (fetched, _) = client.fetch(buffer, cursor).await.unwrap();
        assert_eq!(fetched.problem, None);
        client.take(buffer, fetched.bytes, &mut part).unwrap();
        bytes.extend_from_slice(&part);
        fetches += 1;
        if fetched.is_end {
            return (bytes, fetches);
        }
    }
}

// A value that does not fit ends a query, whatever operation made it, also in the middle of a result; the next one is answered.
#[test]
fn arithmetic_that_fails_ends_its_query_alone() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 5000).await;
        for sql in [
            "SELECT n // 0 FROM numbers",
            "SELECT n % (n - n) FROM numbers",
            "SELECT 100 // (n - 4500) FROM numbers",
            "SELECT n FROM numbers WHERE n * 9223372036854775807 > 1",
            "SELECT -(n - 9223372036854775807 - 1) FROM numbers WHERE n = 0",
            "SELECT CAST(n AS DECIMAL(38,0)) * CAST(10000000000000000000000000000000000000 AS DECIMAL(38,0)) FROM numbers",
            "SELECT CAST(n AS TINYINT) FROM numbers",
        ] {
            assert_eq!(pair.problem(sql).await, Problem::Execution, "{sql}");
        }
        // Not evaluated for a row that an earlier condition rules out.
        let found = pair.sql("SELECT COUNT(*) FROM numbers WHERE n <> 0 AND 4999 // n = 1").await.unwrap();
        assert_eq!(found, [["2500"]]);
        assert!(powered.drive.controller.is_quiet());
    });
}

// The parser must not take the drive's stack, nor a list its time: the longest task that there may be is executed, one byte more is
// refused, and depth is.
#[test]
fn the_longest_and_the_deepest_tasks() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 3000).await;
        let list: Vec<String> = (0..10_000).step_by(2).map(|n| n.to_string()).collect();
        let mut long = format!("SELECT COUNT(*) FROM numbers WHERE n IN ({})", list.join(","));
        long.push_str(&" ".repeat((64 << 10) - long.len()));
        assert_eq!(pair.sql(&long).await.unwrap(), [["1500"]]);
        long.push(' ');
        let sent = pair.client.task(&mut pair.buffer, Form::Sql.code(), long.as_bytes()).await;
        assert_eq!(status(sent), Status::INVALID_FIELD);
        let nested = |open: &str, close: &str, times: usize| {
            format!("numbers {}n = 1{}", open.repeat(times), close.repeat(times))
        };
        for deep in [
            nested("(", ")", 30_000),
            nested("NOT ", "", 15_000),
            nested("CASE WHEN ", " THEN TRUE END", 2500),
            nested("n + (", ")", 10_000),
            format!("numbers n IN ({}1)", "1,".repeat(32_000)),
            format!("numbers t LIKE '{}'", "%a".repeat(20_000)),
        ] {
            match pair.ask(Form::Segment, deep.as_bytes()).await {
                Err(TablesError::Task { problem: Problem::Execution | Problem::Malformed, .. }) => {}
                other => panic!("{}: {other:?}", &deep[..40]),
            }
        }
        assert_eq!(pair.sql("SELECT COUNT(*) FROM numbers").await.unwrap(), [["3000"]]);
        assert!(powered.drive.controller.is_quiet());
    });
}

// A host that asks whether a task could be done must hear of everything that is wrong with it, of nothing that only its execution
// shows, and have no cursor to close.
#[test]
fn a_task_that_is_only_checked_opens_no_cursor() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 100).await;
        let Pair { client, buffer, .. } = &mut pair;
        for _ in 0..3 {
            for (sql, expected) in [
                ("SELECT n FROM numbers WHERE n > 5", None),
                ("SELECT n // 0 FROM numbers", None),
                ("SELEC", Some(Problem::Malformed)),
                ("SELECT nothing FROM numbers", Some(Problem::Malformed)),
                ("SELECT n + t FROM numbers", Some(Problem::Malformed)),
                ("SELECT n FROM nowhere", Some(Problem::NoTable)),
                ("SELECT DISTINCT n FROM numbers", Some(Problem::Refused)),
            ] {
                let (problem, _) = client.check(buffer, Form::Sql.code(), sql.as_bytes()).await.unwrap();
                assert_eq!(problem, expected, "{sql}");
            }
            assert_eq!(status(client.check(buffer, 7, b"numbers").await), Status::INVALID_FIELD);
        }
        // All three cursors can be had.
        for _ in 0..3 {
            client.task(buffer, 0, b"SELECT * FROM numbers").await.unwrap();
        }
        assert_eq!(status(client.task(buffer, 0, b"SELECT 1").await), Status::COMMAND_SEQUENCE_ERROR);
        // A check needs none.
        assert_eq!(client.check(buffer, 0, b"SELECT n FROM numbers").await.unwrap().0, None);
    });
}

// A result may be longer than any buffer: it comes in as many parts as it takes, of the same bytes; a buffer of none, or of more than a
// command transfers, is an error that leaves the cursor.
#[test]
fn a_result_that_is_longer_than_the_buffer() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 8000).await;
        let sql = b"SELECT * FROM numbers WHERE n % 3 <> 1";
        let mut whole = Vec::new();
        pair.client.query(&mut pair.buffer, 0, sql, &mut whole).await.unwrap();
        for bytes in [64, 4096, 10_000] {
            let (client, mut buffer) = client(&driver, NSID, bytes).await;
            let (cursor, _) = client.task(&mut buffer, 0, sql).await.unwrap();
            for wrong in [0, 1 << 30] {
                let sqe = Fetch { cursor, buffer_bytes: wrong }.sqe(0, NSID);
                let done = client.queue().execute(sqe).await.unwrap();
                assert_eq!(done.status().without_flags(), Status::INVALID_FIELD, "a buffer of {wrong}");
            }
            let (parts, fetches) = drain(&client, &mut buffer, cursor).await;
            assert!(parts == whole, "the same bytes in parts of {bytes}");
            assert_eq!(fetches, (whole.len() as u32).div_ceil(bytes));
        }
    });
}

// A cursor belongs to its namespace, and to one command at a time: results delivered to another command are
// lost to their owner, or, across namespaces, disclosed.
#[test]
fn a_cursor_is_used_by_one_command_of_its_namespace() {
    SmallWorld::of(config_of_two()).run_driven(DriverConfig::default(), async |driver, powered| {
        let mut of_one = client(&driver, 1, 128 << 10).await;
        let table = of_one.0.create(&mut of_one.1, "numbers", &schema().to_bytes()).await.unwrap();
        of_one.0.append(&mut of_one.1, table, &stream(&[numbered(0, 20_000)])).await.unwrap();
        let (other_queue, mut other_buffer) = client(&driver, 1, 128 << 10).await;
        let (of_two, mut two_buffer) = client(&driver, 2, 128 << 10).await;
        let (cursor, _) = of_one.0.task(&mut of_one.1, 0, b"SELECT * FROM numbers").await.unwrap();
        // Of the other namespace, and of none.
        assert_eq!(status(of_two.fetch(&mut two_buffer, cursor).await), Status::INVALID_FIELD);
        assert_eq!(status(of_two.cancel(cursor).await), Status::INVALID_FIELD);
        assert_eq!(status(of_two.task(&mut two_buffer, 9, b"x").await), Status::INVALID_FIELD);
        let (nowhere, mut nowhere_buffer) = client(&driver, 9, 4096).await;
        // Inactive, not invalid: there may be more namespaces than there are (NVMe Base 2.1, 3.2.1.4).
        assert_eq!(status(nowhere.fetch(&mut nowhere_buffer, cursor).await), Status::INVALID_FIELD);
        // While a fetch waits, another gets nothing, and does not disturb it.
        let (first, mut first_buffer) = client(&driver, 1, 128 << 10).await;
        let fetched = Rc::new(RefCell::new(None));
        let result = fetched.clone();
        driver.clock().spawn("fetch", async move {
            let done = first.fetch(&mut first_buffer, cursor).await;
            let mut bytes = Vec::new();
            if let Ok((fetched, _)) = &done {
                first.take(&first_buffer, fetched.bytes, &mut bytes).unwrap();
            }
            result.replace(Some(done.map(|_| bytes)));
        });
        driver.clock().sleep(Delay::from_us(10)).await;
        assert!(fetched.borrow().is_none(), "it is outstanding");
        let disturbed = other_queue.fetch(&mut other_buffer, cursor).await;
        assert_eq!(status(disturbed), Status::COMMAND_SEQUENCE_ERROR);
        assert_eq!(status(other_queue.cancel(cursor).await), Status::COMMAND_SEQUENCE_ERROR);
        driver.clock().sleep(Delay::from_ms(20)).await;
        let mut bytes = fetched.take().unwrap().unwrap();
        // The result continues over any queue.
        bytes.extend(drain(&other_queue, &mut other_buffer, cursor).await.0);
        assert_eq!(texts(&ipc::decode(&bytes).unwrap()).len(), 20_000);
        assert_eq!(status(other_queue.cancel(cursor).await), Status::INVALID_FIELD);
        assert_eq!(status(other_queue.fetch(&mut other_buffer, cursor).await), Status::INVALID_FIELD);
        assert!(powered.drive.controller.is_quiet());
    });
}

// A table that is dropped while it is read: the query has the rows of when it began, or the next owner's units are read. They are
// free when the cursor is closed.
#[test]
fn a_table_that_is_dropped_under_a_cursor() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        let table = pair.load("numbers", 0, 30_000).await;
        let Pair { client, buffer, .. } = &mut pair;
        let (cursor, _) = client.task(buffer, 0, b"SELECT * FROM numbers").await.unwrap();
        let used = || powered.drive.controller.tables_usage().unwrap().used_bytes;
        let before = used();
        client.drop_table(table).await.unwrap();
        assert_eq!(used(), before, "they are still read");
        assert_eq!(pair.problem("SELECT n FROM numbers").await, Problem::NoTable);
        // Another table of that name, whose rows the query must not have.
        let again = pair.load("numbers", 1_000_000, 30_000).await;
        let Pair { client, buffer, .. } = &mut pair;
        let rows = texts(&ipc::decode(&drain(client, buffer, cursor).await.0).unwrap());
        let numbers = rows.iter().map(|row| row[0].parse::<i64>().unwrap());
        assert!(numbers.eq(0..30_000));
        // With the next change the units are free; and those of a cursor that is cancelled.
        client.drop_table(again).await.unwrap();
        driver.clock().sleep(Delay::from_ms(1)).await; // they are deallocated behind the answer
        assert_eq!(used(), 0);
        let table = pair.load("numbers", 0, 30_000).await;
        let Pair { client, buffer, .. } = &mut pair;
        let (cursor, _) = client.task(buffer, 0, b"SELECT * FROM numbers").await.unwrap();
        client.drop_table(table).await.unwrap();
        client.cancel(cursor).await.unwrap();
        let table = client.create(buffer, "next", &schema().to_bytes()).await.unwrap();
        client.drop_table(table).await.unwrap();
        driver.clock().sleep(Delay::from_ms(1)).await;
        assert_eq!(used(), 0);
    });
}

/// The bytes of `find` in `bytes`, replaced.
fn patched(bytes: &[u8], find: &[u8], with: &[u8]) -> Vec<u8> {
    let at = bytes.windows(find.len()).position(|window| window == find).expect("it is there");
    let mut bytes = bytes.to_vec();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

// Rows that are not what their stream says become rows that no reader expects: each is refused, and the table stays as it was.
#[test]
fn an_append_whose_rows_lie() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        let table = pair.load("numbers", 0, 100).await;
        let of = |n: ArrayRef, t: ArrayRef, nullable: bool| {
            let columns = [("n", n, nullable), ("t", t, true)];
            stream(&[RecordBatch::try_from_iter_with_nullable(columns).unwrap()])
        };
        let text = || -> ArrayRef { Arc::new(StringArray::from(vec![Some("a"), None])) };
        let rows = stream(&[numbered(1, 4)]);
        let le = |values: [i32; 4]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let swapped: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        for (what, lying) in [
            ("nulls where there may be none", of(nulls, text(), true)),
            ("another type", of(narrow, text(), false)),
            ("columns in another order", of(text(), swapped, true)),
            ("text that is no UTF-8", patched(&rows, b"row 1", b"row \xff")),
            ("a text that ends before it begins", patched(&rows, &le([0, 5, 10, 15]), &le([0, 15, 10, 15]))),
            ("a text beyond its buffer", patched(&rows, &le([0, 5, 10, 15]), &le([0, 5, 10, 1 << 30]))),
            ("bytes before the stream", [&[0; 8][..], &rows].concat()),
        ] {
            let appended = pair.client.append(&mut pair.buffer, table, &lying).await;
            assert_eq!(status(appended), Status::INVALID_FIELD, "{what}");
        }
        // No rows are rows, too.
        let none = stream(&[numbered(0, 0)]);
        assert_eq!(pair.client.append(&mut pair.buffer, table, &none).await.unwrap(), 100);
        let found = pair.sql("SELECT COUNT(*), MIN(n), MAX(n) FROM numbers").await.unwrap();
        assert_eq!(found, [["100", "0", "99"]]);
        assert_eq!(pair.client.append(&mut pair.buffer, table, &rows).await.unwrap(), 104);
    });
}

// Uploads hold memory: there are few, each has a longest, is its table's alone, and ends when it is not used.
#[test]
fn uploads_are_few_and_short() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        let table = pair.load("numbers", 0, 100).await;
        let other = pair.load("others", 0, 100).await;
        let Pair { client, buffer, .. } = &mut pair;
        let queue = client.queue().clone();
        // Without bytes, so without a pointer.
        let part = async |table: u32, upload: u32, bytes: u32| {
            let sqe = Append { bytes, upload, table, ends: false }.sqe(0, NSID);
            let done = queue.execute(sqe).await.unwrap();
            (done.status().without_flags(), done.dw0)
        };
        let (begun, first) = part(table, 0, 0).await;
        assert_eq!((begun, first > 0), (Status::SUCCESS, true));
        assert_eq!(part(other, first, 0).await.0, Status::INVALID_FIELD, "another table's");
        assert_eq!(part(table, first + 7, 0).await.0, Status::INVALID_FIELD, "no upload");
        assert_eq!(part(table, first, 0).await, (Status::SUCCESS, first), "it goes on");
        assert_eq!(part(table, 0, 0).await.0, Status::SUCCESS);
        assert_eq!(part(table, 0, 0).await.0, Status::COMMAND_SEQUENCE_ERROR, "a third");
        let rows = stream(&[numbered(100, 10)]);
        assert_eq!(status(client.append(buffer, table, &rows).await), Status::COMMAND_SEQUENCE_ERROR);
        driver.clock().sleep(TIMEOUT + Delay::from_ms(1)).await;
        assert_eq!(part(table, first, 0).await.0, Status::INVALID_FIELD, "it has ended");
        // Longer than an upload may be: it ends, and holds up no other.
        for _ in 0..3 {
            let long = vec![0xff; (4 << 20) + 1];
            assert_eq!(status(client.append(buffer, table, &long).await), Status::INVALID_FIELD);
        }
        assert_eq!(client.append(buffer, table, &rows).await.unwrap(), 110);
        assert!(powered.drive.controller.is_quiet());
    });
}

// Groups hold memory, and a query that makes one of each row would take all: it fails by name, and the next is answered.
#[test]
fn groups_of_a_query_have_a_limit() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 66_000).await;
        for by in ["n", "t", "n, t", "n % 65000, n"] {
            let sql = format!("SELECT COUNT(*) FROM numbers GROUP BY {by}");
            match by {
                // 59,400 texts and null.
                "t" => assert_eq!(pair.sql(&sql).await.unwrap().len(), 59_401),
                _ => assert_eq!(pair.problem(&sql).await, Problem::Execution, "{by}"),
            }
        }
        let found = pair.sql("SELECT n % 4, COUNT(*) FROM numbers GROUP BY n % 4 ORDER BY 1").await.unwrap();
        assert_eq!(found, [["0", "16500"], ["1", "16500"], ["2", "16500"], ["3", "16500"]]);
    });
}

// There are no more tables than a drive can list, nor rows than it has units.
#[test]
fn tables_and_rows_that_find_no_place() {
    let mut config = config();
    config.namespaces = vec![NamespaceConfig::tables(300)];
    config.csd.as_mut().unwrap().tables_max = 3;
    SmallWorld::of(config).run_driven(DriverConfig::default(), async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        let table = pair.load("numbers", 0, 100).await;
        let Pair { client, buffer, .. } = &mut pair;
        let bytes = schema().to_bytes();
        for name in ["second", "third"] {
            client.create(buffer, name, &bytes).await.unwrap();
        }
        assert_eq!(status(client.create(buffer, "fourth", &bytes).await), Status::CAPACITY_EXCEEDED);
        let rows = stream(&[numbered(0, 30_000)]);
        let mut count = 100;
        let full = loop {
            match client.append(buffer, table, &rows).await {
                Ok(total) => count = total,
                Err(error) => break error,
            }
        };
        assert_eq!(status::<u64>(Err(full)), Status::CAPACITY_EXCEEDED);
        assert!(count >= 30_100);
        let found = pair.sql("SELECT COUNT(*) FROM numbers").await.unwrap();
        assert_eq!(found, [[count.to_string()]], "none of what found no place");
        pair.client.drop_table(table).await.unwrap();
        pair.load("numbers", 0, 30_000).await;
    });
}
