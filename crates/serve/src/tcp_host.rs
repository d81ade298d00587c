//! The host's end of NVMe/TCP: the sockets of an association with a target, for Byteway's own driver.

use crate::stream::{Stream, StreamError};
use crate::tls::{Connector, TlsError, TlsPsk};
use byteway_clock::{Clock, Delay, Notify};
use byteway_host::fabric::tcp::TcpConnection;
use byteway_host::fabric::{Adapter, Connection, Generated, Messenger, NoChannel, ToHost, ToTarget};
use byteway_wire::fabrics::tcp::Digests;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// Time limit for establishing a TCP connection.
const CONNECT_LIMIT: Delay = Delay::from_s(5);
/// Time limit for a TLS handshake.
const HANDSHAKE_LIMIT: Delay = Delay::from_s(5);
/// Bytes per read of a socket, at most.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that accumulate before they are sent, so that the target can start while the rest is still being
/// produced.
const GATHERED_BYTES: usize = 16 << 10;

/// A connection and its socket.
struct Socket {
    stream: Stream,
    /// Whether messages may be sent: the TLS handshake, if any, is complete.
    is_open: Cell<bool>,
    tcp: RefCell<TcpConnection>,
    /// Messages produced while received bytes were being processed; sent afterwards.
    later: RefCell<Vec<ToTarget>>,
    unsent: Notify,
    is_closed: Cell<bool>,
}

/// The sockets of associations with one target.
pub struct Sockets {
    clock: Clock,
    address: SocketAddr,
    digests: Digests,
    tls: Option<Connector>,
    /// TLS connectors of associations with a generated key, by association.
    generated: RefCell<BTreeMap<u16, Connector>>,
    open: Rc<RefCell<BTreeMap<Connection, Rc<Socket>>>>,
    failed: TlsFailure,
}

/// The last TLS failure with a target, if any. Cheap to clone.
#[derive(Clone, Default)]
pub struct TlsFailure(Rc<RefCell<Option<TlsError>>>);

impl TlsFailure {
    /// The last failure.
    pub fn last(&self) -> Option<TlsError> {
        self.0.borrow().clone()
    }
}

