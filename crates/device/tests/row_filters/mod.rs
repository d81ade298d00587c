//! Rows of tables filtered by programs: the same filter in SQL and as a program gives the same rows; programs and tasks that no host should
//! send; what happens when the task is cancelled, aborted or cut off by a reset, or the program is to go, in the middle.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

mod filters;
mod hostile;

use crate::fixture::drive_config;
use byteway_clock::Delay;
use byteway_device::{CsdPolicy, DriveConfig, NamespaceConfig, ProgramsPolicy};
use byteway_firmware::WorkKind;
use byteway_host::{
    Driver, DriverConfig, IoBuffer, IoError, Method, ProgramsClient, QueueConfig, Rules, TablesClient,
    TablesConfig, TablesError,
};
use byteway_program::Instruction;
use byteway_program::assemble::*;
use byteway_program::instruction::{jump, size};
use byteway_query::{Form, RecordBatch, Schema, display, ipc};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::vendor::csd::{Filtered, Problem};
use byteway_world::PoweredDrive;

const TABLES: u32 = 1;
const PROGRAMS: u32 = 3;
/// Rows of a row group.
const GROUP_ROWS: u32 = 500;

fn config() -> DriveConfig {
    let mut config = drive_config();
    config.namespaces =
        vec![NamespaceConfig::tables(6000), NamespaceConfig::local_memory(16), NamespaceConfig::programs()];
    config.csd = Some(CsdPolicy {
        cursors_max: 3,
        timeout: Delay::from_ms(50),
        group_rows: GROUP_ROWS,
        buffer_bytes: 16 << 10,
        ..CsdPolicy::default()
    });
    config.programs = Some(ProgramsPolicy {
        memory_bytes: 1 << 20,
        row_fuel: 1000,
        filter_fuel: 3_000_000,
        ..ProgramsPolicy::default()
    });
    config.site.cycles = config.site.cycles.with(WorkKind::Program, 1);
    config
}

fn driven<T: 'static>(test: impl AsyncFnOnce(Driver, &PoweredDrive) -> T + 'static) -> T {
    SmallWorld::of(config()).run_driven(DriverConfig::default(), test)
}

/// Clients of tables and of programs.
struct Pair {
    tables: TablesClient,
    programs: ProgramsClient,
    buffer: IoBuffer,
}

async fn pair(driver: &Driver) -> Pair {
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let tables =
        TablesClient::new(queue.clone(), TABLES, &TablesConfig::new(Rules::only(Method::Prp), 128 << 10));
    let programs = ProgramsClient::new(driver, queue, PROGRAMS, Rules::only(Method::Prp), 128 << 10);
    Pair { buffer: tables.buffer().unwrap(), tables, programs }
}

impl Pair {
    async fn load(&mut self, name: &str, batch: &RecordBatch) {
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let table = self.tables.create(&mut self.buffer, name, &schema.to_bytes()).await.unwrap();
        let stream = ipc::encode(&batch.schema(), std::slice::from_ref(batch)).unwrap();
        self.tables.append(&mut self.buffer, table, &stream).await.unwrap();
    }

    /// Loads a program in this slot, in place of the present one, and activates it.
    async fn install(&self, slot: u16, instructions: &[Instruction]) {
        if self.programs.activate(slot, false).await.is_ok() {
            self.programs.unload(slot).await.unwrap();
        }
        self.programs.load(slot, 1, &assemble(instructions)).await.unwrap();
        self.programs.activate(slot, true).await.unwrap();
    }

    async fn ask(&mut self, form: u8, payload: &[u8]) -> Result<Vec<Vec<String>>, TablesError> {
        let mut bytes = Vec::new();
        match self.tables.query(&mut self.buffer, form, payload, &mut bytes).await {
            Ok(()) => Ok(texts(&ipc::decode(&bytes).unwrap())),
            Err(IoError::Client(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    async fn sql(&mut self, sql: &str) -> Vec<Vec<String>> {
        self.ask(Form::Sql.code(), sql.as_bytes()).await.unwrap()
    }

    async fn filtered(&mut self, filtered: &Filtered<'_>) -> Result<Vec<Vec<String>>, TablesError> {
        let mut bytes = Vec::new();
        match self.tables.filter(&mut self.buffer, filtered, &mut bytes).await {
            Ok(()) => Ok(texts(&ipc::decode(&bytes).unwrap())),
            Err(IoError::Client(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Problem of a task, and the drive's error text.
    async fn problem(&mut self, filtered: &Filtered<'_>) -> (Problem, String) {
        match self.filtered(filtered).await {
            Err(TablesError::Task { problem, words }) => (problem, words),
            other => panic!("{filtered:?}: {other:?}"),
        }
    }
}

/// A task in SQL, whose rows the program in slot 0 filters, which is given these columns.
fn by_program<'a>(columns: &[&'a str], parameters: &'a [u8], sql: &'a str) -> Filtered<'a> {
    let (form, task) = (Form::Sql.code(), sql.as_bytes());
    Filtered { nsid: PROGRAMS, program: 0, columns: columns.to_vec(), parameters, form, task }
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

/// The offset of a jump to where a row is not wanted, and to where it is: [`decide`] has the places.
const REJECT: i16 = i16::MIN;
const ACCEPT: i16 = i16::MIN + 1;

/// A filter: these instructions, which jump to [`REJECT`] or [`ACCEPT`], or come to their end with a row that is wanted.
fn decide(body: &[Instruction]) -> Vec<Instruction> {
    let accept = body.len() as i16;
    let placed = |(at, instruction): (usize, &Instruction)| {
        let target = match instruction.offset {
            ACCEPT => accept,
            REJECT => accept + 2,
            _ => return *instruction,
        };
        Instruction { offset: target - at as i16 - 1, ..*instruction }
    };
    let mut program: Vec<Instruction> = body.iter().enumerate().map(placed).collect();
    program.extend([mov(R0, 1), exit(), mov(R0, 0), exit()]);
    program
}

/// Rejects a row whose byte at `offset` says that a value is null.
fn not_null(offset: i16) -> [Instruction; 2] {
    [load(size::BYTE, R5, R1, offset), jump(jump::NE, R5, 0, REJECT)]
}
