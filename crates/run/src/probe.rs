//! One run of many: the point of a comparison, of a sweep or of a paper. A failure or a panic of one must not end the
//! others, so that every run has an outcome.

use crate::run::{Session, run};
use byteway_results::RunResult;
use byteway_results::results::Series;
use byteway_results::summary::Summary;
use byteway_scenario::Scenario;
use byteway_text::error::with_causes;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Outcome of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum PointOutcome {
    /// The point completed.
    Done(Box<RunResult>),
    /// The point failed: the reason, and the result, if there is one.
    Failed(String, Option<Box<RunResult>>),
    /// Interrupted before it was complete.
    NotRun,
}

impl PointOutcome {
    /// The outcome of a run. An interrupted one counts as not run, and one whose figures cannot be compared as failed.
    pub fn of(found: RunResult) -> PointOutcome {
        if found.summary.partial {
            return PointOutcome::NotRun;
        }
        match failure(&found.summary) {
            Some(reason) => PointOutcome::Failed(reason, Some(Box::new(found))),
            None => PointOutcome::Done(Box::new(found)),
        }
    }

    /// The result of a completed point without a failure.
    pub fn done(&self) -> Option<&RunResult> {
        match self {
            PointOutcome::Done(found) => Some(found),
            PointOutcome::Failed(..) | PointOutcome::NotRun => None,
        }
    }

    /// Its name in results, and why it failed.
    pub fn status(&self) -> (&'static str, Option<&str>) {
        match self {
            PointOutcome::Done(_) => ("done", None),
            PointOutcome::Failed(reason, _) => ("failed", Some(reason)),
            PointOutcome::NotRun => ("not-run", None),
        }
    }

    /// The result, if there is one.
    pub fn found(&self) -> Option<&RunResult> {
        match self {
            PointOutcome::Done(found) | PointOutcome::Failed(_, Some(found)) => Some(found),
            PointOutcome::Failed(_, None) | PointOutcome::NotRun => None,
        }
    }
}

/// Runs a scenario that is not a point; `None` if it has no result.
pub fn probe(scenario: &Scenario, interrupt: &Interrupt) -> Option<RunResult> {
    match run_point(scenario, interrupt) {
        PointOutcome::Done(found) => Some(*found),
        PointOutcome::Failed(..) | PointOutcome::NotRun => None,
    }
}

/// Runs a scenario. A run that cannot be compared counts as failed.
pub fn run_point(scenario: &Scenario, interrupt: &Interrupt) -> PointOutcome {
    run_with_series(scenario, interrupt).0
}

/// Like [`run_point`], with the time series of a completed run.
pub fn run_with_series(scenario: &Scenario, interrupt: &Interrupt) -> (PointOutcome, Option<Series>) {
    // A panic in one run must not affect the others: the panic hook prints it, and the point fails.
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut progress = Progress::hidden();
        run(scenario, Session { progress: &mut progress, interrupt })
    }));
    let results = match ran {
        Ok(Ok(results)) => results,
        // An error during an interrupt will recur when the point is run again.
        Ok(Err(_)) if interrupt.is_raised() => return (PointOutcome::NotRun, None),
        Ok(Err(error)) => return (PointOutcome::Failed(with_causes(&error), None), None),
        Err(_) => {
            let why = "the run panicked; this is a defect of Byteway".to_owned();
            return (PointOutcome::Failed(why, None), None);
        }
    };
    if results.summary.partial {
        return (PointOutcome::NotRun, None);
    }
    let curves = results.curves();
    (PointOutcome::of(RunResult { summary: results.summary, curves }), Some(results.series))
}

/// The reason for which a run's figures cannot be compared.
fn failure(summary: &Summary) -> Option<String> {
    if summary.verification.mismatches > 0 {
        let (wrong, reads) = (summary.verification.mismatches, summary.verification.reads);
        return Some(format!("{wrong} of {reads} reads did not return what was written"));
    }
    if let Some(row) = summary.errors.first() {
        let all: u64 = summary.errors.iter().map(|row| row.count).sum();
        return Some(format!("{all} commands failed: {}", row.status));
    }
    (summary.ios == 0).then(|| "no I/O was measured".to_owned())
}
