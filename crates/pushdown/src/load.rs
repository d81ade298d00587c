//! Loads rows from Parquet files and generators into tables. They are sent as Arrow IPC streams, a few row
//! groups per append.

use crate::error::SessionError;
use crate::session::Session;
use byteway_clock::random::Rng;
use byteway_host::IoError;
use byteway_query::schema::NAME_BYTES_MAX;
use byteway_query::{Column, RecordBatch, Schema, ipc};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_wire::nvme::status::Status;
use byteway_workload::query::RowSource;

/// Size from which buffered rows are appended, in bytes of memory. An append is atomic.
const APPEND_BYTES: usize = 16 << 20;

/// What a table keeps of a load that fails or is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeps {
    /// A table that the load made is dropped again; one that was there keeps the appends before.
    #[default]
    Others,
    /// Nothing: to a table that is there, all rows go in one append, or none do.
    Nothing,
    /// The appends before.
    Appends,
}

/// How rows are loaded.
pub struct LoadOptions<'a> {
    /// Generated rows depend only on it and the table's name.
    pub rng: &'a Rng,
    /// What is kept if it is not done to the end.
    pub keeps: Keeps,
    /// Ends the load between two batches of rows.
    pub interrupt: &'a Interrupt,
}

/// Figures of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Rows read from the sources.
    pub rows: u64,
    /// Rows of the sources that were appended.
    pub rows_appended: u64,
    /// Rows of the table after the load.
    pub rows_in_all: u64,
    /// Bytes sent to the drive.
    pub bytes: u64,
    /// Number of appends.
    pub appends: u64,
    /// Duration in nanoseconds; in virtual time if the drive is simulated or in a directory.
    pub nanoseconds: u64,
}

/// Whether rows with schema `own` can be appended to a table with schema `there`.
fn is_like(own: &Schema, there: &Schema) -> bool {
    let like = |(own, there): (&Column, &Column)| {
        own.name == there.name && own.column_type == there.column_type && (there.nullable || !own.nullable)
    };
    own.columns().len() == there.columns().len() && own.columns().iter().zip(there.columns()).all(like)
}

fn named(source: &RowSource) -> String {
    match source {
        RowSource::File(path) => path.display().to_string(),
        RowSource::Drawn(generator, _) => format!("the generator {}", generator.name()),
    }
}

fn described(schema: &Schema) -> String {
    let column = |column: &Column| {
        let nulls = if column.nullable { "" } else { " NOT NULL" };
        format!("{} {}{nulls}", column.name, column.column_type)
    };
    schema.columns().iter().map(column).collect::<Vec<_>>().join(", ")
}

