//! Measurements of a run: latencies of the jobs, over time and over the whole measured part, and in a
//! simulation every counter of link, drive and flash.
//!
//! | file | what |
//! |---|---|
//! | this one | [`Meter`]: receives each I/O from the jobs |
//! | `completed.rs` | [`Completed`]: an I/O as jobs report it |
//! | `recorder.rs` | [`JobRecorder`]: latencies over the whole measured part, and their distribution |
//! | `verbs.rs` | [`VerbRecorder`]: the same for key-value operations, by verb |
//! | `queries.rs` | [`QueryRecorder`]: the same for queries, by executor |
//! | `lone.rs` | the I/O that waited out of all proportion |
//! | `series.rs` | [`SeriesRecorder`]: time series, in steps |
//! | `tally.rs` | the latency histogram of a step |
//! | `snapshot.rs` | [`Snapshot`]: every counter at one instant; [`MeasuredDrive`]: a drive between two of them |
//! | `sample.rs` | [`Sample`]: what a step of a series takes of a drive |
//! | `store.rs` | the work of key-value stores between two snapshots |
//! | `ios.rs` | [`IoRecorder`]: `ios.parquet`, a row for each I/O, written during the run |
//! | [`host`] | usage of the host's processors and memory, by component |
//! | `upkeep.rs` | background work of drives |
//! | `wear.rs` | wear of the flash |
//! | [`summary`] | the summary of a run: `summary.json`, tables |
//! | [`figures`] | the figures by which runs are compared: [`figures::Figures`] |
//! | `metric.rs` | [`figures::Metric`]: their names and units |
//! | [`cost`] | purchase and running costs of drives ("Espresso", 2.2, 5.2, Table 2) |
//! | [`interval`] | the 95 % interval of a mean, by Student's t |
//! | [`replicates`] | one scenario with several seeds: the seeds, and the means |
//! | `run_result.rs` | [`RunResult`]: what a comparison stores of a run |
//! | [`results`] | the summary with time series, distributions and wear; `results.parquet`, `latency.parquet` |
//! | [`timeline`] | `spans.json`: every I/O and every use of a resource as tracks over time |
//! | `columns.rs` | the common part of the Parquet files |
//! | [`output`] | the output directory, and standard output |
//!
//! Latencies of 100 reads in 10 ms, from 1 us to 100 us:
//!
//! ```
//! use byteway_results::JobRecorder;
//! use byteway_workload::Kind;
//!
//! let mut recorder = JobRecorder::default();
//! (1..=100).for_each(|us| recorder.record(Kind::Read, 4096, us * 1_000_000));
//! let job = recorder.finish("reads", 10_000_000_000);
//! assert_eq!((job.ios, job.bytes, job.iops), (100, 409_600, 10_000.0));
//!
//! let latency = job.read.expect("there were reads").latency;
//! assert_eq!((latency.min_ns, latency.max_ns), (1_000.0, 100_000.0));
//! // Percentiles come from a histogram, whose buckets have a width.
//! assert!((50_000..50_100).contains(&latency.p50_ns), "{}", latency.p50_ns);
//! ```
//!
//! What it does not do: it runs nothing, and draws nothing.

pub mod columns;
mod completed;
pub mod cost;
pub mod figures;
pub mod host;
pub mod interval;
mod ios;
mod lone;
mod metric;
pub mod output;
mod queries;
mod recorder;
pub mod replicates;
pub mod results;
mod run_result;
mod sample;
mod series;
mod snapshot;
mod store;
pub mod summary;
mod tally;
pub mod timeline;
mod upkeep;
mod verbs;
mod wear;

pub use completed::Completed;
pub use ios::IoRecorder;
pub use queries::{Queried, QueryRecorder};
pub use recorder::JobRecorder;
pub use run_result::RunResult;
pub use sample::{Sample, SampledDrive};
pub use series::{Recorded, SeriesRecorder};
pub use snapshot::{MeasuredDrive, Parts, Snapshot};
pub use store::store;
pub use upkeep::upkeep;
pub use verbs::{Operated, VerbRecorder};
pub use wear::wear;

