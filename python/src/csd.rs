//! A computational drive that stays attached: tables, and queries that it executes.

use crate::error::{invalid, raised};
use crate::kv::Location;
use crate::session::{Requests, Session};
use crate::table::Table;
use arrow_array::RecordBatch;
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use byteway_clock::random::Rng;
use byteway_pushdown::error::SessionError;
use byteway_pushdown::load::{Keeps, LoadOptions, Loaded};
use byteway_pushdown::plan::Plan;
use byteway_pushdown::query::{Answer as Rows, Executor};
use byteway_pushdown::session::{self, SessionOptions, TableInfo};
use byteway_pushdown::split::QueryShape;
use byteway_query::Form;
use byteway_serving::tables::{Change, with_drive};
use byteway_text::error::{InputError, suggest};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_workload::query::{Generator, RowSource};
use parquet::arrow::ArrowWriter;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use std::path::PathBuf;
use std::sync::Arc;

/// Cycles a second of this host's processor, for what is modelled of it.
const HERTZ: u64 = 3_000_000_000;

/// What the session's thread is asked.
enum Ask {
    Tables,
    Load { name: String, source: RowSource, seed: u64 },
    Drop(String),
    Query { form: Form, text: String, by: Option<Executor> },
    Explain { form: Form, text: String },
}

enum Answer {
    Tables(Vec<TableInfo>),
    Loaded(Loaded),
    Dropped,
    Rows(Box<Rows>),
    Plans(Vec<Plan>),
}

/// A drive with tables that stays attached.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct TablesDrive {
    session: Session<Ask, Answer>,
    is_read_only: bool,
}

/// Executes requests until the session is closed.
async fn serve(session: session::Session, requests: Requests<Ask, Answer>) -> Result<(), SessionError> {
    while let Some((request, answer)) = requests.next() {
        // After Ctrl-C there may be no reader.
        let _ = answer.send(answered(&session, request).await.map_err(SessionError::into));
    }
    Ok(())
}

async fn answered(session: &session::Session, request: Ask) -> Result<Answer, SessionError> {
    Ok(match request {
        Ask::Tables => Answer::Tables(session.tables().await?),
        Ask::Load { name, source, seed } => {
            let mut progress = Progress::hidden();
            let (rng, interrupt) = (Rng::new(seed), Interrupt::default());
            let options = LoadOptions { rng: &rng, keeps: Keeps::Others, interrupt: &interrupt };
            Answer::Loaded(session.load(&name, &[source], &options, &mut progress).await?)
        }
        Ask::Drop(name) => {
            session.drop_table(&name).await?;
            Answer::Dropped
        }
        Ask::Query { form, text, by } => {
            Answer::Rows(Box::new(session.query(form, text.as_bytes(), by).await?))
        }
        Ask::Explain { form, text } => Answer::Plans(match session.shape(form, text.as_bytes()).await? {
            QueryShape::Whole { task, table } => vec![session.plan(&task, &table).await?],
            QueryShape::Split(query) => session.plans(&query).await?,
        }),
    })
}

fn form(py: Python<'_>, name: &str) -> PyResult<Form> {
    match name {
        "sql" => Ok(Form::Sql),
        "segment" => Ok(Form::Segment),
        "compact" => Ok(Form::Compact),
        _ => {
            let help = suggest(name, &["sql", "segment", "compact"]);
            Err(invalid(py, &InputError::new(format!("no such form of a query: `{name}`"), help)))
        }
    }
}

fn executor(py: Python<'_>, name: &str) -> PyResult<Option<Executor>> {
    match name {
        "adaptive" => Ok(None),
        "drive" => Ok(Some(Executor::Drive)),
        "host" => Ok(Some(Executor::Host)),
        _ => {
            let help = suggest(name, &["adaptive", "drive", "host"]);
            Err(invalid(py, &InputError::new(format!("no such executor: `{name}`"), help)))
        }
    }
}

impl TablesDrive {
    fn check_writable(&self, py: Python<'_>) -> PyResult<()> {
        match self.is_read_only {
            true => {
                let what = "the drive was opened for reading only";
                Err(invalid(py, &InputError::new(what, "open it without read_only to load and drop tables")))
            }
            false => Ok(()),
        }
    }

    fn load(&self, py: Python<'_>, name: String, source: RowSource, seed: u64) -> PyResult<u64> {
        self.check_writable(py)?;
        match self.session.ask(py, Ask::Load { name, source, seed })? {
            Answer::Loaded(loaded) => Ok(loaded.rows_in_all),
            _ => Ok(0),
        }
    }
}

#[pymethods]
impl TablesDrive {
    #[new]
    fn open(py: Python<'_>, location: Location) -> PyResult<TablesDrive> {
        let made = location.source(false).and_then(|source| {
            let method = location.method()?;
            Ok((source, SessionOptions { nsid: location.namespace, method, hertz: HERTZ, programs: false }))
        });
        let (source, options) = made.map_err(|error| invalid(py, &error))?;
        let change = if location.read_only { Change::None } else { Change::Tables };
        let serving =
            move |requests| with_drive(&source, options, change, move |session| serve(session, requests));
        let session = Session::open(py, Ask::Tables, serving)?;
        Ok(TablesDrive { session, is_read_only: location.read_only })
    }

