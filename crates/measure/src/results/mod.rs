//! Everything that a run leaves behind for people and programs to look at: the summary, the figures over time, the
//! distribution of latencies, and how worn the flash is. `summary.json` is the summary, `results.parquet` the series,
//! and `report.html` shows all of it.
//!
//! Shares are fractions of 1; times are in nanoseconds of the run's clock.

mod parquet;
pub mod steadiness;

use serde::{Deserialize, Serialize};

use crate::summary::Summary;
use byteway_workload::Kind;

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The figures over the whole of the measured part.
    pub summary: Summary,
    /// The figures over time, warming up included.
    pub series: Series,
    /// How the latencies of the measured part are distributed: one curve for each job and kind that had any.
    pub curves: Vec<Curve>,
    /// How worn the flash is at the end; `None` if another process serves the drive, or there are several.
    pub wear: Option<Wear>,
    /// With several drives, what the summary does not say of each, in the order of [`Summary::drives`].
    pub drives: Vec<DriveResults>,
}

/// What a run of several drives leaves behind of one, besides its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveResults {
    /// The figures over time, of its jobs and of the drive.
    pub series: Series,
    /// How worn its flash is at the end.
    pub wear: Wear,
}

impl Results {
    /// The results of each of several drives, as if it had been alone; of a run with one drive there are none.
    pub fn each_drive(&self) -> impl Iterator<Item = Results> {
        self.summary.drives.iter().zip(&self.drives).map(|(summary, drive)| {
            let is_own = |curve: &&Curve| summary.jobs.iter().any(|job| job.name == curve.job);
            Results {
                summary: summary.clone(),
                series: drive.series.clone(),
                curves: self.curves.iter().filter(is_own).cloned().collect(),
                wear: Some(drive.wear.clone()),
                drives: Vec::new(),
            }
        })
    }
}

/// Figures over time: steps of equal width from the first I/O on, the last one shorter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Width of a step.
    pub interval_ns: f64,
    /// When measuring began, after warming up.
    pub measured_from_ns: f64,
    /// Names of the jobs, in the order of [`Point::jobs`].
    pub jobs: Vec<String>,
    /// The steps.
    pub points: Vec<Point>,
}

/// A step of a series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// When it begins, after the first I/O was issued.
    pub begin_ns: f64,
    /// When it ends.
    pub end_ns: f64,
    /// What completed in it, job by job.
    pub jobs: Vec<JobPoint>,
    /// What the drive did in it; `None` if another process serves the drive, or there are several: each has a series.
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
    /// Mean latency of all of them; 0 if there are none.
    pub mean_ns: f64,
    /// Half are not longer, within 3 %.
    pub p50_ns: f64,
    /// 99 % are not longer, within 3 %.
    pub p99_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// How many, and how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What the drive did in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DrivePoint {
    /// Share of the step in which each die was busy.
    pub dies: Vec<f64>,
    /// Share of the step in which each channel was busy.
    pub channels: Vec<f64>,
    /// Share of the step in which the cores were busy, in the mean.
    pub cores: f64,
    /// The link, to the device.
    pub link_down: Crossing,
    /// The link, to the host.
    pub link_up: Crossing,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes that were programmed into flash, for the host and by collection.
    pub programmed_bytes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Lookups of a page of the map that was in DRAM; 0 if the whole map is.
    pub map_hits: u64,
    /// Those of a page that was not.
    pub map_misses: u64,
    /// Programs and erases suspended, each time counted.
    pub suspends: u64,
    /// Sensings of reads beyond the first.
    pub retries: u64,
    /// What I/O cost the host, of all drives together; none, and left out, if that was not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostPoint>,
}

/// What I/O cost the host in a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostPoint {
    /// How many processors were busy with each component, in the mean, in the order of
    /// [`HostComponent::ALL`](crate::host::HostComponent::ALL).
    pub busy: Vec<f64>,
    /// Memory at the end of the step, in bytes, part by part, in the order of [`HostMemory::parts`](crate::host::HostMemory::parts).
    pub memory: Vec<u64>,
}

impl HostPoint {
    /// Processors that were busy, in the mean.
    pub fn processors_busy(&self) -> f64 {
        self.busy.iter().sum()
    }

    /// All memory.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.iter().sum()
    }
}

/// One direction of the link in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// Share of the step in which it was busy.
    pub busy: f64,
    /// Payload only.
    pub payload_bytes: u64,
    /// With headers, CRC and framing.
    pub wire_bytes: u64,
}

/// The latencies of one kind of I/O of a job: the share of them that is not longer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the job.
    pub job: String,
    /// Reads, writes or trims.
    pub kind: Kind,
    /// Latency, and share of the I/Os that took no longer: both rising, the last share 1. A few hundred at most, dense
    /// where the tail is.
    pub points: Vec<(f64, f64)>,
}

/// How often superblocks were erased: in this run, and before it if the scenario says how worn the drive was; what
/// preconditioning would have taken counts as none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Superblocks.
    pub blocks: u64,
    /// Erases of the least worn.
    pub min: u64,
    /// Erases of the mean.
    pub mean: f64,
    /// Erases of the most worn.
    pub max: u64,
    /// Erases that a block endures.
    pub endurance: u64,
    /// Whether erases before the run are counted, too.
    pub began_worn: bool,
    /// Number of erases, and how many blocks have had so many, rising; at most a few hundred steps, each with the
    /// blocks up to the next.
    pub histogram: Vec<(u64, u64)>,
}
