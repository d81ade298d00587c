//! Contents and spare areas in files, so that they outlive the process, and so that memory follows what is in use rather
//! than what the drive holds.
//!
//! | file | what it holds |
//! |---|---|
//! | `format` | version, shape, and what else must not change, as text |
//! | `data` | each unit's bytes at its place; sparse: test patterns and zeroes take nothing. Above 15 TiB of flash it goes on in `data-2` and so on, every 8 TiB |
//! | `spare` | each unit's `record` of 64 bytes at its place |
//! | `checkpoint` | an `image`: what was known of every superblock, and the system area |
//! | `journal-N` | what has changed since checkpoint N, but for programs |
//! | `lock` | locked by whoever has the directory |
//!
//! A program writes `data` and `spare` and notes nothing: its records say by themselves which superblock's life they
//! belong to, and a stripe counts only if all of it is there. Everything else goes through jobs (see `disk`), which
//! keep the order. In short: *what is durable never depends on what isn't*, for an erase clears nothing before what was
//! programmed until then is durable, and it is noted; and it ends only then. So the newer places of the units that a
//! collector has moved are durable before the older ones go.
//!
//! Opening reads the checkpoint and the journal, and looks for stripes that were programmed since. They count up to the
//! first one that is missing, in the order in which they were programmed: so firmware finds the array as it was at an
//! instant, and no later stripe speaks of an earlier one that is lost. What was found is written into a checkpoint, and
//! what was left out never comes back, for its records are of an earlier start (`epoch`).
//!
//! A file that fails (no space, a disk that is broken) ends the drive: nothing is durable any more, and
//! [`Flash::failed`](crate::Flash::failed) says why.

mod bytes;
mod check;
mod disk;
mod files;
mod format;
mod image;
mod journal;
mod open;
mod overlay;
mod parts;
mod real;
mod record;
mod simulated;

pub use check::{Check, Finding, check};
pub use files::{File, Files};
pub use format::{Format, FormatError};
pub use open::{OpenError, Opened, Summary, Tuning, look};
pub use overlay::Overlay;
pub use real::{Directory, DirectoryError};
pub use simulated::SimulatedFiles;

pub(super) use open::{FoundBlock, open};

use super::block::{BASE, Block, Work};
use super::content::{Batch, Dump, Spare};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::timing::Mode;
use byteway_clock::{Inbox, TaskId};
use byteway_wire::content::{Content, UNIT_BYTES};
use byteway_wire::unit::UnitBytes;
use disk::{Job, Ran, Runner};
use image::{Entry, Image, System};
use journal::{Change, SystemChange};
use record::{Origin, RECORD_BYTES, Record};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// The contents of an array, in files.
pub(crate) struct FileContents {
    geometry: Geometry,
    data: Arc<dyn File>,
    spare: Arc<dyn File>,
    epoch: u32,
    tuning: Tuning,
    cache: RefCell<Cache>,
    system: System,
    /// The medium's calendar, when it was last looked at.
    calendar_ns: u64,
    /// Of the journal.
    number: u64,
    offset: u64,
    /// What the next job is to do.
    pending: Vec<u8>,
    clear: Vec<[(u64, u64); 2]>,
    is_dirty: bool,
    /// Stripes programmed in this start.
    order: u64,
    /// Units programmed since the last checkpoint was begun.
    programmed: u32,
    /// Jobs that were given out, and that are done; and how many are wanted.
    given: u64,
    done: u64,
    wanted: u64,
    /// Jobs of a thread whose end everything that waits for it has been told.
    told: u64,
    /// Superblocks whose erase must not end before this job is done.
    erasing: BTreeMap<u32, u64>,
    runner: Runner,
    /// How many jobs `runner` had nothing to do with.
    before_thread: u64,
    error: RefCell<Option<Rc<str>>>,
    /// Of a stripe.
    records: Vec<Record>,
    bytes: Vec<u8>,
}

/// Spare records that were read, by pages of 64.
struct Cache {
    pages: Vec<Option<CachePage>>,
}

struct CachePage {
    number: u64,
    records: Box<[Record; CACHE_RECORDS]>,
}

const CACHE_RECORDS: usize = 64;
/// Pages, of 4 KiB each.
const CACHE_PAGES: usize = 4096;

