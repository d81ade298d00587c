//! The secrets that a target knows.

use crate::endpoint::Algorithms;
use crate::secret::Secret;
use byteway_wire::fabrics::Nqn;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The secrets of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSecrets {
    /// By which the host proves who it is.
    pub host: Secret,
    /// By which the controller proves to the host who it is, if the host asks for that.
    pub controller: Option<Secret>,
}

/// What a target has hosts without TLS do about a secure channel (NVMe Base 2.1, 8.3.4.5.11, figure 750), where it can make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// It generates no keys: TLS Disabled.
    Never,
    /// It generates a key for a host that asks for one: TLS Permitted.
    #[default]
    Offered,
    /// Hosts that authenticate have to ask for one: TLS Required.
    Required,
}

#[derive(Debug, Default)]
struct Known {
    algorithms: Algorithms,
    tls: TlsPolicy,
    hosts: BTreeMap<Nqn, HostSecrets>,
}

/// Which hosts have to authenticate, and how. Cheap to clone, and shared by threads: clones see what [`Credentials::replace`] brings.
#[derive(Clone, Debug, Default)]
pub struct Credentials(Arc<RwLock<Arc<Known>>>);

impl Credentials {
    /// Of these hosts, of which the target takes these algorithms.
    pub fn new(algorithms: Algorithms, hosts: BTreeMap<Nqn, HostSecrets>) -> Credentials {
        Credentials::of_known(Known { algorithms, tls: TlsPolicy::default(), hosts })
    }

    fn of_known(known: Known) -> Credentials {
        Credentials(Arc::new(RwLock::new(Arc::new(known))))
    }

    fn known(&self) -> Arc<Known> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, with another policy.
    #[must_use]
    pub fn with_tls(&self, tls: TlsPolicy) -> Credentials {
        let known = self.known();
        Credentials::of_known(Known { algorithms: known.algorithms.clone(), tls, hosts: known.hosts.clone() })
    }

    /// Queues that connect from now on are judged by what is in `other`. Queues that are connected go on as they began.
    pub fn replace(&self, other: &Credentials) {
        let known = other.known();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// What the target takes.
    pub fn algorithms(&self) -> Algorithms {
        self.known().algorithms.clone()
    }

    /// What it has hosts do about a secure channel.
    pub fn tls(&self) -> TlsPolicy {
        self.known().tls
    }

    /// The secrets of a host; none: it has none.
    pub fn of(&self, host: &Nqn) -> Option<HostSecrets> {
        self.known().hosts.get(host).cloned()
    }

    /// Whether a host has secrets.
    pub fn has(&self, host: &Nqn) -> bool {
        self.known().hosts.contains_key(host)
    }

    /// How many hosts have secrets.
    pub fn count(&self) -> usize {
        self.known().hosts.len()
    }

    /// Hosts whose secrets are not the same in `other`: they were changed, or are gone.
    pub fn changed(&self, other: &Credentials) -> Vec<Nqn> {
        let (own, other) = (self.known(), other.known());
        let differs = |(host, secrets): &(&Nqn, &HostSecrets)| other.hosts.get(host) != Some(*secrets);
        own.hosts.iter().filter(differs).map(|(host, _)| *host).collect()
    }
}
