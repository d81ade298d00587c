//! The I/O log `ios.parquet`: a row for each measured I/O, in order of completion, written during the run.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, SchemaRef};
use byteway_clock::{Awaited, Delay, Stage, Time, Waits};
use parquet::arrow::ArrowWriter;
use parquet::errors::Result as ParquetResult;

use crate::columns::{self, Column};
use crate::completed::Completed;
use crate::output::{Output, OutputError, Unfinished};
use byteway_scenario::Scenario;
use byteway_text::number::ns;

/// Name of the file.
const NAME: &str = "ios.parquet";

/// Rows held in memory, and written as one row group.
const ROWS: usize = 1 << 16;

/// Names of [`Kind`](byteway_workload::Kind)s, in their order.
pub(crate) const KINDS: [&str; 3] = ["read", "write", "trim"];

/// Writes the I/O log.
pub struct IoRecorder {
    output: Output,
    about: Vec<(&'static str, String)>,
    /// None until the first row group.
    writer: Option<ArrowWriter<Unfinished>>,
    schema: SchemaRef,
    jobs: ArrayRef,
    /// With several drives: their names, and the drive of each job.
    drives: Option<(ArrayRef, Vec<i32>)>,
    kinds: ArrayRef,
    /// The stages in which I/Os of this scenario can spend time.
    stages: Vec<Stage>,
    /// A throttle is waited for where a drive has one.
    waits: Vec<Awaited>,
    rows: Vec<Row>,
    failure: Option<OutputError>,
}

struct Row {
    number: u64,
    job: u32,
    worker: u32,
    kind: u8,
    blocks: u32,
    lba: u64,
    bytes: u64,
    due: Delay,
    begin: Delay,
    end: Delay,
    stages: [Delay; Stage::ALL.len()],
    waits: Waits,
}

impl IoRecorder {
    /// A log for a run of `scenario`: `ios.parquet` in `output`, which appears when it is finished.
    pub fn new(output: &Output, scenario: &Scenario) -> Self {
        let about = vec![
            ("byteway.content", "ios".to_owned()),
            ("byteway.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("byteway.scenario", scenario.name.clone()),
            ("byteway.seed", scenario.seed.to_string()),
            ("byteway.units", "_ns: nanoseconds of virtual time; lba, blocks: logical blocks".to_owned()),
        ];
        let names = scenario.drives.iter().map(|drive| drive.plan.name.as_deref().unwrap_or_default());
        let drives = (scenario.drives.len() > 1).then(|| -> (ArrayRef, Vec<i32>) {
            let of_job = scenario.jobs.iter().map(|job| job.drive as i32);
            (Arc::new(StringArray::from_iter_values(names)), of_job.collect())
        });
        let stages: Vec<Stage> =
            Stage::ALL.into_iter().filter(|stage| scenario.target.is_some() || !stage.is_remote()).collect();
        let throttles = scenario.drives.iter().any(|drive| drive.plan.throttle().is_some());
        let waits: Vec<Awaited> =
            Awaited::ALL.into_iter().filter(|wait| throttles || *wait != Awaited::Throttle).collect();
        IoRecorder {
            output: output.clone(),
            about,
            writer: None,
            schema: schema(drives.is_some(), &stages, &waits),
            drives,
            stages,
            waits,
            jobs: Arc::new(StringArray::from_iter_values(scenario.jobs.iter().map(|job| &job.name))),
            kinds: Arc::new(StringArray::from_iter_values(KINDS)),
            rows: Vec::with_capacity(ROWS),
            failure: None,
        }
    }

    /// Adds a completed I/O; the run began at `start`. On a write error the run continues without the log,
    /// and [`finish`](Self::finish) returns the error.
    pub(super) fn record(&mut self, start: Time, completed: &Completed<'_>) {
        if self.failure.is_some() {
            return;
        }
        let Completed { number, job, worker, io, operated: _, queried: _, bytes, due, record } = completed;
        let (stages, waits) = completed.times();
        self.rows.push(Row {
            number: *number,
            job: *job as u32,
            worker: *worker,
            kind: io.kind as u8,
            lba: io.lba,
            blocks: io.blocks,
            bytes: *bytes,
            due: due.since(start),
            begin: record.begin.since(start),
            end: record.last.since(start),
            stages,
            waits,
        });
        if self.rows.len() >= ROWS {
            self.failure = self.write().err();
        }
        if self.failure.is_some() {
            // A partial file is useless, and on a full disk others need its space.
            (self.rows, self.writer) = (Vec::new(), None);
        }
    }

    /// Writes the rows in memory as a row group.
    fn write(&mut self) -> Result<(), OutputError> {
        let batch = columns::batch(&self.schema, self.columns()?)?;
        self.rows.clear();
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let file = self.output.create(NAME)?;
                let writer = columns::writer(file, &self.schema, &self.about);
                self.writer.insert(writer.map_err(|error| self.output.parquet_refused(NAME, error))?)
            }
        };
        let written = writer.write(&batch).and_then(|()| writer.flush());
        written.map_err(|error| self.output.parquet_refused(NAME, error))
    }

