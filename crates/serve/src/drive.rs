//! A served drive: its thread, its executor and its report. Each drive has its own thread; drives share
//! nothing.
#![allow(clippy::disallowed_methods, reason = "a served drive has a thread of its own")]

use crate::function::{Doorbells, Function};
use crate::nvme_tcp;
use crate::report::Report;
use crate::system::System;
use crate::vfio_user::Server;
use crate::vfio_user::server::BindError;
use crate::watch::{BlockWear, DriveFigures, DriveWatch, Protocol, Publisher};
use byteway_auth::Credentials;
use byteway_clock::{Clock, Delay, Executor, Inbox, Stalled, Timing};
use byteway_device::controller::state::counters::Counters;
use byteway_device::{ConfigError, Controller, Drive, DriveConfig};
use byteway_flash::file::{Directory, DirectoryError, OpenReport};
use byteway_flash::{Flash, Medium};
use byteway_host::{Driver, DriverConfig, Port};
use byteway_link::{HostEnd, IoLedger, Ledger, Memory, PcieConfig};
use byteway_nvmeof::discovery::{self, Published, Record};
use byteway_nvmeof::{Discovery, GeneratedKeys, Path, PathConfig, Subsystem, SubsystemConfig, Target};
use byteway_world::{DriveBay, SecondPort};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Configuration of a served drive.
#[derive(Clone)]
pub struct Setup {
    /// Name of the drive in messages.
    pub name: String,
    /// Configuration of the drive.
    pub drive: DriveConfig,
    /// Configuration of its link, whose crossings take modelled time.
    pub link: PcieConfig,
    /// Whether modelled time passes.
    pub timing: Timing,
    /// Access for hosts: at least one entry. Each entry has its own port and controller, so there are at most
    /// two.
    pub access: Vec<Access>,
    /// The directory that holds the drive's data. `None`: the data is kept in memory and lost when the drive
    /// ends.
    pub data: Option<PathBuf>,
    /// Through which another thread watches the drive. `None`: no figures by host and stage are kept.
    pub watch: Option<DriveWatch>,
}

/// Access of hosts to a served drive.
#[derive(Clone)]
pub enum Access {
    /// A single host at a time, as a PCI function.
    VfioUser {
        /// Path of the socket.
        socket: PathBuf,
        /// How doorbell writes arrive.
        doorbells: Doorbells,
        /// Interval between two polls of mapped doorbells while the host is idle.
        rest: Delay,
    },
    /// Any number of hosts, each with its own controller.
    Tcp {
        /// The listening sockets: the subsystem's ports, with port identifiers from 1.
        servers: Vec<nvme_tcp::Server>,
        /// The subsystem that hosts connect to.
        subsystem: Box<SubsystemConfig>,
        /// Contents of the discovery log page at each port.
        directory: discovery::Directory,
        /// Hosts that have to authenticate. `None`: no host has to.
        credentials: Option<Credentials>,
    },
}

impl Access {
    fn protocol(&self) -> Protocol {
        match self {
            Access::VfioUser { .. } => Protocol::VfioUser,
            Access::Tcp { .. } => Protocol::NvmeTcp,
        }
    }

    /// The host memory behind the port: a guest's memory, or the target's own.
    fn memory(&self) -> Memory {
        match self {
            Access::VfioUser { .. } => Memory::guest(),
            Access::Tcp { .. } => Memory::simulated(),
        }
    }
}

/// State in which a drive with a data directory started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the drive.
    pub name: String,
    /// State in which the data directory was found.
    pub opened: OpenReport,
    /// Wall-clock time spent opening the directory.
    pub opening: Duration,
    /// Wall-clock time that the firmware then took to recover its state.
    pub recovery: Duration,
    /// Units of 4 KiB that damage of the directory has lost, as found now: they read as errors.
    pub lost_units: u64,
}

