//! The I/O that waited out of all proportion for what should be short: a core, a lock, a link. It is lost in a mean and in most
//! percentiles, and is usually a starved queue. That a die erases, or that the write buffer is full, takes long by itself.

use crate::completed::Completed;
use crate::summary::JobSummary;
use byteway_clock::{Awaited, Delay};
use byteway_text::table::time as shown;

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
    /// By kind: each has its own median.
    longest: [Option<Longest>; 3],
}

struct Longest {
    number: u64,
    latency: Delay,
    part: &'static str,
    time: Delay,
}

impl Watch {
    /// Operations and queries are left out: one may be acknowledged at once, and the next do the work of many.
    #[inline]
    pub(super) fn look(&mut self, completed: &Completed<'_>, latency: Delay) {
        if completed.operated.is_some() || completed.queried.is_some() {
            return;
        }
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
    fn keep(&mut self, completed: &Completed<'_>, latency: Delay) {
        let (_, times) = completed.times();
        let short = Awaited::ALL.into_iter().filter(|awaited| !LONG_WAITS.contains(awaited));
        let waits = short.map(|awaited| (awaited.name(), times[awaited as usize]));
        let Some((part, time)) = waits.max_by_key(|(_, time)| *time) else { return };
        let longest = &mut self.longest[completed.io.kind as usize];
        if longest.as_ref().is_none_or(|longest| time > longest.time) {
            *longest = Some(Longest { number: completed.number, latency, part, time });
        }
    }

    /// The note on it, if there is one: of the kind in which it is most out of proportion.
    pub(super) fn note(&self, job: &JobSummary) -> Option<String> {
        let kinds = self.longest.iter().zip([&job.read, &job.write, &job.trim]);
        let times_median = kinds.filter_map(|(longest, found)| {
            let (longest, found) = (longest.as_ref()?, found.as_ref()?);
            let median_ns = found.latency.p50_ns as f64;
            let times = longest.time.0 as f64 / 1000.0 / median_ns;
            (median_ns > 0.0 && times >= TIMES_MEDIAN).then_some((longest, times))
        });
        let (longest, times) = times_median.max_by(|one, other| one.1.total_cmp(&other.1))?;
        let Longest { number, latency, part, time } = longest;
        Some(format!(
            "job {}: I/O {number} took {}, {} of it waiting for {part}, {times:.0} times the median latency: it looks as if it was \
             starved (`byteway run --ios` records each I/O with its waits)",
            job.name,
            shown(latency.0 as f64 / 1000.0),
            shown(time.0 as f64 / 1000.0)
        ))
    }
}

/// What takes long by itself, or where data lies unevenly, or is told elsewhere.
const LONG_WAITS: [Awaited; 10] = [
    Awaited::Depth,
    Awaited::MapFrame,
    Awaited::Buffer,
    Awaited::BufferCollection,
    Awaited::Channel,
    Awaited::DieReads,
    Awaited::DiePrograms,
    Awaited::DieErases,
    Awaited::DieCollection,
    Awaited::Throttle,
];

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{SpanRecord, Stage, Time};
    use byteway_workload::{Io, Kind};

    /// Reads with a median of 10 us, one of which waited for this long for this, beside writes of 100 us, one of which waited for 9 ms.
    fn note(awaited: Awaited, us: u64) -> Option<String> {
        let (mut watch, mut recorder) = (Watch::default(), crate::JobRecorder::default());
        for number in 0..3000 {
            let kind = if number % 2 == 0 { Kind::Read } else { Kind::Write };
            let alone = Delay::from_us(if kind == Kind::Read { 10 } else { 100 });
            let mut record = SpanRecord { last: Time::ZERO + alone, ..SpanRecord::default() };
            record.stages[Stage::Flash as usize] = alone;
            let waited = match number {
                2000 => Some((awaited, us)),
                2001 => Some((Awaited::Core, 9_000)),
                _ => None,
            };
            if let Some((awaited, us)) = waited {
                record.last = record.last + Delay::from_us(us);
                record.stages[Stage::Queueing as usize] = Delay::from_us(us);
                record.waits[awaited as usize] = Delay::from_us(us);
            }
            let io = Io { kind, lba: 7, blocks: 8, at: None };
            let (operated, queried) = (None, None);
            let (job, worker, bytes, due) = (0, 0, 4096, Time::ZERO);
            let completed =
                Completed { number, job, worker, io, operated, queried, bytes, due, record: &record };
            recorder.record(kind, 4096, completed.latency().0);
            watch.look(&completed, completed.latency());
        }
        watch.note(&recorder.finish("reads", 1_000_000_000))
    }

    // One command of thousands waited 286 ms, which no mean and no percentile showed.
    #[test]
    fn an_io_that_was_starved_is_named_and_one_behind_an_erase_is_not() {
        let starved = note(Awaited::Core, 286_000).expect("it waited for 28,600 medians");
        let expected = "job reads: I/O 2000 took 286.0 ms, 286.0 ms of it waiting for core, 28580 times the median latency";
        assert!(starved.starts_with(expected), "{starved}");
        assert!(note(Awaited::Core, 5_000).is_some(), "less than a write waited, whose median is longer");
        assert_eq!(note(Awaited::Core, 900), None, "90 medians");
        assert_eq!(note(Awaited::DieErases, 3_500), None, "an erase takes as long");
        assert_eq!(note(Awaited::BufferCollection, 286_000), None, "a full buffer");
    }
}
