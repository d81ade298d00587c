//! A completed I/O, as jobs report it.

use crate::queries::Queried;
use crate::verbs::Operated;
use byteway_clock::{Awaited, Delay, SpanRecord, Stage, Time, Waits};
use byteway_workload::Io;

/// A completed I/O.
pub struct Completed<'a> {
    /// Sequence number of the I/O, from [`Meter::number`](crate::Meter::number).
    pub number: u64,
    /// Index of the job.
    pub job: usize,
    /// Index of the job's worker.
    pub worker: u32,
    /// The operation. A key-value operation appears as a read, a write or a trim of a number of bytes, at the
    /// number of the key-value pair.
    pub io: Io,
    /// Details of a key-value operation.
    pub operated: Option<Operated>,
    /// Details of a query.
    pub queried: Option<Queried>,
    /// Bytes read, written or trimmed.
    pub bytes: u64,
    /// Due time: its latency begins here.
    pub due: Time,
    /// Time by stage.
    pub record: &'a SpanRecord,
}

impl Completed<'_> {
    /// From its due time to its completion.
    pub(crate) fn latency(&self) -> Delay {
        self.record.last.since(self.due)
    }

    /// Time that an open loop's I/O waited before it could begin.
    pub(crate) fn late(&self) -> Delay {
        self.latency().saturating_sub(self.record.last.since(self.record.begin))
    }

    /// Time by stage, and of that in queues what it waited for. Waiting before it could begin is queueing.
    pub(crate) fn times(&self) -> ([Delay; Stage::ALL.len()], Waits) {
        let (mut stages, mut waits) = (self.record.stages, self.record.waits);
        stages[Stage::Queueing as usize] += self.late();
        waits[Awaited::Depth as usize] += self.late();
        (stages, waits)
    }
}
