//! What a job asks of the drive: the plan, and the generator that turns it into one I/O after the other.
//!
//! A generator only says what comes next. Queue depth, time and completions are the runner's: it asks for the next
//! I/O when a slot is free (closed loop), or issues each at its time whether a slot is free or not (open loop).

//!
//! | file | what |
//! |---|---|
//! | `direction.rs` | values of which reads, writes and trims may each have their own, as fio writes them |
//! | `length.rs` | how long I/Os are: `bs`, `bsrange`, `bssplit` |
//! | `distribution.rs` | where random I/Os go: `random_distribution` |
//! | `pace.rs` | when they are due: open loops, `rate` and `rate_iops` |
//! | `draws.rs` | all of these together: the I/Os of one worker |
//! | `replay.rs`, `layout.rs` | those of a trace, and how it is laid on the drive |
//! | `verify.rs` | whether what it reads is checked, and how |
//! | [`kv`] | operations on pairs of keys and values |

pub mod direction;
pub mod distribution;
mod draws;
pub mod kv;
mod layout;
mod length;
mod pace;
mod replay;
#[cfg(test)]
mod tests;
mod verify;

use byteway_clock::random::Rng;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kv::KvPlan;
use byteway_console::error::InputError;
use byteway_console::units::Picos;
use draws::Draws;
use replay::Replay;

pub use byteway_trace::Kind;
pub use direction::{ByKind, Directed, Iops, PerDirection, SizeRange, SizeSplit};
pub use distribution::{Distribution, Zone};
pub use layout::Layout;
pub use length::Lengths;
pub use pace::{Cap, Think};
pub use replay::{Beyond, Scan, TracePlan, scan};
pub use verify::Verify;

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// What it does.
    pub kind: Kind,
    /// First logical block, within the namespace.
    pub lba: u64,
    /// Logical blocks, at least 1 and at most [`JobPlan::transfer_blocks_max`].
    pub blocks: u32,
    /// When it is due, in picoseconds since the job began, and under a rate before when it may not be issued; `None` in a
    /// closed loop without one.
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
    /// Sequential, reads and writes mixed by `rwmixread`; they advance through the range together.
    #[serde(alias = "readwrite")]
    #[value(alias = "readwrite")]
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
    /// Sequential, each block trimmed and then written.
    TrimWrite,
    /// Random, each block trimmed and then written.
    RandTrimWrite,
}

impl Rw {
    /// Whether addresses follow each other.
    pub fn is_sequential(self) -> bool {
        matches!(self, Rw::Read | Rw::Write | Rw::Rw | Rw::Trim | Rw::TrimWrite)
    }

    /// Whether any of its I/Os is a read.
    pub fn has_reads(self) -> bool {
        self.kinds().contains(&Kind::Read)
    }

    /// Whether reads and writes are mixed.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::Rw | Rw::RandRw)
    }

    /// Whether each block is trimmed and then written.
    pub fn trims_then_writes(self) -> bool {
        matches!(self, Rw::TrimWrite | Rw::RandTrimWrite)
    }

    /// What its I/Os do.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Rw::Read | Rw::RandRead => &[Kind::Read],
            Rw::Write | Rw::RandWrite => &[Kind::Write],
            Rw::Trim | Rw::RandTrim => &[Kind::Trim],
            Rw::Rw | Rw::RandRw => &[Kind::Read, Kind::Write],
            Rw::TrimWrite | Rw::RandTrimWrite => &[Kind::Trim, Kind::Write],
        }
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
    /// Which of the run's drives it works on, from 0.
    pub drive: usize,
    /// The namespace, from 1.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// First block of its range, in the namespace.
    pub range_lba: u64,
    /// Blocks of its range.
    pub range_blocks: u64,
    /// By how many blocks each worker's range begins after that of the worker before; `None` where all share one, and
    /// sequential workers divide it among themselves.
    pub stride_blocks: Option<u64>,
    /// Blocks of the namespace, beyond which no range goes.
    pub namespace_blocks: u64,
    /// I/Os of a worker that may be outstanding.
    pub iodepth: u32,
    /// Workers, each with a queue pair and a generator of its own.
    pub workers: u32,
    /// What makes the next I/O due.
    pub issue: Issue,
    /// What a closed loop does not exceed.
    pub cap: Option<Cap>,
    /// When workers pause.
    pub think: Option<Think>,
    /// How many jobs with a stonewall there are up to this one: jobs of one phase run together, after the phase before.
    pub phase: u32,
    /// From the beginning of its phase to its own.
    pub start_delay: Picos,
    /// From its beginning to that of its figures.
    pub ramp: Picos,
    /// Whether each block that it reads is checked, and how.
    pub verify: Verify,
    /// Class of its queues.
    pub priority: Priority,
    /// I/Os (records, of a trace), over all workers.
    pub count: Option<u64>,
    /// Bytes that it transfers, over all workers; the last I/O may go beyond. What is trimmed and then written counts once.
    pub io_bytes: Option<u64>,
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
    /// Operations on the pairs of a key-value drive, which have a generator of their own ([`crate::kv::KvGenerator`]).
    Pairs(Box<KvPlan>),
}

/// Draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// Direction and order.
    pub rw: Rw,
    /// Of a mix, the share of reads: 0 to 100.
    pub read_percent: u8,
    /// How long I/Os are.
    pub lengths: ByKind<Lengths>,
    /// What random addresses are multiples of, in blocks; `None`: the shortest length of their kind.
    pub align_blocks: Option<u32>,
    /// How random addresses are spread.
    pub distribution: Distribution,
    /// Whether random I/Os touch each block once before any twice.
    pub once: bool,
}

impl Synthetic {
    /// I/Os of one length, with defaults otherwise.
    pub const fn fixed(rw: Rw, io_blocks: u32) -> Self {
        Synthetic {
            rw,
            read_percent: 50,
            lengths: ByKind {
                read: Lengths::Fixed(io_blocks),
                write: Lengths::Fixed(io_blocks),
                trim: Lengths::Fixed(io_blocks),
            },
            align_blocks: None,
            distribution: Distribution::Uniform,
            once: false,
        }
    }
}

impl JobPlan {
    /// Commands that the job issues in all, if that is known beforehand.
    pub fn command_count(&self) -> Option<u64> {
        let synthetic = match &self.source {
            Source::Trace(trace) => return Some(trace.scan.commands),
            Source::Pairs(plan) if self.runtime.is_none() => return self.count.or(plan.operations()),
            Source::Pairs(_) => return self.count,
            Source::Synthetic(synthetic) => synthetic,
        };
        let by_bytes = self.io_bytes.and_then(|_| {
            let io_bytes = u64::from(synthetic.lengths.fixed(synthetic.rw)?) * u64::from(self.lba_bytes);
            let workers = 0..self.workers;
            let blocks = workers.map(|worker| draws::bytes_of(self, synthetic, worker).div_ceil(io_bytes));
            let commands = if synthetic.rw.trims_then_writes() { 2 } else { 1 };
            Some(blocks.sum::<u64>() * commands)
        });
        match (self.count, by_bytes) {
            (Some(count), Some(by_bytes)) => Some(count.min(by_bytes)),
            (Some(count), None) if self.io_bytes.is_none() => Some(count),
            (_, by_bytes) => by_bytes,
        }
    }

    /// When nothing new is issued any more, in picoseconds since it began: the runtime comes after the ramp.
    pub fn end_ps(&self) -> u64 {
        self.runtime.map_or(u64::MAX, |runtime| runtime.0.saturating_add(self.ramp.0))
    }

    /// The range of a worker (from 0): its first block in the namespace, and its blocks.
    pub fn range_of(&self, worker: u32) -> (u64, u64) {
        let Some(stride) = self.stride_blocks else { return (self.range_lba, self.range_blocks) };
        let lba = self.range_lba.saturating_add(stride.saturating_mul(u64::from(worker)));
        (lba, self.range_blocks.min(self.namespace_blocks.saturating_sub(lba)))
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
    /// Pairs have a generator of their own.
    Nothing,
}

impl Generator {
    /// The generator of one worker (from 0) of a job. Its random streams are named after job and worker, so that
    /// neither another job nor another worker changes what it draws.
    pub fn new(plan: &JobPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let inner = match &plan.source {
            Source::Synthetic(synthetic) => Inner::Draws(Box::new(Draws::new(plan, synthetic, worker, rng)?)),
            Source::Trace(trace) => Inner::Replay(Box::new(Replay::new(plan, trace, worker, plan.workers)?)),
            Source::Pairs(_) => Inner::Nothing,
        };
        Ok(Generator { inner, runtime_ps: plan.end_ps() })
    }

    /// Why a replay ended early: the file changed or broke after it was checked. `None` while all is well.
    pub fn error(&self) -> Option<&InputError> {
        match &self.inner {
            Inner::Draws(_) | Inner::Nothing => None,
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
            Inner::Nothing => None,
        }?;
        // What is due after the end of the job is not issued; in a closed loop the runner watches the clock.
        io.at.is_none_or(|at| at < self.runtime_ps).then_some(io)
    }
}
