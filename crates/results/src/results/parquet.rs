//! The table `results.parquet`: the time series, a row for each job in each step.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, SchemaRef};

use super::{DrivePoint, HostPoint, JobPoint, Point, Results};
use crate::columns::{self, Column};
use crate::output::OutputError;
use crate::summary::{ClockKind, Summary};
use byteway_scenario::profile::Completion;

/// One job in one step.
struct Row<'a> {
    step: usize,
    point: &'a Point,
    name: &'a str,
    job: &'a JobPoint,
    /// The figures of the job's drive, and its index.
    drive: Option<&'a DrivePoint>,
    drive_name: Option<&'a str>,
}

/// A column: its name, its description, and how to get it from a row.
type Figure<S, T> = (&'static str, &'static str, fn(&S) -> T);

const JOB_COUNTS: [Figure<JobPoint, u64>; 6] = [
    ("read_ios", "Completed reads of the job in the step", |job| job.read.ios),
    ("read_bytes", "Bytes read by them", |job| job.read.bytes),
    ("write_ios", "Completed writes of the job in the step", |job| job.write.ios),
    ("write_bytes", "Bytes written by them", |job| job.write.bytes),
    ("trim_ios", "Completed trims of the job in the step", |job| job.trim.ios),
    ("trim_bytes", "Bytes trimmed by them", |job| job.trim.bytes),
];

const JOB_TIMES: [Figure<JobPoint, f64>; 4] = [
    (
        "mean_ns",
        "Mean latency of all of them, from the time at which each was due; 0 if there are none",
        |job| job.mean_ns,
    ),
    ("p50_ns", "Median latency, within 3 %", |job| job.p50_ns),
    ("p99_ns", "p99 latency, within 3 %", |job| job.p99_ns),
    ("max_ns", "Maximum latency", |job| job.max_ns),
];

const DRIVE_SHARES: [Figure<DrivePoint, f64>; 8] = [
    ("dies_busy_mean", "Mean fraction of the step in which a die was busy", |drive| mean(&drive.dies)),
    ("dies_busy_min", "Same for the least busy die", |drive| {
        drive.dies.iter().copied().reduce(f64::min).unwrap_or_default()
    }),
    ("dies_busy_max", "Same for the busiest die", |drive| max(&drive.dies)),
    ("channels_busy_mean", "Mean fraction of the step in which a channel was busy", |drive| {
        mean(&drive.channels)
    }),
    ("channels_busy_max", "Same for the busiest channel", |drive| max(&drive.channels)),
    ("cores_busy", "Mean fraction of the step in which the drive's cores were busy", |drive| drive.cores),
    ("link_down_busy", "Fraction of the step in which the link to the device was busy", |drive| {
        drive.link_down.busy
    }),
    ("link_up_busy", "Fraction of the step in which the link to the host was busy", |drive| {
        drive.link_up.busy
    }),
];

const DRIVE_COUNTS: [Figure<DrivePoint, u64>; 13] = [
    ("link_down_payload_bytes", "Payload bytes transferred to the device", |drive| {
        drive.link_down.payload_bytes
    }),
    ("link_down_wire_bytes", "Same with headers, CRC and framing", |drive| drive.link_down.wire_bytes),
    ("link_up_payload_bytes", "Payload bytes transferred to the host", |drive| drive.link_up.payload_bytes),
    ("link_up_wire_bytes", "Same with headers, CRC and framing", |drive| drive.link_up.wire_bytes),
    ("host_written_bytes", "Bytes that the drive accepted from host writes", |drive| {
        drive.host_written_bytes
    }),
    ("programmed_bytes", "Bytes programmed into flash for any reason, including padding", |drive| {
        drive.programmed_bytes
    }),
    ("erases", "Superblocks erased", |drive| drive.erases),
    ("map_hits", "Lookups of map pages in DRAM; 0 if the whole map is in DRAM", |drive| drive.map_hits),
    ("map_misses", "Lookups of map pages not in DRAM", |drive| drive.map_misses),
    ("suspends", "Suspensions of programs and erases for reads", |drive| drive.suspends),
    ("retries", "Sense operations of reads beyond the first", |drive| drive.retries),
    ("free_superblocks", "Free superblocks at the end of the step", |drive| drive.free_superblocks),
    ("buffered_bytes", "Bytes in the write buffer at the end of the step", |drive| drive.buffered_bytes),
];

/// Present only if the cost of I/O on the host was followed.
const HOST_SHARES: [Figure<DrivePoint, f64>; 1] =
    [("host_processors_busy", "Mean number of busy host processors, for all drives", |drive| {
        drive.host.as_ref().map_or(0.0, HostPoint::processors_busy)
    })];
const HOST_COUNTS: [Figure<DrivePoint, u64>; 1] =
    [("host_memory_bytes", "Host memory in use at the end of the step, for all drives", |drive| {
        drive.host.as_ref().map_or(0, HostPoint::memory_bytes)
    })];

fn mean(shares: &[f64]) -> f64 {
    if shares.is_empty() { 0.0 } else { shares.iter().sum::<f64>() / shares.len() as f64 }
}

fn max(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(0.0, f64::max)
}

impl Results {
    /// The contents of `results.parquet`: a row for each job in each step, ordered by step and job. The
    /// drive's figures are equal in all rows of a step, and null if another process serves it. With several
    /// drives there is a column `drive`, and a row has the figures of the job's drive.
    ///
    /// # Errors
    /// A defect of the writer.
    pub fn to_parquet(&self) -> Result<Vec<u8>, OutputError> {
        let rows = self.to_batch()?;
        let mut out = Vec::new();
        let mut writer = columns::writer(&mut out, &rows.schema(), &about(&self.summary, "series"))?;
        writer.write(&rows)?;
        writer.close()?;
        Ok(out)
    }

