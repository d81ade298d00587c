//! The Discovery Service (NVMe Base 2.1, 3.1.3.3): which subsystems exist, and where a host finds them.
//!
//! A [`Directory`] lists what a process serves, in any of its threads. [`Discovery`] is the Discovery
//! subsystem of one target, to whose controllers hosts connect under the well-known NQN. All of a process
//! give the same answers.

use crate::controller::{Controller, Service};
use crate::shared::{Shared, Watching};
use crate::subsystem::{Controllers, HostName, Hosts};
use byteway_auth::{Credentials, TlsPolicy};
use byteway_clock::{Clock, Delay};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::{
    DiscoveryEntry, EntryFlags, SecurityType, SubsystemType, TransportRequirements,
};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::feature::AsyncEvent;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// TREQ.TSC: a secure channel is required.
const TSC_REQUIRED: u8 = 1;
const TSC_NOT_REQUIRED: u8 = 2;
/// Controllers of a target's Discovery subsystem, at most.
const CONTROLLERS_MAX: usize = 256;
/// Longest data of a command, reported as MDTS: 127 entries at once.
pub(crate) const BYTES_MAX: u32 = 128 << 10;
/// How long a controller without a keep-alive timeout survives a silent host (NVMe Base 2.1, 3.1.3.3).
pub(crate) const ACTIVITY_LIMIT: Delay = Delay::from_s(120);
/// The longest keep-alive timeout that is granted.
pub(crate) const KEEP_ALIVE_MAX: Delay = Delay::from_s(3600);

/// Where a host reached a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Port identifier within the subsystem.
    pub port: u16,
    /// Local address of the connection.
    pub address: SocketAddr,
    /// Whether the port requires TLS.
    pub is_secure: bool,
}

impl Default for Reached {
    /// The first port, at an unknown address.
    fn default() -> Self {
        Reached { port: 1, address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), is_secure: false }
    }
}

/// A port of a subsystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// PORTID, unique within the subsystem.
    pub id: u16,
    /// Address at which it listens; an unspecified address stands for every address of the machine.
    pub address: SocketAddr,
    /// Whether hosts have to use TLS at this port.
    pub is_secure: bool,
}

/// A subsystem and its ports, as hosts discover them.
#[derive(Clone, Debug)]
pub struct Record {
    /// NQN of the subsystem.
    pub nqn: Nqn,
    /// The hosts that may connect; only they find the record.
    pub hosts: Hosts,
    /// Hosts with a secret, which may connect, too.
    pub credentials: Option<Credentials>,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Entries of an admin queue, at most.
    pub admin_entries_max: u16,
}

impl Record {
    fn is_for(&self, host: &Nqn) -> bool {
        self.hosts.has(host) || self.credentials.as_ref().is_some_and(|known| known.has(host))
    }

    /// Whether a host has to generate a TLS key on an unencrypted connection.
    fn requires_generated_key(&self, host: &Nqn) -> bool {
        let known = self.credentials.as_ref();
        known.is_some_and(|known| known.tls() == TlsPolicy::Required && known.has(host))
    }
}

/// The records that a process serves. Cheap to clone; shared by threads.
#[derive(Clone)]
pub struct Directory(Shared<Served>);

impl Default for Directory {
    fn default() -> Self {
        Directory::new(Vec::new(), None)
    }
}

#[derive(Default)]
struct Served {
    /// Number of changes (GENCTR).
    generation: u64,
    records: BTreeMap<u64, Record>,
    next: u64,
    referrals: Vec<SocketAddr>,
    /// The address reported to hosts in place of the machine's own.
    advertised: Option<IpAddr>,
}

impl Directory {
    /// An empty directory. `referrals`: addresses of further Discovery Services. `advertised`: the address at
    /// which hosts reach this machine, if it is not one of its own (with network address translation).
    pub fn new(referrals: Vec<SocketAddr>, advertised: Option<IpAddr>) -> Self {
        Directory(Shared::new(Served { referrals, advertised, ..Served::default() }))
    }

    /// Publishes a record until the result is dropped.
    pub fn publish(&self, record: Record) -> Published {
        let key = self.change(|served| {
            let key = served.next;
            served.next += 1;
            served.records.insert(key, record);
            key
        });
        Published { directory: self.clone(), key }
    }

    /// Notes that the set of allowed hosts has changed.
    pub fn hosts_changed(&self) {
        self.change(|_| ());
    }

