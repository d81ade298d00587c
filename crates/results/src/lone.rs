//! The I/O that waited out of all proportion for what should be short: a core, a lock, a link. It is lost in a mean and in most
//! percentiles, and is usually a starved queue. That a die erases, or that the write buffer is full, takes long by itself.

use super::Completed;
use crate::summary::JobSummary;
use byteway_clock::{Awaited, Delay, Stage};
use byteway_text::units::Picos;
use byteway_workload::Kind;

/// Times the median of its kind that one part of an I/O has to take.
const TIMES_MEDIAN: f64 = 100.0;
/// Times the mean that an I/O has to take to be looked at: the median is not known yet, and may be less.
const TIMES_MEAN: u64 = 20;
/// I/Os after which the mean is computed anew.
const LOOK: u64 = 256;

/// Looks for it among a job's I/Os.
#[derive(Default)]
pub(super) struct Watch {
    ios: u64,
    sum_ps: u64,
    /// Latency from which on an I/O is looked at.
    from: Delay,
    longest: Option<Longest>,
}

struct Longest {
    number: u64,
    kind: Kind,
    latency: Delay,
    part: &'static str,
    time: Delay,
}

impl Watch {
    #[inline]
    pub(super) fn look(&mut self, completed: &Completed, latency: Delay) {
        self.ios += 1;
        self.sum_ps = self.sum_ps.saturating_add(latency.0);
        if self.ios.is_multiple_of(LOOK) {
            self.from = Delay((self.sum_ps / self.ios).saturating_mul(TIMES_MEAN));
        }
        if latency > self.from {
            self.keep(completed, latency);
        }
    }

    #[cold]
    fn keep(&mut self, completed: &Completed, latency: Delay) {
        let (stages, awaited_times) = completed.times();
        let services = Stage::ALL.into_iter().map(|stage| (stage.name(), stages[stage as usize]));
        let services = services.filter(|(name, _)| !LONG_STAGES.map(Stage::name).contains(name));
        let waits = Awaited::ALL.into_iter().filter(|awaited| !LONG_WAITS.contains(awaited));
        let waits = waits.map(|awaited| (awaited.name(), awaited_times[awaited as usize]));
        let Some((part, time)) = services.chain(waits).max_by_key(|(_, time)| *time) else { return };
        if self.longest.as_ref().is_none_or(|longest| time > longest.time) {
            let (number, kind) = (completed.number, completed.io.kind);
            self.longest = Some(Longest { number, kind, latency, part, time });
        }
    }

    /// The note on it, if there is one.
    pub(super) fn note(&self, job: &JobSummary) -> Option<String> {
        let Longest { number, kind, latency, part, time } = self.longest.as_ref()?;
        let found = match kind {
            Kind::Read => &job.read,
            Kind::Write => &job.write,
            Kind::Trim => &job.trim,
        };
        let median_ns = found.as_ref()?.latency.p50_ns as f64;
        let times = time.0 as f64 / 1000.0 / median_ns;
        (median_ns > 0.0 && times >= TIMES_MEDIAN).then(|| {
            format!(
                "job {}: I/O {number} took {}, {} of it in {part}, {times:.0} times the median latency: it looks as if it was starved \
                 (`byteway run --ios` records each I/O with its waits)",
                job.name,
                Picos(latency.0),
                Picos(time.0)
            )
        })
    }
}

/// Where time may be long: in the cells, and in queues, which are looked at by what is waited for.
const LONG_STAGES: [Stage; 2] = [Stage::Flash, Stage::Queueing];
/// What takes long by itself, or is told elsewhere.
const LONG_WAITS: [Awaited; 6] = [
    Awaited::Depth,
    Awaited::Buffer,
    Awaited::BufferCollection,
    Awaited::DiePrograms,
    Awaited::DieErases,
    Awaited::DieCollection,
];

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{SpanRecord, Time};
    use byteway_workload::Io;

    /// Median 10 us, and one I/O that waited for this long for this.
    fn note(awaited: Awaited, us: u64) -> Option<String> {
        let (mut watch, mut recorder) = (Watch::default(), crate::JobRecorder::default());
        for number in 0..3000 {
            let mut record = SpanRecord { last: Time::ZERO + Delay::from_us(10), ..SpanRecord::default() };
            record.stages[Stage::Flash as usize] = Delay::from_us(10);
            if number == 2000 {
                record.last = record.last + Delay::from_us(us);
                record.stages[Stage::Queueing as usize] = Delay::from_us(us);
                record.waits[awaited as usize] = Delay::from_us(us);
            }
            let io = Io { kind: Kind::Read, lba: 7, blocks: 8, at: None };
            let (operated, queried) = (None, None);
            let (job, worker, bytes, due) = (0, 0, 4096, Time::ZERO);
            let completed = Completed { number, job, worker, io, operated, queried, bytes, due, record };
            recorder.record(Kind::Read, 4096, completed.latency().0);
            watch.look(&completed, completed.latency());
        }
        watch.note(&recorder.finish("reads", 1_000_000_000))
    }

    // One command of thousands waited 286 ms, which no mean and no percentile showed.
    #[test]
    fn an_io_that_was_starved_is_named_and_one_behind_an_erase_is_not() {
        let starved = note(Awaited::Core, 286_000).expect("it waited for 28,600 medians");
        let expected =
            "job reads: I/O 2000 took 286.01 ms, 286 ms of it in core, 28580 times the median latency";
        assert!(starved.starts_with(expected), "{starved}");
        assert_eq!(note(Awaited::Core, 900), None, "90 medians");
        assert_eq!(note(Awaited::DieErases, 3_500), None, "an erase takes as long");
        assert_eq!(note(Awaited::BufferCollection, 286_000), None, "a full buffer");
    }
}
