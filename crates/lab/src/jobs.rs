//! Jobs at play: workers on a driver's queues, each of their I/Os measured and verified, until the jobs end. The same
//! for a drive in this simulation and for one that another process serves.

mod blocks;
mod ios;
mod pairs;
mod payloads;
mod tree;

use crate::error::{NamespaceKind, RunError};
use blocks::Blocks;
use byteway_assembly::jbof::Jbof;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Counters, Delay, Notify, SpanRecord, Station, Time, Trail};
use byteway_console::error::InputError;
use byteway_host::driver::{Driver, QueueConfig};
use byteway_host::oracle::{BaseState, Oracle};
use byteway_host::{
    Completion, Counts, IoError, LossFigures, LossWindow, Meaning, Method, Multipath, QueuePair, Results,
    Rules, SinkOracle,
};
use byteway_measure::timeline::{Ended, Queue, Timeline};
use byteway_measure::{Completed, Meter, Part};
use byteway_scenario::RUNTIME_MAX;
use byteway_wire::content::BlockSize;
use byteway_wire::nvme::QueuePriority;
use byteway_workload::{Generator, Io, Issue, JobPlan, Kind, Priority, Source, Think};
use ios::{Ios, Performed};
use pairs::Pairs;
use payloads::Payloads;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

pub use payloads::Sink;

/// What each block of a namespace must hold, by namespace.
pub type Oracles = BTreeMap<u32, Rc<RefCell<Oracle>>>;

/// Oracles for the driver's namespaces; `base` says what one holds at first, from the tag of its patterns.
pub fn oracles(driver: &Driver, base: impl Fn(u16) -> BaseState) -> Oracles {
    let mut oracles = Oracles::new();
    for namespace in driver.namespaces().iter() {
        // A client refuses a format that it doesn't speak, when there is a job for the namespace.
        let Some(block) = BlockSize::from_bytes(namespace.block_bytes.into()) else { continue };
        let tag = namespace.nsid as u16;
        let oracle = Oracle::new(namespace.blocks, block, tag, base(tag));
        oracles.insert(namespace.nsid, Rc::new(RefCell::new(oracle)));
    }
    oracles
}

/// How workers use the drive, whatever their jobs are.
pub struct Manner {
    /// Which of the run's drives it is: the jobs on others are not made workers of.
    pub drive: usize,
    /// Queue pairs of the target's, in turn, for the jobs that run there. None: the jobs are the host's, and each of their workers has
    /// one of its own.
    pub shared: Option<Vec<QueuePair>>,
    /// The paths to the drive, if there is more to its queue pairs than the driver. Not for jobs of pairs.
    pub paths: Option<Multipath>,
    /// The box that the drive is in, by the queue pairs of whose other drives a part of its commands may go.
    pub jbof: Option<Rc<Jbof>>,
    /// How they learn of completions.
    pub completion: Completion,
    /// How their payloads cross.
    pub rules: Rules,
    /// Asks for payloads of the drive's sink instead of blocks.
    pub sink: Option<Sink>,
    /// How the results of retrieves come, of a key-value drive.
    pub results: Results,
    /// The host's processors, which the workers of all drives share in turn.
    pub processors: Vec<Rc<Station>>,
    /// Entries that a queue may have.
    pub queue_entries_max: u32,
    /// Everything random follows from it.
    pub seed: u64,
}

/// What a worker asks a drive for.
enum Access {
    Blocks(Blocks),
    Payloads(Payloads),
    Pairs(Box<Pairs>),
}

impl Access {
    fn queue(&self) -> &QueuePair {
        match self {
            Access::Blocks(blocks) => blocks.queue(),
            Access::Payloads(payloads) => payloads.queue(),
            Access::Pairs(pairs) => pairs.queue(),
        }
    }

    fn counts(&self) -> Counts {
        match self {
            Access::Blocks(blocks) => blocks.counts(),
            Access::Payloads(payloads) => payloads.counts(),
            Access::Pairs(pairs) => pairs.counts(),
        }
    }

    /// Why its trace ended early.
    fn error(&self) -> Option<InputError> {
        match self {
            Access::Blocks(blocks) => blocks.generator().borrow().error().cloned(),
            Access::Payloads(payloads) => payloads.generator().borrow().error().cloned(),
            Access::Pairs(pairs) => pairs.generator.borrow().error().cloned(),
        }
    }

