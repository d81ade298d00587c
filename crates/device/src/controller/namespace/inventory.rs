//! The inventory of namespaces: allocated and attached identifiers, and changes that hosts have not seen yet.

use crate::config::{CommandSet, DriveConfig};
use crate::controller::namespace::Namespace;
use crate::controller::namespace::capacity::Capacity;
use byteway_wire::nvme::{ChangedNamespaceLog, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Maximum number of namespaces, unless the drive is configured with more.
const NAMESPACES_MAX: usize = 128;
/// First unique identifier of namespaces created later; the initial namespaces use their numbers.
const FIRST_UID: u64 = 1 << 32;

/// The namespaces of a drive, as seen by one of its controllers. Fields in an [`Rc`] are shared with the drive's other
/// controllers.
pub struct Inventory {
    /// Namespaces by identifier minus 1.
    table: Rc<RefCell<Vec<Option<Rc<Namespace>>>>>,
    /// Namespaces that are being deleted: look-ups no longer find them, but they keep their chunks until these are
    /// deallocated.
    leaving: Rc<RefCell<Vec<Rc<Namespace>>>>,
    /// The owner of each chunk.
    pub capacity: Rc<RefCell<Capacity>>,
    /// Unique identifier of the next namespace.
    pub next_uid: Rc<Cell<u64>>,
    /// A namespace without blocks exists or has existed.
    has_others: Rc<Cell<bool>>,
    /// Changed namespaces that were not reported to the controller's host, with the sequence number of the
    /// last change.
    changed: RefCell<BTreeMap<u32, u64>>,
    changes: Cell<u64>,
    /// Changed namespaces whose block size another controller has changed. A command prepared for the former
    /// size would move more bytes than the host's buffer holds, so commands are refused until the host
    /// identifies the namespace.
    barred: RefCell<BTreeSet<u32>>,
    /// The controller is enabled for all its command sets; otherwise namespaces of other sets than NVM are not active.
    pub all_sets: Cell<bool>,
}

impl Inventory {
    /// The inventory of a new drive.
    pub fn new(config: &DriveConfig) -> Self {
        let mut table: Vec<_> = Namespace::layout(&config.namespaces)
            .into_iter()
            .map(|namespace| Some(Rc::new(namespace)))
            .collect();
        table.resize(table.len().max(NAMESPACES_MAX), None);
        Inventory {
            table: Rc::new(RefCell::new(table)),
            leaving: Rc::default(),
            capacity: Rc::new(RefCell::new(Capacity::new(&config.namespaces))),
            next_uid: Rc::new(Cell::new(FIRST_UID)),
            has_others: Rc::new(Cell::new(config.namespaces.iter().any(|n| n.set != CommandSet::Nvm))),
            changed: RefCell::default(),
            changes: Cell::default(),
            barred: RefCell::default(),
            all_sets: Cell::default(),
        }
    }

    /// A view of the same namespaces for another controller.
    pub fn view(&self) -> Self {
        Inventory {
            table: self.table.clone(),
            leaving: self.leaving.clone(),
            capacity: self.capacity.clone(),
            next_uid: self.next_uid.clone(),
            has_others: self.has_others.clone(),
            changed: RefCell::default(),
            changes: Cell::default(),
            barred: RefCell::default(),
            all_sets: Cell::default(),
        }
    }

    /// The greatest possible namespace identifier (NN).
    pub fn nsid_max(&self) -> u32 {
        self.table.borrow().len() as u32
    }

    /// The allocated namespace with this identifier.
    pub fn allocated(&self, nsid: u32) -> Option<Rc<Namespace>> {
        self.table.borrow().get((nsid as usize).wrapping_sub(1))?.clone()
    }

    /// The active namespace with this identifier.
    ///
    /// # Errors
    /// Invalid Namespace or Format if the identifier is not allocated, Invalid Field in Command if the namespace is not
    /// attached (NVMe Base 2.1, 3.2.1.3 to 3.2.1.5).
    #[inline]
    pub fn active(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).ok_or(Status::INVALID_NAMESPACE.with_dnr())?;
        let namespace = entry.as_ref().filter(|namespace| self.is_active(namespace));
        namespace.cloned().ok_or(Status::INVALID_FIELD.with_dnr())
    }

    #[inline]
    fn is_active(&self, namespace: &Namespace) -> bool {
        namespace.attached.get() && (namespace.set == CommandSet::Nvm || self.all_sets.get())
    }

    /// Bytes of a block of the namespace; 0 if it does not exist, or has no blocks.
    #[inline]
    pub fn block_bytes(&self, nsid: u32) -> usize {
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).and_then(Option::as_ref);
        entry
            .map_or(0, |namespace| if namespace.set == CommandSet::Nvm { namespace.block.bytes() } else { 0 })
    }

    /// The command set of a namespace; NVM if it does not exist.
    #[inline]
    pub fn set_of(&self, nsid: u32) -> CommandSet {
        if !self.has_others.get() {
            return CommandSet::Nvm;
        }
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).and_then(Option::as_ref);
        entry.map_or(CommandSet::Nvm, |namespace| namespace.set)
    }

    /// The first result of `find` over all allocated namespaces, in ascending order.
    pub fn find_map<T>(&self, find: impl FnMut(&Rc<Namespace>) -> Option<T>) -> Option<T> {
        self.table.borrow().iter().flatten().find_map(find)
    }

    /// Calls `each` with all allocated namespaces, in ascending order, without allocating memory.
    pub fn each(&self, each: impl FnMut(&Rc<Namespace>)) {
        self.table.borrow().iter().flatten().for_each(each);
    }

    /// All allocated namespaces, in ascending order.
    pub fn all(&self) -> Vec<Rc<Namespace>> {
        self.table.borrow().iter().flatten().cloned().collect()
    }

    /// All allocated namespaces, and those that are being deleted.
    pub fn all_and_leaving(&self) -> Vec<Rc<Namespace>> {
        let mut all = self.all();
        all.extend(self.leaving.borrow().iter().cloned());
        all.sort_by_key(|namespace| namespace.nsid);
        all
    }

    /// Identifiers of the attached namespaces, or of all allocated ones, in ascending order.
    pub fn nsids(&self, attached: bool) -> Vec<u32> {
        let table = self.table.borrow();
        let wanted = table.iter().flatten().filter(|namespace| !attached || self.is_active(namespace));
        wanted.map(|namespace| namespace.nsid).collect()
    }

    /// Like [`Inventory::nsids`], restricted to one command set.
    pub fn nsids_of(&self, attached: bool, set: CommandSet) -> Vec<u32> {
        let mut nsids = self.nsids(attached);
        nsids.retain(|nsid| self.set_of(*nsid) == set);
        nsids
    }

    /// The lowest free identifier.
    pub fn free_nsid(&self) -> Option<u32> {
        let (table, leaving) = (self.table.borrow(), self.leaving.borrow());
        let is_leaving = |nsid| leaving.iter().any(|namespace| namespace.nsid == nsid);
        (1..).zip(&*table).find(|(nsid, entry)| entry.is_none() && !is_leaving(*nsid)).map(|(nsid, _)| nsid)
    }

    /// Stores a namespace under its identifier; returns the previous one.
    pub fn put(&self, namespace: Namespace) -> Option<Rc<Namespace>> {
        let index = namespace.nsid as usize - 1;
        self.has_others.set(self.has_others.get() || namespace.set != CommandSet::Nvm);
        self.table.borrow_mut()[index].replace(Rc::new(namespace))
    }

    /// Stores a namespace back that was removed or replaced.
    pub fn put_back(&self, namespace: Rc<Namespace>) {
        self.leaving.borrow_mut().retain(|leaving| leaving.nsid != namespace.nsid);
        let index = namespace.nsid as usize - 1;
        self.table.borrow_mut()[index] = Some(namespace);
    }

    /// Hides a namespace from look-ups. [`Inventory::release`] then frees its identifier and chunks.
    pub fn take(&self, nsid: u32) -> Option<Rc<Namespace>> {
        let namespace = self.table.borrow_mut().get_mut((nsid as usize).wrapping_sub(1))?.take()?;
        self.leaving.borrow_mut().push(namespace.clone());
        Some(namespace)
    }

    /// Frees the chunks of a hidden namespace, which must be deallocated.
    pub fn release(&self, nsid: u32) {
        self.leaving.borrow_mut().retain(|namespace| namespace.nsid != nsid);
        self.capacity.borrow_mut().release(nsid);
    }

    /// Hides all namespaces.
    pub fn clear(&self) {
        self.table.borrow_mut().fill(None);
        self.leaving.borrow_mut().clear();
        self.capacity.borrow_mut().release_all();
    }

    /// Notes that a namespace has changed, for the host's log page.
    pub fn note_change(&self, nsid: u32) {
        self.changes.set(self.changes.get() + 1);
        self.changed.borrow_mut().insert(nsid, self.changes.get());
    }

    /// Number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The Changed Attached Namespace List log page (NVMe Base 2.1, 5.1.12.1.5).
    pub fn changed_log(&self) -> ChangedNamespaceLog {
        let mut log = ChangedNamespaceLog::default();
        let changed = self.changed.borrow();
        if changed.len() > log.nsids.len() {
            log.nsids[0] = u32::MAX;
            return log;
        }
        for (into, nsid) in log.nsids.iter_mut().zip(changed.keys()) {
            *into = *nsid;
        }
        log
    }

    /// Removes changes up to number `told`: the host has read them.
    pub fn forget_changes(&self, told: u64) {
        let mut changed = self.changed.borrow_mut();
        changed.retain(|_, change| *change > told);
        self.barred.borrow_mut().retain(|nsid| changed.contains_key(nsid));
    }

    /// Refuses the host's commands to a changed namespace until it identifies the namespace.
    pub fn bar(&self, nsid: u32) {
        self.note_change(nsid);
        self.barred.borrow_mut().insert(nsid);
    }

    /// Whether the host's commands to a namespace are refused because of a change.
    pub fn is_barred(&self, nsid: u32) -> bool {
        self.barred.borrow().contains(&nsid)
    }

    /// Lifts the refusal: the host has identified the namespace, or with `None` all of them.
    pub fn unbar(&self, nsid: Option<u32>) {
        self.barred.borrow_mut().retain(|barred| nsid.is_some_and(|nsid| nsid != *barred));
    }
}
