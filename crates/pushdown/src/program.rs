//! Queries whose rows a program filters: on the drive, which loads the program, or on this host, which
//! interprets the same program over the rows that it reads.

use crate::error::SessionError;
use crate::query::{Answer, Executor};
use crate::session::{Session, TableInfo};
use byteway_clock::SpanRecord;
use byteway_host::{ProgramsClient, ProgramsError};
use byteway_program::{Counts, Filter, Fuel, Program, Weights, elf};
use byteway_query::cost::Amount;
use byteway_query::row_filter::{FilterColumns, keep};
use byteway_query::{ArrayRef, Execution, Form, GroupMeta, Operator, Task, Work, group, stream};
use byteway_text::error::InputError;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{FILTERED, Filtered};

/// Instruction limits on this host, equal to a drive's defaults.
const FUEL: Fuel = Fuel { row: 10_000, all: 100_000_000_000 };
/// Maximum number of instructions per call of the interpreter.
const SLICE: u64 = 1_000_000;
/// Maximum number of program indexes of a drive.
const INDEXES: u16 = 1024;
/// Identifier of this host's programs in the drive's Program List.
const IDENTIFIER: u64 = u64::from_be_bytes(*b"byteway\0");

/// A row filter program with its columns and parameters.
#[derive(Clone, Debug)]
pub struct RowProgram {
    code: Vec<u8>,
    program: Program,
    columns: Vec<String>,
    parameters: Vec<u8>,
}

fn wrong(error: impl std::fmt::Display) -> SessionError {
    InputError::new(error.to_string(), "see `byteway csd query --help` for the interface of a program").into()
}

fn refused(error: ProgramsError) -> SessionError {
    InputError::new(error.to_string(), "the drive's limits are in [programs] of its profile").into()
}

impl RowProgram {
    /// A program from a file, which contains raw instructions or an ELF object; with the names of the columns
    /// that it receives, and its parameters.
    ///
    /// # Errors
    /// [`InputError`] if the program cannot be read or verified.
    pub fn new(file: &[u8], columns: Vec<String>, parameters: Vec<u8>) -> Result<RowProgram, InputError> {
        let is_object = file.starts_with(&elf::MAGIC);
        let code = if is_object { elf::instructions(file) } else { Ok(file) };
        let code = code.map_err(|error| {
            InputError::new(error.to_string(), "or name a file of raw instructions, 8 bytes each")
        })?;
        let program = Program::verify(code).map_err(|error| {
            let help =
                "write eBPF according to RFC 9669, without atomics and maps, and call only helpers 1 and 2";
            InputError::new(error.to_string(), help)
        })?;
        Ok(RowProgram { code: code.to_vec(), program, columns, parameters })
    }

    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }
}

/// Loads a program at the first free index and activates it. Programs that an interrupted process has left
/// are unloaded first: a drive activates few programs, and has only one such host at a time.
async fn install(client: &ProgramsClient, code: &[u8]) -> Result<u16, ProgramsError> {
    for (index, is_activated) in client.find(IDENTIFIER).await? {
        // A program that cannot be unloaded keeps its index. If no index is free then, the load reports it.
        if is_activated {
            let _ = client.activate(index, false).await;
        }
        let _ = client.unload(index).await;
    }
    for index in 0..INDEXES {
        match client.load(index, IDENTIFIER, code).await {
            Err(ProgramsError::Status { status, .. }) if status.is(Status::PROGRAM_IN_USE) => {}
            Err(error) => return Err(error),
            Ok(()) => {
                if let Err(error) = client.activate(index, true).await {
                    let _ = client.unload(index).await; // report the first error
                    return Err(error);
                }
                return Ok(index);
            }
        }
    }
    Err(ProgramsError::Status { what: "Load Program", status: Status::PROGRAM_IN_USE })
}

impl Session {
    /// Executes a task with a row filter program, on the drive or on this host.
    ///
    /// # Errors
    /// Same as [`push_filtered`](Self::push_filtered) and [`execute_filtered`](Self::execute_filtered).
    pub async fn perform_filtered(
        &self,
        task: &Task,
        table: &TableInfo,
        program: &RowProgram,
        by: Executor,
    ) -> Result<Answer, SessionError> {
        match by {
            Executor::Host => self.execute_filtered(task, table, program).await,
            _ => self.push_filtered(task.form(), task.to_bytes(), program).await,
        }
    }

    /// Executes a task with a row filter program on the drive. Loads the program before and unloads it
    /// afterwards; the figures of the answer exclude both.
    ///
    /// # Errors
    /// [`SessionError`] if the drive has no programs or no free index, cannot execute the task, or a command
    /// failed.
    pub async fn push_filtered(
        &self,
        form: Form,
        task: &[u8],
        program: &RowProgram,
    ) -> Result<Answer, SessionError> {
        let Some((nsid, client)) = &self.programs else {
            let what = "the drive has no programs namespace";
            let help = "add [drive.override.programs] to its device file, and create the drive again";
            return Err(InputError::new(what, help).into());
        };
        let index = install(client, &program.code).await.map_err(refused)?;
        let filtered = Filtered {
            nsid: *nsid,
            program: index,
            columns: program.names(),
            parameters: &program.parameters,
            form: form.code(),
            task,
        };
        let answer = self.ask_drive(FILTERED, &filtered.to_bytes(), None).await;
        let gone = match client.activate(index, false).await {
            Ok(()) => client.unload(index).await,
            error => error,
        };
        let answer = answer.map_err(SessionError::from)?;
        gone.map_err(refused)?;
        Ok(answer)
    }

