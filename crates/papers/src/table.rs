//! The table of a reproduction for the terminal.

use std::fmt::Write as _;

use crate::board::Departure;
use crate::claim::Claim;
use crate::judgement::{Judged, Outcome};
use crate::reproduction::{Reproduction, falls_short, regressed};
use byteway_text::table::{Cell, Column, Printout, TextTable, Width, grouped};

/// Text of an empty cell.
const NOTHING: &str = "-";

/// Width of metric and figures of a claim in characters; claim and verdict take the rest of 80.
const CELL_CHARS: usize = 16;
const METRIC_CHARS_WIDE: usize = 34;
const SAYS_CHARS: usize = 40;

/// Headings of a table of claims.
pub(crate) const HEADER: [&str; 8] =
    ["claim", "what is measured", "paper", "measured", "difference", "tolerance", "basis", "verdict"];

/// A claim's cells, without details of the verdict.
fn plain_cells(claim: &Claim, outcome: &Outcome) -> [String; 8] {
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

/// The numbers, or the share of the order's checks that hold.
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

/// Remarks on a claim in addition to its cells: findings, failed checks, reasons.
fn plain_words(claim: &Claim, outcome: &Outcome) -> Vec<String> {
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
    /// A claim's cells.
    pub(crate) fn cells(&self, claim: &Claim, outcome: &Outcome) -> [String; 8] {
        let mut cells = plain_cells(claim, outcome);
        if self.shortened(claim, outcome).is_some() {
            cells[7].push_str("\nshortened");
            // The deciding value is shown next to that of this run.
            if let Some(full) = claim.full.as_ref().and_then(|full| full.measured.as_ref()) {
                cells[3].push_str(&format!("\nfull: {}", full.unit.show(&full.numbers)));
            }
        }
        cells
    }

    /// Remarks on a claim in addition to its cells: findings, failed checks, reasons, departures, and whether
    /// the run is too short.
    pub(crate) fn words(&self, claim: &Claim, outcome: &Outcome) -> Vec<String> {
        let mut words = plain_words(claim, outcome);
        let (scaled, of_paper): (Vec<Departure>, Vec<Departure>) =
            self.departures(claim).into_iter().partition(Departure::is_scaled);
        for (departures, why) in
            [(of_paper, "as in the paper"), (scaled, "for a run that is shorter than the paper's")]
        {
            if !departures.is_empty() {
                let sentences: Vec<String> = departures.iter().map(Departure::sentence).collect();
                words.push(format!(
                    "Differs from the board's configuration, {why}: {}.",
                    sentences.join("; ")
                ));
            }
        }
        if let Some(why) = self.shortened(claim, outcome) {
            words.push(format!("Shortened: {why}."));
        }
        words
    }

    /// The lengths of points, in words.
    pub(crate) fn lengths_in_words(&self) -> String {
        // Some points need fewer payloads, or a minimum.
        let range = |is_kv: bool, what: &str| -> Option<String> {
            let all = self.points.iter().filter(|(spec, _)| spec.is_kv() == is_kv);
            let counts = all.filter_map(|(spec, _)| Some(self.points.at(spec).ok()?.payloads()));
            let counts: Vec<u64> = counts.collect();
            let (least, most) = (counts.iter().min()?, counts.iter().max()?);
            Some(match least == most {
                true => format!("{} {what}", grouped(*least)),
                false => format!("{} to {} {what}", grouped(*least), grouped(*most)),
            })
        };
        let parts: Vec<String> =
            range(false, "payloads").into_iter().chain(range(true, "KV operations")).collect();
        match parts.is_empty() {
            true => "no payloads".to_owned(),
            false => parts.join(", or "),
        }
    }

    /// The printed text, 80 columns wide.
    pub fn to_table(&self) -> String {
        self.printed(Width::Narrow)
    }

    /// The printed text.
    pub fn printed(&self, width: Width) -> String {
        let mut out = Printout::new(width);
        let count = self.points.iter().count();
        let _ = writeln!(
            out,
            "{}: {} claims, from {count} points of {}",
            self.title,
            self.rows.len(),
            self.lengths_in_words()
        );
        if let Some(day) = &self.full_run {
            let _ =
                writeln!(out, "Full runs that shorter ones are compared with: {day}; --full repeats them");
        }
        if self.is_partial() {
            let _ = writeln!(out, "PARTIAL: interrupted; some points were not run");
        }
        // Metric, both figures and verdict are always shown.
        const RANKS: [usize; 8] = [0, 0, 0, 0, 1, 3, 2, 0];
        let columns = HEADER.iter().zip(RANKS).map(|(heading, rank)| Column::text(*heading).rank(rank));
        let mut table = TextTable::new(columns);
        for (claim, outcome) in &self.rows {
            let mut cells = self.cells(claim, outcome);
            match width {
                Width::Narrow => {
                    cells[1..4].iter_mut().for_each(|cell| *cell = wrapped(cell, CELL_CHARS));
                }
                Width::Wide => cells[1] = wrapped(&cells[1], METRIC_CHARS_WIDE),
            }
            table.row(cells.map(Cell::from));
        }
        let _ = writeln!(out);
        out.table(&table);
        let said: Vec<(&str, Vec<String>)> = self
            .rows
            .iter()
            .map(|(claim, outcome)| (claim.id.as_str(), self.words(claim, outcome)))
            .collect();
        if said.iter().any(|(_, words)| !words.is_empty()) {
            let _ = writeln!(out, "\nIn addition to the figures");
        }
        for (id, words) in said.iter().filter(|(_, words)| !words.is_empty()) {
            let _ = writeln!(out, "- {id}: {}", words.join(" "));
        }
        if !self.agreements.is_empty() {
            let _ = writeln!(out, "\nAgreement of shorter and longer runs");
        }
        for agreement in &self.agreements {
            let _ = writeln!(out, "- {}.", agreement.sentence());
        }
        let _ = writeln!(out, "\n{}", self.verdict());
        out.finish()
    }

    /// The overall result in a sentence or two.
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
        let needs = |count: usize| if count == 1 { "needs" } else { "need" };
        let apart = match counts.out_of_reach {
            0 => String::new(),
            count => {
                format!("; in addition, {count} {} traces or a board that are not available", needs(count))
            }
        };
        let shortened = match counts.shortened {
            0 => String::new(),
            count => format!(
                " {count} of them shortened: these runs are not representative of the paper's length, and have no better verdict \
                 than the full ones."
            ),
        };
        let end = match (self.holds(), self.is_partial()) {
            (true, false) => "No claim regressed, and every required claim holds.",
            (true, true) => "Interrupted: no claim with a verdict regressed.",
            (false, _) => "A claim regressed, or a required claim does not hold.",
        };
        format!("{}{apart}.{shortened} {end}", parts.join(", "))
    }

    /// The list of claims, without running anything.
    pub fn list(title: &str, claims: &[Claim], width: Width) -> String {
        let ranked = |heading: &str, rank: usize| Column::text(heading).rank(rank);
        let mut table = TextTable::new([
            Column::text("claim"),
            Column::text("where"),
            ranked("basis", 2),
            ranked("needs", 4),
            ranked("required", 3),
            ranked("paper", 1),
            Column::text("what it says"),
        ]);
        for claim in claims {
            let cells = [
                claim.id.clone(),
                claim.place.clone(),
                claim.basis.name().to_owned(),
                claim.needs.name().to_owned(),
                if claim.required { "yes" } else { "" }.to_owned(),
                claim.value.as_ref().map_or(claim.tolerance.to_string(), ToString::to_string),
                wrapped(&claim.says, SAYS_CHARS),
            ];
            table.row(cells.map(Cell::from));
        }
        let mut out = Printout::new(width);
        let _ = writeln!(out, "{title}: {} claims\n", claims.len());
        out.table(&table);
        out.finish()
    }
}

/// Wraps text at spaces, and keeps its line breaks.
fn wrapped(text: &str, chars: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let first = lines.len();
        for word in paragraph.split_whitespace() {
            match lines[first..].last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= chars => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    lines.join("\n")
}
