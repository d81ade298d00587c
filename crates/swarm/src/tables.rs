//! Operations on tables. Those of one namespace are serialized, so that its expected state is known at any time. After a failed or
//! interrupted change it has one of two states, and the next operation determines which.
//!
//! Rows are numbered from 0 in the order of appends; a row's string is computed from its number.

use super::failure::{Failure, Kind};
use super::life::Life;
use super::plan::{Op, TableVerb};
use super::programs_oracle::ProgramsOracle;
use super::row_filter;
use super::tables_oracle::{State, TablesOracle, wrong};
use byteway_clock::Semaphore;
use byteway_host::{AnyIoError, IoBuffer, IoError, Lost, TablesClient, TablesError};
use byteway_query::{
    Form, RecordBatch, Schema, display, ipc,
    rows::{numbered, numbered_text},
};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::Problem;
use std::collections::BTreeMap;

fn name(table: u32) -> String {
    format!("t{table}")
}

/// Columns: a number, and a nullable string.
fn schema() -> Schema {
    Schema::from_arrow(&numbered(0, 1).schema()).expect("tables have such columns")
}

/// Performs an operation on a table namespace.
pub(super) async fn perform(
    (turn, oracle): (&Semaphore, &TablesOracle),
    programs: Option<(&Semaphore, &ProgramsOracle)>,
    client: &TablesClient,
    buffer: &mut IoBuffer,
    op: &Op,
) -> Result<(), AnyIoError> {
    let Op::Table { table, verb, .. } = op else { return Ok(()) };
    let _turn = turn.acquire(1).await;
    let numbers = look(oracle, client, buffer).await?;
    let there = oracle.known.borrow().get(table).copied();
    let change = |next: State| {
        oracle.other.replace(Some(next));
    };
    let mut next = oracle.known.borrow().clone();
    match (verb, there) {
        (TableVerb::Query(form), rows) => query(oracle, client, buffer, (*table, rows), *form).await,
        (TableVerb::Filter(slot), rows) => match programs {
            Some(programs) => {
                row_filter::filter(programs, client, buffer, *slot, (name(*table).as_str(), rows)).await
            }
            None => Ok(()),
        },
        (TableVerb::Drop, Some(_)) => {
            next.remove(table);
            change(next);
            let number = numbers.get(table).copied().unwrap_or(0);
            ended(oracle, client.drop_table(number).await.map_err(Into::into))
        }
        (TableVerb::Drop, None) => Ok(()),
        (TableVerb::Append(_), None) => {
            next.insert(*table, 0);
            change(next);
            ended(
                oracle,
                client
                    .create(buffer, &name(*table), &schema().to_bytes())
                    .await
                    .map(drop)
                    .map_err(Into::into),
            )
        }
        (TableVerb::Append(count), Some(rows)) => {
            next.insert(*table, rows + u64::from(*count));
            change(next);
            let half = i64::from(count.div_ceil(2));
            let first = rows as i64;
            let batches = [numbered(first, half), numbered(first + half, i64::from(*count) - half)];
            let stream =
                ipc::encode(&batches[0].schema(), &batches).map_err(|error| wrong(error.to_string()))?;
            let number = numbers.get(table).copied().unwrap_or(0);
            ended(oracle, client.append(buffer, number, &stream).await.map(drop).map_err(Into::into))
        }
    }
}

/// Ends a change: made, refused, or unknown.
fn ended(oracle: &TablesOracle, result: Result<(), AnyIoError>) -> Result<(), AnyIoError> {
    match &result {
        Ok(()) => {
            let next = oracle.other.take();
            next.into_iter().for_each(|next| _ = oracle.known.replace(next));
        }
        Err(IoError::Status(status)) if status.is(Status::CAPACITY_EXCEEDED) => _ = oracle.other.take(),
        Err(_) => {}
    }
    result
}

/// Queries the tables and their numbers of rows, and verifies them. Returns the table numbers.
async fn look(
    oracle: &TablesOracle,
    client: &TablesClient,
    buffer: &mut IoBuffer,
) -> Result<BTreeMap<u32, u32>, AnyIoError> {
    let listed = client.list(buffer).await?;
    let table = |name: &str| name.strip_prefix('t').and_then(|number| number.parse().ok());
    let mut found = State::new();
    let mut numbers = BTreeMap::new();
    for record in &listed {
        let table = table(&record.name).ok_or_else(|| wrong(format!("a table {:?}", record.name)))?;
        found.insert(table, record.rows);
        numbers.insert(table, record.table);
    }
    oracle.settle(&found)?;
    Ok(numbers)
}

