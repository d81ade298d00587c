//! The table of a comparison, for the terminal and as CSV.

use std::fmt::Write as _;

use super::comparison::Comparison;
use super::finding::SHOWN_MAX;
use byteway_results::figures::{Metric, difference, equal};
use byteway_run::probe::PointOutcome;
use byteway_scenario::profile::Completion;
use byteway_text::table::{Cell, Column, Printout, TextTable, Width, grouped, percent};

/// Text of an empty cell.
const NOTHING: &str = "-";

impl Comparison {
    /// The figures that at least one point has.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let some = |metric: &Metric| {
            self.points
                .iter()
                .any(|point| point.figures.is_some_and(|figures| figures.get(*metric).is_some()))
        };
        Metric::ALL.into_iter().filter(some).collect()
    }

    /// All points; a cell shows the figure and below it the difference. The varied keys and the compared
    /// figure are never omitted.
    pub(super) fn table(&self) -> TextTable {
        let metrics = self.metrics();
        let keys = self.axes.iter().map(|axis| Column::text(axis.key.clone()));
        let figures = metrics.iter().map(|metric| self.column(*metric));
        let mut table = TextTable::new(keys.chain(figures).chain([Column::count("busiest").rank(7)]));
        for (index, point) in self.points.iter().enumerate() {
            let mut row: Vec<Cell> =
                (0..self.axes.len()).map(|axis| self.label(point, axis).into()).collect();
            for metric in &metrics {
                let figure = point.figures.and_then(|figures| figures.get(*metric));
                let cell = match (figure, metric.quantity()) {
                    (None, _) => match &point.outcome {
                        PointOutcome::Failed(..) if *metric == self.metric => "FAILED".into(),
                        PointOutcome::NotRun if *metric == self.metric => "not run".into(),
                        _ => NOTHING.into(),
                    },
                    (Some(figure), Some(_)) => Cell::from(figure)
                        .within(point.figures.and_then(|figures| figures.half_width(*metric))),
                    (Some(_), None) => Cell::from(point.figures.and_then(|figures| figures.show(*metric))),
                };
                row.push(match self.difference(index, *metric) {
                    Some(difference) => cell.below(difference),
                    None => cell,
                });
            }
            let busiest = point.outcome.found().and_then(|found| found.summary.busiest());
            row.push(match &point.outcome {
                PointOutcome::Failed(..) => "FAILED".into(),
                PointOutcome::NotRun => "not run".into(),
                PointOutcome::Done(_) => busiest
                    .map_or(NOTHING.into(), |(resource, mean)| Cell::from(resource).below(percent(mean))),
            });
            table.row(row);
        }
        table
    }

    /// A figure against the baseline's, in words; `None` for the baseline itself.
    fn difference(&self, index: usize, metric: Metric) -> Option<String> {
        let ratio = self.ratio(index, metric)?;
        let point = &self.points[index];
        let base = self.points[point.against].seen.figures?;
        Some(difference(if point.figures?.is_chance(&base, metric) { 1.0 } else { ratio }))
    }

    /// What is called equal, in words.
    pub(super) fn equality(&self) -> String {
        match self.repeat.is_several() {
            true => "less than 1 %, or within chance".to_owned(),
            false => "less than 1 %".to_owned(),
        }
    }

    /// A note on replicates behind the number of points.
    pub(super) fn replicates(&self) -> String {
        match self.repeat.is_several() {
            true => format!(", {} replicates each", self.repeat.count()),
            false => String::new(),
        }
    }

    /// A figure that is equal for all points is omitted first.
    fn column(&self, metric: Metric) -> Column {
        let column = match metric.quantity() {
            Some(quantity) => Column::of(metric.header(), quantity),
            None => Column::count(metric.header()),
        };
        let column = match metric {
            Metric::P50Ns | Metric::P99Ns | Metric::P999Ns => column.same_unit(),
            _ => column,
        };
        let mut values = self.points.iter().filter_map(|point| point.figures?.get(metric));
        let first = values.next();
        let same = first.is_none_or(|first| values.all(|value| equal(first, value)));
        match metric == self.metric {
            true => column,
            false => column.rank(metric.rank() + if same { 20 } else { 0 }),
        }
    }

    /// The printed text, 80 columns wide.
    pub fn to_table(&self) -> String {
        self.printed(Width::Narrow)
    }

    /// The printed text.
    pub fn printed(&self, width: Width) -> String {
        let mut out = Printout::new(width);
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
        let _ = writeln!(
            out,
            "{}: {} points{}{said}",
            self.scenario,
            grouped(self.points.len() as u64),
            self.replicates()
        );
        if self.is_partial() {
            let run = self.points.iter().filter(|point| point.outcome != PointOutcome::NotRun).count();
            let _ = writeln!(out, "PARTIAL: the comparison was interrupted after {run} of them");
        }
        let _ = writeln!(out);
        out.table(&self.table());
        let _ = writeln!(
            out,
            "Below each figure: compared with {} (`=`: {}). Latencies are of all I/Os; WA is write amplification.",
            self.baseline,
            self.equality()
        );
        if self.repeat.is_several() {
            let _ = writeln!(
                out,
                "Figures are means with their 95 % intervals; without one, all replicates are equal. The busiest resource is the first one's."
            );
        }
        for point in &self.points {
            if let PointOutcome::Failed(reason, _) = &point.outcome {
                let choice = super::plan::describe(&self.axes, &point.seen.choice);
                let _ = writeln!(out, "FAILED: {choice}: {reason}");
            }
        }
        if !self.findings.is_empty() {
            let _ = writeln!(out, "\nFindings");
        }
        let shown = if width == Width::Wide { self.findings.len() } else { SHOWN_MAX };
        for finding in self.findings.iter().take(shown) {
            let _ = writeln!(out, "- {}", finding.text);
        }
        if self.findings.len() > shown {
            let _ = writeln!(out, "- {} more with --wide, or with --out", self.findings.len() - shown);
        }
        if let Some(sensitivity) = &self.sensitivity {
            let _ = writeln!(out, "\nSensitivity");
            for line in sensitivity.lines(&self.findings) {
                let _ = writeln!(out, "- {line}");
            }
        }
        out.finish()
    }

    /// `compare.csv` (RFC 4180): a line for each point; figures in the units in their names, ratios to the
    /// baseline.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        let header = ["index".to_owned()].into_iter().chain(self.axes.iter().map(|axis| axis.key.clone()));
        let header = header.chain(["status".to_owned(), "reason".to_owned()]);
        let header = header.chain(Metric::ALL.iter().map(|metric| metric.key().to_owned()));
        let header = header.chain(["busiest".to_owned(), "busiest_mean".to_owned(), "against".to_owned()]);
        let header = header.chain(Metric::ALL.iter().map(|metric| format!("{}_ratio", metric.key())));
        let several = self.repeat.is_several();
        let half_widths = Metric::ALL.iter().filter(|_| several);
        let header = header.chain(half_widths.clone().map(|metric| format!("{}_half_width", metric.key())));
        line(&mut out, header.chain(several.then(|| "seeds".to_owned())));
        for (index, point) in self.points.iter().enumerate() {
            let (status, reason) = point.outcome.status();
            let reason = reason.unwrap_or_default();
            let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
            let labels = (0..self.axes.len()).map(|axis| self.label(point, axis).to_owned());
            let figures = Metric::ALL
                .iter()
                .map(|metric| number(point.figures.and_then(|figures| figures.get(*metric))));
            let busiest = point.outcome.found().and_then(|found| found.summary.busiest());
            let ratios = Metric::ALL.iter().map(|metric| number(self.ratio(index, *metric)));
            let cells = [index.to_string()].into_iter().chain(labels);
            let cells = cells.chain([status.to_owned(), reason.to_owned()]).chain(figures);
            let cells = cells.chain([
                busiest.map(|(resource, _)| resource.to_owned()).unwrap_or_default(),
                number(busiest.map(|(_, mean)| mean)),
                point.against.to_string(),
            ]);
            let half_widths = half_widths
                .clone()
                .map(|metric| number(point.figures.and_then(|figures| figures.half_width(*metric))));
            let seeds: Vec<String> = point.replicates.iter().map(|one| one.seed.to_string()).collect();
            let seeds = several.then(|| seeds.join(" "));
            line(&mut out, cells.chain(ratios).chain(half_widths).chain(seeds));
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
