//! Drives served over NVMe/TCP: sockets, and the tasks that carry bytes between them and a [`Target`].
//!
//! A connection has a task that reads, one that writes what has gathered meanwhile, and as many that execute commands as it has under
//! way. A command goes on when its connection is gone, as its data lies in memory that the drive reads and writes.

use crate::stream::{Stream, StreamError};
use crate::tls::{Acceptor, KeyRing, Keys, TlsError};
use crate::vfio_user::server::before;
use byteway_clock::{Channel, Clock, Delay, Notify, TaskId};
use byteway_target::discovery::Port;
use byteway_target::tcp::{Broken, Connection, Work};
use byteway_target::{Ended, Queue, Reached, Target, Watching};
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

/// Connections at once; further ones are closed as they come.
const CONNECTIONS_MAX: usize = 1024;
/// How long a host has to connect its queue, once it has opened a connection.
const CONNECT_LIMIT: Delay = Delay::from_s(10);
/// How long a host has to authenticate a queue that it has connected.
const AUTHENTICATION_LIMIT: Delay = Delay::from_s(30);
/// Connections at once whose queue is not connected and authenticated; for a further one the oldest of them is closed.
const CONNECTING_MAX: usize = 128;
/// How long a host has to send the whole of a PDU.
const PDU_LIMIT: Delay = Delay::from_s(30);
/// How long a host has to take what waits for it, before its connection is closed.
const DEAF_LIMIT: Delay = Delay::from_s(30);
/// How long a host has to send data that it was asked for: so long, at least, may it have the oldest R2T.
const DATA_LIMIT: Delay = Delay::from_s(30);
/// How often that is looked at.
const DATA_PERIOD: Delay = Delay::from_s(5);
/// How long a host whose connection is over has to take the last of what is sent to it.
const LAST_LIMIT: Delay = Delay::from_s(5);
/// How long commands that have begun may go on when the server stops.
const DRAIN_LIMIT: Delay = Delay::from_ms(500);
/// How long hosts then have to close their connections, before they are closed for them.
const LINGER_LIMIT: Delay = Delay::from_ms(200);
/// How long to wait when the system has no descriptor left for a connection.
const EXHAUSTED_DELAY: Delay = Delay::from_ms(100);
/// How long nothing comes before the system asks whether there is a machine still.
const KEEP_IDLE: std::time::Duration = std::time::Duration::from_secs(60);
/// Bytes taken from a socket at once, at most.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes that gather before they are sent, unless nothing more is about to.
const GATHERED_BYTES: usize = 16 << 10;
/// Tasks of a connection that wait for further commands.
const IDLE_WORKERS_MAX: usize = 32;
/// Reads of a socket in a row before others have their turn.
const READS_MAX: u32 = 8;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there.
    #[error("{address} is in use: stop what listens there, or choose another port")]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The system said no.
    #[error("cannot listen at {address}")]
    System {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: Errno,
    },
}

/// A socket at which hosts connect. Cheap to clone: it may be bound in one thread and served in another.
#[derive(Clone)]
pub struct Server {
    listener: Arc<OwnedFd>,
    address: SocketAddr,
    tls: Tls,
}

/// What a port has to do with TLS.
#[derive(Clone)]
enum Tls {
    None,
    /// Hosts have to use it, with a configured key.
    Required(Acceptor),
    /// Hosts may begin with it, by a generated key.
    Generated(Acceptor, KeyRing),
}

