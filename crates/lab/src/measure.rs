//! What a run measures: the jobs' latencies as they come, and every counter of link, drive and flash at the beginning
//! and at the end of the measured part.

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::scenario::Warmup;
use crate::summary::{JobRecorder, SeriesRecorder};
use crate::workload::Kind;
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
    pub jobs: RefCell<Vec<JobRecorder>>,
    /// Over time, if asked for.
    pub series: RefCell<Option<SeriesRecorder>>,
    /// Time by stage, over all measured I/Os.
    pub stages: RefCell<[u128; Stage::ALL.len()]>,
    /// Failed commands by what they failed with.
    pub errors: RefCell<BTreeMap<String, u64>>,
    /// Reads whose data was not what it must be.
    pub mismatches: Cell<u64>,
    /// The first of them.
    pub first_mismatch: RefCell<Option<String>>,
    /// Where measuring began; None while warming up.
    pub begin: RefCell<Option<Snapshot>>,
    /// The last completion, of all and of each job.
    pub last: Cell<Time>,
    /// Of each job.
    pub last_of_job: RefCell<Vec<Time>>,
    progress: RefCell<Progress>,
    interrupt: Interrupt,
    stopped: Cell<bool>,
    completed: Cell<u64>,
    warmup: Option<Warmup>,
    start: Time,
}

impl Meter {
    /// For a run of `jobs` jobs that starts at `start`.
    pub fn new(
        jobs: usize,
        start: Time,
        warmup: Option<Warmup>,
        series: Option<SeriesRecorder>,
        progress: Progress,
        interrupt: Interrupt,
    ) -> Self {
        Meter {
            jobs: RefCell::new((0..jobs).map(|_| JobRecorder::default()).collect()),
            series: RefCell::new(series),
            stages: RefCell::default(),
            errors: RefCell::default(),
            mismatches: Cell::default(),
            first_mismatch: RefCell::default(),
            begin: RefCell::default(),
            last: Cell::new(start),
            last_of_job: RefCell::new(vec![start; jobs]),
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
        if self.begin.borrow().is_none() {
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
        if let Some(series) = &mut *self.series.borrow_mut() {
            series.record(now.since(self.start).0, bytes, latency.0);
        }
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

    /// Whether warming up is over and measuring has not begun: the caller then takes a snapshot.
    pub fn is_due(&self, now: Time) -> bool {
        self.begin.borrow().is_none()
            && match self.warmup {
                None => true,
                Some(Warmup::Ios(count)) => self.completed.get() >= count,
                Some(Warmup::Time(time)) => now.since(self.start).0 >= time.0,
            }
    }

    /// Gives the progress bar back.
    pub fn into_progress(self) -> Progress {
        self.progress.into_inner()
    }
}
