//! What outlives the power: the array's contents, and what firmware keeps beside them.

use crate::geometry::{BlockId, Geometry};
use crate::store::file::{Files, Format, OpenError, Opened, Tuning};
use crate::store::{BaseContent, Dump, Store};
use byteway_clock::Inbox;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A drive's medium while its power is off. [`Flash::new`](crate::Flash::new) takes it in, and
/// [`Flash::power_off`](crate::Flash::power_off) gives it back.
pub struct Medium {
    pub(crate) store: Store,
    pub(crate) system: System,
    /// How old it is, powered or not.
    pub(crate) calendar_ns: u64,
    dump: Option<Dump>,
}

impl Medium {
    /// A medium that holds `base`.
    ///
    /// # Panics
    /// If `geometry` isn't valid: whoever takes it from a file validates it there.
    pub fn new(geometry: Geometry, base: Rc<dyn BaseContent>) -> Medium {
        geometry.validate().expect("a geometry is validated where it is read");
        Medium { store: Store::new(geometry, base), system: System::default(), calendar_ns: 0, dump: None }
    }

    /// A medium that is kept in files. An empty directory becomes a new one, which holds `base`; any other must be of a
    /// medium that was made so.
    ///
    /// # Errors
    /// It is another drive's, or damaged, or the system says no.
    pub fn open(
        files: Arc<dyn Files>,
        format: &Format,
        base: Rc<dyn BaseContent>,
        tuning: Tuning,
    ) -> Result<(Medium, Opened), OpenError> {
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

    /// In real time, and if it is kept in files: a thread syncs them from now on, and reports through `inbox`, which is that
    /// of the executor of the array to come.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn sync_behind(&mut self, inbox: &Inbox) -> io::Result<()> {
        self.store.begin_thread(inbox)
    }

    /// Ends it in order. If it is kept in files, all of it is durable then.
    ///
    /// # Errors
    /// A file has failed, now or before.
    pub fn close(mut self) -> Result<(), Rc<str>> {
        self.store.close(self.dump.as_ref(), self.calendar_ns)
    }

    /// Of an array that was powered off.
    pub(crate) fn of(store: Store, system: System, calendar_ns: u64) -> Medium {
        Medium { store, system, calendar_ns, dump: None }
    }

    /// It lies without power for so long: its data ages, and nothing else happens. Beyond 500 years there is no telling.
    pub fn rest(&mut self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.calendar_ns = self.calendar_ns.saturating_add(ns).min(Self::CALENDAR_MAX_NS);
    }

    /// Its superblocks had been erased so often before it was made. A medium in files does not keep that: it is to be said
    /// whenever it is opened.
    pub fn wear_in(&mut self, erases: impl FnMut(BlockId) -> u32) {
        self.store.wear_in(erases);
        self.store.write_table();
    }

    /// So that the calendar can still run for as long as a run can.
    const CALENDAR_MAX_NS: u64 = 500 * 365 * 86_400 * 1_000_000_000;

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        self.store.geometry()
    }

    /// Marks superblocks as bad, as the factory does: it outlives whatever is done next. See
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

    /// Whether nothing was ever done with it: it holds its base state, and firmware has kept nothing beside.
    pub fn is_new(&self) -> bool {
        self.store.is_untouched() && self.system.is_empty() && self.dump.is_none()
    }

    /// Saves what would be lost; it takes the place of what was saved before.
    pub fn save(&mut self, dump: Dump) {
        self.dump = Some(dump);
    }

    /// Takes out what was saved. It is to be saved again if it is not on flash when the power goes next.
    pub fn take_saved(&mut self) -> Option<Dump> {
        self.dump.take()
    }

    /// What was saved.
    pub fn saved(&self) -> Option<&Dump> {
        self.dump.as_ref()
    }
}

/// The system area: flash of its own, beside the geometry, for what firmware must find before it knows anything.
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

    /// What a slot held is gone from now on.
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
