//! The Discovery Service (NVMe Base 2.1, 3.1.3.3): which subsystems there are, and where a host finds them.
//!
//! A [`Directory`] is what a process serves, whichever thread serves it. [`Discovery`] is the Discovery subsystem of one target,
//! whose controllers hosts connect to under the well-known name; all of a process's give the same answers.

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

/// TREQ.TSC: a secure channel is required, or not.
const TSC_REQUIRED: u8 = 1;
const TSC_NOT_REQUIRED: u8 = 2;
/// Controllers at once of a target's Discovery subsystem.
const CONTROLLERS_MAX: usize = 256;
/// Data of a command at most, as the controllers report it by MDTS: 127 entries at once.
pub(crate) const BYTES_MAX: u32 = 128 << 10;
/// How long a controller without a keep-alive time-out is kept while its host is silent (NVMe Base 2.1, 3.1.3.3).
pub(crate) const ACTIVITY_LIMIT: Delay = Delay::from_s(120);
/// The longest keep-alive time-out that is granted.
pub(crate) const KEEP_ALIVE_MAX: Delay = Delay::from_s(3600);

/// Where a host has reached a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The subsystem's port, by its identifier.
    pub port: u16,
    /// The address of this end of the connection.
    pub address: SocketAddr,
    /// Whether that port is one for TLS.
    pub is_secure: bool,
}

impl Default for Reached {
    /// The first port, at an address that is not known.
    fn default() -> Self {
        Reached { port: 1, address: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), is_secure: false }
    }
}

/// A port at which a subsystem is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its identifier (PORTID), unique within the subsystem.
    pub id: u16,
    /// Where it listens; an address that is unspecified is every one of the machine's.
    pub address: SocketAddr,
    /// Whether hosts have to use TLS there.
    pub is_secure: bool,
}

/// What hosts may find: a subsystem and its ports.
#[derive(Clone, Debug)]
pub struct Record {
    /// The subsystem's name.
    pub nqn: Nqn,
    /// Who may connect, and so who is told.
    pub hosts: Hosts,
    /// Those who have secrets may, too.
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

    /// Whether a host has to generate a key for TLS on a connection without.
    fn requires_generated_key(&self, host: &Nqn) -> bool {
        let known = self.credentials.as_ref();
        known.is_some_and(|known| known.tls() == TlsPolicy::Required && known.has(host))
    }
}

/// What a process serves. Cheap to clone, and shared by threads.
#[derive(Clone)]
pub struct Directory(Shared<Served>);

impl Default for Directory {
    fn default() -> Self {
        Directory::new(Vec::new(), None)
    }
}

#[derive(Default)]
struct Served {
    /// Counts the changes (GENCTR).
    generation: u64,
    records: BTreeMap<u64, Record>,
    next: u64,
    referrals: Vec<SocketAddr>,
    /// What hosts are told instead of an address of this machine's.
    advertised: Option<IpAddr>,
}

impl Directory {
    /// Of nothing. `referrals`: further Discovery Services. `advertised`: the address under which hosts reach this machine, if
    /// that is none of its own (behind network address translation).
    pub fn new(referrals: Vec<SocketAddr>, advertised: Option<IpAddr>) -> Self {
        Directory(Shared::new(Served { referrals, advertised, ..Served::default() }))
    }

    /// Hosts find this from now on, until the result is dropped.
    pub fn publish(&self, record: Record) -> Published {
        let key = self.change(|served| {
            let key = served.next;
            served.next += 1;
            served.records.insert(key, record);
            key
        });
        Published { directory: self.clone(), key }
    }

    /// The hosts that may connect have changed.
    pub fn hosts_changed(&self) {
        self.change(|_| ());
    }

    /// Calls `watcher` after each change, until the result is dropped. It may be called from any thread.
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) -> Watching {
        self.0.watch(watcher)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Served) -> T) -> T {
        self.0.change(|served| {
            served.generation += 1;
            change(served)
        })
    }

    /// The Discovery log page for a host: its generation, and its entries. A host is told of what it may connect to, at addresses
    /// that it can reach by the way that it came.
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
                        // libnvme has the host connect with --concat by that.
                        true => DiscoveryEntry { sectype: SecurityType::TLS_1_3, ..finished(entry, false) },
                        false => finished(entry, port.is_secure),
                    };
                    entries.push(DiscoveryEntry { asqsz: record.admin_entries_max, ..entry });
                }
            }
        }
        for address in &self.referrals {
            // Whether it wants TLS nobody here knows.
            entries.push(finished(DiscoveryEntry::referral(*address, 0), false));
        }
        (self.generation, entries)
    }

    /// Where a host that has reached this machine at `reached` finds what listens at `listens`; none: not by that way.
    fn address_of(&self, listens: SocketAddr, reached: SocketAddr) -> Option<SocketAddr> {
        if let Some(ip) = self.advertised {
            return Some(SocketAddr::new(ip, listens.port()));
        }
        let (ip, reached) = (listens.ip().to_canonical(), reached.ip().to_canonical());
        let own = match ip {
            // Every IPv6 address, and those of IPv4, too.
            IpAddr::V6(ip) if ip.is_unspecified() => reached,
            IpAddr::V4(ip) if ip.is_unspecified() && reached.is_ipv4() => reached,
            ip => ip,
        };
        let is_reachable = !own.is_unspecified() && (!own.is_loopback() || reached.is_loopback());
        is_reachable.then(|| SocketAddr::new(own, listens.port()))
    }
}

/// With what holds for all entries, and for those of ports with TLS.
fn finished(entry: DiscoveryEntry, is_secure: bool) -> DiscoveryEntry {
    let (tsc, sectype) = match is_secure {
        true => (TSC_REQUIRED, SecurityType::TLS_1_3),
        false => (TSC_NOT_REQUIRED, SecurityType::NONE),
    };
    DiscoveryEntry { treq: TransportRequirements::new().with_tsc(tsc).with_sqfcd(true), sectype, ..entry }
}

/// A record is found until this is dropped.
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
    /// That answers from `directory`.
    pub fn new(clock: &Clock, directory: Directory) -> Rc<Self> {
        Rc::new(Discovery { clock: clock.clone(), directory, controllers: Controllers::default() })
    }

    /// What it answers from.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Controllers that hosts have now.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.all()
    }

    /// The directory has changed: hosts are told that want to be.
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