/// Queries some rows of a table, and sums over all.
async fn query(
    oracle: &TablesOracle,
    client: &TablesClient,
    buffer: &mut IoBuffer,
    (table, rows): (u32, Option<u64>),
    form: u8,
) -> Result<(), AnyIoError> {
    let form = Form::from_code(form % 2).expect("there are two forms of text");
    let (table, rows) = (name(table), rows.map(|rows| rows as i64));
    // Some rows of each row group; or those around the middle, so that zone maps prune the row groups before and after.
    let there = rows.unwrap_or(0);
    let (predicate, numbers): (String, Vec<i64>) = match there % 2 {
        0 => ("n % 7 = 3".to_owned(), (3..there).step_by(7).collect()),
        _ => {
            let (first, end) = (there / 3, there - there / 3);
            (format!("n >= {first} AND n < {end}"), (first..end).collect())
        }
    };
    let some = match form {
        Form::Segment => format!("{table} {predicate}"),
        _ => format!("SELECT n, t FROM {table} WHERE {predicate}"),
    };
    let expected: Vec<Vec<Option<String>>> = numbers.into_iter().map(expected).collect();
    let mut bytes = Vec::new();
    let answer = client.query(buffer, form.code(), some.as_bytes(), &mut bytes).await;
    match (answer, rows) {
        (Err(IoError::Client(TablesError::Task { problem: Problem::NoTable, .. })), None) => return Ok(()),
        (Err(IoError::Client(TablesError::Task { problem: Problem::Media, .. })), _) => {
            return Err(IoError::Status(Status::UNRECOVERED_ERROR));
        }
        (Err(error), _) => return Err(error.into()),
        (Ok(()), None) => return Err(wrong(format!("{table} was queried although it does not exist"))),
        (Ok(()), Some(_)) => {}
    }
    let found = ipc::decode(&bytes).map(|batches| texts(&batches));
    let found = found.map_err(|error| wrong(format!("{table}: {error}")))?;
    if found != expected {
        let at = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        return Err(wrong(format!(
            "{table}: {} rows instead of {}, first difference: {at:?}",
            found.len(),
            expected.len()
        )));
    }
    oracle.verified.set(oracle.verified.get() + 1);
    Ok(())
}

/// The row with this number.
fn expected(row: i64) -> Vec<Option<String>> {
    vec![Some(row.to_string()), numbered_text(row)]
}

fn texts(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let of = |batch: &RecordBatch| -> Vec<Vec<Option<String>>> {
        let row = |row| batch.columns().iter().map(|column| display::text(column, row)).collect();
        (0..batch.num_rows()).map(row).collect()
    };
    batches.iter().flat_map(of).collect()
}

impl Life {
    /// Verifies all tables of a namespace with all their rows.
    pub(super) async fn look_at_tables(
        &self,
        oracle: &TablesOracle,
        client: &TablesClient,
        buffer: &mut IoBuffer,
    ) -> Result<(), Failure> {
        let _turn = self.tables_turn.acquire(1).await;
        let op = |table| Op::Table { namespace: client.nsid(), table, verb: TableVerb::Query(0) };
        if let Err(error) = look(oracle, client, buffer).await {
            return self.judge(None, &op(0), error);
        }
        let all: Vec<(u32, u64)> =
            oracle.known.borrow().iter().map(|(table, rows)| (*table, *rows)).collect();
        for (table, rows) in all {
            if let Err(error) = query(oracle, client, buffer, (table, Some(rows)), 0).await {
                self.judge(None, &op(table), error)?;
            }
        }
        Ok(())
    }

    /// Drops all tables, after which half of the namespace's capacity must be available, no matter how full it was and what happened.
    pub(super) async fn empty_tables(
        &self,
        oracle: &TablesOracle,
        client: &TablesClient,
        buffer: &mut IoBuffer,
    ) -> Result<(), Failure> {
        const ROWS: u32 = 4000;
        self.clock.timer(super::drive::CURSOR_TIMEOUT + super::drive::CURSOR_TIMEOUT).await; // cursors that retain dropped tables have expired
        let tables: Vec<u32> = oracle
            .known
            .borrow()
            .keys()
            .chain(oracle.other.borrow().iter().flat_map(|it| it.keys()))
            .copied()
            .collect();
        let drops = tables.into_iter().map(|table| (table, TableVerb::Drop));
        let append = (9999, TableVerb::Append(ROWS));
        for (table, verb) in drops.chain([append.clone(), append]) {
            let op = Op::Table { namespace: client.nsid(), table, verb };
            loop {
                match perform((&self.tables_turn, oracle), None, client, buffer, &op).await {
                    Ok(()) => break,
                    // A reset or abort that started before the end.
                    Err(IoError::Lost(Lost::Reset)) => {}
                    Err(IoError::Status(status)) if status.is(Status::ABORT_REQUESTED) => {}
                    Err(IoError::Status(status))
                        if status.is(Status::NAMESPACE_WRITE_PROTECTED) && self.is_read_only()
                            || status.is(Status::UNRECOVERED_ERROR) && self.run.reads_fail.get() =>
                    {
                        return Ok(());
                    }
                    Err(error) => {
                        return Err(Failure::new(
                            Kind::Error,
                            format!("emptying all tables, `{op}`: {error}"),
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
