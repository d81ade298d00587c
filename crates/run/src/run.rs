//! A simulated run: builds the world of a scenario, runs the jobs, and collects the results.

use crate::build::{self, Built};
use crate::error::RunError;
use crate::jbof::JbofSnapshot;
use crate::jobs::{self, Oracles, Play, Sink, Worker, WorkerOptions};
use crate::remote::{self, Remote, RemoteSnapshot};
use byteway_clock::{Clock, Delay, Executor, Notify, RunOutcome, Station, Time};
use byteway_content::UNIT_BYTES;
use byteway_firmware::{Base, Footprint, Ftl, FtlCounters};
use byteway_flash::Flash;
use byteway_host::BaseState;
use byteway_host::{Driver, DriverConfig};
use byteway_host::{Method, Port};
use byteway_jbof::{Jbof, JbofError};
use byteway_link::Ledger;
use byteway_pushdown::drive_model::DriveModel;
use byteway_results::host::{HostCost, HostMemory, HostUsage};
use byteway_results::output::{OutputError, Unfinished};
use byteway_results::results::{DriveResults, Results, Wear, steadiness};
use byteway_results::summary::{
    ArraySummary, BulkRow, FlashSummary, HostSummary, KvSummary, PolicyRow, Summary, TransferSummary,
    Utilisation, link_rows,
};
use byteway_results::timeline::{Timeline, TrackDrive, TrackLayout};
use byteway_results::{
    IoRecorder, MeasuredDrive, Meter, NOTHING_MEASURED, Parts, RunPart, Sample, SampledDrive, SeriesRecorder,
    Snapshot, store, upkeep, wear,
};
use byteway_scenario::{AddedPolicy, Attached, DrivePlan, Scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::number::ratio;
use byteway_text::progress::Progress;
use byteway_wire::nvme::SetFeatures;
use byteway_wire::nvme::feature::{Arbitration as ArbitrationFeature, fid};
use byteway_workload::JobPlan;
use byteway_world::{PoweredDrive, World};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

mod steady;

/// Progress display and interrupt of a run.
pub struct Session<'a> {
    /// Receives the progress.
    pub progress: &'a mut Progress,
    /// Requests an early end; the summary is then marked as partial.
    pub interrupt: &'a Interrupt,
}

/// Results of a run, including those that only benchmarks use.
pub struct Finished {
    /// Results.
    pub results: Results,
    /// Executor counters, without the set-up.
    pub executor: byteway_clock::Counters,
    /// ios.parquet, if requested.
    pub ios: Option<Result<Unfinished, OutputError>>,
}

/// Runs a scenario to its end, or until interrupted.
///
/// # Errors
/// An unsupported drive, a job that cannot be executed, or a defect. Failed commands and reads of wrong data are counted in the results.
pub fn run(scenario: &Scenario, session: Session<'_>) -> Result<Results, RunError> {
    Ok(perform(scenario, session, Rc::new(|| ()), Records::default())?.results)
}

/// Recordings during a run, in addition to the results.
#[derive(Default)]
pub struct Records {
    /// Every measured I/O.
    pub ios: Option<IoRecorder>,
    /// The first I/Os, and every use of every resource during them.
    pub timeline: Option<Rc<Timeline>>,
}

/// Like [`run`], with recordings. Returns ios.parquet, complete but not yet under its name, or the error.
pub fn run_recorded(
    scenario: &Scenario,
    session: Session<'_>,
    records: Records,
) -> Result<(Results, Option<Result<Unfinished, OutputError>>), RunError> {
    let finished = perform(scenario, session, Rc::new(|| ()), records)?;
    Ok((finished.results, finished.ios))
}

/// Like [`run`]. Calls `mark` after the set-up, before the first I/O, and again after the last completion.
pub fn run_observed(
    scenario: &Scenario,
    session: Session<'_>,
    mark: Rc<dyn Fn()>,
) -> Result<Finished, RunError> {
    perform(scenario, session, mark, Records::default())
}

fn perform(
    scenario: &Scenario,
    session: Session<'_>,
    mark: Rc<dyn Fn()>,
    records: Records,
) -> Result<Finished, RunError> {
    let Session { progress, interrupt } = session;
    let scenario = &steady::with_loads(scenario, interrupt)?;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let Built { world, jbof, interrupt_processors } = build::world(&executor, scenario, interrupt)?;
    let world = Rc::new(world);
    let bar = std::mem::replace(progress, Progress::hidden());
    let Records { ios, timeline } = records;
    let ios = Cell::new(ios);
    let powered = world.clone();
    let remote = OnceCell::new();
    let scenario = scenario.clone();
    let context = Rc::new(RunContext {
        clock,
        world,
        scenario,
        mark,
        ios,
        timeline,
        remote,
        jbof,
        interrupt_processors,
        is_pulled_out: Cell::default(),
        began: Cell::default(),
    });
    // Once the jobs have started, they check the interrupt themselves and end with partial results.
    let is_to_stop = {
        let (context, interrupt) = (context.clone(), interrupt.clone());
        move || context.began.get().is_none() && interrupt.is_raised()
    };
    let ran =
        executor.run_unless(context.play(bar, interrupt.clone()), is_to_stop).map_err(RunError::Stalled)?;
    let RunOutcome::Ended((result, bar)) = ran else { return Err(RunError::Interrupted) };
    *progress = bar;
    powered.power_off();
    result
}

