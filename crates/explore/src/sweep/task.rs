//! A run of a point as it travels to another process, and what runs it there.

use super::cache::PointCache;
use super::row::Row;
use crate::compare::{SOURCES, fingerprint};
use byteway_run::probe::{PointOutcome, run_with_series};
use byteway_scenario::{
    Options, Policies, Scenario, ScenarioInput, TraceFormats, TransferMethods, WorkloadSources,
};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A point that can be sent to another machine: the text of its scenario travels with it. Traces do not; they must have the same paths there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Number of the run: each point has as many as replicates.
    pub index: usize,
    /// Hash of the program's sources: another one would give other results.
    pub sources: String,
    name: String,
    folder: PathBuf,
    text: String,
    sets: Vec<String>,
    defines: Vec<String>,
    skip_bad_lines: bool,
    /// Those of this process: another one reports that it lacks the policy.
    #[serde(skip)]
    policies: Policies,
    /// Likewise.
    #[serde(skip)]
    sources_of_ios: WorkloadSources,
    /// Likewise.
    #[serde(skip)]
    formats: TraceFormats,
    /// Likewise.
    #[serde(skip)]
    methods: TransferMethods,
}

/// Where a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It was run.
    Run,
    /// It was run, and could not be written to the cache: a later sweep runs it again.
    Unkept,
    /// It was in the cache.
    Cache,
}

/// A point that has been run, or found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Number of the run.
    pub index: usize,
    /// Its row.
    pub row: Row,
    /// Where the row comes from.
    pub origin: Origin,
}

impl Task {
    /// The task of a point. The scenario's file is read, so that the task needs none.
    pub(super) fn new(index: usize, input: &ScenarioInput, options: &Options) -> Result<Task, InputError> {
        let (name, folder, text) = input.text()?;
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        Ok(Task {
            index,
            sources: SOURCES.to_owned(),
            name,
            folder,
            text,
            sets: options.sets.clone(),
            defines: options.defines.clone(),
            skip_bad_lines: options.skip_bad_lines,
            policies: options.policies.clone(),
            sources_of_ios: options.sources.clone(),
            formats: options.formats.clone(),
            methods: options.methods.clone(),
        })
    }

    /// The same with policies of the process that runs it.
    #[must_use]
    pub fn with_policies(self, policies: Policies) -> Task {
        Task { policies, ..self }
    }

    fn scenario(&self) -> Result<Scenario, InputError> {
        let options = Options {
            sets: self.sets.clone(),
            defines: self.defines.clone(),
            skip_bad_lines: self.skip_bad_lines,
            policies: self.policies.clone(),
            sources: self.sources_of_ios.clone(),
            formats: self.formats.clone(),
            methods: self.methods.clone(),
            ..Options::default()
        };
        Scenario::from_text(&self.name, &self.folder, &self.text, &options)
    }

    /// Runs the point, or finds its result in the cache. What goes wrong is said in the row.
    pub fn run(&self, cache: Option<&PointCache>, interrupt: &Interrupt) -> Ran {
        let ran = |row: Row, origin: Origin| Ran { index: self.index, row, origin };
        if self.sources != SOURCES {
            let why = "this process has another version of byteway than the one that planned the sweep; install the same one";
            return ran(Row::failed(why.to_owned()), Origin::Run);
        }
        match self.scenario() {
            Ok(scenario) => {
                let (row, origin) = run_point(&scenario, cache, interrupt);
                ran(row, origin)
            }
            Err(error) => ran(Row::failed(error.to_string()), Origin::Run),
        }
    }
}

/// The row of a scenario: from the cache, or else by running it, after which it is in the cache.
pub(super) fn run_point(
    scenario: &Scenario,
    cache: Option<&PointCache>,
    interrupt: &Interrupt,
) -> (Row, Origin) {
    let run = || run_with_series(scenario, interrupt).0;
    let Some(cache) = cache else { return (Row::of(&run()), Origin::Run) };
    let own = match fingerprint(scenario) {
        Ok(own) => own,
        Err(error) => return (Row::failed(error.to_string()), Origin::Run),
    };
    let kept = || cache.get(&own).map(|found| (Row::of(&PointOutcome::Done(Box::new(found))), Origin::Cache));
    if let Some(row) = kept() {
        return row;
    }
    let lock = cache.lock(&own, interrupt);
    // Another process may have run it meanwhile.
    if let Some(row) = kept() {
        return row;
    }
    let outcome = run();
    let origin = match outcome.done().map(|found| cache.put(&own, found)) {
        Some(Err(_)) => Origin::Unkept,
        _ => Origin::Run,
    };
    cache.unlock(&own, lock);
    (Row::of(&outcome), origin)
}
