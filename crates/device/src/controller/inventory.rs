//! The namespaces that there are: which identifiers are allocated, which are attached, and what has changed of them.

use crate::config::DriveConfig;
use crate::controller::capacity::Capacity;
use crate::controller::namespace::Namespace;
use byteway_wire::nvme::{ChangedNamespaceLog, Status};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Namespaces that a drive can have, unless it is made with more.
const NAMESPACES_MAX: usize = 128;

/// Identifiers of namespaces that were created later begin here: those of the first ones are their numbers.
const FIRST_UID: u64 = 1 << 32;

/// The namespaces of a drive.
pub struct Inventory {
    /// By identifier, from 1.
    table: RefCell<Vec<Option<Rc<Namespace>>>>,
    /// Who has which part of the drive.
    pub capacity: RefCell<Capacity>,
    /// Tells the next namespace from all others.
    pub next_uid: Cell<u64>,
    changed: RefCell<BTreeSet<u32>>,
}

impl Inventory {
    /// That of a new drive.
    pub fn new(config: &DriveConfig) -> Self {
        let mut table: Vec<_> = Namespace::layout(&config.namespaces)
            .into_iter()
            .map(|namespace| Some(Rc::new(namespace)))
            .collect();
        table.resize(table.len().max(NAMESPACES_MAX), None);
        Inventory {
            table: RefCell::new(table),
            capacity: RefCell::new(Capacity::new(&config.namespaces)),
            next_uid: Cell::new(FIRST_UID),
            changed: RefCell::default(),
        }
    }

    /// The greatest identifier that a namespace can have.
    pub fn nsid_max(&self) -> u32 {
        self.table.borrow().len() as u32
    }

    /// A namespace that is allocated.
    pub fn allocated(&self, nsid: u32) -> Option<Rc<Namespace>> {
        self.table.borrow().get((nsid as usize).wrapping_sub(1))?.clone()
    }

    /// A namespace that is attached.
    ///
    /// # Errors
    /// Invalid Namespace or Format if there is no such identifier, Invalid Field in Command if nothing is attached by
    /// it (NVMe Base 2.1, 3.2.1.3 to 3.2.1.5).
    #[inline]
    pub fn active(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).ok_or(Status::INVALID_NAMESPACE.with_dnr())?;
        let namespace = entry.as_ref().filter(|namespace| namespace.attached.get());
        namespace.cloned().ok_or(Status::INVALID_FIELD.with_dnr())
    }

    /// Bytes of a block of the namespace, 0 if there is none.
    #[inline]
    pub fn block_bytes(&self, nsid: u32) -> usize {
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).and_then(Option::as_ref);
        entry.map_or(0, |namespace| namespace.block.bytes())
    }

    /// All that are allocated, ascending.
    pub fn all(&self) -> Vec<Rc<Namespace>> {
        self.table.borrow().iter().flatten().cloned().collect()
    }

    /// Identifiers of those that are attached, ascending, or of all that are allocated.
    pub fn nsids(&self, attached: bool) -> Vec<u32> {
        let table = self.table.borrow();
        let wanted = table.iter().flatten().filter(|namespace| !attached || namespace.attached.get());
        wanted.map(|namespace| namespace.nsid).collect()
    }

    /// The first identifier that is free.
    pub fn free_nsid(&self) -> Option<u32> {
        self.table.borrow().iter().position(Option::is_none).map(|index| index as u32 + 1)
    }

    /// Puts a namespace in the place of its identifier; gives what was there.
    pub fn put(&self, namespace: Namespace) -> Option<Rc<Namespace>> {
        let index = namespace.nsid as usize - 1;
        self.table.borrow_mut()[index].replace(Rc::new(namespace))
    }

    /// Takes a namespace out.
    pub fn take(&self, nsid: u32) -> Option<Rc<Namespace>> {
        self.table.borrow_mut().get_mut((nsid as usize).wrapping_sub(1))?.take()
    }

    /// Takes all out.
    pub fn clear(&self) {
        self.table.borrow_mut().fill(None);
        self.capacity.borrow_mut().release_all();
    }

    /// Notes that a namespace has changed, for the host to find out.
    pub fn note_change(&self, nsid: u32) {
        self.changed.borrow_mut().insert(nsid);
    }

    /// The log of those that have changed (NVMe Base 2.1, 5.1.12.1.5).
    pub fn changed_log(&self) -> ChangedNamespaceLog {
        let mut log = ChangedNamespaceLog::default();
        let changed = self.changed.borrow();
        if changed.len() > log.nsids.len() {
            log.nsids[0] = u32::MAX;
            return log;
        }
        for (into, nsid) in log.nsids.iter_mut().zip(changed.iter()) {
            *into = *nsid;
        }
        log
    }

    /// The host knows what has changed.
    pub fn forget_changes(&self) {
        self.changed.borrow_mut().clear();
    }
}
