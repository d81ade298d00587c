//! The socket at which clients attach, one client at a time.

use super::channel::{ANSWER_LIMIT, Channel, Gone};
use super::message::Command;
use super::peer::Peer;
use super::remote::Line;
use super::session::Session;
use crate::before::before;
use crate::function::Function;
use byteway_clock::{Clock, Delay, Notify};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat, lstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use tracing::{info, warn};

/// Longest path of a socket, in bytes.
const PATH_BYTES_MAX: usize = 107;
/// Maximum number of clients that are being refused at the same time; further ones are closed immediately.
const TURNED_AWAY_MAX: usize = 32;
/// Time limit for the system to close the socket of a client whose process has ended, shorter than a client waits for its answer; and the
/// interval of checks.
const LEAVING_LIMIT: Delay = Delay::from_s(3);
const LEAVING_LOOK: Delay = Delay::from_ms(10);
/// Delay before accepting again when the system has no free descriptor.
const EXHAUSTED_DELAY: Delay = Delay::from_ms(100);

/// Error of [`Server::bind`].
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The path is too long.
    #[error(
        "the socket's path {path} has {bytes} bytes, and at most {PATH_BYTES_MAX} are possible: choose a shorter \
         directory, or go there and use a relative path"
    )]
    TooLong {
        /// Path of the socket.
        path: PathBuf,
        /// Length of the path in bytes.
        bytes: usize,
    },
    /// The parent directory does not exist.
    #[error("there is no directory {directory} for the socket {path}: make it first (mkdir -p {directory})")]
    NoDirectory {
        /// Path of the socket.
        path: PathBuf,
        /// The missing directory.
        directory: PathBuf,
    },
    /// Another server listens at the path.
    #[error("a server answers at {path} already: stop it, or choose another path")]
    InUse {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The path names something other than a socket.
    #[error("{path} is there and is not a socket: remove it, or choose another path")]
    NotASocket {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The system refused.
    #[error("the socket {path} cannot be created")]
    System {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        source: Errno,
    },
}

/// A listening socket at which clients attach.
pub struct Server {
    listener: Rc<OwnedFd>,
    path: PathBuf,
    /// Status of the socket's file when it was created.
    made: Stat,
}

/// The attached client.
struct Attached {
    line: RefCell<Option<Rc<Line>>>,
    /// Its process.
    peer: RefCell<Option<Peer>>,
    left: Notify,
    turned_away: Cell<usize>,
}

impl Server {
    /// Creates the socket. Replaces the file of a server that no longer exists.
    ///
    /// # Errors
    /// The path cannot be used; the message says what to change.
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, BindError> {
        let path = path.into();
        let system = |source| BindError::System { path: path.clone(), source };
        let bytes = path.as_os_str().len();
        if bytes > PATH_BYTES_MAX {
            return Err(BindError::TooLong { path, bytes });
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !directory.is_dir() {
            let directory = directory.to_path_buf();
            return Err(BindError::NoDirectory { path, directory });
        }
        let address = SocketAddrUnix::new(&path).map_err(system)?;
        match lstat(&path) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(system(errno)),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Socket => {
                return Err(BindError::NotASocket { path });
            }
            Ok(_) => match connect(stream().map_err(system)?, &address) {
                // No process listens: the file is stale.
                Err(Errno::CONNREFUSED) => rustix::fs::unlink(&path).map_err(system)?,
                // The file was removed in the meantime.
                Err(Errno::NOENT) => {}
                // EAGAIN means that the listener's backlog is full, so a server exists.
                Ok(()) | Err(Errno::AGAIN) => return Err(BindError::InUse { path }),
                Err(errno) => return Err(system(errno)),
            },
        }
        let listener = stream().map_err(system)?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => BindError::InUse { path: path.clone() },
            errno => system(errno),
        })?;
        let made = lstat(&path).map_err(system)?;
        let server = Server { listener: Rc::new(listener), path: path.clone(), made };
        listen(&*server.listener, 8).map_err(system)?;
        Ok(server)
    }

    /// Path at which clients attach.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves one client after another until `stop` resolves. A client that is attached then is dropped, and
    /// the function is reset as if none had been attached. Counts the clients in `clients`.
    pub async fn run(&self, function: &Rc<Function>, clients: &Cell<u64>, stop: impl Future<Output = ()>) {
        let clock = function.clock();
        let attached = Rc::new(Attached {
            line: RefCell::default(),
            peer: RefCell::default(),
            left: Notify::new(clock),
            turned_away: Cell::new(0),
        });
        let mut stop = pin!(stop);
        while let Some(socket) = before(stop.as_mut(), self.accept(clock)).await {
            let peer = Peer::of(&socket);
            let line = Rc::new(Line::new(clock, Channel::new(socket)));
            let current = attached.line.borrow().clone();
            if let Some(current) = current {
                let leaves = before(stop.as_mut(), attached.leaves(clock, &current)).await;
                let Some(leaves) = leaves else { break };
                if !leaves {
                    attached.turn_away(clock, line, peer);
                    continue;
                }
                // Commands of the previous client may still be in flight.
                if before(stop.as_mut(), attached.gone()).await.is_none() {
                    break;
                }
            }
            clients.set(clients.get() + 1);
            attached.attach(function, line, peer);
        }
        let current = attached.line.borrow().clone();
        if let Some(current) = current {
            current.channel().end(Gone::Stopped);
            attached.gone().await;
        }
    }

    async fn accept(&self, clock: &Clock) -> OwnedFd {
        loop {
            match accept_with(&*self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => return socket,
                Err(Errno::AGAIN) => clock.readable(&self.listener).await,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    warn!("a client cannot be let in at {}: {errno}", self.path.display());
                    clock.timer(EXHAUSTED_DELAY).await;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Another server may have replaced the file: remove only our own.
        let is_own = lstat(&self.path)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.made.st_dev, self.made.st_ino));
        if is_own {
            let _ = rustix::fs::unlink(&self.path);
        }
    }
}

