//! Rows of a table filtered by a program, compared with the host's model of table and program.

use super::programs_oracle::{self as oracle, ProgramsOracle, Slot, wrong};
use byteway_clock::Semaphore;
use byteway_host::{AnyIoError, IoBuffer, IoError, TablesClient, TablesError};
use byteway_query::{Form, display, ipc};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{Filtered, Problem};

/// Queries the rows of a table that a program selects; `rows` is `None` if the table does not exist.
pub(super) async fn filter(
    (turn, oracle): (&Semaphore, &ProgramsOracle),
    client: &TablesClient,
    buffer: &mut IoBuffer,
    slot: u16,
    (table, rows): (&str, Option<u64>),
) -> Result<(), AnyIoError> {
    let _turn = turn.acquire(1).await;
    let slot_has = oracle.slot(slot);
    let expected = match (slot_has, rows) {
        (Slot::Unknown, _) => return Ok(()),
        (Slot::Loaded(kind), Some(rows)) => Some(oracle::select(kind, rows)),
        _ => None,
    };
    let sql = format!("SELECT n FROM {table}");
    let filtered = Filtered {
        nsid: oracle.nsid,
        program: slot,
        columns: vec!["n"],
        parameters: &byteway_program::memory::range_address(0).to_le_bytes(),
        form: Form::Sql.code(),
        task: sql.as_bytes(),
    };
    let mut bytes = Vec::new();
    let answer = client.filter(buffer, &filtered, &mut bytes).await;
    let is_right = match (answer, expected) {
        (Ok(()), Some(Ok(expected))) => {
            let batches = ipc::decode(&bytes).map_err(|error| wrong(format!("{table}: {error}")))?;
            let of = |batch: &byteway_query::RecordBatch| -> Vec<Option<String>> {
                (0..batch.num_rows()).map(|row| display::text(batch.column(0), row)).collect()
            };
            let found: Vec<Option<String>> = batches.iter().flat_map(of).collect();
            found == expected.iter().map(|row| Some(row.to_string())).collect::<Vec<_>>()
        }
        (Err(IoError::Client(TablesError::Task { problem: Problem::Media, .. })), _) => {
            return Err(IoError::Status(Status::UNRECOVERED_ERROR));
        }
        (Err(IoError::Client(TablesError::Task { problem: Problem::Program, words })), Some(Err(trap))) => {
            words == trap.to_string()
        }
        (Err(IoError::Client(TablesError::Task { problem, .. })), None) => {
            problem == if rows.is_none() { Problem::NoTable } else { Problem::Program }
        }
        (Err(error), _) => return Err(error.into()),
        (Ok(()), _) => false,
    };
    if !is_right {
        return Err(wrong(format!(
            "{table}, of {rows:?} rows: not those that {slot_has:?} in slot {slot} wants"
        )));
    }
    oracle.verified.set(oracle.verified.get() + 1);
    Ok(())
}
