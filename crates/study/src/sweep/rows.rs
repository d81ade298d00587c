//! The rows of a sweep: a row for each point, with its values, its outcome and its figures.

use super::plan::Sweep;
use crate::compare::{Figures, Metric, Outcome};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::DataType;
use byteway_measure::columns::{self, Column};
use byteway_measure::output::OutputError;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    fn name(self) -> &'static str {
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
    pub fn of(outcome: &Outcome) -> Row {
        let (status, reason) = match outcome {
            Outcome::Done(_) => (RowStatus::Done, None),
            Outcome::Failed(reason, _) => (RowStatus::Failed, Some(reason.clone())),
            Outcome::NotRun => (RowStatus::NotRun, None),
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

    /// A point that failed before it had a result.
    pub fn failed(reason: String) -> Row {
        Row::of(&Outcome::Failed(reason, None))
    }

    /// A point that was not run.
    pub(super) fn not_run() -> Row {
        Row::of(&Outcome::NotRun)
    }

    pub(super) fn with_name(self, name: String) -> Row {
        Row { name, ..self }
    }

    /// Its values in words.
    pub fn named(&self) -> &str {
        &self.name
    }
}

/// Name of the data set.
pub(super) const PARQUET: &str = "sweep.parquet";
/// Name of the space and what was found.
pub(super) const JSON: &str = "sweep.json";

impl Sweep {
    /// The content of `sweep.parquet`.
    ///
    /// # Errors
    /// A defect of the writer.
    pub fn to_parquet(&self) -> Result<Vec<u8>, OutputError> {
        let rows = self.to_batch()?;
        let about = [
            ("byteway.content", "sweep".to_owned()),
            ("byteway.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("byteway.units", "_ns: nanoseconds of virtual time; _bytes: bytes".to_owned()),
        ];
        let mut out = Vec::new();
        let mut writer = columns::writer(&mut out, &rows.schema(), &about)?;
        writer.write(&rows)?;
        writer.close()?;
        Ok(out)
    }

    /// The rows of `sweep.parquet` in memory: a row for each point, in the order in which the search chose them.
    ///
    /// # Errors
    /// A defect: columns do not match their schema.
    pub fn to_batch(&self) -> Result<RecordBatch, OutputError> {
        let (rows, choices) = (self.rows(), self.choices());
        let count = rows.len() as u64;
        let mut schema = vec![Column::new("point", DataType::UInt64, "Number of the point, from 0")];
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(0..count))];
        for (at, dimension) in self.space().dimensions.iter().enumerate() {
            let values = choices.iter().map(|choice| &choice[at]);
            schema.push(Column::new(dimension.key(), DataType::Utf8, "Value of this key"));
            columns.push(Arc::new(StringArray::from_iter_values(values.clone().map(|value| &value.label))));
            if dimension.is_numeric() {
                let name = format!("{} (number)", dimension.key());
                let text = "The same as a number: sizes in bytes, times in nanoseconds";
                schema.push(Column::new(&name, DataType::Float64, text).nullable());
                columns.push(Arc::new(Float64Array::from_iter(values.map(|value| value.number))));
            }
        }
        let statuses = rows.iter().map(|row| row.status.name());
        schema.push(Column::new("status", DataType::Utf8, "done, failed, or not-run"));
        columns.push(Arc::new(StringArray::from_iter_values(statuses)));
        schema.push(Column::new("reason", DataType::Utf8, "Why it failed").nullable());
        columns.push(Arc::new(StringArray::from_iter(rows.iter().map(|row| row.reason.as_deref()))));
        for metric in Metric::ALL {
            schema.push(Column::new(metric.key(), DataType::Float64, metric.meaning()).nullable());
            columns.push(Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.figures.get(metric)))));
        }
        let busiest = || rows.iter().map(|row| row.busiest.as_ref());
        schema.push(Column::new("busiest", DataType::Utf8, "The busiest resource").nullable());
        let names = busiest().map(|busiest| busiest.map(|(name, _)| name.as_str()));
        columns.push(Arc::new(StringArray::from_iter(names)));
        schema
            .push(Column::new("busiest_mean", DataType::Float64, "Its mean utilization, 0 to 1").nullable());
        columns
            .push(Arc::new(Float64Array::from_iter(busiest().map(|busiest| busiest.map(|(_, mean)| *mean)))));
        Ok(columns::batch(&columns::schema(schema), columns)?)
    }
}
