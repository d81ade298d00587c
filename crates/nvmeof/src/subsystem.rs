//! A subsystem: one drive under one NQN, the hosts that may use it, and their controllers.

use crate::ana::PortStates;
use crate::channel::{GeneratedKeys, Peer, Terms};
use crate::controller::{Controller, Ended, Service};
use crate::discovery::Reached;
use crate::host_usage::{DataBytes, HostLimits, HostUsage, UnauthenticatedLimits};
use crate::path::Path;
use byteway_auth::{Algorithms, Concatenation, Credentials, Endpoint, HostSecrets, Provider, TlsPolicy};
use byteway_clock::{Clock, Delay};
use byteway_link::IoLedger;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::connect::CNTLID_MAX;
use byteway_wire::fabrics::status::CONTROLLER_BUSY;
use byteway_wire::nvme::Status;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// The hosts that may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Any host.
    #[default]
    Any,
    /// Hosts with one of these NQNs.
    Listed(Vec<Nqn>),
}

impl Hosts {
    /// Whether a host with this NQN may connect.
    pub fn has(&self, nqn: &Nqn) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::Listed(names) => names.contains(nqn),
        }
    }
}

/// Configuration of a subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its NQN, which must differ from the Discovery Service's.
    pub nqn: Nqn,
    /// The hosts that may connect.
    pub hosts: Hosts,
    /// I/O queues of a controller, at most.
    pub io_queues_max: u16,
    /// Entries of a queue, at most; at least 2.
    pub entries_max: u16,
    /// In-capsule data that a host may send with a command, in bytes: a multiple of 16.
    pub in_capsule_bytes: u32,
    /// Controllers of all hosts at once. In addition, 16 may exist that have yet to authenticate; one more
    /// ends the oldest of these.
    pub controllers_max: usize,
    /// Longest keep-alive timeout; longer requests get this one. A host that requests none may stay connected
    /// and silent indefinitely.
    pub keep_alive_max: Delay,
    /// Limits of one host.
    pub host: HostLimits,
    /// Limits of all unauthenticated hosts together.
    pub unauthenticated: UnauthenticatedLimits,
    /// Whether any host may create, attach, detach and delete namespaces.
    pub may_manage: bool,
    /// ANA states of its ports, which may change at any time.
    pub ports: PortStates,
}

impl SubsystemConfig {
    /// The defaults, with this NQN and for any host.
    pub fn new(nqn: Nqn) -> Self {
        SubsystemConfig {
            nqn,
            hosts: Hosts::Any,
            io_queues_max: 32,
            entries_max: 128,
            in_capsule_bytes: 8 << 10,
            controllers_max: 64,
            keep_alive_max: Delay::from_s(3600),
            host: HostLimits::default(),
            unauthenticated: UnauthenticatedLimits::default(),
            may_manage: false,
            ports: PortStates::default(),
        }
    }
}

impl SubsystemConfig {
    /// Entries of an admin queue, at most; never below the minimum that a host may request.
    pub fn admin_entries_max(&self) -> u16 {
        self.entries_max.max(ADMIN_ENTRIES_MIN)
    }
}

/// A host, as identified by its Connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// Its NQN.
    pub nqn: Nqn,
    /// Its Host Identifier.
    pub id: [u8; 16],
}

/// Entries of an admin queue, at least (NVMe Base 2.1, 6.3).
const ADMIN_ENTRIES_MIN: u16 = 32;
/// Controllers at once whose hosts have yet to authenticate.
const UNADMITTED_MAX: usize = 16;
/// CNTLIDs for controllers: FFF0h and above are reserved (NVMe Base 2.1, 5.1.13.2.1).
const IDENTIFIERS: RangeInclusive<u16> = 1..=CNTLID_MAX;
/// CNTLIDs where the drive also has a port for a local host: the drive's own controllers belong to the same
/// subsystem.
const IDENTIFIERS_BEHIND: RangeInclusive<u16> = 3..=CNTLID_MAX;

