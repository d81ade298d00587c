//! The data set of a sweep: a row for each point, with its values, its outcome and its figures.

use super::plan::Sweep;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::DataType;
use byteway_results::columns::{self, Column};
use byteway_results::figures::Metric;
use byteway_results::output::OutputError;
use std::sync::Arc;

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
        if self.repeat().is_several() {
            for metric in Metric::ALL {
                let name = format!("{}_half_width", metric.key());
                let text = "Half width of the mean's 95 % interval, by Student's t";
                schema.push(Column::new(&name, DataType::Float64, text).nullable());
                let halves = rows.iter().map(|row| row.figures.half_width(metric));
                columns.push(Arc::new(Float64Array::from_iter(halves)));
            }
            let seeds =
                self.seeds().map(|seeds| seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
            schema.push(Column::new(
                "seeds",
                DataType::Utf8,
                "Seeds of the replicates, which the figures are means of",
            ));
            columns.push(Arc::new(StringArray::from_iter_values(seeds)));
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