/// Stops serving. Cheap to clone; usable from any thread.
#[derive(Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// A handle that has not been triggered.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Stop(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Stops everything that is served with this handle.
    pub fn stop(&self) {
        // The write fails only if the counter is at its maximum, that is, after many stops.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// Why a drive is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The drive's configuration is invalid.
    #[error("drive {name}")]
    Drive {
        /// Name of the drive.
        name: String,
        /// The invalid value.
        source: ConfigError,
    },
    /// The socket cannot be created.
    #[error("drive {name}")]
    Bind {
        /// Name of the drive.
        name: String,
        /// Underlying error.
        source: BindError,
    },
    /// The data directory cannot be opened.
    #[error("drive {name}")]
    Directory {
        /// Name of the drive.
        name: String,
        /// Underlying error.
        source: DirectoryError,
    },
    /// The data directory belongs to another drive, or is damaged.
    #[error("drive {name}: the data directory {path}")]
    Data {
        /// Name of the drive.
        name: String,
        /// Path of the data directory.
        path: PathBuf,
        /// The mismatch.
        source: ConfigError,
    },
    /// The contents of the data directory cannot be recovered.
    #[error(
        "drive {name}: the data directory {path} can't be used: {what}. The drive is not served, and what it holds is as \
         it was; `byteway media check` says what else is wrong, and whether it can be served nevertheless \
         (`--accept-losses`). Restore the directory from a copy, or begin with an empty one"
    )]
    NotRecovered {
        /// Name of the drive.
        name: String,
        /// Path of the data directory.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// The files of the data directory failed during operation.
    #[error(
        "drive {name}: the data directory {path} has failed: {what}. The drive has ended at once, as nothing that is \
         written would be kept; what was flushed before is there. See to the disk or its free space, and start again"
    )]
    DataFailed {
        /// Name of the drive.
        name: String,
        /// Path of the data directory.
        path: PathBuf,
        /// Error message of the system.
        what: String,
    },
    /// A system call failed.
    #[error("drive {name}")]
    System {
        /// Name of the drive.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The target cannot use the drive.
    #[error("drive {name}: the target cannot use it: {what}")]
    Target {
        /// Name of the drive.
        name: String,
        /// The reason.
        what: String,
    },
    /// The simulation stalled: a defect in Byteway.
    #[error(
        "drive {name} makes no progress while its host waits, and has ended; what was flushed is safe where it is kept in \
         files. This is a defect of Byteway: please report it with this message"
    )]
    Stalled {
        /// Name of the drive.
        name: String,
        /// The tasks that wait.
        source: Stalled,
    },
    /// The drive's thread panicked.
    #[error("drive {name}: its thread has panicked; this is a defect of Byteway")]
    Panicked {
        /// Name of the drive.
        name: String,
    },
}

/// Serves drives until `stop`, each in its own thread. Calls `ready` when all of them can be attached to,
/// with the [`Start`] of each drive that has a data directory. If one drive cannot be served, none is.
///
/// # Errors
/// The first error of any drive.
pub fn serve_all(
    setups: Vec<Setup>,
    stop: &Stop,
    ready: impl FnOnce(&[Start]),
) -> Result<Vec<Report>, ServeError> {
    let order: Vec<String> = setups.iter().map(|setup| setup.name.clone()).collect();
    let (began, begun) = mpsc::channel();
    let count = setups.len();
    let mut threads = Vec::new();
    for setup in setups {
        let name = setup.name.clone();
        let (said, ending) = (began.clone(), Ending { began: began.clone(), stop: stop.clone() });
        let own_stop = stop.clone();
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let _ending = ending;
            serve(setup, &own_stop, move |start| _ = said.send(Some(start)))
        });
        match thread {
            Ok(thread) => threads.push((name, thread)),
            Err(source) => {
                stop.stop();
                return Err(ServeError::System { name, source });
            }
        }
    }
    drop(began);
    let starts: Option<Vec<Option<Start>>> = begun.iter().take(count).collect();
    if let Some(starts) = starts.filter(|starts| starts.len() == count) {
        let mut starts: Vec<Start> = starts.into_iter().flatten().collect();
        starts.sort_by_key(|start| order.iter().position(|name| *name == start.name));
        ready(&starts);
    }
    let join = |(name, thread): (String, std::thread::JoinHandle<_>)| {
        thread.join().unwrap_or(Err(ServeError::Panicked { name }))
    };
    // Join every thread before returning an error, so that no drive outlives this call.
    let ended: Vec<_> = threads.into_iter().map(join).collect();
    ended.into_iter().collect()
}

/// Reports the end of a drive's thread, also after a panic: all drives then end, and the starter does not
/// wait for this one.
struct Ending {
    began: mpsc::Sender<Option<Option<Start>>>,
    stop: Stop,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.began.send(None); // has an effect only if the drive has not started
        self.stop.stop();
    }
}