/// The parts of a run.
struct RunContext {
    clock: Clock,
    world: Rc<World>,
    scenario: Scenario,
    mark: Rc<dyn Fn()>,
    ios: Cell<Option<IoRecorder>>,
    timeline: Option<Rc<Timeline>>,
    /// The target of the drives, once it exists.
    remote: OnceCell<Remote>,
    /// The JBOF of the drives, if any.
    jbof: Option<Rc<Jbof>>,
    /// Per drive: the processor that handles interrupts of vectors without a queue's processor.
    interrupt_processors: Vec<Rc<Station>>,
    /// Whether the array's drive to be removed has been removed.
    is_pulled_out: Cell<bool>,
    /// Start of the jobs.
    began: Cell<Option<Time>>,
}

/// Counters at the start of the measurement, or at the end of all jobs.
#[derive(Default)]
struct Counted {
    at: Time,
    /// For drives whose jobs start later than others: counters at that time.
    drives: Vec<Snapshot>,
    remote: RemoteSnapshot,
    jbof: JbofSnapshot,
    host: HostUsage,
    /// Busy time of each host processor, including those that take drives' interrupts.
    processors: Vec<Delay>,
}

impl Counted {
    /// Utilization of the host's processors until `end`.
    fn processors_until(&self, end: &Counted) -> Utilisation {
        let elapsed_ps = end.at.since(self.at).0;
        let busy = end.processors.iter().zip(&self.processors).map(|(now, then)| now.saturating_sub(*then));
        Utilisation::of("host processors", busy.map(|busy| (busy.0, elapsed_ps)))
    }
}

/// Counters of a drive at the end of its last job.
struct DriveEnd {
    snapshot: Snapshot,
    wear: Wear,
}

/// A drive over the measured part of its jobs.
struct Measured<'a> {
    plan: &'a DrivePlan,
    cores: u64,
    begin: &'a Snapshot,
    end: &'a DriveEnd,
}

/// Number of cores of a drive, or of its parts.
fn cores(powered: &PoweredDrive) -> u64 {
    powered.sites().iter().map(|site| site.cores() as u64).sum()
}

/// What is not built in of drives and their jobs, each once: policies, the transfer method, sources of I/Os, trace formats.
fn policies<'a>(
    method: Method,
    drives: impl Iterator<Item = &'a DrivePlan>,
    jobs: impl Iterator<Item = &'a JobPlan>,
) -> Vec<PolicyRow> {
    let row = |key: &str, name: &str, hash: &str| PolicyRow {
        key: key.to_owned(),
        name: name.to_owned(),
        hash: hash.to_owned(),
    };
    let of_drive = |drive: &'a DrivePlan| {
        drive.policies.added().map(|AddedPolicy { key, name, hash, .. }| row(key, name, hash))
    };
    let of_job = |job: &JobPlan| job.added().map(|(key, name, hash)| row(key, name, hash));
    let mut rows: Vec<PolicyRow> = drives.flat_map(DrivePlan::members).flat_map(of_drive).collect();
    rows.extend(jobs.filter_map(of_job));
    if let Method::Own(own) = method {
        rows.push(row("transfer.method", method.name(), own.hash()));
    }
    rows.sort();
    rows.dedup();
    rows
}

/// The parts of a drive.
fn parts(powered: &PoweredDrive) -> Parts<'_> {
    Parts {
        layers: powered.layers(),
        links: powered.links(),
        arrays: powered.arrays(),
        sites: powered.sites(),
    }
}

impl RunContext {
    /// Counters of each drive.
    fn snapshots(&self) -> Vec<Snapshot> {
        self.world.drives().iter().map(|drive| self.snapshot(drive)).collect()
    }

    /// All counters.
    fn count(&self) -> Counted {
        let remote = self.remote.get().map(Remote::snapshot).unwrap_or_default();
        let at = self.clock.now();
        // The processors of a pool share its busy time evenly.
        let each = |processor: &Rc<Station>| {
            let servers = processor.servers() as u64;
            vec![Delay(processor.busy().0 / servers); servers as usize]
        };
        let processors = self.all_processors().flat_map(each).collect();
        let drives = self.world.drives();
        let jbof = self.jbof.as_ref().map(|jbof| JbofSnapshot::take(jbof, drives, at)).unwrap_or_default();
        Counted { at, drives: self.snapshots(), remote, jbof, host: self.host_usage(), processors }
    }