    /// Name, rows, bytes, and (column, type, nullable) of each table.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<TableRow>> {
        let Answer::Tables(all) = self.session.ask(py, Ask::Tables)? else { return Ok(Vec::new()) };
        let row = |table: TableInfo| {
            let columns = table.schema.columns().iter();
            let columns =
                columns.map(|column| (column.name.clone(), column.column_type.to_string(), column.nullable));
            (table.record.name, table.record.rows, table.record.bytes, columns.collect())
        };
        Ok(all.into_iter().map(row).collect())
    }

    /// Appends the rows of a Parquet file; returns the rows of the table.
    fn load_file(&self, py: Python<'_>, name: String, path: PathBuf) -> PyResult<u64> {
        self.load(py, name, RowSource::File(path), 0)
    }

    /// Appends rows of a generator.
    fn load_generated(
        &self,
        py: Python<'_>,
        name: String,
        generator: &str,
        rows: Option<u64>,
        scale: Option<f64>,
        seed: u64,
    ) -> PyResult<u64> {
        let source = Generator::of_name(generator)
            .ok_or_else(|| {
                let names = Generator::ALL.map(Generator::name);
                InputError::new(format!("no such generator: `{generator}`"), suggest(generator, &names))
            })
            .and_then(|generator| RowSource::drawn(generator, rows, scale));
        self.load(py, name, source.map_err(|error| invalid(py, &error))?, seed)
    }

    /// Appends the rows of an Arrow table.
    fn load_arrow(&self, py: Python<'_>, name: String, rows: AnyRecordBatch) -> PyResult<u64> {
        self.check_writable(py)?;
        let reader = rows.into_reader()?;
        let schema = stored_schema(&reader.schema()).map_err(|error| invalid(py, &error))?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("rows.parquet");
        let written = py.detach(|| -> anyhow::Result<()> {
            let file = std::fs::File::create(&path)?;
            let mut writer = ArrowWriter::try_new(file, schema.clone(), None)?;
            for batch in reader {
                let batch = batch?;
                let columns = batch.columns().iter().zip(schema.fields());
                let columns = columns.map(|(column, field)| cast(column, field.data_type()));
                writer.write(&RecordBatch::try_new(schema.clone(), columns.collect::<Result<_, _>>()?)?)?;
            }
            writer.close()?;
            Ok(())
        });
        written.map_err(|error| raised(py, error))?;
        self.load(py, name, RowSource::File(path), 0)
    }

    fn drop_table(&self, py: Python<'_>, name: String) -> PyResult<()> {
        self.check_writable(py)?;
        self.session.ask(py, Ask::Drop(name)).map(drop)
    }

    /// Rows of a query, and its figures as JSON.
    fn query(&self, py: Python<'_>, text: String, said: &str, on: &str) -> PyResult<(Table, String)> {
        let request = Ask::Query { form: form(py, said)?, text, by: executor(py, on)? };
        let Answer::Rows(rows) = self.session.ask(py, request)? else {
            return Err(invalid(py, &InputError::new("the drive gave no rows", "report this defect")));
        };
        let (to_drive, from_drive) = rows.link_bytes.unzip();
        let figures = serde_json::json!({
            "executor": name_of(rows.executor),
            "nanoseconds": rows.nanoseconds,
            "task_bytes": rows.task_bytes,
            "bytes_read": rows.bytes_read,
            "commands": rows.commands,
            "link_bytes_to_drive": to_drive,
            "link_bytes_from_drive": from_drive,
            "host_cycles": rows.host_cycles,
            "drive_cycles": rows.drive_cycles,
        });
        Ok((Table::new(rows.schema.clone(), rows.batches), figures.to_string()))
    }

    /// How each table of a query would be executed, and why, as JSON.
    fn explain(&self, py: Python<'_>, text: String, said: &str) -> PyResult<String> {
        let request = Ask::Explain { form: form(py, said)?, text };
        let Answer::Plans(plans) = self.session.ask(py, request)? else { return Ok("[]".to_owned()) };
        let plan = |plan: &Plan| {
            serde_json::json!({
                "table": plan.table,
                "columns": plan.columns,
                "rows": plan.rows,
                "row_groups": plan.groups.0,
                "row_groups_read": plan.groups.1,
                "selectivity": plan.selectivity,
                "column_bytes": plan.column_bytes,
                "result_bytes": plan.result_bytes,
                "drive_ns": plan.nanoseconds.0,
                "host_ns": plan.nanoseconds.1,
                "choice": name_of(plan.choice),
                "why": plan.why,
            })
        };
        Ok(serde_json::Value::Array(plans.iter().map(plan).collect()).to_string())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.session.close(py)
    }
}

/// The types in which rows are stored: views of texts and bytes, which polars has, become texts and bytes.
fn stored_schema(given: &Schema) -> Result<SchemaRef, InputError> {
    let field = |field: &FieldRef| -> Result<FieldRef, InputError> {
        let stored = match field.data_type() {
            DataType::Utf8View => DataType::Utf8,
            DataType::BinaryView => DataType::Binary,
            DataType::Null => {
                let what = format!("column {:?} has no type: all of its values are missing", field.name());
                return Err(InputError::new(what, "give it a type, or leave the column out"));
            }
            _ => return Ok(field.clone()),
        };
        Ok(Arc::new(field.as_ref().clone().with_data_type(stored)))
    };
    let fields: Vec<FieldRef> = given.fields().iter().map(field).collect::<Result<_, _>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Name, rows, bytes, columns.
type TableRow = (String, u64, u64, Vec<(String, String, bool)>);

fn name_of(executor: Executor) -> &'static str {
    match executor {
        Executor::Drive => "drive",
        Executor::Host => "host",
        Executor::Mixed => "mixed",
    }
}
