//! A connection's bytes: those of its socket, or of TLS over it.

use crate::tls::{Acceptor, Session, TlsError, is_tls};
use byteway_clock::Clock;
use byteway_target::Peer;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::task::Poll;

/// Why bytes are not sent or received.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// Not now: wait until there are some, or space for them.
    #[error("not now")]
    Blocked,
    /// The socket has failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// TLS has.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A socket that doesn't block, with TLS or without.
pub(crate) struct Stream {
    socket: Rc<OwnedFd>,
    tls: OnceCell<RefCell<Session>>,
}

impl Stream {
    /// Of a socket; with TLS, [`Stream::secure`] comes first.
    pub fn new(socket: Rc<OwnedFd>, tls: Option<Session>) -> Stream {
        let tls = tls.map(|session| OnceCell::from(RefCell::new(session))).unwrap_or_default();
        Stream { socket, tls }
    }

    /// Waits for the first byte, and goes on with TLS if that is one of TLS. What comes stays to be taken.
    ///
    /// # Errors
    /// TLS cannot be used.
    pub async fn secure_if_asked(&self, clock: &Clock, acceptor: &Acceptor) -> Result<(), TlsError> {
        let mut first = [0];
        loop {
            match recv(&*self.socket, &mut first[..], RecvFlags::PEEK) {
                Ok((1.., _)) if is_tls(first[0]) => {
                    let session = acceptor.accept(&self.socket)?;
                    let _ = self.tls.set(RefCell::new(session)); // no other way leads here
                    return Ok(());
                }
                Err(Errno::AGAIN) => self.readable(clock).await,
                Err(Errno::INTR) => {}
                // The next read finds what is the matter.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }

    /// Does the handshake, if there is TLS. At a server's end it gives who the other end is.
    ///
    /// # Errors
    /// It has failed; [`Stream::close`] says so to the other end.
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

    /// Takes what has come: so many bytes, none at the end. It is to be called until it is blocked before more is waited for.
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

    /// Sends some bytes, and says how many. If it is blocked they have to be the first of what is sent next.
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

    /// Waits until there is something to receive.
    pub async fn readable(&self, clock: &Clock) {
        clock.readable(&self.socket).await;
    }

    /// Waits until there is space for what is sent.
    pub async fn writable(&self, clock: &Clock) {
        clock.writable(&self.socket).await;
    }

    /// Says to the other end that nothing more is sent.
    pub fn finish(&self) {
        if let Some(tls) = self.tls.get() {
            tls.borrow_mut().finish();
        }
        let _ = shutdown(&*self.socket, Shutdown::Write);
    }

    /// Ends it: who reads or writes finds it closed.
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
