//! Block traces: inspected, converted, read.

use crate::error::invalid;
use crate::follow::Follower;
use crate::table::Table;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use byteway_results::output::Unfinished;
use byteway_text::error::{InputError, suggest};
use byteway_text::interrupt::Interrupt;
use byteway_trace::archive::Packing;
use byteway_trace::convert::{Conversion, convert};
use byteway_trace::inspect::{Options, inspect};
use byteway_trace::writer::WriteError;
use byteway_trace::{Format, Kind, ReadOptions, Reader, Writer, file_name};
use pyo3::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a trace is read, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Reading {
    format: Option<String>,
    columns: Option<String>,
    device: Option<u32>,
    reads_are: Option<u8>,
    skip_bad_lines: bool,
}

fn format(name: &str) -> Result<Format, InputError> {
    Format::named(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        InputError::new(format!("no such trace format: `{name}`"), suggest(name, &names))
    })
}

impl Reading {
    fn options(&self) -> Result<ReadOptions, InputError> {
        Ok(ReadOptions {
            format: self.format.as_deref().map_or(Ok(Format::Auto), format)?,
            device: self.device,
            skip_bad_lines: self.skip_bad_lines,
            reads_are: self.reads_are,
            action: None,
            unit: None,
            columns: self.columns.as_deref().map(str::parse).transpose().map_err(|error| {
                InputError::new(format!("`columns`: {error}"), "write names such as time_us,op,offset,bytes")
            })?,
        })
    }
}

/// Names of all formats.
#[pyfunction]
pub(crate) fn trace_formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}

/// Statistics of a trace as JSON, and the exception that interrupted it, if one did.
#[pyfunction]
#[pyo3(signature = (path, reading, unit_bytes, samples, seed, exact, progress))]
#[expect(clippy::too_many_arguments, reason = "the arguments of one Python function")]
pub(crate) fn trace_inspect(
    py: Python<'_>,
    path: PathBuf,
    reading: Reading,
    unit_bytes: u64,
    samples: Option<usize>,
    seed: u64,
    exact: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Option<PyErr>)> {
    let follower = Follower::new(progress);
    let (meter, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
    let followed = follower.run(py, || -> anyhow::Result<String> {
        let read = reading.options()?;
        let options = Options { unit_bytes, seed, exact, device: read.device, ..Options::default() };
        let options = Options { samples: samples.unwrap_or(options.samples), ..options };
        options.check()?;
        let reader = Reader::open_once(&path, &read, &interrupt)?;
        let mut progress = byteway_text::progress::Progress::new(&meter, "", None, None);
        let seen = |records, ps| progress.update(records, ps);
        Ok(inspect(reader, &file_name(&path), &options, seen, &interrupt)?.to_json())
    })?;
    followed.partial(py)
}

/// Converts a trace; returns the number of records written. An interrupted conversion leaves no file.
#[pyfunction]
#[pyo3(signature = (path, to, reading, to_format, head, time_scale, lossy))]
#[expect(clippy::too_many_arguments, reason = "the arguments of one Python function")]
pub(crate) fn trace_convert(
    py: Python<'_>,
    path: PathBuf,
    to: PathBuf,
    reading: Reading,
    to_format: Option<String>,
    head: Option<u64>,
    time_scale: f64,
    lossy: bool,
) -> PyResult<u64> {
    let follower = Follower::new(None);
    let interrupt = follower.interrupt.clone();
    let conversion = || -> Result<(Format, Conversion), InputError> {
        if !(1e-6..=1e6).contains(&time_scale) {
            let what = format!("`time_scale` = {time_scale} is out of range");
            return Err(InputError::new(what, "choose a value from 0.000001 to 1000000"));
        }
        let to = match &to_format {
            Some(name) => format(name)?,
            None => named(&to)?,
        };
        Ok((to, Conversion { head, time_scale_q32: (time_scale * 4_294_967_296.0).round() as u64 }))
    };
    let (as_format, conversion) = conversion().map_err(|error| invalid(py, &error))?;
    let followed = follower.run(py, || -> anyhow::Result<u64> {
        let mut reader = Reader::open_once(&path, &reading.options()?, &interrupt)?;
        let file = Unfinished::at(&to)?;
        let mut writer = Writer::new(file.writer()?, as_format, Packing::named(&to), lossy)?;
        convert(&mut reader, &mut writer, &conversion, |_, _| ()).map_err(|error| match error {
            WriteError::Unfit(unfit) => anyhow::Error::from(unfit),
            WriteError::Output(error) => error.into(),
        })?;
        let records = writer.records();
        if records == 0 {
            let what = format!("the trace `{}` has no record to convert", file_name(&path));
            return Err(InputError::new(what, "choose another device, format or file").into());
        }
        let (mut out, _) = writer.finish()?;
        out.flush()?;
        file.finish()?;
        Ok(records)
    })?;
    // If it ended before it was stopped, the file is there.
    Ok(followed.partial(py)?.0)
}

/// The format named by a part of the file name.
fn named(path: &Path) -> Result<Format, InputError> {
    let name = file_name(path);
    name.split('.').skip(1).find_map(Format::named).ok_or_else(|| {
        let what = format!("the name `{name}` does not name an output format");
        InputError::new(what, "give `to_format`, or name it in the file name, as in web.msr.csv")
    })
}

/// Records in a batch.
const BATCH: usize = 1 << 20;

/// Columns of a batch while it grows.
#[derive(Default)]
struct Columns {
    time_ps: Vec<u64>,
    device: Vec<u32>,
    offset: Vec<u64>,
    bytes: Vec<u64>,
    kind: Vec<i8>,
}

fn schema() -> Schema {
    let field = |name: &str, data: DataType, description: &str| {
        let metadata = [("description".to_owned(), description.to_owned())].into_iter().collect();
        Field::new(name, data, false).with_metadata(metadata)
    };
    let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Schema::new(vec![
        field("time_ps", DataType::UInt64, "Time since the first record in picoseconds"),
        field("device", DataType::UInt32, "Device or disk number of the trace"),
        field("offset_bytes", DataType::UInt64, "Start address in bytes"),
        field("bytes", DataType::UInt64, "Length in bytes"),
        field("kind", kind, "read, write or trim"),
    ])
}

impl Columns {
    fn batch(self, schema: &Arc<Schema>, kinds: &ArrayRef) -> anyhow::Result<RecordBatch> {
        let kind = DictionaryArray::<Int8Type>::try_new(Int8Array::from(self.kind), kinds.clone())?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.time_ps)),
            Arc::new(UInt32Array::from(self.device)),
            Arc::new(UInt64Array::from(self.offset)),
            Arc::new(UInt64Array::from(self.bytes)),
            Arc::new(kind),
        ];
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }
}