    /// The rows of [`to_parquet`](Results::to_parquet), in memory.
    ///
    /// # Errors
    /// A defect: columns do not match their schema.
    pub fn to_batch(&self) -> Result<RecordBatch, OutputError> {
        let schema = schema(!self.drives.is_empty(), self.summary.host.is_some());
        Ok(columns::batch(&schema, self.columns())?)
    }

    fn rows(&self) -> Vec<Row<'_>> {
        // By job: its drive.
        let drives: Vec<_> = self.series.jobs.iter().map(|job| self.drive_of_job(job)).collect();
        let steps = self.series.points.iter().enumerate();
        let rows = steps.flat_map(|(step, point)| {
            let jobs = self.series.jobs.iter().zip(&point.jobs).zip(&drives);
            jobs.map(move |((name, job), drive)| {
                let of_several = drive.and_then(|(_, drive)| drive.series.points.get(step)?.drive.as_ref());
                let drive_name = drive.map(|(name, _)| name);
                Row { step, point, name, job, drive: of_several.or(point.drive.as_ref()), drive_name }
            })
        });
        rows.collect()
    }

    fn columns(&self) -> Vec<ArrayRef> {
        let rows = self.rows();
        let rows = || rows.iter();
        let drives = || rows().map(|row| row.drive);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(rows().map(|row| row.step as u64))),
            Arc::new(Float64Array::from_iter_values(rows().map(|row| row.point.begin_ns))),
            Arc::new(Float64Array::from_iter_values(rows().map(|row| row.point.end_ns))),
            Arc::new(StringArray::from_iter_values(rows().map(|row| row.name))),
        ];
        if !self.drives.is_empty() {
            columns.push(Arc::new(StringArray::from_iter(rows().map(|row| row.drive_name))));
        }
        for (.., get) in JOB_COUNTS {
            columns.push(Arc::new(UInt64Array::from_iter_values(rows().map(|row| get(row.job)))));
        }
        for (.., get) in JOB_TIMES {
            columns.push(Arc::new(Float64Array::from_iter_values(rows().map(|row| get(row.job)))));
        }
        for (.., get) in DRIVE_SHARES {
            columns.push(Arc::new(Float64Array::from_iter(drives().map(|drive| drive.map(get)))));
        }
        for (.., get) in DRIVE_COUNTS {
            columns.push(Arc::new(UInt64Array::from_iter(drives().map(|drive| drive.map(get)))));
        }
        if self.summary.host.is_some() {
            for (.., get) in HOST_SHARES {
                columns.push(Arc::new(Float64Array::from_iter(drives().map(|drive| drive.map(get)))));
            }
            for (.., get) in HOST_COUNTS {
                columns.push(Arc::new(UInt64Array::from_iter(drives().map(|drive| drive.map(get)))));
            }
        }
        columns
    }
}

fn schema(has_several_drives: bool, has_host: bool) -> SchemaRef {
    let rows = [
        Column::new("step", DataType::UInt64, "Step number, from 0"),
        Column::new("begin_ns", DataType::Float64, "Start of the step, since the issue of the first I/O"),
        Column::new("end_ns", DataType::Float64, "End of the step, exclusive except for the last step"),
        Column::new("job", DataType::Utf8, "Name of the job"),
    ];
    let drive = Column::new("drive", DataType::Utf8, "Name of the job's drive").nullable();
    let rows = rows.into_iter().chain(has_several_drives.then_some(drive));
    let counts = JOB_COUNTS.map(|(name, text, _)| Column::new(name, DataType::UInt64, text));
    let times = JOB_TIMES.map(|(name, text, _)| Column::new(name, DataType::Float64, text));
    let shares = DRIVE_SHARES.map(|(name, text, _)| Column::new(name, DataType::Float64, text).nullable());
    let sums = DRIVE_COUNTS.map(|(name, text, _)| Column::new(name, DataType::UInt64, text).nullable());
    let host_shares =
        HOST_SHARES.map(|(name, text, _)| Column::new(name, DataType::Float64, text).nullable());
    let host_sums = HOST_COUNTS.map(|(name, text, _)| Column::new(name, DataType::UInt64, text).nullable());
    let host = host_shares.into_iter().chain(host_sums).filter(|_| has_host);
    columns::schema(rows.chain(counts).chain(times).chain(shares).chain(sums).chain(host))
}

/// Metadata of the file.
pub(super) fn about(summary: &Summary, content: &str) -> Vec<(&'static str, String)> {
    let clock = match summary.clock {
        ClockKind::Virtual => "virtual",
        ClockKind::Wall => "wall",
    };
    let completion = match summary.completion {
        Completion::Polled => "polled",
        Completion::Interrupt => "interrupt",
    };
    vec![
        ("byteway.content", content.to_owned()),
        ("byteway.version", summary.byteway.clone()),
        ("byteway.scenario", summary.scenario.clone()),
        ("byteway.seed", summary.seed.to_string()),
        ("byteway.completion", completion.to_owned()),
        ("byteway.clock", clock.to_owned()),
        ("byteway.partial", summary.partial.to_string()),
        ("byteway.units", UNITS.to_owned()),
    ]
}

/// Suffixes of column names.
const UNITS: &str = "_ns: nanoseconds of the run's clock; _bytes: bytes; busy, _share: fractions of 1";
