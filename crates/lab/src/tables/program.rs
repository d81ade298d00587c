//! A query whose rows a program filters: the drive's, which loads the program for it, or this host's, which runs the same program over all
//! that it reads.

use crate::error::AttachedError;
use crate::tables::query::{Answer, Executor};
use crate::tables::{Session, TableInfo};
use byteway_clock::SpanRecord;
use byteway_console::error::InputError;
use byteway_host::{ProgramsClient, ProgramsError};
use byteway_program::{Counts, Filter, Fuel, Program, Weights, elf};
use byteway_query::cost::Amount;
use byteway_query::row_filter::{FilterColumns, keep};
use byteway_query::{ArrayRef, Execution, Form, GroupMeta, Operator, Task, Work, group, stream};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{FILTERED, Filtered};

/// What this host lets a program do, as a drive does that says nothing else.
const FUEL: Fuel = Fuel { row: 10_000, all: 100_000_000_000 };
/// Instructions between two looks at the time.
const SLICE: u64 = 1_000_000;
/// Program indexes that a drive can have.
const INDEXES: u16 = 1024;
/// By this the program is known in the drive's list of programs.
const IDENTIFIER: u64 = u64::from_be_bytes(*b"byteway\0");

/// A program that filters rows, and what it is given.
#[derive(Clone, Debug)]
pub struct RowProgram {
    code: Vec<u8>,
    program: Program,
    columns: Vec<String>,
    parameters: Vec<u8>,
}

fn wrong(error: impl std::fmt::Display) -> AttachedError {
    InputError::new(error.to_string(), "see `byteway csd query --help` for what a program is given").into()
}

fn refused(error: ProgramsError) -> AttachedError {
    InputError::new(error.to_string(), "the drive's limits are in [programs] of its profile").into()
}

impl RowProgram {
    /// Of a file's bytes, which are instructions, or an ELF object of them; with the columns that the program is given, by name, and its
    /// parameters.
    ///
    /// # Errors
    /// They are no program that a drive would take.
    pub fn new(file: &[u8], columns: Vec<String>, parameters: Vec<u8>) -> Result<RowProgram, InputError> {
        let is_object = file.starts_with(&elf::MAGIC);
        let code = if is_object { elf::instructions(file) } else { Ok(file) };
        let code = code.map_err(|error| {
            InputError::new(error.to_string(), "or name a file of instructions alone, 8 bytes each")
        })?;
        let program = Program::verify(code).map_err(|error| {
            let cure = "write eBPF as RFC 9669 has it, with no calls but of helpers 1 and 2, without atomics and maps";
            InputError::new(error.to_string(), cure)
        })?;
        Ok(RowProgram { code: code.to_vec(), program, columns, parameters })
    }

    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }
}

/// Loads a program in the first index that is free, and activates it. Programs that a process like this one has left, because it was
/// interrupted or killed, are unloaded before: a drive activates few, and has one such host at a time.
async fn install(client: &ProgramsClient, code: &[u8]) -> Result<u16, ProgramsError> {
    for (index, is_activated) in client.find(IDENTIFIER).await? {
        // What can't be unloaded takes its place still: then there may be none left, which is said.
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
                    let _ = client.unload(index).await; // the first error is the one to tell
                    return Err(error);
                }
                return Ok(index);
            }
        }
    }
    Err(ProgramsError::Status { what: "Load Program", status: Status::PROGRAM_IN_USE })
}

impl Session {
    /// Executes a task whose rows a program filters, by the drive or by this host.
    ///
    /// # Errors
    /// As [`push_filtered`](Self::push_filtered) and [`execute_filtered`](Self::execute_filtered).
    pub async fn perform_filtered(
        &self,
        task: &Task,
        table: &TableInfo,
        program: &RowProgram,
        by: Executor,
    ) -> Result<Answer, AttachedError> {
        match by {
            Executor::Host => self.execute_filtered(task, table, program).await,
            _ => self.push_filtered(task.form(), task.to_bytes(), program).await,
        }
    }

    /// Has the drive execute a task whose rows a program filters: it is loaded before, and unloaded after, which the answer does not count.
    ///
    /// # Errors
    /// The drive runs no programs, has no place for one, says why it does not do the task, or does not answer.
    pub async fn push_filtered(
        &self,
        form: Form,
        task: &[u8],
        program: &RowProgram,
    ) -> Result<Answer, AttachedError> {
        let Some((nsid, client)) = &self.programs else {
            let what = "the drive has no namespace of programs";
            let cure = "add [drive.override.programs] to its device file, and begin it anew";
            return Err(InputError::new(what, cure).into());
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
        let answer = answer.map_err(AttachedError::from)?;
        gone.map_err(refused)?;
        Ok(answer)
    }

    /// Reads all that a task and a program need of a table, runs the program over each row here, and executes the task.
    ///
    /// # Errors
    /// It is no task of that table, the program is stopped, its execution fails, or the drive does not answer.
    pub async fn execute_filtered(
        &self,
        task: &Task,
        table: &TableInfo,
        program: &RowProgram,
    ) -> Result<Answer, AttachedError> {
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
        // Readers that wait would wait indefinitely.
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
            record: SpanRecord { begin, last: self.clock.now(), stages: Default::default() },
        })
    }
}

/// A task whose rows are filtered here, while it is executed.
struct HostFilter<'a> {
    session: &'a Session,
    table: &'a TableInfo,
    execution: Execution,
    columns: FilterColumns,
    /// The columns that are read, ascending.
    read: Vec<usize>,
    filter: Filter,
    decoded: Work,
    done: Amount,
    batches: Vec<byteway_query::RecordBatch>,
    cycles: u64,
}

impl HostFilter<'_> {
    /// Adds a row group.
    async fn add(
        &mut self,
        program: &RowProgram,
        meta: &GroupMeta,
        chunks: &[Vec<u8>],
        first_row: u64,
    ) -> Result<(), AttachedError> {
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

    /// The columns of these indexes, of those that are read.
    fn arrays_of(&self, columns: impl Iterator<Item = usize>, arrays: &[ArrayRef]) -> Vec<ArrayRef> {
        columns.filter_map(|column| arrays.get(self.read.binary_search(&column).ok()?).cloned()).collect()
    }

    /// This host's processor runs the program: as many cycles as a drive's core takes.
    async fn run(&mut self, counts: Counts) {
        let cycles = Weights::default().of(&counts);
        self.session.compute("program", cycles).await;
        self.cycles += cycles;
    }
}