/// A subsystem.
pub struct Subsystem {
    pub(crate) clock: Clock,
    pub(crate) config: SubsystemConfig,
    pub(crate) path: Path,
    pub(crate) controllers: Controllers,
    authenticator: Option<Authenticator>,
    /// Data of all unauthenticated hosts.
    unauthenticated: Rc<DataBytes>,
    /// Set if the drive is watched.
    ios: OnceCell<Rc<IoLedger>>,
}

/// The authenticator of hosts.
struct Authenticator {
    credentials: Credentials,
    endpoint: Rc<Endpoint>,
    /// `None` without TLS, which generated keys require.
    keys: Option<Rc<dyn GeneratedKeys>>,
}

impl Subsystem {
    /// A subsystem for the drive at the end of `path`.
    pub fn new(clock: &Clock, config: SubsystemConfig, path: Path) -> Rc<Self> {
        Subsystem::of(clock, config, path, None)
    }

    /// Like [`Subsystem::new`], where each queue of a host with a secret has to authenticate first.
    pub fn with_credentials(
        clock: &Clock,
        config: SubsystemConfig,
        path: Path,
        credentials: Credentials,
        provider: Box<dyn Provider>,
    ) -> Rc<Self> {
        Subsystem::with_keys(clock, config, path, credentials, provider, None)
    }

    /// Like [`Subsystem::with_credentials`], where hosts may or must generate TLS keys, according to the
    /// credentials; `keys` receives them.
    pub fn with_keys(
        clock: &Clock,
        config: SubsystemConfig,
        path: Path,
        credentials: Credentials,
        provider: Box<dyn Provider>,
        keys: Option<Rc<dyn GeneratedKeys>>,
    ) -> Rc<Self> {
        let endpoint = Rc::new(Endpoint::new(Algorithms::default(), provider));
        Subsystem::of(clock, config, path, Some(Authenticator { credentials, endpoint, keys }))
    }

    fn of(
        clock: &Clock,
        config: SubsystemConfig,
        path: Path,
        authenticator: Option<Authenticator>,
    ) -> Rc<Self> {
        let is_shared = path.is_shared();
        let identifiers = if is_shared { IDENTIFIERS_BEHIND } else { IDENTIFIERS };
        let (clock, controllers) = (clock.clone(), Controllers::new(identifiers));
        let ios = OnceCell::new();
        let unauthenticated = Rc::new(DataBytes::new(&clock, config.unauthenticated.bytes_max));
        let subsystem =
            Rc::new(Subsystem { clock, config, path, controllers, authenticator, unauthenticated, ios });
        if is_shared {
            subsystem.clock.spawn("changes of the drive", subsystem.clone().follow_drive());
        }
        subsystem
    }

    /// Watches namespace changes that a host makes at another port of the drive, and notifies the hosts.
    async fn follow_drive(self: Rc<Self>) {
        let Ok(changes) = self.path.changes().await else { return };
        loop {
            // If the drive is gone, every later command of a host fails and says so.
            let Ok(changed) = self.path.look_again().await else { return };
            self.namespaces_changed(&changed);
            changes.receive().await;
        }
    }

    /// Whether a host with this NQN may connect: it is listed, or has secrets.
    pub(crate) fn admits(&self, host: &Nqn) -> bool {
        self.config.hosts.has(host)
            || self.authenticator.as_ref().is_some_and(|own| own.credentials.has(host))
    }

    /// Whether a host without TLS has to generate a TLS key.
    pub(crate) fn requires_generated_key(&self, host: &Nqn) -> bool {
        let requires = |own: &Authenticator| {
            own.keys.is_some() && own.credentials.tls() == TlsPolicy::Required && own.credentials.has(host)
        };
        self.authenticator.as_ref().is_some_and(requires)
    }

    /// Whether these are the host's current secrets.
    pub(crate) fn knows(&self, host: &Nqn, secrets: &HostSecrets) -> bool {
        self.authenticator.as_ref().and_then(|own| own.credentials.of(host)).as_ref() == Some(secrets)
    }

