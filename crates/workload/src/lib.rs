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
//! | `source.rs`, `source_kind.rs` | what jobs ask: the list of its kinds, and what a kind says of itself |
//! | `synthetic.rs`, `draws.rs` | drawn I/Os: all of these together; those of one worker |
//! | `replay.rs`, `layout.rs` | those of a trace, and how it is laid on the drive |
//! | `verify.rs` | whether what it reads is checked, and how |
//! | [`kv`] | operations on pairs of keys and values |
//! | `echo.rs` | echoes: what a kind takes at least; for tests |

pub mod direction;
pub mod distribution;
mod draws;
#[cfg(feature = "echo")]
pub mod echo;
pub mod kv;
mod layout;
mod length;
mod pace;
mod replay;
mod source;
mod source_kind;
mod synthetic;
#[cfg(test)]
mod tests;
mod verify;

use byteway_clock::random::Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
pub use source::Source;
pub use synthetic::{Rw, Synthetic};
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

impl JobPlan {
    /// A job of one worker on the first namespace, one operation at a time, with a byte for its unit.
    pub(crate) fn plain(name: &str, source: Source) -> JobPlan {
        JobPlan {
            name: name.to_owned(),
            drive: 0,
            nsid: 1,
            lba_bytes: 1,
            range_lba: 0,
            range_blocks: u64::MAX,
            stride_blocks: None,
            namespace_blocks: u64::MAX,
            iodepth: 1,
            workers: 1,
            issue: Issue::Closed,
            cap: None,
            think: None,
            phase: 0,
            start_delay: Picos(0),
            ramp: Picos(0),
            verify: Verify::On,
            priority: Priority::default(),
            count: None,
            io_bytes: None,
            runtime: None,
            transfer_blocks_max: u32::MAX,
            source,
        }
    }

    /// Operations that the job comes to in all, if that is known beforehand.
    pub fn command_count(&self) -> Option<u64> {
        self.source.kind().command_count(self)
    }

    /// The longest of its I/Os, blocks, which may become several commands.
    pub fn io_blocks_max(&self) -> u32 {
        self.source.kind().io_blocks_max(self)
    }

    /// The longest payload of one command of its I/Os, bytes.
    pub fn payload_bytes_max(&self) -> u32 {
        self.io_blocks_max().min(self.transfer_blocks_max) * self.lba_bytes
    }

    /// How long its operations are, in words.
    pub fn lengths(&self) -> String {
        self.source.kind().lengths(self)
    }

    /// Whether each of its operations has a verb, by which they are reported.
    pub fn has_verbs(&self) -> bool {
        self.source.kind().has_verbs()
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
    ios: Ios,
    runtime_ps: u64,
}

/// Where I/Os come from.
enum Ios {
    Draws(Box<Draws>),
    Replay(Box<Replay>),
}

impl Generator {
    /// The generator of one worker (from 0) of a job. Its random streams are named after job and worker, so that
    /// neither another job nor another worker changes what it draws.
    ///
    /// # Errors
    /// The job asks for no I/Os but for something that has a generator of its own, its range has no room for them, or its
    /// trace cannot be read any more.
    pub fn new(plan: &JobPlan, worker: u32, rng: &Rng) -> Result<Self, InputError> {
        let ios = plan.source.kind().ios(plan, worker, rng)?;
        Ok(Generator { ios, runtime_ps: plan.end_ps() })
    }

    /// Why a replay ended early: the file changed or broke after it was checked. `None` while all is well.
    pub fn error(&self) -> Option<&InputError> {
        match &self.ios {
            Ios::Draws(_) => None,
            Ios::Replay(replay) => replay.error.as_ref(),
        }
    }
}

impl Iterator for Generator {
    type Item = Io;

    fn next(&mut self) -> Option<Io> {
        let io = match &mut self.ios {
            Ios::Draws(draws) => draws.next(),
            Ios::Replay(replay) => replay.next(),
        }?;
        // What is due after the end of the job is not issued; in a closed loop the runner watches the clock.
        io.at.is_none_or(|at| at < self.runtime_ps).then_some(io)
    }
}