impl Attached {
    /// Starts the session of a client.
    fn attach(self: &Rc<Self>, function: &Rc<Function>, line: Rc<Line>, peer: Peer) {
        self.line.replace(Some(line.clone()));
        self.peer.replace(Some(peer.clone()));
        info!("{peer} has come");
        let (attached, function) = (self.clone(), function.clone());
        function.clock().clone().spawn("vfio-user session", async move {
            let session = Session::new(line.clone(), function.clone(), peer.clone());
            match session.run().await {
                Gone::Closed => info!("{peer} has gone"),
                Gone::Stopped => info!("{peer} is detached: the server stops"),
                why => warn!("{peer} is dropped: {why}"),
            }
            function.detach().await;
            if line.channel().stray_replies() > 0 {
                info!("{peer} sent {} replies to no request", line.channel().stray_replies());
            }
            attached.line.replace(None);
            attached.left.notify_one();
        });
    }

    /// Whether the attached client has hung up; if its process has ended, this waits until the system has closed its socket.
    async fn leaves(&self, clock: &Clock, line: &Line) -> bool {
        let mut limit = LEAVING_LIMIT;
        loop {
            if line.channel().has_left() {
                return true;
            }
            let has_ended = self.peer.borrow().as_ref().is_some_and(Peer::has_ended);
            if !has_ended || limit == Delay::ZERO {
                return false;
            }
            clock.timer(LEAVING_LOOK).await;
            limit = limit.saturating_sub(LEAVING_LOOK);
        }
    }

    /// Waits until no client is attached.
    async fn gone(&self) {
        while self.line.borrow().is_some() {
            self.left.notified().await;
        }
    }

    /// Answers the first message of a client that has to be refused, so that the client can report why.
    fn turn_away(self: &Rc<Self>, clock: &Clock, line: Rc<Line>, peer: Peer) {
        warn!("{peer} is turned away: another client is attached, and a drive serves one at a time");
        if self.turned_away.get() == TURNED_AWAY_MAX {
            return;
        }
        self.turned_away.set(self.turned_away.get() + 1);
        let (attached, limit) = (self.clone(), clock.clone());
        clock.spawn("vfio-user refusal", async move {
            let limit = pin!(limit.timer(Delay::from_ms(ANSWER_LIMIT.as_millis() as u64)));
            if let Some(Ok(message)) = before(limit, line.next()).await
                && message.header.command() == Command::VERSION
            {
                let busy = message.header.failure(Errno::BUSY.raw_os_error().unsigned_abs());
                // The client may be gone.
                let _ = line.channel().send(busy, &[], &[]);
            }
            attached.turned_away.set(attached.turned_away.get() - 1);
        });
    }
}

fn stream() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}
