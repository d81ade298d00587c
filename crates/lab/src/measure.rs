//! What a run measures: the jobs' latencies as they come, and in a simulation every counter of link, drive and flash at
//! the beginning and at the end of the measured part.

use crate::interrupt::Interrupt;
use crate::profile::Completion;
use crate::progress::Progress;
use crate::scenario::Warmup;
use crate::summary::{
    ClockKind, ErrorRow, JobRecorder, SpanRow, Summary, Verification, ns, ratio, span_rows,
};
use crate::workload::{JobPlan, Kind};
use byteway_clock::{Clock, Delay, SpanRecord, Stage, Time};
use byteway_device::Drive;
use byteway_firmware::FtlCounters;
use byteway_flash::Counters as FlashCounters;
use byteway_link::{HostEnd, Ledger};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Every counter at one instant.
pub struct Snapshot {
    /// When.
    pub at: Time,
    /// What has crossed the link.
    pub ledger: Ledger,
    /// What the translation layer has done.
    pub ftl: FtlCounters,
    /// What flash has done.
    pub flash: FlashCounters,
    /// How long each die has been busy.
    pub dies: Vec<Delay>,
    /// Each channel.
    pub channels: Vec<Delay>,
    /// All cores together.
    pub cores: Delay,
    /// The link: down, up.
    pub link: (Delay, Delay),
}

impl Snapshot {
    /// Takes one.
    pub fn take(clock: &Clock, host: &HostEnd, drive: &Drive) -> Self {
        let ftl = drive.controller.ftl();
        let flash = ftl.flash();
        let geometry = *flash.geometry();
        Snapshot {
            at: clock.now(),
            ledger: host.ledger().snapshot(),
            ftl: ftl.counters(),
            flash: flash.counters(),
            dies: (0..geometry.dies()).map(|die| flash.die_busy(die)).collect(),
            channels: (0..geometry.channels).map(|channel| flash.channel_busy(channel)).collect(),
            cores: drive.site.busy(),
            link: host.busy(),
        }
    }
}

/// Shared by the jobs of a run.
pub struct Meter {
    /// Of each job.
    jobs: RefCell<Vec<JobRecorder>>,
    /// Time by stage, over all measured I/Os.
    stages: RefCell<[u128; Stage::ALL.len()]>,
    /// Failed commands by what they failed with.
    errors: RefCell<BTreeMap<String, u64>>,
    /// Reads whose data was not what it must be.
    mismatches: Cell<u64>,
    /// The first of them.
    first_mismatch: RefCell<Option<String>>,
    /// When measuring began; None while warming up.
    begin: Cell<Option<Time>>,
    /// The last completion, of all and of each job.
    last: Cell<Time>,
    last_of_job: RefCell<Vec<Time>>,
    progress: RefCell<Progress>,
    interrupt: Interrupt,
    stopped: Cell<bool>,
    completed: Cell<u64>,
    warmup: Option<Warmup>,
    start: Time,
}

impl Meter {
    /// For a run of `jobs` that starts at `start`.
    pub fn new(
        jobs: &[JobPlan],
        start: Time,
        warmup: Option<Warmup>,
        progress: Progress,
        interrupt: Interrupt,
    ) -> Self {
        let recorders = jobs.iter().map(|_| JobRecorder::default()).collect();
        Meter {
            jobs: RefCell::new(recorders),
            stages: RefCell::default(),
            errors: RefCell::default(),
            mismatches: Cell::default(),
            first_mismatch: RefCell::default(),
            begin: Cell::default(),
            last: Cell::new(start),
            last_of_job: RefCell::new(vec![start; jobs.len()]),
            progress: RefCell::new(progress),
            interrupt,
            stopped: Cell::default(),
            completed: Cell::default(),
            warmup,
            start,
        }
    }

    /// Whether a command that would be issued now still should be. False after Ctrl-C.
    pub fn goes_on(&self) -> bool {
        if self.interrupt.is_raised() {
            self.stopped.set(true);
        }
        !self.stopped.get()
    }

