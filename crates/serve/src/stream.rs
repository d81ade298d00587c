//! The bytes of a connection: of its socket, or of TLS over it.

use crate::tls::{Acceptor, Session, TlsError, is_tls};
use byteway_clock::Clock;
use byteway_nvmeof::Peer;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::task::Poll;

/// Why bytes cannot be sent or received.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The operation would block: wait until the socket is readable or writable.
    #[error("not now")]
    Blocked,
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// TLS failed.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A non-blocking socket, with or without TLS.
pub(crate) struct Stream {
    socket: Rc<OwnedFd>,
    tls: OnceCell<RefCell<Session>>,
}

impl Stream {
    /// Wraps a socket. With TLS, call [`Stream::secure`] first.
    pub fn new(socket: Rc<OwnedFd>, tls: Option<Session>) -> Stream {
        let tls = tls.map(|session| OnceCell::from(RefCell::new(session))).unwrap_or_default();
        Stream { socket, tls }
    }

    /// Waits for the first byte, and starts TLS if it begins a TLS record. Consumes no byte.
    ///
    /// # Errors
    /// The TLS library cannot be used.
    pub async fn secure_if_asked(&self, clock: &Clock, acceptor: &Acceptor) -> Result<(), TlsError> {
        let mut first = [0];
        loop {
            match recv(&*self.socket, &mut first[..], RecvFlags::PEEK) {
                Ok((1.., _)) if is_tls(first[0]) => {
                    let session = acceptor.accept(&self.socket)?;
                    let _ = self.tls.set(RefCell::new(session)); // the cell is empty: only this function sets it here
                    return Ok(());
                }
                Err(Errno::AGAIN) => self.readable(clock).await,
                Err(Errno::INTR) => {}
                // The next read reports the error.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }

    /// Performs the TLS handshake, if TLS is used. At the server's end, returns the identity of the peer.
    ///
    /// # Errors
    /// The handshake failed; [`Stream::close`] sends the alert to the other end.
    pub async fn secure(&self, clock: &Clock) -> Result<Option<Peer>, TlsError> {
        let Some(tls) = self.tls.get() else { return Ok(None) };
        loop {
            let polled = tls.borrow_mut().negotiate();
            if let Poll::Ready(result) = polled {
                return result;
            }
            let is_full = tls.borrow_mut().is_full();
            if is_full { self.writable(clock).await } else { self.readable(clock).await }
        }
    }

    /// Receives bytes; returns their number, 0 at the end of the stream. Call it until it returns `Blocked`
    /// before waiting for more.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        match self.tls.get() {
            None => loop {
                match recv(&*self.socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((_, bytes)) => return Ok(bytes),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Err(StreamError::Blocked),
                    Err(errno) => return Err(StreamError::Socket(errno)),
                }
            },
            Some(tls) => blocked(tls.borrow_mut().receive(buffer)),
        }
    }

    /// Sends some bytes and returns their number. After `Blocked`, the next call has to start with the same
    /// bytes.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, StreamError> {
        match self.tls.get() {
            None => loop {
                match send(&*self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                    Ok(bytes) => return Ok(bytes),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Err(StreamError::Blocked),
                    Err(errno) => return Err(StreamError::Socket(errno)),
                }
            },
            Some(tls) => blocked(tls.borrow_mut().send(bytes)),
        }
    }

    /// Waits until bytes can be received.
    pub async fn readable(&self, clock: &Clock) {
        clock.readable(&self.socket).await;
    }

    /// Waits until bytes can be sent.
    pub async fn writable(&self, clock: &Clock) {
        clock.writable(&self.socket).await;
    }

    /// Signals the end of the data to the other end.
    pub fn finish(&self) {
        if let Some(tls) = self.tls.get() {
            tls.borrow_mut().finish();
        }
        let _ = shutdown(&*self.socket, Shutdown::Write);
    }

    /// Closes the connection: readers and writers find it closed.
    pub fn close(&self) {
        self.finish();
        let _ = shutdown(&*self.socket, Shutdown::Both);
    }
}

fn blocked(polled: Poll<Result<usize, TlsError>>) -> Result<usize, StreamError> {
    match polled {
        Poll::Ready(result) => result.map_err(StreamError::Tls),
        Poll::Pending => Err(StreamError::Blocked),
    }
}