use crate::results::Distribution;
use crate::summary::{
    ClockKind, ErrorRow, JobSummary, KvSummary, SpanRow, Summary, Verification, WaitRow, span_rows, wait_rows,
};
use byteway_clock::{Awaited, Delay, SpanRecord, Stage, Time};
use byteway_scenario::Warmup;
use byteway_scenario::profile::Completion;
use byteway_text::interrupt::Interrupt;
use byteway_text::number::{ns, ratio};
use byteway_text::progress::Progress;
use byteway_text::table::grouped;
use byteway_workload::JobPlan;
use byteway_workload::kv::Verb;
use byteway_workload::query::QueryPlace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The part of a run that figures cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPart {
    /// All jobs.
    Whole,
    /// The jobs on one drive.
    Drive(usize),
}

impl RunPart {
    /// Whether it includes the job.
    pub fn has(self, job: &JobPlan) -> bool {
        match self {
            RunPart::Whole => true,
            RunPart::Drive(drive) => job.drive == drive,
        }
    }
}

/// In notes of runs, or of parts of them, whose figures are of nothing.
pub const NOTHING_MEASURED: &str = "nothing was measured";

/// The meter that all jobs of a run share.
pub struct Meter {
    /// Meters by job.
    jobs: RefCell<Vec<JobMeter>>,
    series: Rc<RefCell<SeriesRecorder>>,
    ios: RefCell<Option<IoRecorder>>,
    /// Number of I/Os begun.
    begun: Cell<u64>,
    /// Start of measuring; `None` during warm-up.
    begin: Cell<Option<Time>>,
    progress: RefCell<Progress>,
    interrupt: Interrupt,
    stopped: Cell<bool>,
    completed: Cell<u64>,
    warmup: Option<Warmup>,
    start: Time,
}

/// The recorders of a job.
struct JobMeter {
    /// Index of its drive.
    drive: usize,
    latencies: JobRecorder,
    /// Recorder of key-value operations.
    verbs: VerbRecorder,
    /// Recorder of queries.
    queries: QueryRecorder,
    /// Time of its measured I/Os by stage.
    stages: StageSums,
    /// The I/O that waited longest for what should be short.
    lone: lone::Watch,
    /// Failures of the job.
    faults: JobFaults,
    /// Time of its last completion.
    last: Time,
    /// Time from which its figures count: its start and ramp. `None` until its phase begins.
    begin: Option<Time>,
}

/// Time by stage, over I/Os whose stages are known; those of a scan's many commands are not.
#[derive(Clone, Copy, Default)]
struct StageSums {
    times_ps: [u128; Stage::ALL.len()],
    /// Of that in queues, by what was waited for.
    waits_ps: [u128; Awaited::ALL.len()],
    followed: u64,
    /// What is not in the sums yet, in words that a processor adds several of at once; and how much of it there is at most.
    recent: SpanRecord,
    recent_ps: u64,
}

impl StageSums {
    /// Adds an I/O that waited for `late` before it could begin.
    #[inline]
    fn add(&mut self, record: &SpanRecord, late: Delay) {
        self.followed += 1;
        // No word of it is larger than the sum of its stages, since that of queues is the sum of the waits.
        let most = record.stages.iter().fold(late, |sum, stage| sum + *stage);
        self.recent_ps = match self.recent_ps.checked_add(most.0) {
            Some(sum) => sum,
            None => {
                self.settle();
                most.0
            }
        };
        let SpanRecord { stages, waits, .. } = &mut self.recent;
        stages.iter_mut().zip(&record.stages).for_each(|(sum, time)| sum.0 = sum.0.wrapping_add(time.0));
        waits.iter_mut().zip(&record.waits).for_each(|(sum, time)| sum.0 = sum.0.wrapping_add(time.0));
        stages[Stage::Queueing as usize].0 += late.0;
        waits[Awaited::Depth as usize].0 += late.0;
    }

    /// Moves what is recent to the sums.
    fn settle(&mut self) {
        let SpanRecord { stages, waits, .. } = std::mem::take(&mut self.recent);
        self.times_ps.iter_mut().zip(stages).for_each(|(sum, time)| *sum += u128::from(time.0));
        self.waits_ps.iter_mut().zip(waits).for_each(|(sum, time)| *sum += u128::from(time.0));
        self.recent_ps = 0;
    }

    /// The same with everything in the sums.
    fn settled(mut self) -> StageSums {
        self.settle();
        self
    }
}

impl JobMeter {
    /// Whether a completion at `at` counts, if warm-up is over.
    #[inline]
    fn counts(&self, at: Time) -> bool {
        self.begin.is_some_and(|begin| begin <= at)
    }
}

