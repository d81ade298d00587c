//! Execution of jobs: workers on a driver's queues, with each I/O measured and verified, until the jobs end. The code is the same for a
//! simulated drive and a served one.

mod blocks;
mod ios;
mod pairs;
mod payloads;
mod queries;
mod tree;
mod worker_options;

use crate::error::{NamespaceKind, RunError};
use blocks::Blocks;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Counters, Delay, Notify, SpanRecord, SpanTrail, Station, Time};
use byteway_content::BlockSize;
use byteway_host::{BaseState, Oracle};
use byteway_host::{
    ClientErrorKind, Completion, Counts, IoError, LossFigures, LossWindow, QueuePair, SinkOracle,
};
use byteway_host::{Driver, QueueConfig};
use byteway_results::timeline::{Ended, Queue, Timeline};
use byteway_results::{Completed, Meter, RunPart};
use byteway_scenario::RUNTIME_MAX;
use byteway_text::error::InputError;
use byteway_text::units::Picos;
use byteway_wire::nvme::QueuePriority;
use byteway_workload::{Generator, Io, Issue, JobPlan, Kind, Priority, Source, Think};
use ios::{Ios, Performed};
use pairs::Pairs;
use payloads::Payloads;
use queries::Queries;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

pub use payloads::Sink;
use worker_options::Entries;
pub use worker_options::WorkerOptions;

/// Expected content of each block, by namespace.
pub type Oracles = BTreeMap<u32, Rc<RefCell<Oracle>>>;

/// Oracles for the driver's namespaces. `base` gives the initial content from the tag of its patterns.
pub fn oracles(driver: &Driver, base: impl Fn(u16) -> BaseState) -> Oracles {
    let mut oracles = Oracles::new();
    for namespace in driver.namespaces().iter() {
        // If a job uses a namespace with an unsupported format, its client reports it.
        let Some(block) = BlockSize::from_bytes(namespace.block_bytes.into()) else { continue };
        let tag = namespace.nsid as u16;
        let oracle = Oracle::new(namespace.blocks, block, tag, base(tag));
        oracles.insert(namespace.nsid, Rc::new(RefCell::new(oracle)));
    }
    oracles
}

/// A worker's access to a drive.
enum Access {
    Blocks(Blocks),
    Payloads(Payloads),
    Pairs(Box<Pairs>),
    Queries(Box<Queries>),
}

impl Access {
    fn queue(&self) -> &QueuePair {
        match self {
            Access::Blocks(blocks) => blocks.queue(),
            Access::Payloads(payloads) => payloads.queue(),
            Access::Pairs(pairs) => pairs.queue(),
            Access::Queries(queries) => queries.queue(),
        }
    }

    fn counts(&self) -> Counts {
        match self {
            Access::Blocks(blocks) => blocks.counts(),
            Access::Payloads(payloads) => payloads.counts(),
            Access::Pairs(pairs) => pairs.counts(),
            Access::Queries(queries) => queries.counts(),
        }
    }

    /// The error that ended the trace early, if any.
    fn error(&self) -> Option<InputError> {
        match self {
            Access::Blocks(blocks) => blocks.generator().borrow().error().cloned(),
            Access::Payloads(payloads) => payloads.generator().borrow().error().cloned(),
            Access::Pairs(pairs) => pairs.generator.borrow().error().cloned(),
            Access::Queries(_) => None,
        }
    }

    /// Acknowledged key-value pairs that the drive does not have yet, if the job batches stores.
    fn window(&self) -> Option<&RefCell<LossWindow>> {
        match self {
            Access::Blocks(_) | Access::Payloads(_) | Access::Queries(_) => None,
            Access::Pairs(pairs) => pairs.window(),
        }
    }

    /// The oracle of a sink's bytes, for a worker that reads them.
    fn sink_oracle(&self) -> Option<&Rc<RefCell<SinkOracle>>> {
        match self {
            Access::Payloads(payloads) => payloads.oracle(),
            Access::Blocks(_) | Access::Pairs(_) | Access::Queries(_) => None,
        }
    }
}

