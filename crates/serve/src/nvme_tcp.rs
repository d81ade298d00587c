//! Drives served over NVMe/TCP: sockets, and the tasks that carry bytes between them and a [`Target`].
//!
//! A connection has a reader task, a writer task that sends what has accumulated, and a worker task for each
//! command in flight. A command runs to its end even if its connection closes, because the drive is reading
//! and writing its buffers.

use crate::before::before;
use crate::stream::{Stream, StreamError};
use crate::tls::{Acceptor, KeyRing, Keys, TlsError};
use byteway_clock::{Channel, Clock, Delay, Notify, TaskId};
use byteway_nvmeof::discovery::Port;
use byteway_nvmeof::tcp::{CapsuleCommand, Connection, ConnectionError};
use byteway_nvmeof::{Ended, Queue, Reached, Target, Watching};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::Explanation;
use byteway_wire::nvme::Cqe;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt::{set_socket_keepalive, set_socket_reuseaddr, set_tcp_keepidle, set_tcp_nodelay};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, getpeername, getsockname, listen, socket_with,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use tracing::{debug, info, warn};

/// Maximum number of open connections; further ones are closed immediately.
const CONNECTIONS_MAX: usize = 1024;
/// Time limit for a host to connect its queue, from when it opened the connection.
const CONNECT_LIMIT: Delay = Delay::from_s(10);
/// Time limit for a host to authenticate a queue, from when it connected it.
const AUTHENTICATION_LIMIT: Delay = Delay::from_s(30);
/// Connections whose queue is not yet connected and authenticated. One more closes the oldest of them.
const CONNECTING_MAX: usize = 128;
/// Time limit for a host to send a complete PDU.
const PDU_LIMIT: Delay = Delay::from_s(30);
/// Time limit for a host to receive pending bytes, before its connection is closed.
const DEAF_LIMIT: Delay = Delay::from_s(30);
/// Time limit for a host to send data that an R2T requested; counts from its oldest R2T.
const DATA_LIMIT: Delay = Delay::from_s(30);
/// Interval between two checks of [`DATA_LIMIT`].
const DATA_PERIOD: Delay = Delay::from_s(5);
/// Time limit for a host to receive the last bytes of a connection that is ending.
const LAST_LIMIT: Delay = Delay::from_s(5);
/// Time limit for outstanding commands when the server stops.
const DRAIN_LIMIT: Delay = Delay::from_ms(500);
/// Time limit for hosts to close their connections after that, before the server closes them.
const LINGER_LIMIT: Delay = Delay::from_ms(200);
/// Delay before accepting again when the system has no free descriptor.
const EXHAUSTED_DELAY: Delay = Delay::from_ms(100);
/// Idle time before the system sends TCP keep-alive probes.
const KEEP_IDLE: std::time::Duration = std::time::Duration::from_secs(60);
/// Bytes per read of a socket, at most.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes that accumulate before they are sent, unless no more are expected.
const GATHERED_BYTES: usize = 16 << 10;
/// Idle worker tasks that a connection keeps.
const IDLE_WORKERS_MAX: usize = 32;
/// Consecutive reads of a socket before other tasks run.
const READS_MAX: u32 = 8;

/// Error of [`Server::bind`].
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is in use by another socket.
    #[error("{address} is in use: stop what listens there, or choose another port")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The system refused.
    #[error("cannot listen at {address}")]
    System {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: Errno,
    },
}

/// A listening socket. Cheap to clone: it may be bound in one thread and served in another.
#[derive(Clone)]
pub struct Server {
    listener: Arc<OwnedFd>,
    address: SocketAddr,
    tls: Tls,
}

/// TLS at a port.
#[derive(Clone)]
enum Tls {
    None,
    /// Hosts have to use TLS with a configured key.
    Required(Acceptor),
    /// Hosts may start TLS with a generated key.
    Generated(Acceptor, KeyRing),
}

