//! A benchmark of a drive that another process serves: the host crate's own driver on memory shared with that process,
//! polling, in real time. Jobs, verification and result are those of a run in simulation; what only the drive's process
//! knows is not in the result. Of a world there is only the host here: link and drive are in the other process.

use crate::error::AttachedError;
use crate::jobs::{self, Manner, Oracles, Play, Sink};
use crate::nvme_tcp::{DiscoverySummary, TcpHost, TcpOptions};
use crate::remote;
use byteway_clock::{Clock, Delay, Executor, Notify, Timing};
use byteway_console::error::{InputError, with_causes};
use byteway_console::interrupt::Interrupt;
use byteway_console::progress::{Bars, Progress};
use byteway_console::table::{grouped, time};
use byteway_console::units::{Bytes, Picos};
use byteway_host::driver::{Driver, DriverConfig, Namespace};
use byteway_host::oracle::BaseState;
use byteway_host::{Completion, DriverError, Multipath, MultipathConfig, PathFigures, Port, Rules};
use byteway_measure::results::Results;
use byteway_measure::summary::{ClockKind, PathRow, Summary, TransferSummary};
use byteway_measure::{Meter, Part, SeriesRecorder};
use byteway_scenario::profile::Fault;
use byteway_scenario::{Draft, JobSection, Keys, Limits, OUTSTANDING_MAX, Personality, Warmup};
use byteway_serve::attach::Attachment;
use byteway_transfer::Method;
use byteway_transfer::method::Of;
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::Nqn;
use byteway_wire::nvme::lid;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::pace::PaceLog;
use byteway_workload::{Issue, JobPlan, JobSettings, Priority, Rw, Source, Synthetic};
use byteway_world::Host;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is asked of a served drive.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Where it is served.
    pub place: Place,
    /// The job.
    pub job: JobSection,
    /// How payloads cross.
    pub transfer: Transfer,
    /// Whether every block read is checked.
    pub verify: bool,
    /// What the drive holds now.
    pub assume: Assume,
    /// Everything random follows from it.
    pub seed: u64,
    /// What is left out of the figures at the beginning.
    pub warmup: Option<Warmup>,
    /// Who shows how far it is.
    pub bars: Rc<dyn Bars>,
}

/// Where a drive is served.
#[derive(Clone, Debug)]
pub enum Place {
    /// The folder of its socket.
    VfioUser(PathBuf),
    /// By a target over NVMe/TCP.
    Tcp {
        /// Where it listens: several are paths to the drive.
        addresses: Vec<SocketAddr>,
        /// Of a Discovery Service there, which says where the drive is.
        is_discovery: bool,
        /// The name of the drive's subsystem.
        subsystem: Box<Nqn>,
        /// How this host connects.
        options: Box<TcpOptions>,
    },
}

/// How payloads cross, and where they go.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// To and from the drive's sink, instead of blocks.
    pub sink: bool,
    /// By which method.
    pub method: Method,
    /// Under `adaptive`: shorter payloads cross inline.
    pub threshold: Bytes,
    /// How results of a sink's reads come back.
    pub result: byteway_host::Results,
}

impl Transfer {
    fn rules(&self) -> Rules {
        let threshold_bytes = self.threshold.0.min(u64::from(u32::MAX)) as u32;
        Rules { threshold_bytes, ..Rules::only(self.method) }
    }

    /// Whether the drive offers what is asked for.
    fn check(&self, driver: &Driver) -> Result<(), InputError> {
        let capabilities = driver.capabilities();
        if self.sink && capabilities.sink_bytes == 0 {
            let what = "`--sink`: the drive has no payload sink";
            let cure = "serve one with `transfer.sink = \"64 MiB\"` in [drive.override], or of a profile that has one";
            return Err(InputError::new(what, cure));
        }
        let name = self.method.name();
        if self.method.entry().of == Of::Payloads && !self.sink {
            let what = format!("`--method {name}`: blocks have no field in which their payload could be");
            return Err(InputError::new(what, "add --sink, or choose another method"));
        }
        let result = match self.result {
            byteway_host::Results::Pointer => Methods::new(),
            byteway_host::Results::Inline => Methods::new().with_inline_result(true),
            byteway_host::Results::Rounded => Methods::new().with_rounded_results(true),
        };
        for (methods, flag) in [(self.rules().methods(), "--method"), (result, "--result")] {
            if !methods.is_within(capabilities.offered()) {
                let what = format!("`{flag}`: the drive does not offer it");
                let cure = "serve one whose profile has it in `transfer.methods`, or choose another";
                return Err(InputError::new(what, cure));
            }
        }
        Ok(())
    }
}

