//! The secrets that a target knows.

use crate::endpoint::Algorithms;
use crate::secret::Secret;
use byteway_wire::fabrics::Nqn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The secrets of one host.
#[derive(Clone, Debug)]
pub struct HostSecrets {
    /// By which the host proves who it is.
    pub host: Secret,
    /// By which the controller proves to the host who it is, if the host asks for that.
    pub controller: Option<Secret>,
}

/// Which hosts have to authenticate, and how. Cheap to clone, and shared by threads.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// What the target takes.
    pub algorithms: Algorithms,
    hosts: Arc<BTreeMap<Nqn, HostSecrets>>,
}

impl Credentials {
    /// Of these hosts.
    pub fn new(algorithms: Algorithms, hosts: BTreeMap<Nqn, HostSecrets>) -> Credentials {
        Credentials { algorithms, hosts: Arc::new(hosts) }
    }

    /// The secrets of a host; none: it has none.
    pub fn of(&self, host: &Nqn) -> Option<&HostSecrets> {
        self.hosts.get(host)
    }

    /// The hosts that have secrets.
    pub fn hosts(&self) -> impl Iterator<Item = &Nqn> {
        self.hosts.keys()
    }
}
