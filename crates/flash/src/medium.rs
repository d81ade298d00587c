//! The persistent medium: the array's contents, and the system area of the firmware.

use crate::geometry::{BlockId, Geometry};
use crate::store::file::{Files, Format, OpenError, OpenReport, Tuning};
use crate::store::{BaseContent, Dump, Store};
use byteway_clock::Inbox;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A drive's medium while its power is off. [`Flash::new`](crate::Flash::new) consumes it, and
/// [`Flash::power_off`](crate::Flash::power_off) returns it.
pub struct Medium {
    pub(crate) store: Store,
    pub(crate) system: System,
    /// Age in nanoseconds, powered or not.
    pub(crate) calendar_ns: u64,
    dump: Option<Dump>,
}

impl Medium {
    /// A medium that holds `base`.
    ///
    /// # Panics
    /// If `geometry` is invalid: values from a file are validated where they are read.
    pub fn new(geometry: Geometry, base: Rc<dyn BaseContent>) -> Medium {
        geometry.validate().expect("a geometry is validated where it is read");
        Medium { store: Store::new(geometry, base), system: System::default(), calendar_ns: 0, dump: None }
    }

    /// A medium kept in files. An empty directory becomes a new medium that holds `base`; any other must
    /// belong to a medium made with the same parameters.
    ///
    /// # Errors
    /// [`OpenError`] if the directory belongs to another drive or is damaged, or on a system error.
    pub fn open(
        files: Arc<dyn Files>,
        format: &Format,
        base: Rc<dyn BaseContent>,
        tuning: Tuning,
    ) -> Result<(Medium, OpenReport), OpenError> {
        let (store, dump, opened) = Store::open(files, format, base, tuning)?;
        let (mut system, mut calendar_ns) = (System::default(), 0);
        if let Some(files) = store.files() {
            let kept = |bytes: &[u8]| Rc::from(bytes);
            system.roots = [0, 1].map(|slot| files.roots()[slot].as_deref().map(kept));
            system.record = files.system_record().map(kept);
            system.journal = files.pages().map(kept).collect();
            calendar_ns = files.calendar_ns().min(Self::CALENDAR_MAX_NS);
        }
        Ok((Medium { store, system, calendar_ns, dump }, opened))
    }

    /// In real time, for a medium in files: starts a thread that syncs them from now on, and reports through
    /// `inbox`, that of the array's executor.
    ///
    /// # Errors
    /// The system's error if no thread can be started.
    pub fn sync_behind(&mut self, inbox: &Inbox) -> io::Result<()> {
        self.store.begin_thread(inbox)
    }

    /// Shuts down cleanly. If the medium is kept in files, everything is durable then.
    ///
    /// # Errors
    /// The reason, if a file has failed, now or before.
    pub fn close(mut self) -> Result<(), Rc<str>> {
        self.store.close(self.dump.as_ref(), self.calendar_ns)
    }

    /// The medium of an array that was powered off.
    pub(crate) fn of(store: Store, system: System, calendar_ns: u64) -> Medium {
        Medium { store, system, calendar_ns, dump: None }
    }

    /// Ages the medium without power: retention loss continues, and nothing else happens. Saturates at 500
    /// years.
    pub fn rest(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calendar_ns = self.calendar_ns.saturating_add(ns).min(Self::CALENDAR_MAX_NS);
    }

    /// Sets the program/erase cycles of each superblock before the medium was made. Files do not keep them,
    /// so call this after every open.
    pub fn wear_in(&mut self, erases: impl FnMut(BlockId) -> u32) {
        self.store.wear_in(erases);
        self.store.write_table();
    }

    /// Leaves the calendar the range of a whole run.
    const CALENDAR_MAX_NS: u64 = 500 * 365 * 86_400 * 1_000_000_000;

    /// Geometry of the medium.
    pub fn geometry(&self) -> &Geometry {
        self.store.geometry()
    }

    /// Marks superblocks as bad, permanently, as the factory does. See
    /// [`Flash::is_bad`](crate::Flash::is_bad).
    pub fn mark_bad(&mut self, blocks: impl IntoIterator<Item = BlockId>) {
        let mut marked = 0;
        for block in blocks {
            self.store.mark_bad(block);
            marked += 1;
        }
        if marked > 0 {
            self.store.write_table();
        }
    }

    /// Whether the medium is as manufactured: in its base state, with an empty system area.
    pub fn is_new(&self) -> bool {
        self.store.is_untouched() && self.system.is_empty() && self.dump.is_none()
    }

    /// Saves volatile state at a power cut, replacing the previous save.
    pub fn save(&mut self, dump: Dump) {
        self.dump = Some(dump);
    }

    /// Takes the saved state. If it is not on flash by the next power cut, it must be saved again.
    pub fn take_saved(&mut self) -> Option<Dump> {
        self.dump.take()
    }

    /// The saved state.
    pub fn saved(&self) -> Option<&Dump> {
        self.dump.as_ref()
    }
}

/// The system area: flash apart from the geometry, for what firmware must find before it has any state.
#[derive(Default)]
pub(crate) struct System {
    roots: [Option<Rc<[u8]>>; 2],
    record: Option<Rc<[u8]>>,
    journal: VecDeque<Rc<[u8]>>,
}

impl System {
    /// Whether there is neither a root nor a journal.
    pub(crate) fn is_empty(&self) -> bool {
        self.roots.iter().all(Option::is_none) && self.journal.is_empty()
    }

    pub(crate) fn root(&self, slot: usize) -> Option<Rc<[u8]>> {
        self.roots[slot].clone()
    }

    /// Empties a root slot at the start of its write.
    pub(crate) fn begin_root(&mut self, slot: usize) {
        self.roots[slot] = None;
    }

    pub(crate) fn end_root(&mut self, slot: usize, bytes: Rc<[u8]>) {
        self.roots[slot] = Some(bytes);
    }

    pub(crate) fn record(&self) -> Option<Rc<[u8]>> {
        self.record.clone()
    }

    pub(crate) fn set_record(&mut self, bytes: Rc<[u8]>) {
        self.record = Some(bytes);
    }

    pub(crate) fn journal(&self) -> impl Iterator<Item = &Rc<[u8]>> {
        self.journal.iter()
    }

    pub(crate) fn append_journal(&mut self, page: Rc<[u8]>) {
        self.journal.push_back(page);
    }

    pub(crate) fn cut_journal(&mut self, pages: usize) {
        self.journal.drain(..pages.min(self.journal.len()));
    }
}
