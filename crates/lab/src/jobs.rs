//! Jobs at play: workers on a driver's queues, each of their I/Os measured and verified, until the jobs end. The same
//! for a drive in this simulation and for one that another process serves.

use crate::error::InputError;
use crate::measure::Meter;
use crate::scenario::RUNTIME_MAX;
use crate::workload::{Generator, Io, Issue, JobPlan, Kind, Priority, Source};
use anyhow::bail;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Counters, Delay, Notify, SpanRecord, Station, Time};
use byteway_host::driver::{Driver, QueueConfig};
use byteway_host::io::{Client, ClientConfig, IoBuffer, IoError};
use byteway_host::oracle::{BaseState, Oracle};
use byteway_host::{Completion, Method};
use byteway_wire::content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::{QueuePriority, Range};
use std::cell::{Cell, RefCell};
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
    plan: JobPlan,
    client: Client,
    generator: RefCell<Generator>,
    start: Cell<Time>,
    /// I/Os of an open loop that were due while `iodepth` others were outstanding.
    late: Cell<u64>,
}

impl Worker {
    /// Its queue pair's client.
    pub fn client(&self) -> &Client {
        &self.client
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
    let cores: Vec<_> = (0..manner.cores.max(1)).map(|_| Rc::new(Station::new(driver.clock(), 1))).collect();
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
                oracle: oracles.get(&plan.nsid).cloned(),
            };
            made.push(Rc::new(Worker {
                job,
                plan: plan.clone(),
                client: Client::new(queue, *namespace, config)?,
                generator: RefCell::new(Generator::new(plan, worker, &rng)?),
                start: Cell::default(),
                late: Cell::default(),
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
            clock: clock.clone(),
        });
        play.begin_if_due();
        play
    }

    /// Plays to the end of all jobs. Gives what the executor did for it.
    ///
    /// # Errors
    /// An I/O that could not be carried out at all, or a trace that broke; failed commands are only counted.
    pub async fn run(self: &Rc<Self>) -> anyhow::Result<Counters> {
        let before = self.clock.counters();
        let start = self.clock.now();
        for worker in &self.workers {
            worker.start.set(start);
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
        while self.under_way.get() > 0 {
            self.ended.notified().await;
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

    fn begin_if_due(&self) {
        if self.meter.begin_if_due(self.clock.now()) {
            (self.begun)();
        }
    }

    /// One of the I/Os that a worker may have outstanding, over and over.
    async fn work(&self, worker: &Worker) -> anyhow::Result<()> {
        let meter = &self.meter;
        let mut buffer = worker.client.buffer()?;
        let runtime = worker.plan.runtime.map(|runtime| worker.start.get() + Delay::from_ps(runtime.0));
        let closed = worker.plan.issue == Issue::Closed;
        while meter.goes_on() && runtime.is_none_or(|end| self.clock.now() < end) {
            let Some(io) = worker.generator.borrow_mut().next() else { break };
            let mut due = self.clock.now();
            let at = if closed { None } else { io.at };
            within_reach(&worker.plan, at.unwrap_or(due.0))?;
            if let Some(at) = at {
                due = worker.start.get() + Delay::from_ps(at);
                worker.late.set(worker.late.get() + u64::from(due < self.clock.now()));
                self.clock.sleep_until(due).await;
            }
            match perform(&worker.client, &mut buffer, io).await {
                Ok(record) => {
                    let bytes = u64::from(io.blocks) * u64::from(worker.plan.lba_bytes);
                    meter.completed(worker.job, io.kind, bytes, record.last.since(due), &record);
                }
                Err(IoError::Mismatch(mismatch)) => meter.mismatched(self.clock.now(), mismatch.to_string()),
                Err(IoError::Status(status)) => meter.failed(self.clock.now(), status.to_string()),
                Err(error) => return Err(error.into()),
            }
            self.begin_if_due();
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

/// Whether an I/O at `at_ps` is within what a run may take: times come from traces, rates and host profiles.
fn within_reach(plan: &JobPlan, at_ps: u64) -> Result<(), InputError> {
    if at_ps <= RUNTIME_MAX.0 {
        return Ok(());
    }
    let what = format!(
        "job `{}` goes on beyond 200 days of virtual time, which is as far as a run reaches",
        plan.name
    );
    Err(InputError::new(
        what,
        "give it a `runtime`, a lower `count`, a higher `rate_iops`, or a smaller `time_scale`",
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
        Source::Synthetic(synthetic) => synthetic.io_blocks,
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