/// A worker: a queue pair and a source of I/Os.
pub struct Worker {
    job: usize,
    /// Number among all workers, from 0, and among those of its job.
    number: u32,
    of_job: u32,
    plan: JobPlan,
    access: Access,
    /// The processor on which it runs, possibly shared.
    cpu: Rc<Station>,
    start: Cell<Time>,
    /// I/Os of an open loop that were due while `iodepth` others were outstanding.
    late: Cell<u64>,
    /// Holds its I/Os during a pause.
    gate: Gate,
    /// Holds its I/Os during a flush.
    flush_gate: Gate,
    /// Flushes, and the time that they took together.
    flushes: Cell<(u64, Delay)>,
    /// Whether differences found before the measurement were reported.
    told: Cell<bool>,
}

/// Admits a number of I/Os between two pauses, or of writes between two flushes.
struct Gate {
    /// Those issued since the last pause.
    issued: Cell<u32>,
    outstanding: Cell<u32>,
    open: Notify,
}

impl Worker {
    /// Number among all workers, from 0, in the order of the jobs.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Queue pair of the worker.
    pub fn queue(&self) -> &QueuePair {
        self.access.queue()
    }

    /// Waits while the worker pauses or flushes, or has issued all I/Os before it next does.
    async fn pass(&self) {
        loop {
            if let Some(think) = self.plan.think.filter(|think| self.gate.is_closed(think.blocks)) {
                while self.gate.is_closed(think.blocks) {
                    self.gate.open.notified().await;
                }
            } else if let Some(writes) = self.plan.flush_after.filter(|most| self.flush_gate.is_closed(*most))
            {
                while self.flush_gate.is_closed(writes) {
                    self.flush_gate.open.notified().await;
                }
            } else {
                return;
            }
        }
    }

    fn enter(&self, kind: Kind) {
        if self.plan.think.is_some() {
            self.gate.enter(true);
        }
        if self.plan.flush_after.is_some() {
            self.flush_gate.enter(kind == Kind::Write);
        }
    }

    /// Lets tasks that wait at a gate notice the end.
    fn reopen(&self) {
        self.gate.reopen();
        self.flush_gate.reopen();
    }

    /// Whether the caller is the first to report differences found before the measurement.
    fn claims_first_answers(&self) -> bool {
        !self.told.replace(true)
    }
}

impl Gate {
    fn new(clock: &Clock) -> Gate {
        Gate { issued: Cell::default(), outstanding: Cell::default(), open: Notify::new(clock) }
    }

    /// Whether the worker pauses, or has issued all of the `most` before its next pause.
    fn is_closed(&self, most: u32) -> bool {
        self.issued.get() >= most
    }

    /// An I/O is issued, which may be one of those that are numbered.
    fn enter(&self, is_numbered: bool) {
        self.issued.set(self.issued.get().saturating_add(u32::from(is_numbered)));
        self.outstanding.set(self.outstanding.get() + 1);
    }

    /// An I/O has completed. Whether it was the last one before a pause.
    fn leave(&self, most: u32) -> bool {
        self.outstanding.set(self.outstanding.get() - 1);
        self.is_closed(most) && self.outstanding.get() == 0
    }

    fn reopen(&self) {
        self.issued.set(0);
        self.open.notify_all();
    }
}