    /// Calls `watcher` after each change, until the result is dropped. The call may come from any thread.
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) -> Watching {
        self.0.watch(watcher)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Served) -> T) -> T {
        self.0.change(|served| {
            served.generation += 1;
            change(served)
        })
    }

    /// The Discovery log page for a host: its generation and its entries. It lists the subsystems to which
    /// the host may connect, with addresses reachable on the network by which it came.
    pub fn entries(&self, host: &Nqn, reached: Reached) -> (u64, Vec<DiscoveryEntry>) {
        self.0.read(|served| served.entries(host, reached))
    }
}

impl Served {
    fn entries(&self, host: &Nqn, reached: Reached) -> (u64, Vec<DiscoveryEntry>) {
        let mut entries = Vec::new();
        if let Some(address) = self.address_of(reached.address, reached.address) {
            let flags = EntryFlags::new().with_dupretinfo(true).with_epcsd(true);
            let subtype = SubsystemType::CURRENT_DISCOVERY;
            let entry = DiscoveryEntry::tcp(&Nqn::discovery(), address, reached.port);
            entries.push(DiscoveryEntry { subtype, eflags: flags, ..finished(entry, reached.is_secure) });
        }
        for record in self.records.values().filter(|record| record.is_for(host)) {
            for port in &record.ports {
                if let Some(address) = self.address_of(port.address, reached.address) {
                    let entry = DiscoveryEntry::tcp(&record.nqn, address, port.id);
                    let entry = match record.requires_generated_key(host) && !port.is_secure {
                        // This makes libnvme connect with --concat.
                        true => DiscoveryEntry { sectype: SecurityType::TLS_1_3, ..finished(entry, false) },
                        false => finished(entry, port.is_secure),
                    };
                    entries.push(DiscoveryEntry { asqsz: record.admin_entries_max, ..entry });
                }
            }
        }
        for address in &self.referrals {
            // Whether a referral requires TLS is unknown here.
            entries.push(finished(DiscoveryEntry::referral(*address, 0), false));
        }
        (self.generation, entries)
    }

    /// The address at which a host that reached this machine at `reached` finds the listener `listens`.
    /// `None`: not reachable that way.
    fn address_of(&self, listens: SocketAddr, reached: SocketAddr) -> Option<SocketAddr> {
        if let Some(ip) = self.advertised {
            return Some(SocketAddr::new(ip, listens.port()));
        }
        let (ip, reached) = (listens.ip().to_canonical(), reached.ip().to_canonical());
        let own = match ip {
            // An unspecified IPv6 address also accepts IPv4.
            IpAddr::V6(ip) if ip.is_unspecified() => reached,
            IpAddr::V4(ip) if ip.is_unspecified() && reached.is_ipv4() => reached,
            ip => ip,
        };
        let is_reachable = !own.is_unspecified() && (!own.is_loopback() || reached.is_loopback());
        is_reachable.then(|| SocketAddr::new(own, listens.port()))
    }
}

/// Completes an entry with the fields common to all entries, and those of ports with TLS.
fn finished(entry: DiscoveryEntry, is_secure: bool) -> DiscoveryEntry {
    let (tsc, sectype) = match is_secure {
        true => (TSC_REQUIRED, SecurityType::TLS_1_3),
        false => (TSC_NOT_REQUIRED, SecurityType::NONE),
    };
    DiscoveryEntry { treq: TransportRequirements::new().with_tsc(tsc).with_sqfcd(true), sectype, ..entry }
}

/// Keeps a record published until it is dropped.
#[must_use = "what it stands for is found only until it is dropped"]
pub struct Published {
    directory: Directory,
    key: u64,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.directory.change(|served| served.records.remove(&self.key));
    }
}

/// The Discovery subsystem of a target.
pub struct Discovery {
    pub(crate) clock: Clock,
    directory: Directory,
    pub(crate) controllers: Controllers,
}

impl Discovery {
    /// A Discovery subsystem that answers from `directory`.
    pub fn new(clock: &Clock, directory: Directory) -> Rc<Self> {
        Rc::new(Discovery { clock: clock.clone(), directory, controllers: Controllers::default() })
    }

    /// The directory behind it.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// All current controllers.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.all()
    }

    /// The directory has changed: notifies the hosts that have enabled the event.
    pub fn changed(&self) {
        self.controllers().iter().for_each(|controller| controller.raise(AsyncEvent::DISCOVERY_LOG_CHANGE));
    }

    pub(crate) fn make(
        self: &Rc<Self>,
        host: HostName,
        reached: Reached,
        keep_alive: Delay,
    ) -> Result<Rc<Controller>, Status> {
        self.controllers.make(CONTROLLERS_MAX, |id| {
            Controller::new(Service::Discovery(self.clone()), id, host, reached, keep_alive, None, true)
        })
    }
}