impl Server {
    /// Listens at `address`; port 0 selects a free port.
    ///
    /// # Errors
    /// The address is in use, or the system refused.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let system = |source| BindError::System { address, source };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(family, SocketType::STREAM, flags, None).map_err(system)?;
        // A server that has just ended leaves connections in TIME_WAIT, which would block the address.
        set_socket_reuseaddr(&listener, true).map_err(system)?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => BindError::InUse { address },
            errno => system(errno),
        })?;
        listen(&listener, 128).map_err(system)?;
        let address = getsockname(&listener).ok().and_then(|bound| bound.try_into().ok()).unwrap_or(address);
        Ok(Server { listener: Arc::new(listener), address, tls: Tls::None })
    }

    /// Requires TLS with one of these keys for access to this subsystem and to the Discovery Service.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn secured(self, keys: &Keys, subsystem: &Nqn) -> Result<Self, TlsError> {
        let acceptor = Acceptor::new(keys, &[*subsystem, Nqn::discovery()])?;
        Ok(Server { tls: Tls::Required(acceptor), ..self })
    }

    /// Also allows TLS with keys that authentication generated.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub fn concatenating(self, ring: &KeyRing) -> Result<Self, TlsError> {
        Ok(Server { tls: Tls::Generated(Acceptor::by_ring(ring)?, ring.clone()), ..self })
    }

    /// Replaces the keys of a server that requires TLS; callable from any thread. New connections use them.
    pub fn replace_keys(&self, keys: &Keys, subsystem: &Nqn) {
        if let Tls::Required(acceptor) = &self.tls {
            acceptor.replace(keys, &[*subsystem, Nqn::discovery()]);
        }
    }

    /// The generated keys that hosts may use for TLS.
    pub fn ring(&self) -> Option<&KeyRing> {
        match &self.tls {
            Tls::Generated(_, ring) => Some(ring),
            _ => None,
        }
    }

    /// Whether TLS is required.
    pub fn is_secure(&self) -> bool {
        matches!(self.tls, Tls::Required(_))
    }

    /// Address at which hosts connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    async fn accept(&self, clock: &Clock, listener: &Rc<OwnedFd>) -> OwnedFd {
        loop {
            match accept_with(&**listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => return socket,
                Err(Errno::AGAIN) => clock.readable(listener).await,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => {
                    warn!("a connection cannot be let in at {}: {errno}", self.address);
                    clock.timer(EXHAUSTED_DELAY).await;
                }
            }
        }
    }
}

/// The ports of a subsystem: each server with the port's identifier.
#[must_use]
pub fn ports(servers: &[Server]) -> Vec<Port> {
    let port =
        |(server, id): (&Server, u16)| Port { id, address: server.address, is_secure: server.is_secure() };
    servers.iter().zip(1..).map(port).collect()
}

/// Serves hosts at all `servers` until `stop` resolves. Then outstanding commands get a limited time to
/// complete, and all connections are closed. Counts in `controllers` those that hosts create.
///
/// # Errors
/// No file descriptors are left.
pub async fn run(
    clock: &Clock,
    target: &Rc<Target>,
    servers: &[Server],
    controllers: &Rc<Cell<u64>>,
    stop: impl Future<Output = ()>,
) -> Result<(), Errno> {
    let serving = Rc::new(Serving {
        clock: clock.clone(),
        target: target.clone(),
        sessions: RefCell::default(),
        connections: Cell::new(0),
        commands: Cell::new(0),
        controllers: controllers.clone(),
        is_draining: Cell::new(false),
        is_stopping: Cell::new(false),
        changed: Notify::new(clock),
    });
    let mut listening = Vec::new();
    for (server, port) in servers.iter().cloned().zip(1..) {
        let listener = Rc::new(fcntl_dupfd_cloexec(&*server.listener, 0)?);
        let serving = serving.clone();
        listening.push(clock.spawn("NVMe/TCP listener", async move {
            loop {
                let socket = server.accept(&serving.clock, &listener).await;
                serving.open(socket, port, &server.tls);
            }
        }));
    }
    let mut watched = Vec::new();
    if let Some(discovery) = target.discovery().cloned() {
        let directory = discovery.directory().clone();
        watched.push(watch(clock, |watcher| directory.watch(watcher), move || discovery.changed())?);
    }
    for subsystem in target.subsystems() {
        let subsystem = subsystem.clone();
        let ports = subsystem.config().ports.clone();
        watched.push(watch(clock, |watcher| ports.watch(watcher), move || subsystem.ports_changed())?);
    }
    stop.await;
    listening.into_iter().for_each(|task| clock.kill(task));
    serving.drain().await;
    serving.is_stopping.set(true);
    target.controllers().iter().for_each(|controller| controller.end(Ended::Stopped));
    // Closing wakes every reader, whether its queue is connected or not.
    serving.sessions().iter().for_each(|session| session.stream.close());
    while serving.connections.get() + serving.commands.get() > 0 {
        serving.changed.notified().await;
    }
    watched.into_iter().for_each(|(_, task)| clock.kill(task));
    Ok(())
}

