//! Secure channels, as far as a target knows of them: for whom one was made, and where keys for them go.

use byteway_auth::{Concatenation, GeneratedPsk};
use byteway_wire::fabrics::Nqn;
use std::rc::Rc;

/// Whom a connection's secure channel was made for: by its key no other host or subsystem is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The host.
    pub host: Nqn,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The number of the key, if authentication has generated it: the host has proved who it is. None: a configured key.
    pub generated: Option<u64>,
}

/// Takes the keys that authentication generates for TLS. What makes secure channels lets hosts in by them.
pub trait GeneratedKeys {
    /// Keeps a key of a host that has authenticated, for this subsystem alone. `replaced`: the number of the key whose place it
    /// takes, if that is still there. Gives its number, which no other key has had.
    fn keep(&self, host: &Nqn, subsystem: &Nqn, key: &GeneratedPsk, replaced: Option<u64>) -> u64;
}

/// How a queue is to authenticate.
pub(crate) struct Terms {
    /// The controller's part of it.
    pub part: byteway_auth::Controller,
    /// Which keys it generates.
    pub concatenation: Concatenation,
    /// Where they go.
    pub keys: Option<Rc<dyn GeneratedKeys>>,
    /// For whom the secure channel was made that the queue is in.
    pub peer: Option<Peer>,
}