    fn columns(&self) -> ParquetResult<Vec<ArrayRef>> {
        let rows = &self.rows;
        let long = |get: fn(&Row) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(get)))
        };
        let short = |get: fn(&Row) -> u32| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(get)))
        };
        let time = |get: &dyn Fn(&Row) -> Delay| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| ns(get(row).0))))
        };
        let name = |get: fn(&Row) -> i32, names: &ArrayRef| -> ParquetResult<ArrayRef> {
            let keys = Int32Array::from_iter_values(rows.iter().map(get));
            Ok(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, names.clone())?))
        };
        let mut columns = vec![
            long(|row| row.number),
            name(|row| row.job as i32, &self.jobs)?,
            short(|row| row.worker),
            name(|row| i32::from(row.kind), &self.kinds)?,
            long(|row| row.lba),
            short(|row| row.blocks),
            long(|row| row.bytes),
            time(&|row| row.due),
            time(&|row| row.begin),
            time(&|row| row.end),
            time(&|row| row.end.saturating_sub(row.due)),
        ];
        if let Some((names, of_job)) = &self.drives {
            let keys = Int32Array::from_iter_values(rows.iter().map(|row| of_job[row.job as usize]));
            let column = DictionaryArray::<Int32Type>::try_new(keys, names.clone())?;
            columns.insert(2, Arc::new(column));
        }
        columns.extend(self.stages.iter().map(|stage| time(&|row| row.stages[*stage as usize])));
        columns.extend(self.waits.iter().map(|wait| time(&|row| row.waits[*wait as usize])));
        Ok(columns)
    }

    /// Writes the remaining rows. The file is then complete, but not yet renamed.
    ///
    /// # Errors
    /// It cannot be written, now or before.
    pub fn finish(mut self) -> Result<Unfinished, OutputError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        // A file without rows is valid, too.
        if !self.rows.is_empty() || self.writer.is_none() {
            self.write()?;
        }
        let writer = self.writer.expect("rows were written");
        writer.into_inner().map_err(|error| self.output.parquet_refused(NAME, error))
    }
}

fn schema(has_several_drives: bool, stages: &[Stage], waits: &[Awaited]) -> SchemaRef {
    let name = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let drive = Column::new("drive", name(), "Name of the job's drive");
    let first = [
        Column::new("io", DataType::UInt64, "I/O sequence number, from 0 in order of issue"),
        Column::new("job", name(), "Name of the job"),
    ];
    let first = first.into_iter().chain(has_several_drives.then_some(drive));
    let columns = [
        Column::new("worker", DataType::UInt32, "Worker of the job, from 0: each has a queue pair"),
        Column::new("kind", name(), "read, write or trim"),
        Column::new("lba", DataType::UInt64, "First logical block in the namespace"),
        Column::new("blocks", DataType::UInt32, "Number of logical blocks"),
        Column::new("bytes", DataType::UInt64, "Bytes read, written or trimmed"),
        Column::new(
            "due_ns",
            DataType::Float64,
            "Time at which it was due, since the start of the run: its latency starts here",
        ),
        Column::new(
            "begin_ns",
            DataType::Float64,
            "Time of issue; later than due_ns in an open loop that is behind",
        ),
        Column::new("end_ns", DataType::Float64, "Time at which the host had the completion"),
        Column::new("latency_ns", DataType::Float64, "end_ns - due_ns"),
    ];
    let stages = stages.iter().map(|stage| {
        let name = stage.name();
        let text = format!("Part of latency_ns spent in {name}; the parts sum to latency_ns");
        Column::new(&format!("{name}_ns"), DataType::Float64, &text)
    });
    let waits = waits.iter().map(|wait| {
        let name = wait.name();
        let text = format!("Part of queueing_ns spent waiting for: {name}; the parts sum to queueing_ns");
        Column::new(&format!("wait_{}_ns", name.replace(' ', "_")), DataType::Float64, &text)
    });
    columns::schema(first.chain(columns).chain(stages).chain(waits))
}
