//! The flash array: accepts operations and reports their results. `sequencer` moves its dies.

use crate::channel::Channel;
use crate::config::FlashConfig;
use crate::die::{AllDies, Die, Occupancy, Operation, Verb};
use crate::failure::FailureModel;
use crate::fault::FaultPlan;
use crate::geometry::{BlockId, Geometry, Ppa, units_in};
use crate::medium::{Medium, System};
use crate::policy::{Schedule, Suspend};
use crate::priority::Priority;
use crate::sequencer::Reporter;
use crate::store::Outdated;
use crate::store::{BaseContent, Batch, Blank, Spare, Store};
use crate::ticket::{Desk, Outcome, Ticket};
use crate::timing::{Mode, Timing};
use byteway_clock::random::{Rng, Stream as Random};
use byteway_clock::{Clock, Delay, Handler, Notify};
use byteway_content::{Content, UNIT_BYTES};
use byteway_policy::{Asked, Kind, Named};
use std::cell::RefCell;
use std::fmt;
use std::future;
use std::rc::{Rc, Weak};
use std::time::Duration;

byteway_clock::counters! {
    /// Counts of operations by [`Priority`]. A failed operation counts only in `failed` and in the counters of
    /// failures.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        /// Successful read operations.
        pub reads: [u64; Priority::COUNT],
        /// Successful program operations.
        pub programs: [u64; Priority::COUNT],
        /// Units delivered by reads.
        pub units_read: [u64; Priority::COUNT],
        /// Host reads from superblocks in one-bit mode, in units.
        pub units_read_one_bit: u64,
        /// Units programmed, padding included.
        pub units_programmed: [u64; Priority::COUNT],
        /// Superblocks erased.
        pub erases: u64,
        /// Failed operations, for whatever reason.
        pub failed: u64,
        /// Suspensions of programs and erases.
        pub suspends: u64,
        /// Sensings of reads beyond the first.
        pub retries: u64,
        /// Reads that needed retries, by number of retries: one, two and so on; the last entry counts that many
        /// or more.
        pub reads_retried: [u64; Counters::RETRY_BUCKETS],
        /// Units that reads could not deliver: torn, or with more bit errors than the code corrects.
        pub units_uncorrectable: u64,
        /// Programs that started and failed.
        pub failed_programs: u64,
        /// Erases that started and failed.
        pub failed_erases: u64,
    }
}

impl Counters {
    /// Entries of `reads_retried`.
    pub const RETRY_BUCKETS: usize = 32;
}

pub(crate) struct Array {
    pub(crate) dies: Vec<Die>,
    pub(crate) all_dies: AllDies,
    pub(crate) channels: Vec<Channel>,
    pub(crate) store: Store,
    /// Sources of failures; None if nothing can fail.
    pub(crate) failures: Option<FailureModel>,
    /// Policies that are to be asked: None where a die does itself what its policy says.
    pub(crate) schedule: Option<Box<Asked<dyn Schedule, Random>>>,
    pub(crate) suspend: Option<Box<Asked<dyn Suspend, Random>>>,
    system: System,
    /// The power is off: the store has been moved out, and the rest of the state is meaningless.
    is_off: bool,
    pub(crate) batches: Vec<Batch>,
    pub(crate) counters: Counters,
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    rng: Rng,
    /// Seed of the draws of [`Timing::read_quantiles`].
    pub(crate) sense_seed: u64,
    /// The medium's calendar at power-on, in nanoseconds.
    powered_on_ns: u64,
    /// A sync has ended, or a file has failed.
    pub(crate) synced: Notify,
    pub(crate) desk: Desk,
    /// Moves the die of an index.
    pub(crate) dies: Handler,
    pub(crate) array: RefCell<Array>,
}

