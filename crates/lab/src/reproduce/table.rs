//! A reproduction as a table for the terminal.

use std::fmt::Write as _;

use super::claim::Claim;
use super::reproduction::{Reproduction, falls_short, regressed};
use super::verdict::{Judged, Outcome};
use crate::summary::{grouped, new_table};

/// What a cell holds that has nothing to say.
const NOTHING: &str = "-";

/// Characters of a line of a claim's metric: the table then fits where a wide terminal has room.
const METRIC_CHARS: usize = 34;

/// The headings of a table of claims.
pub(super) const HEADER: [&str; 8] =
    ["claim", "what is measured", "paper", "measured", "difference", "tolerance", "basis", "verdict"];

/// A claim's cells below these headings.
pub(super) fn cells(claim: &Claim, outcome: &Outcome) -> [String; 8] {
    let judged = match outcome {
        Outcome::Measured(judged) => Some(judged),
        _ => None,
    };
    [
        claim.id.clone(),
        claim.metric.clone(),
        claim.value.as_ref().map_or(NOTHING.to_owned(), ToString::to_string),
        judged.map_or(NOTHING.to_owned(), |judged| measured(claim, judged)),
        judged.and_then(|judged| judged.difference.clone()).unwrap_or_else(|| NOTHING.to_owned()),
        claim.tolerance.to_string(),
        claim.basis.name().to_owned(),
        verdict(claim, outcome),
    ]
}

/// The numbers, or how much of the order holds.
fn measured(claim: &Claim, judged: &Judged) -> String {
    let measurement = &judged.measurement;
    match &claim.value {
        Some(value) if !measurement.values.is_empty() => value.unit.show(&measurement.values),
        _ if !measurement.checks.is_empty() => {
            let held = measurement.checks.iter().filter(|check| check.holds).count();
            format!("{held} of {} hold", measurement.checks.len())
        }
        _ => "see below".to_owned(),
    }
}

fn verdict(claim: &Claim, outcome: &Outcome) -> String {
    let now = match outcome {
        Outcome::Measured(judged) => judged.verdict.name().to_owned(),
        Outcome::Needs(needs) => format!("needs {}", needs.name()),
        Outcome::Failed(_) => "FAILED".to_owned(),
        Outcome::NotRun => "not run".to_owned(),
    };
    match claim.recorded {
        Some(recorded) if regressed(claim, outcome) => format!("{now}\nREGRESSED: was\n{}", recorded.name()),
        _ if falls_short(claim, outcome) => format!("{now}\nREQUIRED"),
        _ => now,
    }
}

/// What is to be said of a claim beside its cells: what came out in words, what doesn't hold, and why.
pub(super) fn words(claim: &Claim, outcome: &Outcome) -> Vec<String> {
    let mut words = Vec::new();
    match outcome {
        Outcome::Measured(Judged { measurement, .. }) => {
            if !measurement.detail.is_empty() {
                words.push(measurement.detail.clone());
            }
            let broken = measurement.checks.iter().filter(|check| !check.holds);
            words.extend(broken.map(|check| format!("Does not hold: {}.", check.what)));
        }
        Outcome::Failed(why) => words.push(format!("Failed: {why}.")),
        Outcome::Needs(_) | Outcome::NotRun => {}
    }
    words.extend(claim.reason.clone());
    words
}

impl Reproduction {
    /// What is printed.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let count = self.points.iter().count();
        let _ = writeln!(
            out,
            "{}: {} claims, from {} points of {} payloads each",
            self.title,
            self.rows.len(),
            count,
            grouped(self.payloads)
        );
        if self.is_partial() {
            out.push_str("PARTIAL: it was interrupted, and some points were not run\n");
        }
        let mut table = new_table(&HEADER, HEADER.len());
        for (claim, outcome) in &self.rows {
            let mut cells = cells(claim, outcome);
            cells[1] = wrapped(&cells[1], METRIC_CHARS);
            table.add_row(cells);
        }
        let _ = writeln!(out, "\n{}", table.trim_fmt());
        let said: Vec<(&str, Vec<String>)> =
            self.rows.iter().map(|(claim, outcome)| (claim.id.as_str(), words(claim, outcome))).collect();
        if said.iter().any(|(_, words)| !words.is_empty()) {
            out.push_str("\nBeside the figures\n");
        }
        for (id, words) in said.iter().filter(|(_, words)| !words.is_empty()) {
            let _ = writeln!(out, "- {id}: {}", words.join(" "));
        }
        if let Some(agreement) = &self.agreement {
            let _ = writeln!(out, "\n{}.", agreement.sentence());
        }
        let _ = writeln!(out, "\n{}", self.verdict());
        out
    }

    /// The whole in a sentence or two.
    pub fn verdict(&self) -> String {
        let counts = self.counts();
        let mut parts = vec![format!("{} reproduced", counts.reproduced)];
        for (count, what) in [
            (counts.reported, "reported"),
            (counts.direction_only, "in direction only"),
            (counts.not_reproduced, "not reproduced"),
            (counts.failed, "failed"),
            (counts.not_run, "not run"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let apart = match counts.needs_csd {
            0 => String::new(),
            count => format!("; apart from these {count} need csd, which is not there yet"),
        };
        let end = match self.holds() {
            true => "Nothing regressed, and every required claim holds.",
            false => "Something regressed, or a required claim does not hold.",
        };
        format!("{}{apart}. {end}", parts.join(", "))
    }

    /// The claims without running anything.
    pub fn list(title: &str, claims: &[Claim]) -> String {
        let mut table =
            new_table(&["claim", "where", "basis", "needs", "required", "paper", "what it says"], 7);
        for claim in claims {
            table.add_row([
                claim.id.clone(),
                claim.place.clone(),
                claim.basis.name().to_owned(),
                claim.needs.name().to_owned(),
                if claim.required { "yes" } else { "" }.to_owned(),
                claim.value.as_ref().map_or(claim.tolerance.to_string(), ToString::to_string),
                wrapped(&claim.says, 48),
            ]);
        }
        format!("{title}: {} claims\n\n{}\n", claims.len(), table.trim_fmt())
    }
}

/// The text in lines of at most so many characters, broken at spaces.
fn wrapped(text: &str, chars: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
