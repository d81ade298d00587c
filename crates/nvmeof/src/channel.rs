//! Secure channels as a target sees them: the identity that a channel proves, and the sink of generated keys.

use byteway_auth::{Concatenation, GeneratedPsk};
use byteway_wire::fabrics::Nqn;
use std::rc::Rc;

/// The identity bound to a secure channel: its key is valid for this host and this subsystem only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// NQN of the host.
    pub host: Nqn,
    /// NQN of the subsystem.
    pub subsystem: Nqn,
    /// Number of the key, if authentication generated it; this proves the host's identity. `None`: a
    /// configured key.
    pub generated: Option<u64>,
}

/// Receives the keys that authentication generates for TLS, and lets hosts set up secure channels with them.
pub trait GeneratedKeys {
    /// Stores a key of a host that has authenticated, for this subsystem alone. `replaced`: number of the key
    /// to remove, if it still exists. Returns the new key's number, which is never reused.
    fn keep(&self, host: &Nqn, subsystem: &Nqn, key: &GeneratedPsk, replaced: Option<u64>) -> u64;
}

/// How a queue has to authenticate.
pub(crate) struct Terms {
    /// The controller's end of the protocol.
    pub part: byteway_auth::Controller,
    /// Which keys it generates.
    pub concatenation: Concatenation,
    /// Where generated keys go.
    pub keys: Option<Rc<dyn GeneratedKeys>>,
    /// The identity bound to the secure channel that carries the queue.
    pub peer: Option<Peer>,
}
