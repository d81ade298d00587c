//! Settings of a job, whatever it asks for: where, how many at once, when, and for how long.

use super::issue::{Cap, Issue, Think};
use super::priority::Priority;
use super::verify::Verify;
use byteway_console::units::Picos;

/// Settings of a job, resolved and checked: all that a runner needs to know but what the job asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSettings {
    /// Its name, unique in the scenario; also that of its random streams.
    pub name: String,
    /// Which of the run's drives it works on, from 0.
    pub drive: usize,
    /// It runs beside the drive, on the target that the host reaches it by, and not on the host.
    pub at_target: bool,
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
}

impl JobSettings {
    /// Those of a job of one worker on the first namespace, one operation at a time, with a byte for its unit.
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
