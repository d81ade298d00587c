//! Benchmark of a served drive: the host crate's own driver on memory shared with the server, polling, in real time. Jobs, verification and
//! results are those of a simulated run, except figures that only the drive's process knows. Only the host is in this process: link and
//! drive are in the server.

use crate::attach::{attached, in_real_time};
use crate::error::AttachedError;
use crate::nvme_tcp::{DiscoverySummary, TcpHost, TcpOptions, timeout_period};
use byteway_clock::{Clock, Delay};
use byteway_host::BaseState;
use byteway_host::{Completion, DriverError, Lost, Multipath, MultipathConfig, PathFigures, Port, Rules};
use byteway_host::{Driver, DriverConfig, Namespace};
use byteway_pushdown::drive_model::DriveModel;
use byteway_results::results::Results;
use byteway_results::summary::{ClockKind, PathRow, Summary, TransferSummary};
use byteway_results::{Meter, RunPart, SeriesRecorder};
use byteway_run::jobs::{self, Oracles, Play, Sink, WorkerOptions};
use byteway_run::remote;
use byteway_scenario::profile::KeyError;
use byteway_scenario::{Draft, JobSection, Keys, Limits, OUTSTANDING_MAX, Options, Personality, Warmup};
use byteway_text::error::{InputError, with_causes};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bars, Progress};
use byteway_text::table::{grouped, time};
use byteway_text::units::{Bytes, Picos};
use byteway_transfer::Method;
use byteway_transfer::method::PayloadKind;
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::Nqn;
use byteway_wire::nvme::lid;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::pace::PaceLog;
use byteway_workload::{Issue, JobPlan, JobSettings, Priority, Rw, Source, Synthetic};
use byteway_world::Host;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

/// Configuration of a benchmark.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Address of the drive.
    pub place: DriveAddress,
    /// Job.
    pub job: JobSection,
    /// Transfer of payloads.
    pub transfer: Transfer,
    /// Whether every block read is verified.
    pub verify: bool,
    /// Current content of the drive.
    pub assume: Assume,
    /// Time limit of a command. Afterwards it is aborted; after the same time again the controller is reset.
    pub timeout: Delay,
    /// Seed of everything random.
    pub seed: u64,
    /// Warm-up excluded from the figures.
    pub warmup: Option<Warmup>,
    /// Display of progress.
    pub bars: Rc<dyn Bars>,
}

/// Address of a served drive.
#[derive(Clone, Debug)]
pub enum DriveAddress {
    /// Folder of its socket.
    VfioUser(PathBuf),
    /// A target over NVMe/TCP.
    Tcp {
        /// Addresses at which it listens; several are paths to the drive.
        addresses: Vec<SocketAddr>,
        /// Whether the address is that of a Discovery Service, which lists the drive's addresses.
        is_discovery: bool,
        /// NQN of the drive's subsystem. `None`: the only one that the Discovery Service knows.
        subsystem: Option<Box<Nqn>>,
        /// Connection options.
        options: Box<TcpOptions>,
    },
}

/// Transfer of payloads.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Whether to access the drive's sink instead of blocks.
    pub sink: bool,
    /// Method.
    pub method: Method,
    /// With `adaptive`: payloads below this size are transferred inline.
    pub threshold: Bytes,
    /// Return path of the results of a sink's reads.
    pub result: byteway_transfer::result::ResultMethod,
}

impl Transfer {
    fn rules(&self) -> Rules {
        let threshold_bytes = self.threshold.0.min(u64::from(u32::MAX)) as u32;
        Rules { threshold_bytes, ..Rules::only(self.method) }
    }

    /// Checks that the drive supports the requested transfer.
    fn check(&self, driver: &Driver) -> Result<(), InputError> {
        let capabilities = driver.capabilities();
        if self.sink && capabilities.sink_bytes == 0 {
            let what = "`--sink`: the drive has no payload sink";
            let help = "serve one with `transfer.sink = \"64 MiB\"` in [drive.override], or with a profile that has one";
            return Err(InputError::new(what, help));
        }
        let name = self.method.name();
        if self.method.entry().of == PayloadKind::Payloads && !self.sink {
            let what = format!("`--method {name}`: the block command set has no field for such payloads");
            return Err(InputError::new(what, "add --sink, or choose another method"));
        }
        let result = match self.result {
            byteway_transfer::result::ResultMethod::Pointer => Methods::new(),
            byteway_transfer::result::ResultMethod::Inline => Methods::new().with_inline_result(true),
            byteway_transfer::result::ResultMethod::Rounded => Methods::new().with_rounded_results(true),
        };
        for (methods, flag) in [(self.rules().methods(), "--method"), (result, "--result")] {
            if !methods.is_within(capabilities.offered()) {
                let what = format!("`{flag}`: the drive does not support it");
                let help = "serve one whose profile lists it in `transfer.methods`, or choose another";
                return Err(InputError::new(what, help));
            }
        }
        Ok(())
    }
}

