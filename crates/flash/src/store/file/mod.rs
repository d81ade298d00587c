//! Contents and spare areas in files, so that they outlive the process, and memory use depends on the working
//! set instead of the stored data.
//!
//! | file | contents |
//! |---|---|
//! | `format` | version, geometry and fixed parameters, as text |
//! | `data` | each unit's bytes at its offset; sparse: test patterns and zeroes take no space |
//! | `data-2` … | continues `data` above 15 TiB of flash; one file for each 8 TiB |
//! | `spare` | each unit's `record` of 64 bytes at its offset |
//! | `checkpoint` | an `image`: the state of every superblock, and the system area |
//! | `journal-N` | changes since checkpoint N other than programs |
//! | `mark` | how far these were durable after the last job |
//! | `lock` | locked by the process that uses the directory |
//!
//! A program writes `data` and `spare` and no journal: its records carry the generation of their superblock,
//! and a stripe counts only if all of it is present. Everything else goes through jobs (see `disk`), which
//! keep the order: *nothing durable depends on something that is not*. An erase clears nothing before
//! everything programmed until then is durable and the erase itself is recorded, and it ends only then. So
//! the new copies of units that garbage collection has moved are durable before the old ones go.
//!
//! Opening reads the checkpoint and the journal, and searches for stripes that were programmed since. These
//! count up to the first missing one, in the order of programming: firmware finds the array as it was at an
//! instant, and no later stripe refers to an earlier one that is lost. The result is written to a new
//! checkpoint. Stripes that were left out never reappear, since their records are of an earlier start
//! (`epoch`).
//!
//! A file that fails (no space, a broken disk) ends the drive: nothing is durable any more, and
//! [`Flash::failed`](crate::Flash::failed) returns the reason.

mod bytes;
mod check;
pub mod damage;
mod disk;
mod files;
mod format;
mod image;
mod journal;
mod mark;
mod open;
mod overlay;
mod parts;
mod real;
mod record;
mod simulated;
mod tuning;

pub use check::{Check, Finding, check};
pub use files::{File, Files};
pub use format::{Format, FormatError};
pub use open::{OpenError, OpenReport, Summary, look};
pub use overlay::Overlay;
pub use real::{Directory, DirectoryError};
pub use simulated::SimulatedFiles;
pub use tuning::Tuning;

pub(super) use open::{RecoveredBlock, open};

use super::block::{BASE, Block, OngoingChange};
use super::content::{Batch, Dump, Spare};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::timing::Mode;
use byteway_clock::{Inbox, TaskId};
use byteway_content::UnitBytes;
use byteway_content::{Content, UNIT_BYTES};
use disk::{Job, Ran, Runner};
use image::{Entry, Image, System};
use journal::{Change, SystemChange};
use mark::Mark;
use record::{Origin, RECORD_BYTES, Record};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use zerocopy::{FromZeros, IntoBytes};

/// Contents of an array in files.
pub(crate) struct FileContents {
    geometry: Geometry,
    data: Arc<dyn File>,
    spare: Arc<dyn File>,
    epoch: u32,
    tuning: Tuning,
    cache: RefCell<Cache>,
    system: System,
    /// The medium's calendar when last updated.
    calendar_ns: u64,
    /// Number of the current checkpoint and journal.
    number: u64,
    offset: u64,
    /// Journal bytes for the next job.
    pending: Vec<u8>,
    clear: Vec<[(u64, u64); 2]>,
    is_dirty: bool,
    /// Stripes programmed in this start.
    order: u64,
    /// Units programmed since the last checkpoint was started.
    programmed: u32,
    /// Stripes that neither checkpoint nor journal counts, by superblock and in all: the next open searches for
    /// them.
    unrecorded: Vec<u32>,
    unrecorded_total: u64,
    /// Numbers of the last job submitted, the last completed, and the last requested.
    submitted: u64,
    done: u64,
    requested: u64,
    /// Last job whose completion was reported to its waiters.
    reported: u64,
    /// Superblocks whose erase must not end before this job is done.
    erasing: BTreeMap<u32, u64>,
    runner: Runner,
    /// Jobs done before the thread was started, which it does not count.
    before_thread: u64,
    error: RefCell<Option<Rc<str>>>,
    /// Records of a stripe, reused.
    records: Vec<Record>,
    bytes: Vec<u8>,
}

