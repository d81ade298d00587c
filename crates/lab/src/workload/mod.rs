//! What a job asks of the drive: the plan, and the generator that turns it into one I/O after the other.
//!
//! A generator only says what comes next. Queue depth, time and completions are the runner's: it asks for the next
//! I/O when a slot is free (closed loop), or issues each at its time whether a slot is free or not (open loop).

mod draws;
mod replay;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use byteway_clock::random::Rng;
use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::trace::{Format, Tally};
use crate::units::{Picos, UnitError, excerpt};
use draws::Draws;
use replay::Replay;

pub(crate) use replay::scan;

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Dataset Management, deallocate.
    Trim,
}

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// What it does.
    pub kind: Kind,
    /// First logical block, within the namespace.
    pub lba: u64,
    /// Logical blocks, at least 1 and at most [`JobPlan::transfer_blocks_max`].
    pub blocks: u32,
    /// When it is issued, in picoseconds since the job began; `None` in a closed loop.
    pub at: Option<u64>,
}

/// Direction and order of a job, as fio names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential, reads and writes mixed by `rwmixread`.
    Rw,
    /// Sequential trims.
    Trim,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random, reads and writes mixed by `rwmixread`.
    RandRw,
    /// Random trims.
    RandTrim,
}

impl Rw {
    /// Whether addresses follow each other.
    pub fn is_sequential(self) -> bool {
        matches!(self, Rw::Read | Rw::Write | Rw::Rw | Rw::Trim)
    }

    /// Whether any of its I/Os is a read.
    pub fn has_reads(self) -> bool {
        matches!(self, Rw::Read | Rw::RandRead) || self.is_mixed()
    }

    /// Whether reads and writes are mixed.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::Rw | Rw::RandRw)
    }
}

/// How random addresses are spread over the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// One after the other; what a sequential `rw` implies.
    Sequential,
    /// Each equally often.
    Uniform,
    /// The r-th most popular in proportion to 1 / r^theta, scattered over the range by a fixed permutation.
    Zipf {
        /// Skew, above 0.
        theta: f64,
    },
}

const DISTRIBUTION_EXPECTED: &str =
    "\"uniform\", \"sequential\", or \"zipf:\" and its theta, such as \"zipf:1.2\"";

impl FromStr for Distribution {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |what: String| UnitError { what, cure: format!("write {DISTRIBUTION_EXPECTED}") };
        match text.trim() {
            "uniform" => Ok(Distribution::Uniform),
            "sequential" => Ok(Distribution::Sequential),
            other => {
                let unknown = || wrong(format!("`{}` is not a distribution", excerpt(text)));
                let theta = other.strip_prefix("zipf:").ok_or_else(unknown)?;
                match theta.trim().parse::<f64>() {
                    Ok(theta) if (0.001..=20.0).contains(&theta) => Ok(Distribution::Zipf { theta }),
                    Ok(_) => Err(UnitError {
                        what: format!("the theta of `{}` is out of range", excerpt(text)),
                        cure: "choose a theta from 0.001 to 20".to_owned(),
                    }),
                    Err(_) => Err(wrong(format!("the theta of `{}` is not a number", excerpt(text)))),
                }
            }
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Sequential => f.write_str("sequential"),
            Distribution::Uniform => f.write_str("uniform"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Distribution {
    fn schema_name() -> Cow<'static, str> {
        "Distribution".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": DISTRIBUTION_EXPECTED,
            "pattern": r"^(uniform|sequential|zipf:[0-9.]+)$",
        })
    }
}

/// When I/Os that nobody waits for arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Independently of each other, at the rate in the mean.
    #[default]
    Poisson,
    /// Evenly.
    Fixed,
}

/// What makes the next I/O due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// The completion of one before it.
    Closed,
    /// Time.
    Open {
        /// I/Os a second, over all workers of the job.
        rate_iops: u64,
        /// How they are spaced.
        arrival: Arrival,
    },
    /// The times of the trace.
    Trace,
}

/// Class of a job's submission queues under weighted round robin (NVMe Base 2.1, 3.4.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before all others.
    Urgent,
    /// By the high weight.
    High,
    /// By the medium weight.
    #[default]
    Medium,
    /// By the low weight.
    Low,
}