/// Serves a drive until `stop`, in this thread. Calls `ready` when the drive can be attached to, with its
/// [`Start`] if it has a data directory. At the end it flushes written data and shuts the drive down.
///
/// # Errors
/// The configuration is invalid, the data directory cannot be used or fails, or the socket cannot be created.
pub fn serve(
    setup: Setup,
    stop: &Stop,
    ready: impl FnOnce(Option<Start>) + 'static,
) -> Result<Report, ServeError> {
    let Setup { name, drive, link, timing, access, data, watch } = setup;
    let publisher = watch.clone().map(Publisher);
    let system = |source| ServeError::System { name: name.clone(), source };
    let build = |source| ServeError::Drive { name: name.clone(), source };
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let memory = access.first().map_or_else(Memory::simulated, Access::memory);
    let bay = DriveBay::new(&clock, link.clone(), memory);
    let vectors = drive.controller.vectors;
    let capacity_bytes = drive.user_bytes();
    let serial = drive.serial.bytes().fold(0u64, |number, byte| number.rotate_left(8) ^ u64::from(byte));
    let inbox = data.is_some().then(Inbox::new).transpose().map_err(system)?;
    let (medium, start) = match (&data, &inbox) {
        (Some(path), Some(inbox)) => {
            let (mut medium, start) = open(&name, &drive, path)?;
            medium.sync_behind(inbox).map_err(system)?;
            (Some(medium), Some(start))
        }
        _ => (None, None),
    };
    // Recovery starts with the executor. With `Timing::None` it completes before any other task runs.
    let begun = Instant::now();
    let powered = bay.power_on(drive, medium).map_err(build)?;
    let further = access.iter().skip(1).map(|access| powered.add_port(link.clone(), access.memory()));
    let further: Vec<SecondPort> = further.collect::<Result<_, _>>().map_err(build)?;
    let hosts: Vec<HostEnd> =
        [&powered.host].into_iter().chain(further.iter().map(|port| &port.host)).cloned().collect();
    let controllers: Vec<Controller> = powered.drive.controllers().cloned().collect();
    let protocols: Vec<Protocol> = access.iter().map(Access::protocol).collect();
    let ledger = watch.is_some().then(IoLedger::new);
    for (host, protocol) in hosts.iter().zip(&protocols) {
        if let Some(ledger) = &ledger {
            // Hosts over NVMe/TCP are named by the target.
            host.book_ios(ledger.clone(), ledger.host(protocol.name()));
        }
    }
    let mut functions = Vec::new();
    let mut attached = Vec::new();
    for (access, (host, controller)) in access.into_iter().zip(hosts.iter().zip(&controllers)) {
        attached.push(match access {
            Access::VfioUser { socket, doorbells, rest } => {
                let function = Function::new(host, controller, serial, vectors, doorbells).map_err(system)?;
                function.set_rest(rest);
                functions.push(function.clone());
                let bound = Server::bind(socket);
                Attached::Function(
                    function,
                    bound.map_err(|source| ServeError::Bind { name: name.clone(), source })?,
                )
            }
            Access::Tcp { servers, subsystem, directory, credentials } => {
                Attached::Target(host.clone(), servers, subsystem, directory, credentials)
            }
        });
    }
    let seen = Rc::new(Seen {
        name: name.clone(),
        clock: clock.clone(),
        is_modelled: timing == Timing::Model,
        controllers: controllers.clone(),
        hosts,
        protocols,
        functions,
        clients: Rc::default(),
        ledger,
        capacity_bytes,
        ready: Cell::new(Instant::now()),
    });
    let stop = Rc::new(stop.0.try_clone().map_err(system)?);
    let busy_controllers = controllers.clone();
    let awaits_files = |controller: &Controller| controller.ftl().flash().awaits_files();
    clock.set_duty(move || {
        busy_controllers.iter().any(|controller| controller.has_pending_work() && !awaits_files(controller))
    });
    let (ending, controller) = (clock.clone(), powered.drive.controller.clone());
    let seeing = seen.clone();
    let served_name = name.clone();
    let main = async move {
        let flash = controller.ftl().flash();
        unless_failed(flash, controller.ready()).await.map_err(Failure::Recovering)?;
        let lost_units = controller.ftl().lost_units();
        if lost_units > 0 {
            tracing::warn!(
                "drive {served_name}: {lost_units} units of 4 KiB are lost by damage of its data directory, and read as \
                 errors"
            );
        }
        let start = start.map(|start| Start { recovery: begun.elapsed(), lost_units, ..start });
        let mut prepared = Vec::new();
        for attached in attached {
            prepared.push(attached.prepare(&ending, seeing.ledger.as_ref()).await?);
        }
        seeing.ready.set(Instant::now());
        let publishing = watch.map(|watch| {
            watch.begin();
            let (figures, clock) = (seeing.clone(), ending.clone());
            ending.spawn("figures for watchers", async move {
                // Without a file descriptor the drive is served all the same, and its watchers see no figures.
                let _ = Publisher::run(watch, clock, move || figures.figures()).await;
            })
        });
        ready(start);
        let serving = prepared.iter().map(|prepared| -> Serving<'_> {
            let stop = async { _ = unless_failed(flash, ending.readable(&stop)).await };
            Box::pin(prepared.run(&ending, &seeing.clients, stop))
        });
        let served = all(serving.collect()).await;
        if let Some(task) = publishing {
            ending.kill(task);
        }
        // A drive at the end of its life may have no free block for a checkpoint; the next start recovers
        // without one.
        let ended = unless_failed(flash, controller.shut_down()).await;
        let _ = ended.map_err(Failure::Serving)?;
        served
    };
    let ended = executor.run_real(timing, inbox.as_ref(), main).map_err(|source| {
        // Log now, because other drives of this process may take time to end.
        tracing::error!("drive {name} makes no progress, and is not served any more: {source}");
        ServeError::Stalled { name: name.clone(), source }
    })?;
    let failed = |failure: Failure| {
        let (name, path) = (name.clone(), data.clone().unwrap_or_default());
        match failure {
            Failure::Recovering(what) => ServeError::NotRecovered { name, path, what: what.to_string() },
            Failure::Serving(what) => ServeError::DataFailed { name, path, what: what.to_string() },
            Failure::Target(what) => ServeError::Target { name, what },
        }
    };
    ended.map_err(failed)?;
    let report = seen.report();
    let last = publisher.map(|publisher| (publisher, seen.figures()));
    powered.power_off().close().map_err(|what| failed(Failure::Serving(what)))?;
    if let Some((publisher, last)) = last {
        publisher.end(last);
    }
    Ok(report)
}

