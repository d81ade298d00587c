//! Tables and queries, by a driver: what is loaded is found, whatever way a task goes; what hosts send that none should; what happens
//! when the drive is reset, the namespace is deleted or the power is cut in the middle.
//!
//! What queries mean is `byteway-query`'s to test, what a store of tables survives is `byteway-tables`'s.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod hostile;

use crate::fixture::Bench;
use byteway_clock::{Clock, Delay, Executor};
use byteway_device::{CsdPolicy, DriveConfig, NamespaceConfig};
use byteway_host::{
    Driver, DriverConfig, IoBuffer, IoError, Method, Port, QueueConfig, Rules, TablesClient, TablesConfig,
    TablesError,
};
use byteway_query::rows::numbered;
use byteway_query::{Form, RecordBatch, Schema, Task, display, ipc};
use byteway_testkit::{SmallWorld, drive_config};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::csd::{self, Problem};
use byteway_world::PoweredDrive;

/// Units of 4 KiB of the namespace of tables, which is the only one.
const UNITS: u64 = 8192;
const NSID: u32 = 1;
const TIMEOUT: Delay = Delay::from_ms(50);

fn config() -> DriveConfig {
    let mut config = drive_config();
    config.namespaces = vec![NamespaceConfig::tables(UNITS)];
    let methods = Methods::new().with_inline(true).with_piggyback(true).with_piggyback_pipelined(true);
    config.transfer = Bench::offering(methods.with_reassembly(true)).drive.transfer;
    config.csd = Some(CsdPolicy {
        cursors_max: 3,
        uploads_max: 2,
        timeout: TIMEOUT,
        group_rows: 1000,
        buffer_bytes: 64 << 10,
        upload_bytes_max: 4 << 20,
        ..CsdPolicy::default()
    });
    config
}

fn schema() -> Schema {
    Schema::from_arrow(&numbered(0, 1).schema()).unwrap()
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    ipc::encode(&batches[0].schema(), batches).unwrap()
}

/// A client, and a buffer of its.
struct Pair {
    driver: Driver,
    client: TablesClient,
    buffer: IoBuffer,
}

async fn pair(driver: &Driver, method: Method) -> Pair {
    assert_eq!(driver.namespaces_of(csd::CSI).await.unwrap(), [NSID]);
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let config = TablesConfig::new(Rules::only(method), 128 << 10);
    driver.enable_methods(&queue, config.methods()).await.unwrap();
    let client = TablesClient::new(queue, NSID, &config);
    Pair { driver: driver.clone(), buffer: client.buffer().unwrap(), client }
}

impl Pair {
    async fn load(&mut self, name: &str, first: i64, count: i64) -> u32 {
        let table = self.client.create(&mut self.buffer, name, &schema().to_bytes()).await.unwrap();
        let total =
            self.client.append(&mut self.buffer, table, &stream(&[numbered(first, count)])).await.unwrap();
        assert_eq!(total, count as u64);
        table
    }

