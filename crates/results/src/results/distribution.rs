//! The latencies of a run as they were counted, and the table `latency.parquet`: a row for each latency that occurred.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, SchemaRef};
use serde::{Deserialize, Serialize};

use super::Results;
use super::parquet::about;
use crate::columns::{self, Column};
use crate::ios::KINDS;
use crate::output::OutputError;
use byteway_workload::Kind;

/// The latency distribution of one kind of I/O of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Name of the job.
    pub job: String,
    /// Reads, writes or trims.
    pub kind: Kind,
    /// Latency in nanoseconds, and number of I/Os that took longer than the latency before and at most this one, within 0.1 %:
    /// ascending, the last latency is the longest.
    pub counts: Vec<(u64, u64)>,
}

/// The cumulative latency distribution of one kind of I/O of a job, for a chart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the job.
    pub job: String,
    /// Reads, writes or trims.
    pub kind: Kind,
    /// Latency, and share of the I/Os up to it: both ascending, the last share 1. At most a few hundred
    /// points, dense in the tail.
    pub points: Vec<(f64, f64)>,
}

impl Distribution {
    /// Number of I/Os.
    pub fn ios(&self) -> u64 {
        self.counts.iter().map(|(_, ios)| ios).sum()
    }

    /// The cumulative distribution: a point for about every 128th of the I/Os, and in the tail for every 16th of those that remain. Both
    /// ends of flat stretches are kept, so that a jump looks like one.
    pub fn curve(&self) -> Curve {
        let all = u128::from(self.ios());
        let mut points = Vec::new();
        let (mut passed, mut kept) = (0u128, 0u128);
        let mut last = None;
        for (latency_ns, count) in &self.counts {
            let count = u128::from(*count);
            let dense = |from: u128, to: u128| (to - from) * 128 >= all || (to - from) * 16 >= all - from;
            if let Some(last) = last.take().filter(|_| dense(passed, passed + count)) {
                points.push(last);
                kept = passed;
            }
            passed += count;
            let point = (*latency_ns as f64, passed as f64 / all as f64);
            if kept == 0 || dense(kept, passed) {
                points.push(point);
                kept = passed;
            } else {
                last = Some(point);
            }
        }
        points.extend(last);
        Curve { job: self.job.clone(), kind: self.kind, points }
    }
}

/// A latency that occurred.
struct Row<'a> {
    distribution: &'a Distribution,
    drive: Option<&'a str>,
    latency_ns: u64,
    ios: u64,
    share: f64,
}

impl Results {
    /// The curves of the latency distributions, in the same order.
    pub fn curves(&self) -> Vec<Curve> {
        self.distributions.iter().map(Distribution::curve).collect()
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRecorder;

    // An I/O that is in no bucket, or in two, would be missing in every distribution, and in no percentile.
    #[test]
    fn every_io_is_counted_once() {
        let mut recorder = JobRecorder::default();
        let latencies = (0..5000u64).map(|number| 10_000 + number * number * 37 % 90_000_017);
        latencies.clone().for_each(|ns| recorder.record(Kind::Read, 4096, ns * 1000));
        recorder.record(Kind::Trim, 4096, 77_500);
        let [reads, trims] = &recorder.distributions("job")[..] else { panic!("reads and trims") };
        assert_eq!((reads.ios(), reads.kind, trims.kind), (5000, Kind::Read, Kind::Trim));
        assert_eq!(trims.counts, [(78, 1)]);
        assert_eq!(reads.counts.last().map(|(ns, _)| *ns), latencies.clone().max());
        let mut before = 0;
        for (upto, ios) in &reads.counts {
            let exact = latencies.clone().filter(|ns| (before + 1..=*upto).contains(ns)).count() as u64;
            assert_eq!(*ios, exact, "{before} to {upto}");
            before = *upto;
        }
        let points = reads.curve().points;
        assert!(
            points.len() < 400
                && points.last() == reads.counts.last().map(|(ns, _)| (*ns as f64, 1.0)).as_ref()
        );
    }
}