    /// Nothing is issued any more: the run has failed.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether the run was cut short.
    pub fn was_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// A command has ended; its measuring, if warming up is over. `latency` begins where the I/O was due.
    pub fn completed(&self, job: usize, kind: Kind, bytes: u64, latency: Delay, record: &SpanRecord) {
        let now = record.last;
        self.count(now);
        if self.begin.get().is_none() {
            return;
        }
        self.last.set(now);
        self.last_of_job.borrow_mut()[job] = now;
        self.jobs.borrow_mut()[job].record(kind, bytes, latency.0);
        let mut stages = self.stages.borrow_mut();
        for (sum, stage) in stages.iter_mut().zip(&record.stages) {
            *sum += u128::from(stage.0);
        }
        // What an open loop's I/O waited before it could begin.
        stages[Stage::Queueing as usize] += u128::from(latency.0.saturating_sub(now.since(record.begin).0));
    }

    /// A command has failed.
    pub fn failed(&self, now: Time, error: String) {
        self.count(now);
        *self.errors.borrow_mut().entry(error).or_default() += 1;
    }

    /// A read gave what it must not.
    pub fn mismatched(&self, now: Time, text: String) {
        self.count(now);
        self.mismatches.set(self.mismatches.get() + 1);
        self.first_mismatch.borrow_mut().get_or_insert(text);
    }

    fn count(&self, now: Time) {
        self.completed.set(self.completed.get() + 1);
        self.progress.borrow_mut().update(self.completed.get(), now.0);
    }

    /// Begins to measure if warming up is over; says whether it has begun just now.
    pub fn begin_if_due(&self, now: Time) -> bool {
        let due = self.begin.get().is_none()
            && match self.warmup {
                None => true,
                Some(Warmup::Ios(count)) => self.completed.get() >= count,
                Some(Warmup::Time(time)) => now.since(self.start).0 >= time.0,
            };
        if due {
            self.begin.set(Some(now));
            self.last.set(now);
        }
        due
    }

    /// Gives the progress bar back.
    pub fn take_progress(&self) -> Progress {
        self.progress.replace(Progress::hidden())
    }

    /// Where the time of `ios` I/Os went.
    pub fn spans(&self, ios: u64) -> Vec<SpanRow> {
        let stages = self.stages.borrow();
        let totals: Vec<_> = Stage::ALL.iter().map(|stage| (stage.name(), stages[*stage as usize])).collect();
        span_rows(&totals, ios)
    }

    /// What this side of the queues found, over the jobs' measured part. What only the drive's side knows is left
    /// empty, and so are the names.
    pub fn summary(&self, plans: &[JobPlan], verify: bool, now: Time) -> Summary {
        let mut notes = Vec::new();
        let begin = self.begin.get().unwrap_or_else(|| {
            notes.push("the run ended while it was warming up: nothing was measured".to_owned());
            now
        });
        let elapsed_ps = self.last.get().since(begin).0;
        let recorders = self.jobs.borrow();
        let last_of_job = self.last_of_job.borrow();
        // A job that ends before the others is measured over its own time.
        let jobs = recorders.iter().zip(&*last_of_job).zip(plans);
        let jobs: Vec<_> =
            jobs.map(|((recorder, last), plan)| recorder.finish(&plan.name, last.since(begin).0)).collect();
        let ios = jobs.iter().map(|job| job.ios).sum::<u64>();
        let bytes = jobs.iter().map(|job| u128::from(job.bytes)).sum::<u128>();
        let per_second = |count: u128| ratio(count * 1_000_000_000_000, elapsed_ps.into());
        if let Some(first) = self.first_mismatch.take() {
            notes.push(format!("DATA DID NOT VERIFY: {first}"));
        }
        let errors = self.errors.borrow();
        Summary {
            byteway: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: String::new(),
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
            link: Vec::new(),
            utilisation: Vec::new(),
            flash: None,
            write_amplification: None,
            verification: Verification {
                on: verify,
                reads: recorders.iter().map(JobRecorder::reads).sum(),
                mismatches: self.mismatches.get(),
            },
            errors: errors
                .iter()
                .map(|(status, count)| ErrorRow { status: status.clone(), count: *count })
                .collect(),
            notes,
        }
    }
}