/// Content of a drive before the benchmark, which the verification of reads depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Assume {
    /// Unknown: the range is filled before reads of it are verified. Filling is not measured.
    #[default]
    Unknown,
    /// Never written, so it reads as zeroes: a drive served with precondition = "empty", before its first write.
    Empty,
    /// As preconditioned: a drive served with precondition = "filled" or "steady", before its first write.
    Filled,
}

/// Upper limit of filling without --size: a drive may keep every byte in memory.
const FILL_BYTES: Bytes = Bytes(1 << 30);
/// Length of a fill command in bytes.
const FILL_COMMAND_BYTES: u64 = 128 << 10;
const FILL_DEPTH: u32 = 32;
/// Upper limit of host memory for outstanding I/Os.
pub(crate) const MEMORY_BYTES_MAX: Bytes = Bytes(16 << 30);
/// Upper limit of the transfer size of all drives.
const PAYLOAD_BYTES_MAX: u64 = 1 << 28;
/// Default of the timeout after which a command is aborted, and after the same time again the controller reset.
pub const TIMEOUT: Delay = Delay::from_s(30);
/// Time limit of a path's initialization, in timeouts of a command.
const ATTACHMENT_TIMEOUTS: u64 = 4;

impl Bench {
    /// Attaches, fills the range if necessary, runs the job, and returns the results.
    pub fn run(&self, interrupt: &Interrupt) -> Result<Results, AttachedError> {
        let (bench, raised) = (self.clone(), interrupt.clone());
        let context = move |clock: &Clock| BenchContext { bench, clock: clock.clone(), interrupt: raised };
        let memory_bytes = self.memory_bytes()?;
        match &self.place {
            DriveAddress::VfioUser(folder) => {
                attached(folder, memory_bytes, Some(interrupt), |clock, port| context(clock).play(port))
            }
            DriveAddress::Tcp { addresses, is_discovery, subsystem, options } => {
                let (addresses, is_discovery) = (addresses.clone(), *is_discovery);
                let (subsystem, options) = (subsystem.as_deref().copied(), (**options).clone());
                let timeout = self.timeout;
                in_real_time(interrupt, async move |clock| {
                    let host = TcpHost::new(&clock, &options, timeout);
                    let (subsystem, addresses) = match (subsystem, is_discovery) {
                        (Some(subsystem), false) => (subsystem, addresses),
                        (name, _) => host.find(addresses[0], name.as_ref()).await?,
                    };
                    context(&clock).play_over(&host, &addresses, is_discovery, subsystem).await
                })
            }
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self.place, DriveAddress::Tcp { .. })
    }

    /// Host memory for queues, payloads and lists, estimated generously.
    fn memory_bytes(&self) -> Result<u64, InputError> {
        let job = &self.job;
        let outstanding = u64::from(job.numjobs).saturating_mul(job.iodepth.unwrap_or(1).into());
        let payload =
            job.bytes_max().map_or(4096, |bs| bs.0).clamp(4096, PAYLOAD_BYTES_MAX).next_multiple_of(4096);
        // For each command: its payload, list pages, and queue entries in rings of up to twice the depth. An entry carries at least 14 B of
        // a payload or result.
        let entries = if self.transfer.sink { payload.min(1 << 20).div_ceil(14) * 160 } else { 0 };
        let command = payload + ((payload >> 21) + 2) * 4096 + 256 + entries;
        let bytes = outstanding.saturating_mul(command).saturating_add(64 << 20);
        if bytes > MEMORY_BYTES_MAX.0 {
            let what = format!("{outstanding} outstanding I/Os of {} are too many", Bytes(payload));
            let help =
                format!("lower `--iodepth`, `--numjobs` or `--bs`: together at most {MEMORY_BYTES_MAX}");
            return Err(InputError::new(what, help));
        }
        Ok(bytes)
    }
}

