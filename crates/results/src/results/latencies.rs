//! The table `latency.parquet`: a row for each latency of each job and kind that occurred.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, SchemaRef};

use super::parquet::about;
use super::{Distribution, Results};
use crate::columns::{self, Column};
use crate::ios::KINDS;
use crate::output::OutputError;

/// A latency that occurred.
struct Row<'a> {
    distribution: &'a Distribution,
    drive: Option<&'a str>,
    latency_ns: u64,
    ios: u64,
    share: f64,
}

impl Results {
    /// The contents of `latency.parquet`: a row for each latency of each job and kind that occurred, ascending, with the number of I/Os
    /// that took it, and their cumulative share. With several drives there is a column `drive`.
    ///
    /// # Errors
    /// A defect of the writer.
    pub fn to_latency_parquet(&self) -> Result<Vec<u8>, OutputError> {
        let rows = self.to_latency_batch()?;
        let mut out = Vec::new();
        let mut writer = columns::writer(&mut out, &rows.schema(), &about(&self.summary, "latencies"))?;
        writer.write(&rows)?;
        writer.close()?;
        Ok(out)
    }

    /// The rows of [`to_latency_parquet`](Results::to_latency_parquet), in memory.
    ///
    /// # Errors
    /// A defect: columns do not match their schema.
    pub fn to_latency_batch(&self) -> Result<RecordBatch, OutputError> {
        let rows = self.latencies();
        let rows = || rows.iter();
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from_iter_values(rows().map(|row| &row.distribution.job)))];
        if !self.drives.is_empty() {
            columns.push(Arc::new(StringArray::from_iter(rows().map(|row| row.drive))));
        }
        columns.push(Arc::new(StringArray::from_iter_values(
            rows().map(|row| KINDS[row.distribution.kind as usize]),
        )));
        columns.push(Arc::new(UInt64Array::from_iter_values(rows().map(|row| row.latency_ns))));
        columns.push(Arc::new(UInt64Array::from_iter_values(rows().map(|row| row.ios))));
        columns.push(Arc::new(Float64Array::from_iter_values(rows().map(|row| row.share))));
        Ok(columns::batch(&schema(!self.drives.is_empty()), columns)?)
    }

    fn latencies(&self) -> Vec<Row<'_>> {
        let rows = self.distributions.iter().flat_map(|distribution| {
            let drive = self.drive_of_job(&distribution.job).map(|(name, _)| name);
            let all = distribution.ios() as f64;
            let mut passed = 0;
            distribution.counts.iter().map(move |&(latency_ns, ios)| {
                passed += ios;
                Row { distribution, drive, latency_ns, ios, share: passed as f64 / all }
            })
        });
        rows.collect()
    }
}

fn schema(has_several_drives: bool) -> SchemaRef {
    let job = Column::new("job", DataType::Utf8, "Name of the job");
    let drive = Column::new("drive", DataType::Utf8, "Name of the job's drive").nullable();
    let rest = [
        Column::new("kind", DataType::Utf8, "read, write or trim"),
        Column::new(
            "latency_ns",
            DataType::UInt64,
            "Latency, rounded up by at most 0.1 %, from the time at which each was due",
        ),
        Column::new(
            "ios",
            DataType::UInt64,
            "Number of measured I/Os with it: more than that of the row before, at most this",
        ),
        Column::new(
            "cumulative_share",
            DataType::Float64,
            "Fraction of the job's I/Os of this kind up to this latency",
        ),
    ];
    columns::schema([job].into_iter().chain(has_several_drives.then_some(drive)).chain(rest))
}