/// Cached spare records, in pages of 64.
struct Cache {
    pages: Vec<Option<CachePage>>,
}

struct CachePage {
    number: u64,
    records: Box<[Record; CACHE_RECORDS]>,
}

const CACHE_RECORDS: usize = 64;
/// Pages of 4 KiB in the cache.
const CACHE_PAGES: usize = 4096;

impl FileContents {
    /// The record of a unit; None if unreadable.
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

    /// The record of a unit, if it belongs to this generation of its superblock.
    fn record_of(&self, ppa: Ppa, generation: u32) -> Option<Record> {
        let record = self.record(ppa)?;
        (record.is_whole(ppa) && record.origin().generation == generation).then_some(record)
    }

    /// The spare area of a unit.
    pub(super) fn spare(&self, ppa: Ppa, live: u32) -> Option<Spare> {
        self.record_of(ppa, generation(live)).map(|record| record.spare())
    }

    /// The number of the stripe from `first` on, according to any intact record of it.
    pub(super) fn number(&self, first: Ppa, live: u32) -> Option<u64> {
        let mut units = (first.0..first.0 + u64::from(self.geometry.units_per_stripe())).map(Ppa);
        let record = units.find_map(|ppa| self.record_of(ppa, generation(live)))?;
        Some(record.origin().number)
    }