/// Queries a Discovery Service and its referrals for the locations of drives.
///
/// # Errors
/// No reply, or the user has interrupted it.
pub fn discovered(
    service: SocketAddr,
    options: &TcpOptions,
    interrupt: &Interrupt,
) -> Result<DiscoverySummary, AttachedError> {
    let options = options.clone();
    in_real_time(interrupt, async move |clock| {
        TcpHost::new(&clock, &options, TIMEOUT).discover(service).await.map(DiscoverySummary::from)
    })
}

/// A running benchmark.
struct BenchContext {
    bench: Bench,
    clock: Clock,
    interrupt: Interrupt,
}

impl BenchContext {
    /// Sockets can wake a waiter; shared memory cannot.
    fn completion(&self) -> Completion {
        if self.bench.is_remote() { Completion::Interrupt } else { Completion::Polled }
    }

    async fn attach(&self, port: Port) -> Result<Driver, AttachedError> {
        let config = DriverConfig {
            queues_wanted: self.bench.job.numjobs.clamp(1, u32::from(u16::MAX - 1)) as u16,
            timeout: Some(self.bench.timeout),
            timeout_period: timeout_period(self.bench.timeout),
            completion: self.completion(),
            ..DriverConfig::default()
        };
        Driver::attach(port, config).await.map_err(AttachedError::NotDriven)
    }

    async fn play(self, port: Port) -> Result<Results, AttachedError> {
        let driver = self.attach(port).await?;
        self.play_on(driver, None, Vec::new()).await
    }

