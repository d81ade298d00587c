//! The namespaces that there are: which identifiers are allocated, which are attached, and what has changed of them.

use crate::config::{CommandSet, DriveConfig};
use crate::controller::namespace::Namespace;
use crate::controller::namespace::capacity::Capacity;
use byteway_wire::nvme::{ChangedNamespaceLog, Status};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Namespaces that a drive can have, unless it is made with more.
const NAMESPACES_MAX: usize = 128;
/// Identifiers of namespaces that were created later begin here: those of the first ones are their numbers.
const FIRST_UID: u64 = 1 << 32;

/// The namespaces of a drive, as one of its controllers sees them. What stands in an [`Rc`] is the drive's.
pub struct Inventory {
    /// By identifier, from 1.
    table: Rc<RefCell<Vec<Option<Rc<Namespace>>>>>,
    /// Those that are being deleted: nobody finds them, but what they have is theirs until it is deallocated.
    leaving: Rc<RefCell<Vec<Rc<Namespace>>>>,
    /// Who has which part of the drive.
    pub capacity: Rc<RefCell<Capacity>>,
    /// Tells the next namespace from all others.
    pub next_uid: Rc<Cell<u64>>,
    /// There is, or was, a namespace without blocks.
    has_others: Rc<Cell<bool>>,
    /// Those that have changed without the controller's host knowing, and the number of the last change of each.
    changed: RefCell<BTreeMap<u32, u64>>,
    changes: Cell<u64>,
    /// Of these, those whose blocks another controller has made others: commands that were made for what was there before would
    /// move more bytes than their host has memory for. They are refused until the host has looked.
    barred: RefCell<BTreeSet<u32>>,
    /// The controller is enabled for all its command sets: else such namespaces are not active.
    pub all_sets: Cell<bool>,
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