impl Server {
    /// Listens at `address`; with port 0, at one that is free.
    ///
    /// # Errors
    /// What is in the way.
    pub fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let system = |source| BindError::System { address, source };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(family, SocketType::STREAM, flags, None).map_err(system)?;
        // A server that has just ended leaves connections that the system still remembers.
        set_socket_reuseaddr(&listener, true).map_err(system)?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => BindError::InUse { address },
            errno => system(errno),
        })?;
        listen(&listener, 128).map_err(system)?;
        let address = getsockname(&listener).ok().and_then(|bound| bound.try_into().ok()).unwrap_or(address);
        Ok(Server { listener: Arc::new(listener), address, tls: Tls::None })
    }

    /// Requires TLS of hosts, which reach this subsystem, and the Discovery Service, with one of these keys.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn secured(self, keys: &Keys, subsystem: &Nqn) -> Result<Self, TlsError> {
        let acceptor = Acceptor::new(keys, &[*subsystem, Nqn::discovery()])?;
        Ok(Server { tls: Tls::Required(acceptor), ..self })
    }

    /// Lets hosts use TLS, too, with the keys that they have generated by authentication.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub fn concatenating(self, ring: &KeyRing) -> Result<Self, TlsError> {
        Ok(Server { tls: Tls::Generated(Acceptor::by_ring(ring)?, ring.clone()), ..self })
    }

    /// Takes these keys for those of a server that requires TLS, from any thread: they hold for connections that come.
    pub fn replace_keys(&self, keys: &Keys, subsystem: &Nqn) {
        if let Tls::Required(acceptor) = &self.tls {
            acceptor.replace(keys, &[*subsystem, Nqn::discovery()]);
        }
    }

    /// The generated keys with which hosts may use TLS.
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

    /// Where hosts find it.
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

/// A subsystem's ports: each server with the port's identifier.
#[must_use]
pub fn ports(servers: &[Server]) -> Vec<Port> {
    let port =
        |(server, id): (&Server, u16)| Port { id, address: server.address, is_secure: server.is_secure() };
    servers.iter().zip(1..).map(port).collect()
}

