//! Comparisons, thresholds, and papers measured again.

use crate::error::{invalid, raised};
use crate::follow::{Follower, Meter};
use crate::policy::{Ending, Given, added};
use crate::scenario::Scenario;
use byteway_explore::assumption::Constants;
use byteway_explore::compare::{
    CompareOptions, Comparison as Compared, Plan, PointOutcomes, Request, Store, plan_trials,
    report as report_of_comparison, run_all, sensitivity as tried,
};
use byteway_explore::replicate::Repeat;
use byteway_explore::threshold::{measure, to_toml};
use byteway_papers::{
    PAPERS, PAYLOADS_FULL, Paper, ReproducePlan, Reproduction as Reproduced, RunLength, paper as named,
    report as report_of_paper,
};
use byteway_results::figures::Metric;
use byteway_results::output::Output;
use byteway_run::probe::probe;
use byteway_scenario::Options;
use byteway_text::error::{InputError, suggest};
use byteway_text::table::Width;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Threads, if the user names none: one for each processor.
pub(crate) fn threads(jobs: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    jobs.map_or_else(all, |jobs| usize::from(jobs).max(1))
}

/// The result of a comparison.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Comparison(Compared);

/// Runs all combinations. Returns the result, and the exception that interrupted it, if one did.
#[pyfunction]
#[pyo3(signature = (scenario, varies, baseline, metric, repeat, sensitivity, out, fresh, jobs, progress, policies))]
#[expect(clippy::too_many_arguments, reason = "the arguments of one Python function")]
pub(crate) fn compare(
    py: Python<'_>,
    scenario: &Scenario,
    varies: Vec<String>,
    baseline: Option<String>,
    metric: Option<String>,
    repeat: u64,
    sensitivity: Option<String>,
    out: Option<PathBuf>,
    fresh: bool,
    jobs: Option<u16>,
    progress: Option<Py<PyAny>>,
    policies: Vec<Given>,
) -> PyResult<(Comparison, Option<PyErr>)> {
    let metric = match metric {
        Some(key) => Some(Metric::named(&key).ok_or_else(|| {
            let help = suggest(&key, &Metric::ALL.map(Metric::key));
            invalid(py, &InputError::new(format!("no such figure: `{key}`"), help))
        })?),
        None => None,
    };
    let repeat = Repeat::new(repeat).map_err(|error| invalid(py, &error))?;
    let ending = Ending::default();
    let policies = added(&scenario.options.policies, policies, &ending);
    let (input, options) = (scenario.input.clone(), Options { policies, ..scenario.options.clone() });
    let sensitivity = sensitivity.map(|keys| Constants::parse(&keys));
    let request = Request { scenario: input, varies, baseline, metric, repeat, options, sensitivity };
    let load = || {
        let plan = Plan::load(&request)?;
        let trials = plan_trials(&request, &plan)?;
        Ok::<_, InputError>((plan, trials))
    };
    let loaded = py.detach(load);
    ending.check()?;
    let (plan, trials) = loaded.map_err(|error| invalid(py, &error))?;
    let count = plan.runs();
    let all = count + trials.len();
    let meter = Meter::of_points(all as u64);
    let follower = Follower { meter, interrupt: ending.interrupt().clone(), ..Follower::new(progress) };
    let (bar, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
    let followed = follower.run(py, || -> anyhow::Result<Compared> {
        let store = out.as_deref().map(|folder| Store::open(folder, count)).transpose()?;
        let options = CompareOptions {
            threads: threads(jobs),
            store: store.as_ref(),
            fresh,
            interrupt: &interrupt,
            bar: &bar,
        };
        let PointOutcomes { outcomes, kept, .. } = run_all(&plan, &options)?;
        let mut found = Compared::new(plan, outcomes, &|scenario| probe(scenario, &interrupt));
        if request.sensitivity.is_some() {
            found.sensitivity = Some(tried(&request, &found, trials, threads(jobs), &interrupt, &bar));
        }
        found.interrupted = interrupt.is_raised();
        kept?;
        if let Some(store) = &store {
            store.write_all(&found)?;
        }
        Ok(found)
    })?;
    ending.check()?;
    let (found, stopped_by) = followed.partial(py)?;
    Ok((Comparison(found), stopped_by))
}

#[pymethods]
impl Comparison {
    /// The content of compare.json.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_json())
    }

    /// The content of compare.csv.
    fn csv(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_csv())
    }

    /// The content of report.html.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| report_of_comparison(&self.0).render())
    }

    /// Table and findings, as in the terminal.
    fn text(&self) -> String {
        self.0.printed(Width::Narrow)
    }
}