    /// The host's processors, and those that only take drives' interrupts.
    fn all_processors(&self) -> impl Iterator<Item = &Rc<Station>> {
        let own = self.world.host.processors();
        let others =
            self.interrupt_processors.iter().filter(|one| !own.iter().any(|own| Rc::ptr_eq(own, one)));
        own.iter().chain(others)
    }

    /// Usage of the host's processors, if it is tracked separately.
    fn host_usage(&self) -> HostUsage {
        HostUsage::of(self.all_processors().map(Rc::as_ref))
    }

    /// Host cost of I/O since `begin`.
    fn host_summary(&self, begin: &Counted, ios: u64) -> HostSummary {
        let elapsed_ps = self.clock.now().since(begin.at).0;
        let usage = self.host_usage().since(&begin.host);
        let processors = self.world.host.count() as u64;
        HostSummary::new(&usage, processors, elapsed_ps, ios, &self.host_memory())
    }

    /// Host memory used for the drives.
    fn host_memory(&self) -> HostMemory {
        let mut memory = HostMemory { system: self.scenario.host.profile.memory.0, ..HostMemory::default() };
        let drives = self.world.drives().iter().zip(&self.scenario.drives);
        for (array, whole) in drives.clone().filter_map(|(powered, attached)| {
            let whole = attached.plan.array.as_ref()?;
            Some((powered.drive.controller.backing().array()?, whole))
        }) {
            memory.array += array.memory().total();
            let images = whole.members.iter().filter_map(|member| member.profile.endpoints.as_ref());
            memory.system += images.map(|endpoints| endpoints.image.0).sum::<u64>();
        }
        for (powered, attached) in drives {
            memory.driver += powered.memory.allocated_bytes();
            if powered.is_called {
                let links = powered.links().into_iter();
                memory.driver += links.map(|link| link.memory().allocated_bytes()).sum::<u64>();
            }
            let profile = &attached.plan.profile;
            let mut firmware = Footprint::default();
            powered.layers().iter().for_each(|layer| firmware += layer.footprint());
            if profile.firmware.on_host.as_ref().is_some_and(|on_host| on_host.map) {
                memory.map += firmware.map;
            }
            if let Some(endpoints) = &profile.endpoints {
                if attached.plan.array.is_none() {
                    memory.system += endpoints.image.0;
                }
                memory.map += firmware.map;
                memory.buffer += firmware.buffer + firmware.parts + firmware.buffer_index;
                memory.bounce += powered.drive.controller.placement().bounce_bytes();
                memory.read_cache += firmware.read_cache;
                memory.superblocks += firmware.superblocks;
            }
        }
        memory
    }

    /// Host cost of I/O, if it is tracked.
    fn host_cost(&self) -> Option<HostCost> {
        let is_followed = self.scenario.accounts_for_host();
        is_followed.then(|| HostCost { usage: self.host_usage(), memory: self.host_memory() })
    }

    fn snapshot(&self, powered: &PoweredDrive) -> Snapshot {
        let snapshot = Snapshot::take(&self.clock, &powered.drive, &parts(powered));
        Snapshot { host: self.host_cost(), ..snapshot }
    }

    /// Runs the jobs; returns the results and the progress display.
    async fn play(
        self: Rc<Self>,
        progress: Progress,
        interrupt: Interrupt,
    ) -> (Result<Finished, RunError>, Progress) {
        let workers = match self.clone().set_up_all().await {
            Ok(workers) => workers,
            Err(error) => return (Err(error), progress),
        };
        let scenario = &self.scenario;
        let start = self.clock.now();
        self.began.set(Some(start));
        let cores = self.world.drives().iter().map(|drive| cores(drive));
        let counters = self.snapshots().iter().map(Sample::from).zip(cores).collect();
        let series = SeriesRecorder::new(&scenario.jobs, start, scenario.interval).with_drives(counters);
        let meter = Meter::new(&scenario.jobs, start, series, scenario.warmup, progress, interrupt);
        if let Some(ios) = self.ios.take() {
            meter.record_ios(ios);
        }
        let begin: Rc<RefCell<Option<Counted>>> = Rc::default();
        let (context, snapshots) = (self.clone(), begin.clone());
        let play =
            Play::new(&self.clock, workers, meter, move |part| match (part, &mut *snapshots.borrow_mut()) {
                (RunPart::Drive(drive), Some(begin)) => {
                    begin.drives[drive] = context.snapshot(&context.world.drives()[drive]);
                }
                (_, begin) => *begin = Some(context.count()),
            });
        self.observe(&play);
        let ends: Rc<RefCell<Vec<Option<DriveEnd>>>> = Rc::default();
        ends.borrow_mut().resize_with(scenario.drives.len(), || None);
        let (context, ended) = (self.clone(), ends.clone());
        play.when_drive_ends(move |drive| {
            ended.borrow_mut()[drive] = Some(context.end_of(drive));
        });
        self.begin_timeline(&play);
        self.pull_out();
        (self.mark)();
        let played = play.run().await;
        (self.mark)();
        if let Some(jbof) = &self.jbof {
            jbof.quiesce().await;
        }
        self.clock.stop_observing();
        self.end_timeline();
        let played = self.policy_fault().map_or(played, |fault| Err(RunError::Policy(fault)));
        let result = played.and_then(|executor| {
            let ends = ends.take().into_iter().enumerate();
            let ends = ends.map(|(drive, end)| end.unwrap_or_else(|| self.end_of(drive))).collect();
            let results = self.finish(&play, begin.take(), ends)?;
            let ios = play.meter.take_ios().map(IoRecorder::finish);
            Ok(Finished { results, executor, ios })
        });
        (result, play.meter.take_progress())
    }