/// Serves hosts, which come by any of `servers`, until `stop` is there; then what has begun is let come to its end, for
/// a while, and all connections are closed. Gives how many controllers of drives hosts have had.
///
/// # Errors
/// The system has no file descriptor left.
pub async fn run(
    clock: &Clock,
    target: &Rc<Target>,
    servers: &[Server],
    stop: impl Future<Output = ()>,
) -> Result<u64, Errno> {
    let serving = Rc::new(Serving {
        clock: clock.clone(),
        target: target.clone(),
        sessions: RefCell::default(),
        connections: Cell::new(0),
        commands: Cell::new(0),
        controllers: Cell::new(0),
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
    // Whoever reads wakes then, connected or not.
    serving.sessions().iter().for_each(|session| session.stream.close());
    while serving.connections.get() + serving.commands.get() > 0 {
        serving.changed.notified().await;
    }
    watched.into_iter().for_each(|(_, task)| clock.kill(task));
    Ok(serving.controllers.get())
}

type Watcher = Box<dyn Fn() + Send + Sync>;

/// Calls `changed` in this thread when that has changed which is watched, as any thread may have done.
fn watch(
    clock: &Clock,
    watched: impl FnOnce(Watcher) -> Watching,
    changed: impl Fn() + 'static,
) -> Result<(Watching, TaskId), Errno> {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let signal = fcntl_dupfd_cloexec(&event, 0)?;
    let watching = watched(Box::new(move || {
        // It fails only when so many changes wait that the counter is full.
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

/// What all connections share.
struct Serving {
    clock: Clock,
    target: Rc<Target>,
    sessions: RefCell<Vec<Weak<Session>>>,
    connections: Cell<usize>,
    /// Commands that are being executed, those of connections that are gone too.
    commands: Cell<usize>,
    controllers: Cell<u64>,
    /// Nothing further is begun; `changed` is notified of what ends.
    is_draining: Cell<bool>,
    is_stopping: Cell<bool>,
    changed: Notify,
}

impl Serving {
    fn sessions(&self) -> Vec<Rc<Session>> {
        self.sessions.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets what has begun come to its end and be acknowledged, and then has hosts close their connections; each for so long.
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
        // Closed at once, a socket with bytes that nobody has read would take back what the other end hasn't read either.
        self.sessions().iter().for_each(|session| session.stream.finish());
        let closed = async {
            while self.connections.get() > 0 {
                self.changed.notified().await;
            }
        };
        let limit = pin!(self.clock.timer(LINGER_LIMIT));
        let _ = before(limit, closed).await;
    }

    /// A host has come by this port.
    fn open(self: &Rc<Self>, socket: OwnedFd, port: u16, tls: &Tls) {
        if self.connections.get() == CONNECTIONS_MAX {
            warn!("a connection is closed: there are {CONNECTIONS_MAX}");
            return;
        }
        // Those that only come, and say little, must not keep others out.
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
        // A machine that is gone without a word, and whose host asked for no keep-alive, is found by the system.
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

/// Why a connection is closed.
#[derive(Clone, Debug, thiserror::Error)]
enum Gone {
    #[error("it has closed the connection")]
    Closed,
    #[error("{0}")]
    Broken(Broken),
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
    #[error("it has not taken what was sent to it within {} s", DEAF_LIMIT.0 / Delay::from_s(1).0)]
    Deaf,
    #[error("it has not sent data that it was asked for within {} s", DATA_LIMIT.0 / Delay::from_s(1).0)]
    Owing,
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("the server stops")]
    Stopped,
}

impl Gone {
    /// Whether the host is to learn why from what waits to be sent.
    fn is_told(&self) -> bool {
        match self {
            Gone::Broken(broken) => !matches!(broken, Broken::Told(_)),
            Gone::Disconnected | Gone::Unauthenticated(_) | Gone::Stopped => true,
            Gone::Ended(ended) => matches!(ended, Ended::Unauthenticated | Ended::Stopped),
            Gone::Closed
            | Gone::Reset
            | Gone::Slow
            | Gone::Unproven
            | Gone::Stalled
            | Gone::Deaf
            | Gone::Owing
            | Gone::Stream(_) => false,
        }
    }
}

/// A connection and its socket.
struct Session {
    serving: Rc<Serving>,
    stream: Stream,
    /// With which the host may begin TLS.
    offered: Option<Acceptor>,
    queue: Rc<Queue>,
    connection: RefCell<Connection>,
    /// What is to be executed; none: no more comes.
    works: Channel<Option<Work>>,
    /// Tasks that wait for it, beyond those for which something has come.
    idle: Cell<usize>,
    /// Something waits to be sent, or the connection is gone.
    unsent: Notify,
    /// The host has taken some of what was sent, or takes no more.
    taken: Notify,
    /// Why the reader is to end, which others have found.
    over: RefCell<Option<Gone>>,
    /// The task that waits for credit of the host's.
    crediting: Cell<Option<TaskId>>,
    /// A task looks whether the host sends what it was asked for.
    is_timing: Cell<bool>,
    /// A command has ended before the queue was established.
    connected: Notify,
    is_established: Cell<bool>,
    is_gone: Cell<bool>,
}

impl Session {
    /// Reads, and begins what comes, until the connection is to be closed.
    async fn read(self: Rc<Self>, peer: &str) -> Gone {
        let clock = &self.serving.clock;
        let mut chunk = vec![0; CHUNK_BYTES];
        // Behind TLS the handshake comes first, within the time that there is to connect.
        let secured = pin!(async {
            if let Some(acceptor) = &self.offered {
                self.stream.secure_if_asked(clock, acceptor).await?;
            }
            self.stream.secure(clock).await
        });
        match before(pin!(clock.timer(CONNECT_LIMIT)), secured).await {
            Some(Ok(peer)) => peer.into_iter().for_each(|peer| self.queue.secure(peer)),
            Some(Err(error)) => return Gone::Stream(error.into()),
            None => return Gone::Slow,
        }
        for (limit, is_reached, late) in [
            (CONNECT_LIMIT, Queue::is_connected as fn(&Queue) -> bool, Gone::Slow),
            (AUTHENTICATION_LIMIT, Queue::is_established, Gone::Unproven),
        ] {
            let reached = pin!(async {
                while !is_reached(&self.queue) && self.queue.refusal().is_none() {
                    self.connected.notified().await;
                }
            });
            // Its controller may end for others before its host has authenticated.
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
            return Gone::Ended(ended);
        }
        if let Some(why) = self.queue.refusal() {
            return Gone::Unauthenticated(why);
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
                (Some(why), _) => Gone::Unauthenticated(why),
                (None, Some(ended)) => Gone::Ended(ended),
                (None, None) => Gone::Reset,
            },
        }
    }

    /// Reads until the connection is to be closed: why. Nothing is lost if it is dropped.
    async fn read_on(self: &Rc<Self>, chunk: &mut [u8]) -> Gone {
        let clock = &self.serving.clock;
        let mut reads = 0;
        let mut begun = (0, clock.now());
        loop {
            if self.serving.is_stopping.get() {
                return Gone::Stopped;
            }
            if let Some(gone) = self.over.take() {
                return gone;
            }
            // What a host doesn't take would gather here.
            if self.connection.borrow().is_full() {
                self.taken.notified().await;
                continue;
            }
            match self.stream.receive(chunk) {
                Ok(0) => return Gone::Closed,
                Ok(bytes) => {
                    let received = self.connection.borrow_mut().receive(&chunk[..bytes]);
                    self.begin();
                    if let Err(broken) = received {
                        return Gone::Broken(broken);
                    }
                    self.unsent.notify_one();
                    reads += 1;
                    if reads % READS_MAX == 0 {
                        clock.yield_now().await;
                    }
                }
                // Commands that have come may end before there is more to read.
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
                        return Gone::Stalled;
                    }
                    let limit = pin!(clock.timer(deadline.since(clock.now())));
                    let _ = before(limit, self.stream.readable(clock)).await;
                }
                Err(error) => return Gone::Stream(error),
            }
        }
    }

    /// Has a task wait for credit of the host's, if a command needs some.
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

    /// Has a task look whether the host sends what it was asked for, if it was asked for something.
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
                    return session.end(Gone::Owing);
                }
            }
        });
    }

    /// Closes it when the host has had its time to take what is still sent to it.
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

    /// Has the reader end.
    fn end(&self, why: Gone) {
        self.over.borrow_mut().get_or_insert(why);
        self.taken.notify_one();
        self.stream.close();
    }

    /// Begins what has come.
    fn begin(self: &Rc<Self>) {
        self.wait_for_credit();
        self.limit_data();
        loop {
            let work = self.connection.borrow_mut().next_work();
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

    /// Executes commands one after another, of which the first has come.
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

    fn finish(&self, work: Work, cqe: Option<Cqe>) {
        self.connection.borrow_mut().finish(work, cqe);
        if !self.is_established.get() {
            self.is_established.set(self.queue.is_established());
            self.connected.notify_one();
        }
        // The host goes on with the first while the last are still being made. An error the writer will find, too.
        if self.connection.borrow().unsent().len() >= GATHERED_BYTES {
            let _ = self.send();
        }
        self.unsent.notify_one();
    }

    /// Sends some of what has gathered, if there is anything.
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

    fn close(self: &Rc<Self>, peer: &str, why: Gone) {
        let is_admin = self.queue.qid() == Some(0);
        let tells = why.is_told();
        let name = match (self.queue.controller(), self.queue.qid()) {
            (Some(controller), Some(qid)) => {
                format!("queue {qid} of {} from {peer}", controller.host().nqn.as_str())
            }
            _ => format!("a connection from {peer}"),
        };
        match why {
            Gone::Closed | Gone::Disconnected | Gone::Ended(Ended::Disconnected) | Gone::Reset
                if !is_admin => {}
            Gone::Closed
            | Gone::Disconnected
            | Gone::Stopped
            | Gone::Ended(Ended::Stopped | Ended::Disconnected) => {
                info!("{name} is closed: {why}");
            }
            why => warn!("{name} is closed: {why}"),
        }
        // Nothing waits on behalf of a host that is gone, and keeps from others what it has.
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

/// Sends what has gathered, until the connection is gone.
async fn write(session: Rc<Session>) {
    let serving = session.serving.clone();
    let clock = &serving.clock;
    let why = loop {
        match session.send() {
            None if session.is_gone.get() => break Gone::Closed,
            None if session.connection.borrow().is_closing() => break Gone::Disconnected,
            None => {
                session.unsent.notified().await;
                // What ends at the same time goes together.
                clock.yield_now().await;
            }
            Some(Ok(())) => {}
            Some(Err(StreamError::Blocked)) => {
                let limit = pin!(clock.timer(DEAF_LIMIT));
                if before(limit, session.stream.writable(clock)).await.is_none() {
                    break Gone::Deaf;
                }
            }
            Some(Err(error)) => break Gone::Stream(error),
        }
    };
    // The reader wakes, and finds why.
    session.end(why);
    while !session.is_gone.get() {
        session.unsent.notified().await;
    }
    drop(session);
    serving.ended(&serving.connections);
}

/// What `work` gives, unless `end` comes first.
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