    /// How a queue of a host has to authenticate in a channel for `peer`. `None`: the host has no secret.
    pub(crate) fn terms(&self, host: &Nqn, qid: u16, peer: Option<Peer>) -> Option<Terms> {
        let Authenticator { credentials, endpoint, keys } = self.authenticator.as_ref()?;
        let secrets = credentials.of(host)?;
        let policy = if keys.is_some() { credentials.tls() } else { TlsPolicy::Never };
        let concatenation = match (qid, peer, policy) {
            (1.., ..) | (_, _, TlsPolicy::Never) => Concatenation::Refused,
            (0, Some(peer), _) if peer.generated.is_some() => Concatenation::Replacing,
            (0, Some(_), _) => Concatenation::Refused,
            (0, None, TlsPolicy::Offered) => Concatenation::Offered,
            (0, None, TlsPolicy::Required) => Concatenation::Required,
        };
        let part = byteway_auth::Controller::new(endpoint, &secrets, *host, self.config.nqn);
        let part = part.choosing(credentials.algorithms());
        Some(Terms { part, concatenation, keys: keys.clone(), peer })
    }

    /// Books the I/Os of each host in `ledger` from now on. Only the first call has an effect.
    pub fn book_ios(&self, ledger: Rc<IoLedger>) {
        self.ios.set(ledger).ok();
    }

    /// Where I/Os are booked. `None`: the drive is not watched.
    pub(crate) fn ios(&self) -> Option<&Rc<IoLedger>> {
        self.ios.get()
    }

    /// Its configuration.
    pub fn config(&self) -> &SubsystemConfig {
        &self.config
    }

    /// Its path to the drive.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All current controllers.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.all()
    }

    /// Whether a host has a secret, so that its queues have to authenticate.
    fn authenticates(&self, host: &Nqn) -> bool {
        self.authenticator.as_ref().is_some_and(|own| own.credentials.of(host).is_some())
    }

    /// Creates a controller for a host (dynamic controller model). `keep_alive`: the timeout that Connect
    /// requests; zero: none. `is_proven`: a key of TLS proves who the host is.
    ///
    /// # Errors
    /// [`CONTROLLER_BUSY`] if there are too many controllers.
    pub(crate) fn make(
        self: &Rc<Self>,
        host: HostName,
        reached: Reached,
        keep_alive: Delay,
        is_proven: bool,
    ) -> Result<Rc<Controller>, Status> {
        // Knowing a host's NQN, which is no secret, must not be enough to lock that host out.
        let is_admitted = !self.authenticates(&host.nqn);
        let is_unauthenticated = is_admitted && !is_proven;
        if !self.may_add_controller(&host, is_unauthenticated) {
            return Err(CONTROLLER_BUSY);
        }
        if !is_admitted {
            let mut waiting = self.controllers();
            waiting.retain(|other| !other.is_admitted());
            if waiting.len() >= UNADMITTED_MAX
                && let Some(oldest) = waiting.iter().min_by_key(|other| other.number())
            {
                oldest.end(Ended::Displaced);
            }
        }
        let own = self.controllers_of(&host);
        // The usage exists as long as one of the host's controllers or commands.
        let mut usages = own.iter().filter_map(|other| other.usage());
        let usage = match usages.find(|usage| usage.is_unauthenticated() == is_unauthenticated) {
            Some(usage) => usage.clone(),
            None => {
                let shared = is_unauthenticated.then(|| self.unauthenticated.clone());
                Rc::new(HostUsage::new(&self.clock, &self.config.host, shared))
            }
        };
        self.controllers.make(self.config.controllers_max + UNADMITTED_MAX, |id| {
            let service = Service::Drive(self.clone());
            Controller::new(service, id, host, reached, keep_alive, Some(usage), is_admitted)
        })
    }

    /// Whether a host may have one more counted controller.
    pub(crate) fn may_add_controller(&self, host: &HostName, is_unauthenticated: bool) -> bool {
        let all = self.controllers();
        let admitted = || all.iter().filter(|controller| controller.is_admitted());
        let own = admitted().filter(|controller| controller.host() == host).count();
        let alike = admitted().filter(|controller| controller.is_unauthenticated()).count();
        let keeps_places = self.authenticator.is_some() && is_unauthenticated;
        own < self.config.host.controllers_max
            && admitted().count() < self.config.controllers_max
            && !(keeps_places && alike >= self.config.unauthenticated.controllers_max)
    }

    fn controllers_of(&self, host: &HostName) -> Vec<Rc<Controller>> {
        self.controllers().into_iter().filter(|controller| controller.host() == host).collect()
    }

    /// Whether the host of a controller may connect one more I/O queue.
    pub(crate) fn has_queue_for(&self, controller: &Controller) -> bool {
        let all = self.controllers();
        let queues = |is_one: &dyn Fn(&Controller) -> bool| -> usize {
            all.iter().filter(|other| is_one(other)).map(|other| other.io_queues()).sum()
        };
        queues(&|other| other.host() == controller.host()) < self.config.host.io_queues_max
            && (!controller.is_unauthenticated()
                || queues(&Controller::is_unauthenticated) < self.config.unauthenticated.io_queues_max)
    }

    /// Notifies the hosts of ports whose ANA state has changed.
    pub fn ports_changed(&self) {
        for controller in self.controllers() {
            controller.set_ana(self.config.ports.state(controller.reached().port));
        }
    }

    /// Notifies the hosts that namespaces were attached, detached or changed.
    pub(crate) fn namespaces_changed(&self, nsids: &[u32]) {
        if !nsids.is_empty() {
            self.controllers().iter().for_each(|controller| controller.note_namespaces(nsids));
        }
    }

    /// The controller with this identifier.
    pub fn controller(&self, id: u16) -> Option<Rc<Controller>> {
        self.controllers.get(id)
    }
}

