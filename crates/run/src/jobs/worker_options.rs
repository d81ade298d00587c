//! Options of workers.

use super::payloads::Sink;
use byteway_clock::Station;
use byteway_host::{Completion, Multipath, QueuePair, Rules};
use byteway_jbof::Jbof;
use byteway_pushdown::READ_DEPTH;
use byteway_pushdown::drive_model::DriveModel;
use byteway_transfer::result::ResultMethod;
use byteway_workload::query::{QueryPlace, TableRows};
use byteway_workload::{JobPlan, Source};
use std::rc::Rc;

/// Minimum queue length of a queue that carries payloads or results.
const LONG_RING: u32 = 1024;

/// Options with which workers use the drive, independent of their jobs.
pub struct WorkerOptions {
    /// Number of the drive in the run; jobs on other drives get no workers.
    pub drive: usize,
    /// Queue pairs of the target, used in turn, for jobs that run there. `None`: the jobs run on the host, and each worker has its own
    /// queue pair.
    pub shared: Option<Vec<QueuePair>>,
    /// The paths to the drive, if its queue pairs use several. Not for key-value jobs.
    pub paths: Option<Multipath>,
    /// The drive's JBOF, if any: some commands may use queue pairs of its other drives.
    pub jbof: Option<Rc<Jbof>>,
    /// How completions are detected.
    pub completion: Completion,
    /// Transfer of payloads.
    pub rules: Rules,
    /// Access to the drive's sink instead of blocks.
    pub sink: Option<Sink>,
    /// Return path of retrieved values on a key-value drive.
    pub results: ResultMethod,
    /// Initial content of a drive with tables.
    pub tables: Vec<TableRows>,
    /// Performance model of such a drive.
    pub model: Rc<DriveModel>,
    /// The host's processors, shared in turn by the workers of all drives.
    pub processors: Vec<Rc<Station>>,
    /// Upper limit of a queue's entries.
    pub queue_entries_max: u32,
    /// Seed of everything random.
    pub seed: u64,
}

impl WorkerOptions {
    /// Entries that a worker needs: enough for all of its I/Os, including entries that carry payload or results.
    pub(super) fn entries(&self, plan: &JobPlan, bytes_max: u32) -> Entries {
        let bytes = bytes_max.min(self.rules.entries_bytes_max());
        // Minimum per entry: 52 B of a payload, 14 B of a result.
        let payload = if self.rules.methods().is_empty() { 0 } else { bytes.div_ceil(52) };
        let result = match &self.sink {
            Some(sink) if sink.results == ResultMethod::Inline => bytes_max.div_ceil(14),
            None if self.results == ResultMethod::Inline => bytes_max.div_ceil(14),
            _ => 0,
        };
        let carried = payload.max(result);
        let iodepth = u64::from(plan.iodepth);
        let wanted = match &plan.source {
            // A host that reads a table has several commands outstanding for each query; tasks alone carry a payload.
            Source::Queries(queries) if queries.place != QueryPlace::Check => {
                iodepth * (READ_DEPTH as u64 + u64::from(carried)) + 1
            }
            _ => {
                let commands = plan.io_blocks_max().div_ceil(plan.transfer_blocks_max.max(1)).max(1);
                iodepth * u64::from(commands) * u64::from(1 + carried) + 1
            }
        };
        // Where a ring's end comes often, it cuts reads of several entries in two more often than any driver's ring does.
        Entries { wanted, least: if carried > 0 { LONG_RING } else { 2 } }
    }

    /// Queue length for the workers that share a queue pair. If it is less than they need, they wait for each other.
    pub(super) fn ring(&self, sharers: impl Iterator<Item = Entries>) -> u32 {
        let sum = |all: Entries, own: Entries| Entries {
            wanted: all.wanted.saturating_add(own.wanted),
            least: all.least.max(own.least),
        };
        let all = sharers.fold(Entries { wanted: 0, least: 2 }, sum);
        let wanted = all.wanted.min(65536).next_power_of_two() as u32;
        wanted.max(all.least).min(self.queue_entries_max)
    }
}

/// Entries of a queue that a worker needs.
#[derive(Clone, Copy)]
pub(super) struct Entries {
    wanted: u64,
    /// Minimum queue length.
    least: u32,
}