/// What a drive holds before the benchmark: without knowing that, a read cannot be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Assume {
    /// Anything: the range is filled before reads of it are verified, which is not measured.
    #[default]
    Unknown,
    /// Nothing was ever written, so it reads as zeroes: a drive served with precondition = "empty", before its first write.
    Empty,
    /// What preconditioning left: a drive served with precondition = "filled" or "steady", before its first write.
    Filled,
}

/// Without --size no more than this is filled: a drive may keep every byte in memory.
const FILL_BYTES: Bytes = Bytes(1 << 30);
/// A command that fills, at most.
const FILL_COMMAND_BYTES: u64 = 128 << 10;
const FILL_DEPTH: u32 = 32;
/// Host memory for all that is outstanding, at most.
pub(crate) const MEMORY_BYTES_MAX: Bytes = Bytes(16 << 30);
/// No drive transfers more with one command.
const PAYLOAD_BYTES_MAX: u64 = 1 << 28;
/// A command that takes longer is aborted, and after as long again the controller is reset.
pub(crate) const TIMEOUT: Delay = Delay::from_s(30);
/// How often it is asked whether the drive's process is still there.
const WATCH: Delay = Delay::from_ms(50);
/// How long a command waits for a target that is away.
const PATH_PATIENCE: Delay = Delay::from_s(60);
/// How long what is outstanding may take to end after an interrupt.
const PATIENCE: Delay = Delay::from_s(5);

impl Bench {
    /// Attaches, fills if need be, plays the job, and says what it found.
    pub fn run(&self, interrupt: &Interrupt) -> Result<Results, AttachedError> {
        let (bench, raised) = (self.clone(), interrupt.clone());
        let stage = move |clock: &Clock| Stage { bench, clock: clock.clone(), interrupt: raised };
        let memory_bytes = self.memory_bytes()?;
        match &self.place {
            Place::VfioUser(folder) => {
                attached(folder, memory_bytes, Some(interrupt), |clock, port| stage(clock).play(port))
            }
            Place::Tcp { addresses, is_discovery, subsystem, options } => {
                let (addresses, is_discovery) = (addresses.clone(), *is_discovery);
                let (subsystem, options) = (**subsystem, (**options).clone());
                in_real_time(interrupt, async move |clock| {
                    let host = TcpHost::new(&clock, &options);
                    let addresses = match is_discovery {
                        true => host.find(addresses[0], &subsystem).await?,
                        false => addresses,
                    };
                    stage(&clock).play_over(&host, &addresses, is_discovery, subsystem).await
                })
            }
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self.place, Place::Tcp { .. })
    }

    /// Host memory that queues, payloads and lists take, generously.
    fn memory_bytes(&self) -> Result<u64, InputError> {
        let job = &self.job;
        let outstanding = u64::from(job.numjobs).saturating_mul(job.iodepth.unwrap_or(1).into());
        let payload =
            job.bytes_max().map_or(4096, |bs| bs.0).clamp(4096, PAYLOAD_BYTES_MAX).next_multiple_of(4096);
        // A command: its payload, list pages, and queue entries in rings of up to twice the depth.
        // Where payload or results lie in queue entries, an entry has 14 B of them at least.
        let entries = if self.transfer.sink { payload.min(1 << 20).div_ceil(14) * 160 } else { 0 };
        let command = payload + ((payload >> 21) + 2) * 4096 + 256 + entries;
        let bytes = outstanding.saturating_mul(command).saturating_add(64 << 20);
        if bytes > MEMORY_BYTES_MAX.0 {
            let what = format!("{outstanding} outstanding I/Os of {} are too many", Bytes(payload));
            let cure =
                format!("lower `--iodepth`, `--numjobs` or `--bs`: together at most {MEMORY_BYTES_MAX}");
            return Err(InputError::new(what, cure));
        }
        Ok(bytes)
    }
}

/// What a Discovery Service, and those that it refers to, say of where drives are.
///
/// # Errors
/// It does not answer, or the user has interrupted it.
pub fn discovered(
    service: SocketAddr,
    options: &TcpOptions,
    interrupt: &Interrupt,
) -> Result<DiscoverySummary, AttachedError> {
    let options = options.clone();
    in_real_time(interrupt, async move |clock| {
        TcpHost::new(&clock, &options).discover(service).await.map(DiscoverySummary::from)
    })
}

