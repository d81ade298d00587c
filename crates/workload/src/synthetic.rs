//! Drawn I/Os: direction and order, lengths, addresses.

use byteway_clock::random::Rng;
use byteway_console::error::InputError;
use byteway_console::units::Bytes;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draws::{self, Draws};
use super::source_kind::SourceKind;
use super::{ByKind, Distribution, Ios, JobPlan, Kind, Lengths};

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

impl SourceKind for Synthetic {
    fn command_count(&self, job: &JobPlan) -> Option<u64> {
        let by_bytes = job.io_bytes.and_then(|_| {
            let io_bytes = u64::from(self.lengths.fixed(self.rw)?) * u64::from(job.lba_bytes);
            let workers = 0..job.workers;
            let blocks = workers.map(|worker| draws::bytes_of(job, self, worker).div_ceil(io_bytes));
            let commands = if self.rw.trims_then_writes() { 2 } else { 1 };
            Some(blocks.sum::<u64>() * commands)
        });
        match (job.count, by_bytes) {
            (Some(count), Some(by_bytes)) => Some(count.min(by_bytes)),
            (Some(count), None) if job.io_bytes.is_none() => Some(count),
            (_, by_bytes) => by_bytes,
        }
    }

    /// A trim moves no data.
    fn io_blocks_max(&self, _: &JobPlan) -> u32 {
        let kinds = self.rw.kinds().iter().filter(|kind| **kind != Kind::Trim);
        kinds.map(|kind| self.lengths.get(*kind).max()).max().unwrap_or(1)
    }

    fn lengths(&self, job: &JobPlan) -> String {
        let bytes = |blocks: u32| Bytes(u64::from(blocks) * u64::from(job.lba_bytes));
        match self.lengths.fixed(self.rw) {
            Some(blocks) => bytes(blocks).to_string(),
            None => {
                let shortest = self.lengths.min_of(self.rw);
                format!("{} to {}", bytes(shortest), bytes(self.lengths.max_of(self.rw)))
            }
        }
    }

    fn has_verbs(&self) -> bool {
        false
    }

    fn ios(&self, job: &JobPlan, worker: u32, rng: &Rng) -> Result<Ios, InputError> {
        Ok(Ios::Draws(Box::new(Draws::new(job, self, worker, rng)?)))
    }
}
