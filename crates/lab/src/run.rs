//! A run: builds drive and host, lets the jobs loose, and gathers what they found.

use crate::build;
use crate::jobs::{self, Manner, Oracles, Play, Sink, Worker};
use anyhow::{Context, anyhow, bail};
use byteway_clock::{Clock, Delay, Executor, Resource, Station, Time};
use byteway_console::interrupt::Interrupt;
use byteway_console::number::ratio;
use byteway_console::progress::Progress;
use byteway_device::Drive;
use byteway_host::Port;
use byteway_host::driver::{Arbitration, Driver, DriverConfig};
use byteway_host::oracle::BaseState;
use byteway_link::{Direction, HostEnd, Link, Memory, Purpose};
use byteway_measure::output::Unfinished;
use byteway_measure::results::{Results, Wear, steadiness};
use byteway_measure::summary::{
    BulkRow, FlashSummary, KvSummary, Summary, TransferSummary, Utilisation, link_rows,
};
use byteway_measure::timeline::{Stage, Timeline};
use byteway_measure::{IoRecorder, Meter, SeriesRecorder, Snapshot, store, upkeep, wear};
use byteway_scenario::{Precondition, Scenario};
use byteway_wire::nvme::SetFeatures;
use byteway_wire::nvme::feature::{Arbitration as ArbitrationFeature, fid};
use byteway_workload::JobPlan;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a run shows itself to and listens to.
pub struct Session<'a> {
    /// To be told how far it is.
    pub progress: &'a mut Progress,
    /// Says when to stop; the summary is then marked as partial.
    pub interrupt: &'a Interrupt,
}

/// What a run leaves behind: the results, and what only a benchmark asks for.
pub struct Finished {
    /// What happened.
    pub results: Results,
    /// What the executor did for it, without the setting up.
    pub executor: byteway_clock::Counters,
    /// ios.parquet, if it was asked for.
    pub ios: Option<anyhow::Result<Unfinished>>,
}

/// Runs a scenario to its end, or until it is interrupted.
pub fn run(scenario: &Scenario, session: Session<'_>) -> anyhow::Result<Results> {
    Ok(perform(scenario, session, Rc::new(|| ()), Records::default())?.results)
}

/// What a run writes down while it goes on, beside what it gives at its end.
#[derive(Default)]
pub struct Records {
    /// Every measured I/O.
    pub ios: Option<IoRecorder>,
    /// The first I/Os, and every use of every resource while they are under way.
    pub timeline: Option<Rc<Timeline>>,
}

/// The same, and writes down what is asked for: gives ios.parquet, whole but without its name, or why there is none.
pub fn run_recorded(
    scenario: &Scenario,
    session: Session<'_>,
    records: Records,
) -> anyhow::Result<(Results, Option<anyhow::Result<Unfinished>>)> {
    let finished = perform(scenario, session, Rc::new(|| ()), records)?;
    Ok((finished.results, finished.ios))
}

/// [`run`], which calls `mark` when everything is set up and the first I/O is about to be issued, and when the last has
/// completed.
pub fn run_observed(
    scenario: &Scenario,
    session: Session<'_>,
    mark: Rc<dyn Fn()>,
) -> anyhow::Result<Finished> {
    perform(scenario, session, mark, Records::default())
}

fn perform(
    scenario: &Scenario,
    session: Session<'_>,
    mark: Rc<dyn Fn()>,
    records: Records,
) -> anyhow::Result<Finished> {
    let Session { progress, interrupt } = session;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let memory = Memory::simulated();
    let (host, device) = Link::connect(&clock, build::link(&scenario.drive.profile), memory);
    let drive = Rc::new(Drive::new(&device, build::drive(scenario)).context("the drive can't be built")?);
    let bar = std::mem::replace(progress, Progress::hidden());
    let Records { ios, timeline } = records;
    let ios = Cell::new(ios);
    let powered = drive.clone();
    let stage = Setting { clock, host, drive, scenario: scenario.clone(), mark, ios, timeline };
    let (result, bar) = executor
        .run(stage.play(bar, interrupt.clone()))
        .map_err(|stalled| anyhow!("{stalled}; this is a defect of Byteway: please report the scenario"))?;
    *progress = bar;
    powered.power_off(); // drive and link hold each other until then, and a comparison makes many
    result
}

/// Everything on stage.
struct Setting {
    clock: Clock,
    host: HostEnd,
    drive: Rc<Drive>,
    scenario: Scenario,
    mark: Rc<dyn Fn()>,
    ios: Cell<Option<IoRecorder>>,
    timeline: Option<Rc<Timeline>>,
}