    async fn ask(&mut self, form: Form, payload: &[u8]) -> Result<Vec<Vec<String>>, TablesError> {
        let mut bytes = Vec::new();
        match self.client.query(&mut self.buffer, form.code(), payload, &mut bytes).await {
            Ok(()) => Ok(texts(&ipc::decode(&bytes).unwrap())),
            Err(IoError::Client(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn sql(&mut self, sql: &str) -> Result<Vec<Vec<String>>, TablesError> {
        self.ask(Form::Sql, sql.as_bytes()).await
    }

    async fn problem(&mut self, sql: &str) -> Problem {
        match self.sql(sql).await {
            Err(TablesError::Task { problem, words }) => {
                assert!(!words.is_empty());
                problem
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

fn texts(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let row = |batch: &RecordBatch, row| {
        let text = |column| display::text(column, row).unwrap_or_else(|| "NULL".to_owned());
        batch.columns().iter().map(text).collect()
    };
    batches
        .iter()
        .flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>())
        .collect()
}

fn driven<T: 'static>(test: impl AsyncFnOnce(Driver, &PoweredDrive) -> T + 'static) -> T {
    SmallWorld::of(config()).run_driven(DriverConfig::default(), test)
}

#[track_caller]
fn status<T: std::fmt::Debug>(result: Result<T, IoError<TablesError>>) -> Status {
    match result {
        Err(IoError::Status(status)) => status.without_flags(),
        other => panic!("{other:?}"),
    }
}

// A task is bytes: whichever way it goes to the drive, and however it says what it asks, the rows are the same.
#[test]
fn every_method_and_form_asks_the_same() {
    driven(async |driver, _| {
        let expected: Vec<Vec<String>> =
            [11, 12, 13, 14].iter().map(|n| vec![n.to_string(), format!("row {n}")]).collect();
        pair(&driver, Method::Prp).await.load("numbers", 0, 5000).await;
        let methods = [
            Method::Prp,
            Method::Inline,
            Method::Piggyback,
            Method::PiggybackPipelined,
            Method::InlineReassembly,
        ];
        for method in methods {
            let mut pair = pair(&driver, method).await;
            let sql = "SELECT n, t FROM numbers WHERE n BETWEEN 11 AND 14";
            assert_eq!(pair.sql(sql).await.as_ref(), Ok(&expected), "{method:?}");
            let segment = b"numbers n > 10 AND n < 15";
            assert_eq!(pair.ask(Form::Segment, segment).await.as_ref(), Ok(&expected), "{method:?}");
            let task = Task::parse(Form::Sql, sql.as_bytes()).unwrap();
            let compact = Task::compact(task.statement(), None).unwrap();
            assert_eq!(
                pair.ask(Form::Compact, compact.to_bytes()).await.as_ref(),
                Ok(&expected),
                "{method:?}"
            );
            let counts = pair.client.counts().named();
            let by: Vec<&str> =
                counts.iter().filter(|(_, count)| *count > 0).map(|(name, _)| *name).collect();
            assert_eq!(by, [method.name()], "all three went by the method");
        }
    });
}

// Lists, row groups and columns must match the loaded rows: a host may read them itself.
#[test]
fn a_table_can_be_read_column_by_column() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        let table = pair.load("numbers", 0, 2500).await;
        pair.load("others", 7, 10).await;
        let all = pair.client.list(&mut pair.buffer).await.unwrap();
        let named: Vec<_> = all.iter().map(|table| (table.name.as_str(), table.rows, table.groups)).collect();
        assert_eq!(named, [("numbers", 2500, 3), ("others", 10, 1)]);
        assert_eq!(Schema::from_bytes(&all[0].schema).unwrap(), schema());
        let groups = pair.client.groups(&mut pair.buffer, table).await.unwrap();
        assert_eq!(groups.iter().map(|group| group.rows).collect::<Vec<_>>(), [1000, 1000, 500]);
        let mut sum = 0;
        for (number, record) in groups.iter().enumerate() {
            let meta = byteway_query::GroupMeta::from_bytes(&schema(), &record.meta).unwrap();
            let (offset, bytes) = meta.ranges(&[0])[0];
            let mut chunk = Vec::new();
            let place = ((table, number as u32), (offset, u64::from(bytes)));
            pair.client.read(&mut pair.buffer, place.0, place.1, &mut chunk).await.unwrap();
            let column =
                byteway_query::group::decode(&schema(), 0, &meta, &chunk, &mut Default::default()).unwrap();
            use arrow_array::cast::AsArray;
            sum += column.as_primitive::<arrow_array::types::Int64Type>().values().iter().sum::<i64>();
        }
        assert_eq!(sum, (0..2500).sum::<i64>());
        let found = pair.sql("SELECT SUM(n), COUNT(t), COUNT(*) FROM numbers").await.unwrap();
        assert_eq!(found, [[sum.to_string(), "2250".to_owned(), "2500".to_owned()]]);
    });
}

// A task that can't be executed must say why, of which kind that is, and leave the drive as it was.
#[test]
fn what_is_wrong_with_a_task_is_said() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 100).await;
        assert_eq!(pair.problem("SELEC").await, Problem::Malformed);
        assert_eq!(pair.problem("SELECT nothing FROM numbers").await, Problem::Malformed);
        assert_eq!(pair.problem("SELECT n + t FROM numbers").await, Problem::Malformed);
        assert_eq!(pair.problem("SELECT n FROM nowhere").await, Problem::NoTable);
        assert_eq!(pair.problem("SELECT n FROM numbers JOIN others ON true").await, Problem::Refused);
        assert_eq!(pair.problem("SELECT n + 9223372036854775807 FROM numbers").await, Problem::Execution);
        assert_eq!(
            pair.problem(&format!("SELECT n FROM numbers WHERE {}n > 1", "NOT ".repeat(3000))).await,
            Problem::Execution
        );
        let long = format!("SELECT n FROM numbers WHERE n IN (1{})", ",2".repeat(33_000));
        assert_eq!(
            status(pair.client.task(&mut pair.buffer, 0, long.as_bytes()).await),
            Status::INVALID_FIELD
        );
        assert_eq!(status(pair.client.task(&mut pair.buffer, 9, b"numbers").await), Status::INVALID_FIELD);
        assert!(pair.ask(Form::Segment, &[0xff; 7]).await.is_err());
        assert!(pair.ask(Form::Compact, &[0x17; 700]).await.is_err());
        assert!(pair.ask(Form::Sql, b"").await.is_err());
        assert_eq!(pair.sql("SELECT COUNT(*) FROM numbers").await.unwrap(), [["100"]]);
        assert!(powered.drive.controller.is_quiet());
    });
}