/// Failed commands and mismatched reads of a job.
#[derive(Default)]
struct JobFaults {
    /// Number of failures by error.
    errors: BTreeMap<String, u64>,
    mismatches: u64,
    /// The first mismatch of the job, and its sequence number over all jobs.
    first_mismatch: Option<(u64, String)>,
}

impl Meter {
    /// A meter for a run of `jobs` that starts at `start`.
    pub fn new(
        jobs: &[JobPlan],
        start: Time,
        series: SeriesRecorder,
        warmup: Option<Warmup>,
        progress: Progress,
        interrupt: Interrupt,
    ) -> Self {
        let first_of = |job: &JobPlan| {
            let lead = job.start_delay.0.saturating_add(job.ramp.0);
            (job.phase == 0).then(|| Time(start.0.saturating_add(lead)))
        };
        let job_meter = |job: &JobPlan| JobMeter {
            drive: job.drive,
            latencies: JobRecorder::default(),
            verbs: VerbRecorder::default(),
            queries: QueryRecorder::default(),
            stages: StageSums::default(),
            lone: lone::Watch::default(),
            faults: JobFaults::default(),
            last: start,
            begin: first_of(job),
        };
        Meter {
            jobs: RefCell::new(jobs.iter().map(job_meter).collect()),
            series: Rc::new(RefCell::new(series)),
            ios: RefCell::default(),
            begun: Cell::default(),
            begin: Cell::default(),
            progress: RefCell::new(progress),
            interrupt,
            stopped: Cell::default(),
            completed: Cell::default(),
            warmup,
            start,
        }
    }

    /// Whether a command may still be issued. False after Ctrl-C.
    pub fn goes_on(&self) -> bool {
        if self.interrupt.is_raised() {
            self.stopped.set(true);
        }
        !self.stopped.get()
    }

    /// Stops issuing commands, because the run has failed.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether the run was cut short.
    pub fn was_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Also records every measured I/O with `recorder`.
    pub fn record_ios(&self, recorder: IoRecorder) {
        self.ios.replace(Some(recorder));
    }

    /// Takes the recorder of [`Meter::record_ios`].
    pub fn take_ios(&self) -> Option<IoRecorder> {
        self.ios.take()
    }

    /// The recorder of time series, for the observer that ends their steps.
    pub fn series_recorder(&self) -> Rc<RefCell<SeriesRecorder>> {
        self.series.clone()
    }

    /// The sequence number of an I/O that begins.
    pub fn number(&self) -> u64 {
        self.begun.replace(self.begun.get() + 1)
    }

    /// Counts a completed command, if warm-up is over.
    pub fn completed(&self, completed: &Completed<'_>) {
        let Completed { job, bytes, record, .. } = completed;
        let (now, kind, latency) = (record.last, completed.io.kind, completed.latency());
        self.count(now);
        self.series.borrow_mut().completed(now, *job, kind, *bytes, latency.0);
        let job = &mut self.jobs.borrow_mut()[*job];
        if self.begin.get().is_none() || !job.counts(now) {
            return;
        }
        job.last = now;
        job.latencies.record(kind, *bytes, latency.0);
        job.lone.look(completed, latency);
        if let Some(ios) = &mut *self.ios.borrow_mut() {
            ios.record(self.start, completed);
        }
        if let Some(operated) = completed.operated {
            job.verbs.record(operated, *bytes, latency.0);
            if operated.verb == Verb::Scan {
                return;
            }
        }
        if let Some(queried) = completed.queried {
            job.queries.record(queried, latency.0);
            // The stages of several concurrent reads are not known.
            if queried.place == QueryPlace::Host {
                return;
            }
        }
        job.stages.add(record, completed.late());
    }

    /// Counts an I/O that was split into `commands` commands.
    pub fn split(&self, job: usize, at: Time, commands: u32) {
        if self.counts(job, at) {
            self.jobs.borrow_mut()[job].latencies.split(commands);
        }
    }

    /// Sets the time from which a job's figures count, if warm-up is over then.
    pub fn job_begins(&self, job: usize, at: Time) {
        self.jobs.borrow_mut()[job].begin = Some(at);
    }

    /// Whether a completion at `at` by any job on a drive counts.
    pub fn counts_on(&self, drive: usize, at: Time) -> bool {
        let is_own = |job: &JobMeter| job.drive == drive && job.counts(at);
        self.begin.get().is_some() && self.jobs.borrow().iter().any(is_own)
    }

