//! The thread that answers watchers: sockets, limits, connections.

use crate::answer::{Context, answer};
use crate::drives::{Drives, WatchedDrive};
use crate::events::{History, event};
use crate::limit::Counted;
pub use crate::limit::PAGES_MAX;
use crate::page;
use crate::state::{Sampler, update_json};
use crate::stream::LimitedStream;
use byteway_serve::watch::DriveWatch;
use byteway_text::error::InputError;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, warn};

/// Connections at once. Further ones are told so and closed.
pub const CONNECTIONS_MAX: usize = 64;
/// Memory for the head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Header fields of a request.
pub const HEADERS_MAX: usize = 64;
/// How long a client may take to send the head of a request, and a connection may stay unused.
pub const HEAD_LIMIT: Duration = Duration::from_secs(5);
/// Interval of the updates of open pages.
const UPDATE: Duration = Duration::from_secs(1);
/// Time for the last answers when the drives have ended.
const END_LIMIT: Duration = Duration::from_millis(300);
/// Pause after the system has refused a connection, as when it has no descriptor left.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Niceness of the thread: the drives come first.
const NICE: i32 = 10;
/// What a connection beyond the limit is told.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 5\r\n\r\n";

/// A socket at which watchers will be answered, and the drives that they will see.
pub struct Watcher {
    listener: StdListener,
    address: SocketAddr,
    drives: Vec<(String, DriveWatch)>,
    told: watch::Sender<()>,
}

impl Watcher {
    /// Listens at `address`. Nothing is answered yet.
    ///
    /// # Errors
    /// The address is in use, or not one of this machine.
    pub fn bind(address: SocketAddr) -> Result<Watcher, InputError> {
        let failed = |error: io::Error| {
            let what = format!("cannot listen at `--http {address}`: {error}");
            let help = match error.kind() {
                io::ErrorKind::AddrInUse => "name a free port with --http, or 0 for any",
                io::ErrorKind::PermissionDenied => "name a port above 1023 with --http",
                _ => "name an address of this machine with --http, such as 127.0.0.1:9100",
            };
            InputError::new(what, help)
        };
        let listener = StdListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Watcher { listener, address, drives: Vec::new(), told: watch::Sender::new(()) })
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the page is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Whether other machines may reach it.
    pub fn is_exposed(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Adds a drive; the handle goes to its setup.
    ///
    /// # Errors
    /// The system has no file descriptor left.
    pub fn watch(&mut self, name: &str) -> io::Result<DriveWatch> {
        let told = self.told.clone();
        let watch = DriveWatch::new(move || told.send_modify(|()| ()))?;
        self.drives.push((name.to_owned(), watch.clone()));
        Ok(watch)
    }

    /// Answers watchers from now on, in a thread of its own.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(self) -> io::Result<Watching> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            // The system may refuse; the thread is then as urgent as the drives.
            let _ = rustix::process::setpriority_process(None, NICE);
            let served = LocalSet::new().block_on(&runtime, self.run(stopped));
            if let Err(error) = served {
                warn!("watchers are not answered: {error}");
            }
        };
        let thread = std::thread::Builder::new().name("watchers".into()).spawn(serve)?;
        Ok(Watching { stop: Some(stop), thread: Some(thread) })
    }

    async fn run(self, stopped: oneshot::Receiver<()>) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let drives = self.drives.into_iter().map(|(name, watch)| WatchedDrive::new(name, watch)).collect();
        let (updates, receiver) = watch::channel(Bytes::new());
        let (closing, closed) = watch::channel(());
        let context = Rc::new(Context {
            drives: Drives::new(drives, self.told.subscribe()),
            page: page::render().into(),
            is_loopback: self.address.ip().is_loopback(),
            updates: receiver,
            pages: Rc::default(),
            history: History::default(),
        });
        let connections = Rc::new(Cell::new(0));
        let accepting = spawn_local(accept(listener, context.clone(), connections.clone(), closed));
        let sampler = RefCell::new(Sampler::default());
        let update = async {
            let mut ticks = interval(UPDATE);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // Also without a page: one that is opened later shows what was before.
                context.drives.refresh().await;
                let (state, line) = update_json(&context.drives, &mut sampler.borrow_mut());
                context.history.keep(line);
                if context.pages.get() > 0 {
                    let _ = updates.send(event("update", &state));
                }
            }
        };
        // Ends with a stop, or if none is left who could ask for one.
        first(stopped, update).await;
        accepting.abort();
        context.drives.finish();
        let (state, _) = update_json(&context.drives, &mut sampler.borrow_mut());
        let _ = updates.send(event("ended", &state));
        drop((updates, closing));
        let all_closed = async {
            while connections.get() > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = timeout(END_LIMIT, all_closed).await;
        Ok(())
    }
}

/// Waits until one of both ends.
async fn first<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() || other.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

/// Takes connections, up to the limit.
async fn accept(
    listener: TcpListener,
    context: Rc<Context>,
    connections: Rc<Cell<usize>>,
    closed: watch::Receiver<()>,
) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!("a watcher cannot be let in: {error}");
                sleep(REFUSED_PAUSE).await;
                continue;
            }
        };
        if connections.get() >= CONNECTIONS_MAX {
            turn_away(stream);
            continue;
        }
        let counted = Counted::new(&connections);
        let (context, closed) = (context.clone(), closed.clone());
        spawn_local(async move {
            serve(stream, context, closed).await;
            drop(counted);
        });
    }
}

/// Tells a client beyond the limit so, in one attempt: what the system does not take at once is lost.
fn turn_away(stream: TcpStream) {
    let Ok(mut stream) = stream.into_std() else { return };
    // What has come is read, as closing a socket with unread bytes would discard what it was told.
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write(TOO_MANY);
    let _ = stream.shutdown(Shutdown::Write);
}

/// Answers the requests of a connection.
async fn serve(stream: TcpStream, context: Rc<Context>, mut closed: watch::Receiver<()>) {
    let service = service_fn(move |request| {
        let context = context.clone();
        async move { Ok::<_, Infallible>(answer(&context, &request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client that has sent its request and closes its half is answered.
        .half_close(true)
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(LimitedStream::new(stream), service);
    let mut connection = pin!(connection);
    let mut is_closing = false;
    let mut closing = pin!(async move {
        // Nothing is ever sent: this ends when the sender is dropped.
        let _ = closed.changed().await;
    });
    let ended = poll_fn(|context| {
        if !is_closing && closing.as_mut().poll(context).is_ready() {
            is_closing = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(context)
    })
    .await;
    if let Err(error) = ended {
        debug!("the connection of a watcher ends: {error}");
    }
}

/// The thread that answers watchers. Dropped, it ends.
pub struct Watching {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Tells open pages the last figures, and ends: call it when the drives have ended. It takes a third of a second at
    /// most.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}
