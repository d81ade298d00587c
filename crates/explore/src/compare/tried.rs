//! What a comparison's findings became with other values of assumed constants.

use super::finding::Finding;
use crate::assumption::Trial;
use serde::Serialize;

/// What became of the findings in each trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// The trials, in the order of the profiles' keys.
    pub trials: Vec<Tried>,
}

/// A trial and what became of the findings.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// The trial.
    pub trial: Trial,
    /// How it ended.
    pub end: TrialEnd,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialEnd {
    /// All points were run: the findings that change.
    Done(Vec<Change>),
    /// The value is not valid, or a point failed with it: why.
    Failed(String),
    /// An interrupt came first.
    NotRun,
}

/// A finding that a trial changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Index of the finding.
    pub finding: usize,
    /// What is found instead on the same subject; `None`: nothing.
    pub instead: Option<String>,
}

impl Sensitivity {
    /// Whether trials are missing because of an interrupt.
    pub fn is_partial(&self) -> bool {
        self.trials.iter().any(|one| one.end == TrialEnd::NotRun)
    }

    /// Sentences: for each finding that changes, the trials that change it; then how many hold, and what could not be tried.
    pub fn lines(&self, findings: &[Finding]) -> Vec<String> {
        let done = || {
            self.trials.iter().filter_map(|one| match &one.end {
                TrialEnd::Done(changes) => Some((&one.trial, changes)),
                _ => None,
            })
        };
        let mut lines = Vec::new();
        for (index, finding) in findings.iter().enumerate() {
            let changed = done().filter_map(|(trial, changes)| {
                let change = changes.iter().find(|change| change.finding == index)?;
                Some((trial, change.instead.as_deref().unwrap_or("nothing is found")))
            });
            let changed: Vec<_> = changed.collect();
            if changed.is_empty() {
                continue;
            }
            lines.push(format!("Not with every value: {}.", finding.text));
            lines.extend(changed.iter().map(|(trial, instead)| format!("{}: {instead}.", trial.words())));
        }
        let mut keys: Vec<(&str, &str)> =
            done().map(|(trial, _)| (trial.section.as_str(), trial.key.as_str())).collect();
        keys.dedup();
        let changing = findings.iter().enumerate().filter(|(index, finding)| {
            finding.fact.subject().is_some()
                && done().any(|(_, changes)| changes.iter().any(|change| change.finding == *index))
        });
        let (all, changing) =
            (findings.iter().filter(|one| one.fact.subject().is_some()).count(), changing.count());
        let (tried, of_them) = (done().count(), keys.len());
        if tried > 0 {
            let constants = if of_them == 1 { "constant" } else { "constants" };
            let values = if tried == 1 { "value" } else { "values" };
            lines.push(format!(
                "{} of {all} conclusions hold with each of {tried} other {values} of {of_them} {constants}.",
                all - changing
            ));
        }
        let failed = self.trials.iter().filter_map(|one| match &one.end {
            TrialEnd::Failed(reason) => Some(format!("Not tried: {}: {reason}.", one.trial.words())),
            _ => None,
        });
        lines.extend(failed);
        if self.is_partial() {
            lines.push("PARTIAL: interrupted before all values were tried.".to_owned());
        }
        lines
    }
}