    /// Notes on an array from which a drive was removed, or should have been.
    fn array_notes(&self, summary: &Summary) -> Vec<String> {
        let mut notes = Vec::new();
        let array = self.scenario.drives[0].plan.array.as_ref();
        if let Some(unplug) = array.and_then(|array| array.section.unplug) {
            notes.push(match self.is_pulled_out.get() {
                true => format!("drive {} of the array was removed {} after the start of the jobs", unplug.member, unplug.at),
                false => format!(
                    "drive {} of the array should have been removed {} after the start of the jobs, which had ended before",
                    unplug.member, unplug.at
                ),
            });
        }
        if summary.array.as_ref().is_some_and(|array| array.is_broken) {
            notes.push("the array is broken: too many of its drives failed; lost data is unreadable, and writes are refused".to_owned());
        }
        notes
    }

    /// Removes a drive of an array at the time in the scenario.
    fn pull_out(self: &Rc<Self>) {
        let array = self.scenario.drives[0].plan.array.as_ref();
        if let Some(unplug) = array.and_then(|array| array.section.unplug) {
            let context = self.clone();
            self.clock.spawn("unplugged", async move {
                context.clock.sleep(Delay::from_ps(unplug.at.0)).await;
                if let Some(member) = context.world.drives()[0].behind.get(usize::from(unplug.member)) {
                    member.pull_out();
                    context.is_pulled_out.set(true);
                }
            });
        }
    }

    /// What a drive's policy did wrong, if one did.
    fn policy_fault(&self) -> Option<String> {
        self.world.drives().iter().find_map(|drive| {
            let of_layers = drive.layers().into_iter().find_map(Ftl::policy_fault);
            of_layers.or_else(|| drive.arrays().into_iter().find_map(Flash::policy_fault))
        })
    }

    fn end_of(&self, drive: usize) -> DriveEnd {
        let (powered, plan) = (&self.world.drives()[drive], &self.scenario.drives[drive].plan);
        DriveEnd {
            snapshot: self.snapshot(powered),
            wear: wear(&powered.layers(), plan.profile.flash.endurance.into(), plan.worn.0 > 0.0),
        }
    }

    /// Ends the steps of the time series on the clock, each with the drives' counters.
    fn observe(self: &Rc<Self>, play: &Rc<Play>) {
        let (series, play) = (play.meter.series_recorder(), Rc::downgrade(play));
        let context = self.clone();
        let drives = self.world.drives().iter();
        let drives: Vec<SampledDrive> =
            drives.map(|powered| SampledDrive::new(powered.drive.clone(), &parts(powered))).collect();
        let mut now: Vec<Sample> = drives.iter().map(|_| Sample::default()).collect();
        let first = series.borrow().until();
        self.clock.observe(first, move |_| {
            let mut series = series.borrow_mut();
            let host = context.host_cost();
            for (drive, sample) in drives.iter().zip(&mut now) {
                drive.sample(sample);
                sample.host.clone_from(&host);
            }
            series.end_step(&mut now);
            // What follows would be the figures of another policy.
            if drives.iter().any(|drive| drive.policy_fault().is_some())
                && let Some(play) = play.upgrade()
            {
                play.meter.stop();
            }
            Some(series.until())
        });
    }

    /// Starts recording link transfers in the timeline, from the snapshots just taken.
    fn begin_timeline(&self, play: &Play) {
        let Some(timeline) = &self.timeline else { return };
        let cores = u32::from(self.scenario.host.profile.cores).max(1);
        let is_several = self.is_several();
        let drives = self.world.drives().iter().zip(&self.scenario.drives).map(|(powered, attached)| {
            let (mut channels, mut dies) = (0, Vec::new());
            for flash in powered.arrays() {
                let geometry = flash.geometry();
                dies.extend((0..geometry.dies()).map(|die| channels + geometry.channel_of_die(die)));
                channels += geometry.channels;
            }
            TrackDrive {
                name: attached.plan.name.clone().filter(|_| is_several),
                cores: powered.drive.site.cores() as u32,
                channels,
                dies,
            }
        });
        let layout = TrackLayout { processors: cores, drives: drives.collect(), queues: play.queues(cores) };
        self.clock.spans().record(timeline.ios_max());
        play.show_on(timeline.clone());
        timeline.begin(&self.clock, &layout);
    }

