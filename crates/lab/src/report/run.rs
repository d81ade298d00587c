//! The report of a run.

use super::Page;
use crate::results::Results;
use crate::scenario::Scenario;

/// What `report.html` shows of a run.
pub fn run_report(scenario: &Scenario, _results: &Results) -> Page {
    Page { title: scenario.name.clone(), subtitle: String::new(), sections: Vec::new() }
}
