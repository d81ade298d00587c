//! A simulated run and its results.

use crate::error::{invalid, raised};
use crate::follow::Follower;
use crate::policy::{Ending, Given, added};
use crate::scenario::Scenario;
use crate::study::threads;
use crate::table::Table;
use byteway_explore::replicate::{Repeat, replicate};
use byteway_report::run_report;
use byteway_results::IoRecorder;
use byteway_results::output::Output;
use byteway_results::results::Results;
use byteway_run::run::{Records, Session, run_recorded};
use byteway_scenario::Options;
use byteway_text::progress::Progress;
use byteway_text::table::Width;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;
use tempfile::TempDir;

/// Results of a run.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct RunResults {
    scenario: byteway_scenario::Scenario,
    results: Results,
    /// The folder of the recorded I/Os, if there are any; it is removed with the results.
    ios: Option<TempDir>,
}

/// Name of the recorded I/Os in their folder.
const IOS: &str = "ios.parquet";

/// Runs a scenario, `repeat` times with other seeds. Returns the results, and the exception that interrupted the run, if one did: the results are then partial.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    ios: bool,
    repeat: u64,
    jobs: Option<u16>,
    progress: Option<Py<PyAny>>,
    policies: Vec<Given>,
) -> PyResult<(RunResults, Option<PyErr>)> {
    let repeat = Repeat::new(repeat).map_err(|error| invalid(py, &error))?;
    let follower = Follower::new(progress);
    let (meter, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
    let ending = Ending::by(&interrupt);
    let policies = added(&scenario.options.policies, policies, &ending);
    let options = Options { policies, ..scenario.options.clone() };
    let followed = follower.run(py, || -> anyhow::Result<RunResults> {
        let scenario = scenario.input.load(&options)?;
        let mut progress = Progress::new(&meter, "", scenario.command_count(), scenario.runtime());
        let session = Session { progress: &mut progress, interrupt: &interrupt };
        let folder = ios.then(tempfile::tempdir).transpose()?;
        let output = folder.as_ref().map(|folder| Output::check(folder.path())).transpose()?;
        let recorder = output.as_ref().map(|output| IoRecorder::new(output, &scenario));
        let (mut results, ios) = run_recorded(&scenario, session, Records { ios: recorder, timeline: None })?;
        if let (Some(file), Some(output)) = (ios, &output) {
            output.publish([file])?;
        }
        if repeat.is_several() {
            meter.expect(Some(repeat.count() as u64));
        }
        replicate(&mut results, &scenario, repeat, threads(jobs), &interrupt, &meter);
        Ok(RunResults { scenario, results, ios: folder })
    })?;
    ending.check()?;
    followed.partial(py)
}

#[pymethods]
impl RunResults {
    /// The content of summary.json.
    fn summary(&self) -> String {
        self.results.summary.to_json()
    }

    /// The content of summary.json, results.parquet, latency.parquet and report.html in a folder.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| -> anyhow::Result<()> {
            let output = Output::check(&folder)?.claim()?;
            let report = run_report(&self.scenario, &self.results).render();
            let ios = self.ios.as_ref().map(|folder| std::fs::read(folder.path().join(IOS))).transpose()?;
            let ios = ios.map(|ios| output.made(IOS, &ios));
            let files = [
                output.made("summary.json", self.results.summary.to_json().as_bytes()),
                self.results.to_parquet().and_then(|rows| output.made("results.parquet", &rows)),
                self.results.to_latency_parquet().and_then(|rows| output.made("latency.parquet", &rows)),
                output.made("report.html", report.as_bytes()),
            ];
            Ok(output.replace(files.into_iter().chain(ios))?)
        });
        saved.map_err(|error| raised(py, error))
    }

    /// The figures in the form of fio's JSON.
    fn fio(&self) -> String {
        self.results.to_fio_json(&self.scenario)
    }

    /// The rows of results.parquet.
    fn series(&self, py: Python<'_>) -> PyResult<Table> {
        self.results.to_batch().map(Table::of).map_err(|error| raised(py, error))
    }

    /// The rows of latency.parquet.
    fn latencies(&self, py: Python<'_>) -> PyResult<Table> {
        self.results.to_latency_batch().map(Table::of).map_err(|error| raised(py, error))
    }

    /// The rows of ios.parquet, if they were recorded.
    fn ios(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let Some(folder) = &self.ios else { return Ok(None) };
        let read = py.detach(|| -> anyhow::Result<Table> {
            let file = File::open(folder.path().join(IOS))?;
            let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
            let schema = arrow_array::RecordBatchReader::schema(&reader);
            Ok(Table::new(schema, reader.collect::<Result<_, _>>()?))
        });
        read.map(Some).map_err(|error| raised(py, error))
    }

    /// The content of report.html.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| run_report(&self.scenario, &self.results).render())
    }

    /// The tables of the terminal, 80 columns wide.
    fn text(&self) -> String {
        self.results.summary.tables(Width::Narrow)
    }

    /// The text of the scenario.
    #[getter]
    fn scenario(&self) -> &str {
        &self.scenario.text
    }
}