impl FileContents {
    /// The record of a unit; none if it can't be read.
    fn record(&self, ppa: Ppa) -> Option<Record> {
        let (number, within) = (ppa.0 / CACHE_RECORDS as u64, ppa.0 as usize % CACHE_RECORDS);
        let mut cache = self.cache.borrow_mut();
        let page = &mut cache.pages[number as usize % CACHE_PAGES];
        if let Some(page) = page
            && page.number == number
        {
            return Some(page.records[within]);
        }
        let mut records =
            page.take().map_or_else(|| Box::new([Record::new_zeroed(); CACHE_RECORDS]), |page| page.records);
        let offset = number * (CACHE_RECORDS * RECORD_BYTES) as u64;
        if let Err(error) = self.spare.read_at(records.as_mut_bytes(), offset) {
            self.fail("spare", &error);
            return None;
        }
        let record = records[within];
        *page = Some(CachePage { number, records });
        Some(record)
    }

    /// The record of a unit that was programmed in this life of its superblock.
    fn record_of(&self, ppa: Ppa, generation: u32) -> Option<Record> {
        let record = self.record(ppa)?;
        (record.is_whole(ppa) && record.origin().generation == generation).then_some(record)
    }

    /// What firmware wrote beside a unit.
    pub(super) fn spare(&self, ppa: Ppa, live: u32) -> Option<Spare> {
        self.record_of(ppa, generation(live)).map(|record| record.spare())
    }

    /// The number of the stripe that a unit is in.
    pub(super) fn number(&self, ppa: Ppa, live: u32) -> Option<u64> {
        self.record_of(ppa, generation(live)).map(|record| record.origin().number)
    }

    /// What a unit holds; none if that is not what was written.
    pub(super) fn content(&self, ppa: Ppa, live: u32) -> Option<Content> {
        let record = self.record_of(ppa, generation(live))?;
        if !record.has_bytes() {
            return record.content();
        }
        let mut bytes = UnitBytes::from([0; UNIT_BYTES]);
        if let Err(error) = self.data.read_at(bytes.make_mut(), ppa.0 * UNIT_BYTES as u64) {
            self.fail("data", &error);
            return None;
        }
        record.content_of(bytes)
    }

    /// Writes a stripe of a superblock in this state, padded if `batch` is short.
    pub(super) fn program(&mut self, first: Ppa, state: &Block, batch: &mut Batch, now_ns: u64) {
        self.calendar_ns = now_ns;
        let units = self.geometry.units_per_stripe() as usize;
        let (number, generation, epoch) = (batch.number, generation(state.live), self.epoch);
        let (begun_at_ns, order) = (state.programmed_at_ns, self.order);
        let origin = Origin { number, generation, epoch, begun_at_ns, order };
        self.order += 1;
        self.records.clear();
        let mut batch = batch.units.drain(..);
        let mut run = 0..0;
        let mut written = Ok(());
        for unit in 0..units {
            let (spare, content) = batch.next().unwrap_or((Spare::PADDING, Content::Zero));
            let place = &mut self.bytes[unit * UNIT_BYTES..(unit + 1) * UNIT_BYTES];
            let (record, has_bytes) = Record::of(Ppa(first.0 + unit as u64), spare, &content, origin, place);
            self.records.push(record);
            if has_bytes {
                run = if run.end == unit { run.start..unit + 1 } else { unit..unit + 1 };
            }
            if !run.is_empty() && (!has_bytes || unit + 1 == units) {
                let bytes = &self.bytes[run.start * UNIT_BYTES..run.end * UNIT_BYTES];
                let offset = (first.0 + run.start as u64) * UNIT_BYTES as u64;
                written = written.and_then(|()| self.data.write_at(bytes, offset));
                run = units..units;
            }
        }
        let offset = first.0 * RECORD_BYTES as u64;
        let written = written.and_then(|()| self.spare.write_at(self.records.as_bytes(), offset));
        if let Err(error) = written {
            self.fail("data", &error);
        }
        self.cache.get_mut().put(first, &self.records);
        self.is_dirty = true;
        self.programmed += units as u32;
        if self.is_image_due() {
            self.wanted = self.wanted.max(self.given + 1);
        }
    }

    fn is_image_due(&self) -> bool {
        self.programmed >= self.tuning.image_units
            || self.offset + self.pending.len() as u64 >= self.tuning.journal_bytes
    }

    /// Notes what has become of a superblock.
    pub(super) fn note(&mut self, block: u32, state: &Block) {
        self.note_change(&Change::Block(block, entry(state, 0)));
    }

    /// Notes that stripes are torn.
    pub(super) fn note_torn(&mut self, block: u32, first: u32, end: u32) {
        self.note_change(&Change::Torn(block, first, end));
    }

    fn note_change(&mut self, change: &Change) {
        journal::write(&mut self.pending, self.number, self.offset, change);
    }

    /// Notes a change of the system area.
    fn note_system(&mut self, change: SystemChange) {
        self.note_change(&Change::System(change.clone()));
        change.apply(&mut self.system);
    }