/// A job, resolved and checked: all that a runner needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPlan {
    /// Its name, unique in the scenario; also that of its random streams.
    pub name: String,
    /// The namespace, from 1.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// First block of its range, in the namespace.
    pub range_lba: u64,
    /// Blocks of its range.
    pub range_blocks: u64,
    /// I/Os of a worker that may be outstanding.
    pub iodepth: u32,
    /// Workers, each with a queue pair and a generator of its own.
    pub workers: u32,
    /// What makes the next I/O due.
    pub issue: Issue,
    /// Class of its queues.
    pub priority: Priority,
    /// I/Os (records, of a trace), over all workers.
    pub count: Option<u64>,
    /// Virtual time after which nothing new is issued.
    pub runtime: Option<Picos>,
    /// The most that one command transfers: longer records of a trace become several commands.
    pub transfer_blocks_max: u32,
    /// Where its I/Os come from.
    pub source: Source,
}

/// Where a job's I/Os come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Random draws.
    Synthetic(Synthetic),
    /// A recording.
    Trace(TracePlan),
}

/// Draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    /// Direction and order.
    pub rw: Rw,
    /// Of a mix, the share of reads: 0 to 100.
    pub read_percent: u8,
    /// Logical blocks of an I/O.
    pub io_blocks: u32,
    /// How addresses are spread.
    pub distribution: Distribution,
}

/// A recording and how it is laid on the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePlan {
    /// The file.
    pub path: PathBuf,
    /// How it is written, as forced or found.
    pub format: Format,
    /// Only this device's records; `None` lays all devices over the same range.
    pub device: Option<u32>,
    /// Addresses beyond the range begin again at its start.
    pub wrap: bool,
    /// What times are multiplied with, in units of 2^-32.
    pub time_scale_q32: u64,
    /// Lines that are no records are skipped and counted.
    pub skip_bad_lines: bool,
    /// What the first pass over the file met.
    pub scan: Scan,
}

/// What a pass over a trace met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// What the reader counted.
    pub tally: Tally,
    /// Commands that its records become.
    pub commands: u64,
    /// Records whose address was beyond the range and wrapped.
    pub wrapped: u64,
    /// Records that begin or end within a logical block, and were widened to whole ones.
    pub widened: u64,
    /// Time of the last record, in picoseconds, scaled.
    pub last_ps: u64,
}

impl JobPlan {
    /// Commands that the job issues in all, if that is known beforehand.
    pub fn command_count(&self) -> Option<u64> {
        match &self.source {
            Source::Trace(trace) => Some(trace.scan.commands),
            Source::Synthetic(_) => self.count,
        }
    }
}

/// Gives a worker's I/Os, one after the other. Allocates nothing on the way.
pub struct Generator {
    inner: Inner,
    runtime_ps: u64,
}

enum Inner {
    Draws(Box<Draws>),
    Replay(Box<Replay>),
}

impl Generator {
    /// The generator of one worker (from 0) of a job. Its random streams are named after job and worker, so that
    /// neither another job nor another worker changes what it draws.
    pub fn new(plan: &JobPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let inner = match &plan.source {
            Source::Synthetic(synthetic) => Inner::Draws(Box::new(Draws::new(plan, synthetic, worker, rng)?)),
            Source::Trace(trace) => Inner::Replay(Box::new(Replay::new(plan, trace, worker, plan.workers)?)),
        };
        Ok(Generator { inner, runtime_ps: plan.runtime.map_or(u64::MAX, |runtime| runtime.0) })
    }

    /// Why a replay ended early: the file changed or broke after it was checked. `None` while all is well.
    pub fn error(&self) -> Option<&InputError> {
        match &self.inner {
            Inner::Draws(_) => None,
            Inner::Replay(replay) => replay.error.as_ref(),
        }
    }
}

impl Iterator for Generator {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let io = match &mut self.inner {
            Inner::Draws(draws) => draws.next(),
            Inner::Replay(replay) => replay.next(),
        }?;
        // What is due after the end of the job is not issued; in a closed loop the runner watches the clock.
        io.at.is_none_or(|at| at < self.runtime_ps).then_some(io)
    }
}