/// Starts connecting a socket: when it becomes writable it is connected, or has failed. Never blocks, so that
/// a target that does not answer delays nothing else.
fn begin_to_connect(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Waits until the socket is connected, and performs the TLS handshake, if any.
async fn establish(clock: &Clock, socket: &Socket, descriptor: &OwnedFd) -> Result<(), StreamError> {
    let connected = clock.within(CONNECT_LIMIT, socket.stream.writable(clock)).await;
    let ended = connected.map_or(Err(Errno::TIMEDOUT), |()| socket_error(descriptor).flatten());
    ended.map_err(StreamError::Socket)?;
    let secured = clock.within(HANDSHAKE_LIMIT, socket.stream.secure(clock)).await;
    secured.unwrap_or(Err(TlsError::Slow)).map(drop).map_err(StreamError::Tls)
}

impl Sockets {
    /// Sockets to the target at `address`. Connections use these digests if the target accepts them.
    pub fn new(clock: &Clock, address: SocketAddr, digests: Digests) -> Sockets {
        let (generated, open, failed) = (RefCell::default(), Rc::default(), TlsFailure::default());
        Sockets { clock: clock.clone(), address, digests, tls: None, generated, open, failed }
    }

    /// Uses TLS on every connection.
    #[must_use]
    pub fn secured(self, tls: Connector) -> Sockets {
        Sockets { tls: Some(tls), ..self }
    }

    /// A handle that reports whether TLS caused an association to fail.
    pub fn tls_failure(&self) -> TlsFailure {
        self.failed.clone()
    }

    fn connect(&self, adapter: &Adapter, connection: Connection) -> std::io::Result<()> {
        let descriptor = Rc::new(begin_to_connect(self.address)?);
        let generated = self.generated.borrow().get(&connection.association).cloned();
        let tls = generated.as_ref().or(self.tls.as_ref());
        let tls = tls.map(|tls| tls.connect(&descriptor)).transpose();
        let socket = Rc::new(Socket {
            stream: Stream::new(descriptor.clone(), tls.map_err(std::io::Error::other)?),
            is_open: Cell::default(),
            tcp: RefCell::new(TcpConnection::new(connection, self.digests)),
            later: RefCell::default(),
            unsent: Notify::new(&self.clock),
            is_closed: Cell::default(),
        });
        self.open.borrow_mut().insert(connection, socket.clone());
        self.clock.spawn("NVMe/TCP writer", write(self.clock.clone(), socket.clone()));
        let (clock, adapter, open) = (self.clock.clone(), adapter.clone(), self.open.clone());
        let (address, failed) = (self.address, self.failed.clone());
        self.clock.spawn("NVMe/TCP reader", async move {
            match establish(&clock, &socket, &descriptor).await {
                Ok(()) => {
                    socket.is_open.set(true);
                    socket.unsent.notify_one();
                    read(&clock, &adapter, &socket).await;
                }
                Err(error) => {
                    tracing::warn!("{address}: {error}");
                    if let StreamError::Tls(error) = error {
                        failed.0.replace(Some(error));
                    }
                }
            }
            socket.close();
            let is_own = open.borrow().get(&connection).is_some_and(|own| Rc::ptr_eq(own, &socket));
            if is_own {
                open.borrow_mut().remove(&connection);
                adapter.deliver(connection, ToHost::Closed);
            }
        });
        Ok(())
    }
}

impl Messenger for Sockets {
    fn send(&self, adapter: &Adapter, connection: Connection, message: ToTarget) {
        let found = self.open.borrow().get(&connection).cloned();
        match (message, found) {
            (ToTarget::Open, _) => {
                if let Err(error) = self.connect(adapter, connection) {
                    tracing::warn!("{}: {error}", self.address);
                    // Connect in a task: the caller does not wait for the connection here.
                    let (clock, adapter) = (self.clock.clone(), adapter.clone());
                    self.clock.spawn("refused connection", async move {
                        clock.yield_now().await;
                        adapter.deliver(connection, ToHost::Closed);
                    });
                }
            }
            (ToTarget::Close, Some(socket)) => {
                self.open.borrow_mut().remove(&connection);
                let _ = socket.flush(); // flush what was produced so far
                socket.close();
            }
            (message, Some(socket)) => match socket.tcp.try_borrow_mut() {
                Ok(mut tcp) => {
                    tcp.send(adapter, message);
                    let gathered = tcp.unsent().len();
                    drop(tcp);
                    // The writer finds a send error, too.
                    if gathered < GATHERED_BYTES || !matches!(socket.flush(), Ok(true)) {
                        socket.unsent.notify_one();
                    }
                }
                Err(_) => socket.later.borrow_mut().push(message),
            },
            (_, None) => {}
        }
    }

    fn secure(&self, association: u16, key: Option<Generated<'_>>) -> Result<(), NoChannel> {
        let mut generated = self.generated.borrow_mut();
        match key {
            None => _ = generated.remove(&association),
            Some(Generated { psk, host, subsystem }) => {
                let connector = Connector::new(vec![TlsPsk::generated(psk, &host, &subsystem)]);
                generated.insert(association, connector.map_err(|_| NoChannel)?);
            }
        }
        Ok(())
    }
}

impl Socket {
    fn close(&self) {
        if !self.is_closed.replace(true) {
            self.stream.close();
            self.unsent.notify_one();
        }
    }

    /// Sends what the socket accepts now; returns whether that was everything.
    fn flush(&self) -> Result<bool, StreamError> {
        // Called while received bytes are being processed, which close the connection: nothing more is to be
        // sent.
        let Ok(mut tcp) = self.tcp.try_borrow_mut() else { return Ok(false) };
        while self.is_open.get() && !tcp.unsent().is_empty() {
            match self.stream.send(tcp.unsent()) {
                Ok(bytes) => tcp.sent(bytes),
                Err(StreamError::Blocked) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Sends pending bytes; messages produced in the same turn go out together.
async fn write(clock: Clock, socket: Rc<Socket>) {
    while !socket.is_closed.get() {
        match socket.flush() {
            Ok(true) => {
                socket.unsent.notified().await;
                clock.yield_now().await;
            }
            Ok(false) => socket.stream.writable(&clock).await,
            Err(_) => socket.close(),
        }
    }
}

/// Receives until the connection is closed.
async fn read(clock: &Clock, adapter: &Adapter, socket: &Socket) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while !socket.is_closed.get() {
        match socket.stream.receive(&mut chunk) {
            Ok(0) => return,
            Ok(bytes) => {
                let received = socket.tcp.borrow_mut().receive(adapter, &chunk[..bytes]);
                for message in socket.later.take() {
                    socket.tcp.borrow_mut().send(adapter, message);
                }
                socket.unsent.notify_one();
                if let Err(error) = received {
                    tracing::warn!("the target breaks the protocol: {error}");
                    let _ = socket.flush(); // sends the reason to the target
                    return;
                }
                clock.yield_now().await;
            }
            Err(StreamError::Blocked) => socket.stream.readable(clock).await,
            Err(StreamError::Tls(error)) => {
                tracing::warn!("the target's end of TLS: {error}");
                return;
            }
            Err(StreamError::Socket(_)) => return,
        }
    }
}
