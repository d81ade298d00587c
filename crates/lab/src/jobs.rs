//! Jobs at play: workers on a driver's queues, each of their I/Os measured and verified, until the jobs end. The same
//! for a drive in this simulation and for one that another process serves.

use crate::error::InputError;
use crate::measure::{Completed, Meter};
use crate::scenario::RUNTIME_MAX;
use crate::timeline::{Ended, Queue, Timeline};
use crate::workload::{Generator, Io, Issue, JobPlan, Kind, Priority, Source, Think};
use anyhow::bail;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Counters, Notify, Resource, SpanRecord, Station, Time};
use byteway_host::driver::{Driver, QueueConfig};
use byteway_host::io::{Client, ClientConfig, IoBuffer, IoError};
use byteway_host::oracle::{BaseState, Oracle};
use byteway_host::{Completion, Method};
use byteway_wire::content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::{QueuePriority, Range};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

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
    /// How they learn of completions.
    pub completion: Completion,
    /// How their commands say where the payload lies.
    pub method: Method,
    /// Processors that they share in turn.
    pub cores: u16,
    /// Entries that a queue may have.
    pub queue_entries_max: u32,
    /// Everything random follows from it.
    pub seed: u64,
}

/// A worker: one queue pair and where its I/Os come from.
pub struct Worker {
    job: usize,
    /// Which of all workers, from 0, and which of the job's.
    number: u32,
    of_job: u32,
    plan: JobPlan,
    client: Client,
    /// For reads that are not checked in a namespace where others are.
    unchecked: Option<Client>,
    generator: RefCell<Generator>,
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
    /// Its queue pair's client.
    pub fn client(&self) -> &Client {
        &self.client
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

/// Makes the queue pairs and generators of all workers of `jobs`. Reads are verified in namespaces that have an oracle.
///
/// # Errors
/// The drive has too few queue pairs, a job names no namespace of it, or one with a format that is not supported.
pub async fn workers(
    driver: &Driver,
    jobs: &[JobPlan],
    manner: &Manner,
    oracles: &Oracles,
) -> anyhow::Result<Vec<Rc<Worker>>> {
    let wanted: u32 = jobs.iter().map(|job| job.workers).sum();
    if u32::from(driver.queues_granted()) < wanted {
        bail!(
            "the jobs want {wanted} queue pairs and the drive has {}: lower numjobs, or raise \
             controller.max_io_queues",
            driver.queues_granted()
        );
    }
    let namespaces = driver.namespaces();
    let core = |index| Rc::new(Station::new(driver.clock(), 1).traced_as(Resource::HostCore, index));
    let cores: Vec<_> = (0..u32::from(manner.cores.max(1))).map(core).collect();
    let rng = Rng::new(manner.seed);
    let mut made = Vec::new();
    for (job, plan) in jobs.iter().enumerate() {
        let Some(namespace) = namespaces.iter().find(|namespace| namespace.nsid == plan.nsid) else {
            bail!("the drive has no namespace {} for job `{}`", plan.nsid, plan.name);
        };
        for worker in 0..plan.workers {
            let entries = (plan.iodepth + 1).next_power_of_two().max(2);
            let queue = driver
                .create_queue_pair(QueueConfig {
                    priority: class(plan.priority),
                    vector: (manner.completion == Completion::Interrupt)
                        .then_some(1 + (made.len() % 63) as u16),
                    cpu: Some(cores[made.len() % cores.len()].clone()),
                    ..QueueConfig::new(entries.min(manner.queue_entries_max))
                })
                .await?;
            let config = ClientConfig {
                method: manner.method,
                bytes_max: payload_bytes_max(plan),
                // Even who does not check writes so that others can.
                oracle: oracles.get(&plan.nsid).cloned(),
            };
            let unchecked = match config.oracle.is_some() && !plan.verify {
                true => {
                    let config = ClientConfig { oracle: None, ..config.clone() };
                    Some(Client::new(queue.clone(), *namespace, config)?)
                }
                false => None,
            };
            made.push(Rc::new(Worker {
                job,
                number: made.len() as u32,
                of_job: worker,
                plan: plan.clone(),
                client: Client::new(queue, *namespace, config)?,
                unchecked,
                generator: RefCell::new(Generator::new(plan, worker, &rng)?),
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

/// A play of workers: one for each run, measured by one meter.
pub struct Play {
    /// What is measured.
    pub meter: Meter,
    clock: Clock,
    workers: Vec<Rc<Worker>>,
    begun: Box<dyn Fn()>,
    under_way: Cell<usize>,
    ended: Notify,
    failure: RefCell<Option<anyhow::Error>>,
    timeline: OnceCell<Rc<Timeline>>,
}

impl Play {
    /// `begun` is called when measuring begins: at once, or when warming up is over.
    pub fn new(
        clock: &Clock,
        workers: Vec<Rc<Worker>>,
        meter: Meter,
        begun: impl Fn() + 'static,
    ) -> Rc<Self> {
        let play = Rc::new(Play {
            meter,
            workers,
            begun: Box::new(begun),
            under_way: Cell::default(),
            ended: Notify::new(clock),
            failure: RefCell::default(),
            timeline: OnceCell::new(),
            clock: clock.clone(),
        });
        play.begin_if_due();
        play
    }

    /// Tells `timeline` of each I/O; to be called before playing.
    pub fn show_on(&self, timeline: Rc<Timeline>) {
        let _ = self.timeline.set(timeline);
    }

    /// The queue pairs of its workers, for a timeline; the workers share `cores` processors.
    pub fn queues(&self, cores: u32) -> Vec<Queue> {
        let queue = |worker: &Rc<Worker>| Queue {
            qid: worker.client.queue().qid(),
            job: worker.plan.name.clone(),
            worker: worker.of_job,
            processor: worker.number % cores.max(1),
        };
        self.workers.iter().map(queue).collect()
    }

    /// Shows an I/O that has ended just now.
    fn show(&self, worker: &Worker, io: Io, due: Time, result: &Result<SpanRecord, IoError>) {
        let Some(timeline) = self.timeline.get() else { return };
        let Some(spans) = worker.client.queue().port().spans() else { return };
        let Some(trail) = spans.take_trail() else { return };
        let error = result.as_ref().err();
        let ended = Ended {
            queue: worker.number,
            io,
            due,
            measured: result.as_ref().is_ok_and(|record| self.meter.counts(worker.job, record.last)),
            error: error.map(|error| error as &dyn std::fmt::Display),
        };
        timeline.ended(&ended, &trail);
        spans.recycle(trail);
    }

    /// Plays to the end of all jobs. Gives what the executor did for it.
    ///
    /// # Errors
    /// An I/O that could not be carried out at all, or a trace that broke; failed commands are only counted.
    pub async fn run(self: &Rc<Self>) -> anyhow::Result<Counters> {
        let before = self.clock.counters();
        let phases = self.workers.iter().map(|worker| worker.plan.phase).max().unwrap_or(0);
        for phase in 0..=phases {
            self.begin_phase(phase);
            while self.under_way.get() > 0 {
                self.ended.notified().await;
            }
        }
        let after = self.clock.counters();
        let broken = self.workers.iter().find_map(|worker| worker.generator.borrow().error().cloned());
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
                self.under_way.set(self.under_way.get() + 1);
                let (play, worker) = (self.clone(), worker.clone());
                self.clock.spawn("job", async move {
                    if let Err(error) = play.work(&worker).await {
                        play.meter.stop();
                        play.failure.borrow_mut().get_or_insert(error);
                    }
                    play.under_way.set(play.under_way.get() - 1);
                    if play.under_way.get() == 0 {
                        play.ended.notify_one();
                    }
                });
            }
        }
    }

    fn begin_if_due(&self) {
        if self.meter.begin_if_due(self.clock.now()) {
            (self.begun)();
        }
    }

    /// One of the I/Os that a worker may have outstanding, over and over.
    async fn work(&self, worker: &Worker) -> anyhow::Result<()> {
        let meter = &self.meter;
        let mut buffer = worker.client.buffer()?;
        let mut unchecked = worker.unchecked.as_ref().map(Client::buffer).transpose()?;
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
                    let mut generator = worker.generator.borrow_mut();
                    let Some(io) = generator.next() else { break };
                    if trims_then_writes && io.kind == Kind::Trim {
                        write = generator.next();
                    }
                    io
                }
            };
            let mut due = self.clock.now();
            within_reach(&worker.plan, due)?;
            if let Some(at) = io.at {
                let at = later(start, at);
                if !closed {
                    worker.late.set(worker.late.get() + u64::from(at < due));
                }
                self.wait_until(&worker.plan, at).await?;
                // A rate is no arrival: nobody waits for an I/O that may not be issued yet.
                due = if closed { self.clock.now() } else { at };
            }
            if let Some(think) = worker.plan.think {
                worker.gate.pass(think).await;
                due = self.clock.now();
                if !meter.goes_on() || end.is_some_and(|end| due >= end) {
                    break;
                }
                worker.gate.enter();
            }
            let number = meter.number();
            let result = match (&worker.unchecked, &mut unchecked) {
                (Some(client), Some(buffer)) if io.kind == Kind::Read => perform(client, buffer, io).await,
                _ => perform(&worker.client, &mut buffer, io).await,
            };
            self.show(worker, io, due, &result);
            match result {
                Ok(record) => {
                    let bytes = u64::from(io.blocks) * u64::from(worker.plan.lba_bytes);
                    let (job, worker) = (worker.job, worker.of_job);
                    meter.completed(&Completed { number, job, worker, io, bytes, due, record });
                }
                Err(IoError::Mismatch(mismatch)) => meter.mismatched(self.clock.now(), mismatch.to_string()),
                Err(IoError::Status(status)) => meter.failed(self.clock.now(), status.to_string()),
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
        let now = self.clock.now();
        if at > now {
            within_reach(plan, at)?;
            self.clock.timer(at.since(now)).await;
        }
        Ok(())
    }

    /// Open loops that didn't keep to their times: their latency says more about the backlog than about the drive.
    pub fn late_notes(&self, jobs: &[JobPlan]) -> Vec<String> {
        let notes = jobs.iter().enumerate().filter_map(|(job, plan)| {
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

async fn perform(client: &Client, buffer: &mut IoBuffer, io: Io) -> Result<SpanRecord, IoError> {
    match io.kind {
        Kind::Read => client.read(buffer, io.lba, io.blocks).await,
        Kind::Write => client.write(buffer, io.lba, io.blocks).await,
        Kind::Trim => client.trim(buffer, &[Range::new(io.lba, io.blocks)]).await,
    }
}

/// The longest payload of one of the job's commands; a trim's is its list of ranges.
pub fn payload_bytes_max(plan: &JobPlan) -> u32 {
    let blocks = match &plan.source {
        Source::Synthetic(synthetic) => {
            let kinds = synthetic.rw.kinds().iter().filter(|kind| **kind != Kind::Trim);
            kinds.map(|kind| synthetic.lengths.get(*kind).max()).max().unwrap_or(1)
        }
        Source::Trace(_) => plan.transfer_blocks_max,
    };
    (blocks * plan.lba_bytes).max(UNIT_BYTES as u32)
}

fn class(priority: Priority) -> QueuePriority {
    match priority {
        Priority::Urgent => QueuePriority::Urgent,
        Priority::High => QueuePriority::High,
        Priority::Medium => QueuePriority::Medium,
        Priority::Low => QueuePriority::Low,
    }
}
