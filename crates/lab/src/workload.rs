//! What a job asks of the drive: the plan, and the generator that turns it into one I/O after the other.
//!
//! A generator only says what comes next. Queue depth, time and completions are the runner's: it asks for the next
//! I/O when a slot is free (closed loop), or issues each at its time whether a slot is free or not (open loop).

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Exponential, Rng, Stream, Zipf};
use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::error::InputError;
use crate::trace::{Format, Reader, Record, Tally};
use crate::units::{Bytes, Picos, UnitError, excerpt};

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
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

struct Draws {
    addresses: Addresses,
    address_stream: Stream,
    mix_stream: Stream,
    arrivals: Arrivals,
    kind: Option<Kind>,
    read_percent: u64,
    io_blocks: u32,
    range_lba: u64,
    left: u64,
}

/// Which unit of the range comes next; a unit is as long as an I/O.
enum Addresses {
    Sequential { first: u64, count: u64, next: u64 },
    Uniform { count: u64 },
    Zipf { ranks: Zipf, scatter: Permutation },
}

enum Arrivals {
    Closed,
    Poisson { gap_ps: Exponential, stream: Stream, at_ps: u64 },
    Fixed { index: u64, step: u64, rate_iops: u64 },
}

impl Draws {
    fn new(plan: &JobPlan, synthetic: &Synthetic, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let name = &plan.name;
        let stream = |purpose: &str| rng.stream(&format!("job/{name}/{worker}/{purpose}"));
        let (worker, workers) = (u64::from(worker), u64::from(plan.workers.max(1)));
        let units = plan.range_blocks / u64::from(synthetic.io_blocks.max(1));
        let refused = |error: &dyn fmt::Display| {
            InputError::new(format!("job `{name}`: {error}"), "change the range or the distribution")
        };
        let addresses = match synthetic.distribution {
            Distribution::Sequential => {
                let first = (u128::from(units) * u128::from(worker) / u128::from(workers)) as u64;
                let end = (u128::from(units) * u128::from(worker + 1) / u128::from(workers)) as u64;
                Addresses::Sequential { first, count: end - first, next: 0 }
            }
            Distribution::Uniform => Addresses::Uniform { count: units },
            Distribution::Zipf { theta } => {
                // All workers of a job have the same favourites.
                let key = rng.stream(&format!("job/{name}/scatter")).next_u64();
                Addresses::Zipf {
                    ranks: Zipf::new(units, theta).map_err(|error| refused(&error))?,
                    scatter: Permutation::new(key, units).map_err(|error| refused(&error))?,
                }
            }
        };
        let empty = match &addresses {
            Addresses::Sequential { count, .. } | Addresses::Uniform { count } => *count == 0,
            Addresses::Zipf { .. } => false,
        };
        if empty {
            return Err(refused(&"its range has no room for one I/O of each worker"));
        }
        let arrivals = match plan.issue {
            Issue::Closed | Issue::Trace => Arrivals::Closed,
            Issue::Open { rate_iops, arrival: Arrival::Fixed } => {
                Arrivals::Fixed { index: worker, step: workers, rate_iops: rate_iops.max(1) }
            }
            Issue::Open { rate_iops, arrival: Arrival::Poisson } => {
                let mean_ps = 1e12 * workers as f64 / rate_iops.max(1) as f64;
                let gap_ps = Exponential::new(mean_ps).map_err(|error| refused(&error))?;
                Arrivals::Poisson { gap_ps, stream: stream("arrival"), at_ps: 0 }
            }
        };
        let kind = match synthetic.rw {
            Rw::Read | Rw::RandRead => Some(Kind::Read),
            Rw::Write | Rw::RandWrite => Some(Kind::Write),
            Rw::Trim | Rw::RandTrim => Some(Kind::Trim),
            Rw::Rw | Rw::RandRw => None,
        };
        let share = |count: u64| count / workers + u64::from(worker < count % workers);
        Ok(Draws {
            addresses,
            address_stream: stream("address"),
            mix_stream: stream("mix"),
            arrivals,
            kind,
            read_percent: u64::from(synthetic.read_percent),
            io_blocks: synthetic.io_blocks,
            range_lba: plan.range_lba,
            left: plan.count.map_or(u64::MAX, share),
        })
    }