/// Controllers by identifier.
pub(crate) struct Controllers {
    all: RefCell<BTreeMap<u16, Rc<Controller>>>,
    identifiers: RangeInclusive<u16>,
    next: Cell<u16>,
    made: Cell<u64>,
}

impl Default for Controllers {
    fn default() -> Self {
        Controllers::new(IDENTIFIERS)
    }
}

impl Controllers {
    fn new(identifiers: RangeInclusive<u16>) -> Self {
        Controllers {
            all: RefCell::default(),
            next: Cell::new(*identifiers.start()),
            identifiers,
            made: Cell::default(),
        }
    }

    pub fn all(&self) -> Vec<Rc<Controller>> {
        self.all.borrow().values().cloned().collect()
    }

    pub fn get(&self, id: u16) -> Option<Rc<Controller>> {
        self.all.borrow().get(&id).cloned()
    }

    /// Sequence number of the next controller: the number created so far.
    pub fn number(&self) -> u64 {
        self.made.replace(self.made.get() + 1)
    }

    /// Creates a controller with a free identifier, unless `max` exist.
    pub fn make(
        &self,
        max: usize,
        make: impl FnOnce(u16) -> Rc<Controller>,
    ) -> Result<Rc<Controller>, Status> {
        let mut all = self.all.borrow_mut();
        if all.len() >= max {
            return Err(CONTROLLER_BUSY);
        }
        let mut id = self.next.get();
        while all.contains_key(&id) {
            id = self.after(id);
        }
        self.next.set(self.after(id));
        let controller = make(id);
        all.insert(id, controller.clone());
        Ok(controller)
    }

    /// Removes a controller that has ended, which frees its identifier.
    pub fn forget(&self, id: u16) {
        self.all.borrow_mut().remove(&id);
    }

    fn after(&self, id: u16) -> u16 {
        if id == *self.identifiers.end() { *self.identifiers.start() } else { id + 1 }
    }
}