    /// What its job has told as put and the drive doesn't have, if it gathers its stores.
    fn window(&self) -> Option<&RefCell<LossWindow>> {
        match self {
            Access::Blocks(_) | Access::Payloads(_) => None,
            Access::Pairs(pairs) => pairs.window(),
        }
    }

    /// What the bytes that it reads are compared with, if they are a sink's.
    fn sink_oracle(&self) -> Option<&Rc<RefCell<SinkOracle>>> {
        match self {
            Access::Payloads(payloads) => payloads.oracle(),
            Access::Blocks(_) | Access::Pairs(_) => None,
        }
    }
}

/// A worker: one queue pair and where its I/Os come from.
pub struct Worker {
    job: usize,
    /// Which of all workers, from 0, and which of the job's.
    number: u32,
    of_job: u32,
    plan: JobPlan,
    access: Access,
    /// The processor that it runs on, which it may share.
    cpu: Rc<Station>,
    start: Cell<Time>,
    /// I/Os of an open loop that were due while `iodepth` others were outstanding.
    late: Cell<u64>,
    gate: Gate,
}

/// Lets so many I/Os through between two pauses.
struct Gate {
    /// Since the last pause.
    issued: Cell<u32>,
    outstanding: Cell<u32>,
    open: Notify,
}

impl Worker {
    /// Which of all workers it is, from 0, in the order of the jobs.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its queue pair.
    pub fn queue(&self) -> &QueuePair {
        self.access.queue()
    }
}

impl Gate {
    /// Waits while the worker pauses, or has issued all that it may before it does.
    async fn pass(&self, think: Think) {
        while self.issued.get() >= think.blocks {
            self.open.notified().await;
        }
    }

    fn enter(&self) {
        self.issued.set(self.issued.get() + 1);
        self.outstanding.set(self.outstanding.get() + 1);
    }

    /// Whether it was the last before a pause.
    fn leave(&self, think: Think) -> bool {
        self.outstanding.set(self.outstanding.get() - 1);
        self.issued.get() >= think.blocks && self.outstanding.get() == 0
    }

    fn reopen(&self) {
        self.issued.set(0);
        self.open.notify_all();
    }
}

/// Makes the queue pairs and generators of all workers of `jobs` that work on the driver's drive. Reads are verified in
/// namespaces that have an oracle.
///
/// # Errors
/// The drive has too few queue pairs, a job names no namespace of it, or one with a format that is not supported.
pub async fn workers(
    driver: &Driver,
    jobs: &[JobPlan],
    manner: &Manner,
    oracles: &Oracles,
) -> Result<Vec<Rc<Worker>>, RunError> {
    let is_own = |job: &&JobPlan| job.drive == manner.drive && job.at_target == manner.shared.is_some();
    let wanted: u32 = jobs.iter().filter(is_own).map(|job| job.workers).sum();
    if manner.shared.is_none() && u32::from(driver.queues_granted()) < wanted {
        return Err(RunError::QueuePairs { wanted, granted: driver.queues_granted() });
    }
    let namespaces = driver.namespaces();
    let pairs = pairs::Common::new(jobs, manner.drive, driver.transfer_bytes_max());
    let rng = Rng::new(manner.seed);
    let mut made = Vec::new();
    for (job, plan) in jobs.iter().enumerate().filter(|(_, job)| is_own(job)) {
        let before: u32 = jobs[..job].iter().map(|job| job.workers).sum();
        let namespace = namespaces.iter().find(|namespace| namespace.nsid == plan.nsid);
        let kv = pairs::plan_of(plan);
        let payload_bytes_max = kv.map_or_else(|| plan.payload_bytes_max(), |_| pairs.bytes_max());
        for worker in 0..plan.workers {
            let entries = entries(plan, payload_bytes_max, manner);
            let number = before + worker;
            let own = manner.processors[number as usize % manner.processors.len()].clone();
            let config = QueueConfig {
                priority: class(plan.priority),
                vector: (manner.completion == Completion::Interrupt).then_some(1 + (made.len() % 63) as u16),
                cpu: Some(own.clone()),
                ..QueueConfig::new(entries)
            };
            let (queue, cpu) = match &manner.shared {
                Some(shared) => {
                    let queue = shared[made.len() % shared.len()].clone();
                    let cpu = queue.cpu().clone();
                    (queue, cpu)
                }
                None => match (&manner.paths, &manner.jbof) {
                    (Some(paths), _) => (paths.create_queue_pair(config).await?, own),
                    (None, Some(jbof)) => {
                        (jbof.queue_pair_with(manner.drive, config).await.map_err(RunError::NotBoxed)?, own)
                    }
                    (None, None) => (driver.create_queue_pair(config).await?, own),
                },
            };
            let enable = async |queue: &QueuePair, methods| match &manner.paths {
                Some(paths) => paths.enable_methods(queue, methods).await,
                None => driver.enable_methods(queue, methods).await.map(drop),
            };
            let ios = || Generator::new(plan, worker, &rng);
            let access = match (kv, &manner.sink, namespace) {
                (Some(kv), ..) => {
                    let made = Pairs::new(driver, queue, jobs, kv, (job, worker), manner, &pairs).await?;
                    Access::Pairs(Box::new(made))
                }
                (None, _, None) => return Err(RunError::no_namespace(NamespaceKind::Any, plan)),
                (None, None, Some(namespace)) => {
                    enable(&queue, manner.rules.methods()).await?;
                    let oracle = oracles.get(&plan.nsid).cloned();
                    Access::Blocks(Blocks::new(queue, namespace, plan, manner.rules, oracle, ios()?)?)
                }
                (None, Some(sink), Some(_)) => {
                    let config = sink.config(manner.rules, plan);
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
                gate: Gate {
                    issued: Cell::default(),
                    outstanding: Cell::default(),
                    open: Notify::new(driver.clock()),
                },
            }));
        }
    }
    Ok(made)
}