    /// Content of a unit; `None` if it differs from what was written.
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
        self.unrecorded[self.geometry.block_of(first).0 as usize] += 1;
        self.unrecorded_total += 1;
        if self.is_image_due() {
            self.requested = self.requested.max(self.submitted + 1);
        }
    }

    fn is_image_due(&self) -> bool {
        self.programmed >= self.tuning.image_units
            || self.offset + self.pending.len() as u64 >= self.tuning.journal_bytes
    }

    /// Records the state of a superblock.
    pub(super) fn note(&mut self, block: u32, state: &Block) {
        let counted = std::mem::take(&mut self.unrecorded[block as usize]);
        self.unrecorded_total -= u64::from(counted);
        self.note_change(&Change::Block(block, entry(state, 0)));
    }

    /// Records that stripes from `first` to before `end` are torn.
    pub(super) fn note_torn(&mut self, block: u32, first: u32, end: u32) {
        self.note_change(&Change::Torn(block, first, end));
    }

    fn note_change(&mut self, change: &Change) {
        journal::write(&mut self.pending, self.number, self.offset, change);
    }

    /// Records a change of the system area.
    fn note_system(&mut self, change: SystemChange) {
        self.note_change(&Change::System(change.clone()));
        change.apply(&mut self.system);
    }

    /// Records the content of a root slot.
    pub(super) fn note_root(&mut self, slot: usize, root: Option<&[u8]>) {
        self.note_system(SystemChange::Root(slot as u8, root.map(<[u8]>::to_vec)));
    }

    /// Records the record of the system area.
    pub(super) fn note_record(&mut self, record: &[u8]) {
        self.note_system(SystemChange::Record(record.to_vec()));
    }

    /// Records a page appended to the system area's journal.
    pub(super) fn note_page(&mut self, page: &[u8]) {
        self.note_system(SystemChange::Page(page.to_vec()));
    }

    /// Records pages dropped from it.
    pub(super) fn note_cut(&mut self, pages: usize) {
        self.note_system(SystemChange::Cut(u32::try_from(pages).unwrap_or(u32::MAX)));
    }

    /// Starts an erase, which the superblock's state already shows. The old contents are cleared at the end
    /// of the next job.
    pub(super) fn erase(&mut self, block: u32, state: &Block) {
        self.note(block, state);
        let units = u64::from(self.geometry.units_per_block());
        let first = u64::from(block) * units;
        let range = |bytes: usize| (first * bytes as u64, units * bytes as u64);
        self.clear.push([range(UNIT_BYTES), range(RECORD_BYTES)]);
        self.cache.get_mut().forget(first, units);
        // The next job clears it, after syncing what is programmed now.
        self.requested = self.submitted + 1;
        self.erasing.insert(block, self.requested);
    }

    /// Whether an operation whose time is over must not end yet.
    pub(super) fn delays_end(&self, block: u32, is_erase: bool) -> bool {
        let waits = |job: &u64| *job > self.done;
        match is_erase {
            true => self.erasing.get(&block).is_some_and(waits),
            // Programs since a checkpoint are searched for at the next open, so their number must stay
            // bounded.
            false => self.programmed >= self.tuning.image_units && self.done < self.submitted,
        }
    }

    /// Ends an erase.
    pub(super) fn end_erase(&mut self, block: u32, state: &Block) {
        self.erasing.remove(&block);
        self.note(block, state);
    }

    /// Requests that everything written and recorded so far becomes durable. Returns the job after which it
    /// is.
    pub(super) fn request_sync(&mut self) -> u64 {
        if self.is_dirty || !self.pending.is_empty() {
            self.requested = self.submitted + 1;
            return self.requested;
        }
        self.submitted
    }

    /// Whether a job is done.
    pub(super) fn is_done(&self, job: u64) -> bool {
        self.done >= job
    }

    /// Collects the thread's completed jobs, and submits a job if one is requested and none is in flight.
    /// `table` builds the state of every superblock for a checkpoint.
    pub(super) fn collect_jobs(&mut self, table: impl FnOnce() -> Table) {
        if let Runner::Thread(worker) = &self.runner {
            self.done = self.before_thread + worker.done();
            if let Some(error) = worker.error() {
                self.fail("the directory", &error);
            }
        }
        // One job in flight at a time, so that its order relative to later writes is known.
        if self.requested <= self.submitted || self.done < self.submitted || self.error.borrow().is_some() {
            return;
        }
        let table = self.is_image_due().then(table);
        self.submit_job(table.map(|table| (table, false)));
    }

    /// Submits a job; with a checkpoint if a table is submitted, marked clean if the drive ends with it.
    fn submit_job(&mut self, image: Option<(Table, bool)>) {
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
                self.unrecorded.fill(0);
                self.unrecorded_total = 0;
            }
            None => {
                let offset = self.offset;
                self.offset += pending.len() as u64;
                job.journal = (offset, pending);
            }
        }
        match self.mark() {
            Ok(mark) => job.mark = mark,
            Err(error) => return self.fail("the directory", &error),
        }
        self.submitted += 1;
        match self.runner.run(job) {
            Ok(Ran::Done) => self.done = self.submitted,
            Ok(Ran::Soon) => {}
            Err(error) => self.fail("the directory", &error),
        }
    }

    /// What is durable after the job that is submitted now.
    fn mark(&self) -> io::Result<Mark> {
        Ok(Mark {
            number: self.number,
            journal_bytes: self.offset,
            order: self.order,
            stripes: self.unrecorded_total,
            data_bytes: self.data.bytes()?,
            spare_bytes: self.spare.bytes()?,
        })
    }

    /// Starts the thread for the file jobs, which reports through `inbox`.
    pub(super) fn begin_thread(&mut self, inbox: &Inbox) -> io::Result<()> {
        self.before_thread = self.submitted;
        self.runner.begin_thread(inbox)
    }

    /// Marks the completed jobs as reported to their waiters.
    pub(crate) fn mark_reported(&mut self) {
        self.reported = self.done;
    }

    /// Whether the thread has a job in flight, or a completion has not been reported.
    pub(crate) fn awaits_thread(&self) -> bool {
        matches!(self.runner, Runner::Thread(_))
            && self.reported < self.submitted
            && self.error.borrow().is_none()
    }

    /// Sets the task that the thread wakes.
    pub(crate) fn report_to(&self, task: TaskId) {
        if let Runner::Thread(worker) = &self.runner {
            worker.report_to(task);
        }
    }

    /// Whether there is a thread.
    pub(crate) fn has_thread(&self) -> bool {
        matches!(self.runner, Runner::Thread(_))
    }

    /// Waits for the thread's jobs, and ends it.
    pub(super) fn end_thread(&mut self) {
        match self.runner.end_thread() {
            Ok(()) => self.done = self.submitted,
            Err(error) => self.fail("the directory", &error),
        }
    }

    /// Makes everything durable, and marks the directory as cleanly closed.
    ///
    /// # Errors
    /// The reason, if a file has failed.
    pub(super) fn close(&mut self, table: Table, dump: Option<&Dump>, now_ns: u64) -> Result<(), Rc<str>> {
        self.end_thread();
        self.calendar_ns = now_ns;
        self.system.dump = dump.map(image::dump_bytes);
        if self.error().is_none() {
            self.submit_job(Some((table, true)));
        }
        self.error().map_or(Ok(()), Err)
    }

    /// Writes a checkpoint.
    pub(super) fn write_table(&mut self, table: Table) {
        self.submit_job(Some((table, false)));
    }

    /// The medium's calendar as of the open.
    pub(crate) fn calendar_ns(&self) -> u64 {
        self.calendar_ns
    }

    /// The root slots as of the open.
    pub(crate) fn roots(&self) -> &[Option<Vec<u8>>; 2] {
        &self.system.roots
    }

    /// The record as of the open.
    pub(crate) fn system_record(&self) -> Option<&[u8]> {
        self.system.record.as_deref()
    }

    /// The pages of the journal as of the open.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &[u8]> {
        self.system.journal.iter().map(|page| &page[..])
    }

    fn fail(&self, what: &str, error: &io::Error) {
        self.refuse(format!("{what}: {error}"));
    }

    /// Declares the files failed, for this reason.
    pub(crate) fn refuse(&self, why: String) {
        self.error.borrow_mut().get_or_insert_with(|| why.into());
    }

    /// Whether a file has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    /// The reason why a file has failed.
    pub(crate) fn error(&self) -> Option<Rc<str>> {
        self.error.borrow().clone()
    }
}

