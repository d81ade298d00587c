//! The table for the terminal, `sweep.json`, and the files of a sweep.

use super::dataset::{JSON, PARQUET};
use super::plan::Sweep;
use super::row::RowStatus;
use super::search::metric;
use byteway_results::figures::Metric;
use byteway_results::output::{Output, OutputError};
use byteway_text::table::{Column, Printout, TextTable, Width, grouped};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Rows of the table for the terminal; the data set has all.
const ROWS_SHOWN: usize = 20;

impl Sweep {
    /// The points with the best figures, failures, and what was found.
    pub fn printed(&self, width: Width) -> String {
        let main = metric("metric", &self.space().search.metric).unwrap_or(Metric::Iops);
        let others = [Metric::Iops, Metric::MeanNs, Metric::P99Ns, Metric::WireBytesPerIo];
        let metrics: Vec<Metric> =
            std::iter::once(main).chain(others.into_iter().filter(|metric| *metric != main)).collect();
        let keys = self.space().dimensions.iter().map(|one| Column::text(one.key()));
        // Means with their intervals are wide: what does not fit is named, rather than the keys wrapped.
        let several = self.repeat().is_several();
        let figures = metrics
            .iter()
            .enumerate()
            .map(|(at, metric)| Column::count(metric.header()).rank(if several { at } else { 0 }));
        let mut table = TextTable::new(keys.chain(figures));
        let rows = self.rows();
        let choices = self.choices();
        let mut order: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].counting(main).is_some()).collect();
        let worth = |at: usize| {
            let figure = rows[at].counting(main).unwrap_or_default();
            if main.more_is_better() { -figure } else { figure }
        };
        order.sort_by(|one, other| worth(*one).total_cmp(&worth(*other)));
        for at in order.iter().take(ROWS_SHOWN) {
            let values = choices[*at].iter().map(|value| value.label.clone());
            let figures = metrics
                .iter()
                .map(|metric| rows[*at].figures.show(*metric).unwrap_or_else(|| "–".to_owned()));
            table.row(values.chain(figures).map(Into::into).collect::<Vec<_>>());
        }
        let mut out = Printout::new(width);
        let (points, kept, ran) = self.counts();
        let _ = writeln!(
            out,
            "{} points{}: {} run, {} from the cache{}",
            grouped(points as u64),
            match several {
                true => format!(", {} replicates each", self.repeat().count()),
                false => String::new(),
            },
            grouped(ran as u64),
            grouped(kept as u64),
            if self.is_partial() { "; interrupted, the rest is missing" } else { "" }
        );
        let title = match order.len() > ROWS_SHOWN {
            true => format!("The {ROWS_SHOWN} points with the best {}", main.noun()),
            false => format!("Points by {}", main.noun()),
        };
        out.section(&title, &table);
        let failed = rows.iter().filter(|row| row.status == RowStatus::Failed);
        for row in failed {
            let _ = writeln!(out, "\nfailed: {}: {}", row.named(), row.reason.as_deref().unwrap_or_default());
        }
        if self.unkept() > 0 {
            let count = grouped(self.unkept() as u64);
            let _ = writeln!(
                out,
                "\n{count} results could not be written to the cache: a later sweep runs them again"
            );
        }
        if let Some(found) = self.found() {
            let _ = writeln!(out, "\n{found}");
        }
        out.finish()
    }

    /// The content of `sweep.json`: what was swept, and what was found.
    pub fn to_json(&self) -> String {
        let dimension = |one: &super::Dimension| {
            let values: Option<Vec<&str>> =
                one.values().map(|values| values.iter().map(|value| value.label.as_str()).collect());
            json!({ "key": one.key(), "paths": one.paths(), "values": values })
        };
        let dimensions: Vec<Value> = self.space().dimensions.iter().map(dimension).collect();
        let mut json = json!({
            "byteway": env!("CARGO_PKG_VERSION"),
            "scenario": self.space().input.path().file_stem().unwrap_or_default().to_string_lossy(),
            "search": self.space().search,
            "keys": dimensions,
            "points": self.counts().0,
            "failed": self.failed(),
            "partial": self.is_partial(),
            "found": self.found(),
        });
        if self.repeat().is_several() {
            json["replicates"] = self.repeat().count().into();
        }
        format!("{json:#}\n")
    }

    /// Writes `sweep.parquet` and `sweep.json`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, output: &Output) -> Result<(), OutputError> {
        output.replace([
            self.to_parquet().and_then(|rows| output.made(PARQUET, &rows)),
            output.made(JSON, self.to_json().as_bytes()),
        ])
    }
}
