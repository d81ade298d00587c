//! The results of a run, for people and programs: the summary, the time series, the latency distributions,
//! and the wear of the flash. `summary.json` is the summary, `results.parquet` the series, `latency.parquet` the distributions, and
//! `report.html` shows all of it.
//!
//! Shares are fractions of 1; times are in nanoseconds of the run's clock.

pub mod batches;
mod distribution;
mod fio;
mod latencies;
mod parquet;
pub mod steadiness;

use serde::{Deserialize, Serialize};

use crate::summary::Summary;
pub use distribution::{Curve, Distribution};

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The figures over the whole measured part.
    pub summary: Summary,
    /// The time series, including warm-up.
    pub series: Series,
    /// Latency distributions of the measured part: one for each job and kind that occurred.
    pub distributions: Vec<Distribution>,
    /// Wear of the flash at the end; `None` if another process serves the drive, or there are several.
    pub wear: Option<Wear>,
    /// With several drives: the rest of each drive's results, in the order of [`Summary::drives`].
    pub drives: Vec<DriveResults>,
}

/// The results of one of several drives, apart from its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveResults {
    /// Time series of its jobs and of the drive.
    pub series: Series,
    /// Wear of its flash at the end.
    pub wear: Wear,
}

impl Results {
    /// The results of each of several drives, as of a run with this drive alone; none if the run has one
    /// drive.
    pub fn each_drive(&self) -> impl Iterator<Item = Results> {
        self.summary.drives.iter().zip(&self.drives).map(|(summary, drive)| {
            let is_own = |found: &&Distribution| summary.jobs.iter().any(|job| job.name == found.job);
            Results {
                summary: summary.clone(),
                series: drive.series.clone(),
                distributions: self.distributions.iter().filter(is_own).cloned().collect(),
                wear: Some(drive.wear.clone()),
                drives: Vec::new(),
            }
        })
    }

    /// The curves of the latency distributions, in the same order.
    pub fn curves(&self) -> Vec<Curve> {
        self.distributions.iter().map(Distribution::curve).collect()
    }

    /// With several drives: the name and the results of a job's drive.
    fn drive_of_job(&self, job: &str) -> Option<(&str, &DriveResults)> {
        let each = self.summary.drives.iter().zip(&self.drives);
        let mut own = each.filter(|(_, drive)| drive.series.jobs.iter().any(|name| name == job));
        own.next().and_then(|(summary, drive)| Some((summary.drive.as_deref()?, drive)))
    }
}

/// A time series: steps of equal width from the first I/O on, the last one shorter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Width of a step in nanoseconds.
    pub interval_ns: f64,
    /// Start of measuring, after warm-up, in nanoseconds.
    pub measured_from_ns: f64,
    /// Names of the jobs, in the order of [`Point::jobs`].
    pub jobs: Vec<String>,
    /// The steps.
    pub points: Vec<Point>,
}

/// A step of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Begin, relative to the first I/O, in nanoseconds.
    pub begin_ns: f64,
    /// End, in nanoseconds.
    pub end_ns: f64,
    /// Completions in this step, by job.
    pub jobs: Vec<JobPoint>,
    /// The drive's figures; `None` if another process serves the drive, or there are several, each with its
    /// own series.
    pub drive: Option<DrivePoint>,
}

/// I/Os of a job that completed in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobPoint {
    /// Reads.
    pub read: Flow,
    /// Writes.
    pub write: Flow,
    /// Trims.
    pub trim: Flow,
    /// Mean latency of all kinds; 0 without I/Os.
    pub mean_ns: f64,
    /// Median latency, within 3 %.
    pub p50_ns: f64,
    /// 99th percentile of the latency, within 3 %.
    pub p99_ns: f64,
    /// Longest latency.
    pub max_ns: f64,
}

/// Number and size of I/Os.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Number of I/Os.
    pub ios: u64,
    /// Bytes transferred or trimmed.
    pub bytes: u64,
}

/// The drive's figures in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrivePoint {
    /// Utilisation of each die, 0 to 1.
    pub dies: Vec<f64>,
    /// Utilisation of each channel, 0 to 1.
    pub channels: Vec<f64>,
    /// Mean utilisation of the cores, 0 to 1.
    pub cores: f64,
    /// The link, to the device.
    pub link_down: Crossing,
    /// The link, to the host.
    pub link_up: Crossing,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes programmed to flash, for the host and by garbage collection.
    pub programmed_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Map lookups that hit DRAM; 0 if DRAM holds the whole map.
    pub map_hits: u64,
    /// Map lookups that missed.
    pub map_misses: u64,
    /// Suspensions of programs and erases.
    pub suspends: u64,
    /// Read sensings beyond the first.
    pub retries: u64,
    /// Free superblocks at the end of the step.
    #[serde(default)]
    pub free_superblocks: u64,
    /// Bytes in the write buffer at the end of the step.
    #[serde(default)]
    pub buffered_bytes: u64,
    /// Cost of I/O on the host, for all drives together; omitted if it was not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPoint>,
}

/// Cost of I/O on the host in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPoint {
    /// Mean number of processors busy with each component, in the order of
    /// [`HostComponent::ALL`](crate::host::HostComponent::ALL).
    pub busy: Vec<f64>,
    /// Memory at the end of the step, in bytes, in the order of
    /// [`HostMemory::parts`](crate::host::HostMemory::parts).
    pub memory: Vec<u64>,
}

impl HostPoint {
    /// Mean number of busy processors.
    pub fn processors_busy(&self) -> f64 {
        self.busy.iter().sum()
    }

    /// Total memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().sum()
    }
}

/// One direction of the link in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// Utilisation, 0 to 1.
    pub busy: f64,
    /// Payload bytes only.
    pub payload_bytes: u64,
    /// Bytes with headers, CRC and framing.
    pub wire_bytes: u64,
}

/// Erase counts of superblocks. Erases before the run count if the scenario sets the drive's wear;
/// preconditioning counts none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Number of superblocks.
    pub blocks: u64,
    /// Lowest erase count.
    pub min: u64,
    /// Mean erase count.
    pub mean: f64,
    /// Highest erase count.
    pub max: u64,
    /// Erases that a block endures.
    pub endurance: u64,
    /// Whether erases before the run are included.
    pub began_worn: bool,
    /// Erase count, and number of blocks with at least this count and less than the next; ascending, at most
    /// a few hundred entries.
    pub histogram: Vec<(u64, u64)>,
}
