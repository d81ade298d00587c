//! The recorder of time series.
//!
//! All steps have equal widths. There are at most [`STEPS_MAX`]: when all are full, neighbours are merged and
//! the width doubles, so that memory is bounded for runs of any length. Everything kept for a step can be
//! added exactly to that of the next, so merged steps equal those of a run with the wider interval. In a
//! simulation the drive's counters are sampled just before the instant at which a step ends
//! (`Clock::observe`): events at that instant belong to the next step.

use byteway_clock::Time;
use byteway_content::UNIT_BYTES;
use byteway_link::Direction;

use super::host::{HostComponent, HostCost};
use super::sample::{DriveCounts, Sample};
use super::tally::{Count, Tally, merge, percentile_ns};
use crate::results::{Crossing, DrivePoint, Flow, HostPoint, JobPoint, Point, Series};
use byteway_text::number::{ns, ratio};
use byteway_text::units::Picos;
use byteway_workload::{JobPlan, Kind};

/// Steps, at most.
const STEPS_MAX: usize = 1024;
/// Initial width, unless an interval is configured: 10 us.
const WIDTH_PS: u64 = 10_000_000;
/// Job records over all steps, at most.
const JOBS_MAX: usize = 1 << 18;
/// Die and channel records over all steps, at most.
const BUSY_MAX: usize = 1 << 22;
/// Minimum number of steps, even for a drive of 65536 dies.
const STEPS_MIN: usize = 64;

/// Records time series.
pub struct SeriesRecorder {
    start: Time,
    width_ps: u64,
    /// The configured interval.
    asked_ps: Option<u64>,
    steps_max: usize,
    /// Completed steps.
    steps: usize,
    names: Vec<String>,
    /// The current step, by job.
    live: Vec<(JobStep, Tally)>,
    /// The completed steps, by step and job.
    jobs: Vec<JobStep>,
    /// Latency counts of all `jobs`.
    counts: Vec<Count>,
    /// Spare buffer into which `counts` is merged.
    spare: Vec<Count>,
    /// The drive of each job.
    drive_of_job: Vec<usize>,
    drives: Vec<DriveSteps>,
}

/// The recorded time series, with a note.
pub struct Recorded {
    /// Series of the run; with several drives, without the drives' figures.
    pub series: Series,
    /// With several drives: the series of each drive, with its jobs.
    pub drives: Vec<Series>,
    /// Note for the reader.
    pub note: Option<String>,
}

/// One job in one step.
#[derive(Clone, Copy, Default)]
struct JobStep {
    read: Flow,
    write: Flow,
    trim: Flow,
    sum_ps: u128,
    max_ps: u64,
    /// Range of its latency counts in the recorder's `counts`.
    counts: (usize, usize),
}

impl JobStep {
    fn flow(&mut self, kind: Kind) -> &mut Flow {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Trim => &mut self.trim,
        }
    }

    fn ios(&self) -> u64 {
        self.read.ios + self.write.ios + self.trim.ios
    }

    fn add(&mut self, other: &JobStep) {
        for (flow, more) in
            [(&mut self.read, other.read), (&mut self.write, other.write), (&mut self.trim, other.trim)]
        {
            flow.ios += more.ios;
            flow.bytes = flow.bytes.saturating_add(more.bytes);
        }
        self.sum_ps += other.sum_ps;
        self.max_ps = self.max_ps.max(other.max_ps);
    }

    fn point(&self, counts: &[Count]) -> JobPoint {
        let max_ns = ns(self.max_ps);
        JobPoint {
            read: self.read,
            write: self.write,
            trim: self.trim,
            mean_ns: ratio(self.sum_ps, u128::from(self.ios()) * 1000),
            p50_ns: percentile_ns(counts, 50).min(max_ns),
            p99_ns: percentile_ns(counts, 99).min(max_ns),
            max_ns,
        }
    }
}

/// The figures of one drive, by step.
struct DriveSteps {
    cores: u64,
    dies: usize,
    /// Number of dies and channels.
    things: usize,
    /// Counters at the start of the current step.
    last: Sample,
    /// Busy time of each die and each channel in picoseconds, by step.
    busy: Vec<u64>,
    sums: Vec<DriveSums>,
    /// Cost of I/O on the host by step, if followed.
    hosts: Vec<HostCost>,
}

