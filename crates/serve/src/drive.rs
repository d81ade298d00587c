//! A served drive: its thread, its executor, what it reports. Each has a thread of its own; drives share nothing.
#![allow(clippy::disallowed_methods, reason = "a served drive has a thread of its own")]

use crate::function::{Doorbells, Function};
use crate::vfio_user::Server;
use crate::vfio_user::server::BindError;
use byteway_clock::{Delay, Executor, Pace, Stalled, Timing};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_link::{Ledger, Link, Memory, PcieConfig};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

/// What is to be served, and how.
#[derive(Clone)]
pub struct Setup {
    /// What the drive is called in messages.
    pub name: String,
    /// The drive.
    pub drive: DriveConfig,
    /// Its link, whose crossings take modelled time.
    pub link: PcieConfig,
    /// Whether modelled time passes.
    pub timing: Timing,
    /// How doorbells come.
    pub doorbells: Doorbells,
    /// How long to rest between two looks at mapped doorbells while nothing happens.
    pub rest: Delay,
    /// The socket's file.
    pub socket: PathBuf,
}

/// Ends what is served. Cheap to clone; from any thread.
#[derive(Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Nothing is to end yet.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Stop(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Everything is to end.
    pub fn stop(&self) {
        // It fails only when it was said so often that the counter is full.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

/// What became of a served drive.
pub struct Report {
    /// The drive's name.
    pub name: String,
    /// Clients that were attached, one after the other.
    pub clients: u64,
    /// Commands fetched, admin commands among them.
    pub commands: u64,
    /// Reads and compares, and their bytes.
    pub reads: (u64, u64),
    /// Writes, and their bytes.
    pub writes: (u64, u64),
    /// Controller resets.
    pub resets: u64,
    /// What crossed the link.
    pub ledger: Ledger,
    /// Posted writes into memory that the host had taken away.
    pub faults: u64,
    /// Interrupt messages that nobody took.
    pub interrupts_lost: u64,
    /// How far the runner kept to modelled time; None if none passed.
    pub pace: Option<Pace>,
}

/// Why a drive is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The drive cannot be built.
    #[error("drive {name}")]
    Drive {
        /// Its name.
        name: String,
        /// Why.
        source: ConfigError,
    },
    /// Its socket cannot be made.
    #[error("drive {name}")]
    Bind {
        /// Its name.
        name: String,
        /// Why.
        source: BindError,
    },
    /// The system refused something.
    #[error("drive {name}")]
    System {
        /// Its name.
        name: String,
        /// What it said.
        source: io::Error,
    },
    /// A defect.
    #[error("drive {name} stands still; this is a defect of Byteway")]
    Stalled {
        /// Its name.
        name: String,
        /// What stood still.
        source: Stalled,
    },
    /// Its thread has panicked.
    #[error("drive {name}: its thread has panicked; this is a defect of Byteway")]
    Panicked {
        /// Its name.
        name: String,
    },
}

/// Serves drives until `stop`, each in a thread of its own; calls `ready` when all can be attached to. If one cannot be
/// served none is.
///
/// # Errors
/// The first drive's that has one.
pub fn serve_all(setups: Vec<Setup>, stop: &Stop, ready: impl FnOnce()) -> Result<Vec<Report>, ServeError> {
    let (began, begun) = mpsc::channel();
    let count = setups.len();
    let mut threads = Vec::new();
    for setup in setups {
        let name = setup.name.clone();
        let (said, ending) = (began.clone(), Ending { began: began.clone(), stop: stop.clone() });
        let own_stop = stop.clone();
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let _ending = ending;
            serve(setup, &own_stop, move || _ = said.send(true))
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
    if begun.iter().take(count).filter(|begun| *begun).count() == count {
        ready();
    }
    let join = |(name, thread): (String, std::thread::JoinHandle<_>)| {
        thread.join().unwrap_or(Err(ServeError::Panicked { name }))
    };
    // All of them, before one's error is passed on.
    let ended: Vec<_> = threads.into_iter().map(join).collect();
    ended.into_iter().collect()
}

/// A drive's thread ends, however it does: then all do, and nobody waits for it to begin.
struct Ending {
    began: mpsc::Sender<bool>,
    stop: Stop,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.began.send(false); // counts only if it has not begun
        self.stop.stop();
    }
}

/// Serves a drive until `stop`, in this thread; calls `ready` when it can be attached to.
///
/// # Errors
/// The drive cannot be built, or its socket cannot be made.
pub fn serve(setup: Setup, stop: &Stop, ready: impl FnOnce()) -> Result<Report, ServeError> {
    let Setup { name, drive, link, timing, doorbells, rest, socket } = setup;
    let system = |source| ServeError::System { name: name.clone(), source };
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let (host, device) = Link::connect(&clock, link, Memory::guest());
    let vectors = drive.controller.vectors;
    let serial = drive.serial.bytes().fold(0u64, |number, byte| number.rotate_left(8) ^ u64::from(byte));
    let drive =
        Drive::new(&device, drive).map_err(|source| ServeError::Drive { name: name.clone(), source })?;
    let function = Function::new(&host, &drive.controller, serial, vectors, doorbells).map_err(system)?;
    function.set_rest(rest);
    let server = Server::bind(socket).map_err(|source| ServeError::Bind { name: name.clone(), source })?;
    ready();
    let stop = Rc::new(stop.0.try_clone().map_err(system)?);
    let (served, ending) = (function.clone(), clock.clone());
    let main = async move { server.run(&served, async move { ending.readable(&stop).await }).await };
    let clients = executor
        .run_real(timing, None, main)
        .map_err(|source| ServeError::Stalled { name: name.clone(), source })?;
    let counters = drive.controller.counters();
    Ok(Report {
        name,
        clients,
        commands: counters.fetched.get(),
        reads: (counters.reads.get(), counters.read_bytes.get()),
        writes: (counters.writes.get(), counters.written_bytes.get()),
        resets: counters.resets.get(),
        ledger: host.ledger().snapshot(),
        faults: host.faults(),
        interrupts_lost: function.interrupts().lost(),
        pace: (timing == Timing::Model).then(|| clock.pace()),
    })
}