/// Does `work` with targets in real time, which is given up if it doesn't end soon after `interrupt` is raised.
fn in_real_time<T: 'static>(
    interrupt: &Interrupt,
    work: impl AsyncFnOnce(Clock) -> Result<T, AttachedError> + 'static,
) -> Result<T, AttachedError> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let outcome = Rc::new(Outcome { ended: Notify::new(&clock), result: RefCell::default() });
    let (worked, working) = (outcome.clone(), clock.clone());
    clock.spawn("benchmark", async move { worked.set(work(working).await) });
    let (watched, watching, interrupt) = (outcome.clone(), clock.clone(), interrupt.clone());
    clock.spawn("watch", async move {
        let mut patience = PATIENCE;
        while patience > Delay::ZERO {
            watching.timer(WATCH).await;
            if interrupt.is_raised() {
                patience = patience.saturating_sub(WATCH);
            }
        }
        watched.set(Err(AttachedError::Interrupted { source: None }));
    });
    let result = executor.run_real(Timing::None, None, async move { outcome.get().await });
    result.map_err(AttachedError::Stalled)?
}

/// Attaches to the drive that is served in `folder`, with so much host memory, and does `work` in real time, which looks
/// at `interrupt` itself and is given up if it doesn't end soon after that is raised.
///
/// # Errors
/// That of the work; its process has gone; or it was interrupted and did not answer any more.
pub(crate) fn attached<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    folder: &Path,
    memory_bytes: u64,
    interrupt: Option<&Interrupt>,
    work: impl FnOnce(&Clock, Port) -> W,
) -> Result<T, AttachedError> {
    let interrupt = interrupt.cloned().unwrap_or_default();
    let interrupted = interrupt.clone();
    // Ctrl-C may reach the server, too, and then its end is none of a failure.
    let failed = |error: AttachedError| match interrupted.is_raised()
        && error.wrong_input().is_none()
        && !error.is_interrupted()
    {
        true => AttachedError::Interrupted { source: Some(Box::new(error)) },
        false => error,
    };
    let attachment = Attachment::connect(folder, memory_bytes).map_err(|error| failed(error.into()))?;
    let attachment = Rc::new(attachment);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let work = work(&clock, attachment.port(&clock));
    let outcome = Rc::new(Outcome { ended: Notify::new(&clock), result: RefCell::default() });
    let (played, attached) = (outcome.clone(), attachment.clone());
    clock.spawn("benchmark", async move {
        let result = work.await;
        // What fails because nobody is there any more fails in many words, of which these are the plainest.
        let has_left = result.is_err() && attached.client().channel().has_left();
        played.set(if has_left { Err(AttachedError::Gone) } else { result });
    });
    let watched = outcome.clone();
    clock.clone().spawn("watch", async move {
        // Nothing in shared memory tells that the other side is no more.
        let mut patience = PATIENCE;
        while !attachment.client().channel().has_left() {
            clock.timer(WATCH).await;
            if interrupt.is_raised() {
                patience = patience.saturating_sub(WATCH);
                if patience == Delay::ZERO {
                    return watched.set(Err(AttachedError::Interrupted { source: None }));
                }
            }
        }
        watched.set(Err(AttachedError::Gone));
    });
    let result = executor.run_real(Timing::None, None, async move { outcome.get().await });
    result.map_err(AttachedError::Stalled)?.map_err(failed)
}

/// How a benchmark ends: by itself, or with the drive's process.
struct Outcome<T> {
    ended: Notify,
    result: RefCell<Option<Result<T, AttachedError>>>,
}

impl<T> Outcome<T> {
    /// The first to say counts.
    fn set(&self, result: Result<T, AttachedError>) {
        self.result.borrow_mut().get_or_insert(result);
        self.ended.notify_one();
    }

    async fn get(&self) -> Result<T, AttachedError> {
        loop {
            if let Some(result) = self.result.take() {
                return result;
            }
            self.ended.notified().await;
        }
    }
}

/// A benchmark under way.
struct Stage {
    bench: Bench,
    clock: Clock,
    interrupt: Interrupt,
}

impl Stage {
    /// Sockets wake who waits; shared memory does not.
    fn completion(&self) -> Completion {
        if self.bench.is_remote() { Completion::Interrupt } else { Completion::Polled }
    }

