//! The host's end of NVMe/TCP: the sockets of an association with a target, for a driver of our own.

use byteway_clock::{Clock, Notify};
use byteway_host::fabric::tcp::TcpConnection;
use byteway_host::fabric::{Adapter, Connection, Messenger, ToHost, ToTarget};
use byteway_wire::fabrics::tcp::Digests;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes taken from a socket at once, at most.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes that are gathered before they are sent: the target is to begin with the first while the last are still being made.
const GATHERED_BYTES: usize = 16 << 10;

/// A connection and its socket.
struct Socket {
    descriptor: Rc<OwnedFd>,
    tcp: RefCell<TcpConnection>,
    /// Messages that came up while bytes were taken in.
    later: RefCell<Vec<ToTarget>>,
    unsent: Notify,
    is_closed: Cell<bool>,
}

/// Sockets to a target.
pub struct Sockets {
    clock: Clock,
    address: SocketAddr,
    digests: Digests,
    open: Rc<RefCell<BTreeMap<Connection, Rc<Socket>>>>,
}

impl Sockets {
    /// To the target at `address`, whose connections have these digests if the target takes them.
    pub fn new(clock: &Clock, address: SocketAddr, digests: Digests) -> Sockets {
        Sockets { clock: clock.clone(), address, digests, open: Rc::default() }
    }

    fn connect(&self, adapter: &Adapter, connection: Connection) -> std::io::Result<()> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let socket = Rc::new(Socket {
            descriptor: Rc::new(OwnedFd::from(stream)),
            tcp: RefCell::new(TcpConnection::new(connection, self.digests)),
            later: RefCell::default(),
            unsent: Notify::new(&self.clock),
            is_closed: Cell::default(),
        });
        self.open.borrow_mut().insert(connection, socket.clone());
        self.clock.spawn("NVMe/TCP writer", write(self.clock.clone(), socket.clone()));
        let (clock, adapter, open) = (self.clock.clone(), adapter.clone(), self.open.clone());
        self.clock.spawn("NVMe/TCP reader", async move {
            read(&clock, &adapter, &socket).await;
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
                    // Not at once: whoever opens it does not wait yet.
                    let (clock, adapter) = (self.clock.clone(), adapter.clone());
                    self.clock.spawn("refused connection", async move {
                        clock.yield_now().await;
                        adapter.deliver(connection, ToHost::Closed);
                    });
                }
            }
            (ToTarget::Close, Some(socket)) => {
                self.open.borrow_mut().remove(&connection);
                let _ = socket.flush(); // what was said before
                socket.close();
            }
            (message, Some(socket)) => match socket.tcp.try_borrow_mut() {
                Ok(mut tcp) => {
                    tcp.send(adapter, message);
                    let gathered = tcp.unsent().len();
                    drop(tcp);
                    // An error the writer will find, too.
                    if gathered < GATHERED_BYTES || !matches!(socket.flush(), Ok(true)) {
                        socket.unsent.notify_one();
                    }
                }
                Err(_) => socket.later.borrow_mut().push(message),
            },
            (_, None) => {}
        }
    }
}

impl Socket {
    fn close(&self) {
        if !self.is_closed.replace(true) {
            let _ = shutdown(&*self.descriptor, Shutdown::Both);
            self.unsent.notify_one();
        }
    }

    /// Sends what the system takes now, and says whether that was all.
    fn flush(&self) -> Result<bool, Errno> {
        let mut tcp = self.tcp.borrow_mut();
        while !tcp.unsent().is_empty() {
            match send(&*self.descriptor, tcp.unsent(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => tcp.sent(bytes),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}

/// Sends what waits, all at once that was said meanwhile.
async fn write(clock: Clock, socket: Rc<Socket>) {
    while !socket.is_closed.get() {
        match socket.flush() {
            Ok(true) => {
                socket.unsent.notified().await;
                clock.yield_now().await;
            }
            Ok(false) => clock.writable(&socket.descriptor).await,
            Err(_) => socket.close(),
        }
    }
}

/// Takes what comes, until the connection is closed.
async fn read(clock: &Clock, adapter: &Adapter, socket: &Socket) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while !socket.is_closed.get() {
        match recv(&*socket.descriptor, &mut chunk[..], RecvFlags::empty()) {
            Ok((_, 0)) => return,
            Ok((_, bytes)) => {
                let received = socket.tcp.borrow_mut().receive(adapter, &chunk[..bytes]);
                for message in socket.later.take() {
                    socket.tcp.borrow_mut().send(adapter, message);
                }
                socket.unsent.notify_one();
                if let Err(error) = received {
                    tracing::warn!("the target breaks the protocol: {error}");
                    return;
                }
                clock.yield_now().await;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => clock.readable(&socket.descriptor).await,
            Err(_) => return,
        }
    }
}