/// Creates queue pairs and generators of all workers on the driver's drive. Reads are verified in namespaces that have an oracle.
///
/// # Errors
/// An unknown namespace, or one with an unsupported format.
pub async fn workers(
    driver: &Driver,
    jobs: &[JobPlan],
    worker_options: &WorkerOptions,
    oracles: &Oracles,
) -> Result<Vec<Rc<Worker>>, RunError> {
    let is_own = |job: &&JobPlan| {
        job.drive == worker_options.drive && job.at_target == worker_options.shared.is_some()
    };
    // In a JBOF one queue pair is for commands of peers.
    let of_peers = u16::from(worker_options.jbof.is_some());
    let most = usize::from(driver.queues_granted().saturating_sub(of_peers).max(1));
    let namespaces = driver.namespaces();
    let pairs = pairs::Common::new(jobs, worker_options.drive, driver.transfer_bytes_max());
    let tables = queries::Common::default();
    let rng = Rng::new(worker_options.seed);
    let payload_bytes_max =
        |plan: &JobPlan| pairs::plan_of(plan).map_or_else(|| plan.payload_bytes_max(), |_| pairs.bytes_max());
    let needs: Vec<Entries> = jobs
        .iter()
        .filter(is_own)
        .flat_map(|plan| {
            let entries = worker_options.entries(plan, payload_bytes_max(plan));
            (0..plan.workers).map(move |_| entries)
        })
        .collect();
    // Each worker has its own queue pair, as far as there are so many; further workers share these in turn.
    let mut queues: Vec<QueuePair> = Vec::new();
    let mut made = Vec::new();
    for (job, plan) in jobs.iter().enumerate().filter(|(_, job)| is_own(job)) {
        let before: u32 = jobs[..job].iter().map(|job| job.workers).sum();
        let namespace = namespaces.iter().find(|namespace| namespace.nsid == plan.nsid);
        let kv = pairs::plan_of(plan);
        for worker in 0..plan.workers {
            let number = before + worker;
            let own = worker_options.processors[number as usize % worker_options.processors.len()].clone();
            let config = QueueConfig {
                priority: class(plan.priority),
                vector: (worker_options.completion == Completion::Interrupt)
                    .then_some(1 + (made.len() % 63) as u16),
                cpu: Some(own.clone()),
                ..QueueConfig::new(worker_options.ring(needs.iter().skip(made.len()).step_by(most).copied()))
            };
            let shared = match &worker_options.shared {
                None if queues.len() == most => Some(&queues),
                shared => shared.as_ref(),
            };
            let (queue, cpu) = match shared {
                Some(shared) => {
                    let queue = shared[made.len() % shared.len()].clone();
                    let cpu = queue.cpu().clone();
                    (queue, cpu)
                }
                None => match (&worker_options.paths, &worker_options.jbof) {
                    (Some(paths), _) => (paths.create_queue_pair(config).await?, own),
                    (None, Some(jbof)) => (
                        jbof.queue_pair_with(worker_options.drive, config)
                            .await
                            .map_err(RunError::NotBoxed)?,
                        own,
                    ),
                    (None, None) => (driver.create_queue_pair(config).await?, own),
                },
            };
            if shared.is_none() {
                queues.push(queue.clone());
            }
            let enable = async |queue: &QueuePair, methods| match &worker_options.paths {
                Some(paths) => paths.enable_methods(queue, methods).await,
                None => driver.enable_methods(queue, methods).await.map(drop),
            };
            let ios = || Generator::new(plan, worker, &rng);
            let access = match (queries::plan_of(plan), kv, &worker_options.sink, namespace) {
                (Some(asked), ..) => {
                    let place = (jobs, job, worker);
                    let made = Queries::new(driver, queue, place, asked, worker_options, &tables).await?;
                    Access::Queries(Box::new(made))
                }
                (None, Some(kv), ..) => {
                    let made =
                        Pairs::new(driver, queue, jobs, kv, (job, worker), worker_options, &pairs).await?;
                    Access::Pairs(Box::new(made))
                }
                (None, None, _, None) => return Err(RunError::no_namespace(NamespaceKind::Any, plan)),
                (None, None, None, Some(namespace)) => {
                    enable(&queue, worker_options.rules.methods()).await?;
                    let oracle = oracles.get(&plan.nsid).cloned();
                    Access::Blocks(Blocks::new(queue, namespace, plan, worker_options.rules, oracle, ios()?)?)
                }
                (None, None, Some(sink), Some(_)) => {
                    let config = sink.config(worker_options.rules, plan);
                    enable(&queue, config.methods()).await?;
                    Access::Payloads(Payloads::new(queue, plan.nsid, config, ios()?)?)
                }
            };
            made.push(Rc::new(Worker {
                job,
                number,
                of_job: worker,
                plan: plan.clone(),
                access,
                cpu,
                start: Cell::default(),
                late: Cell::default(),
                told: Cell::default(),
                gate: Gate::new(driver.clock()),
                flush_gate: Gate::new(driver.clock()),
                flushes: Cell::default(),
            }));
        }
    }
    Ok(made)
}

