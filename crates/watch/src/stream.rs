//! A connection whose peer must take what it is sent: a peer that stops reading is dropped after a limited time, and
//! with it what it was to be sent.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How long a peer may take no byte while there are some for it.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct LimitedStream {
    stream: TokioIo<TcpStream>,
    /// Set while the peer takes nothing.
    limit: Option<Pin<Box<Sleep>>>,
}

impl LimitedStream {
    pub(crate) fn new(stream: TcpStream) -> LimitedStream {
        LimitedStream { stream: TokioIo::new(stream), limit: None }
    }

    /// Begins the limit when nothing was taken, and ends it when something was.
    fn limited<T>(&mut self, context: &mut Context<'_>, taken: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if taken.is_ready() {
            self.limit = None;
            return taken;
        }
        let limit = self.limit.get_or_insert_with(|| Box::pin(sleep(WRITE_LIMIT)));
        limit.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Read for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl Write for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limited(context, taken)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.stream).poll_flush(context);
        self.limited(context, taken)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let taken = Pin::new(&mut self.stream).poll_shutdown(context);
        self.limited(context, taken)
    }
}
