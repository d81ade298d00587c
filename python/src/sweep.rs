//! Sweeps: the planner that hands out points and takes rows, and what runs a point, here or in another process.

use crate::error::{invalid, raised};
use crate::follow::{Follower, Meter};
use crate::policy::{Ending, Given, added};
use crate::scenario::Scenario;
use crate::table::Table;
use byteway_explore::replicate::Repeat;
use byteway_explore::sweep::{
    self, Answer, DimensionSection, LocalOptions, PointCache, Ran, SearchSection, Space, Task, run_local,
};
use byteway_results::output::Output;
use byteway_scenario::{Options, Policies};
use byteway_text::error::InputError;
use byteway_text::table::Width;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A sweep under way.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Sweep {
    sweep: Mutex<sweep::Sweep>,
    cache: Option<PointCache>,
    ending: Ending,
}

/// Where results are kept: `None` nowhere, "" in the user's cache, else a folder.
fn cache(folder: Option<String>) -> Result<Option<PointCache>, InputError> {
    folder
        .map(|folder| match folder.is_empty() {
            true => PointCache::of_user(),
            false => PointCache::open(Path::new(&folder)),
        })
        .transpose()
}

fn parsed<T: serde::de::DeserializeOwned>(json: &str, what: &str) -> Result<T, InputError> {
    let wrong =
        |error: serde_json::Error| InputError::new(format!("`{what}`: {error}"), "see help(byteway.sweep)");
    serde_json::from_str(json).map_err(wrong)
}

impl Sweep {
    fn locked(&self) -> MutexGuard<'_, sweep::Sweep> {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Sweep {
    #[new]
    fn plan(
        py: Python<'_>,
        scenario: &Scenario,
        vary: &str,
        search: &str,
        repeat: u64,
        folder: Option<String>,
        policies: Vec<Given>,
    ) -> PyResult<Sweep> {
        let ending = Ending::default();
        let policies = added(&scenario.options.policies, policies, &ending);
        let options = Options { policies, ..scenario.options.clone() };
        let made = py.detach(|| {
            let repeat = Repeat::new(repeat)?;
            let vary: Vec<DimensionSection> = parsed(vary, "vary")?;
            let search: SearchSection = parsed(search, "search")?;
            let space = Space::new(scenario.input.clone(), options, &vary, search)?;
            Ok((sweep::Sweep::new(space, repeat)?, cache(folder)?))
        });
        ending.check()?;
        let made = made.map(|(sweep, cache)| Sweep { sweep: Mutex::new(sweep), cache, ending });
        made.map_err(|error| invalid(py, &error))
    }

    /// The cache's folder, for other processes.
    #[getter]
    fn cache_folder(&self) -> Option<PathBuf> {
        self.cache
            .as_ref()
            .map(|cache| std::path::absolute(cache.folder()).unwrap_or(cache.folder().to_owned()))
    }

    /// The next runs, as JSON; none at the end, and while rows are missing.
    fn next(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        let tasks = py.detach(|| self.locked().next(self.cache.as_ref()));
        let tasks = tasks.map_err(|error| invalid(py, &error))?;
        tasks
            .into_iter()
            .map(|task| {
                let json = serde_json::to_string(&task).map_err(|error| raised(py, error))?;
                Ok((task.index, json))
            })
            .collect()
    }

    /// The runs that have no row yet, as JSON: for a pool of processes that has to be started again.
    fn missing(&self, py: Python<'_>) -> PyResult<Vec<(usize, String)>> {
        let sweep = self.locked();
        let tasks = sweep.missing().into_iter().map(|index| {
            let task = sweep.task(index).map_err(|error| invalid(py, &error))?;
            Ok((index, serde_json::to_string(&task).map_err(|error| raised(py, error))?))
        });
        tasks.collect()
    }

    /// Takes the row of a point, as `run_tasks` gave it. Returns whether the point is to be run again.
    fn tell(&self, py: Python<'_>, ran: &str) -> PyResult<bool> {
        let ran: Ran = parsed(ran, "row").map_err(|error| invalid(py, &error))?;
        Ok(self.locked().tell(ran) == Answer::Again)
    }

    /// Takes the failure of a point whose process ended. Returns whether the point is to be run again.
    fn fail(&self, index: usize, reason: String) -> bool {
        let row = sweep::Row::failed(reason);
        self.locked().tell(Ran { index, row, origin: sweep::Origin::Run }) == Answer::Again
    }

    /// Runs everything in threads of this process. Returns the exception that interrupted it, if one did.
    fn run_local(
        &self,
        py: Python<'_>,
        jobs: Option<u16>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        let interrupt = self.ending.interrupt().clone();
        let follower = Follower { meter: Meter::default(), interrupt, ..Follower::new(progress) };
        let (bar, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
        let threads = crate::study::threads(jobs);
        let followed = follower.run(py, || {
            let options =
                LocalOptions { threads, cache: self.cache.as_ref(), interrupt: &interrupt, bar: &bar };
            run_local(&mut self.locked(), &options)
        })?;
        self.ending.check()?;
        Ok(followed.partial(py)?.1)
    }

    /// Runs of each point.
    #[getter]
    fn repeat(&self) -> usize {
        self.locked().repeat().count()
    }

    /// Points chosen so far, runs from the cache, and others.
    fn counts(&self) -> (usize, usize, usize) {
        self.locked().counts()
    }

    #[getter]
    fn partial(&self) -> bool {
        self.locked().is_partial()
    }

    #[getter]
    fn failed(&self) -> usize {
        self.locked().failed()
    }

    /// What was found, in a sentence.
    #[getter]
    fn found(&self) -> Option<String> {
        self.locked().found()
    }

    fn rows(&self, py: Python<'_>) -> PyResult<Table> {
        self.locked().to_batch().map(Table::of).map_err(|error| raised(py, error))
    }

    fn json(&self) -> String {
        self.locked().to_json()
    }

    fn text(&self) -> String {
        self.locked().printed(Width::Narrow)
    }

    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| -> anyhow::Result<()> {
            let output = Output::check(&folder)?.claim()?;
            Ok(self.locked().write(&output)?)
        });
        saved.map_err(|error| raised(py, error))
    }
}

/// Runs points, given as JSON, one after the other; returns their rows as JSON. For any process that has the same version.
#[pyfunction]
pub(crate) fn run_tasks(
    py: Python<'_>,
    tasks: Vec<String>,
    folder: Option<String>,
    policies: Vec<Given>,
) -> PyResult<Vec<String>> {
    let ending = Ending::default();
    let interrupt = ending.interrupt().clone();
    let follower = Follower { interrupt: interrupt.clone(), ..Follower::new(None) };
    let policies = added(&Policies::default(), policies, &ending);
    let followed = follower.run(py, || -> anyhow::Result<Vec<String>> {
        let cache = cache(folder)?;
        let run = |task: &String| -> anyhow::Result<String> {
            let task: Task = parsed(task, "task")?;
            Ok(serde_json::to_string(&task.with_policies(policies.clone()).run(cache.as_ref(), &interrupt))?)
        };
        tasks.iter().map(run).collect()
    })?;
    ending.check()?;
    followed.whole(py)
}

/// Checks that results can be written to a folder, which is created if necessary.
#[pyfunction]
pub(crate) fn check_folder(py: Python<'_>, folder: PathBuf) -> PyResult<()> {
    py.detach(|| Output::check(&folder).map(drop)).map_err(|error| invalid(py, &error))
}