    fn end_timeline(&self) {
        if let Some(timeline) = &self.timeline {
            for powered in self.world.drives() {
                powered.arrays().into_iter().for_each(Flash::trace_under_way);
            }
            timeline.end(&self.clock);
        }
    }

    fn is_several(&self) -> bool {
        self.scenario.drives.len() > 1
    }

    /// Attaches all drivers concurrently, and creates their workers in the order of the jobs.
    async fn set_up_all(self: Rc<Self>) -> Result<Vec<Rc<Worker>>, RunError> {
        if let Some(plan) = &self.scenario.target {
            let remote = Remote::build(&self.clock, plan, &self.world, &self.scenario).await?;
            let _ = self.remote.set(remote);
        }
        let (found, ended) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Notify::new(&self.clock)));
        for drive in 1..self.scenario.drives.len() {
            let (context, found, ended) = (self.clone(), found.clone(), ended.clone());
            self.clock.spawn("set-up", async move {
                let workers = context.set_up(drive).await;
                found.borrow_mut().push(workers);
                ended.notify_one();
            });
        }
        let mut workers = self.set_up(0).await?;
        while found.borrow().len() + 1 < self.scenario.drives.len() {
            ended.notified().await;
        }
        for others in found.take() {
            workers.extend(others?);
        }
        workers.sort_by_key(|worker| worker.number());
        Ok(workers)
    }

    /// Attaches a drive's driver, and creates queue pairs, oracles and generators.
    async fn set_up(&self, drive: usize) -> Result<Vec<Rc<Worker>>, RunError> {
        let scenario = &self.scenario;
        let Attached { plan, transfer } = &scenario.drives[drive];
        let weighted = build::weighted(&scenario.host);
        let remote = self.remote.get();
        let own = build::driver(scenario, drive, self.interrupt_processors[drive].clone());
        let completion = own.completion;
        let driver = match (&self.jbof, remote) {
            (Some(jbof), _) => jbof.driver(drive).ok_or(RunError::NotBoxed(JbofError::Gone(drive)))?,
            (None, Some(remote)) => {
                let config = DriverConfig { costs: remote.host_costs(own.costs), ..own };
                Driver::attach(remote.connect(drive).await?, config).await?
            }
            (None, None) => Driver::attach(Port::Link(self.world.drives()[drive].host.clone()), own).await?,
        };
        if weighted {
            self.set_weights(&driver, plan).await?;
        }
        let verifies = scenario.verifies(drive);
        let oracles = match verifies {
            true if plan.personality.has_blocks() => jobs::oracles(&driver, |tag| match plan.precondition {
                Base::Empty => BaseState::Zeroes,
                Base::Filled | Base::Steady => BaseState::Stamped { tag },
            }),
            _ => Oracles::new(),
        };
        let worker_options = WorkerOptions {
            drive,
            shared: None,
            paths: None,
            jbof: self.jbof.clone(),
            completion,
            rules: if remote.is_some() { remote::rules(transfer.rules) } else { transfer.rules },
            sink: plan.personality.has_sink().then(|| Sink::new(transfer.results, verifies, true)),
            results: transfer.results,
            tables: plan.tables.clone(),
            model: Rc::new(DriveModel::of(&plan.profile)),
            processors: self.world.host.processors().to_vec(),
            queue_entries_max: remote.map_or(plan.profile.controller.max_queue_entries, Remote::entries_max),
            seed: scenario.seed,
        };
        let mut workers = jobs::workers(&driver, &scenario.jobs, &worker_options, &oracles).await?;
        if let Some(remote) = remote
            && scenario.jobs_of(drive).any(|job| job.at_target)
        {
            // Target and host share the drive and therefore the oracle: all workers know all writes.
            let (driver, queues) = remote.local(drive);
            let worker_options =
                WorkerOptions { shared: Some(queues), rules: transfer.rules, ..worker_options };
            workers.extend(jobs::workers(driver, &scenario.jobs, &worker_options, &oracles).await?);
        }
        Ok(workers)
    }

    async fn set_weights(&self, driver: &Driver, plan: &DrivePlan) -> Result<(), RunError> {
        let weights = &self.scenario.host.weights;
        let burst = plan.profile.controller.arbitration_burst.unwrap_or(128);
        let arbitration = ArbitrationFeature::new()
            .with_ab((u32::from(burst).ilog2()).min(7) as u8)
            .with_hpw_z((weights.high - 1) as u8)
            .with_mpw_z((weights.medium - 1) as u8)
            .with_lpw_z((weights.low - 1) as u8);
        let command =
            SetFeatures { fid: fid::ARBITRATION, cdw11: arbitration.into_bits(), ..SetFeatures::default() };
        let answer = driver.admin(command.sqe(0, 0), byteway_host::Data::None).await?;
        if !answer.status().is_success() {
            let what = "the drive refused the weights".to_owned();
            return Err(RunError::Refused { what, status: answer.status() });
        }
        Ok(())
    }

    /// Collects the results, and checks that byte counts balance.
    fn finish(&self, play: &Play, begin: Option<Counted>, ends: Vec<DriveEnd>) -> Result<Results, RunError> {
        let scenario = &self.scenario;
        self.world.balance()?;
        let meter = &play.meter;
        let mut now: Vec<Sample> = self.snapshots().iter().map(Sample::from).collect();
        let recorded = meter.series(self.clock.now(), &mut now);
        let distributions = meter.distributions(&scenario.jobs);
        let measured: Vec<Measured<'_>> = (0..scenario.drives.len())
            .map(|drive| Measured {
                plan: &scenario.drives[drive].plan,
                cores: cores(&self.world.drives()[drive]),
                begin: begin.as_ref().map_or(&ends[drive].snapshot, |begin| &begin.drives[drive]),
                end: &ends[drive],
            })
            .collect();
        let mut summary = self.summary(play, RunPart::Whole, &measured);
        summary.network = self.remote.get().map(|remote| {
            let end = self.count();
            let begin = begin.as_ref().unwrap_or(&end);
            let elapsed_ps = (summary.elapsed_ns * 1000.0) as u64;
            remote.summary(&begin.remote, &end.remote, elapsed_ps, summary.ios)
        });
        let array = self.world.drives().first().filter(|powered| powered.is_called);
        summary.array = array.and_then(|powered| powered.drive.controller.backing().array()).map(|array| {
            let now = self.clock.now();
            let host_bytes = self.world.drives()[0].drive.controller.counters().written_bytes.get();
            ArraySummary::of(array, host_bytes, self.began.get().unwrap_or(now), now)
        });
        summary.notes.extend(self.array_notes(&summary));
        if let Some(plan) = &scenario.jbof {
            let end = self.count();
            let begin = begin.as_ref().unwrap_or(&end);
            summary.jbof = Some(end.jbof.summary(&begin.jbof, plan, self.world.drives(), summary.iops));
        }
        if scenario.accounts_for_host() {
            let end = self.count();
            let begin = begin.as_ref().unwrap_or(&end);
            summary.host = Some(self.host_summary(begin, summary.ios));
            summary.utilisation.push(begin.processors_until(&end));
        }
        summary.notes.extend(recorded.note.clone());
        let start = self.began.get().unwrap_or(Time::ZERO);
        let first = &scenario.drives[0].plan;
        summary.notes.extend(steadiness::notes(&recorded.series, &scenario.jobs, first, start));
        if let [_] = &measured[..] {
            summary.notes.extend(steadiness::rough_start(
                scenario,
                0,
                summary.has_writes(),
                measured[0].begin.host_bytes,
            ));
            let collected = measured[0].units(|ftl| ftl.blocks_collected);
            summary.notes.extend(steadiness::other_spare(scenario, 0, collected));
            let wear = ends.into_iter().next().map(|end| end.wear);
            let series = recorded.series;
            return Ok(Results { summary, series, distributions, wear, drives: Vec::new() });
        }
        for (drive, own) in recorded.drives.iter().enumerate() {
            let of_drive = RunPart::Drive(drive);
            let mut part = self.summary(play, of_drive, &measured[drive..=drive]);
            part.drive = scenario.drives[drive].plan.name.clone();
            let inputs = scenario.notes(drive);
            let collected = measured[drive].units(|ftl| ftl.blocks_collected);
            let written_before = measured[drive].begin.host_bytes;
            let mut rough = steadiness::rough_start(scenario, drive, part.has_writes(), written_before);
            rough.extend(steadiness::other_spare(scenario, drive, collected));
            let rough_or_hot = rough.iter().cloned().chain(measured[drive].throttled());
            let nothing = part.notes.iter().filter(|note| note.contains(NOTHING_MEASURED)).cloned();
            let nothing: Vec<String> = nothing.filter(|note| !summary.notes.contains(note)).collect();
            part.notes.extend(recorded.note.clone());
            let jobs: Vec<JobPlan> = scenario.jobs_of(drive).cloned().collect();
            part.notes.extend(steadiness::notes(own, &jobs, &scenario.drives[drive].plan, start));
            part.notes.extend(rough.clone());
            let name = part.drive.as_deref().unwrap_or_default();
            summary.notes.extend(
                inputs
                    .into_iter()
                    .chain(rough_or_hot)
                    .chain(nothing)
                    .map(|note| format!("drive {name}: {note}")),
            );
            summary.drives.push(part);
        }
        for (job, plan) in summary.jobs.iter_mut().zip(&scenario.jobs) {
            job.drive = scenario.drives[plan.drive].plan.name.clone();
        }
        let drives = recorded.drives.into_iter().zip(ends);
        let drives = drives.map(|(series, end)| DriveResults { series, wear: end.wear }).collect();
        Ok(Results { summary, series: recorded.series, distributions, wear: None, drives })
    }

    /// Figures of the measured part: of all drives, or of one with its jobs.
    fn summary(&self, play: &Play, part: RunPart, drives: &[Measured<'_>]) -> Summary {
        let scenario = &self.scenario;
        let jobs = &scenario.jobs;
        let now = drives.iter().map(|drive| drive.end.snapshot.at).max().unwrap_or(self.clock.now());
        let verifies = jobs.iter().any(|job| part.has(job) && job.verify.is_on());
        let found = play.meter.summary(jobs, part, verifies, now);
        let only = if let [only] = drives { Some(only) } else { None };
        // With several drives each note names its drive.
        let mut notes = match (part, only) {
            (RunPart::Drive(drive), _) => scenario.notes(drive),
            (RunPart::Whole, Some(_)) => scenario.notes(0),
            (RunPart::Whole, None) => Vec::new(),
        };
        notes.extend(found.notes.iter().cloned());
        notes.extend(play.late_notes(jobs, part));
        notes.extend(play.flush_notes(jobs, part));
        notes.extend(play.meter.lone_notes(jobs, part, &found.jobs));
        notes.extend(play.unchecked_note(part));
        notes.extend(play.decisions(part));
        notes.extend(only.and_then(Measured::throttled));
        let windows: u64 = drives.iter().map(|drive| drive.units(|ftl| ftl.collection_windows)).sum();
        if windows > 0 {
            let ahead: u64 = drives.iter().map(|drive| drive.units(|ftl| ftl.blocks_collected_window)).sum();
            let must: u64 = drives.iter().map(|drive| drive.units(|ftl| ftl.blocks_collected)).sum();
            notes.push(format!(
                "joint garbage collection in {windows} windows over all drives: {ahead} superblocks ahead of need, {must} on \
                 demand"
            ));
        }
        let ledgers: Vec<_> = drives.iter().map(Measured::link_ledger).collect();
        let mut flash = FlashSummary::default();
        drives.iter().for_each(|drive| flash += drive.flash());
        let units = |of: fn(&FtlCounters) -> u64| drives.iter().map(|drive| drive.units(of)).sum::<u64>();
        let written: u64 = drives.iter().map(Measured::host_bytes).sum();
        let programmed = units(FtlCounters::units_programmed) * UNIT_BYTES as u64;
        // Data that is still in a buffer does not count for flash.
        let has_reached_flash = written > 0 && units(|ftl| ftl.units_programmed_host) > 0;
        let (spans, waits) = play.meter.spans(jobs, part);
        Summary {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            policies: policies(
                scenario.drives[0].transfer.rules.method,
                drives.iter().map(|drive| drive.plan),
                jobs.iter().filter(|job| part.has(job)),
            ),
            drive_profile: only.map(|drive| drive.plan.profile_name.clone()),
            drive_model: only
                .map_or(format!("{} drives", drives.len()), |drive| drive.plan.profile.drive.model.clone()),
            capacity_bytes: drives.iter().map(|drive| drive.plan.capacity_bytes()).sum(),
            host_profile: Some(scenario.host.profile_name.clone()),
            completion: scenario.host.profile.completion,
            spans,
            waits,
            transfer: self.transfer(play, part, drives, found.ios),
            link: link_rows(&ledgers),
            utilisation: utilisation(drives),
            flash: Some(flash),
            // To six decimals.
            write_amplification: has_reached_flash.then(|| ratio(programmed.into(), written.into())),
            upkeep: upkeep(&drives.iter().map(Measured::drive).collect::<Vec<_>>()),
            kv: found.kv.clone().map(|kv| {
                let first = if let RunPart::Drive(drive) = part { drive } else { 0 };
                let keep = drives.iter().zip(first..).filter(|(_, number)| scenario.asks_for_pairs(*number));
                let store = store(&keep.map(|(drive, _)| drive.drive()).collect::<Vec<_>>());
                KvSummary { bulk: bulk_rows(play, jobs, part, now), store, ..kv }
            }),
            notes,
            ..found
        }
    }

    /// Transfer methods used, if they differ from the default.
    fn transfer(
        &self,
        play: &Play,
        part: RunPart,
        drives: &[Measured<'_>],
        ios: u64,
    ) -> Option<TransferSummary> {
        let method = self.scenario.drives[0].transfer.rules.method;
        if method.is_pointer() && !drives.iter().any(|drive| drive.plan.personality.has_payloads()) {
            return None;
        }
        let (counts, host) = play.host_used(part);
        let device: u64 = drives.iter().map(|drive| drive.cores_busy().0).sum();
        let is_sink = drives.iter().all(|drive| drive.plan.personality.has_sink());
        let busy = (host.map(|host| host.0), Some(device));
        Some(TransferSummary::new(method.name(), is_sink, &counts, busy, ios))
    }
}

impl Measured<'_> {
    fn drive(&self) -> MeasuredDrive<'_> {
        let DriveEnd { snapshot, wear } = self.end;
        MeasuredDrive { plan: self.plan, begin: self.begin, end: snapshot, wear }
    }

    /// A note on a drive that throttled.
    fn throttled(&self) -> Option<String> {
        let throttle = self.plan.throttle()?;
        let (from, to) = (self.begin.at, self.end.snapshot.at);
        let throttled = throttle.throttled(from, to);
        (throttled > Delay::ZERO).then(|| {
            format!(
                "throttled for {throttled} of {} measured: its dies rested for {} (`drive.temperature`, `firmware.throttle`)",
                to.since(from),
                throttle.rested(from, to)
            )
        })
    }

    fn elapsed_ps(&self) -> u64 {
        self.end.snapshot.at.since(self.begin.at).0
    }

    fn link_ledger(&self) -> Ledger {
        self.end.snapshot.ledger.since(&self.begin.ledger)
    }

    fn cores_busy(&self) -> Delay {
        self.end.snapshot.cores.saturating_sub(self.begin.cores)
    }

    /// Bytes written by hosts.
    fn host_bytes(&self) -> u64 {
        self.end.snapshot.host_bytes - self.begin.host_bytes
    }

    fn units(&self, of: fn(&FtlCounters) -> u64) -> u64 {
        of(&self.end.snapshot.ftl) - of(&self.begin.ftl)
    }

    fn flash(&self) -> FlashSummary {
        use byteway_flash::Priority;
        let (now, then) = (&self.end.snapshot.flash, &self.begin.flash);
        let since = |now: &[u64; Priority::COUNT], then: &[u64; Priority::COUNT], class: Priority| {
            now[class as usize] - then[class as usize]
        };
        let background = Priority::Background;
        FlashSummary {
            map_reads: since(&now.reads, &then.reads, Priority::Map),
            background_reads: since(&now.reads, &then.reads, background),
            background_programs: since(&now.programs, &then.programs, background),
            host_reads: since(&now.reads, &then.reads, Priority::HostRead),
            host_programs: since(&now.programs, &then.programs, Priority::HostProgram),
            collect_reads: since(&now.reads, &then.reads, Priority::Collector),
            collect_programs: since(&now.programs, &then.programs, Priority::Collector),
            erases: now.erases - then.erases,
        }
    }
}