/// An execution of workers: one for each run, measured by one meter.
pub struct Play {
    /// Measurement.
    pub meter: Meter,
    clock: Clock,
    workers: Vec<Rc<Worker>>,
    begun: Box<dyn Fn(RunPart)>,
    /// Per drive, whether the measurement of its jobs has started.
    is_measured: Vec<Cell<bool>>,
    drive_ends: OnceCell<Box<dyn Fn(usize)>>,
    /// Per drive, the running tasks of its jobs in this phase, each with at most one outstanding I/O.
    under_way: Vec<Cell<usize>>,
    ended: Notify,
    failure: RefCell<Option<RunError>>,
    timeline: OnceCell<Rc<Timeline>>,
    /// The host's usage at the start of the measurement: total, and for the jobs of each drive.
    before: RefCell<Vec<HostUse>>,
}

/// Interval at which a wait in real time checks for an interrupt.
const INTERRUPT_LOOK: Delay = Delay::from_ms(100);

/// Usage of the host by workers.
#[derive(Clone, Copy, Default)]
pub struct HostUse {
    /// Payloads by transfer method.
    pub counts: Counts,
    /// Processor time of the queues: work without polling.
    pub busy: Delay,
}

impl Play {
    /// `begun` is called at the start of the measurement: immediately, or after the warm-up. If jobs on a
    /// drive start later, it is called again for that drive.
    pub fn new(
        clock: &Clock,
        workers: Vec<Rc<Worker>>,
        meter: Meter,
        begun: impl Fn(RunPart) + 'static,
    ) -> Rc<Self> {
        let drives = workers.iter().map(|worker| worker.plan.drive + 1).max().unwrap_or(1);
        let play = Rc::new(Play {
            meter,
            workers,
            begun: Box::new(begun),
            is_measured: vec![Cell::default(); drives],
            drive_ends: OnceCell::new(),
            under_way: vec![Cell::default(); drives],
            ended: Notify::new(clock),
            failure: RefCell::default(),
            timeline: OnceCell::new(),
            before: RefCell::new(vec![HostUse::default(); drives + 1]),
            clock: clock.clone(),
        });
        play.begin_if_due(0);
        play
    }

    /// Registers a callback for the end of the last job on a drive, with the drive's number. Call it before [`run`](Self::run).
    pub fn when_drive_ends(&self, ended: impl Fn(usize) + 'static) {
        let _ = self.drive_ends.set(Box::new(ended));
    }

    /// Reports each I/O to `timeline`. Call it before [`run`](Self::run).
    pub fn show_on(&self, timeline: Rc<Timeline>) {
        let _ = self.timeline.set(timeline);
    }

    /// The queue pairs of the workers, for a timeline. The workers share `cores` processors.
    pub fn queues(&self, cores: u32) -> Vec<Queue> {
        let queue = |worker: &Rc<Worker>| Queue {
            drive: worker.plan.drive,
            qid: worker.queue().qid(),
            job: worker.plan.name.clone(),
            worker: worker.of_job,
            processor: worker.number % cores.max(1),
        };
        self.workers.iter().map(queue).collect()
    }

    /// Reports a completed I/O.
    fn show(
        &self,
        worker: &Worker,
        io: Io,
        due: Time,
        result: Result<&SpanRecord, &dyn fmt::Display>,
        trail: Option<SpanTrail>,
    ) {
        let Some(timeline) = self.timeline.get() else { return };
        let Some(spans) = worker.queue().port().spans() else { return };
        let Some(trail) = trail.or_else(|| spans.take_trail()) else { return };
        let error = result.err();
        let ended = Ended {
            queue: worker.number,
            io,
            due,
            measured: result.is_ok_and(|record| self.meter.counts(worker.job, record.last)),
            error: error.map(|error| error as &dyn std::fmt::Display),
        };
        timeline.ended(&ended, &trail);
        spans.recycle(trail);
    }

