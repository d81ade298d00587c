//! A comparison as a table: for the terminal, and as CSV.

use std::fmt::Write as _;

use super::comparison::Comparison;
use super::figures::{Metric, busiest, difference};
use super::outcome::Outcome;
use crate::profile::Completion;
use crate::summary::{grouped, new_table};

/// What a cell holds that has nothing to say.
const NOTHING: &str = "-";

impl Comparison {
    /// The figures that any point has.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let some = |metric: &Metric| {
            self.points
                .iter()
                .any(|point| point.figures.is_some_and(|figures| figures.get(*metric).is_some()))
        };
        Metric::ALL.into_iter().filter(some).collect()
    }

    /// The table for the eye, row by row; in a cell the difference stands below the figure. The first row is the header.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let metrics = self.metrics();
        let header = self.axes.iter().map(|axis| axis.key.clone());
        let header = header.chain(metrics.iter().map(|metric| metric.header().to_owned()));
        let mut rows: Vec<Vec<String>> = vec![header.chain(["busiest".to_owned()]).collect()];
        for (index, point) in self.points.iter().enumerate() {
            let mut row: Vec<String> =
                (0..self.axes.len()).map(|axis| self.label(point, axis).to_owned()).collect();
            for metric in &metrics {
                let figure = point.figures.and_then(|figures| figures.get(*metric));
                let mut cell = figure.map_or(NOTHING.to_owned(), |figure| metric.show(figure));
                if let Some(ratio) = self.ratio(index, *metric) {
                    let _ = write!(cell, "\n{}", difference(ratio));
                }
                row.push(cell);
            }
            let busiest = point.outcome.found().and_then(|found| busiest(&found.summary));
            row.push(match &point.outcome {
                Outcome::Failed(..) => "FAILED".to_owned(),
                Outcome::NotRun => "not run".to_owned(),
                Outcome::Done(_) => busiest.map_or(NOTHING.to_owned(), |(resource, mean)| {
                    format!("{resource}\n{:.1} %", mean * 100.0)
                }),
            });
            rows.push(row);
        }
        rows
    }

    /// What is printed.
    pub fn to_table(&self) -> String {
        let mut out = String::new();
        let found = self.points.iter().filter_map(|point| point.outcome.found());
        let mut completions: Vec<&str> = Vec::new();
        for found in found.filter(|found| found.summary.transfer.is_some()) {
            let completion = match found.summary.completion {
                Completion::Polled => "polled",
                Completion::Interrupt => "by interrupt",
            };
            if !completions.contains(&completion) {
                completions.push(completion);
            }
        }
        let said = match completions.is_empty() {
            true => String::new(),
            false => format!(", completions {}", completions.join(" and ")),
        };
        let _ = writeln!(out, "{}: {} points{said}", self.scenario, grouped(self.points.len() as u64));
        if self.is_partial() {
            let run = self.points.iter().filter(|point| point.outcome != Outcome::NotRun).count();
            let _ = writeln!(out, "PARTIAL: the comparison was interrupted after {run} of them");
        }
        let rows = self.rows();
        let header: Vec<&str> = rows[0].iter().map(String::as_str).collect();
        let mut table = new_table(&header, self.axes.len());
        for row in &rows[1..] {
            table.add_row(row.clone());
        }
        let _ = writeln!(out, "\n{}", table.trim_fmt());
        let _ = writeln!(
            out,
            "Below each figure: against {} (`=`: less than 1 %). Latencies are of all I/Os; WA is write amplification.",
            self.baseline
        );
        for point in &self.points {
            if let Outcome::Failed(reason, _) = &point.outcome {
                let choice = super::plan::describe(&self.axes, &point.seen.choice);
                let _ = writeln!(out, "FAILED: {choice}: {reason}");
            }
        }
        if !self.findings.is_empty() {
            out.push_str("\nFindings\n");
        }
        for finding in &self.findings {
            let _ = writeln!(out, "- {}", finding.text);
        }
        out
    }

    /// `compare.csv` (RFC 4180): a line a point; figures in the units that their names say, ratios against the baseline.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        let header = ["index".to_owned()].into_iter().chain(self.axes.iter().map(|axis| axis.key.clone()));
        let header = header.chain(["status".to_owned(), "reason".to_owned()]);
        let header = header.chain(Metric::ALL.iter().map(|metric| metric.key().to_owned()));
        let header = header.chain(["busiest".to_owned(), "busiest_mean".to_owned(), "against".to_owned()]);
        let header = header.chain(Metric::ALL.iter().map(|metric| format!("{}_ratio", metric.key())));
        line(&mut out, header);
        for (index, point) in self.points.iter().enumerate() {
            let (status, reason) = match &point.outcome {
                Outcome::Done(_) => ("done", ""),
                Outcome::Failed(reason, _) => ("failed", reason.as_str()),
                Outcome::NotRun => ("not-run", ""),
            };
            let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
            let labels = (0..self.axes.len()).map(|axis| self.label(point, axis).to_owned());
            let figures = Metric::ALL
                .iter()
                .map(|metric| number(point.figures.and_then(|figures| figures.get(*metric))));
            let busiest = point.outcome.found().and_then(|found| busiest(&found.summary));
            let ratios = Metric::ALL.iter().map(|metric| number(self.ratio(index, *metric)));
            let cells = [index.to_string()].into_iter().chain(labels);
            let cells = cells.chain([status.to_owned(), reason.to_owned()]).chain(figures);
            let cells = cells.chain([
                busiest.map(|(resource, _)| resource.to_owned()).unwrap_or_default(),
                number(busiest.map(|(_, mean)| mean)),
                point.against.to_string(),
            ]);
            line(&mut out, cells.chain(ratios));
        }
        out
    }
}

fn line(out: &mut String, cells: impl Iterator<Item = String>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            let _ = write!(out, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            out.push_str(&cell);
        }
    }
    out.push_str("\r\n");
}