/// Utilization of these drives' resources, each drive over its own time.
fn utilisation(drives: &[Measured<'_>]) -> Vec<Utilisation> {
    let of = |resource: &str, busy: &dyn Fn(&Measured<'_>) -> Vec<Delay>| {
        let each = drives.iter().flat_map(|drive| {
            let elapsed_ps = drive.elapsed_ps();
            busy(drive).into_iter().map(move |busy| (busy.0, elapsed_ps))
        });
        Utilisation::of(resource, each)
    };
    let each = |now: &[Delay], then: &[Delay]| -> Vec<Delay> {
        now.iter().zip(then).map(|(now, then)| now.saturating_sub(*then)).collect()
    };
    let all = vec![
        of("dies", &|drive| each(&drive.end.snapshot.dies, &drive.begin.dies)),
        of("channels", &|drive| each(&drive.end.snapshot.channels, &drive.begin.channels)),
        of("cores", &|drive| vec![Delay(drive.cores_busy().0 / drive.cores.max(1)); drive.cores as usize]),
        of("firmware lock", &|drive| each(&drive.end.snapshot.locks, &drive.begin.locks)),
        of("merging", &|drive| {
            let now = drive.end.snapshot.merging;
            now.map(|now| now.saturating_sub(drive.begin.merging.unwrap_or_default())).into_iter().collect()
        }),
        of("link to device", &|drive| vec![drive.end.snapshot.link.0.saturating_sub(drive.begin.link.0)]),
        of("link to host", &|drive| vec![drive.end.snapshot.link.1.saturating_sub(drive.begin.link.1)]),
    ];
    // With firmware on the host the drive has no cores.
    all.into_iter().filter(|row| row.count > 0).collect()
}

/// Figures of jobs that collect stores.
fn bulk_rows(play: &Play, jobs: &[JobPlan], part: RunPart, now: Time) -> Vec<BulkRow> {
    let windows = play.loss_windows(now);
    let own = windows.iter().filter(|(job, _)| part.has(&jobs[**job]));
    own.map(|(job, figures)| BulkRow::new(&jobs[*job].name, figures)).collect()
}
