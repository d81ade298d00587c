//! DuckDB in a separate process, which answers queries.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use arrow_array::RecordBatch;
use byteway_query::{ColumnType, Value};
use serde_json::Value as Json;

/// The DuckDB version compared with. In earlier ones division by zero is null.
const MAJOR: &str = "2.";

pub struct Oracle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn python() -> String {
    std::env::var("BYTEWAY_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Decompresses a brotli file with Python's package of that name.
pub fn inflate(packed: &Path, into: &Path) {
    let script = "import brotli, sys; open(sys.argv[2], 'wb').write(brotli.decompress(open(sys.argv[1], 'rb').read()))";
    let status = Command::new(python()).args(["-c", script]).args([packed, into]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "{} needs Python with brotli: pip install brotli",
        packed.display()
    );
}

/// DuckDB's answer to a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Types of the columns, and rows of values as `plain` writes them.
    Rows(Vec<String>, Vec<Vec<Json>>),
    /// Error message.
    Error(String),
}

impl Oracle {
    /// Starts DuckDB. `None`, with a message, if there is no Python with this version of duckdb; the test fails instead if `BYTEWAY_DUCKDB`
    /// is `required`, and in continuous integration (`CI`). `BYTEWAY_PYTHON` selects the Python.
    pub fn start() -> Option<Self> {
        let python = python();
        let required =
            byteway_testkit::needs::is_required("BYTEWAY_DUCKDB") || byteway_testkit::needs::is_ci();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/duckdb/oracle.py");
        let started = Command::new(&python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut version = String::new();
        if let Ok(mut child) = started {
            let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
            let mut oracle = Self { child, input, output: BufReader::new(output) };
            oracle.output.read_line(&mut version).unwrap();
            if version.trim_matches(['"', '\n']).starts_with(MAJOR) {
                return Some(oracle);
            }
        }
        let missing = format!(
            "{python} has no duckdb {MAJOR}x (it says {version:?}): pip install 'duckdb>=2,<3', and name its python in BYTEWAY_PYTHON"
        );
        byteway_testkit::needs::missing(&missing, required);
        None
    }

    /// Runs a query.
    pub fn ask(&mut self, sql: &str) -> Answer {
        writeln!(self.input, "{}", Json::from(sql)).unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let answer: Json =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("DuckDB said {line:?} to {sql}"));
        if let Some(error) = answer["error"].as_str() {
            return Answer::Error(error.to_owned());
        }
        let texts = |json: &Json| {
            json.as_array().map(|list| list.iter().map(|t| t.as_str().unwrap().to_owned()).collect())
        };
        let rows = |json: &Json| {
            json.as_array().map(|rows| rows.iter().map(|row| row.as_array().unwrap().clone()).collect())
        };
        Answer::Rows(texts(&answer["types"]).unwrap_or_default(), rows(&answer["rows"]).unwrap_or_default())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of a result, in the oracle's format.
pub fn plain(batches: &[RecordBatch], types: &[ColumnType]) -> Vec<Vec<Json>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |(column, column_type): (&arrow_array::ArrayRef, &ColumnType)| {
                match byteway_query::values::at(column, *column_type, row) {
                    Value::Null => Json::Null,
                    Value::Bool(value) => Json::Bool(value),
                    Value::Integer(value) => Json::from(value.to_string()),
                    Value::Float(value) if value.is_nan() => Json::from("nan"),
                    Value::Float(value) => Json::from(format!("{:016x}", (value + 0.0).to_bits())),
                    Value::Text(value) => Json::from(format!("'{value}")),
                }
            };
            rows.push(batch.columns().iter().zip(types).map(value).collect());
        }
    }
    rows
}

/// Sorts rows, so that their order does not depend on the side that produced them.
pub fn sorted(mut rows: Vec<Vec<Json>>) -> Vec<Vec<Json>> {
    rows.sort_by_cached_key(|row| row.iter().map(Json::to_string).collect::<Vec<_>>());
    rows
}