    /// Notes what a slot for roots holds.
    pub(super) fn note_root(&mut self, slot: usize, root: Option<&[u8]>) {
        self.note_system(SystemChange::Root(slot as u8, root.map(<[u8]>::to_vec)));
    }

    /// Notes the record.
    pub(super) fn note_record(&mut self, record: &[u8]) {
        self.note_system(SystemChange::Record(record.to_vec()));
    }

    /// Notes that a page is added to the system area's journal.
    pub(super) fn note_page(&mut self, page: &[u8]) {
        self.note_system(SystemChange::Page(page.to_vec()));
    }

    /// Notes that pages are taken off it.
    pub(super) fn note_cut(&mut self, pages: usize) {
        self.note_system(SystemChange::Cut(u32::try_from(pages).unwrap_or(u32::MAX)));
    }

    /// An erase has begun, of which the superblock's state speaks already: from the end of the next job on it holds
    /// nothing.
    pub(super) fn erase(&mut self, block: u32, state: &Block) {
        self.note(block, state);
        let units = u64::from(self.geometry.units_per_block());
        let first = u64::from(block) * units;
        let range = |bytes: usize| (first * bytes as u64, units * bytes as u64);
        self.clear.push([range(UNIT_BYTES), range(RECORD_BYTES)]);
        self.cache.get_mut().forget(first, units);
        self.wanted = self.given + 1;
        self.erasing.insert(block, self.wanted);
    }

    /// Whether an operation that has taken its time must not end yet.
    pub(super) fn holds_up(&self, block: u32, is_erase: bool) -> bool {
        let waits = |job: &u64| *job > self.done;
        match is_erase {
            true => self.erasing.get(&block).is_some_and(waits),
            // What is not in a checkpoint is looked for when the directory is opened: it must not be too much.
            false => self.programmed >= self.tuning.image_units && self.done < self.given,
        }
    }

    /// The erase ends.
    pub(super) fn end_erase(&mut self, block: u32, state: &Block) {
        self.erasing.remove(&block);
        self.note(block, state);
    }

    /// Wants everything durable that was written and noted until now. Gives the job after which it is.
    pub(super) fn want_sync(&mut self) -> u64 {
        if self.is_dirty || !self.pending.is_empty() {
            self.wanted = self.given + 1;
            return self.wanted;
        }
        self.given
    }

    /// Whether a job is done.
    pub(super) fn is_done(&self, job: u64) -> bool {
        self.done >= job
    }

    /// Learns what the thread has done, and gives out a job if one is wanted and none is under way. `table` says what is
    /// known of every superblock.
    pub(super) fn go_on(&mut self, table: impl FnOnce() -> Table) {
        if let Runner::Thread(worker) = &self.runner {
            self.done = self.before_thread + worker.done();
            if let Some(error) = worker.error() {
                self.fail("the directory", &error);
            }
        }
        if self.wanted <= self.given || self.done < self.given || self.error.borrow().is_some() {
            return;
        }
        let table = self.is_image_due().then(table);
        self.give(table.map(|table| (table, false)));
    }

    /// Gives out a job; with a checkpoint, if there is a table for it, and whether the drive ends with it.
    fn give(&mut self, image: Option<(Table, bool)>) {
        if !self.pending.is_empty() {
            self.note_change(&Change::Order(self.order));
        }
        let pending = std::mem::take(&mut self.pending);
        let mut job = Job {
            is_dirty: std::mem::take(&mut self.is_dirty),
            clear: std::mem::take(&mut self.clear),
            ..Job::default()
        };
        match image {
            Some((Table { blocks, torn }, is_clean)) => {
                (self.number, self.offset, self.programmed) = (self.number + 1, 0, 0);
                let (number, epoch, calendar_ns) = (self.number, self.epoch, self.calendar_ns);
                let (system, order) = (self.system.clone(), self.order);
                job.image = Some(Image { number, epoch, is_clean, calendar_ns, order, blocks, torn, system });
            }
            None => {
                let offset = self.offset;
                self.offset += pending.len() as u64;
                job.journal = (offset, pending);
            }
        }
        self.given += 1;
        match self.runner.run(job) {
            Ok(Ran::Done) => self.done = self.given,
            Ok(Ran::Soon) => {}
            Err(error) => self.fail("the directory", &error),
        }
    }

    /// From now on a thread does what takes the wall's time, and reports through `inbox`.
    pub(super) fn begin_thread(&mut self, inbox: &Inbox) -> io::Result<()> {
        self.before_thread = self.given;
        self.runner.begin_thread(inbox)
    }

    /// Everything that waits for a job is told now that those up to now are done.
    pub(crate) fn tell(&mut self) {
        self.told = self.done;
    }