    fn next(&mut self) -> Option<Io> {
        self.left = self.left.checked_sub(1)?;
        let at = match &mut self.arrivals {
            Arrivals::Closed => None,
            Arrivals::Poisson { gap_ps, stream, at_ps } => {
                *at_ps = at_ps.saturating_add(libm::round(gap_ps.sample(stream)) as u64);
                Some(*at_ps)
            }
            Arrivals::Fixed { index, step, rate_iops } => {
                let at = u128::from(*index) * 1_000_000_000_000 / u128::from(*rate_iops);
                *index = index.saturating_add(*step);
                Some(u64::try_from(at).unwrap_or(u64::MAX))
            }
        };
        let unit = match &mut self.addresses {
            Addresses::Sequential { first, count, next } => {
                let unit = *first + *next;
                *next = if *next + 1 == *count { 0 } else { *next + 1 };
                unit
            }
            Addresses::Uniform { count } => self.address_stream.below(*count),
            Addresses::Zipf { ranks, scatter } => scatter.forward(ranks.sample(&mut self.address_stream)),
        };
        let kind = self.kind.unwrap_or_else(|| {
            if self.mix_stream.below(100) < self.read_percent { Kind::Read } else { Kind::Write }
        });
        let lba = self.range_lba + unit * u64::from(self.io_blocks);
        Some(Io { kind, lba, blocks: self.io_blocks, at })
    }
}

/// A trace laid on a range of the drive. Records are dealt to the workers in turn.
struct Replay {
    reader: Reader,
    plan: Laying,
    worker: u64,
    workers: u64,
    index: u64,
    /// What is left of a record that is longer than one command may be.
    rest: Option<(Record, u64, u64)>,
    wrapped: u64,
    widened: u64,
    last_ps: u64,
    error: Option<InputError>,
}

/// How records become commands.
struct Laying {
    lba_bytes: u64,
    range_lba: u64,
    range_blocks: u64,
    transfer_blocks_max: u64,
    wrap: bool,
    timed: bool,
    time_scale_q32: u64,
    count: u64,
}

impl Replay {
    fn new(plan: &JobPlan, trace: &TracePlan, worker: u32, workers: u32) -> Result<Self, InputError> {
        Ok(Replay {
            reader: Reader::open(&trace.path, trace.format, trace.device, trace.skip_bad_lines)?,
            plan: Laying {
                lba_bytes: u64::from(plan.lba_bytes.max(1)),
                range_lba: plan.range_lba,
                range_blocks: plan.range_blocks,
                transfer_blocks_max: u64::from(plan.transfer_blocks_max.max(1)),
                wrap: trace.wrap,
                timed: plan.issue == Issue::Trace,
                time_scale_q32: trace.time_scale_q32,
                count: plan.count.unwrap_or(u64::MAX),
            },
            worker: u64::from(worker),
            workers: u64::from(workers.max(1)),
            index: 0,
            rest: None,
            wrapped: 0,
            widened: 0,
            last_ps: 0,
            error: None,
        })
    }