/// Measures tau of adaptive transfer. Returns TOML for a profile, and the exception that interrupted it, if one did.
#[pyfunction]
pub(crate) fn threshold(py: Python<'_>, scenario: &Scenario) -> PyResult<(String, Option<PyErr>)> {
    let follower = Follower::new(None);
    let interrupt = follower.interrupt.clone();
    let followed = follower.run(py, || -> anyhow::Result<String> {
        let scenario = scenario.load()?;
        Ok(to_toml(&scenario, &measure(&scenario, &interrupt)?, &[]))
    })?;
    followed.partial(py)
}

/// Name and subject of each paper.
#[pyfunction]
pub(crate) fn papers() -> Vec<(&'static str, &'static str)> {
    PAPERS.iter().map(|paper| (paper.name, paper.about)).collect()
}

/// A paper, measured again.
#[pyclass(frozen, module = "byteway._native")]
pub(crate) struct Reproduction {
    paper: &'static Paper,
    found: Reproduced,
}

/// Measures the claims of a paper. Returns the result, and the exception that interrupted it, if one did.
#[pyfunction]
#[pyo3(signature = (paper, payloads, full, claims, figures, jobs, progress))]
#[expect(clippy::too_many_arguments, reason = "the arguments of one Python function")]
pub(crate) fn reproduce(
    py: Python<'_>,
    paper: &str,
    payloads: Option<u64>,
    full: bool,
    claims: Option<PathBuf>,
    figures: bool,
    jobs: Option<u16>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Reproduction, Option<PyErr>)> {
    let paper = named(paper).map_err(|error| invalid(py, &error))?;
    let length = match payloads {
        _ if full => RunLength::Full,
        Some(payloads) => RunLength::Payloads(payloads.clamp(1, PAYLOADS_FULL)),
        None => RunLength::Default,
    };
    let file = paper.read_claims(claims.as_deref()).map_err(|error| invalid(py, &error))?;
    let plan = ReproducePlan::new(paper, file, length, figures).map_err(|error| invalid(py, &error))?;
    let follower = Follower { meter: Meter::of_points(plan.points() as u64), ..Follower::new(progress) };
    let (bar, interrupt) = (follower.meter.clone(), follower.interrupt.clone());
    let followed = follower.run(py, || plan.run(threads(jobs), &interrupt, &bar))?;
    Ok((Reproduction { paper, found: followed.value }, followed.stopped_by))
}

#[pymethods]
impl Reproduction {
    /// The content of reproduce.json.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.found.to_json())
    }

    /// The content of report.html.
    fn report(&self, py: Python<'_>) -> String {
        py.detach(|| report_of_paper(self.paper, &self.found).render())
    }

    /// The table of the terminal.
    fn text(&self) -> String {
        self.found.printed(Width::Narrow)
    }

    /// Writes reproduce.json and report.html to a folder.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let saved = py.detach(|| -> anyhow::Result<()> {
            let output = Output::check(&folder)?.claim()?;
            let report = report_of_paper(self.paper, &self.found).render();
            Ok(output.replace([
                output.made("reproduce.json", self.found.to_json().as_bytes()),
                output.made("report.html", report.as_bytes()),
            ])?)
        });
        saved.map_err(|error| raised(py, error))
    }
}