type Watcher = Box<dyn Fn() + Send + Sync>;

/// Calls `changed` in this thread when the watched value has changed, which any thread may do.
fn watch(
    clock: &Clock,
    watched: impl FnOnce(Watcher) -> Watching,
    changed: impl Fn() + 'static,
) -> Result<(Watching, TaskId), Errno> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let signal = fcntl_dupfd_cloexec(&event, 0)?;
    let watching = watched(Box::new(move || {
        // The write fails only if the counter is at its maximum, and then the eventfd is readable anyway.
        let _ = rustix::io::write(&signal, &1u64.to_ne_bytes());
    }));
    let (own_clock, event) = (clock.clone(), Rc::new(event));
    let task = clock.spawn("changes of other threads", async move {
        loop {
            own_clock.readable(&event).await;
            let _ = rustix::io::read(&*event, &mut [0; 8]);
            changed();
        }
    });
    Ok((watching, task))
}

/// State that all connections share.
struct Serving {
    clock: Clock,
    target: Rc<Target>,
    sessions: RefCell<Vec<Weak<Session>>>,
    connections: Cell<usize>,
    /// Commands in execution, including those of closed connections.
    commands: Cell<usize>,
    controllers: Rc<Cell<u64>>,
    /// Set when no further command may start; `changed` is notified as commands end.
    is_draining: Cell<bool>,
    is_stopping: Cell<bool>,
    changed: Notify,
}