    /// Whether a thread works on a job, or the end of one has not been told.
    pub(crate) fn awaits_thread(&self) -> bool {
        matches!(self.runner, Runner::Thread(_)) && self.told < self.given && self.error.borrow().is_none()
    }

    /// Has the thread wake this task.
    pub(crate) fn report_to(&self, task: TaskId) {
        if let Runner::Thread(worker) = &self.runner {
            worker.report_to(task);
        }
    }

    /// Whether there is a thread.
    pub(crate) fn has_thread(&self) -> bool {
        matches!(self.runner, Runner::Thread(_))
    }

    /// Waits for the thread, which then ends.
    pub(super) fn end_thread(&mut self) {
        match self.runner.end_thread() {
            Ok(()) => self.done = self.given,
            Err(error) => self.fail("the directory", &error),
        }
    }

    /// Makes everything durable; the directory says that it was ended in order.
    pub(super) fn close(&mut self, table: Table, dump: Option<&Dump>, now_ns: u64) -> Result<(), Rc<str>> {
        self.end_thread();
        self.calendar_ns = now_ns;
        self.system.dump = dump.map(image::dump_bytes);
        if self.error().is_none() {
            self.give(Some((table, true)));
        }
        self.error().map_or(Ok(()), Err)
    }

    /// Writes a checkpoint.
    pub(super) fn write_table(&mut self, table: Table) {
        self.give(Some((table, false)));
    }

    /// The medium's calendar as it was found.
    pub(crate) fn calendar_ns(&self) -> u64 {
        self.calendar_ns
    }

    /// The roots of the system area as they were found.
    pub(crate) fn roots(&self) -> &[Option<Vec<u8>>; 2] {
        &self.system.roots
    }

    /// Its record.
    pub(crate) fn system_record(&self) -> Option<&[u8]> {
        self.system.record.as_deref()
    }

    /// The pages of its journal.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[u8]> {
        self.system.journal.iter().map(|page| &page[..])
    }

    fn fail(&self, what: &str, error: &io::Error) {
        self.refuse(format!("{what}: {error}"));
    }

    /// Nothing is durable any more, for this reason.
    pub(crate) fn refuse(&self, why: String) {
        self.error.borrow_mut().get_or_insert_with(|| why.into());
    }

    /// Whether nothing is durable any more.
    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    /// Why nothing is durable any more.
    pub(crate) fn error(&self) -> Option<Rc<str>> {
        self.error.borrow().clone()
    }
}

impl Cache {
    fn new() -> Self {
        Cache { pages: (0..CACHE_PAGES).map(|_| None).collect() }
    }

    /// Records that were written, from that of `first` on.
    fn put(&mut self, first: Ppa, records: &[Record]) {
        for (at, record) in (first.0..).zip(records) {
            let number = at / CACHE_RECORDS as u64;
            if let Some(page) = &mut self.pages[number as usize % CACHE_PAGES]
                && page.number == number
            {
                page.records[at as usize % CACHE_RECORDS] = *record;
            }
        }
    }

    /// Records that are cleared.
    fn forget(&mut self, first: u64, count: u64) {
        let numbers = first / CACHE_RECORDS as u64..=(first + count - 1) / CACHE_RECORDS as u64;
        for page in &mut self.pages {
            page.take_if(|page| numbers.contains(&page.number));
        }
    }
}

/// Which life of a superblock `live` is: what it began with is the first one.
fn generation(live: u32) -> u32 {
    if live == BASE { 0 } else { live }
}

/// What is noted of a superblock, of which `base` stripes hold what the drive began with.
fn entry(state: &Block, base: u32) -> Entry {
    Entry {
        programmed: state.programmed,
        erases: state.erases,
        generation: generation(state.live),
        base: if state.live == BASE { base } else { 0 },
        reads: state.reads,
        programmed_at_ns: state.programmed_at_ns,
        is_erasing: state.work == Work::Erase,
        is_one_bit: state.mode == Mode::OneBit,
        is_bad: state.is_bad,
    }
}

/// The next life of a superblock.
pub(super) fn next_life(live: u32) -> u32 {
    generation(live) + 1
}

/// What is known of every superblock.
pub(super) struct Table {
    blocks: Vec<Entry>,
    torn: Vec<(u32, u32)>,
}

impl Table {
    /// Of these, of which `base` tells how many stripes are there in closed form.
    pub(super) fn of(blocks: &[Block], torn: &BTreeSet<(u32, u32)>, base: impl Fn(BlockId) -> u32) -> Table {
        let blocks = (0..).zip(blocks).map(|(id, block)| entry(block, base(BlockId(id)))).collect();
        Table { blocks, torn: torn.iter().copied().collect() }
    }
}