/// Entries of a queue that carries payloads or results, at least.
const LONG_RING: u32 = 1024;

/// Entries of a worker's queues: room for all of its I/Os, with the entries that carry payload or results.
fn entries(plan: &JobPlan, bytes_max: u32, manner: &Manner) -> u32 {
    let bytes = bytes_max.min(match manner.rules.method {
        Method::Adaptive => manner.rules.threshold_bytes.saturating_sub(1),
        _ => u32::MAX,
    });
    // The least that an entry carries: 52 B of a payload, 14 B of a result.
    let payload = if manner.rules.methods().is_empty() { 0 } else { bytes.div_ceil(52) };
    let result = match &manner.sink {
        Some(sink) if sink.results == Results::Inline => bytes_max.div_ceil(14),
        None if manner.results == Results::Inline => bytes_max.div_ceil(14),
        _ => 0,
    };
    let carried = payload.max(result);
    let commands = plan.io_blocks_max().div_ceil(plan.transfer_blocks_max.max(1)).max(1);
    let wanted = u64::from(plan.iodepth) * u64::from(commands) * u64::from(1 + carried) + 1;
    // Where a ring's end comes often, it cuts reads of several entries in two more often than any driver's ring does.
    let least = if carried > 0 { LONG_RING } else { 2 };
    let wanted = wanted.min(65536).next_power_of_two() as u32;
    wanted.max(least).min(manner.queue_entries_max)
}

/// A play of workers: one for each run, measured by one meter.
pub struct Play {
    /// What is measured.
    pub meter: Meter,
    clock: Clock,
    workers: Vec<Rc<Worker>>,
    begun: Box<dyn Fn()>,
    drive_ends: OnceCell<Box<dyn Fn(usize)>>,
    /// Of each drive, the I/Os that its jobs may have outstanding in this phase: tasks that have not ended.
    under_way: Vec<Cell<usize>>,
    ended: Notify,
    failure: RefCell<Option<RunError>>,
    timeline: OnceCell<Rc<Timeline>>,
    /// What the host had done when measuring began: in all, and for each drive.
    before: RefCell<Vec<HostUse>>,
}

/// How often a wait in real time looks whether it was interrupted.
const INTERRUPT_LOOK: Delay = Delay::from_ms(100);

/// What the host has done, over all workers.
#[derive(Clone, Copy, Default)]
pub struct HostUse {
    /// Payloads by the way that they went.
    pub counts: Counts,
    /// Processor time of their queues: work, not watching.
    pub busy: Delay,
}

impl Play {
    /// `begun` is called when measuring begins: at once, or when warming up is over.
    pub fn new(
        clock: &Clock,
        workers: Vec<Rc<Worker>>,
        meter: Meter,
        begun: impl Fn() + 'static,
    ) -> Rc<Self> {
        let drives = workers.iter().map(|worker| worker.plan.drive + 1).max().unwrap_or(1);
        let play = Rc::new(Play {
            meter,
            workers,
            begun: Box::new(begun),
            drive_ends: OnceCell::new(),
            under_way: vec![Cell::default(); drives],
            ended: Notify::new(clock),
            failure: RefCell::default(),
            timeline: OnceCell::new(),
            before: RefCell::new(vec![HostUse::default(); drives + 1]),
            clock: clock.clone(),
        });
        play.begin_if_due();
        play
    }