impl Serving {
    fn sessions(&self) -> Vec<Rc<Session>> {
        self.sessions.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets outstanding commands complete and be acknowledged, then waits for hosts to close their
    /// connections; each for a limited time.
    async fn drain(&self) {
        self.is_draining.set(true);
        self.sessions().iter().for_each(|session| session.connection.borrow_mut().drain());
        let is_drained =
            |session: &Rc<Session>| session.is_gone.get() || session.connection.borrow().is_drained();
        let drained = async {
            while !self.sessions().iter().all(is_drained) {
                self.changed.notified().await;
            }
        };
        let limit = pin!(self.clock.timer(DRAIN_LIMIT));
        if before(limit, drained).await.is_none() {
            let count = self.sessions().iter().filter(|session| !is_drained(session)).count();
            warn!("{count} connections are closed with commands that have not ended within the limit");
        }
        // Shut down writing instead of closing: closing a socket with unread bytes sends a reset, which
        // discards what the host has not yet read.
        self.sessions().iter().for_each(|session| session.stream.finish());
        let closed = async {
            while self.connections.get() > 0 {
                self.changed.notified().await;
            }
        };
        let limit = pin!(self.clock.timer(LINGER_LIMIT));
        let _ = before(limit, closed).await;
    }

    /// Accepts a connection at this port.
    fn open(self: &Rc<Self>, socket: OwnedFd, port: u16, tls: &Tls) {
        if self.connections.get() == CONNECTIONS_MAX {
            warn!("a connection is closed: there are {CONNECTIONS_MAX}");
            return;
        }
        // Hosts that connect and then say little must not lock others out.
        let sessions = self.sessions();
        let mut connecting =
            sessions.iter().filter(|session| !session.is_established.get() && !session.is_gone.get());
        if let Some(oldest) = connecting.next()
            && connecting.count() + 1 >= CONNECTING_MAX
        {
            debug!("a connection is closed: {CONNECTING_MAX} newer ones have not connected a queue either");
            oldest.is_gone.set(true);
            oldest.stream.close();
        }
        let _ = set_tcp_nodelay(&socket, true);
        // Detects a machine that disappeared, when its host asked for no NVMe keep-alive.
        let _ = set_socket_keepalive(&socket, true).and_then(|()| set_tcp_keepidle(&socket, KEEP_IDLE));
        let own = getsockname(&socket).ok().and_then(|own| own.try_into().ok());
        let is_secure = matches!(tls, Tls::Required(_));
        let reached = own.map_or(Reached::default(), |address| Reached { port, address, is_secure });
        let peer = getpeername(&socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        let peer = peer.map_or_else(|| "a host".to_owned(), |peer| peer.to_string());
        let socket = Rc::new(socket);
        let (tls, offered) = match tls {
            Tls::None => (Ok(None), None),
            Tls::Required(acceptor) => (acceptor.accept(&socket).map(Some), None),
            Tls::Generated(acceptor, ring) => {
                ring.sweep(self.clock.now());
                (Ok(None), Some(acceptor.clone()))
            }
        };
        let tls = match tls {
            Ok(tls) => tls,
            Err(error) => return warn!("a connection from {peer} is closed: {error}"),
        };
        let queue = Rc::new(Queue::at(&self.target, reached));
        let in_capsule = self.target.subsystems().iter().map(|subsystem| subsystem.config().in_capsule_bytes);
        let connection = Connection::new(queue.clone(), in_capsule.max().unwrap_or(0));
        let session = Rc::new(Session {
            serving: self.clone(),
            stream: Stream::new(socket, tls),
            offered,
            queue,
            connection: RefCell::new(connection),
            works: Channel::unbounded(&self.clock),
            idle: Cell::new(0),
            unsent: Notify::new(&self.clock),
            taken: Notify::new(&self.clock),
            over: RefCell::default(),
            crediting: Cell::new(None),
            is_timing: Cell::new(false),
            connected: Notify::new(&self.clock),
            is_established: Cell::new(false),
            is_gone: Cell::new(false),
        });
        self.connections.set(self.connections.get() + 1);
        self.sessions.borrow_mut().retain(|other| other.strong_count() > 0);
        self.sessions.borrow_mut().push(Rc::downgrade(&session));
        self.clock.spawn("NVMe/TCP writer", write(session.clone()));
        self.clock.spawn("NVMe/TCP connection", async move {
            let why = session.clone().read(&peer).await;
            session.close(&peer, why);
        });
    }

    fn ended(&self, count: &Cell<usize>) {
        count.set(count.get() - 1);
        self.has_changed();
    }

    fn has_changed(&self) {
        if self.is_draining.get() {
            self.changed.notify_all();
        }
    }
}

/// Why a connection ends.
#[derive(Clone, Debug, thiserror::Error)]
enum CloseReason {
    #[error("it has closed the connection")]
    Closed,
    #[error("{0}")]
    Broken(ConnectionError),
    #[error("{0}")]
    Ended(Ended),
    #[error("it has disconnected the queue")]
    Disconnected,
    #[error("its controller was reset")]
    Reset,
    #[error("it has not connected a queue within {} s", CONNECT_LIMIT.0 / Delay::from_s(1).0)]
    Slow,
    #[error("it has not authenticated: {0}")]
    Unauthenticated(Explanation),
    #[error("it has not authenticated within {} s", AUTHENTICATION_LIMIT.0 / Delay::from_s(1).0)]
    Unproven,
    #[error("it has not sent the whole of a PDU within {} s", PDU_LIMIT.0 / Delay::from_s(1).0)]
    Stalled,
    #[error("it has not read the data sent to it within {} s", DEAF_LIMIT.0 / Delay::from_s(1).0)]
    Deaf,
    #[error("it has not sent requested data within {} s", DATA_LIMIT.0 / Delay::from_s(1).0)]
    Owing,
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the server stops")]
    Stopped,
}

impl CloseReason {
    /// Whether the host learns the reason from PDUs that are still to be sent.
    fn is_told(&self) -> bool {
        match self {
            CloseReason::Broken(broken) => !matches!(broken, ConnectionError::Told(_)),
            CloseReason::Disconnected | CloseReason::Unauthenticated(_) | CloseReason::Stopped => true,
            CloseReason::Ended(ended) => matches!(ended, Ended::Unauthenticated | Ended::Stopped),
            CloseReason::Closed
            | CloseReason::Reset
            | CloseReason::Slow
            | CloseReason::Unproven
            | CloseReason::Stalled
            | CloseReason::Deaf
            | CloseReason::Owing
            | CloseReason::Stream(_) => false,
        }
    }
}

/// A connection and its socket.
struct Session {
    serving: Rc<Serving>,
    stream: Stream,
    /// The acceptor for a host that starts TLS on its own.
    offered: Option<Acceptor>,
    queue: Rc<Queue>,
    connection: RefCell<Connection>,
    /// Commands to execute; `None` marks the end.
    works: Channel<Option<CapsuleCommand>>,
    /// Idle workers that no queued command has claimed.
    idle: Cell<usize>,
    /// Notified when bytes are pending, or when the connection is closed.
    unsent: Notify,
    /// Notified when the host has received some bytes, or will receive no more.
    taken: Notify,
    /// Reason for which the reader has to end, set by another task.
    over: RefCell<Option<CloseReason>>,
    /// The task that waits for credit from the host.
    crediting: Cell<Option<TaskId>>,
    /// Whether a task checks that the host sends requested data.
    is_timing: Cell<bool>,
    /// Notified when a command ends before the queue is established.
    connected: Notify,
    is_established: Cell<bool>,
    is_gone: Cell<bool>,
}

impl Session {
    /// Reads PDUs and starts their commands, until the connection has to close.
    async fn read(self: Rc<Self>, peer: &str) -> CloseReason {
        let clock = &self.serving.clock;
        let mut chunk = vec![0; CHUNK_BYTES];
        // With TLS the handshake comes first, within the same time limit as Connect.
        let secured = pin!(async {
            if let Some(acceptor) = &self.offered {
                self.stream.secure_if_asked(clock, acceptor).await?;
            }
            self.stream.secure(clock).await
        });
        match before(pin!(clock.timer(CONNECT_LIMIT)), secured).await {
            Some(Ok(peer)) => peer.into_iter().for_each(|peer| self.queue.secure(peer)),
            Some(Err(error)) => return CloseReason::Stream(error.into()),
            None => return CloseReason::Slow,
        }
        for (limit, is_reached, late) in [
            (CONNECT_LIMIT, Queue::is_connected as fn(&Queue) -> bool, CloseReason::Slow),
            (AUTHENTICATION_LIMIT, Queue::is_established, CloseReason::Unproven),
        ] {
            let reached = pin!(async {
                while !is_reached(&self.queue) && self.queue.refusal().is_none() {
                    self.connected.notified().await;
                }
            });
            // Its controller may end because of another connection before this host has authenticated.
            let over = pin!(async {
                match self.queue.is_connected() {
                    true => self.queue.over().await,
                    false => std::future::pending().await,
                }
            });
            let reading = pin!(self.read_on(&mut chunk));
            let reading = pin!(first(reached, reading));
            match before(pin!(clock.timer(limit)), first(over, reading)).await.map(Option::flatten) {
                Some(None) => {}
                Some(Some(gone)) => return gone,
                None => return late,
            }
        }
        if let Some(ended) = self.queue.controller().and_then(|own| own.ended()) {
            return CloseReason::Ended(ended);
        }
        if let Some(why) = self.queue.refusal() {
            return CloseReason::Unauthenticated(why);
        }
        if let (Some(controller), Some(0)) = (self.queue.controller(), self.queue.qid()) {
            let host = controller.host().nqn.as_str().to_owned();
            match controller.subsystem() {
                Some(_) => {
                    self.serving.controllers.set(self.serving.controllers.get() + 1);
                    info!("{peer} is {host}, and has controller {}", controller.id());
                }
                None => info!("{peer} is {host}, and looks for drives"),
            }
        }
        let over = pin!(self.queue.over());
        let reading = pin!(self.read_on(&mut chunk));
        match first(over, reading).await {
            Some(gone) => gone,
            None => match (self.queue.refusal(), self.queue.controller().and_then(|own| own.ended())) {
                (Some(why), _) => CloseReason::Unauthenticated(why),
                (None, Some(ended)) => CloseReason::Ended(ended),
                (None, None) => CloseReason::Reset,
            },
        }
    }

    /// Reads until the connection has to close, and returns the reason. Cancel-safe: no byte is lost if the
    /// future is dropped.
    async fn read_on(self: &Rc<Self>, chunk: &mut [u8]) -> CloseReason {
        let clock = &self.serving.clock;
        let mut reads = 0;
        let mut begun = (0, clock.now());
        loop {
            if self.serving.is_stopping.get() {
                return CloseReason::Stopped;
            }
            if let Some(gone) = self.over.take() {
                return gone;
            }
            // Stop reading while the host does not receive: replies would accumulate without bound.
            if self.connection.borrow().is_full() {
                self.taken.notified().await;
                continue;
            }
            match self.stream.receive(chunk) {
                Ok(0) => return CloseReason::Closed,
                Ok(bytes) => {
                    let received = self.connection.borrow_mut().receive(&chunk[..bytes]);
                    self.begin();
                    if let Err(broken) = received {
                        return CloseReason::Broken(broken);
                    }
                    self.unsent.notify_one();
                    reads += 1;
                    if reads % READS_MAX == 0 {
                        clock.yield_now().await;
                    }
                }
                // Commands received so far may complete before more bytes arrive.
                Err(StreamError::Blocked) => {
                    reads = 0;
                    let (pdus, is_within) = self.connection.borrow().progress();
                    if !is_within {
                        self.stream.readable(clock).await;
                        continue;
                    }
                    if begun.0 != pdus {
                        begun = (pdus, clock.now());
                    }
                    let deadline = begun.1 + PDU_LIMIT;
                    if clock.now() >= deadline {
                        return CloseReason::Stalled;
                    }
                    let limit = pin!(clock.timer(deadline.since(clock.now())));
                    let _ = before(limit, self.stream.readable(clock)).await;
                }
                Err(error) => return CloseReason::Stream(error),
            }
        }
    }

    /// Spawns a task that waits for credit from the host, if a command needs some.
    fn wait_for_credit(self: &Rc<Self>) {
        if self.crediting.get().is_some() || !self.connection.borrow().waits_for_credit() {
            return;
        }
        let session = self.clone();
        let task = self.serving.clock.spawn("credit of a remote host", async move {
            while session.connection.borrow().waits_for_credit() {
                let credit = session.connection.borrow().credit();
                let credit = credit.await;
                session.connection.borrow_mut().grant(credit);
                session.limit_data();
                session.unsent.notify_one();
            }
            session.crediting.set(None);
        });
        self.crediting.set(Some(task));
    }

    /// Spawns a task that checks the host's data transfers, if any data was requested.
    fn limit_data(self: &Rc<Self>) {
        if self.is_timing.get() || !self.connection.borrow().awaits_data() {
            return;
        }
        self.is_timing.set(true);
        let (clock, session) = (self.serving.clock.clone(), Rc::downgrade(self));
        self.serving.clock.spawn("data of a remote host", async move {
            let mut oldest = (None, clock.now());
            loop {
                clock.timer(DATA_PERIOD).await;
                let Some(session) = session.upgrade() else { return };
                let connection = session.connection.borrow();
                if session.is_gone.get() || !connection.awaits_data() {
                    return session.is_timing.set(false);
                }
                let asked = connection.oldest_request();
                if asked.is_none() || asked != oldest.0 {
                    oldest = (asked, clock.now());
                } else if clock.now() >= oldest.1 + DATA_LIMIT {
                    drop(connection);
                    return session.end(CloseReason::Owing);
                }
            }
        });
    }

    /// Closes the connection after a limited time for the host to receive pending bytes.
    fn close_soon(self: &Rc<Self>) {
        let (clock, session) = (self.serving.clock.clone(), Rc::downgrade(self));
        self.serving.clock.spawn("last of a connection", async move {
            clock.timer(LAST_LIMIT).await;
            if let Some(session) = session.upgrade() {
                session.connection.borrow_mut().abandon(false);
                session.stream.close();
            }
        });
    }

    /// Tells the reader to end.
    fn end(&self, why: CloseReason) {
        self.over.borrow_mut().get_or_insert(why);
        self.taken.notify_one();
        self.stream.close();
    }

    /// Hands received commands to workers.
    fn begin(self: &Rc<Self>) {
        self.wait_for_credit();
        self.limit_data();
        loop {
            let work = self.connection.borrow_mut().next_command();
            let Some(work) = work else { return };
            if let Some(status) = work.refused() {
                self.finish(work, Some(Cqe::new(0, status, 0, 0)));
                continue;
            }
            let serving = &self.serving;
            serving.commands.set(serving.commands.get() + 1);
            let _ = self.works.try_send(Some(work));
            match self.idle.get() {
                0 => _ = serving.clock.spawn("commands of a remote host", self.clone().execute_all()),
                idle => self.idle.set(idle - 1),
            }
        }
    }

    /// Executes commands one after another, starting with one that is queued.
    async fn execute_all(self: Rc<Self>) {
        while let Some(mut work) = self.works.receive().await {
            let cqe = work.execute(&self.queue).await;
            self.finish(work, cqe);
            self.serving.ended(&self.serving.commands);
            if self.is_gone.get() || self.idle.get() >= IDLE_WORKERS_MAX {
                return;
            }
            self.idle.set(self.idle.get() + 1);
        }
    }

    fn finish(&self, work: CapsuleCommand, cqe: Option<Cqe>) {
        self.connection.borrow_mut().finish(work, cqe);
        if !self.is_established.get() {
            self.is_established.set(self.queue.is_established());
            self.connected.notify_one();
        }
        // Send the first responses while the rest are still being produced. The writer finds a send error,
        // too.
        if self.connection.borrow().unsent().len() >= GATHERED_BYTES {
            let _ = self.send();
        }
        self.unsent.notify_one();
    }

    /// Sends some of the accumulated bytes, if there are any.
    fn send(&self) -> Option<Result<(), StreamError>> {
        let mut connection = self.connection.borrow_mut();
        if connection.unsent().is_empty() {
            return None;
        }
        let sent = self.stream.send(connection.unsent());
        Some(sent.map(|bytes| {
            connection.sent(bytes);
            if !connection.is_full() {
                self.taken.notify_one();
            }
            drop(connection);
            self.serving.has_changed();
        }))
    }

    fn close(self: &Rc<Self>, peer: &str, why: CloseReason) {
        let is_admin = self.queue.qid() == Some(0);
        let tells = why.is_told();
        let name = match (self.queue.controller(), self.queue.qid()) {
            (Some(controller), Some(qid)) => {
                format!("queue {qid} of {} from {peer}", controller.host().nqn.as_str())
            }
            _ => format!("a connection from {peer}"),
        };
        match why {
            CloseReason::Closed
            | CloseReason::Disconnected
            | CloseReason::Ended(Ended::Disconnected)
            | CloseReason::Reset
                if !is_admin => {}
            CloseReason::Closed
            | CloseReason::Disconnected
            | CloseReason::Stopped
            | CloseReason::Ended(Ended::Stopped | Ended::Disconnected) => {
                info!("{name} is closed: {why}");
            }
            why => warn!("{name} is closed: {why}"),
        }
        // A task that waits for credit must not hold resources for a host that is gone.
        if let Some(task) = self.crediting.take() {
            self.serving.clock.kill(task);
        }
        self.queue.close();
        self.connection.borrow_mut().abandon(tells);
        self.is_gone.set(true);
        match tells && !self.connection.borrow().unsent().is_empty() {
            true => self.close_soon(),
            false => self.stream.close(), // the writer wakes
        }
        (0..self.idle.take()).for_each(|_| _ = self.works.try_send(None));
        self.unsent.notify_one();
        self.serving.has_changed();
    }
}

/// Sends accumulated bytes until the connection is closed.
async fn write(session: Rc<Session>) {
    let serving = session.serving.clone();
    let clock = &serving.clock;
    let why = loop {
        match session.send() {
            None if session.is_gone.get() => break CloseReason::Closed,
            None if session.connection.borrow().is_closing() => break CloseReason::Disconnected,
            None => {
                session.unsent.notified().await;
                // Yield once, so that responses that complete at the same time go out together.
                clock.yield_now().await;
            }
            Some(Ok(())) => {}
            Some(Err(StreamError::Blocked)) => {
                let limit = pin!(clock.timer(DEAF_LIMIT));
                if before(limit, session.stream.writable(clock)).await.is_none() {
                    break CloseReason::Deaf;
                }
            }
            Some(Err(error)) => break CloseReason::Stream(error),
        }
    };
    // Wakes the reader, which then returns the reason.
    session.end(why);
    while !session.is_gone.get() {
        session.unsent.notified().await;
    }
    drop(session);
    serving.ended(&serving.connections);
}

/// The output of `work`, unless `end` resolves first.
async fn first<T>(
    mut end: Pin<&mut impl Future<Output = ()>>,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    poll_fn(|context| {
        if let Poll::Ready(value) = work.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        end.as_mut().poll(context).map(|()| None)
    })
    .await
}