    /// Whether a completion at `at` by a job counts: warm-up and its own ramp are over.
    pub fn counts(&self, job: usize, at: Time) -> bool {
        self.begin.get().is_some() && self.jobs.borrow()[job].counts(at)
    }

    /// Counts a failed command of a job.
    pub fn failed(&self, job: usize, now: Time, error: String) {
        self.count(now);
        *self.jobs.borrow_mut()[job].faults.errors.entry(error).or_default() += 1;
    }

    /// Counts a mismatched read of a job.
    pub fn mismatched(&self, job: usize, now: Time, text: String) {
        self.count(now);
        let faults = &mut self.jobs.borrow_mut()[job].faults;
        faults.mismatches += 1;
        faults.first_mismatch.get_or_insert((self.completed.get(), text));
    }

    fn count(&self, now: Time) {
        self.completed.set(self.completed.get() + 1);
        self.progress.borrow_mut().update(self.completed.get(), now.0);
    }

    /// Starts measuring if warm-up and the ramp of some job are over; returns whether it has just started.
    pub fn begin_if_due(&self, now: Time) -> bool {
        let due = self.begin.get().is_none()
            && self.jobs.borrow().iter().any(|job| job.counts(now))
            && match self.warmup {
                None => true,
                Some(Warmup::Ios(count)) => self.completed.get() >= count,
                Some(Warmup::Time(time)) => now.since(self.start).0 >= time.0,
            };
        if due {
            self.begin.set(Some(now));
        }
        due
    }

    /// Takes the progress bar.
    pub fn take_progress(&self) -> Progress {
        self.progress.replace(Progress::hidden())
    }

    /// Mean time of an I/O of `part` by stage, and by what it waited for, over the I/Os whose stages are known.
    pub fn spans(&self, plans: &[JobPlan], part: RunPart) -> (Vec<SpanRow>, Vec<WaitRow>) {
        let jobs = self.jobs.borrow();
        let mut all = StageSums::default();
        for (job, _) in jobs.iter().zip(plans).filter(|(_, plan)| part.has(plan)) {
            let StageSums { times_ps, waits_ps, followed, .. } = &job.stages.settled();
            all.followed += followed;
            all.times_ps.iter_mut().zip(times_ps).for_each(|(sum, of_job)| *sum += of_job);
            all.waits_ps.iter_mut().zip(waits_ps).for_each(|(sum, of_job)| *sum += of_job);
        }
        let total = |stage: &Stage| (stage.name(), all.times_ps[*stage as usize]);
        let passed = |stage: &&Stage| !stage.is_remote() || all.times_ps[**stage as usize] > 0;
        let totals: Vec<_> = Stage::ALL.iter().filter(passed).map(total).collect();
        let waits = Awaited::ALL.map(|wait| (wait.name(), all.waits_ps[wait as usize]));
        (span_rows(&totals, all.followed), wait_rows(&waits, all.times_ps.iter().sum(), all.followed))
    }

    /// Notes on I/Os of `part`, whose jobs these are, that waited out of all proportion.
    pub fn lone_notes(&self, plans: &[JobPlan], part: RunPart, jobs: &[JobSummary]) -> Vec<String> {
        let meters = self.jobs.borrow();
        let own = meters.iter().zip(plans).filter(|(_, plan)| part.has(plan));
        own.zip(jobs).filter_map(|((meter, _), summary)| meter.lone.note(summary)).collect()
    }

    /// The time series up to `now`. `drives` are the drives' counters.
    pub fn series(&self, now: Time, drives: &mut [Sample]) -> Recorded {
        let measured_from = self.begin.get().unwrap_or(now);
        self.series.borrow_mut().finish(now, measured_from, drives)
    }

    /// Latency distributions of the measured part.
    pub fn distributions(&self, plans: &[JobPlan]) -> Vec<Distribution> {
        let jobs = self.jobs.borrow();
        jobs.iter().zip(plans).flat_map(|(job, plan)| job.latencies.distributions(&plan.name)).collect()
    }