    /// Runs all jobs to their end, and returns the executor's counters.
    ///
    /// # Errors
    /// An I/O that could not be executed, or a broken trace; failed commands are only counted.
    pub async fn run(self: &Rc<Self>) -> Result<Counters, RunError> {
        let before = self.clock.counters();
        let last_phase = |drive: usize| {
            let own = self.workers.iter().filter(|worker| worker.plan.drive == drive);
            own.map(|worker| worker.plan.phase).max().unwrap_or(0)
        };
        // Drives with running jobs, and their phase.
        let mut going: Vec<(usize, u32)> =
            (0..self.under_way.len()).map(|drive| (drive, last_phase(drive))).collect();
        let phases = going.iter().map(|(_, phase)| *phase).max().unwrap_or(0);
        for phase in 0..=phases {
            self.begin_phase(phase);
            while self.under_way.iter().any(|tasks| tasks.get() > 0) {
                self.ended.notified().await;
                going.retain(|(drive, last)| {
                    let goes_on = *last > phase || self.under_way[*drive].get() > 0;
                    if let (false, Some(ended)) = (goes_on, self.drive_ends.get()) {
                        ended(*drive);
                    }
                    goes_on
                });
            }
        }
        let after = self.clock.counters();
        let broken = self.workers.iter().find_map(|worker| worker.access.error());
        match (self.failure.take(), broken) {
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.into()),
            (None, None) => {
                Ok(Counters { polls: after.polls - before.polls, timers: after.timers - before.timers })
            }
        }
    }

    /// Starts the workers of a phase.
    fn begin_phase(self: &Rc<Self>, phase: u32) {
        let now = self.clock.now();
        for worker in self.workers.iter().filter(|worker| worker.plan.phase == phase) {
            let start = later(now, worker.plan.start_delay.0);
            worker.start.set(start);
            self.meter.job_begins(worker.job, later(start, worker.plan.ramp.0));
            for _ in 0..worker.plan.iodepth {
                let under_way = &self.under_way[worker.plan.drive];
                under_way.set(under_way.get() + 1);
                let (play, worker) = (self.clone(), worker.clone());
                self.clock.spawn("job", async move {
                    if let Err(error) = play.work(&worker).await {
                        play.meter.stop();
                        play.failure.borrow_mut().get_or_insert(error);
                    }
                    let under_way = &play.under_way[worker.plan.drive];
                    under_way.set(under_way.get() - 1);
                    if under_way.get() == 0 {
                        play.ended.notify_one();
                    }
                });
            }
        }
    }

    /// The host's usage by these jobs since their creation.
    fn host_use(&self, part: RunPart) -> HostUse {
        let mut all = HostUse::default();
        let mut seen: Vec<&Rc<Station>> = Vec::new();
        for worker in self.workers.iter().filter(|worker| part.has(&worker.plan)) {
            all.counts += worker.access.counts();
            if !seen.iter().any(|cpu| Rc::ptr_eq(cpu, &worker.cpu)) {
                all.busy += worker.cpu.busy();
                seen.push(&worker.cpu);
            }
        }
        all
    }

    /// The host's usage by these jobs in the measured part: payloads by method, and processor time, which is `None` if a processor also
    /// worked for others.
    pub fn host_used(&self, part: RunPart) -> (Vec<(&'static str, u64)>, Option<Delay>) {
        let place = if let RunPart::Drive(drive) = part { drive + 1 } else { 0 };
        let before = self.before.borrow().get(place).copied().unwrap_or_default();
        let now = self.host_use(part);
        let counts = now.counts.named().into_iter().zip(before.counts.named());
        let since = counts.map(|((name, now), (_, before))| (name, now - before)).collect();
        let is_own = |worker: &&Rc<Worker>| part.has(&worker.plan);
        let own: BTreeSet<_> =
            self.workers.iter().filter(is_own).map(|worker| Rc::as_ptr(&worker.cpu)).collect();
        let mut others = self.workers.iter().filter(|worker| !is_own(worker));
        let is_shared = others.any(|worker| own.contains(&Rc::as_ptr(&worker.cpu)));
        (since, (!is_shared).then(|| now.busy.saturating_sub(before.busy)))
    }

    /// Figures of each bulk-storing job's loss window over the measured part, by the job's index.
    pub fn loss_windows(&self, now: Time) -> BTreeMap<usize, LossFigures> {
        let window = |worker: &Rc<Worker>| Some((worker.job, worker.access.window()?.borrow().figures(now)));
        self.workers.iter().filter_map(window).collect()
    }

    /// Starts the measurement of the whole, or of a drive, if it is due.
    fn begin_if_due(&self, drive: usize) {
        let now = self.clock.now();
        if self.meter.begin_if_due(now) {
            let drives = (0..self.under_way.len()).map(RunPart::Drive);
            let parts = [RunPart::Whole].into_iter().chain(drives);
            self.before.replace(parts.map(|part| self.host_use(part)).collect());
            for (drive, is_measured) in self.is_measured.iter().enumerate() {
                is_measured.set(self.meter.counts_on(drive, now));
            }
            for worker in &self.workers {
                if let Some(window) = worker.access.window() {
                    window.borrow_mut().restart(now);
                }
            }
            (self.begun)(RunPart::Whole);
        } else if !self.is_measured[drive].get() && self.meter.counts_on(drive, now) {
            self.is_measured[drive].set(true);
            let part = RunPart::Drive(drive);
            self.before.borrow_mut()[drive + 1] = self.host_use(part);
            (self.begun)(part);
        }
    }

    /// Loop of one of the concurrent operations of a worker.
    async fn work(&self, worker: &Worker) -> Result<(), RunError> {
        match &worker.access {
            Access::Blocks(blocks) => self.work_ios(worker, blocks).await,
            Access::Payloads(payloads) => self.work_ios(worker, payloads).await,
            Access::Pairs(pairs) => self.work_pairs(worker, pairs).await,
            Access::Queries(queries) => self.work_queries(worker, queries).await,
        }
    }

    /// The loop for I/Os.
    async fn work_ios<I: Ios>(&self, worker: &Worker, ios: &I) -> Result<(), RunError> {
        let meter = &self.meter;
        let mut buffers = ios.buffers(worker.plan.io_blocks_max())?;
        let start = worker.start.get();
        let end = worker.plan.runtime.map(|_| later(start, worker.plan.end_ps()));
        let closed = worker.plan.issue == Issue::Closed;
        let trims_then_writes =
            matches!(&worker.plan.source, Source::Synthetic(synthetic) if synthetic.rw.trims_then_writes());
        // The trim and its write run in one task, so that the write never overtakes its trim.
        let mut write = None;
        let mut record = SpanRecord::default();
        self.wait_until(&worker.plan, start).await?;
        self.begin_if_due(worker.plan.drive);
        while meter.goes_on() && end.is_none_or(|end| self.clock.now() < end) {
            let io = match write.take() {
                Some(io) => io,
                None => {
                    let mut generator = ios.generator().borrow_mut();
                    let Some(io) = generator.next() else {
                        let Some(error) = generator.error().cloned() else { break };
                        // What the job should have asked for is unknown: nothing else is worth measuring.
                        self.meter.stop();
                        worker.reopen();
                        return Err(error.into());
                    };
                    if trims_then_writes && io.kind == Kind::Trim {
                        write = generator.next();
                    }
                    io
                }
            };
            let mut due = self.clock.now_measured();
            within_reach(&worker.plan, due)?;
            if let Some(at) = io.at {
                let at = later(start, at);
                if !closed {
                    worker.late.set(worker.late.get() + u64::from(at < due));
                }
                self.wait_until(&worker.plan, at).await?;
                if !meter.goes_on() {
                    break;
                }
                // With a rate limit there is no arrival time: no I/O waits before it may be issued.
                due = if closed { self.clock.now_measured() } else { at };
            }
            if worker.plan.think.is_some() || worker.plan.flush_after.is_some() {
                worker.pass().await;
                // Arrivals of an open loop do not wait for a flush; the wait is part of their latency.
                due = if closed { self.clock.now_measured() } else { due };
                if !meter.goes_on() || end.is_some_and(|end| self.clock.now() >= end) {
                    break;
                }
                worker.enter(io.kind);
            }
            let number = meter.number();
            let Performed { result, commands, trail } = ios.perform(&mut buffers, io, &mut record).await;
            if self.timeline.get().is_some() {
                let shown = result.as_ref().map(|()| &record).map_err(|error| error as &dyn fmt::Display);
                self.show(worker, io, due, shown, trail);
            }
            if commands > 1 {
                meter.split(worker.job, self.clock.now(), commands);
            }
            match result {
                Ok(()) => {
                    let bytes = u64::from(io.blocks) * u64::from(worker.plan.lba_bytes);
                    let (job, worker) = (worker.job, worker.of_job);
                    let (operated, queried) = (None, None);
                    meter.completed(&Completed {
                        number,
                        job,
                        worker,
                        io,
                        operated,
                        queried,
                        bytes,
                        due,
                        record: &record,
                    });
                }
                Err(IoError::Client(error)) if error.kind == ClientErrorKind::WrongData => {
                    meter.mismatched(worker.job, self.clock.now(), error.text);
                }
                Err(IoError::Status(status)) => {
                    meter.failed(worker.job, self.clock.now(), status.to_string());
                }
                Err(error) => {
                    // Tasks that wait for the next pause must notice the end.
                    meter.stop();
                    worker.reopen();
                    return Err(error.into());
                }
            }
            self.begin_if_due(worker.plan.drive);
            if let Some(writes) = worker.plan.flush_after {
                self.flush(worker, ios, writes).await?;
            }
            if let Some(think) = worker.plan.think {
                self.pause(worker, think, end).await?;
            }
        }
        Ok(())
    }

    /// Flushes after an I/O of a worker, if it was the last of those before a flush.
    async fn flush<I: Ios>(&self, worker: &Worker, ios: &I, writes: u32) -> Result<(), RunError> {
        if !worker.flush_gate.leave(writes) {
            return Ok(());
        }
        let begun = self.clock.now();
        let flushed = ios.flush().await;
        let (count, time) = worker.flushes.get();
        worker.flushes.set((count + 1, time + self.clock.now().since(begun)));
        match flushed {
            Ok(()) => {}
            Err(IoError::Status(status)) => {
                self.meter.failed(worker.job, self.clock.now(), status.to_string());
            }
            Err(error) => {
                self.meter.stop();
                worker.reopen();
                return Err(error.into());
            }
        }
        worker.flush_gate.reopen();
        Ok(())
    }

    /// Pauses a worker after an I/O: the last I/O before a pause waits for all outstanding ones.
    async fn pause(&self, worker: &Worker, think: Think, end: Option<Time>) -> Result<(), InputError> {
        if worker.gate.leave(think.blocks) {
            let until = later(self.clock.now(), think.time.0);
            let waited = self.wait_until(&worker.plan, end.map_or(until, |end| until.min(end))).await;
            if waited.is_err() {
                self.meter.stop();
            }
            worker.gate.reopen();
            waited?;
        }
        Ok(())
    }

    /// Waits until a time set by the job, not by the model: it takes real time under every timing.
    async fn wait_until(&self, plan: &JobPlan, at: Time) -> Result<(), InputError> {
        let mut now = self.clock.now();
        if at > now {
            within_reach(plan, at)?;
        }
        while at > now && self.meter.goes_on() {
            // In real time an interrupt must not wait for the end of a long pause.
            let most = if self.clock.timing().is_some() { INTERRUPT_LOOK } else { at.since(now) };
            self.clock.timer(at.since(now).min(most)).await;
            now = self.clock.now();
        }
        Ok(())
    }

    /// Notes on open loops that were late: their latency reflects the backlog more than the drive.
    pub fn late_notes(&self, jobs: &[JobPlan], part: RunPart) -> Vec<String> {
        let own = jobs.iter().enumerate().filter(|(_, plan)| part.has(plan));
        let notes = own.filter_map(|(job, plan)| {
            let workers = self.workers.iter().filter(|worker| worker.job == job);
            let late = workers.map(|worker| worker.late.get()).sum::<u64>();
            (late > 0).then(|| {
                format!(
                    "job {}: {late} I/Os were issued late because iodepth = {} were outstanding; the wait is part of \
                     their latency",
                    plan.name, plan.iodepth
                )
            })
        });
        notes.collect()
    }

    /// Notes on jobs that flush: no I/O's latency has the time of a flush.
    pub fn flush_notes(&self, jobs: &[JobPlan], part: RunPart) -> Vec<String> {
        let own = jobs.iter().enumerate().filter(|(_, plan)| part.has(plan));
        let notes = own.filter_map(|(job, plan)| {
            let writes = plan.flush_after?;
            let workers =
                self.workers.iter().filter(|worker| worker.job == job).map(|worker| worker.flushes.get());
            let (count, time) = workers.fold((0, Delay::ZERO), |all, own| (all.0 + own.0, all.1 + own.1));
            let note = format!("job {}: {count} flushes, each after {writes} writes of a worker", plan.name);
            let Some(mean) = time.0.checked_div(count) else { return Some(note) };
            let mean = Picos(mean / 1000 * 1000);
            Some(format!("{note}, took {mean} on average, which is in no I/O's latency"))
        });
        notes.collect()
    }

    /// For adaptive query jobs: the place where each query is executed, with the reason.
    pub fn decisions(&self, part: RunPart) -> Vec<String> {
        let own = self.workers.iter().filter(|worker| worker.of_job == 0 && part.has(&worker.plan));
        let notes = own.flat_map(|worker| {
            let Access::Queries(queries) = &worker.access else { return Vec::new() };
            let name = &worker.plan.name;
            queries.decisions().map(|why| format!("job {name}: {why}")).collect()
        });
        notes.collect()
    }

    /// Note on bytes read from a sink that could not be compared byte by byte.
    pub fn unchecked_note(&self, part: RunPart) -> Option<String> {
        // All workers on a drive share one oracle.
        let oracle = |drive: usize| {
            let own =
                self.workers.iter().filter(|worker| worker.plan.drive == drive && part.has(&worker.plan));
            own.map(|worker| &worker.access).find_map(Access::sink_oracle)
        };
        let oracles = (0..self.under_way.len()).filter_map(oracle);
        let skipped = oracles.map(|oracle| oracle.borrow().skipped_bytes()).sum::<u64>();
        (skipped > 0).then(|| {
            let skipped = byteway_text::table::grouped(skipped);
            format!(
                "{skipped} B that were read were compared by checksum only: reads and writes of them overlapped, or their \
                 earlier content is unknown"
            )
        })
    }
}

/// `by_ps` picoseconds after an instant, saturating.
fn later(at: Time, by_ps: u64) -> Time {
    Time(at.0.saturating_add(by_ps))
}

/// Checks that an instant is within the limit of a run: times come from traces, rates, pauses and host profiles.
fn within_reach(plan: &JobPlan, at: Time) -> Result<(), InputError> {
    if at.0 <= RUNTIME_MAX.0 {
        return Ok(());
    }
    let what = format!("job `{}` exceeds 200 days of virtual time, the limit of a run", plan.name);
    Err(InputError::new(
        what,
        "give it a `runtime`, a lower `count`, a higher `rate_iops`, a shorter `startdelay` or `thinktime`, or a smaller \
         `time_scale`",
    ))
}

fn class(priority: Priority) -> QueuePriority {
    match priority {
        Priority::Urgent => QueuePriority::Urgent,
        Priority::High => QueuePriority::High,
        Priority::Medium => QueuePriority::Medium,
        Priority::Low => QueuePriority::Low,
    }
}