/// The figures of a drive in a step, without dies and channels.
#[derive(Clone, Copy, Default)]
struct DriveSums {
    counts: DriveCounts,
    /// Free superblocks, and units in the write buffer, at the end of the step.
    free: u64,
    buffered_units: u64,
}

impl DriveSums {
    fn between(then: &Sample, now: &Sample) -> Self {
        DriveSums {
            counts: now.counts.since(&then.counts),
            free: now.free,
            buffered_units: now.buffered_units,
        }
    }

    /// Adds the step that follows.
    fn add(&mut self, other: &DriveSums) {
        (self.free, self.buffered_units) = (other.free, other.buffered_units);
        self.counts += other.counts;
    }
}

impl DriveSteps {
    fn push(&mut self, now: &mut Sample) {
        let each = |now: &Sample, then: &Sample, busy: &mut Vec<u64>| {
            let pairs = now.dies.iter().zip(&then.dies).chain(now.channels.iter().zip(&then.channels));
            busy.extend(pairs.map(|(now, then)| now.saturating_sub(*then).0));
        };
        each(now, &self.last, &mut self.busy);
        self.sums.push(DriveSums::between(&self.last, now));
        if let (Some(now), Some(then)) = (&now.host, &self.last.host) {
            self.hosts.push(HostCost { usage: now.usage.since(&then.usage), memory: now.memory });
        }
        std::mem::swap(&mut self.last, now);
    }

    /// Merges every second step into the one before it.
    fn join(&mut self) {
        let pairs = self.sums.len() / 2;
        for pair in 0..pairs {
            let (first, second) = (2 * pair * self.things, (2 * pair + 1) * self.things);
            for thing in 0..self.things {
                self.busy[pair * self.things + thing] = self.busy[first + thing] + self.busy[second + thing];
            }
            let mut sums = self.sums[2 * pair];
            sums.add(&self.sums[2 * pair + 1]);
            self.sums[pair] = sums;
        }
        for pair in 0..self.hosts.len() / 2 {
            self.hosts[pair] = self.hosts[2 * pair].then(&self.hosts[2 * pair + 1]);
        }
        self.hosts.truncate(self.hosts.len() / 2);
        self.busy.truncate(pairs * self.things);
        self.sums.truncate(pairs);
    }

    /// Merges the last step into the one before it.
    fn join_last(&mut self) {
        let last = self.sums.len() - 1;
        let (before, after) = self.busy.split_at_mut(last * self.things);
        for (busy, more) in before[(last - 1) * self.things..].iter_mut().zip(after) {
            *busy += *more;
        }
        let sums = self.sums[last];
        self.sums[last - 1].add(&sums);
        if let Some(after) = self.hosts.pop()
            && let Some(before) = self.hosts.last_mut()
        {
            *before = before.then(&after);
        }
        self.busy.truncate(last * self.things);
        self.sums.truncate(last);
    }

    fn point(&self, step: usize, width_ps: u64) -> DrivePoint {
        let width = u128::from(width_ps);
        let share = |busy_ps: u64| ratio(busy_ps.into(), width);
        let busy = &self.busy[step * self.things..(step + 1) * self.things];
        let (dies, channels) = busy.split_at(self.dies);
        let sums = &self.sums[step];
        let crossing = |direction: Direction| {
            let link = &sums.counts.link[direction as usize];
            Crossing {
                busy: share(link.busy_ps),
                payload_bytes: link.payload_bytes,
                wire_bytes: link.wire_bytes,
            }
        };
        DrivePoint {
            dies: dies.iter().copied().map(share).collect(),
            channels: channels.iter().copied().map(share).collect(),
            cores: ratio(sums.counts.cores_ps.into(), width * u128::from(self.cores)),
            link_down: crossing(Direction::Down),
            link_up: crossing(Direction::Up),
            host_written_bytes: sums.counts.written_bytes,
            programmed_bytes: sums.counts.programmed_units * UNIT_BYTES as u64,
            erases: sums.counts.erases,
            map_hits: sums.counts.map_hits,
            map_misses: sums.counts.map_misses,
            suspends: sums.counts.suspends,
            retries: sums.counts.retries,
            free_superblocks: sums.free,
            buffered_bytes: sums.buffered_units * UNIT_BYTES as u64,
            host: self.hosts.get(step).map(|host| HostPoint {
                busy: HostComponent::ALL
                    .iter()
                    .map(|component| share(host.usage.busy(*component).0))
                    .collect(),
                memory: host.memory.parts().map(|(_, bytes)| bytes).to_vec(),
            }),
        }
    }
}

