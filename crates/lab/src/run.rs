//! A run: builds drive and host, lets the jobs loose, and gathers what they found.

use crate::build;
use crate::error::InputError;
use crate::interrupt::Interrupt;
use crate::measure::{Meter, Snapshot};
use crate::progress::Progress;
use crate::scenario::{Precondition, RUNTIME_MAX, Scenario};
use crate::summary::{
    ErrorRow, FlashSummary, LinkRow, SeriesRecorder, Summary, Utilisation, Verification, ns, ratio, span_rows,
};
use crate::workload::{Generator, Io, Issue, JobPlan, Kind, Priority};
use anyhow::{Context, anyhow, bail};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Notify, SpanRecord, Stage, Station, Time};
use byteway_device::Drive;
use byteway_host::driver::{Arbitration, Driver, DriverConfig, QueueConfig};
use byteway_host::io::{Client, ClientConfig, IoBuffer, IoError};
use byteway_host::oracle::{BaseState, Oracle};
use byteway_host::{Completion, Port};
use byteway_link::{Direction, HostEnd, Link, Memory, Purpose};
use byteway_wire::content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::feature::{Arbitration as ArbitrationFeature, fid};
use byteway_wire::nvme::{QueuePriority, Range, SetFeatures};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a run shows itself to and listens to.
pub struct Session<'a> {
    /// To be told how far it is.
    pub progress: &'a mut Progress,
    /// Says when to stop; the summary is then marked as partial.
    pub interrupt: &'a Interrupt,
}

/// What a run leaves behind: the summary, and what only a benchmark asks for.
pub struct Finished {
    /// What happened.
    pub summary: Summary,
    /// What the executor did for it, without the setting up.
    pub executor: byteway_clock::Counters,
}

/// Runs a scenario to its end, or until it is interrupted.
pub fn run(scenario: &Scenario, session: Session<'_>) -> anyhow::Result<Summary> {
    let started = Rc::new(|| ());
    run_observed(scenario, session, started).map(|finished| finished.summary)
}

/// The same, and calls `started` when everything is set up and the first I/O is about to be issued.
pub fn run_observed(
    scenario: &Scenario,
    session: Session<'_>,
    started: Rc<dyn Fn()>,
) -> anyhow::Result<Finished> {
    let Session { progress, interrupt } = session;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let memory = Memory::simulated();
    let (host, device) = Link::connect(&clock, build::link(&scenario.drive.profile), memory);
    let drive = Rc::new(Drive::new(&device, build::drive(scenario)).context("the drive can't be built")?);
    let bar = std::mem::replace(progress, Progress::hidden());
    let stage = Setting { clock, host, drive, scenario: scenario.clone(), started };
    let (result, bar) = executor
        .run(stage.play(bar, interrupt.clone()))
        .map_err(|stalled| anyhow!("{stalled}; this is a defect of Byteway: please report the scenario"))?;
    *progress = bar;
    result
}

/// Everything on stage.
struct Setting {
    clock: Clock,
    host: HostEnd,
    drive: Rc<Drive>,
    scenario: Scenario,
    started: Rc<dyn Fn()>,
}

/// A worker: one queue pair and where its I/Os come from.
struct Worker {
    job: usize,
    plan: JobPlan,
    client: Client,
    generator: RefCell<Generator>,
    start: Cell<Time>,
    /// I/Os of an open loop that were due while `iodepth` others were outstanding.
    late: Cell<u64>,
}