    /// Runs over NVMe/TCP, with these addresses as paths. Addresses that discovery returned may be unusable, as long as one is usable.
    async fn play_over(
        self,
        host: &TcpHost,
        addresses: &[SocketAddr],
        found: bool,
        subsystem: Nqn,
    ) -> Result<Results, AttachedError> {
        let timeout = self.bench.timeout;
        let slow = || AttachedError::NotDriven(DriverError::Gone(Lost::TimedOut));
        let limit = if found { timeout } else { timeout * ATTACHMENT_TIMEOUTS };
        let (mut paths, mut notes) = (Vec::new(), Vec::new());
        for (index, address) in addresses.iter().enumerate() {
            let attach = async { self.attach(host.connect(*address, subsystem).await?).await };
            match self.clock.within(limit, attach).await.unwrap_or_else(|| Err(slow())) {
                Ok(driver) => paths.push((address.to_string(), driver)),
                Err(error) if found && (index + 1 < addresses.len() || !paths.is_empty()) => {
                    notes.push(format!("{address} is not usable as a path: {}", with_causes(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        let driver = paths[0].1.clone();
        // Also used for a single path: after a reconnect, commands that may be repeated are.
        let config = MultipathConfig { patience: timeout, wait_max: timeout, ..MultipathConfig::default() };
        let joined = self.clock.within(limit, Multipath::new(paths, config)).await;
        let multipath = joined.ok_or_else(slow)??;
        self.play_on(driver, Some(multipath), notes).await
    }

    async fn play_on(
        self,
        driver: Driver,
        paths: Option<Multipath>,
        mut notes: Vec<String>,
    ) -> Result<Results, AttachedError> {
        let bench = &self.bench;
        let namespace = self.namespace(&driver)?;
        let transfer = &bench.transfer;
        transfer.check(&driver)?;
        let (plan, fills) = self.plan(&driver, &namespace)?;
        let oracles = match bench.verify {
            true if transfer.sink => Oracles::new(),
            true => jobs::oracles(&driver, |tag| match bench.assume {
                // An unfilled range is either not read, or read without verification.
                Assume::Unknown | Assume::Empty => BaseState::Zeroes,
                Assume::Filled => BaseState::Stamped { tag },
            }),
            false => Oracles::new(),
        };
        let worker_options = WorkerOptions {
            drive: 0,
            shared: None,
            paths: paths.clone(),
            jbof: None,
            completion: self.completion(),
            rules: if bench.is_remote() { remote::rules(transfer.rules()) } else { transfer.rules() },
            sink: transfer
                .sink
                .then(|| Sink::new(transfer.result, bench.verify, bench.assume == Assume::Empty)),
            results: byteway_transfer::result::ResultMethod::Pointer,
            tables: Vec::new(),
            model: Rc::new(DriveModel::assumed()),
            processors: Host::new(&self.clock, 1).processors().to_vec(),
            queue_entries_max: u32::from(driver.cap().mqes_z()) + 1,
            seed: bench.seed,
        };
        if fills {
            for fill in fill_plans(&plan, driver.transfer_bytes_max()) {
                self.fill(&driver, fill, &worker_options, &oracles).await?;
            }
        }
        let plans = [plan];
        let plan = &plans[0];
        let workers = jobs::workers(&driver, &plans, &worker_options, &oracles).await?;
        let progress = Progress::new(&*bench.bars, "", plan.command_count(), plan.runtime);
        let pace = self.pace(&driver, paths.as_ref()).await;
        let start = self.clock.now();
        let series = SeriesRecorder::new(&plans, start, None);
        let meter = Meter::new(&plans, start, series, bench.warmup, progress, self.interrupt.clone());
        let play = Play::new(&self.clock, workers, meter, |_| ());
        let played = play.run().await;
        play.meter.take_progress().finish();
        played?;
        let end = self.clock.now();
        let series = play.meter.series(end, &mut []).series;
        let distributions = play.meter.distributions(&plans);
        let measured = play.meter.summary(&plans, RunPart::Whole, bench.verify, end);
        notes.insert(0, described(plan));
        let queues = u32::from(driver.queues_granted());
        if plan.workers > queues {
            notes.push(format!("{} workers share {queues} queue pairs", plan.workers));
        }
        if fills {
            notes.push(format!(
                "the range was filled first: {}",
                Bytes(plan.range_blocks * u64::from(plan.lba_bytes))
            ));
        }
        notes.extend(measured.notes.iter().cloned());
        notes.extend(play.unchecked_note(RunPart::Whole));
        notes.push(RESOLUTION.to_owned());
        notes.push(kept_pace(pace, self.pace(&driver, paths.as_ref()).await));
        let protocol_errors =
            paths.as_ref().map_or_else(|| driver.protocol_errors(), Multipath::protocol_errors);
        if protocol_errors > 0 {
            notes.push(format!("{protocol_errors} completions contradicted what was submitted"));
        }
        let figures = paths.as_ref().map(|paths| paths.figures(plan.nsid)).unwrap_or_default();
        notes.extend(figures.iter().filter_map(|path| path.refusal.as_ref()).map(ToString::to_string));
        let shut_down = match &paths {
            Some(paths) => paths.shutdown().await,
            None => driver.shutdown().await,
        };
        if let Err(error) = shut_down {
            notes.push(format!("the drive did not shut down: {error}"));
        }
        let is_plain = transfer.method.is_pointer() && !transfer.sink;
        // Processor time is not modeled here: this host's work takes real time.
        let (counts, _) = play.host_used(RunPart::Whole);
        let crossed =
            TransferSummary::new(transfer.method.name(), transfer.sink, &counts, (None, None), measured.ios);
        let summary = Summary {
            transfer: (!is_plain).then_some(crossed),
            // With a single path, its figures equal the other ones.
            paths: if figures.len() > 1 { figures.into_iter().map(path_row).collect() } else { Vec::new() },
            scenario: "bench".to_owned(),
            seed: bench.seed,
            drive_model: driver.identity().model_number(),
            capacity_bytes: capacity_bytes(&driver),
            clock: ClockKind::Wall,
            notes,
            ..measured
        };
        Ok(Results { summary, series, distributions, wear: None, drives: Vec::new() })
    }

    /// See [`pace`]; also `None` if no path leads to the drive now.
    async fn pace(&self, driver: &Driver, paths: Option<&Multipath>) -> Option<PaceLog> {
        match paths {
            Some(paths) => pace(&paths.any_driver()?).await,
            None => pace(driver).await,
        }
    }

    fn namespace(&self, driver: &Driver) -> Result<Namespace, InputError> {
        let wanted = self.bench.job.namespace;
        let namespaces = driver.namespaces();
        if let Some(namespace) = namespaces.iter().find(|namespace| namespace.nsid == wanted) {
            return Ok(*namespace);
        }
        let list: Vec<_> = namespaces.iter().map(|namespace| namespace.nsid.to_string()).collect();
        let what = format!("`--namespace`: the drive has no namespace {wanted}");
        let help = match list.is_empty() {
            true => "the drive has none with a usable format".to_owned(),
            false => format!("choose one of {}", list.join(", ")),
        };
        Err(InputError::new(what, help))
    }

    /// Combines the job with the drive's properties, and decides whether its range is filled first.
    fn plan(&self, driver: &Driver, namespace: &Namespace) -> Result<(JobPlan, bool), InputError> {
        let bench = &self.bench;
        let mut section = bench.job.clone();
        let reads = section.rw.is_some_and(Rw::has_reads);
        let is_sink = bench.transfer.sink;
        let fills = bench.verify && reads && bench.assume == Assume::Unknown && !is_sink;
        let lba_bytes = if is_sink { 1 } else { namespace.block_bytes };
        if fills && section.size.is_none() {
            let rest = (namespace.blocks.saturating_mul(lba_bytes.into()))
                .saturating_sub(section.offset.of(Bytes(0), 1).0);
            section.size = (rest > FILL_BYTES.0).then_some(FILL_BYTES.into());
        }
        let limits = Limits {
            personality: if is_sink { Personality::Sink } else { Personality::Block },
            lba_bytes,
            namespaces: namespace.nsid,
            namespace_blocks: if is_sink { driver.capabilities().sink_bytes } else { namespace.blocks },
            queue_entries_max: u32::from(driver.cap().mqes_z()) + 1,
            transfer_bytes_max: driver.transfer_bytes_max().unwrap_or(u64::MAX),
            weighted: false,
            verify: bench.verify.into(),
        };
        let options = Options::default();
        let draft = Draft { section: &section, keys: Keys::Flags, limits, options: &options };
        let name = section.rw.and_then(|rw| rw.to_possible_value());
        let name = name.as_ref().map_or("job", PossibleValue::get_name);
        let plan = draft.plan(name).map_err(|fault: KeyError| InputError::new(fault.what, fault.help))?;
        let outstanding = u64::from(plan.workers) * u64::from(plan.iodepth);
        if outstanding > OUTSTANDING_MAX {
            let what = format!("the jobs have up to {outstanding} outstanding I/Os");
            let help = format!("lower `--iodepth` or `--numjobs`: at most {OUTSTANDING_MAX}");
            return Err(InputError::new(what, help));
        }
        Ok((plan, fills))
    }

    /// Writes a range once, on a separate queue pair.
    async fn fill(
        &self,
        driver: &Driver,
        plan: JobPlan,
        worker_options: &WorkerOptions,
        oracles: &Oracles,
    ) -> Result<(), AttachedError> {
        let plans = [plan];
        let workers = jobs::workers(driver, &plans, worker_options, oracles).await?;
        let queues: Vec<_> = workers.iter().map(|worker| worker.queue().clone()).collect();
        let progress = Progress::new(&*self.bench.bars, "filling ", plans[0].count, None);
        let start = self.clock.now();
        let series = SeriesRecorder::new(&plans, start, None);
        let meter = Meter::new(&plans, start, series, None, progress, self.interrupt.clone());
        let play = Play::new(&self.clock, workers, meter, |_| ());
        let played = play.run().await;
        play.meter.take_progress().finish();
        played?;
        let found = play.meter.summary(&plans, RunPart::Whole, true, self.clock.now());
        if let Some(row) = found.errors.first() {
            return Err(AttachedError::NotFilled { writes: row.count, status: row.status.clone() });
        }
        for queue in queues {
            match &worker_options.paths {
                Some(paths) => paths.delete_queue_pair(&queue).await?,
                None => driver.delete_queue_pair(&queue).await?,
            }
        }
        Ok(())
    }
}

fn path_row(path: PathFigures) -> PathRow {
    let PathFigures { name, state, commands, failovers, reconnects, .. } = path;
    PathRow { path: name, state: state.to_owned(), commands, failovers, reconnects }
}

/// Jobs that write the job's range once: in long commands, and the remainder block by block.
fn fill_plans(plan: &JobPlan, transfer_bytes_max: Option<u64>) -> Vec<JobPlan> {
    let lba_bytes = u64::from(plan.lba_bytes);
    let command = FILL_COMMAND_BYTES.min(transfer_bytes_max.unwrap_or(u64::MAX)) / lba_bytes;
    let command = command.clamp(1, 65536);
    let whole = plan.range_blocks / command * command;
    let fill = |first: u64, blocks: u64, io_blocks: u64| {
        let settings = JobSettings {
            name: "fill".to_owned(),
            range_lba: plan.range_lba + first,
            range_blocks: blocks,
            iodepth: FILL_DEPTH,
            workers: 1,
            stride_blocks: None,
            issue: Issue::Closed,
            cap: None,
            think: None,
            flush_after: None,
            phase: 0,
            start_delay: Picos(0),
            ramp: Picos(0),
            priority: Priority::default(),
            count: Some(blocks / io_blocks),
            io_bytes: None,
            runtime: None,
            ..plan.settings.clone()
        };
        JobPlan { settings, source: Source::Synthetic(Synthetic::fixed(Rw::Write, io_blocks as u32)) }
    };
    let parts = [(0, whole, command), (whole, plan.range_blocks - whole, 1)];
    parts.into_iter().filter(|part| part.1 > 0).map(|(first, blocks, io)| fill(first, blocks, io)).collect()
}

/// Note on latencies in real time.
pub(crate) const RESOLUTION: &str = "latencies are wall-clock times, from before the doorbell write until this process has \
     seen the completion; percentiles have a resolution of 0.1 %, at least 1 ns";

/// Timing statistics of the drive's process; `None` if it reports none.
pub(crate) async fn pace(driver: &Driver) -> Option<PaceLog> {
    let mut page = PaceLog::default();
    let completion = driver.log_page(lid::PACE, 0, true, page.as_mut_bytes()).await.ok()?;
    completion.status().is_success().then_some(page)
}

/// Whether the drive's process kept to its model, from its statistics before and after the benchmark.
pub(crate) fn kept_pace(before: Option<PaceLog>, after: Option<PaceLog>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return "whether the server kept to its model is unknown: it has no log page C1h".to_owned();
    };
    if after.modelled == 0 {
        return "the server models no latencies (timing = \"none\")".to_owned();
    }
    let since = |of: fn(&PaceLog) -> u64| of(&after).saturating_sub(of(&before));
    let (waits, late, slipped_ns) =
        (since(|log| log.waits), since(|log| log.late), since(|log| log.slipped_ns));
    let mean_ns = since(|log| log.lateness_ns) as f64 / waits.max(1) as f64;
    let said = format!(
        "{} of {} modeled waits ended more than {} late, mean lateness {}",
        grouped(late),
        grouped(waits),
        time(after.late_from_ns.into()),
        time(mean_ns)
    );
    // One late wait in a hundred would show in a 99th percentile; with fewer waits there is no such percentile.
    let is_behind = slipped_ns > 0 || waits >= 100 && late.saturating_mul(100) > waits;
    match (is_behind, slipped_ns) {
        (false, _) => format!("the server kept to its model: {said}"),
        (true, 0) => format!("the server FELL BEHIND its model: {said}"),
        (true, lost) => format!("the server FELL BEHIND its model by {}: {said}", time(lost as f64)),
    }
}

fn capacity_bytes(driver: &Driver) -> u64 {
    let bytes = |namespace: &Namespace| namespace.blocks.saturating_mul(namespace.block_bytes.into());
    driver.namespaces().iter().map(bytes).fold(0, u64::saturating_add)
}

/// Description of the job, which no file contains.
fn described(plan: &JobPlan) -> String {
    let lba_bytes = u64::from(plan.lba_bytes);
    format!(
        "{}, {}, iodepth {}, numjobs {}, over {} from {} of namespace {}",
        plan.name,
        plan.lengths(),
        plan.iodepth,
        plan.workers,
        Bytes(plan.range_blocks * lba_bytes),
        Bytes(plan.range_lba * lba_bytes),
        plan.nsid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // A latency caused by the server's machine looks like the drive's, unless the report says so.
    #[test]
    fn a_server_that_falls_behind_is_told_from_one_that_keeps_up_and_one_that_is_silent() {
        let log = |waits, late, slipped_ns| PaceLog {
            modelled: 1,
            late_from_ns: 10_000,
            waits,
            late,
            lateness_ns: late * 20_000,
            slipped_ns,
            ..PaceLog::default()
        };
        let before = Some(log(1000, 1000, 5_000_000));
        let said = |after| kept_pace(before, after);
        assert!(said(Some(log(2000, 1010, 5_000_000))).contains("kept to its model: 10 of 1,000"));
        assert!(said(Some(log(2000, 1011, 5_000_000))).contains("FELL BEHIND its model: 11 of"));
        assert!(said(Some(log(2000, 1000, 8_000_000))).contains("FELL BEHIND its model by 3"));
        assert!(said(Some(log(1005, 1001, 5_000_000))).contains("kept to its model: 1 of 5"));
        assert!(said(None).contains("unknown") && kept_pace(None, before).contains("unknown"));
        let none = Some(PaceLog::default());
        assert!(kept_pace(none, none).contains("models no latencies"));
    }
}
