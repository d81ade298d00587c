//! The array: operations in, what they did out. `sequencer` moves its dies.

use crate::channel::Channel;
use crate::config::FlashConfig;
use crate::die::{Die, Operation, Verb};
use crate::fault::FaultPlan;
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::medium::{Medium, System};
use crate::priority::Priority;
use crate::sequencer::{Reporter, Sequencer};
use crate::store::Outdated;
use crate::store::{Batch, Blank, Spare, Store};
use crate::ticket::{Desk, Outcome, Ticket};
use crate::timing::{Mode, Timing};
use crate::trouble::Trouble;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Notify};
use byteway_wire::content::{Content, UNIT_BYTES};
use std::cell::RefCell;
use std::fmt;
use std::future;
use std::rc::Rc;
use std::time::Duration;

/// What the array has done, by [`Priority`]. Failed operations are only in `failed` and in the counts of what fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read operations.
    pub reads: [u64; Priority::COUNT],
    /// Program operations.
    pub programs: [u64; Priority::COUNT],
    /// Units that reads delivered.
    pub units_read: [u64; Priority::COUNT],
    /// Of those, for a host and from superblocks in one-bit mode.
    pub units_read_one_bit: u64,
    /// Units programmed, padding included.
    pub units_programmed: [u64; Priority::COUNT],
    /// Superblocks erased.
    pub erases: u64,
    /// Operations that failed, whatever the reason.
    pub failed: u64,
    /// Suspensions of programs and erases.
    pub suspends: u64,
    /// Sensings of reads beyond the first.
    pub retries: u64,
    /// Read operations by how many of those they took: one, two and so on, the last is that many or more.
    pub reads_retried: [u64; Counters::RETRIES_TOLD],
    /// Units that reads could not deliver: torn, or with more wrong bits than can be corrected.
    pub units_uncorrectable: u64,
    /// Programs that were begun and failed.
    pub failed_programs: u64,
    /// Erases that were begun and failed.
    pub failed_erases: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        fn each<const N: usize>(sums: &mut [u64; N], others: [u64; N]) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
        }
        let Counters {
            reads,
            programs,
            units_read,
            units_read_one_bit,
            units_programmed,
            erases,
            failed,
            suspends,
            retries,
            reads_retried,
            units_uncorrectable,
            failed_programs,
            failed_erases,
        } = other;
        each(&mut self.reads, reads);
        each(&mut self.programs, programs);
        each(&mut self.units_read, units_read);
        each(&mut self.units_programmed, units_programmed);
        each(&mut self.reads_retried, reads_retried);
        self.units_read_one_bit += units_read_one_bit;
        self.erases += erases;
        self.failed += failed;
        self.suspends += suspends;
        self.retries += retries;
        self.units_uncorrectable += units_uncorrectable;
        self.failed_programs += failed_programs;
        self.failed_erases += failed_erases;
    }
}

impl Counters {
    /// Numbers of retries that are told apart.
    pub const RETRIES_TOLD: usize = 8;
}

pub(crate) struct Array {
    pub(crate) dies: Vec<Die>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) store: Store,
    /// What can fail in it; none if nothing can.
    pub(crate) trouble: Option<Trouble>,
    system: System,
    /// The power is off: the store is elsewhere, and what is here stands for nothing.
    is_off: bool,
    pub(crate) batches: Vec<Batch>,
    pub(crate) counters: Counters,
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    rng: Rng,
    /// The medium's calendar when the power came.
    powered_on_ns: u64,
    /// Something was made durable, or can't be.
    pub(crate) synced: Notify,
    pub(crate) desk: Desk,
    pub(crate) array: RefCell<Array>,
}

/// A drive's flash array. Cheap to clone.
///
/// Operations are submitted under a [`Ticket`] and wait in the queue of their die. They belong to the array: nothing
/// takes them back. A program must be of the next stripe of its superblock, else it fails; erase a superblock before
/// its first. Operations of one superblock keep their order within a [`Priority`] only, but an erase never overtakes
/// a read submitted before it.
#[derive(Clone)]
pub struct Flash(Rc<Inner>);

