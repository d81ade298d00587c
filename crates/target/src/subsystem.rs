//! A subsystem: one drive under one name, the hosts that may use it, and the controllers that it has made for them.

use crate::controller::Controller;
use crate::path::Path;
use byteway_clock::{Clock, Delay};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::connect::CNTLID_MAX;
use byteway_wire::fabrics::status::CONTROLLER_BUSY;
use byteway_wire::nvme::Status;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Who may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// Whoever knows the subsystem's name.
    #[default]
    Any,
    /// Those with one of these host NQNs.
    Listed(Vec<Nqn>),
}

impl Hosts {
    /// Whether a host of this name may.
    pub fn has(&self, nqn: &Nqn) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::Listed(names) => names.contains(nqn),
        }
    }
}

/// What a subsystem is, and what it gives to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsystemConfig {
    /// Its NQN, which is not the discovery service's.
    pub nqn: Nqn,
    /// Who may connect.
    pub hosts: Hosts,
    /// I/O queues that a controller may have.
    pub io_queues_max: u16,
    /// Entries of a queue, from 2 on.
    pub entries_max: u16,
    /// Bytes of data that a host may send with a command (in-capsule data): a multiple of 16.
    pub in_capsule_bytes: u32,
    /// Controllers at once, of all hosts together.
    pub controllers_max: usize,
    /// A host that names no keep-alive time-out, and is connected and silent, is kept for ever; one that names a longer one is
    /// given this.
    pub keep_alive_max: Delay,
}

impl SubsystemConfig {
    /// With this name, for any host.
    pub fn new(nqn: Nqn) -> Self {
        SubsystemConfig {
            nqn,
            hosts: Hosts::Any,
            io_queues_max: 32,
            entries_max: 128,
            in_capsule_bytes: 8 << 10,
            controllers_max: 64,
            keep_alive_max: Delay::from_s(3600),
        }
    }
}

/// A host, as its Connect names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// Its NQN.
    pub nqn: Nqn,
    /// Its Host Identifier.
    pub id: [u8; 16],
}

/// The identifiers that controllers are given: FFF0h and above mean something else (NVMe Base 2.1, 5.1.13.2.1).
const IDENTIFIERS: RangeInclusive<u16> = 1..=CNTLID_MAX;

/// A subsystem.
pub struct Subsystem {
    pub(crate) clock: Clock,
    pub(crate) config: SubsystemConfig,
    pub(crate) path: Path,
    controllers: RefCell<BTreeMap<u16, Rc<Controller>>>,
    next: Cell<u16>,
}

impl Subsystem {
    /// Of the drive at the end of `path`.
    pub fn new(clock: &Clock, config: SubsystemConfig, path: Path) -> Rc<Self> {
        let next = Cell::new(*IDENTIFIERS.start());
        Rc::new(Subsystem { clock: clock.clone(), config, path, controllers: RefCell::default(), next })
    }

    /// What it is.
    pub fn config(&self) -> &SubsystemConfig {
        &self.config
    }

    /// Its way to the drive.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Controllers that hosts have now.
    pub fn controllers(&self) -> Vec<Rc<Controller>> {
        self.controllers.borrow().values().cloned().collect()
    }

    /// Makes a controller for a host: the dynamic model. `keep_alive`: what its Connect asks for; zero: no time-out.
    ///
    /// # Errors
    /// [`CONTROLLER_BUSY`]: there are too many.
    pub(crate) fn make(self: &Rc<Self>, host: HostName, keep_alive: Delay) -> Result<Rc<Controller>, Status> {
        let mut controllers = self.controllers.borrow_mut();
        if controllers.len() >= self.config.controllers_max {
            return Err(CONTROLLER_BUSY);
        }
        let mut id = self.next.get();
        while controllers.contains_key(&id) {
            id = after(id);
        }
        self.next.set(after(id));
        let controller = Controller::new(self, id, host, keep_alive.min(self.config.keep_alive_max));
        controllers.insert(id, controller.clone());
        Ok(controller)
    }

    /// The controller with this identifier.
    pub fn controller(&self, id: u16) -> Option<Rc<Controller>> {
        self.controllers.borrow().get(&id).cloned()
    }

    /// It has ended: its identifier is free.
    pub(crate) fn forget(&self, id: u16) {
        self.controllers.borrow_mut().remove(&id);
    }
}

fn after(id: u16) -> u16 {
    if id == *IDENTIFIERS.end() { *IDENTIFIERS.start() } else { id + 1 }
}
