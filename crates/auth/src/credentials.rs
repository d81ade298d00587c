//! The credentials of a target: the secrets of its hosts.

use crate::endpoint::Algorithms;
use crate::secret::Secret;
use byteway_wire::fabrics::Nqn;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The secrets of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSecrets {
    /// With this secret the host authenticates.
    pub host: Secret,
    /// With this secret the controller authenticates, if the host requests that.
    pub controller: Option<Secret>,
}

/// A target's policy for hosts without TLS (NVMe Base 2.1, 8.3.4.5.11, figure 750), where it supports secure
/// channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// Generates no TLS keys: TLS Disabled.
    Never,
    /// Generates a TLS key for a host that requests one: TLS Permitted.
    #[default]
    Offered,
    /// Requires hosts that authenticate to request a TLS key: TLS Required.
    Required,
}

#[derive(Debug, Default)]
struct Known {
    algorithms: Algorithms,
    tls: TlsPolicy,
    hosts: BTreeMap<Nqn, HostSecrets>,
}

/// The hosts that have to authenticate, and how. Cheap to clone, and shared by threads: clones see the effect
/// of [`Credentials::replace`].
#[derive(Clone, Debug, Default)]
pub struct Credentials(Arc<RwLock<Arc<Known>>>);

impl Credentials {
    /// Credentials of these hosts; the target accepts `algorithms`.
    pub fn new(algorithms: Algorithms, hosts: BTreeMap<Nqn, HostSecrets>) -> Credentials {
        Credentials::of_known(Known { algorithms, tls: TlsPolicy::default(), hosts })
    }

    fn of_known(known: Known) -> Credentials {
        Credentials(Arc::new(RwLock::new(Arc::new(known))))
    }

    fn known(&self) -> Arc<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same credentials with another TLS policy.
    #[must_use]
    pub fn with_tls(&self, tls: TlsPolicy) -> Credentials {
        let known = self.known();
        Credentials::of_known(Known { algorithms: known.algorithms.clone(), tls, hosts: known.hosts.clone() })
    }

    /// Replaces the contents by those of `other`, for queues that connect from now on. Connected queues are
    /// unaffected.
    pub fn replace(&self, other: &Credentials) {
        let known = other.known();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// The algorithms that the target accepts.
    pub fn algorithms(&self) -> Algorithms {
        self.known().algorithms.clone()
    }

    /// The TLS policy.
    pub fn tls(&self) -> TlsPolicy {
        self.known().tls
    }

    /// The secrets of a host, if it has any.
    pub fn of(&self, host: &Nqn) -> Option<HostSecrets> {
        self.known().hosts.get(host).cloned()
    }

    /// Whether a host has secrets.
    pub fn has(&self, host: &Nqn) -> bool {
        self.known().hosts.contains_key(host)
    }

    /// Number of hosts with secrets.
    pub fn count(&self) -> usize {
        self.known().hosts.len()
    }

    /// Hosts whose secrets differ in `other`, or are missing there.
    pub fn changed(&self, other: &Credentials) -> Vec<Nqn> {
        let (own, other) = (self.known(), other.known());
        let differs = |(host, secrets): &(&Nqn, &HostSecrets)| other.hosts.get(host) != Some(*secrets);
        own.hosts.iter().filter(differs).map(|(host, _)| *host).collect()
    }
}