impl SeriesRecorder {
    /// A recorder for `jobs` that start at `start`, in steps of `interval`, if configured.
    pub fn new(jobs: &[JobPlan], start: Time, interval: Option<Picos>) -> Self {
        let drive_of_job = jobs.iter().map(|job| job.drive).collect();
        let names = jobs.iter().map(|job| job.name.clone()).collect();
        SeriesRecorder { drive_of_job, ..Self::named(names, start, interval) }
    }

    fn named(names: Vec<String>, start: Time, interval: Option<Picos>) -> Self {
        SeriesRecorder {
            start,
            width_ps: interval.map_or(WIDTH_PS, |interval| interval.0.max(1)),
            asked_ps: interval.map(|interval| interval.0),
            steps_max: steps_max(names.len(), JOBS_MAX),
            steps: 0,
            live: names.iter().map(|_| Default::default()).collect(),
            drive_of_job: vec![0; names.len()],
            names,
            jobs: Vec::new(),
            counts: Vec::new(),
            spare: Vec::new(),
            drives: Vec::new(),
        }
    }

    /// Adds drives, each with its counters at the start and its number of cores.
    pub fn with_drives(mut self, drives: Vec<(Sample, u64)>) -> Self {
        let things = |now: &Sample| now.dies.len() + now.channels.len();
        let all = drives.iter().map(|(now, _)| things(now)).sum();
        self.steps_max = self.steps_max.min(steps_max(all, BUSY_MAX));
        let steps = |(now, cores): (Sample, u64)| DriveSteps {
            cores,
            dies: now.dies.len(),
            things: things(&now),
            busy: Vec::with_capacity(self.steps_max * things(&now)),
            last: now,
            sums: Vec::with_capacity(self.steps_max),
            hosts: Vec::new(),
        };
        self.drives = drives.into_iter().map(steps).collect();
        self
    }

    /// End of the current step.
    pub fn until(&self) -> Time {
        Time(self.start.0.saturating_add(self.width_ps.saturating_mul(self.steps as u64 + 1)))
    }

    /// Counts a completed I/O.
    #[inline]
    pub(super) fn completed(&mut self, now: Time, job: usize, kind: Kind, bytes: u64, latency_ps: u64) {
        // With a drive, the clock's observer has ended the step already.
        while self.drives.is_empty() && now >= self.until() {
            self.end_step(&mut []);
        }
        let (step, tally) = &mut self.live[job];
        let flow = step.flow(kind);
        flow.ios += 1;
        flow.bytes = flow.bytes.saturating_add(bytes);
        step.sum_ps += u128::from(latency_ps);
        step.max_ps = step.max_ps.max(latency_ps);
        tally.count(latency_ps.saturating_add(500) / 1000);
    }

    /// Ends the current step at [`until`](Self::until). `now` are the drives' current counters; their old
    /// values are swapped in. When all steps are full they are merged, and the current step continues.
    pub fn end_step(&mut self, now: &mut [Sample]) {
        if self.steps >= self.steps_max {
            self.join();
        } else {
            self.push(now);
        }
    }

    fn push(&mut self, now: &mut [Sample]) {
        for (step, tally) in &mut self.live {
            let begin = self.counts.len();
            tally.drain_into(&mut self.counts);
            let counts = (begin, self.counts.len());
            self.jobs.push(JobStep { counts, ..std::mem::take(step) });
        }
        for (drive, now) in self.drives.iter_mut().zip(now) {
            drive.push(now);
        }
        self.steps += 1;
        debug_assert_eq!(
            self.jobs.len(),
            self.steps * self.names.len(),
            "each step has a record for each job"
        );
    }