impl Setting {
    /// Runs the jobs; gives the result and the progress bar back.
    async fn play(self, progress: Progress, interrupt: Interrupt) -> (anyhow::Result<Finished>, Progress) {
        let workers = match self.set_up().await {
            Ok(workers) => workers,
            Err(error) => return (Err(error), progress),
        };
        let start = self.clock.now();
        let series = self.scenario.interval.map(|interval| SeriesRecorder::new(interval.0));
        let jobs = self.scenario.jobs.len();
        let meter = Rc::new(Meter::new(jobs, start, self.scenario.warmup, series, progress, interrupt));
        let setting = Rc::new(self);
        setting.begin_if_due(&meter);
        let left = Rc::new(Cell::new(0usize));
        let ended = Rc::new(Notify::new(&setting.clock));
        let failure = Rc::new(RefCell::new(None));
        (setting.started)();
        let before = setting.clock.counters();
        for worker in &workers {
            worker.start.set(start);
            for _ in 0..worker.plan.iodepth {
                left.set(left.get() + 1);
                let (setting, meter, worker) = (setting.clone(), meter.clone(), worker.clone());
                let (left, ended, failure) = (left.clone(), ended.clone(), failure.clone());
                setting.clock.clone().spawn("job", async move {
                    if let Err(error) = setting.work(&meter, &worker).await {
                        meter.stop();
                        failure.borrow_mut().get_or_insert(error);
                    }
                    left.set(left.get() - 1);
                    if left.get() == 0 {
                        ended.notify_one();
                    }
                });
            }
        }
        while left.get() > 0 {
            ended.notified().await;
        }
        let after = setting.clock.counters();
        let executor = byteway_clock::Counters {
            polls: after.polls - before.polls,
            timers: after.timers - before.timers,
        };
        let broken = workers.iter().find_map(|worker| worker.generator.borrow().error().cloned());
        let result = match (failure.take(), broken) {
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.into()),
            (None, None) => setting.finish(&meter).map(|mut summary| {
                summary.notes.extend(setting.late_notes(&workers));
                Finished { summary, executor }
            }),
        };
        // Tasks have ended, but their last poll may still hold a reference.
        setting.clock.yield_now().await;
        let meter = Rc::try_unwrap(meter).ok();
        (result, meter.map_or_else(Progress::hidden, Meter::into_progress))
    }

    /// Attaches the driver and makes queue pairs, oracles and generators.
    async fn set_up(&self) -> anyhow::Result<Vec<Rc<Worker>>> {
        let scenario = &self.scenario;
        let plan = &scenario.host;
        let completion = build::completion(plan);
        let weighted = build::weighted(plan);
        let workers: u32 = scenario.jobs.iter().map(|job| job.workers).sum();
        let costs = build::host_costs(plan);
        let config = DriverConfig {
            costs,
            completion,
            queues_wanted: workers.min(u32::from(u16::MAX - 1)) as u16,
            arbitration: if weighted { Arbitration::Weighted } else { Arbitration::RoundRobin },
            timeout: Some(Delay::from_ps(plan.profile.timeout.0)),
            ..DriverConfig::default()
        };
        let driver = Driver::attach(Port::Link(self.host.clone()), config).await?;
        if u32::from(driver.queues_granted()) < workers {
            bail!(
                "the jobs want {workers} queue pairs and the drive has {}: lower numjobs, or raise \
                 controller.max_io_queues",
                driver.queues_granted()
            );
        }
        if weighted {
            self.set_weights(&driver).await?;
        }
        let namespaces = driver.namespaces();
        let oracles: Vec<_> = namespaces
            .iter()
            .map(|namespace| {
                let block =
                    BlockSize::from_bytes(namespace.block_bytes.into()).expect("the drive has these two");
                let tag = namespace.nsid as u16;
                let base = match scenario.drive.precondition {
                    Precondition::Empty => BaseState::Zeroes,
                    Precondition::Filled | Precondition::Steady => BaseState::Stamped { tag },
                };
                Rc::new(RefCell::new(Oracle::new(namespace.blocks, block, tag, base)))
            })
            .collect();
        let cores: Vec<_> =
            (0..plan.profile.cores.max(1)).map(|_| Rc::new(Station::new(&self.clock, 1))).collect();
        let rng = Rng::new(scenario.seed);
        let mut made = Vec::new();
        for (job, plan) in scenario.jobs.iter().enumerate() {
            for worker in 0..plan.workers {
                let entries = (plan.iodepth + 1).next_power_of_two().max(2);
                let entries = entries.min(scenario.drive.profile.controller.max_queue_entries);
                let queue = driver
                    .create_queue_pair(QueueConfig {
                        priority: class(plan.priority),
                        vector: (completion == Completion::Interrupt).then_some(1 + (made.len() % 63) as u16),
                        cpu: Some(cores[made.len() % cores.len()].clone()),
                        ..QueueConfig::new(entries)
                    })
                    .await?;
                let index = plan.nsid as usize - 1;
                let config = ClientConfig {
                    method: build::method(&scenario.host),
                    bytes_max: payload_bytes_max(plan),
                    oracle: scenario.host.verify.then(|| oracles[index].clone()),
                };
                let client = Client::new(queue, namespaces[index], config)?;
                let generator = RefCell::new(Generator::new(plan, worker, &rng)?);
                made.push(Rc::new(Worker {
                    job,
                    plan: plan.clone(),
                    client,
                    generator,
                    start: Cell::default(),
                    late: Cell::default(),
                }));
            }
        }
        Ok(made)
    }

    async fn set_weights(&self, driver: &Driver) -> anyhow::Result<()> {
        let weights = &self.scenario.host.weights;
        let burst = self.scenario.drive.profile.controller.arbitration_burst.unwrap_or(128);
        let arbitration = ArbitrationFeature::new()
            .with_ab((u32::from(burst).ilog2()).min(7) as u8)
            .with_hpw_z((weights.high - 1) as u8)
            .with_mpw_z((weights.medium - 1) as u8)
            .with_lpw_z((weights.low - 1) as u8);
        let command =
            SetFeatures { fid: fid::ARBITRATION, cdw11: arbitration.into_bits(), ..SetFeatures::default() };
        let answer = driver.admin(command.sqe(0, 0), byteway_host::Data::None).await?;
        if !answer.status().is_success() {
            bail!("the drive refused the weights: {}", answer.status());
        }
        Ok(())
    }

    fn begin_if_due(&self, meter: &Meter) {
        if meter.is_due(self.clock.now()) {
            meter.last.set(self.clock.now());
            meter.begin.replace(Some(Snapshot::take(&self.clock, &self.host, &self.drive)));
        }
    }

    /// One of the I/Os that a worker may have outstanding, over and over.
    async fn work(&self, meter: &Meter, worker: &Worker) -> anyhow::Result<()> {
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
            self.begin_if_due(meter);
        }
        Ok(())
    }

    /// Open loops that didn't keep to their times: their latency says more about the backlog than about the drive.
    fn late_notes(&self, workers: &[Rc<Worker>]) -> Vec<String> {
        let jobs = self.scenario.jobs.iter().enumerate();
        jobs.filter_map(|(job, plan)| {
            let late = workers.iter().filter(|worker| worker.job == job).map(|worker| worker.late.get()).sum::<u64>();
            (late > 0).then(|| {
                format!(
                    "job {}: {late} I/Os were issued after they were due, because iodepth = {} were outstanding; the wait is in \
                     their latency",
                    plan.name, plan.iodepth
                )
            })
        })
        .collect()
    }

    /// Everything of the measured part, and whether the books balance.
    fn finish(&self, meter: &Meter) -> anyhow::Result<Summary> {
        self.balance()?;
        let scenario = &self.scenario;
        let begin = meter.begin.take();
        let mut notes = scenario.notes();
        let begin = match begin {
            Some(begin) => begin,
            None => {
                notes.push("the run ended while it was warming up: nothing was measured".to_owned());
                Snapshot::take(&self.clock, &self.host, &self.drive)
            }
        };
        let end = Snapshot::take(&self.clock, &self.host, &self.drive);
        let elapsed = meter.last.get().since(begin.at);
        let elapsed_ps = elapsed.0;
        let jobs: Vec<_> = meter
            .jobs
            .borrow()
            .iter()
            .zip(meter.last_of_job.borrow().iter())
            .zip(&scenario.jobs)
            // A job that ends before the others is measured over its own time.
            .map(|((recorder, last), plan)| recorder.finish(&plan.name, last.since(begin.at).0))
            .collect();
        let ios = jobs.iter().map(|job| job.ios).sum::<u64>();
        let bytes = jobs.iter().map(|job| u128::from(job.bytes)).sum::<u128>();
        let per_second = |count: u128| ratio(count * 1_000_000_000_000, elapsed_ps.into());
        let stages = meter.stages.borrow();
        let spans: Vec<_> = Stage::ALL.iter().map(|stage| (stage.name(), stages[*stage as usize])).collect();
        let written = end.ftl.user_units_written > begin.ftl.user_units_written;
        if let Some(first) = meter.first_mismatch.take() {
            notes.push(format!("DATA DID NOT VERIFY: {first}"));
        }
        let profile = &scenario.drive.profile;
        Ok(Summary {
            byteway: env!("CARGO_PKG_VERSION"),
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            partial: meter.was_stopped(),
            drive_profile: scenario.drive.profile_name.clone(),
            drive_model: profile.drive.model.clone(),
            capacity_bytes: scenario.drive.geometry.capacity_bytes,
            host_profile: scenario.host.profile_name.clone(),
            completion: scenario.host.profile.completion,
            elapsed_ns: ns(elapsed_ps),
            ios,
            iops: per_second(ios.into()),
            bytes_per_second: per_second(bytes),
            jobs,
            spans: span_rows(&spans, ios),
            link: link_rows(&end, &begin),
            utilisation: self.utilisation(&begin, &end),
            flash: flash_summary(&end, &begin),
            write_amplification: written.then(|| write_amplification(&end, &begin)),
            verification: Verification {
                on: scenario.host.verify,
                reads: meter.jobs.borrow().iter().map(|job| job.reads()).sum(),
                mismatches: meter.mismatches.get(),
            },
            errors: meter
                .errors
                .borrow()
                .iter()
                .map(|(status, count)| ErrorRow { status: status.clone(), count: *count })
                .collect(),
            series: meter.series.borrow().as_ref().map(SeriesRecorder::finish),
            notes,
        })
    }

    /// The ledger, host memory and the controller have counted the same bytes, each for itself.
    fn balance(&self) -> anyhow::Result<()> {
        let ledger = self.host.ledger();
        let counters = self.drive.controller.counters();
        let payload = |purpose, direction| ledger.entry(purpose, direction).payload;
        let lists =
            payload(Purpose::PrpList, Direction::Down) + payload(Purpose::SglSegment, Direction::Down);
        let memory = self.host.memory();
        let down =
            payload(Purpose::Data, Direction::Down) + payload(Purpose::SqeFetch, Direction::Down) + lists;
        let up = payload(Purpose::Data, Direction::Up) + payload(Purpose::Cqe, Direction::Up);
        let checks = [
            ("bytes read from host memory", down, memory.dma_read_bytes()),
            ("bytes written to host memory", up, memory.dma_written_bytes()),
            (
                "bytes of entries fetched",
                payload(Purpose::SqeFetch, Direction::Down),
                counters.fetched.get() * 64,
            ),
            ("bytes of completions posted", payload(Purpose::Cqe, Direction::Up), counters.posted.get() * 16),
            (
                "bytes of data to the host",
                payload(Purpose::Data, Direction::Up),
                counters.data_out_bytes.get(),
            ),
        ];
        // A DMA that fetches whole units brings more than the commands asked for, and one that failed less.
        let exact = self.scenario.drive.profile.controller.dma_unit.0 == 1;
        let brought = (
            "bytes of data to the device",
            payload(Purpose::Data, Direction::Down),
            counters.data_in_bytes.get(),
        );
        let mut checks = checks.iter().chain(exact.then_some(&brought));
        match checks.find(|(_, ledger, counted)| ledger != counted) {
            Some((what, ledger, counted)) => {
                bail!(
                    "the books don't balance: {what}: {ledger} in the ledger, {counted} counted; this is a defect"
                )
            }
            None => Ok(()),
        }
    }

    fn utilisation(&self, begin: &Snapshot, end: &Snapshot) -> Vec<Utilisation> {
        let elapsed = end.at.since(begin.at).0;
        let each = |now: &[Delay], then: &[Delay]| -> Vec<u64> {
            now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then).0).collect()
        };
        let cores = self.drive.site.cores() as u64;
        let core = end.cores.saturating_sub(begin.cores).0 / cores;
        let down = end.link.0.saturating_sub(begin.link.0).0;
        let up = end.link.1.saturating_sub(begin.link.1).0;
        vec![
            Utilisation::of("dies", each(&end.dies, &begin.dies), elapsed),
            Utilisation::of("channels", each(&end.channels, &begin.channels), elapsed),
            Utilisation::of("cores", (0..cores).map(|_| core), elapsed),
            Utilisation::of("link to device", [down], elapsed),
            Utilisation::of("link to host", [up], elapsed),
        ]
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