    async fn attach(&self, port: Port) -> Result<Driver, AttachedError> {
        let config = DriverConfig {
            queues_wanted: self.bench.job.numjobs.clamp(1, u32::from(u16::MAX - 1)) as u16,
            timeout: Some(TIMEOUT),
            completion: self.completion(),
            ..DriverConfig::default()
        };
        Driver::attach(port, config).await.map_err(AttachedError::NotDriven)
    }

    async fn play(self, port: Port) -> Result<Results, AttachedError> {
        let driver = self.attach(port).await?;
        self.play_on(driver, None, Vec::new()).await
    }

    /// The same over NVMe/TCP, by each of these addresses. Those that are `found` may be of no use to this host, as long as one is.
    async fn play_over(
        self,
        host: &TcpHost,
        addresses: &[SocketAddr],
        found: bool,
        subsystem: Nqn,
    ) -> Result<Results, AttachedError> {
        let silent = || AttachedError::NotDriven(DriverError::NoController);
        let (mut paths, mut notes) = (Vec::new(), Vec::new());
        for (index, address) in addresses.iter().enumerate() {
            let attach = async { self.attach(host.connect(*address, subsystem).await?).await };
            let attached = match found {
                // Of the others one may answer.
                true => self.clock.within(TIMEOUT, attach).await.unwrap_or_else(|| Err(silent())),
                false => attach.await,
            };
            match attached {
                Ok(driver) => paths.push((address.to_string(), driver)),
                Err(error) if found && (index + 1 < addresses.len() || !paths.is_empty()) => {
                    notes.push(format!("{address} is no path: {}", with_causes(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        let driver = paths[0].1.clone();
        // Of a single one, too: a target that is back goes on with what may be done twice.
        let config = MultipathConfig { patience: PATH_PATIENCE, ..MultipathConfig::default() };
        let multipath = Multipath::new(paths, config).await?;
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
                // What is not filled first is not read, or not by who wants to know.
                Assume::Unknown | Assume::Empty => BaseState::Zeroes,
                Assume::Filled => BaseState::Stamped { tag },
            }),
            false => Oracles::new(),
        };
        let manner = Manner {
            drive: 0,
            shared: None,
            paths: paths.clone(),
            jbof: None,
            completion: self.completion(),
            rules: if bench.is_remote() { remote::rules(transfer.rules()) } else { transfer.rules() },
            sink: transfer
                .sink
                .then(|| Sink::new(transfer.result, bench.verify, bench.assume == Assume::Empty)),
            results: byteway_host::Results::Pointer,
            processors: Host::new(&self.clock, 1).processors().to_vec(),
            queue_entries_max: u32::from(driver.cap().mqes_z()) + 1,
            seed: bench.seed,
        };
        if fills {
            for fill in fill_plans(&plan, driver.transfer_bytes_max()) {
                self.fill(&driver, fill, &manner, &oracles).await?;
            }
        }
        let plans = [plan];
        let plan = &plans[0];
        let workers = jobs::workers(&driver, &plans, &manner, &oracles).await?;
        let progress = Progress::new(&*bench.bars, "", plan.command_count(), plan.runtime);
        let pace = self.pace(&driver, paths.as_ref()).await;
        let start = self.clock.now();
        let series = SeriesRecorder::new(&plans, start, None);
        let meter = Meter::new(&plans, start, series, bench.warmup, progress, self.interrupt.clone());
        let play = Play::new(&self.clock, workers, meter, || ());
        let played = play.run().await;
        play.meter.take_progress().finish();
        played?;
        let end = self.clock.now();
        let series = play.meter.series(end, &mut []).series;
        let curves = play.meter.curves(&plans);
        let measured = play.meter.summary(&plans, Part::Whole, bench.verify, end);
        notes.insert(0, described(plan));
        if fills {
            notes.push(format!(
                "the range was filled before: {}",
                Bytes(plan.range_blocks * u64::from(plan.lba_bytes))
            ));
        }
        notes.extend(measured.notes.iter().cloned());
        notes.extend(play.unchecked_note(Part::Whole));
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
        // Processor time is not modelled here: this host's work is whatever it takes.
        let (counts, _) = play.host_used(Part::Whole);
        let crossed =
            TransferSummary::new(transfer.method.name(), transfer.sink, &counts, (None, None), measured.ios);
        let summary = Summary {
            transfer: (!is_plain).then_some(crossed),
            // What a single path was used for is in the other figures.
            paths: if figures.len() > 1 { figures.into_iter().map(path_row).collect() } else { Vec::new() },
            scenario: "bench".to_owned(),
            seed: bench.seed,
            drive_model: driver.identity().model_number(),
            capacity_bytes: capacity_bytes(&driver),
            clock: ClockKind::Wall,
            notes,
            ..measured
        };
        Ok(Results { summary, series, curves, wear: None, drives: Vec::new() })
    }

    /// See [`pace`]; none, too, if no path leads to the drive now.
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
        let cure = match list.is_empty() {
            true => "the drive has none with a usable format".to_owned(),
            false => format!("choose one of {}", list.join(", ")),
        };
        Err(InputError::new(what, cure))
    }

    /// The job against what the drive is, and whether its range is filled first.
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
        let draft = Draft { section: &section, keys: Keys::Flags, limits };
        let name = section.rw.and_then(|rw| rw.to_possible_value());
        let name = name.as_ref().map_or("job", PossibleValue::get_name);
        let plan = draft.plan(name).map_err(|fault: Fault| InputError::new(fault.what, fault.cure))?;
        let outstanding = u64::from(plan.workers) * u64::from(plan.iodepth);
        if outstanding > OUTSTANDING_MAX {
            let what = format!("{outstanding} I/Os could be outstanding over all jobs");
            let cure = format!("lower `--iodepth` or `--numjobs`: at most {OUTSTANDING_MAX}");
            return Err(InputError::new(what, cure));
        }
        Ok((plan, fills))
    }

    /// Writes a range once, on a queue pair of its own.
    async fn fill(
        &self,
        driver: &Driver,
        plan: JobPlan,
        manner: &Manner,
        oracles: &Oracles,
    ) -> Result<(), AttachedError> {
        let plans = [plan];
        let workers = jobs::workers(driver, &plans, manner, oracles).await?;
        let queues: Vec<_> = workers.iter().map(|worker| worker.queue().clone()).collect();
        let progress = Progress::new(&*self.bench.bars, "filling ", plans[0].count, None);
        let start = self.clock.now();
        let series = SeriesRecorder::new(&plans, start, None);
        let meter = Meter::new(&plans, start, series, None, progress, self.interrupt.clone());
        let play = Play::new(&self.clock, workers, meter, || ());
        let played = play.run().await;
        play.meter.take_progress().finish();
        played?;
        let found = play.meter.summary(&plans, Part::Whole, true, self.clock.now());
        if let Some(row) = found.errors.first() {
            return Err(AttachedError::NotFilled { writes: row.count, status: row.status.clone() });
        }
        for queue in queues {
            match &manner.paths {
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

/// Jobs that write the job's range once: in long commands, and what is left of it block by block.
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

/// What is to be known of latencies in real time.
pub(crate) const RESOLUTION: &str = "latencies are in wall-clock time, from before the doorbell write until this process has \
     seen the completion; percentiles have a resolution of 0.1 %, 1 ns at least";

/// How the drive's process keeps to its model; none if it does not say.
pub(crate) async fn pace(driver: &Driver) -> Option<PaceLog> {
    let mut page = PaceLog::default();
    let completion = driver.log_page(lid::PACE, 0, true, page.as_mut_bytes()).await.ok()?;
    completion.status().is_success().then_some(page)
}

/// Whether the drive's process kept to its model, from what it said before and after.
pub(crate) fn kept_pace(before: Option<PaceLog>, after: Option<PaceLog>) -> String {
    let (Some(before), Some(after)) = (before, after) else {
        return "whether the server kept to its model is not known: it has no log page C1h".to_owned();
    };
    if after.modelled == 0 {
        return "the server models no latencies (timing = \"none\")".to_owned();
    }
    let since = |of: fn(&PaceLog) -> u64| of(&after).saturating_sub(of(&before));
    let (waits, late, slipped_ns) =
        (since(|log| log.waits), since(|log| log.late), since(|log| log.slipped_ns));
    let mean_ns = since(|log| log.lateness_ns) as f64 / waits.max(1) as f64;
    let said = format!(
        "{} of {} modelled waits ended more than {} late, {} late in the mean",
        grouped(late),
        grouped(waits),
        time(after.late_from_ns.into()),
        time(mean_ns)
    );
    // One wait in a hundred is what a percentile of 99 would show; of fewer waits than that there is none.
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

/// The job in words: no file says what it was.
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

    // A latency that the server's machine made looks like the drive's, unless it is said whose it is.
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
        assert!(said(None).contains("not known") && kept_pace(None, before).contains("not known"));
        let none = Some(PaceLog::default());
        assert!(kept_pace(none, none).contains("models no latencies"));
    }
}