    /// Merges two of `jobs`; appends the latency counts of the result to `counts`.
    fn joined(&self, first: usize, second: usize, counts: &mut Vec<Count>) -> JobStep {
        let (first, second) = (&self.jobs[first], &self.jobs[second]);
        let begin = counts.len();
        merge(
            &self.counts[first.counts.0..first.counts.1],
            &self.counts[second.counts.0..second.counts.1],
            counts,
        );
        let mut joined = *first;
        joined.add(second);
        joined.counts = (begin, counts.len());
        joined
    }

    /// Merges every step with its neighbour: half as many steps of twice the width.
    fn join(&mut self) {
        let jobs = self.names.len();
        let mut counts = std::mem::take(&mut self.spare);
        counts.clear();
        for index in 0..self.steps / 2 * jobs {
            let first = index / jobs * 2 * jobs + index % jobs;
            self.jobs[index] = self.joined(first, first + jobs, &mut counts);
        }
        self.spare = std::mem::replace(&mut self.counts, counts);
        self.steps /= 2;
        self.jobs.truncate(self.steps * jobs);
        self.width_ps = self.width_ps.saturating_mul(2);
        self.drives.iter_mut().for_each(DriveSteps::join);
    }

    /// Merges the last step into the one before it.
    fn join_last(&mut self) {
        let jobs = self.names.len();
        let last = (self.steps - 1) * jobs;
        let mut counts = std::mem::take(&mut self.spare);
        counts.clear();
        for index in last..last + jobs {
            let mut step = self.joined(index - jobs, index, &mut counts);
            let begin = self.counts.len();
            self.counts.append(&mut counts);
            step.counts = (begin, self.counts.len());
            self.jobs[index - jobs] = step;
        }
        self.spare = counts;
        self.steps -= 1;
        self.jobs.truncate(last);
        self.drives.iter_mut().for_each(DriveSteps::join_last);
    }

    /// The result at `now`, where the last step ends. Measuring began at `measured_from`.
    pub(super) fn finish(&mut self, now: Time, measured_from: Time, drives: &mut [Sample]) -> Recorded {
        let begun = Time(self.start.0.saturating_add(self.width_ps.saturating_mul(self.steps as u64)));
        let lasts = now > begun;
        if lasts && self.steps >= self.steps_max {
            self.join();
        }
        self.push(drives);
        // Events at the very end of the last step would otherwise form a step of zero width.
        if !lasts && self.steps > 1 {
            self.join_last();
        }
        let all: Vec<usize> = (0..self.names.len()).collect();
        let of_drive = |drive: usize| -> Vec<usize> {
            all.iter().copied().filter(|job| self.drive_of_job[*job] == drive).collect()
        };
        let series = |jobs: &[usize], drive: Option<&DriveSteps>| Series {
            points: self.points(now.since(self.start).0, jobs, drive),
            interval_ns: ns(self.width_ps),
            measured_from_ns: ns(measured_from.since(self.start).0),
            jobs: jobs.iter().map(|job| self.names[*job].clone()).collect(),
        };
        let (whole, drives) = match &self.drives[..] {
            [] => (series(&all, None), Vec::new()),
            [only] => (series(&all, Some(only)), Vec::new()),
            several => {
                let each = several.iter().enumerate();
                let each = each.map(|(number, drive)| series(&of_drive(number), Some(drive)));
                (series(&all, None), each.collect())
            }
        };
        let note = self.asked_ps.filter(|asked| *asked != self.width_ps).map(|asked| {
            format!(
                "measure.interval = {} gives more than {} steps: they were merged into steps of {}",
                Picos(asked),
                self.steps_max,
                Picos(self.width_ps)
            )
        });
        Recorded { series: whole, drives, note }
    }

    /// The steps of these jobs, with the figures of a drive.
    fn points(&self, end_ps: u64, jobs: &[usize], drive: Option<&DriveSteps>) -> Vec<Point> {
        let count = self.names.len();
        let points = (0..self.steps).map(|step| {
            let begin = self.width_ps * step as u64;
            let end = end_ps.min(begin.saturating_add(self.width_ps)).max(begin);
            let of_jobs = &self.jobs[step * count..(step + 1) * count];
            let point = |job: &usize| {
                let step = &of_jobs[*job];
                step.point(&self.counts[step.counts.0..step.counts.1])
            };
            Point {
                begin_ns: ns(begin),
                end_ns: ns(end),
                jobs: jobs.iter().map(point).collect(),
                drive: drive.map(|drive| drive.point(step, end - begin)),
            }
        });
        points.collect()
    }
}

