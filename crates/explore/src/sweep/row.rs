//! A point's row: its outcome and its figures.

use byteway_results::figures::{Figures, Metric};
use byteway_results::replicates::of_replicate;
use byteway_run::probe::PointOutcome;
use serde::{Deserialize, Serialize};

/// Outcome of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowStatus {
    /// It completed.
    Done,
    /// It failed, as often as it was tried.
    Failed,
    /// The sweep was interrupted before.
    NotRun,
}

impl RowStatus {
    pub(super) fn name(self) -> &'static str {
        match self {
            RowStatus::Done => "done",
            RowStatus::Failed => "failed",
            RowStatus::NotRun => "not-run",
        }
    }
}

/// A point's row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Outcome.
    pub status: RowStatus,
    /// Why it failed.
    pub reason: Option<String>,
    /// Its figures, also of a failed run that has some.
    pub figures: Figures,
    /// The busiest resource, and its mean utilization.
    pub busiest: Option<(String, f64)>,
    /// Its values in words.
    name: String,
}

impl Row {
    /// The row of an outcome, without the point's name, which its sweep knows.
    pub fn of(outcome: &PointOutcome) -> Row {
        let (status, reason) = match outcome {
            PointOutcome::Done(_) => (RowStatus::Done, None),
            PointOutcome::Failed(reason, _) => (RowStatus::Failed, Some(reason.clone())),
            PointOutcome::NotRun => (RowStatus::NotRun, None),
        };
        let found = outcome.found();
        let busiest = found.and_then(|found| found.summary.busiest());
        Row {
            status,
            reason,
            figures: found.map(Figures::of).unwrap_or_default(),
            busiest: busiest.map(|(resource, mean)| (resource.to_owned(), mean)),
            name: String::new(),
        }
    }

    /// A figure that counts in a search, and for the best point: one of a run that did not fail.
    pub fn counting(&self, metric: Metric) -> Option<f64> {
        self.figures.get(metric).filter(|_| self.status == RowStatus::Done)
    }

    /// The row of a point with several replicates, by their seeds: the means of their figures, if all are complete, or they would be over
    /// fewer. A single one's row is the point's.
    pub(super) fn joined(mut rows: Vec<(u64, Row)>) -> Row {
        if rows.len() == 1 {
            return rows.remove(0).1;
        }
        let failure = rows.iter().enumerate().find_map(|(index, (seed, row))| {
            let reason = of_replicate(index, rows.len(), *seed, row.reason.as_deref()?);
            Some(Row::failed(reason))
        });
        let is_missing = rows.iter().any(|(_, row)| row.status == RowStatus::NotRun);
        if let Some(row) = failure.or(is_missing.then(Row::not_run)) {
            return row;
        }
        let figures: Vec<Figures> = rows.iter().map(|(_, row)| row.figures).collect();
        Row { figures: Figures::mean_of(&figures), ..rows.swap_remove(0).1 }
    }

    /// Whether this point and another are within chance of each other in a figure.
    pub(super) fn is_chance(&self, other: &Row, metric: Metric) -> bool {
        self.figures.is_chance(&other.figures, metric)
    }

    /// A point that failed before it had a result.
    pub fn failed(reason: String) -> Row {
        Row::of(&PointOutcome::Failed(reason, None))
    }

    /// A point that was not run.
    pub(super) fn not_run() -> Row {
        Row::of(&PointOutcome::NotRun)
    }

    pub(super) fn with_name(self, name: String) -> Row {
        Row { name, ..self }
    }

    /// Its values in words.
    pub fn named(&self) -> &str {
        &self.name
    }
}