fn payload_bytes_max(plan: &JobPlan) -> u32 {
    let blocks = match &plan.source {
        crate::workload::Source::Synthetic(synthetic) => synthetic.io_blocks,
        crate::workload::Source::Trace(_) => plan.transfer_blocks_max,
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

fn link_rows(end: &Snapshot, begin: &Snapshot) -> Vec<LinkRow> {
    let ledger = end.ledger.since(&begin.ledger);
    let mut rows = Vec::new();
    for purpose in Purpose::ALL {
        for direction in Direction::ALL {
            let entry = ledger.entry(purpose, direction);
            if entry.tlps > 0 {
                rows.push(LinkRow {
                    purpose: purpose.name().to_owned(),
                    direction: direction.name().to_owned(),
                    crossings: entry.tlps,
                    payload_bytes: entry.payload,
                    wire_bytes: entry.wire,
                });
            }
        }
    }
    rows
}

fn flash_summary(end: &Snapshot, begin: &Snapshot) -> FlashSummary {
    use byteway_flash::Priority;
    let (now, then) = (&end.flash, &begin.flash);
    let since = |now: &[u64; 3], then: &[u64; 3], class: Priority| now[class as usize] - then[class as usize];
    FlashSummary {
        host_reads: since(&now.reads, &then.reads, Priority::HostRead),
        host_programs: since(&now.programs, &then.programs, Priority::HostProgram),
        collect_reads: since(&now.reads, &then.reads, Priority::Collector),
        collect_programs: since(&now.programs, &then.programs, Priority::Collector),
        erases: now.erases - then.erases,
    }
}

/// Units programmed for each that the host wrote, to six decimals.
fn write_amplification(end: &Snapshot, begin: &Snapshot) -> f64 {
    let programmed = end.ftl.units_programmed() - begin.ftl.units_programmed();
    let written = end.ftl.user_units_written - begin.ftl.user_units_written;
    ratio(programmed.into(), written.into())
}