    /// The summary as known on the host's side, over the measured part of the jobs in `part`. Names, and
    /// figures that only the drive's side knows, are left empty.
    pub fn summary(&self, plans: &[JobPlan], part: RunPart, verify: bool, now: Time) -> Summary {
        let mut notes = Vec::new();
        let begin = self.begin.get().unwrap_or_else(|| {
            notes.push(format!("the run ended during the warm-up: {NOTHING_MEASURED}"));
            now
        });
        let meters = self.jobs.borrow();
        let own: Vec<usize> = (0..plans.len()).filter(|job| part.has(&plans[*job])).collect();
        let last = own.iter().map(|job| meters[*job].last).max().unwrap_or(begin);
        // The drive is idle until its first job begins; that time does not belong to its jobs.
        let first = own.iter().filter_map(|job| meters[*job].begin).min().map_or(begin, |own| own.max(begin));
        let elapsed_ps = last.since(first).0;
        // A job that ends before the others is measured over its own time.
        let elapsed_of = |job: usize| {
            let begin = meters[job].begin.map_or(begin, |own| own.max(begin));
            meters[job].last.since(begin).0
        };
        let operations =
            own.iter().flat_map(|job| meters[*job].verbs.finish(&plans[*job].name, elapsed_of(*job)));
        let has_verbs = own.iter().any(|job| plans[*job].has_verbs());
        let kv = has_verbs.then(|| KvSummary { operations: operations.collect(), ..KvSummary::default() });
        let queries =
            own.iter().flat_map(|job| meters[*job].queries.finish(&plans[*job].name, elapsed_of(*job)));
        let queries = queries.collect();
        let jobs: Vec<_> = own
            .iter()
            .map(|job| meters[*job].latencies.finish(&plans[*job].name, elapsed_of(*job)))
            .collect();
        notes.extend(jobs.iter().filter_map(|job| {
            let split = job.split?;
            Some(format!(
                "job {}: {} I/Os exceeded the maximum data transfer size (controller.mdts) and were split, as Linux does, into {} \
                 commands; each counts as one I/O",
                job.name,
                grouped(split.ios),
                grouped(split.commands)
            ))
        }));
        let ios = jobs.iter().map(|job| job.ios).sum::<u64>();
        let has_begun = self.begin.get().is_some() && !own.is_empty();
        let has_failed = own.iter().any(|job| !meters[*job].faults.errors.is_empty());
        if has_begun && ios == 0 && !has_failed && self.completed.get() > 0 {
            notes.push(format!(
                "no I/O ended after the warm-up: {NOTHING_MEASURED}; choose a longer run, or a shorter warm-up or `ramp_time`"
            ));
        }
        let bytes = jobs.iter().map(|job| u128::from(job.bytes)).sum::<u128>();
        let per_second = |count: u128| ratio(count * 1_000_000_000_000, elapsed_ps.into());
        let first_mismatch = own.iter().filter_map(|job| meters[*job].faults.first_mismatch.as_ref()).min();
        if let Some((_, first)) = first_mismatch {
            notes.push(format!("DATA DID NOT VERIFY: {first}"));
        }
        let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
        for (status, count) in own.iter().flat_map(|job| &meters[*job].faults.errors) {
            *errors.entry(status).or_default() += count;
        }
        let mismatches = own.iter().map(|job| meters[*job].faults.mismatches).sum::<u64>();
        let verified =
            own.iter().filter(|job| plans[**job].verify.is_on()).map(|job| meters[*job].latencies.reads());
        Summary {
            byteway: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: String::new(),
            drive: None,
            seed: 0,
            partial: self.was_stopped(),
            drive_profile: None,
            drive_model: String::new(),
            capacity_bytes: 0,
            host_profile: None,
            completion: Completion::Polled,
            clock: ClockKind::Virtual,
            elapsed_ns: ns(elapsed_ps),
            ios,
            iops: per_second(ios.into()),
            bytes_per_second: per_second(bytes),
            jobs,
            spans: Vec::new(),
            waits: Vec::new(),
            link: Vec::new(),
            transfer: None,
            array: None,
            jbof: None,
            host: None,
            network: None,
            paths: Vec::new(),
            utilisation: Vec::new(),
            flash: None,
            write_amplification: None,
            upkeep: None,
            kv,
            queries,
            policies: Vec::new(),
            verification: Verification { on: verify, reads: verified.sum::<u64>() + mismatches, mismatches },
            errors: errors
                .into_iter()
                .map(|(status, count)| ErrorRow { status: status.to_owned(), count })
                .collect(),
            notes,
            drives: Vec::new(),
            replicates: None,
            batch_means: Vec::new(),
        }
    }
}