/// Maximum number of steps if each has `each` records and there may be `most` in total: a power of two.
fn steps_max(each: usize, most: usize) -> usize {
    let steps = (most / each.max(1)).clamp(STEPS_MIN, STEPS_MAX);
    1 << steps.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    fn recorder(interval: Option<u64>) -> SeriesRecorder {
        let names = vec!["a".to_owned(), "b".to_owned()];
        SeriesRecorder::named(names, Time(7), interval.map(Picos))
    }

    /// I/Os of two jobs at irregular times over five seconds.
    fn busy(recorder: &mut SeriesRecorder) -> Series {
        let mut now = 7;
        for i in 0..20_000u64 {
            now += i * i % 977 * 500_000;
            let kind = if i % 5 == 0 { Kind::Write } else { Kind::Read };
            recorder.completed(Time(now), (i % 3 == 0).into(), kind, 4096, 50_000_000 + i * 7919 % 9_000_000);
        }
        recorder.finish(Time(now), Time(7), &mut []).series
    }

    // With a served drive there is no observer that ends steps: completions must end them, with the same
    // exactness.
    #[test]
    fn steps_end_by_themselves_where_nobody_ends_them() {
        let automatic = busy(&mut recorder(None));
        assert!((512..=1024).contains(&automatic.points.len()), "{}", automatic.points.len());
        let width_ps = (automatic.interval_ns * 1000.0) as u64;
        assert_eq!(width_ps % WIDTH_PS, 0);
        assert_eq!(automatic, busy(&mut recorder(Some(width_ps))));
        let ios = |of: fn(&JobPoint) -> u64| -> u64 {
            automatic.points.iter().flat_map(|point| &point.jobs).map(of).sum()
        };
        assert_eq!((ios(|job| job.read.ios), ios(|job| job.write.ios)), (16_000, 4000));
        assert!(automatic.points.iter().all(|point| point.drive.is_none()));
    }

    // A gap of months must not cost a step for each 10 us.
    #[test]
    fn a_long_gap_is_crossed_quickly() {
        let mut recorder = recorder(Some(1_000_000));
        recorder.completed(Time(8), 0, Kind::Read, 4096, 1);
        let late = Time(200 * 86_400 * 1000 * MS);
        recorder.completed(late, 1, Kind::Trim, 4096, 1);
        let Recorded { series, note, .. } = recorder.finish(late, Time(7), &mut []);
        assert!(series.points.len() <= 1025);
        assert_eq!(series.points[0].jobs[0].read.ios, 1);
        assert_eq!(series.points.last().map(|point| point.jobs[1].trim.ios), Some(1));
        assert!(note.is_some_and(|note| note.contains("measure.interval = 1 us")));
    }

    // A last step of zero width would cause a division by zero, and be missing from every chart.
    #[test]
    fn what_completes_at_the_very_end_is_in_the_last_step() {
        let mut recorder = recorder(Some(MS));
        recorder.completed(Time(7 + MS), 0, Kind::Read, 4096, 5);
        recorder.completed(Time(7 + 2 * MS), 0, Kind::Read, 4096, 9);
        let Recorded { series, note, .. } = recorder.finish(Time(7 + 2 * MS), Time(7), &mut []);
        let found: Vec<_> =
            series.points.iter().map(|point| (point.end_ns, point.jobs[0].read.ios)).collect();
        assert_eq!(found, [(1e6, 0), (2e6, 2)]);
        assert_eq!(series.points[1].jobs[0].max_ns, 0.009);
        assert_eq!(note, None);
    }

    // Without a limit, a drive of 65536 dies would need half a gigabyte for its charts.
    #[test]
    fn what_is_kept_is_bounded() {
        assert_eq!(steps_max(64 + 8, BUSY_MAX), 1024);
        assert_eq!(steps_max(5000, BUSY_MAX), 512);
        assert_eq!(steps_max(65536, BUSY_MAX), 64);
        assert_eq!(steps_max(0, JOBS_MAX), 1024);
    }
}