    /// Calls `ended` when the last job on a drive has ended, with the drive's number; to be called before playing.
    pub fn when_drive_ends(&self, ended: impl Fn(usize) + 'static) {
        let _ = self.drive_ends.set(Box::new(ended));
    }

    /// Tells `timeline` of each I/O; to be called before playing.
    pub fn show_on(&self, timeline: Rc<Timeline>) {
        let _ = self.timeline.set(timeline);
    }

    /// The queue pairs of its workers, for a timeline; the workers share `cores` processors.
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

    /// Shows an I/O that has ended just now.
    fn show(
        &self,
        worker: &Worker,
        io: Io,
        due: Time,
        result: Result<&SpanRecord, &dyn fmt::Display>,
        trail: Option<Trail>,
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

    /// Plays to the end of all jobs. Gives what the executor did for it.
    ///
    /// # Errors
    /// An I/O that could not be carried out at all, or a trace that broke; failed commands are only counted.
    pub async fn run(self: &Rc<Self>) -> Result<Counters, RunError> {
        let before = self.clock.counters();
        let last_phase = |drive: usize| {
            let own = self.workers.iter().filter(|worker| worker.plan.drive == drive);
            own.map(|worker| worker.plan.phase).max().unwrap_or(0)
        };
        // Drives whose last job has not ended, with its phase.
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

    /// Lets the workers of a phase loose.
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

    /// What the host has done for these jobs since it was made.
    fn host_use(&self, part: Part) -> HostUse {
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

    /// What the host has done for these jobs since measuring began: names of ways with their payloads, and processor time,
    /// which is not known if a processor has worked for others, too.
    pub fn host_used(&self, part: Part) -> (Vec<(&'static str, u64)>, Option<Delay>) {
        let place = if let Part::Drive(drive) = part { drive + 1 } else { 0 };
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

    /// The loss window of each job that gathers its stores, by the job's index: over the measured part.
    pub fn loss_windows(&self, now: Time) -> BTreeMap<usize, LossFigures> {
        let window = |worker: &Rc<Worker>| Some((worker.job, worker.access.window()?.borrow().figures(now)));
        self.workers.iter().filter_map(window).collect()
    }

    fn begin_if_due(&self) {
        let now = self.clock.now();
        if self.meter.begin_if_due(now) {
            let drives = (0..self.under_way.len()).map(Part::Drive);
            let parts = [Part::Whole].into_iter().chain(drives);
            self.before.replace(parts.map(|part| self.host_use(part)).collect());
            for worker in &self.workers {
                if let Some(window) = worker.access.window() {
                    window.borrow_mut().restart(now);
                }
            }
            (self.begun)();
        }
    }

    /// One of the operations that a worker may have outstanding, over and over.
    async fn work(&self, worker: &Worker) -> Result<(), RunError> {
        match &worker.access {
            Access::Blocks(blocks) => self.work_ios(worker, blocks).await,
            Access::Payloads(payloads) => self.work_ios(worker, payloads).await,
            Access::Pairs(pairs) => self.work_pairs(worker, pairs).await,
        }
    }

    /// The same of I/Os.
    async fn work_ios<I: Ios>(&self, worker: &Worker, ios: &I) -> Result<(), RunError> {
        let meter = &self.meter;
        let mut buffers = ios.buffers(worker.plan.io_blocks_max())?;
        let start = worker.start.get();
        let end = worker.plan.runtime.map(|_| later(start, worker.plan.end_ps()));
        let closed = worker.plan.issue == Issue::Closed;
        let trims_then_writes =
            matches!(&worker.plan.source, Source::Synthetic(synthetic) if synthetic.rw.trims_then_writes());
        // What was trimmed here is written here, so that the write never overtakes its trim.
        let mut write = None;
        self.wait_until(&worker.plan, start).await?;
        while meter.goes_on() && end.is_none_or(|end| self.clock.now() < end) {
            let io = match write.take() {
                Some(io) => io,
                None => {
                    let mut generator = ios.generator().borrow_mut();
                    let Some(io) = generator.next() else { break };
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
                // A rate is no arrival: nobody waits for an I/O that may not be issued yet.
                due = if closed { self.clock.now_measured() } else { at };
            }
            if let Some(think) = worker.plan.think {
                worker.gate.pass(think).await;
                due = self.clock.now_measured();
                if !meter.goes_on() || end.is_some_and(|end| due >= end) {
                    break;
                }
                worker.gate.enter();
            }
            let number = meter.number();
            let Performed { result, commands, trail } = ios.perform(&mut buffers, io).await;
            self.show(worker, io, due, result.as_ref().map_err(|error| error as &dyn fmt::Display), trail);
            if commands > 1 {
                meter.split(worker.job, self.clock.now(), commands);
            }
            match result {
                Ok(record) => {
                    let bytes = u64::from(io.blocks) * u64::from(worker.plan.lba_bytes);
                    let (job, worker) = (worker.job, worker.of_job);
                    let operated = None;
                    meter.completed(&Completed { number, job, worker, io, operated, bytes, due, record });
                }
                Err(IoError::Client(error)) if error.meaning == Meaning::WrongData => {
                    meter.mismatched(worker.job, self.clock.now(), error.text);
                }
                Err(IoError::Status(status)) => {
                    meter.failed(worker.job, self.clock.now(), status.to_string());
                }
                Err(error) => {
                    // Those that wait for the next pause find that the play has ended.
                    meter.stop();
                    worker.gate.reopen();
                    return Err(error.into());
                }
            }
            self.begin_if_due();
            if let Some(think) = worker.plan.think {
                self.pause(worker, think, end).await?;
            }
        }
        Ok(())
    }

    /// After an I/O of a worker that pauses: the last of those between two pauses takes the pause, for all of them.
    async fn pause(&self, worker: &Worker, think: Think, end: Option<Time>) -> Result<(), InputError> {
        if worker.gate.leave(think) {
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

    /// Waits for an instant that the job sets, not the model: it is real under every timing.
    async fn wait_until(&self, plan: &JobPlan, at: Time) -> Result<(), InputError> {
        let mut now = self.clock.now();
        if at > now {
            within_reach(plan, at)?;
        }
        while at > now && self.meter.goes_on() {
            // In real time an interrupt must not have to wait for the end of a long pause.
            let most = if self.clock.timing().is_some() { INTERRUPT_LOOK } else { at.since(now) };
            self.clock.timer(at.since(now).min(most)).await;
            now = self.clock.now();
        }
        Ok(())
    }

    /// Open loops that didn't keep to their times: their latency says more about the backlog than about the drive.
    pub fn late_notes(&self, jobs: &[JobPlan], part: Part) -> Vec<String> {
        let own = jobs.iter().enumerate().filter(|(_, plan)| part.has(plan));
        let notes = own.filter_map(|(job, plan)| {
            let workers = self.workers.iter().filter(|worker| worker.job == job);
            let late = workers.map(|worker| worker.late.get()).sum::<u64>();
            (late > 0).then(|| {
                format!(
                    "job {}: {late} I/Os were issued after they were due, because iodepth = {} were outstanding; the wait is in \
                     their latency",
                    plan.name, plan.iodepth
                )
            })
        });
        notes.collect()
    }

    /// Of a sink's bytes, those that reads could not be held against anything: that they were read is no proof of them.
    pub fn unchecked_note(&self, part: Part) -> Option<String> {
        // One oracle for all workers on a drive.
        let oracle = |drive: usize| {
            let own =
                self.workers.iter().filter(|worker| worker.plan.drive == drive && part.has(&worker.plan));
            own.map(|worker| &worker.access).find_map(Access::sink_oracle)
        };
        let oracles = (0..self.under_way.len()).filter_map(oracle);
        let skipped = oracles.map(|oracle| oracle.borrow().skipped_bytes()).sum::<u64>();
        (skipped > 0).then(|| {
            let skipped = byteway_console::table::grouped(skipped);
            format!(
                "{skipped} B that were read were compared by checksum only: reads and writes of them overlapped, or nobody \
                 knows what was there before"
            )
        })
    }
}

/// So many picoseconds after an instant, or the last that the clock knows.
fn later(at: Time, by_ps: u64) -> Time {
    Time(at.0.saturating_add(by_ps))
}

/// Whether an instant is within what a run may take: times come from traces, rates, pauses and host profiles.
fn within_reach(plan: &JobPlan, at: Time) -> Result<(), InputError> {
    if at.0 <= RUNTIME_MAX.0 {
        return Ok(());
    }
    let what = format!(
        "job `{}` goes on beyond 200 days of virtual time, which is as far as a run reaches",
        plan.name
    );
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