    /// The same namespaces, as another controller sees them.
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
        let namespace = entry.as_ref().filter(|namespace| self.is_active(namespace));
        namespace.cloned().ok_or(Status::INVALID_FIELD.with_dnr())
    }

    #[inline]
    fn is_active(&self, namespace: &Namespace) -> bool {
        namespace.attached.get() && (namespace.set == CommandSet::Nvm || self.all_sets.get())
    }

    /// Bytes of a block of the namespace, 0 if there is none, or if it has no blocks.
    #[inline]
    pub fn block_bytes(&self, nsid: u32) -> usize {
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).and_then(Option::as_ref);
        entry
            .map_or(0, |namespace| if namespace.set == CommandSet::Nvm { namespace.block.bytes() } else { 0 })
    }

    /// The command set of a namespace; NVM if there is no such namespace.
    #[inline]
    pub fn set_of(&self, nsid: u32) -> CommandSet {
        if !self.has_others.get() {
            return CommandSet::Nvm;
        }
        let table = self.table.borrow();
        let entry = table.get((nsid as usize).wrapping_sub(1)).and_then(Option::as_ref);
        entry.map_or(CommandSet::Nvm, |namespace| namespace.set)
    }

    /// The first that `find` finds something of, ascending.
    pub fn find_map<T>(&self, find: impl FnMut(&Rc<Namespace>) -> Option<T>) -> Option<T> {
        self.table.borrow().iter().flatten().find_map(find)
    }

    /// Shows all that are allocated, ascending, as often as is liked: nothing is allocated for it.
    pub fn each(&self, each: impl FnMut(&Rc<Namespace>)) {
        self.table.borrow().iter().flatten().for_each(each);
    }

    /// All that are allocated, ascending.
    pub fn all(&self) -> Vec<Rc<Namespace>> {
        self.table.borrow().iter().flatten().cloned().collect()
    }

    /// Those, and what is being deleted.
    pub fn all_and_leaving(&self) -> Vec<Rc<Namespace>> {
        let mut all = self.all();
        all.extend(self.leaving.borrow().iter().cloned());
        all.sort_by_key(|namespace| namespace.nsid);
        all
    }

    /// Identifiers of those that are attached, ascending, or of all that are allocated.
    pub fn nsids(&self, attached: bool) -> Vec<u32> {
        let table = self.table.borrow();
        let wanted = table.iter().flatten().filter(|namespace| !attached || self.is_active(namespace));
        wanted.map(|namespace| namespace.nsid).collect()
    }

    /// The same of those of one command set.
    pub fn nsids_of(&self, attached: bool, set: CommandSet) -> Vec<u32> {
        let mut nsids = self.nsids(attached);
        nsids.retain(|nsid| self.set_of(*nsid) == set);
        nsids
    }

    /// The first identifier that is free.
    pub fn free_nsid(&self) -> Option<u32> {
        let (table, leaving) = (self.table.borrow(), self.leaving.borrow());
        let is_leaving = |nsid| leaving.iter().any(|namespace| namespace.nsid == nsid);
        (1..).zip(&*table).find(|(nsid, entry)| entry.is_none() && !is_leaving(*nsid)).map(|(nsid, _)| nsid)
    }

    /// Puts a namespace in the place of its identifier; gives what was there.
    pub fn put(&self, namespace: Namespace) -> Option<Rc<Namespace>> {
        let index = namespace.nsid as usize - 1;
        self.has_others.set(self.has_others.get() || namespace.set != CommandSet::Nvm);
        self.table.borrow_mut()[index].replace(Rc::new(namespace))
    }

    /// Puts back a namespace that was taken out, or that another was put in the place of.
    pub fn put_back(&self, namespace: Rc<Namespace>) {
        self.leaving.borrow_mut().retain(|leaving| leaving.nsid != namespace.nsid);
        let index = namespace.nsid as usize - 1;
        self.table.borrow_mut()[index] = Some(namespace);
    }

    /// From now on nobody finds a namespace any more. [`Inventory::release`] frees its identifier and what it has.
    pub fn take(&self, nsid: u32) -> Option<Rc<Namespace>> {
        let namespace = self.table.borrow_mut().get_mut((nsid as usize).wrapping_sub(1))?.take()?;
        self.leaving.borrow_mut().push(namespace.clone());
        Some(namespace)
    }

    /// What a namespace that was taken out had is free, and holds nothing.
    pub fn release(&self, nsid: u32) {
        self.leaving.borrow_mut().retain(|namespace| namespace.nsid != nsid);
        self.capacity.borrow_mut().release(nsid);
    }

    /// Takes all out.
    pub fn clear(&self) {
        self.table.borrow_mut().fill(None);
        self.leaving.borrow_mut().clear();
        self.capacity.borrow_mut().release_all();
    }

    /// Notes that a namespace has changed, for the host to find out.
    pub fn note_change(&self, nsid: u32) {
        self.changes.set(self.changes.get() + 1);
        self.changed.borrow_mut().insert(nsid, self.changes.get());
    }

    /// How many changes there were.
    pub fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// The log of those that have changed (NVMe Base 2.1, 5.1.12.1.5).
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

    /// The host knows of all changes up to the one with number `told`.
    pub fn forget_changes(&self, told: u64) {
        let mut changed = self.changed.borrow_mut();
        changed.retain(|_, change| *change > told);
        self.barred.borrow_mut().retain(|nsid| changed.contains_key(nsid));
    }

    /// A namespace has changed so that the host's commands to it are refused until it knows.
    pub fn bar(&self, nsid: u32) {
        self.note_change(nsid);
        self.barred.borrow_mut().insert(nsid);
    }

    /// Whether commands to a namespace are refused until the host knows what has changed of it.
    pub fn is_barred(&self, nsid: u32) -> bool {
        self.barred.borrow().contains(&nsid)
    }

    /// The host has looked at a namespace, or at all.
    pub fn unbar(&self, nsid: Option<u32>) {
        self.barred.borrow_mut().retain(|barred| nsid.is_some_and(|nsid| nsid != *barred));
    }
}
