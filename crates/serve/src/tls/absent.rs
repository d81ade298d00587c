//! TLS where the program has none: it is refused where it is asked for, and nothing is sent in the clear instead.

use super::{KeyRing, Keys, TlsError, TlsPsk};
use byteway_nvmeof::Peer;
use byteway_wire::fabrics::Nqn;
use rustix::fd::OwnedFd;
use std::convert::Infallible;
use std::rc::Rc;
use std::task::Poll;

/// A target's end, which can't be made.
#[derive(Clone)]
pub struct Acceptor(Infallible);

impl Acceptor {
    /// Refuses.
    ///
    /// # Errors
    /// [`TlsError::Absent`], always.
    pub fn new(_: &Keys, _: &[Nqn]) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    /// Refuses.
    ///
    /// # Errors
    /// [`TlsError::Absent`], always.
    pub fn by_ring(_: &KeyRing) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    /// Never called.
    pub fn replace(&self, _: &Keys, _: &[Nqn]) {
        match self.0 {}
    }

    pub(crate) fn accept(&self, _: &Rc<OwnedFd>) -> Result<Session, TlsError> {
        match self.0 {}
    }
}

/// A host's end, which can't be made.
#[derive(Clone)]
pub struct Connector(Infallible);

impl Connector {
    /// Refuses.
    ///
    /// # Errors
    /// [`TlsError::Absent`], always.
    pub fn new(_: Vec<TlsPsk>) -> Result<Self, TlsError> {
        Err(TlsError::Absent)
    }

    pub(crate) fn connect(&self, _: &Rc<OwnedFd>) -> Result<Session, TlsError> {
        match self.0 {}
    }
}

/// A connection, of which there is none.
pub(crate) struct Session(Infallible);

impl Session {
    pub fn negotiate(&mut self) -> Poll<Result<Option<Peer>, TlsError>> {
        match self.0 {}
    }

    pub fn is_full(&mut self) -> bool {
        match self.0 {}
    }

    pub fn receive(&mut self, _: &mut [u8]) -> Poll<Result<usize, TlsError>> {
        match self.0 {}
    }

    pub fn send(&mut self, _: &[u8]) -> Poll<Result<usize, TlsError>> {
        match self.0 {}
    }

    pub fn finish(&mut self) {
        match self.0 {}
    }
}