/// A served drive, as its report and its watchers see it.
struct Seen {
    name: String,
    clock: Clock,
    is_modelled: bool,
    controllers: Vec<Controller>,
    /// The host end of each port's link.
    hosts: Vec<HostEnd>,
    protocols: Vec<Protocol>,
    functions: Vec<Rc<Function>>,
    /// Clients that have attached, and controllers that hosts have created.
    clients: Rc<Cell<u64>>,
    /// Set where the drive is watched.
    ledger: Option<Rc<IoLedger>>,
    capacity_bytes: u64,
    ready: Cell<Instant>,
}

impl Seen {
    /// The report up to now.
    fn report(&self) -> Report {
        let sum = |count: fn(&Counters) -> u64| self.controllers.iter().map(|it| count(it.counters())).sum();
        Report {
            name: self.name.clone(),
            clients: self.clients.get(),
            commands: sum(|counters| counters.fetched.get()),
            reads: (sum(|counters| counters.reads.get()), sum(|counters| counters.read_bytes.get())),
            writes: (sum(|counters| counters.writes.get()), sum(|counters| counters.written_bytes.get())),
            resets: sum(|counters| counters.resets.get()),
            ledger: self.hosts.iter().fold(Ledger::default(), |ledger, host| ledger.with(host.ledger())),
            faults: self.hosts.iter().map(HostEnd::faults).sum(),
            interrupts_lost: self.functions.iter().map(|function| function.interrupts().lost()).sum(),
            pace: self.is_modelled.then(|| self.clock.pace()),
        }
    }

    /// Everything that watchers see.
    fn figures(&self) -> DriveFigures {
        let first = self.controllers.first();
        let layer = first.and_then(|controller| controller.backing().ftl());
        let mut wear = BlockWear::default();
        if let Some(layer) = layer {
            layer.data_end().each_erases(&mut |cycles: u32| wear.note(cycles.into()));
        }
        let ports = self.protocols.iter().zip(&self.hosts);
        DriveFigures {
            at: self.ready.get().elapsed(),
            report: self.report(),
            ports: ports.map(|(protocol, host)| (*protocol, host.ledger().snapshot())).collect(),
            ios: self.ledger.as_ref().map(|ledger| ledger.figures()).unwrap_or_default(),
            outstanding: self.controllers.iter().map(Controller::outstanding_ios).sum(),
            ftl: layer.map(|layer| layer.counters()).unwrap_or_default(),
            wear,
            smart: first.map(Controller::smart).unwrap_or_default(),
            capacity_bytes: self.capacity_bytes,
        }
    }
}