impl Cache {
    fn new() -> Self {
        Cache { pages: (0..CACHE_PAGES).map(|_| None).collect() }
    }

    /// Updates cached records from that of `first` on.
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

    /// Clears cached records.
    fn forget(&mut self, first: u64, count: u64) {
        let numbers = first / CACHE_RECORDS as u64..=(first + count - 1) / CACHE_RECORDS as u64;
        for page in &mut self.pages {
            page.take_if(|page| numbers.contains(&page.number));
        }
    }
}

/// Generation of a superblock in state `live`: 0 in the base state.
fn generation(live: u32) -> u32 {
    if live == BASE { 0 } else { live }
}

/// The recorded state of a superblock, of which `base` stripes are in the base state.
fn entry(state: &Block, base: u32) -> Entry {
    Entry {
        programmed: state.programmed,
        erases: state.erases,
        generation: generation(state.live),
        base: if state.live == BASE { base } else { 0 },
        reads: state.reads,
        programmed_at_ns: state.programmed_at_ns,
        is_erasing: state.ongoing == OngoingChange::Erase,
        is_one_bit: state.mode == Mode::OneBit,
        is_bad: state.is_bad,
    }
}

/// The generation after `live`.
pub(super) fn next_generation(live: u32) -> u32 {
    generation(live) + 1
}

/// States of all superblocks, for a checkpoint.
pub(super) struct Table {
    blocks: Vec<Entry>,
    torn: Vec<(u32, u32)>,
}

impl Table {
    /// Built from `blocks`; `base` returns the stripes in closed form.
    pub(super) fn of(blocks: &[Block], torn: &BTreeSet<(u32, u32)>, base: impl Fn(BlockId) -> u32) -> Table {
        let blocks = (0..).zip(blocks).map(|(id, block)| entry(block, base(BlockId(id)))).collect();
        Table { blocks, torn: torn.iter().copied().collect() }
    }
}
