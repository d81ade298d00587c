//! Settings of a job of any kind: drive, range, concurrency, timing.

use super::issue::{Cap, Issue, Think};
use super::priority::Priority;
use super::verify::Verify;
use byteway_text::units::Picos;

/// Settings of a job, resolved and validated: everything that a runner needs in addition to the source.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSettings {
    /// Name of the job, unique in the scenario; also used in the names of its random streams.
    pub name: String,
    /// Index of its drive, from 0.
    pub drive: usize,
    /// Whether it runs on the target that serves the drive, instead of on the host.
    pub at_target: bool,
    /// Namespace identifier, from 1.
    pub nsid: u32,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// First block of its range, within the namespace.
    pub range_lba: u64,
    /// Length of its range in blocks.
    pub range_blocks: u64,
    /// Distance between the ranges of consecutive workers in blocks; `None`: all share one range, which
    /// sequential workers divide.
    pub stride_blocks: Option<u64>,
    /// Size of the namespace in blocks, which limits all ranges.
    pub namespace_blocks: u64,
    /// Outstanding I/Os of a worker, at most.
    pub iodepth: u32,
    /// Number of workers, each with a queue pair and a generator.
    pub workers: u32,
    /// The event that makes the next I/O due.
    pub issue: Issue,
    /// Rate limit of a closed loop.
    pub cap: Option<Cap>,
    /// Pauses of the workers.
    pub think: Option<Think>,
    /// Writes of a worker after which it waits for its outstanding I/Os and flushes.
    pub flush_after: Option<u32>,
    /// Number of jobs with a stonewall up to this one: jobs of one phase run concurrently, after the phase
    /// before.
    pub phase: u32,
    /// Delay from the beginning of the job's phase to the job's own beginning.
    pub start_delay: Picos,
    /// Delay from the job's beginning to the beginning of its measurement.
    pub ramp: Picos,
    /// Verification of the blocks that it reads.
    pub verify: Verify,
    /// Priority class of its queues.
    pub priority: Priority,
    /// Number of I/Os (for a trace, records), over all workers.
    pub count: Option<u64>,
    /// Bytes to transfer, over all workers; the last I/O may exceed them. A block that is trimmed and then
    /// written counts once.
    pub io_bytes: Option<u64>,
    /// Virtual time after which no further I/O is issued.
    pub runtime: Option<Picos>,
    /// Longest transfer of one command in blocks; longer records of a trace are split.
    pub transfer_blocks_max: u32,
}

impl JobSettings {
    /// Settings of one worker on the first namespace, one operation at a time, with blocks of one byte.
    pub(crate) fn plain(name: &str) -> JobSettings {
        JobSettings {
            name: name.to_owned(),
            drive: 0,
            at_target: false,
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
            flush_after: None,
            phase: 0,
            start_delay: Picos(0),
            ramp: Picos(0),
            verify: Verify::On,
            priority: Priority::default(),
            count: None,
            io_bytes: None,
            runtime: None,
            transfer_blocks_max: u32::MAX,
        }
    }

    /// A worker's share of a number that all workers of the job divide evenly.
    pub(crate) fn share_of(&self, all: u64, worker: u32) -> u64 {
        let workers = u64::from(self.workers.max(1));
        all / workers + u64::from(u64::from(worker) < all % workers)
    }

    /// Time after which no further I/O is issued, in picoseconds since the job began: the runtime follows the
    /// ramp.
    pub fn end_ps(&self) -> u64 {
        self.runtime.map_or(u64::MAX, |runtime| runtime.0.saturating_add(self.ramp.0))
    }

    /// The range of a worker (from 0): its first block in the namespace, and its number of blocks.
    pub fn range_of(&self, worker: u32) -> (u64, u64) {
        let Some(stride) = self.stride_blocks else { return (self.range_lba, self.range_blocks) };
        let lba = self.range_lba.saturating_add(stride.saturating_mul(u64::from(worker)));
        (lba, self.range_blocks.min(self.namespace_blocks.saturating_sub(lba)))
    }
}