impl Flash {
    /// An array of this medium, powered on. `config` may be a [`Timing`] alone.
    ///
    /// # Panics
    /// If `geometry` or `config` isn't valid, or the medium is of another shape: whoever takes them from a file
    /// validates them there.
    pub fn new(clock: &Clock, geometry: Geometry, config: impl Into<FlashConfig>, medium: Medium) -> Flash {
        let config = config.into();
        geometry.validate().expect("a geometry is validated where it is read");
        config.validate().expect("a flash's config is validated where it is read");
        assert_eq!(geometry, *medium.geometry(), "a medium keeps its shape");
        let FlashConfig { timing, reliability, faults, rng } = config;
        let Medium { mut store, system, calendar_ns: powered_on_ns, .. } = medium;
        store.set_wordline(timing.stripes_per_wordline());
        let mut array = Array {
            dies: (0..geometry.dies()).map(|_| Die::new()).collect(),
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            store,
            trouble: Trouble::new(reliability, faults, &rng, geometry.dies()),
            system,
            is_off: false,
            batches: Vec::new(),
            counters: Counters::default(),
        };
        array.expect_trouble(&geometry);
        let (synced, desk, array) = (Notify::new(clock), Desk::new(clock), RefCell::new(array));
        let inner = Inner { clock: clock.clone(), geometry, timing, rng, powered_on_ns, synced, desk, array };
        let flash = Flash(Rc::new(inner));
        if let Some(files) = flash.0.array.borrow().store.files().filter(|files| files.has_thread()) {
            files.report_to(clock.spawn("files", Reporter(Rc::downgrade(&flash.0))));
        }
        for die in 0..geometry.dies() {
            let task = flash.0.clock.spawn("die", Sequencer { array: Rc::downgrade(&flash.0), die });
            flash.0.array.borrow_mut().dies[die as usize].task = Some(task);
        }
        flash
    }