/// All records, or the first `head` ones, as an Arrow table.
#[pyfunction]
#[pyo3(signature = (path, reading, head))]
pub(crate) fn trace_read(
    py: Python<'_>,
    path: PathBuf,
    reading: Reading,
    head: Option<u64>,
) -> PyResult<Table> {
    let follower = Follower::new(None);
    let interrupt = follower.interrupt.clone();
    let followed = follower.run(py, || rows(&path, &reading, head.unwrap_or(u64::MAX), &interrupt))?;
    followed.whole(py)
}

fn rows(path: &Path, reading: &Reading, head: u64, interrupt: &Interrupt) -> anyhow::Result<Table> {
    let mut reader = Reader::open_once(path, &reading.options()?, interrupt)?;
    let schema = Arc::new(schema());
    let kinds: ArrayRef = Arc::new(StringArray::from(vec!["read", "write", "trim"]));
    let (mut batches, mut columns) = (Vec::new(), Columns::default());
    let mut left = head;
    while left > 0 {
        let Some(record) = reader.next_record()? else { break };
        left -= 1;
        columns.time_ps.push(record.time_ps);
        columns.device.push(record.device);
        columns.offset.push(record.offset_bytes);
        columns.bytes.push(record.bytes);
        columns.kind.push(match record.kind {
            Kind::Read => 0,
            Kind::Write => 1,
            Kind::Trim => 2,
        });
        if columns.kind.len() == BATCH {
            batches.push(std::mem::take(&mut columns).batch(&schema, &kinds)?);
        }
    }
    if !columns.kind.is_empty() {
        batches.push(columns.batch(&schema, &kinds)?);
    }
    Ok(Table::new(schema, batches))
}