// Names, schemas and rows that are none, tables that are not there: each gets a status, and nothing is made of it.
#[test]
fn what_is_wrong_with_a_table_is_refused() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        let bytes = schema().to_bytes();
        let table = pair.load("numbers", 0, 100).await;
        let Pair { client, buffer, .. } = &mut pair;
        for (name, schema) in [("numbers", &bytes[..]), ("", &bytes[..]), ("x", &bytes[..5]), ("y", &[][..])]
        {
            assert_eq!(status(client.create(buffer, name, schema).await), Status::INVALID_FIELD, "{name:?}");
        }
        let whole = stream(&[numbered(0, 100)]);
        for cut in [1, 8, 100, whole.len() / 2] {
            assert_eq!(
                status(client.append(buffer, table, &whole[..cut]).await),
                Status::INVALID_FIELD,
                "{cut}"
            );
        }
        for index in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[index] ^= 0x55;
            // It may be other rows of the same columns; anything else is refused.
            if let Err(error) = client.append(buffer, table, &damaged).await {
                assert_eq!(status::<u64>(Err(error)), Status::INVALID_FIELD, "byte {index}");
            }
        }
        let other = numbered(0, 10).project(&[1]).unwrap();
        assert_eq!(status(client.append(buffer, table, &stream(&[other])).await), Status::INVALID_FIELD);
        assert_eq!(status(client.append(buffer, 77, &whole).await), Status::INVALID_FIELD);
        assert_eq!(status(client.drop_table(77).await), Status::INVALID_FIELD);
        assert_eq!(status(client.groups(buffer, 77).await), Status::INVALID_FIELD);
        assert_eq!(
            status(client.read(buffer, (table, 9999), (0, 1), &mut Vec::new()).await),
            Status::INVALID_FIELD
        );
        let beyond = client.read(buffer, (table, 0), (u64::MAX - 1, 1), &mut Vec::new()).await;
        assert_eq!(status(beyond), Status::INVALID_FIELD);
        client.drop_table(table).await.unwrap();
        assert!(client.list(buffer).await.unwrap().is_empty());
    });
}

// Cursors hold memory: there are few, one that is not used ends, one that is closed is no more, and each is its reader's alone.
#[test]
fn cursors_are_few_and_end() {
    driven(async |driver, _| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 30_000).await;
        let Pair { client, buffer, driver } = &mut pair;
        let sql = b"SELECT * FROM numbers";
        let mut cursors = Vec::new();
        for _ in 0..3 {
            cursors.push(client.task(buffer, 0, sql).await.unwrap().0);
        }
        assert_eq!(status(client.task(buffer, 0, sql).await), Status::COMMAND_SEQUENCE_ERROR);
        client.cancel(cursors[0]).await.unwrap();
        assert_eq!(status(client.cancel(cursors[0]).await), Status::INVALID_FIELD);
        assert_eq!(status(client.fetch(buffer, cursors[0]).await), Status::INVALID_FIELD);
        assert_eq!(status(client.fetch(buffer, 12_345).await), Status::INVALID_FIELD);
        // Part by part: more than the drive buffers, and than a command brings.
        let (mut bytes, mut part) = (Vec::new(), Vec::new());
        loop {
            let (fetched, _) = client.fetch(buffer, cursors[1]).await.unwrap();
            client.take(buffer, fetched.bytes, &mut part).unwrap();
            bytes.extend_from_slice(&part);
            if fetched.is_end {
                break;
            }
        }
        assert!(bytes.len() > 128 << 10);
        assert_eq!(texts(&ipc::decode(&bytes).unwrap()).len(), 30_000);
        assert_eq!(status(client.fetch(buffer, cursors[1]).await), Status::INVALID_FIELD);
        driver.clock().sleep(TIMEOUT + Delay::from_ms(1)).await;
        assert_eq!(status(client.fetch(buffer, cursors[2]).await), Status::INVALID_FIELD);
        assert!(client.task(buffer, 0, sql).await.is_ok());
    });
}