    /// The power goes: what was under way is torn, as `store` says; `protected`, programs that have begun are still
    /// ended, also those that are suspended. Gives what outlives it. From now on nothing that is asked of the array ends,
    /// so whoever waits for it is to be ended as well.
    pub fn power_off(&self, protected: bool) -> Medium {
        let inner = &*self.0;
        let now_ns = inner.calendar_ns();
        let mut array = inner.array.borrow_mut();
        array.is_off = true;
        let array = &mut *array;
        for die in &mut array.dies {
            if let Some(task) = die.task.take() {
                inner.clock.kill(task);
            }
            die.stop(inner.clock.now());
            for (operation, fails) in die.take_works() {
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

    /// Puts another plan of faults in the place of the one that there is, and counts from the beginning.
    ///
    /// # Panics
    /// If the plan isn't valid.
    pub fn inject(&self, plan: FaultPlan) {
        plan.validate().expect("a plan of faults is validated where it is made");
        let inner = &*self.0;
        let mut array = inner.array.borrow_mut();
        let trouble = array.trouble.take();
        array.trouble = Trouble::inject(trouble, plan, &inner.rng, inner.geometry.dies());
        array.expect_trouble(&inner.geometry);
    }

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        &self.0.geometry
    }

    /// Whether nothing was ever done with it: it holds its base state, and firmware has kept nothing beside.
    pub fn is_new(&self) -> bool {
        let array = self.0.array.borrow();
        array.store.is_untouched() && array.system.is_empty()
    }

    /// Its times.
    pub fn timing(&self) -> &Timing {
        &self.0.timing
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// A ticket to submit under.
    pub fn ticket(&self) -> Ticket {
        self.0.desk.ticket()
    }

    /// Submits a read of units of one stripe: bit i of `mask` stands for the i-th unit of the stripe that `first` is
    /// in. The planes sense together, once; then the units move over the channel. Gives the place of the first unit
    /// in the ticket's contents; the others follow in order.
    pub fn submit_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        self.submit_reading(first, mask, false, priority, ticket)
    }

    /// The same for one who knows what the units hold, as in a base state: the ticket only learns which of them can't be
    /// read, and has zeroes in their places.
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

    /// Reads a unit within the call, where modelled waits take no time and nothing is in the way: the die is at rest, nothing in
    /// the array can fail, and the unit is what was written. None: then it is to be submitted, and nothing has happened.
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
        if array.is_off || array.trouble.is_some() || !die.is_at_rest() || array.store.is_torn(block, stripe)
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

    /// Submits a program of a stripe. A batch shorter than the stripe is padded. Take it from
    /// [`take_batch`](Flash::take_batch); it goes back there.
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

    /// Submits an erase of a superblock. What it holds is gone when the erase begins.
    pub fn submit_erase(&self, block: BlockId, priority: Priority, ticket: &Ticket) {
        let valid = block.0 < self.0.geometry.total_blocks();
        self.submit(valid, Verb::Erase, block, 0, priority, ticket);
    }

    /// Submits a move: units that can be read are programmed elsewhere, and pass through nothing but the array. `sources` are
    /// where they lie, one for each of `batch`, which has their spare areas; its contents are of no account. If one can't be
    /// read the move fails, and nothing is programmed.
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
        debug_assert!(inner.desk.has_issued(ticket), "a ticket is of the array that it is used with");
        debug_assert_eq!(sources.len(), batch.units.len(), "every unit of a move has a place");
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
        debug_assert!(inner.desk.has_issued(ticket), "a ticket is of the array that it is used with");
        let mut array = inner.array.borrow_mut();
        let units = match &verb {
            Verb::Read { mask, .. } => mask.count_ones() as usize,
            _ => 0,
        };
        let at = inner.desk.tickets(|tickets| tickets.add(ticket.index, units));
        let submitted = inner.clock.now();
        let ios = inner.clock.hold_ios();
        let operation =
            Operation { verb, block, stripe, ticket: ticket.index, at: at as u32, priority, submitted, ios };
        if array.is_off {
            return at;
        }
        if !valid {
            array.fail(inner, operation);
            return at;
        }
        array.store.warm(block);
        let index = inner.geometry.die_of_block(block);
        let die = &mut array.dies[index as usize];
        die.queue.push(priority as usize, operation);
        if die.is_open() || (priority.is_awaited() && array.stand_back(inner, index)) {
            array.advance(inner, index);
        }
        at
    }

    /// An empty batch, with the memory of an earlier one.
    pub fn take_batch(&self) -> Batch {
        let batch = self.0.array.borrow_mut().batches.pop();
        let units = || Vec::with_capacity(self.0.geometry.units_per_stripe() as usize);
        batch.unwrap_or_else(|| Batch { number: 0, units: units() })
    }

    /// Reads units and waits for them; what they hold is added to `out`, in the order of `ppas`. Units of one stripe
    /// that follow each other in rising order are read at once.
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

    /// Erases a superblock, with the collector's priority, and waits.
    pub async fn erase(&self, block: BlockId) -> Outcome {
        let ticket = self.ticket();
        self.submit_erase(block, Priority::Collector, &ticket);
        ticket.wait().await
    }

    /// Whether contents are in memory, and can be let go of.
    pub fn can_forget(&self) -> bool {
        self.0.array.borrow().store.can_forget()
    }

    /// Lets go of the bytes of these units, each of which holds an older state of its logical unit than is needed; one that
    /// holds anything else by now is left alone. A read of it finds that it can't be read; its spare area stays.
    pub fn forget(&self, units: &mut Vec<Outdated>) {
        if !units.is_empty() {
            let mut array = self.0.array.borrow_mut();
            units.drain(..).for_each(|unit| array.store.forget(unit));
        }
    }

    /// What a unit holds at this instant, at no cost: for recovery's models and for tests. What a read gives is in its
    /// ticket. A unit that isn't programmed is zero, as is an address beyond the array.
    pub fn content(&self, ppa: Ppa) -> Content {
        if ppa.0 >= self.0.geometry.total_units() {
            return Content::Zero;
        }
        self.0.array.borrow().store.content(ppa)
    }

    /// The same; none if it is not what was written, as in a file that is damaged.
    pub fn intact(&self, ppa: Ppa) -> Option<Content> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.intact(ppa)
    }

