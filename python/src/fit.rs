//! Constants of a profile, fitted to measurements of a drive.

use crate::error::{invalid, raised};
use crate::follow::{Follower, Meter};
use crate::study::threads;
use byteway_explore::fit::{
    Fit as Fitted, HoldOut, JobSet, Request, Setup, check_folder, fit as fit_constants, read_csv, read_fio,
    read_measurements, runs,
};
use byteway_results::output::Output;
use byteway_text::error::InputError;
use byteway_text::table::Width;
use byteway_text::units::{Bytes, Picos, UnitError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::str::FromStr;

/// Measurements of a drive.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Measurements {
    name: String,
    found: byteway_explore::fit::Measurements,
}

#[pymethods]
impl Measurements {
    /// A file: a table if it ends in `.csv`, else fio's JSON.
    #[staticmethod]
    fn file(py: Python<'_>, path: PathBuf) -> PyResult<Measurements> {
        let found = py.detach(|| read_measurements(&path)).map_err(|error| invalid(py, &error))?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Measurements { name, found })
    }

    /// The text of fio's JSON.
    #[staticmethod]
    fn fio(py: Python<'_>, name: String, text: &str) -> PyResult<Measurements> {
        let found = py.detach(|| read_fio(&name, text)).map_err(|error| invalid(py, &error))?;
        Ok(Measurements { name, found })
    }

    /// The text of a table.
    #[staticmethod]
    fn table(py: Python<'_>, name: String, text: &str) -> PyResult<Measurements> {
        let found = py.detach(|| read_csv(&name, text)).map_err(|error| invalid(py, &error))?;
        Ok(Measurements { name, found })
    }
}

/// The result of a fit.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Fit(Fitted);

/// Fits constants. Returns the result, and the exception that interrupted it, if one did: the result is then partial.
#[pyfunction]
#[pyo3(signature = (measurements, base, host, sets, hold_out, structure, jobs, progress))]
#[expect(clippy::too_many_arguments, reason = "the arguments of one Python function")]
pub(crate) fn fit(
    py: Python<'_>,
    measurements: &Measurements,
    base: String,
    host: String,
    sets: Vec<String>,
    hold_out: Option<Vec<String>>,
    structure: bool,
    jobs: Option<u16>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Fit, Option<PyErr>)> {
    let count = runs(measurements.found.points.len());
    let follower = Follower { meter: Meter::of_points(count as u64), ..Follower::new(progress) };
    let (bar, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
    let followed = follower.run(py, || {
        fit_constants(Request {
            file: measurements.name.clone(),
            measurements: measurements.found.clone(),
            setup: Setup { base, host, sets },
            hold_out: hold_out.map_or(HoldOut::AsTheyAre, HoldOut::Named),
            structure,
            threads: threads(jobs),
            interrupt: &interrupt,
            bar: &bar,
        })
    })?;
    let (found, stopped_by) = followed.partial(py)?;
    Ok((Fit(found), stopped_by))
}

#[pymethods]
impl Fit {
    /// The content of fit.json.
    fn json(&self) -> String {
        self.0.to_json()
    }

    /// The content of my-drive.toml.
    fn profile(&self) -> String {
        self.0.to_profile(None)
    }

    /// The content of report.html.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| byteway_explore::fit::report(&self.0).render())
    }

    /// The tables of the terminal, 80 columns wide.
    fn text(&self) -> String {
        self.0.printed(Width::Narrow)
    }

    /// Writes my-drive.toml, fit.json and report.html to a folder.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| -> anyhow::Result<()> {
            check_folder(&self.0.base, &folder)?;
            let output = Output::check(&folder)?.claim()?;
            let files = self.0.files(&folder);
            Ok(output.replace(files.map(|(name, text)| output.made(name, text.as_bytes())))?)
        });
        saved.map_err(|error| raised(py, error))
    }
}

/// A value with its unit.
fn parsed<T: FromStr<Err = UnitError>>(what: &str, text: &str) -> Result<T, InputError> {
    let help = "write a number with its unit, such as \"5 s\" or \"32 GiB\"";
    text.parse().map_err(|error: UnitError| InputError::new(format!("{what}: {error}"), help))
}

/// The fio job file whose results identify the constants.
#[pyfunction]
pub(crate) fn fit_jobs(
    py: Python<'_>,
    runtime: &str,
    ramp: &str,
    size: &str,
    steady: bool,
) -> PyResult<String> {
    let jobs = || -> Result<JobSet, InputError> {
        let runtime: Picos = parsed("runtime", runtime)?;
        let ramp: Picos = parsed("ramp", ramp)?;
        let size: Bytes = parsed("size", size)?;
        JobSet { runtime, ramp, size, steady }.checked()
    };
    jobs().map(|jobs| jobs.text()).map_err(|error| invalid(py, &error))
}