// A reset ends cursors and uploads, at any moment of a query; the tables stay, and what is asked afterwards is answered.
#[test]
fn a_reset_ends_queries_and_leaves_tables() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 20_000).await;
        for moment in 0..40 {
            let cursor = pair
                .client
                .task(&mut pair.buffer, 0, b"SELECT * FROM numbers WHERE n % 3 = 1")
                .await
                .unwrap()
                .0;
            driver.clock().sleep(Delay::from_us(moment * 7)).await;
            driver.reset().await.unwrap();
            assert_eq!(status(pair.client.fetch(&mut pair.buffer, cursor).await), Status::INVALID_FIELD);
            let count = pair.sql("SELECT COUNT(*) FROM numbers").await.unwrap();
            assert_eq!(count, [["20000"]], "after {moment}");
        }
        assert!(powered.drive.controller.is_quiet());
    });
}

// A command that waits for a result must end with its cursor: one that never ended would hold up the reset, and with it the drive.
#[test]
fn a_result_that_is_waited_for_ends_with_a_reset() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver, Method::Prp).await;
        pair.load("numbers", 0, 20_000).await;
        let mut lost = 0;
        for moment in 0..60 {
            let cursor = pair.client.task(&mut pair.buffer, 0, b"SELECT * FROM numbers").await.unwrap().0;
            let (clock, resetting) = (driver.clock().clone(), driver.clone());
            driver.clock().spawn("reset", async move {
                clock.sleep(Delay::from_us(moment * 5)).await;
                resetting.reset().await.unwrap();
            });
            loop {
                match pair.client.fetch(&mut pair.buffer, cursor).await {
                    Ok((fetched, _)) if fetched.is_end => break,
                    Ok(_) => {}
                    Err(_) => {
                        lost += 1;
                        break;
                    }
                }
            }
            driver.clock().sleep(Delay::from_ms(1)).await;
            assert_eq!(
                pair.sql("SELECT COUNT(*) FROM numbers").await.unwrap(),
                [["20000"]],
                "after {moment}"
            );
        }
        assert!(lost > 10, "{lost} were in flight");
        assert!(powered.drive.controller.is_quiet());
    });
}

// Acknowledged changes survive any power cut, and an append in parts is complete or absent.
#[test]
fn an_append_is_there_whole_or_not_at_all() {
    let life = async |port: Port, clock: Clock| {
        let driver = Driver::attach(port, DriverConfig::default()).await.unwrap();
        let mut pair = pair(&driver, Method::Prp).await;
        let there = pair.client.list(&mut pair.buffer).await.unwrap();
        let table = match there.first() {
            Some(table) => table.table,
            None => pair.client.create(&mut pair.buffer, "numbers", &schema().to_bytes()).await.unwrap(),
        };
        let found = pair.sql("SELECT COUNT(*), MIN(n), MAX(n) FROM numbers").await.unwrap();
        let had: i64 = found[0][0].parse().unwrap();
        assert_eq!(had % 16_000, 0, "{found:?}");
        if had > 0 {
            assert_eq!(found[0], [had.to_string(), "0".to_owned(), (had - 1).to_string()]);
        }
        // Longer than a command transfers.
        let stream = stream(&[numbered(had, 8000), numbered(had + 8000, 8000)]);
        assert!(stream.len() > 128 << 10);
        pair.client.append(&mut pair.buffer, table, &stream).await.unwrap();
        drop(clock);
    };
    let mut medium = None;
    let mut most = 0;
    for cut in (20..6000).step_by(83) {
        let executor = Executor::new();
        let world = SmallWorld { drive: config(), medium, ..SmallWorld::default() };
        let powered = world.power_on(executor.clock());
        let (port, clock) = (Port::Link(powered.host.clone()), executor.clock().clone());
        let ran = executor.run_cut(async move { life(port, clock).await }, cut);
        ran.unwrap_or_else(|stalled| panic!("cut at {cut}: {stalled}"));
        let rows = powered.drive.controller.tables_usage().map_or(0, |usage| usage.rows);
        most = most.max(rows);
        medium = Some(powered.power_off());
    }
    assert!(most >= 16_000 * 3, "{most}: some appends were made");
}