    /// The logical unit that a unit was programmed for, from its spare area, at this instant and at no cost. None if
    /// it is padding, isn't programmed, or lies beyond the array.
    pub fn oob(&self, ppa: Ppa) -> Option<u64> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.lpa(ppa)
    }

    /// The spare area of a unit, at this instant and at no cost: whoever reads a page gets it with the page. None of
    /// padding, of what isn't programmed or can't be read, and beyond the array.
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        if ppa.0 >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.spare(ppa)
    }

    /// The spare areas of consecutive units of a stripe, from `first` on, likewise; where there is none, as of padding.
    ///
    /// # Panics
    /// If they are not all of one stripe of the array.
    pub fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        let geometry = &self.0.geometry;
        let after = geometry.unit_of_stripe(first) as usize + spares.len();
        assert!(first.0 < geometry.total_units() && after <= geometry.units_per_stripe() as usize);
        self.0.array.borrow().store.spares(first, spares);
    }

    /// The number in the spare area of a stripe ([`Batch::number`]), likewise. None if it can't be read.
    pub fn stripe_number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        self.0.array.borrow().store.number(block, stripe)
    }

    /// Whether an erase of a superblock was cut off, or failed: it must be erased before it can be programmed.
    pub fn is_unstable(&self, block: BlockId) -> bool {
        self.0.array.borrow().store.is_unstable(block)
    }

    /// Marks a superblock as bad, from now on and for ever. The mark is a few bits that are programmed so often that they
    /// hold on any cell; the time that takes is not modelled.
    pub fn mark_bad(&self, block: BlockId) {
        if block.0 < self.0.geometry.total_blocks() {
            self.0.array.borrow_mut().store.mark_bad(block);
        }
    }

    /// Whether a superblock is marked as bad. The array works with it as before: this is for whoever asks.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.0.array.borrow().store.is_bad(block)
    }

    /// Whether anything can go wrong in it: there is an error model or a plan of faults.
    pub fn can_fail(&self) -> bool {
        self.0.array.borrow().trouble.is_some()
    }

    /// What is in one of the two slots for a root (0 or 1); none if nothing, or if a power cut came while it was
    /// written. Reading takes the time of reading that much of a die.
    pub async fn read_root(&self, slot: usize) -> Option<Rc<[u8]>> {
        let bytes = self.0.array.borrow().system.root(slot);
        let stripes = self.system_stripes(bytes.as_ref().map_or(0, |bytes| bytes.len()));
        self.0.clock.sleep(self.0.timing.read_time(0, false, Mode::Full) * stripes).await;
        bytes
    }

    /// Writes a root into one of the two slots. From the call on the slot holds nothing, when it ends it holds `bytes`;
    /// it takes an erase, and the programs that it fills.
    pub async fn write_root(&self, slot: usize, bytes: Rc<[u8]>) {
        self.0.array.borrow_mut().set_root(slot, None);
        let programs = self.0.timing.program_time(0, Mode::Full) * self.system_stripes(bytes.len());
        self.0.clock.sleep(self.0.timing.erase + programs).await;
        self.0.array.borrow_mut().set_root(slot, Some(bytes));
        self.sync().await;
    }

    /// A record that is written as a whole or not at all: it holds the former bytes until the call ends. For what is
    /// small and changes seldom.
    pub async fn write_record(&self, bytes: Rc<[u8]>) {
        self.0
            .clock
            .sleep(self.0.timing.program_time(0, Mode::Full) * self.system_stripes(bytes.len()))
            .await;
        {
            let mut array = self.0.array.borrow_mut();
            array.store.note_record(&bytes);
            array.system.set_record(bytes);
        }
        self.sync().await;
    }

    /// The record.
    pub fn record(&self) -> Option<Rc<[u8]>> {
        self.0.array.borrow().system.record()
    }

    /// Waits until everything that has ended until now outlives more than the power: the process, and its machine. Takes
    /// no modelled time, and none at all if the medium is not kept in files.
    pub async fn sync(&self) {
        let job = {
            let mut array = self.0.array.borrow_mut();
            (!array.is_off).then(|| array.store.want_sync())
        };
        let Some(job) = job else { return future::pending().await };
        while !self.0.array.borrow().store.is_synced(job) {
            self.0.synced.notified().await;
        }
    }

    /// Whether the thread that works on files has something to do, or to tell: a sync, for which an erase may be held up, too.
    pub fn awaits_files(&self) -> bool {
        self.0.array.borrow().store.files().is_some_and(|files| files.awaits_thread())
    }

    /// What is kept in files makes no sense to firmware: the array counts as failed from now on, for this reason.
    pub fn refuse(&self, why: String) {
        if let Some(files) = self.0.array.borrow().store.files() {
            files.refuse(why);
        }
        self.0.synced.notify_all();
    }

    /// Waits until a file fails, and says why: from then on nothing is durable any more, and the drive is to end.
    pub async fn failed(&self) -> Rc<str> {
        loop {
            let error = self.0.array.borrow().store.files().and_then(|files| files.error());
            match error {
                Some(error) => return error,
                None => self.0.synced.notified().await,
            }
        }
    }

    /// Adds a page to the journal of the system area. A page is there as a whole when this ends, and not before. One at a
    /// time: pages that are written at once may come in any order.
    pub async fn append_journal(&self, page: Rc<[u8]>) {
        self.0.clock.sleep(self.0.timing.program_time(0, Mode::Full) * self.system_stripes(page.len())).await;
        {
            let mut array = self.0.array.borrow_mut();
            array.store.note_page(&page);
            array.system.append_journal(page);
        }
        self.sync().await;
    }

    /// The pages of the journal, the oldest first. Reading takes the time of reading so much of a die.
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

    /// The journal's first pages are gone: nobody needs them. They are erased behind the scenes.
    pub fn cut_journal(&self, pages: usize) {
        let mut array = self.0.array.borrow_mut();
        array.store.note_cut(pages);
        array.system.cut_journal(pages);
    }

    fn system_stripes(&self, bytes: usize) -> u64 {
        let stripe = self.0.geometry.units_per_stripe() as usize * UNIT_BYTES;
        bytes.div_ceil(stripe).max(1) as u64
    }

    /// Stripes of a superblock that are programmed: the number of the one to be programmed next.
    pub fn programmed_stripes(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.programmed(block)
    }

    /// How often a superblock was erased: also before the medium was made.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.erases(block)
    }

    /// How often a superblock was erased since the medium was made: not what [`Medium::wear_in`] says.
    pub fn erases_since_made(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.erases_since_made(block)
    }

    /// Hands `take` how often each superblock was erased, likewise, in the order of their numbers.
    pub fn each_erases(&self, take: impl FnMut(u32)) {
        self.0.array.borrow().store.each_erases().for_each(take);
    }

    /// How often a superblock was sensed since it was erased, or since the run began: what disturbs its cells.
    pub fn reads_since_erase(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.reads(block)
    }

    /// The calendar, which goes on while the power is off ([`Medium::rest`]): since the medium was made.
    pub fn calendar(&self) -> Duration {
        Duration::from_nanos(self.0.calendar_ns())
    }

    /// When, by the [`calendar`](Flash::calendar), the first stripe of a superblock was programmed since its erase: from
    /// then on its charge leaks. Zero in the base state; none if nothing is programmed.
    pub fn programmed_at(&self, block: BlockId) -> Option<Duration> {
        self.0.array.borrow().store.programmed_at_ns(block).map(Duration::from_nanos)
    }

    /// Stripes that a superblock takes in its mode.
    pub fn stripes_of(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.stripes(block)
    }

    /// How many bits the cells of a superblock hold.
    pub fn mode(&self, block: BlockId) -> Mode {
        self.0.array.borrow().store.mode(block)
    }

    /// Sets how many bits the cells of a superblock are to hold, until it is set otherwise. False, and nothing is changed,
    /// if it isn't erased or isn't there, or is to be in a mode that the array's [`Timing`] doesn't have.
    pub fn set_mode(&self, block: BlockId, mode: Mode) -> bool {
        let has_mode = mode == Mode::Full || self.0.timing.slc.is_some();
        let exists = block.0 < self.0.geometry.total_blocks();
        has_mode && exists && self.0.array.borrow_mut().store.set_mode(block, mode)
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.0.array.borrow().counters
    }

    /// How long a die was held by operations so far. Against an earlier value and the time between, it gives the use.
    pub fn die_busy(&self, die: u32) -> Delay {
        self.0.array.borrow().dies[die as usize].busy(self.0.clock.now())
    }

    /// How long a channel was in use so far.
    pub fn channel_busy(&self, channel: u32) -> Delay {
        self.0.array.borrow().channels[channel as usize].busy(self.0.clock.now())
    }

    /// Operations that wait for a die or are at work there.
    pub fn pending(&self, die: u32) -> usize {
        self.0.array.borrow().dies[die as usize].pending()
    }

    /// Shows a trace the operations that are at work, up to now: for its end. Those that end are shown by themselves.
    pub fn trace_under_way(&self) {
        let inner = &*self.0;
        let array = inner.array.borrow();
        if inner.clock.is_traced() {
            let now = inner.clock.now();
            for (index, die) in (0..).zip(&array.dies) {
                die.works.iter().for_each(|work| inner.trace_operation(index, work, now));
            }
        }
    }

    /// Tickets that are held, or whose operations are not done.
    pub fn tickets_in_use(&self) -> usize {
        self.0.desk.tickets(|tickets| tickets.in_use())
    }

    /// Units held in memory, because the run programmed them.
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

    /// Makes room in the dies for what can fail.
    fn expect_trouble(&mut self, geometry: &Geometry) {
        if self.trouble.is_some() {
            self.dies.iter_mut().for_each(|die| die.make_fallible(geometry.units_per_stripe()));
        }
    }
}

impl Inner {
    /// A modelled time, which takes none under `timing = "none"`.
    pub(crate) fn modelled(&self, delay: Delay) -> Delay {
        if self.clock.is_immediate() { Delay::ZERO } else { delay }
    }

    /// Since the medium was made.
    pub(crate) fn calendar_ns(&self) -> u64 {
        self.powered_on_ns + self.clock.now().0 / 1000
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.array.get_mut().dies.iter().filter_map(|die| die.task).for_each(|task| self.clock.kill(task));
    }
}