    /// Executes a task with a row filter program on this host, which reads the columns of both.
    ///
    /// # Errors
    /// [`SessionError`] if the task does not match the table, the program is stopped, the execution fails,
    /// or a command failed.
    pub async fn execute_filtered(
        &self,
        task: &Task,
        table: &TableInfo,
        program: &RowProgram,
    ) -> Result<Answer, SessionError> {
        let (begin, before, busy) = (self.clock.now(), self.crossed(), self.drive_cycles());
        let query = task.bind(&table.schema).map_err(wrong)?;
        let execution = Execution::new(query, &table.schema).map_err(wrong)?;
        let columns = FilterColumns::bind(program.names(), &table.record.name, &table.schema);
        let columns = columns.map_err(wrong)?;
        let groups = self.groups(table.record.table).await?;
        let metas: Result<Vec<GroupMeta>, _> =
            groups.iter().map(|group| GroupMeta::from_bytes(&table.schema, &group.meta)).collect();
        let metas = metas.map_err(wrong)?;
        let mut read = execution.columns().to_vec();
        read.extend(columns.indexes());
        read.sort_unstable();
        read.dedup();
        let reading = self.begin_reading(table.record.table, &metas, &read)?;
        let mut host = HostFilter {
            session: self,
            table,
            execution,
            columns,
            read,
            filter: Filter::new(FUEL),
            decoded: Work::default(),
            done: Amount::default(),
            batches: Vec::new(),
            cycles: 0,
        };
        let mut went = Ok(());
        let mut first_row = 0;
        for (index, meta) in metas.iter().enumerate() {
            let chunks = reading.brought(index).await?;
            went = host.add(program, meta, &chunks, first_row).await;
            first_row += u64::from(meta.rows);
            if went.is_err() || host.execution.is_done() {
                break;
            }
        }
        // Readers that still wait would never end.
        reading.stop();
        went?;
        host.batches.extend(host.execution.finish().map_err(wrong)?);
        host.cycles += self.evaluate(&host.execution, &host.decoded, &mut host.done).await;
        Ok(Answer {
            executor: Executor::Host,
            schema: host.execution.result_schema(),
            batches: host.batches,
            nanoseconds: self.clock.now().since(begin).0 / 1000,
            task_bytes: 0,
            bytes_read: reading.bytes.get(),
            commands: reading.commands.get(),
            link_bytes: self.crossed_since(before),
            host_cycles: host.cycles,
            drive_cycles: self.cycles_since(busy),
            record: SpanRecord { begin, last: self.clock.now(), ..SpanRecord::default() },
        })
    }
}

/// Execution of a task with a row filter program on this host.
struct HostFilter<'a> {
    session: &'a Session,
    table: &'a TableInfo,
    execution: Execution,
    columns: FilterColumns,
    /// Columns to read, ascending.
    read: Vec<usize>,
    filter: Filter,
    decoded: Work,
    done: Amount,
    batches: Vec<byteway_query::RecordBatch>,
    cycles: u64,
}

impl HostFilter<'_> {
    /// Processes a row group.
    async fn add(
        &mut self,
        program: &RowProgram,
        meta: &GroupMeta,
        chunks: &[Vec<u8>],
        first_row: u64,
    ) -> Result<(), SessionError> {
        let (schema, mut rows) = (&self.table.schema, meta.rows as usize);
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.read.len());
        for (column, chunk) in self.read.iter().zip(chunks) {
            let array = group::decode(schema, *column, meta, chunk, &mut self.decoded);
            arrays.push(array.map_err(wrong)?);
        }
        let given = self.arrays_of(self.columns.indexes(), &arrays);
        let fixed = self.columns.rows(&given).map_err(wrong)?;
        let fixed = fixed.rows().map_err(wrong)?;
        let (mut selected, before) = (Vec::new(), self.filter.counts());
        let parameters = &program.parameters;
        let limits = (first_row, SLICE);
        while !self
            .filter
            .proceed(&program.program, &fixed, parameters, limits, &mut selected)
            .map_err(wrong)?
        {}
        self.run(self.filter.counts().since(&before)).await;
        arrays = keep(&arrays, &selected, rows).map_err(wrong)?;
        rows = selected.len();
        self.decoded.add_rows(Operator::Gather, rows * arrays.len());
        let columns = self.execution.columns().to_vec();
        let own = self.arrays_of(columns.iter().copied(), &arrays);
        let batch = stream::batch(schema, &columns, own, rows).map_err(wrong)?;
        self.batches.extend(self.execution.push(&batch).map_err(wrong)?);
        self.cycles += self.session.evaluate(&self.execution, &self.decoded, &mut self.done).await;
        Ok(())
    }

    /// Arrays of the given columns, out of the arrays of all columns that are read.
    fn arrays_of(&self, columns: impl Iterator<Item = usize>, arrays: &[ArrayRef]) -> Vec<ArrayRef> {
        columns.filter_map(|column| arrays.get(self.read.binary_search(&column).ok()?).cloned()).collect()
    }

    /// Charges the program to this host's processor, with the cycles of a drive's core.
    async fn run(&mut self, counts: Counts) {
        let cycles = Weights::default().of(&counts);
        self.session.compute("program", cycles).await;
        self.cycles += cycles;
    }
}
