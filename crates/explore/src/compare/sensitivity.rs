//! Which findings of a comparison rest on assumed constants: the whole comparison, once for each trial of a constant.

use super::comparison::Comparison;
use super::finding::Finding;
use super::outcome::{CompareOptions, PointOutcomes, run_all};
use super::plan::{Plan, Request};
use super::tried::{Change, Sensitivity, TrialEnd, Tried};
use super::vary::POINTS_MAX;
use crate::assumption::{Trial, trials, tried};
use byteway_run::probe::{PointOutcome, probe};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Hidden, Points};

/// The trials of a comparison: every constant to try that a point has.
///
/// # Errors
/// A named constant is in no profile of the points, or cannot be tried, or there are too many runs.
pub fn plan_trials(request: &Request, plan: &Plan) -> Result<Vec<Trial>, InputError> {
    let Some(which) = &request.sensitivity else { return Ok(Vec::new()) };
    let all = plan.points.iter().flat_map(|point| point.scenario.constants.iter().cloned());
    let planned = trials(which, &all.collect::<Vec<_>>())?;
    if planned.len().saturating_mul(plan.runs()) > POINTS_MAX {
        let what = format!(
            "{} runs with each of {} other values of constants are more than {POINTS_MAX} runs",
            plan.runs(),
            planned.len()
        );
        let help = "name the constants that matter, as in --sensitivity=controller.fetch_burst, or vary fewer values";
        return Err(InputError::new(what, help));
    }
    Ok(planned)
}

/// Runs the comparison once for each trial, several at once. `bar` counts trials.
pub fn sensitivity(
    request: &Request,
    base: &Comparison,
    planned: Vec<Trial>,
    threads: usize,
    interrupt: &Interrupt,
    bar: &dyn Points,
) -> Sensitivity {
    let ends =
        tried(&planned, threads, interrupt, bar, |trial| Some(end_of(request, base, trial, interrupt)));
    let trials = planned.into_iter().zip(ends);
    let trials = trials.map(|(trial, end)| Tried { trial, end: end.unwrap_or(TrialEnd::NotRun) });
    Sensitivity { trials: trials.collect() }
}

fn end_of(request: &Request, base: &Comparison, trial: &Trial, interrupt: &Interrupt) -> TrialEnd {
    let plan = match Plan::with_trial(request, Some(trial)) {
        Ok(plan) => plan,
        Err(error) => return TrialEnd::Failed(error.what),
    };
    let options = CompareOptions { threads: 1, store: None, fresh: true, interrupt, bar: &Hidden };
    let outcomes = match run_all(&plan, &options) {
        Ok(PointOutcomes { outcomes, .. }) => outcomes,
        Err(error) => return TrialEnd::Failed(error.to_string()),
    };
    let failure = outcomes.iter().find_map(|outcome| match outcome {
        PointOutcome::Failed(reason, _) => Some(reason.clone()),
        _ => None,
    });
    let other = Comparison::new(plan, outcomes, &|scenario| probe(scenario, interrupt));
    match failure {
        _ if interrupt.is_raised() => TrialEnd::NotRun,
        // A point that fails without the trial has no findings to change.
        Some(reason) if base.failed() == 0 => TrialEnd::Failed(reason),
        _ => TrialEnd::Done(changes(&base.findings, &other.findings)),
    }
}

/// The findings that are not those of `other`.
pub(super) fn changes(base: &[Finding], other: &[Finding]) -> Vec<Change> {
    let changed = base.iter().enumerate().filter_map(|(finding, own)| {
        let subject = own.fact.subject()?;
        let same = other.iter().find(|other| other.fact.subject().as_ref() == Some(&subject));
        if same.is_some_and(|same| own.fact.agrees(&same.fact)) {
            return None;
        }
        let related = || {
            other.iter().find(|other| own.fact.rivals().is_some() && own.fact.rivals() == other.fact.rivals())
        };
        let instead = same.or_else(related).map(|other| other.text.clone());
        Some(Change { finding, instead })
    });
    changed.collect()
}