    fn next(&mut self) -> Option<Io> {
        if self.error.is_some() {
            return None;
        }
        match self.advance() {
            Ok(io) => io,
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Io>, InputError> {
        while self.rest.is_none() {
            if self.index >= self.plan.count {
                return Ok(None);
            }
            let Some(record) = self.reader.next_record()? else { return Ok(None) };
            let mine = self.index % self.workers == self.worker;
            self.index += 1;
            if mine {
                let (lba, blocks) = self.lay(&record)?;
                self.rest = Some((record, lba, blocks));
            }
        }
        let Some((record, lba, blocks)) = self.rest.take() else { return Ok(None) };
        let now = blocks.min(self.plan.transfer_blocks_max);
        if now < blocks {
            self.rest = Some((record, lba + now, blocks - now));
        }
        let scaled = (u128::from(record.time_ps) * u128::from(self.plan.time_scale_q32)) >> 32;
        let at = u64::try_from(scaled).map_err(|_| {
            let what = "its time, scaled, is beyond the 213 days that a run reaches";
            InputError::new(what, "choose a smaller `time_scale`").at(self.reader.place())
        })?;
        self.last_ps = at;
        Ok(Some(Io {
            kind: record.kind,
            lba: self.plan.range_lba + lba,
            blocks: now as u32,
            at: self.plan.timed.then_some(at),
        }))
    }

    /// First block, within the range, and number of blocks: all that the record touches.
    fn lay(&mut self, record: &Record) -> Result<(u64, u64), InputError> {
        let plan = &self.plan;
        let first = record.offset_bytes / plan.lba_bytes;
        // A record ends at or below 2^63.
        let end = (record.offset_bytes + record.bytes).div_ceil(plan.lba_bytes);
        let blocks = end - first;
        self.widened += u64::from(blocks * plan.lba_bytes != record.bytes);
        let range = Bytes(plan.range_blocks.saturating_mul(plan.lba_bytes));
        if blocks > plan.range_blocks {
            let what =
                format!("a record of {} is longer than the job's range of {range}", Bytes(record.bytes));
            return Err(InputError::new(what, "choose a larger drive or range").at(self.reader.place()));
        }
        if end <= plan.range_blocks {
            return Ok((first, blocks));
        }
        if !plan.wrap {
            let what = format!(
                "LBA {} is beyond the job's range of {range}, {} blocks of {} B",
                end - 1,
                plan.range_blocks,
                plan.lba_bytes
            );
            let cure = "set `wrap = true` in [job.trace], or choose a larger drive";
            return Err(InputError::new(what, cure).at(self.reader.place()));
        }
        self.wrapped += 1;
        // A record that would run over the end is moved down to it rather than torn in two.
        Ok(((first % plan.range_blocks).min(plan.range_blocks - blocks), blocks))
    }
}

/// Reads a job's trace once from beginning to end, or to the job's count, as all its workers together will: so that
/// a broken line or an address beyond the drive shows before anything is simulated or written.
pub(crate) fn scan(plan: &JobPlan, trace: &TracePlan) -> Result<(Format, Scan), InputError> {
    let mut replay = Replay::new(plan, trace, 0, 1)?;
    let runtime_ps = plan.runtime.map_or(u64::MAX, |runtime| runtime.0);
    let mut commands = 0;
    while let Some(io) = replay.advance()? {
        if io.at.is_some_and(|at| at >= runtime_ps) {
            break;
        }
        commands += 1;
    }
    let scan = Scan {
        tally: replay.reader.tally().clone(),
        commands,
        wrapped: replay.wrapped,
        widened: replay.widened,
        last_ps: replay.last_ps,
    };
    Ok((replay.reader.format(), scan))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn job(synthetic: Synthetic) -> JobPlan {
        JobPlan {
            name: "j".to_owned(),
            nsid: 1,
            lba_bytes: 4096,
            range_lba: 1000,
            range_blocks: 64,
            iodepth: 1,
            workers: 1,
            issue: Issue::Closed,
            priority: Priority::Medium,
            count: Some(1000),
            runtime: None,
            transfer_blocks_max: 64,
            source: Source::Synthetic(synthetic),
        }
    }

    const READS: Synthetic =
        Synthetic { rw: Rw::RandRead, read_percent: 100, io_blocks: 2, distribution: Distribution::Uniform };

    fn ios(plan: &JobPlan, worker: u32) -> Vec<Io> {
        Generator::new(plan, worker, &Rng::new(1)).unwrap().collect()
    }

    // An I/O outside its range would fail on the drive, or overwrite what another job verifies.
    #[test]
    fn every_io_lies_in_its_range() {
        for distribution in [
            Distribution::Uniform,
            Distribution::Zipf { theta: 1.0 },
            Distribution::Zipf { theta: 1.2 },
            Distribution::Sequential,
        ] {
            for io_blocks in [1, 2, 3, 64] {
                let plan = job(Synthetic { distribution, io_blocks, ..READS });
                let ios = ios(&plan, 0);
                assert_eq!(ios.len(), 1000);
                for io in ios {
                    assert!(io.lba >= 1000 && io.lba + u64::from(io.blocks) <= 1064, "{io:?}");
                    assert_eq!((io.lba - 1000) % u64::from(io_blocks), 0);
                }
            }
        }
    }

    // Workers of a sequential job that all began at the same place would read each block several times.
    #[test]
    fn sequential_workers_share_the_range_and_the_count() {
        let synthetic = Synthetic { rw: Rw::Write, distribution: Distribution::Sequential, ..READS };
        let plan = JobPlan { workers: 3, count: Some(32), ..job(synthetic) };
        let mut seen: Vec<u64> = (0..3).flat_map(|worker| ios(&plan, worker)).map(|io| io.lba).collect();
        assert_eq!(seen.len(), 32);
        seen.sort_unstable();
        // Slices of 10, 11 and 11 units take 11, 11 and 10 I/Os: the first begins again.
        seen.dedup();
        assert_eq!(seen.len(), 31);
    }

    // With one stream for all, a change of the mix would move every address, and two runs could not be compared.
    #[test]
    fn the_mix_does_not_change_the_addresses() {
        let plan = |read_percent| job(Synthetic { rw: Rw::RandRw, read_percent, ..READS });
        let (a, b) = (ios(&plan(70), 0), ios(&plan(20), 0));
        assert!(a.iter().zip(&b).all(|(a, b)| a.lba == b.lba));
        let reads = a.iter().filter(|io| io.kind == Kind::Read).count();
        assert!((640..760).contains(&reads), "{reads}");
        assert!(ios(&plan(0), 0).iter().all(|io| io.kind == Kind::Write));
        assert!(ios(&plan(100), 0).iter().all(|io| io.kind == Kind::Read));
        let other = JobPlan { name: "k".to_owned(), ..plan(70) };
        assert!(ios(&other, 0).iter().zip(&a).any(|(a, b)| a.lba != b.lba));
    }

    // A skewed job whose favourites lay side by side would load one die only.
    #[test]
    fn zipf_favourites_are_scattered_and_shared_by_workers() {
        let synthetic = Synthetic { distribution: Distribution::Zipf { theta: 1.2 }, io_blocks: 1, ..READS };
        let plan = JobPlan { range_blocks: 100_000, workers: 2, count: Some(40_000), ..job(synthetic) };
        let favourite = |worker| {
            let mut counts = std::collections::BTreeMap::new();
            ios(&plan, worker).iter().for_each(|io| *counts.entry(io.lba).or_insert(0) += 1);
            let mut order: Vec<(u32, u64)> = counts.into_iter().map(|(lba, count)| (count, lba)).collect();
            order.sort_unstable_by(|a, b| b.cmp(a));
            (order[0].1, order[1].1)
        };
        let (first, second) = favourite(0);
        assert_eq!(favourite(1).0, first);
        assert!(first.abs_diff(second) > 100);
    }

    // An open loop that drifts from its rate would measure another load than the one asked for.
    #[test]
    fn open_loops_keep_their_rate() {
        let open = |arrival, workers| JobPlan {
            workers,
            count: Some(10_000),
            issue: Issue::Open { rate_iops: 100_000, arrival },
            ..job(READS)
        };
        let fixed: Vec<u64> = ios(&open(Arrival::Fixed, 2), 1).iter().filter_map(|io| io.at).collect();
        assert_eq!(fixed[..3], [10_000_000, 30_000_000, 50_000_000]);
        assert_eq!(fixed.len(), 5_000);
        let poisson = ios(&open(Arrival::Poisson, 1), 0);
        let last = poisson.last().unwrap().at.unwrap();
        assert!((95_000_000_000..105_000_000_000).contains(&last), "{last}");
        assert!(poisson.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let short = JobPlan { runtime: Some(Picos(1_000_000_000)), ..open(Arrival::Fixed, 1) };
        assert_eq!(ios(&short, 0).len(), 100);
    }

    fn trace_job(
        text: &str,
        change: impl Fn(&mut JobPlan, &mut TracePlan),
    ) -> (JobPlan, tempfile::NamedTempFile) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut plan = JobPlan { issue: Issue::Trace, count: None, ..job(READS) };
        let mut trace = TracePlan {
            path: file.path().to_owned(),
            format: Format::Auto,
            device: None,
            wrap: true,
            time_scale_q32: 1 << 32,
            skip_bad_lines: false,
            scan: Scan::default(),
        };
        change(&mut plan, &mut trace);
        plan.source = Source::Trace(trace);
        (plan, file)
    }

    fn scan_of(plan: &JobPlan) -> Result<Scan, InputError> {
        let Source::Trace(trace) = &plan.source else { unreachable!() };
        scan(plan, trace).map(|(_, scan)| scan)
    }

    // Addresses of a trace are in sectors of 512 B and of another drive: laid wrongly, reads would miss what was written.
    #[test]
    fn records_are_aligned_wrapped_and_split() {
        let text = "1000 0 7 2 0\n2000 0 512 8 1\n3000 0 508 8 1\n4000 1 0 512 1\n";
        let (plan, _file) = trace_job(text, |plan, _| plan.transfer_blocks_max = 48);
        let ios = ios(&plan, 0);
        let io = |kind, lba, blocks, at| Io { kind, lba, blocks, at: Some(at) };
        let expected = [
            io(Kind::Write, 1000, 2, 0),
            io(Kind::Read, 1000, 1, 1_000_000),
            io(Kind::Read, 1062, 2, 2_000_000),
            io(Kind::Read, 1000, 48, 3_000_000),
            io(Kind::Read, 1048, 16, 3_000_000),
        ];
        assert_eq!(ios, expected);
        let scan = scan_of(&plan).unwrap();
        assert_eq!((scan.commands, scan.wrapped, scan.widened, scan.tally.records), (5, 2, 2, 4));
    }

    // Without `wrap` an address beyond the drive is a mistake of the user's, to be shown with its line.
    #[test]
    fn an_address_beyond_the_range_is_an_error_with_its_line() {
        let (plan, _file) = trace_job("1 0 0 8 0\n2 0 512 8 1\n", |_, trace| trace.wrap = false);
        let error = scan_of(&plan).unwrap_err();
        assert!(error.to_string().contains(":2:1: LBA 64 is beyond"), "{error}");
        assert!(error.cure.contains("wrap = true"));
        let mut generator = Generator::new(&plan, 0, &Rng::new(1)).unwrap();
        assert_eq!(generator.by_ref().count(), 1);
        assert!(generator.error().is_some());
        let (plan, _file) = trace_job("1 0 0 1024 0\n", |_, _| ());
        assert!(scan_of(&plan).unwrap_err().what.contains("longer than the job's range"));
    }

    // Scaling through a float would lose picoseconds after three hours of trace.
    #[test]
    fn times_scale_and_records_are_dealt_in_turn() {
        let text = "0 0 0 8 0\n1000 0 8 8 0\n2000 0 16 8 0\n18000000000000 0 24 8 0\n";
        let (plan, _file) = trace_job(text, |plan, trace| {
            plan.workers = 2;
            trace.time_scale_q32 = 1 << 31;
        });
        let times = |worker| ios(&plan, worker).iter().filter_map(|io| io.at).collect::<Vec<_>>();
        assert_eq!(times(0), [0, 1_000_000]);
        assert_eq!(times(1), [500_000, 9_000_000_000_000_000]);
        let (plan, _file) = trace_job(text, |_, trace| trace.time_scale_q32 = 4000 << 32);
        assert!(scan_of(&plan).unwrap_err().cure.contains("time_scale"));
        let (plan, _file) = trace_job(text, |plan, _| plan.count = Some(2));
        assert_eq!(scan_of(&plan).unwrap().commands, 2);
        let (plan, _file) = trace_job(text, |plan, _| plan.issue = Issue::Closed);
        assert!(ios(&plan, 0).iter().all(|io| io.at.is_none()));
    }
}