/// Failure of a data directory (and when), or between target and drive.
enum Failure {
    Recovering(Rc<str>),
    Serving(Rc<str>),
    Target(String),
}

/// The hosts' side of the drive's port, before serving begins.
enum Attached {
    Function(Rc<Function>, Server),
    /// The host end of the drive's link, through which the target drives it.
    Target(HostEnd, Vec<nvme_tcp::Server>, Box<SubsystemConfig>, discovery::Directory, Option<Credentials>),
}

impl Attached {
    /// Prepares everything that has to be ready before hosts are served.
    async fn prepare(self, clock: &Clock, ledger: Option<&Rc<IoLedger>>) -> Result<Prepared, Failure> {
        let (host, servers, subsystem, directory, credentials) = match self {
            Attached::Function(function, server) => return Ok(Prepared::Function(function, server)),
            Attached::Target(host, servers, subsystem, directory, credentials) => {
                (host, servers, subsystem, directory, credentials)
            }
        };
        let failed = |error: &dyn std::error::Error| Failure::Target(error.to_string());
        let driver = Driver::attach(Port::Link(host), DriverConfig::default()).await;
        let driver = driver.map_err(|error| failed(&error))?;
        let path = Path::open(driver, PathConfig::default()).await.map_err(|error| failed(&error))?;
        let published = directory.publish(Record {
            nqn: subsystem.nqn,
            hosts: subsystem.hosts.clone(),
            credentials: credentials.clone(),
            ports: nvme_tcp::ports(&servers),
            admin_entries_max: subsystem.admin_entries_max(),
        });
        let discovery = Discovery::new(clock, directory);
        let subsystem = match credentials {
            None => Subsystem::new(clock, *subsystem, path),
            Some(credentials) => {
                let provider = Box::new(System::new(clock));
                let ring = servers.iter().find_map(nvme_tcp::Server::ring);
                let keys = ring.map(|ring| Rc::new(ring.filled_by(clock)) as Rc<dyn GeneratedKeys>);
                Subsystem::with_keys(clock, *subsystem, path, credentials, provider, keys)
            }
        };
        if let Some(ledger) = ledger {
            subsystem.book_ios(ledger.clone());
        }
        let target = Target::with_discovery(vec![subsystem], discovery);
        Ok(Prepared::Target { target, servers, _published: published })
    }
}

/// The hosts' side of the drive's port, while hosts are served.
enum Prepared {
    Function(Rc<Function>, Server),
    Target { target: Rc<Target>, servers: Vec<nvme_tcp::Server>, _published: Published },
}

impl Prepared {
    /// Serves until `stop`. Counts in `clients` those that attach, and controllers that hosts create.
    async fn run(
        &self,
        clock: &Clock,
        clients: &Rc<Cell<u64>>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        match self {
            Prepared::Function(function, server) => {
                server.run(function, clients, stop).await;
                Ok(())
            }
            Prepared::Target { target, servers, .. } => {
                let served = nvme_tcp::run(clock, target, servers, clients, stop).await;
                served.map_err(|errno| Failure::Target(errno.to_string()))
            }
        }
    }
}

/// Serving on one port.
type Serving<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// Serves on all ports. The first error ends all of them.
async fn all(mut serving: Vec<Serving<'_>>) -> Result<(), Failure> {
    poll_fn(|context| {
        let mut index = 0;
        while let Some(one) = serving.get_mut(index) {
            match one.as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(Ok(())) => drop(serving.remove(index)),
                Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
            }
        }
        if serving.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Opens a drive's data directory.
fn open(name: &str, drive: &DriveConfig, path: &std::path::Path) -> Result<(Medium, Start), ServeError> {
    let begun = Instant::now();
    let directory =
        Directory::take(path).map_err(|source| ServeError::Directory { name: name.to_owned(), source })?;
    let (medium, opened) = Drive::open_medium(drive, Arc::new(directory))
        .map_err(|source| ServeError::Data { name: name.to_owned(), path: path.to_path_buf(), source })?;
    let opening = begun.elapsed();
    Ok((medium, Start { name: name.to_owned(), opened, opening, recovery: Duration::ZERO, lost_units: 0 }))
}

/// Runs `work`, unless the files fail in the meantime: then returns the reason.
async fn unless_failed<T>(flash: &Flash, work: impl Future<Output = T>) -> Result<T, Rc<str>> {
    let mut failed = pin!(flash.failed());
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(why) = failed.as_mut().poll(context) {
            return Poll::Ready(Err(why));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}