/// A policy, if it is to be asked, with random numbers of its own: `stream` names these.
fn asked<P: Kind + ?Sized>(
    (kind, stream): (&'static str, &str),
    named: &Named<P>,
    rng: &Rng,
) -> Option<Box<Asked<P, Random>>> {
    (!named.is_default()).then(|| Box::new(Asked::new(kind, named, rng.stream(stream))))
}

/// A drive's flash array. Cheap to clone.
///
/// Operations are submitted under a [`Ticket`] and wait in the queue of their die. They belong to the array
/// and cannot be cancelled. A program must be of the next stripe of its superblock, otherwise it fails; a
/// superblock must be erased before its first program. Operations of one superblock keep their order only
/// within a [`Priority`], but an erase never overtakes a read submitted before it.
#[derive(Clone)]
pub struct Flash(Rc<Inner>);

impl Flash {
    /// An array of this medium, powered on. `config` may be just a [`Timing`].
    ///
    /// # Panics
    /// If `geometry` or `config` is invalid, or the medium has another geometry: values from a file are
    /// validated where they are read.
    pub fn new(clock: &Clock, geometry: Geometry, config: impl Into<FlashConfig>, medium: Medium) -> Flash {
        let config = config.into();
        geometry.validate().expect("a geometry is validated where it is read");
        config.validate().expect("a flash's config is validated where it is read");
        assert_eq!(geometry, *medium.geometry(), "a medium keeps its shape");
        let FlashConfig { timing, reliability, faults, rng } = config;
        let Medium { mut store, system, calendar_ns: powered_on_ns, .. } = medium;
        store.set_wordline(timing.stripes_per_wordline());
        let sense_seed = rng.stream("sense").next_u64();
        let mut array = Array {
            dies: (0..geometry.dies()).map(|_| Die::new()).collect(),
            all_dies: AllDies::default(),
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            store,
            failures: FailureModel::new(reliability, faults, &rng, geometry.dies()),
            schedule: asked(("schedule policy", "schedule"), &timing.schedule, &rng),
            suspend: asked(("suspend policy", "suspend"), &timing.suspend_policy, &rng),
            system,
            is_off: false,
            batches: Vec::new(),
            counters: Counters::default(),
        };
        array.prepare_failures(&geometry);
        let (synced, desk, array) = (Notify::new(clock), Desk::new(clock), RefCell::new(array));
        let flash = Flash(Rc::new_cyclic(|inner: &Weak<Inner>| {
            let inner = inner.clone();
            let dies = clock.handle(move |die| {
                if let Some(inner) = inner.upgrade() {
                    inner.array.borrow_mut().advance(&inner, die);
                }
            });
            let clock = clock.clone();
            Inner { clock, geometry, timing, rng, sense_seed, powered_on_ns, synced, desk, dies, array }
        }));
        if let Some(files) = flash.0.array.borrow().store.files().filter(|files| files.has_thread()) {
            files.report_to(clock.spawn("files", Reporter(Rc::downgrade(&flash.0))));
        }
        flash
    }

    /// Cuts the power. Operations in flight are torn, as `store` documents; with `protected`, programs that
    /// have started still complete, suspended ones included. Returns the persistent medium. Operations
    /// submitted from now on never complete, so tasks that wait for the array must be killed as well.
    pub fn power_off(&self, protected: bool) -> Medium {
        let inner = &*self.0;
        let now_ns = inner.calendar_ns();
        let mut array = inner.array.borrow_mut();
        array.is_off = true;
        let array = &mut *array;
        inner.clock.remove(inner.dies);
        for die in &mut array.dies {
            die.stop(inner.clock.now(), &mut array.all_dies);
            for (operation, fails) in die.take_active() {
                let Operation { verb: Verb::Program(mut batch), block, .. } = operation else { continue };
                match (protected, fails) {
                    (false, _) => {}
                    (true, false) => array.store.end_program(block, &mut batch, now_ns),
                    (true, true) => array.store.fail_program(block, now_ns),
                }
            }
        }
        let empty = Medium::new(inner.geometry, Rc::new(Blank));
        let mut store = std::mem::replace(&mut array.store, empty.store);
        store.cut(now_ns);
        store.end_thread();
        Medium::of(store, std::mem::take(&mut array.system), now_ns)
    }

    /// Replaces the fault plan, and restarts its counts.
    ///
    /// # Panics
    /// If the plan is invalid.
    pub fn inject(&self, plan: FaultPlan) {
        plan.validate().expect("a plan of faults is validated where it is made");
        let inner = &*self.0;
        let mut array = inner.array.borrow_mut();
        let failures = array.failures.take();
        array.failures = FailureModel::inject(failures, plan, &inner.rng, inner.geometry.dies());
        array.prepare_failures(&inner.geometry);
    }

    /// Geometry of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.0.geometry
    }

    /// Whether the array is as manufactured: in its base state, with an empty system area.
    pub fn is_new(&self) -> bool {
        let array = self.0.array.borrow();
        array.store.is_untouched() && array.system.is_empty()
    }

    /// Contents of the array at the start of the run.
    pub fn base(&self) -> Rc<dyn BaseContent> {
        self.0.array.borrow().store.base()
    }

    /// What a policy of its dies did wrong, if one did. From then on dies decide themselves, and no figure is one of that policy.
    pub fn policy_fault(&self) -> Option<String> {
        let array = self.0.array.borrow();
        let of_schedule = array.schedule.as_ref().and_then(|asked| asked.fault());
        let of_suspend = || array.suspend.as_ref().and_then(|asked| asked.fault());
        of_schedule.or_else(of_suspend).map(str::to_owned)
    }

    /// Timing of the array.
    pub fn timing(&self) -> &Timing {
        &self.0.timing
    }

    /// The clock of this array.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// A new ticket.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        self.0.desk.ticket()
    }

    /// Submits a read of units of one stripe: bit i of `mask` selects the i-th unit of the stripe that
    /// contains `first`. All planes sense together, once; then the units move over the channel. Returns the
    /// index of the first unit in the ticket's contents; the others follow in order.
    pub fn submit_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        self.submit_reading(first, mask, false, priority, ticket)
    }

    /// Like [`submit_read`](Flash::submit_read), for a caller who knows the contents, as in a base state. The
    /// ticket records only which units are unreadable, and holds zeroes instead of contents.
    pub fn submit_known_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        self.submit_reading(first, mask, true, priority, ticket)
    }

    fn submit_reading(
        &self,
        first: Ppa,
        mask: u64,
        is_known: bool,
        priority: Priority,
        ticket: &Ticket,
    ) -> usize {
        let geometry = &self.0.geometry;
        let valid = first.0 < geometry.total_units() && mask != 0 && mask & !geometry.full_mask() == 0;
        let block = geometry.block_of(first);
        let stripe = geometry.stripe_of(first);
        self.submit(valid, Verb::Read { mask, is_known }, block, stripe, priority, ticket)
    }

    /// Reads a unit within the call if modelled waits take no time, the die is idle, nothing in the array can
    /// fail, and the unit is intact. Otherwise returns None, with nothing changed, and the caller submits a
    /// read.
    pub fn read_at_once(&self, ppa: Ppa, priority: Priority) -> Option<Content> {
        let inner = &*self.0;
        let geometry = &inner.geometry;
        if !inner.clock.is_immediate() || inner.clock.is_traced() || ppa.0 >= geometry.total_units() {
            return None;
        }
        let (block, stripe) = (geometry.block_of(ppa), geometry.stripe_of(ppa));
        let mut array = inner.array.borrow_mut();
        let array = &mut *array;
        let die = &array.dies[geometry.die_of_block(block) as usize];
        if array.is_off || array.failures.is_some() || !die.is_at_rest() || array.store.is_torn(block, stripe)
        {
            return None;
        }
        let mut read = Content::Zero;
        if array.store.read(block, stripe, 1 << geometry.unit_of_stripe(ppa), |content| read = content) != 0 {
            return None;
        }
        array.store.sensed(block, 1);
        let class = priority as usize;
        array.counters.reads[class] += 1;
        array.counters.units_read[class] += 1;
        if priority == Priority::HostRead && array.store.mode(block) == Mode::OneBit {
            array.counters.units_read_one_bit += 1;
        }
        Some(read)
    }

    /// Submits a program of a stripe. A batch shorter than the stripe is padded. `batch` comes from
    /// [`take_batch`](Flash::take_batch), and returns there.
    pub fn submit_program(
        &self,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        let valid = block.0 < self.0.geometry.total_blocks();
        self.submit(valid, Verb::Program(batch), block, stripe, priority, ticket);
    }

    /// Submits an erase of a superblock. Its contents are lost when the erase starts.
    pub fn submit_erase(&self, block: BlockId, priority: Priority, ticket: &Ticket) {
        let valid = block.0 < self.0.geometry.total_blocks();
        self.submit(valid, Verb::Erase, block, 0, priority, ticket);
    }

    /// Submits a copy within the array (copyback): readable units are programmed elsewhere without leaving
    /// it. `sources` has the address of each unit of `batch`; the batch provides the spare areas, and its
    /// contents are ignored. If a source is unreadable, the copy fails and nothing is programmed.
    pub fn submit_move(
        &self,
        sources: Vec<Ppa>,
        block: BlockId,
        stripe: u32,
        mut batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        let inner = &*self.0;
        debug_assert!(inner.desk.has_issued(ticket), "a ticket belongs to the array that it is used with");
        debug_assert_eq!(sources.len(), batch.units.len(), "every unit of a copy has a source address");
        let index = ticket.index;
        inner.desk.tickets(|tickets| tickets.add(index, 0));
        let flash = self.clone();
        inner.clock.spawn("move", async move {
            let mut contents = Vec::with_capacity(sources.len());
            let mut outcome = flash.read(&sources, priority, &mut contents).await;
            if !outcome.failed {
                batch.units.iter_mut().zip(contents).for_each(|(unit, content)| unit.1 = content);
                let read = outcome;
                outcome = flash.program(block, stripe, batch, priority).await;
                outcome.queued += read.queued;
                outcome.cell += read.cell;
                outcome.channel += read.channel;
            }
            flash.0.desk.complete(index, outcome);
        });
    }

    fn submit(
        &self,
        valid: bool,
        verb: Verb,
        block: BlockId,
        stripe: u32,
        priority: Priority,
        ticket: &Ticket,
    ) -> usize {
        let inner = &*self.0;
        debug_assert!(inner.desk.has_issued(ticket), "a ticket belongs to the array that it is used with");
        let mut array = inner.array.borrow_mut();
        let units = match &verb {
            Verb::Read { mask, .. } => units_in(*mask) as usize,
            _ => 0,
        };
        let at = inner.desk.tickets(|tickets| tickets.add(ticket.index, units));
        let submitted = inner.clock.now();
        let ios = inner.clock.hold_ios();
        let index = inner.geometry.die_of_block(block);
        let before =
            array.dies.get(index as usize).map_or_else(Occupancy::default, |die| die.occupancy(submitted));
        let (ticket, place) = (ticket.index, at as u32);
        let operation =
            Operation { verb, block, stripe, ticket, at: place, priority, submitted, before, ios };
        if array.is_off {
            return at;
        }
        if !valid {
            array.fail(inner, operation);
            return at;
        }
        array.store.warm(block);
        let die = &mut array.dies[index as usize];
        die.queue.push(priority as usize, operation);
        if die.is_open() || (priority.is_awaited() && array.suspend_for_read(inner, index)) {
            array.advance(inner, index);
        }
        at
    }

    /// An empty batch, which reuses the memory of an earlier one.
    pub fn take_batch(&self) -> Batch {
        let batch = self.0.array.borrow_mut().batches.pop();
        let units = || Vec::with_capacity(self.0.geometry.units_per_stripe() as usize);
        batch.unwrap_or_else(|| Batch { number: 0, units: units() })
    }

    /// Reads units, waits, and appends their contents to `out` in the order of `ppas`. Consecutive units of
    /// one stripe in rising order are read together.
    pub async fn read(&self, ppas: &[Ppa], priority: Priority, out: &mut Vec<Content>) -> Outcome {
        let ticket = self.ticket();
        let geometry = &self.0.geometry;
        let mut ppas = ppas.iter().copied().peekable();
        while let Some(first) = ppas.next() {
            let start = geometry.stripe_start(first);
            let mut mask = 1u64 << geometry.unit_of_stripe(first);
            while let Some(next) = ppas.next_if(|next| {
                geometry.stripe_start(*next) == start && mask >> geometry.unit_of_stripe(*next) == 0
            }) {
                mask |= 1 << geometry.unit_of_stripe(next);
            }
            self.submit_read(first, mask, priority, &ticket);
        }
        let outcome = ticket.wait().await;
        ticket.take_contents(out);
        outcome
    }

    /// Programs a stripe and waits.
    pub async fn program(&self, block: BlockId, stripe: u32, batch: Batch, priority: Priority) -> Outcome {
        let ticket = self.ticket();
        self.submit_program(block, stripe, batch, priority, &ticket);
        ticket.wait().await
    }

    /// Erases a superblock with the priority of garbage collection, and waits.
    pub async fn erase(&self, block: BlockId) -> Outcome {
        let ticket = self.ticket();
        self.submit_erase(block, Priority::Collector, &ticket);
        ticket.wait().await
    }

    /// Whether contents are in memory and can be discarded.
    pub fn can_forget(&self) -> bool {
        self.0.array.borrow().store.can_forget()
    }

    /// Discards the bytes of these units, each of which holds an outdated version of its logical unit. A unit
    /// that has been reprogrammed meanwhile is left alone. A later read finds the unit unreadable; its spare
    /// area stays.
    pub fn forget(&self, units: &mut Vec<Outdated>) {
        if !units.is_empty() {
            let mut array = self.0.array.borrow_mut();
            units.drain(..).for_each(|unit| array.store.forget(unit));
        }
    }

    /// Content of a unit at this instant, without cost: for models of recovery, and for tests. A read's
    /// result is in its ticket. A unit that is not programmed, or beyond the array, reads as zero.
    pub fn content(&self, ppa: Ppa) -> Content {
        if ppa.0 >= self.0.geometry.total_units() {
            return Content::Zero;
        }
        self.0.array.borrow().store.content(ppa)
    }

    /// Like [`content`](Flash::content); None if the unit is not intact, as in a damaged file.
    pub fn intact(&self, ppa: Ppa) -> Option<Content> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.intact(ppa)
    }

    /// The logical unit that a unit was programmed for, from its spare area, at this instant and without
    /// cost. None for padding, a unit that is not programmed, or an address beyond the array.
    pub fn oob(&self, ppa: Ppa) -> Option<u64> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.lpa(ppa)
    }

    /// The spare area of a unit, at this instant and without cost: a read of a page delivers it with the
    /// page. None for padding, for a unit that is unprogrammed or unreadable, and beyond the array.
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.spare(ppa)
    }

    /// The spare areas of consecutive units of a stripe from `first` on, likewise; [`Spare::PADDING`] where
    /// there is none.
    ///
    /// # Panics
    /// If the units are not all of one stripe of the array.
    pub fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        let geometry = &self.0.geometry;
        let after = geometry.unit_of_stripe(first) as usize + spares.len();
        assert!(first.0 < geometry.total_units() && after <= geometry.units_per_stripe() as usize);
        self.0.array.borrow().store.spares(first, spares);
    }

    /// Whether the spare area of a programmed unit is damaged, which happens only in files: which logical unit
    /// it holds is unknown then.
    ///
    /// # Panics
    /// If the unit is not of the array.
    pub fn is_nameless(&self, ppa: Ppa) -> bool {
        assert!(ppa.0 < self.0.geometry.total_units());
        self.0.array.borrow().store.is_nameless(ppa)
    }

    /// The number in the spare area of a stripe ([`Batch::number`]), likewise. None if unreadable.
    pub fn stripe_number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        self.0.array.borrow().store.number(block, stripe)
    }

    /// Whether an erase of the superblock was cut off or failed: it must be erased before it can be
    /// programmed.
    pub fn is_unstable(&self, block: BlockId) -> bool {
        self.0.array.borrow().store.is_unstable(block)
    }

    /// Marks a superblock as bad, permanently. Such a mark is a few bits programmed repeatedly so that any
    /// cell holds them; the time for it is not modelled.
    pub fn mark_bad(&self, block: BlockId) {
        if block.0 < self.0.geometry.total_blocks() {
            self.0.array.borrow_mut().store.mark_bad(block);
        }
    }

    /// Whether a superblock is marked as bad. The array operates on it as before; the mark is for firmware.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.0.array.borrow().store.is_bad(block)
    }

    /// Whether operations can fail: there is an error model or a fault plan.
    pub fn can_fail(&self) -> bool {
        self.0.array.borrow().failures.is_some()
    }

    /// Reads root slot 0 or 1; `None` if it is empty, or if a power cut interrupted its write. Takes the time
    /// of a die read of that length.
    pub async fn read_root(&self, slot: usize) -> Option<Rc<[u8]>> {
        let bytes = self.0.array.borrow().system.root(slot);
        let stripes = self.system_stripes(bytes.as_ref().map_or(0, |bytes| bytes.len()));
        self.0.clock.sleep(self.0.timing.read_time(0, false, Mode::Full) * stripes).await;
        bytes
    }

    /// Writes root slot 0 or 1. The slot is empty from the call on, and holds `bytes` once this ends. Takes
    /// an erase, and the programs of the pages that `bytes` fills.
    pub async fn write_root(&self, slot: usize, bytes: Rc<[u8]>) {
        self.0.array.borrow_mut().set_root(slot, None);
        let programs = self.0.timing.program[0] * self.system_stripes(bytes.len());
        self.0.clock.sleep(self.0.timing.erase + programs).await;
        self.0.array.borrow_mut().set_root(slot, Some(bytes));
        self.sync().await;
    }

    /// Replaces the record atomically: it keeps its old bytes until the call ends. For small data that seldom
    /// change.
    pub async fn write_record(&self, bytes: Rc<[u8]>) {
        self.0.clock.sleep(self.0.timing.program[0] * self.system_stripes(bytes.len())).await;
        {
            let mut array = self.0.array.borrow_mut();
            array.store.note_record(&bytes);
            array.system.set_record(bytes);
        }
        self.sync().await;
    }

    /// The record, if one was written.
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.array.borrow().system.record()
    }

    /// Waits until everything that has ended so far is durable beyond a crash of the process and of the
    /// machine. Takes no modelled time, and does nothing if the medium is not kept in files.
    pub async fn sync(&self) {
        let job = {
            let mut array = self.0.array.borrow_mut();
            (!array.is_off).then(|| array.store.request_sync())
        };
        let Some(job) = job else { return future::pending().await };
        while !self.0.array.borrow().store.is_synced(job) {
            self.0.synced.notified().await;
        }
    }

    /// Whether the file thread has work in flight or results to report: a sync, for which an erase may have
    /// to wait.
    pub fn awaits_files(&self) -> bool {
        self.0.array.borrow().store.files().is_some_and(|files| files.awaits_thread())
    }

    /// Declares the data in files unusable by firmware: the array counts as failed from now on, for this
    /// reason.
    pub fn refuse(&self, why: String) {
        if let Some(files) = self.0.array.borrow().store.files() {
            files.refuse(why);
        }
        self.0.synced.notify_all();
    }

    /// Waits until a file fails, and returns the reason. Nothing is durable from then on, and the drive must
    /// stop.
    pub async fn failed(&self) -> Rc<str> {
        loop {
            let error = self.0.array.borrow().store.files().and_then(|files| files.error());
            match error {
                Some(error) => return error,
                None => self.0.synced.notified().await,
            }
        }
    }

    /// Appends a page to the journal of the system area. The page is durable as a whole once this ends, and
    /// absent before. One at a time: concurrent pages may land in any order.
    pub async fn append_journal(&self, page: Rc<[u8]>) {
        self.0.clock.sleep(self.0.timing.program[0] * self.system_stripes(page.len())).await;
        {
            let mut array = self.0.array.borrow_mut();
            array.store.note_page(&page);
            array.system.append_journal(page);
        }
        self.sync().await;
    }

    /// Reads the pages of the journal, oldest first. Takes the time of a die read of that length.
    pub async fn read_journal(&self) -> Vec<Rc<[u8]>> {
        let pages: Vec<_> = self.0.array.borrow().system.journal().cloned().collect();
        let bytes = pages.iter().map(|page| page.len()).sum();
        if bytes > 0 {
            self.0
                .clock
                .sleep(self.0.timing.read_time(0, false, Mode::Full) * self.system_stripes(bytes))
                .await;
        }
        pages
    }

    /// Drops the journal's first pages, which firmware no longer needs. Takes no time: the erase is not
    /// modelled.
    pub fn cut_journal(&self, pages: usize) {
        let mut array = self.0.array.borrow_mut();
        array.store.note_cut(pages);
        array.system.cut_journal(pages);
    }

    fn system_stripes(&self, bytes: usize) -> u64 {
        let stripe = self.0.geometry.units_per_stripe() as usize * UNIT_BYTES;
        bytes.div_ceil(stripe).max(1) as u64
    }

    /// Programmed stripes of a superblock, which is also the number of the next one.
    pub fn programmed_stripes(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.programmed(block)
    }

    /// Program/erase cycles of a superblock, those before the medium was made included.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.erases(block)
    }

    /// Program/erase cycles of a superblock since the medium was made, without those of [`Medium::wear_in`].
    pub fn erases_since_made(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.erases_since_made(block)
    }

    /// Calls `take` with the program/erase cycles of each superblock, in order of their numbers.
    pub fn each_erases(&self, take: impl FnMut(u32)) {
        self.0.array.borrow().store.each_erases().for_each(take);
    }

    /// Sensings of a superblock since its erase, or since the run began, which cause read disturb.
    pub fn reads_since_erase(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.reads(block)
    }

    /// Age of the medium, which advances while the power is off ([`Medium::rest`]).
    pub fn calendar(&self) -> Duration {
        Duration::from_nanos(self.0.calendar_ns())
    }

    /// Time, by the [`calendar`](Flash::calendar), at which the first stripe of a superblock was programmed
    /// after its erase: the start of retention loss. Zero in the base state; `None` if nothing is programmed.
    pub fn programmed_at(&self, block: BlockId) -> Option<Duration> {
        self.0.array.borrow().store.programmed_at_ns(block).map(Duration::from_nanos)
    }

    /// Stripes of a superblock in its current mode.
    pub fn stripes_of(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.stripes(block)
    }

    /// Bits a cell in a superblock.
    pub fn mode(&self, block: BlockId) -> Mode {
        self.0.array.borrow().store.mode(block)
    }

    /// Sets the bits a cell of a superblock until the next call. Returns false, with nothing changed, if the
    /// superblock is not erased, is out of range, or would need a mode that the array's [`Timing`] lacks.
    pub fn set_mode(&self, block: BlockId, mode: Mode) -> bool {
        let has_mode = mode == Mode::Full || self.0.timing.slc.is_some();
        let exists = block.0 < self.0.geometry.total_blocks();
        has_mode && exists && self.0.array.borrow_mut().store.set_mode(block, mode)
    }

    /// Counters up to now.
    pub fn counters(&self) -> Counters {
        self.0.array.borrow().counters
    }

    /// Time for which all dies together have served hosts, and for which they have collected, levelled wear and
    /// refreshed, with all erases. It may wrap: [`Delay`]s between two calls are right.
    pub fn die_time(&self) -> [Delay; 2] {
        let inner = &*self.0;
        let [reads, programs, erases, collection, _] =
            inner.array.borrow().all_dies.occupancy(inner.clock.now()).map(|time| time.0);
        [Delay(reads.wrapping_add(programs)), Delay(erases.wrapping_add(collection))]
    }

    /// Time for which operations have held a die. The difference of two values over the time between gives
    /// its utilisation.
    #[inline]
    pub fn die_busy(&self, die: u32) -> Delay {
        self.0.array.borrow().dies[die as usize].busy(self.0.clock.now())
    }

    /// Appends [`Flash::die_busy`] of each die, and [`Flash::channel_busy`] of each channel.
    pub fn add_busy(&self, dies: &mut Vec<Delay>, channels: &mut Vec<Delay>) {
        let (array, now) = (self.0.array.borrow(), self.0.clock.now());
        dies.extend(array.dies.iter().map(|die| die.busy(now)));
        channels.extend(array.channels.iter().map(|channel| channel.busy(now)));
    }

    /// Time for which a die's cells worked for operations that have ended. The rest of [`Flash::die_busy`] is
    /// data transfer, and waiting for the channel.
    pub fn die_array(&self, die: u32) -> Delay {
        self.0.array.borrow().dies[die as usize].array
    }

    /// Time for which a channel has been in use.
    #[inline]
    pub fn channel_busy(&self, channel: u32) -> Delay {
        self.0.array.borrow().channels[channel as usize].busy(self.0.clock.now())
    }

    /// Operations queued or in progress at a die.
    pub fn pending(&self, die: u32) -> usize {
        self.0.array.borrow().dies[die as usize].pending()
    }

    /// Traces the operations in progress up to now, when a trace ends. Completed operations are traced as
    /// they end.
    pub fn trace_under_way(&self) {
        let inner = &*self.0;
        let array = inner.array.borrow();
        if inner.clock.is_traced() {
            let now = inner.clock.now();
            for (index, die) in (0..).zip(&array.dies) {
                die.active.iter().for_each(|work| inner.trace_operation(index, work, now));
            }
        }
    }

    /// Tickets that are held or have operations in flight.
    pub fn tickets_in_use(&self) -> usize {
        self.0.desk.tickets(|tickets| tickets.in_use())
    }

    /// Units held in memory because the run programmed them.
    pub fn live_units(&self) -> u64 {
        self.0.array.borrow().store.live_units()
    }
}

impl fmt::Debug for Flash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flash({:?})", self.0.geometry)
    }
}

impl Array {
    fn set_root(&mut self, slot: usize, root: Option<Rc<[u8]>>) {
        self.store.note_root(slot, root.as_deref());
        match root {
            Some(root) => self.system.end_root(slot, root),
            None => self.system.begin_root(slot),
        }
    }

    /// Prepares the dies for the failure model.
    fn prepare_failures(&mut self, geometry: &Geometry) {
        if self.failures.is_some() {
            self.dies.iter_mut().for_each(|die| die.make_fallible(geometry.units_per_stripe()));
        }
    }
}

impl Inner {
    /// A modelled time: zero under `timing = "none"`.
    pub(crate) fn modelled(&self, delay: Delay) -> Delay {
        if self.clock.is_immediate() { Delay::ZERO } else { delay }
    }

    /// Age of the medium in nanoseconds.
    pub(crate) fn calendar_ns(&self) -> u64 {
        self.powered_on_ns + self.clock.now().0 / 1000
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.clock.remove(self.dies);
    }
}