impl Setting {
    /// Runs the jobs; gives the result and the progress bar back.
    async fn play(self, progress: Progress, interrupt: Interrupt) -> (anyhow::Result<Finished>, Progress) {
        let workers = match self.set_up().await {
            Ok(workers) => workers,
            Err(error) => return (Err(error), progress),
        };
        let scenario = &self.scenario;
        let start = self.clock.now();
        let series = SeriesRecorder::new(&scenario.jobs, start, scenario.interval)
            .with_drive(self.snapshot(), self.drive.site.cores() as u64);
        let meter = Meter::new(&scenario.jobs, start, series, scenario.warmup, progress, interrupt);
        if let Some(ios) = self.ios.take() {
            meter.record_ios(ios);
        }
        self.observe(meter.series_recorder());
        let begin = Rc::new(RefCell::new(None));
        let (clock, host, drive) = (self.clock.clone(), self.host.clone(), self.drive.clone());
        let snapshot = begin.clone();
        let play = Play::new(&self.clock, workers, meter, move || {
            snapshot.replace(Some(Snapshot::take(&clock, &host, &drive)));
        });
        self.begin_timeline(&play);
        (self.mark)();
        let played = play.run().await;
        (self.mark)();
        self.clock.stop_observing();
        self.end_timeline();
        let result = played.and_then(|executor| {
            let results = self.finish(&play, begin.take())?;
            let ios = play.meter.take_ios().map(IoRecorder::finish);
            Ok(Finished { results, executor, ios })
        });
        (result, play.meter.take_progress())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.clock, &self.host, &self.drive)
    }

    /// Has the clock end the steps of the series, each with the drive's counters.
    fn observe(&self, series: Rc<RefCell<SeriesRecorder>>) {
        let (clock, host, drive) = (self.clock.clone(), self.host.clone(), self.drive.clone());
        let mut now = Snapshot::default();
        let first = series.borrow().until();
        self.clock.observe(first, move |_| {
            let mut series = series.borrow_mut();
            now.retake(&clock, &host, &drive);
            series.end_step(Some(&mut now));
            Some(series.until())
        });
    }

    /// What crosses the link from now on is in the timeline, and in the snapshot that was taken just now.
    fn begin_timeline(&self, play: &Play) {
        let Some(timeline) = &self.timeline else { return };
        let cores = u32::from(self.scenario.host.profile.cores);
        let flash = self.drive.controller.ftl().flash();
        let geometry = flash.geometry();
        let stage = Stage {
            processors: cores.max(1) + 1,
            cores: self.drive.site.cores() as u32,
            channels: geometry.channels,
            dies: (0..geometry.dies()).map(|die| geometry.channel_of_die(die)).collect(),
            queues: play.queues(cores),
        };
        self.host.spans().record(timeline.ios_max());
        play.show_on(timeline.clone());
        timeline.begin(&self.clock, &stage);
    }

    fn end_timeline(&self) {
        if let Some(timeline) = &self.timeline {
            self.drive.controller.ftl().flash().trace_under_way();
            timeline.end(&self.clock);
        }
    }

    /// Attaches the driver and makes queue pairs, oracles and generators.
    async fn set_up(&self) -> anyhow::Result<Vec<Rc<Worker>>> {
        let scenario = &self.scenario;
        let plan = &scenario.host;
        let completion = build::completion(plan);
        let weighted = build::weighted(plan);
        let workers: u32 = scenario.jobs.iter().map(|job| job.workers).sum();
        let config = DriverConfig {
            costs: build::host_costs(plan),
            completion,
            // Its own processor takes the interrupts; it stands behind those of the workers.
            cpu: Some(Rc::new(
                Station::new(&self.clock, 1)
                    .traced_as(Resource::HostCore, u32::from(plan.profile.cores).max(1)),
            )),
            queues_wanted: workers.min(u32::from(u16::MAX - 1)) as u16,
            arbitration: if weighted { Arbitration::Weighted } else { Arbitration::RoundRobin },
            timeout: Some(Delay::from_ps(plan.profile.timeout.0)),
            ..DriverConfig::default()
        };
        let driver = Driver::attach(Port::Link(self.host.clone()), config).await?;
        if weighted {
            self.set_weights(&driver).await?;
        }
        let oracles = match scenario.verifies() {
            true if scenario.drive.is_sink() || scenario.drive.is_kv() => Oracles::new(),
            true => jobs::oracles(&driver, |tag| match scenario.drive.precondition {
                Precondition::Empty => BaseState::Zeroes,
                Precondition::Filled | Precondition::Steady => BaseState::Stamped { tag },
            }),
            false => Oracles::new(),
        };
        let manner = Manner {
            completion,
            rules: plan.transfer.rules,
            sink: scenario
                .drive
                .is_sink()
                .then(|| Sink::new(plan.transfer.results, scenario.verifies(), true)),
            results: plan.transfer.results,
            cores: plan.profile.cores,
            queue_entries_max: scenario.drive.profile.controller.max_queue_entries,
            seed: scenario.seed,
        };
        jobs::workers(&driver, &scenario.jobs, &manner, &oracles).await
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

    /// Everything that was found, and whether the books balance.
    fn finish(&self, play: &Play, begin: Option<Snapshot>) -> anyhow::Result<Results> {
        self.balance()?;
        let meter = &play.meter;
        let (series, note) = meter.series(self.clock.now(), Some(&mut self.snapshot()));
        let curves = meter.curves(&self.scenario.jobs);
        let drive = &self.scenario.drive;
        let endurance = drive.profile.flash.endurance;
        let wear = wear(self.drive.controller.ftl().flash(), endurance.into(), drive.worn.0 > 0.0);
        let mut summary = self.summary(play, begin, &wear);
        summary.notes.extend(note);
        summary.notes.extend(steadiness::notes(&series, &self.scenario.jobs));
        summary.notes.extend(steadiness::rough_start(&self.scenario, summary.write_amplification.is_some()));
        Ok(Results { summary, series, curves, wear: Some(wear) })
    }

    /// The figures of the measured part.
    fn summary(&self, play: &Play, begin: Option<Snapshot>, wear: &Wear) -> Summary {
        let scenario = &self.scenario;
        let drive = &scenario.drive;
        let end = self.snapshot();
        let measured = play.meter.summary(&scenario.jobs, scenario.verifies(), end.at);
        let mut notes = scenario.notes();
        notes.extend(measured.notes.iter().cloned());
        notes.extend(play.late_notes(&scenario.jobs));
        notes.extend(play.unchecked_note());
        let begin = begin.as_ref().unwrap_or(&end);
        let written = end.ftl.user_units_written > begin.ftl.user_units_written;
        Summary {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            drive_profile: Some(drive.profile_name.clone()),
            drive_model: drive.profile.drive.model.clone(),
            capacity_bytes: drive.geometry.capacity_bytes,
            host_profile: Some(scenario.host.profile_name.clone()),
            completion: scenario.host.profile.completion,
            spans: play.meter.spans(),
            transfer: self.transfer(play, begin, &end, measured.ios),
            link: link_rows(&end.ledger.since(&begin.ledger)),
            utilisation: self.utilisation(begin, &end),
            flash: Some(flash_summary(&end, begin)),
            write_amplification: written.then(|| write_amplification(&end, begin)),
            upkeep: upkeep(drive, begin, &end, wear),
            kv: measured.kv.clone().map(|kv| {
                let store = scenario.asks_for_pairs().then(|| store(drive, begin, &end));
                KvSummary { bulk: bulk_rows(play, &scenario.jobs, end.at), store, ..kv }
            }),
            notes,
            ..measured
        }
    }

    /// How payloads crossed, if not as on any drive.
    fn transfer(&self, play: &Play, begin: &Snapshot, end: &Snapshot, ios: u64) -> Option<TransferSummary> {
        let method = self.scenario.host.transfer.rules.method;
        if method.is_pointer() && !self.scenario.drive.has_payloads() {
            return None;
        }
        let (counts, host) = play.host_used();
        let device = end.cores.saturating_sub(begin.cores);
        Some(TransferSummary::new(
            method.name(),
            self.scenario.drive.is_sink(),
            &counts,
            Some((host.0, device.0)),
            ios,
        ))
    }

    /// The ledger, host memory and the controller have counted the same bytes, each for itself.
    fn balance(&self) -> anyhow::Result<()> {
        let ledger = self.host.ledger();
        let counters = self.drive.controller.counters();
        let payload = |purpose, direction| ledger.entry(purpose, direction).payload;
        let lists =
            payload(Purpose::PrpList, Direction::Down) + payload(Purpose::SglSegment, Direction::Down);
        let memory = self.host.memory();
        // Entries of submission queues are commands, or carry payload.
        let entries =
            payload(Purpose::SqeFetch, Direction::Down) + payload(Purpose::InlineChunk, Direction::Down);
        let down = payload(Purpose::Data, Direction::Down) + entries + lists;
        let up = payload(Purpose::Data, Direction::Up) + payload(Purpose::Cqe, Direction::Up);
        let checks = [
            ("bytes read from host memory", down, memory.dma_read_bytes()),
            ("bytes written to host memory", up, memory.dma_written_bytes()),
            ("bytes of entries fetched", entries, counters.fetched.get() * 64),
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

/// Jobs that gathered their stores.
fn bulk_rows(play: &Play, jobs: &[JobPlan], now: Time) -> Vec<BulkRow> {
    let windows = play.loss_windows(now);
    windows.iter().map(|(job, figures)| BulkRow::new(&jobs[*job].name, figures)).collect()
}

fn flash_summary(end: &Snapshot, begin: &Snapshot) -> FlashSummary {
    use byteway_flash::Priority;
    let (now, then) = (&end.flash, &begin.flash);
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

/// Units programmed for each that the host wrote, to six decimals.
fn write_amplification(end: &Snapshot, begin: &Snapshot) -> f64 {
    let programmed = end.ftl.units_programmed() - begin.ftl.units_programmed();
    let written = end.ftl.user_units_written - begin.ftl.user_units_written;
    ratio(programmed.into(), written.into())
}