impl Session {
    /// Appends rows to a table, which is created with the columns of the first source if it does not exist.
    ///
    /// If the table keeps appends of a load that is not done to the end, it keeps them in the order of the sources, and the error reports
    /// their number. An empty table that was created for the load is dropped in any case. A power cut leaves the appends before it.
    ///
    /// # Errors
    /// [`SessionError`] if a file is not a Parquet file, a source has other columns than the table or
    /// unsupported ones, the name is invalid, the drive has not enough free space, the rows do not fit into the one append that
    /// [`Keeps::Nothing`] demands, or the load is interrupted.
    pub async fn load(
        &self,
        name: &str,
        sources: &[RowSource],
        options: &LoadOptions<'_>,
        progress: &mut Progress,
    ) -> Result<Loaded, SessionError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            let what = format!("a table's name has {} bytes", name.len());
            return Err(InputError::new(what, format!("choose one of 1 to {NAME_BYTES_MAX} bytes")).into());
        }
        let mut loaded = Loaded::default();
        let begin = self.clock.now();
        let mut made = None;
        let done = self.load_all(name, sources, (options, progress), (&mut loaded, &mut made)).await;
        loaded.nanoseconds = self.clock.now().since(begin).0 / 1000;
        let Err(error) = done else { return Ok(loaded) };
        let alone =
            |error: SessionError| if error.is_interrupted() { SessionError::NothingLoaded } else { error };
        match made {
            // Restores the state before. If a drop fails where rows were appended, the error says what there is.
            Some(table) if loaded.appends == 0 || options.keeps != Keeps::Appends => {
                let dropped = self.client.drop_table(table).await;
                if dropped.is_ok() || loaded.appends == 0 {
                    return Err(alone(error));
                }
            }
            _ if loaded.appends == 0 => return Err(alone(error)),
            _ => {}
        }
        Err(SessionError::PartlyLoaded {
            table: name.to_owned(),
            rows: loaded.rows_appended,
            rows_in_all: loaded.rows_in_all,
            source: Box::new(error),
        })
    }

    /// Like [`load`](Self::load). Sets `made` to the number of a created table.
    async fn load_all(
        &self,
        name: &str,
        sources: &[RowSource],
        (options, progress): (&LoadOptions<'_>, &mut Progress),
        (loaded, made): (&mut Loaded, &mut Option<u32>),
    ) -> Result<(), SessionError> {
        let mut table: Option<(u32, Schema)> = None;
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for source in sources {
            let own = source.schema()?;
            let (number, schema) = match &table {
                Some(table) => table.clone(),
                None => self.table_for(name, &own, made).await?,
            };
            if !is_like(&own, &schema) {
                let (own, there) = (described(&own), described(&schema));
                let what = format!("{}: its columns are {own}, and the table's {there}", named(source));
                return Err(InputError::new(what, "load it into a table of its own").into());
            }
            table = Some((number, schema.clone()));
            // A table of the load's own can be dropped, however many appends it has got.
            let in_one = options.keeps == Keeps::Nothing && made.is_none();
            for batch in source.batches(name, options.rng)? {
                if options.interrupt.is_raised() {
                    return Err(SessionError::Interrupted);
                }
                let batch = batch?;
                bytes += batch.get_array_memory_size();
                loaded.rows += batch.num_rows() as u64;
                batches.push(batch);
                if bytes < APPEND_BYTES {
                    continue;
                }
                if in_one {
                    let what = format!(
                        "the rows for `{name}` take more than the {} MiB of one append",
                        APPEND_BYTES >> 20
                    );
                    let help = "leave --atomic out, or load them into a table of their own, which is made whole or not at all";
                    return Err(InputError::new(what, help).into());
                }
                self.append(number, &schema, &mut batches, loaded).await?;
                progress.part(loaded.rows);
                bytes = 0;
            }
            if !in_one {
                self.append(number, &schema, &mut batches, loaded).await?;
                bytes = 0;
            }
        }
        match table {
            Some((number, schema)) => self.append(number, &schema, &mut batches, loaded).await,
            None => Ok(()),
        }
    }

    async fn table_for(
        &self,
        name: &str,
        columns: &Schema,
        made: &mut Option<u32>,
    ) -> Result<(u32, Schema), SessionError> {
        let there = self.tables().await?.into_iter().find(|table| table.record.name == name);
        if let Some(table) = there {
            return Ok((table.record.table, table.schema));
        }
        let mut buffer = self.take_buffer()?;
        let created = self.client.create(&mut buffer, name, &columns.to_bytes()).await;
        self.give_back(buffer);
        let created = created?;
        *made = Some(created);
        Ok((created, columns.clone()))
    }

    async fn append(
        &self,
        table: u32,
        schema: &Schema,
        batches: &mut Vec<RecordBatch>,
        loaded: &mut Loaded,
    ) -> Result<(), SessionError> {
        if batches.is_empty() {
            return Ok(());
        }
        let arrow = schema.to_arrow();
        let named = |batch: &RecordBatch| RecordBatch::try_new(arrow.clone(), batch.columns().to_vec());
        let own: Result<Vec<RecordBatch>, _> = batches.drain(..).map(|batch| named(&batch)).collect();
        let own =
            own.map_err(|error| InputError::new(error.to_string(), "load it into a table of its own"))?;
        let rows: usize = own.iter().map(RecordBatch::num_rows).sum();
        let stream =
            ipc::encode(&arrow, &own).map_err(|error| InputError::new(error.to_string(), "load less"))?;
        let mut buffer = self.take_buffer()?;
        let appended = self.client.append(&mut buffer, table, &stream).await;
        self.give_back(buffer);
        loaded.rows_in_all = appended.map_err(|error| match error {
            IoError::Status(status) if status.is(Status::CAPACITY_EXCEEDED) => {
                let what = format!("the drive has not enough free space for {rows} more rows");
                InputError::new(what, "drop a table, or give the drive more `capacity`").into()
            }
            error => SessionError::from(error),
        })?;
        loaded.rows_appended += rows as u64;
        loaded.bytes += stream.len() as u64;
        loaded.appends += 1;
        Ok(())
    }
}
