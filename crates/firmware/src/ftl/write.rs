//! From the host to the dies: into the buffer, out of it by stripes, and the map switched when they are programmed.
//!
//! When a stripe's worth waits, or something that may not wait, it goes to the next die in turn that has room and is
//! not busy with programs of the host's already. A task made once for each program that can be under way waits for its
//! end; nothing is allocated for a write.

use super::blocks::Stream;
use super::buffer::NOBODY;
use super::map::{Entry, Place, REGION_UNITS};
use super::{Ftl, Inner, MediaError, State};
use crate::work::Work;
use byteway_clock::{Clock, Notify, Service, SpanId, Spans, Stage};
use byteway_flash::{BlockId, Flash, Geometry, Priority, Ticket};
use byteway_wire::content::{Content, Keep, UNIT_BYTES};
use std::rc::Rc;

/// How many programs of the host's a die has under way at most: one at work, and the next one ready behind it.
pub(super) const PROGRAMS_PER_DIE: u32 = 2;

/// Units of the map that change by one access when a range is deallocated: what a page of 4 KiB of it holds.
const UNITS_PER_MAP_PAGE: u64 = 1024;

/// Dies as a set of bits.
pub(super) struct DieSet(Vec<u64>);

impl DieSet {
    pub(super) fn new(dies: u32) -> Self {
        DieSet(vec![0; dies.div_ceil(64) as usize])
    }

    pub(super) fn set(&mut self, die: u32, is_in: bool) {
        let (word, bit) = (&mut self.0[(die / 64) as usize], 1 << (die % 64));
        if is_in { *word |= bit } else { *word &= !bit }
    }

    /// The first one from `from` on; behind the last comes the first.
    fn next(&self, from: u32) -> Option<u32> {
        let words = self.0.len();
        let start = (from / 64) as usize;
        let ahead = u64::MAX << (from % 64);
        for step in 0..=words {
            let index = (start + step) % words;
            let mask = match step {
                0 => ahead,
                _ if step == words => !ahead,
                _ => u64::MAX,
            };
            let word = self.0[index] & mask;
            if word != 0 {
                return Some(index as u32 * 64 + word.trailing_zeros());
            }
        }
        None
    }
}

/// A program of the host's that is under way.
pub(super) struct Job {
    block: BlockId,
    stripe: u32,
    /// The slots whose units are programmed, in the order of the stripe.
    slots: Vec<u32>,
}

impl Job {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Job { block: BlockId(0), stripe: 0, slots: Vec::with_capacity(geometry.units_per_stripe() as usize) }
    }
}

/// What waits for the end of a job.
pub(super) struct Writer {
    start: Notify,
    ticket: Ticket,
}

impl Writer {
    pub(super) fn new(clock: &Clock, flash: &Flash) -> Self {
        Writer { start: Notify::new(clock), ticket: flash.ticket() }
    }
}

/// The task of a writer.
pub(super) async fn run(inner: Rc<Inner>, index: usize) {
    let writer = &inner.writers[index];
    loop {
        writer.start.notified().await;
        let outcome = writer.ticket.wait().await;
        // Stripes are given out in order and superblocks are erased before, so flash has nothing to refuse.
        assert!(!outcome.failed, "flash refused a program of the host's");
        writer.ticket.clear();
        inner.finish(index as u32);
        inner.dispatch();
    }
}

impl Ftl {
    /// Takes `contents`, which it empties, into the write buffer as the units from `first` on, waiting for room.
    /// Returns when they are buffered: with a write cache, that is when a write may be acknowledged. With `durable` it
    /// returns when they are programmed, which the drive with power-loss protection need not wait for.
    ///
    /// Charges [`Work::Buffer`] and [`Work::Translate`] for each unit, and the passage into the buffer's DRAM. Units
    /// appear one stripe's worth after another; a reader may see some new and some old.
    ///
    /// # Errors
    /// If not all are units of the drive.
    pub async fn write(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let count = contents.len() as u64;
        let mut next = self.check(first, count)?;
        self.admit(span, spans, count).await;
        let mut contents = contents.drain(..);
        let mut left = count as u32;
        while left > 0 {
            let chunk = left.min(inner.geometry.units_per_stripe());
            let permit = inner.credits.acquire(chunk as usize).await;
            inner.locks.wait(next, chunk).await;
            let taken = inner.take(next, contents.by_ref().take(chunk as usize));
            permit.forget();
            inner.give_back(chunk - taken);
            inner.dispatch();
            next += chunk;
            left -= chunk;
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        self.settle(span, spans, durable).await;
        Ok(())
    }

    /// Changes a part of a unit: reads it, lets `change` have its bytes, and buffers what comes out. Nothing that others
    /// write to the unit meanwhile is undone: they wait. Otherwise as [`Ftl::write`].
    ///
    /// # Errors
    /// If it is no unit of the drive, or can't be read; then nothing is written.
    pub async fn modify(
        &self,
        span: SpanId,
        spans: &Spans,
        unit: u64,
        change: impl FnOnce(&mut [u8; UNIT_BYTES]),
        durable: bool,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let lpa = self.check(unit, 1)?;
        self.admit(span, spans, 1).await;
        let permit = inner.credits.acquire(1).await;
        let lock = inner.locks.lock(lpa).await;
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        let old = self.read_unit(span, spans, lpa).await?;
        let new = changed(&old, change, inner.config.keep);
        let taken = inner.take(lpa, std::iter::once(new));
        permit.forget();
        inner.give_back(1 - taken);
        drop(lock);
        inner.dispatch();
        self.settle(span, spans, durable).await;
        Ok(())
    }

    /// Waits until everything that was buffered before the call is programmed; a stripe that is not full is padded. With
    /// power-loss protection there is nothing to wait for.
    pub async fn flush(&self, span: SpanId, spans: &Spans) {
        self.settle(span, spans, true).await;
    }

    /// Deallocates `count` units from `first`: they read as zeroes. What of them waits in the buffer is dropped.
    ///
    /// Charges [`Work::Translate`] for each map page of 1024 units.
    ///
    /// # Errors
    /// If not all are units of the drive.
    pub async fn trim(&self, span: SpanId, spans: &Spans, first: u64, count: u64) -> Result<(), MediaError> {
        let inner = &*self.0;
        self.check(first, count)?;
        let end = first + count;
        let service = inner.placement.reserve(Work::Translate, count.div_ceil(UNITS_PER_MAP_PAGE));
        inner.clock.sleep_until(service.end).await;
        spans.charge_split(span, inner.clock.now(), service.queued, Stage::Firmware);
        if first == 0 && end == inner.config.user_units && inner.locks.len() == 0 {
            inner.deallocate_all();
            return Ok(());
        }
        let mut next = first;
        while next < end {
            let stop = (next / REGION_UNITS + 1).saturating_mul(REGION_UNITS).min(end);
            inner.locks.wait(next as u32, (stop - next) as u32).await;
            inner.deallocate(next, stop);
            next = stop;
            if next < end {
                // A terabyte is a quarter of a million regions: others have their turn in between.
                inner.clock.yield_now().await;
            }
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        Ok(())
    }

    /// Does the work of buffering `count` units, and moves them into the buffer's DRAM.
    async fn admit(&self, span: SpanId, spans: &Spans, count: u64) {
        let inner = &*self.0;
        let service = inner.reserve_buffering(count);
        inner.clock.sleep_until(service.end).await;
        let mut queued = service.queued;
        if !inner.placement.site(Work::Buffer).is(inner.placement.site(Work::Translate)) {
            let service = inner.placement.run(Work::Translate, count).await;
            queued += service.queued;
        }
        spans.charge_split(span, inner.clock.now(), queued, Stage::Firmware);
        let passage = inner.placement.site(Work::Buffer).dram("into the buffer", count * UNIT_BYTES as u64);
        inner.clock.sleep_until(passage.arrival).await;
        spans.charge_split(span, inner.clock.now(), passage.queued, Stage::Dram);
    }

    /// If it must be durable: waits until all that is buffered now is programmed.
    async fn settle(&self, span: SpanId, spans: &Spans, durable: bool) {
        let inner = &*self.0;
        if !durable || inner.config.plp {
            return;
        }
        let target = {
            let mut state = inner.state.borrow_mut();
            let target = state.buffer.next_sequence();
            state.flush_to = target;
            target
        };
        inner.dispatch();
        while inner.state.borrow().buffer.settled() < target {
            inner.settled.notified().await;
        }
        spans.charge(span, inner.clock.now(), Stage::Flash);
    }
}

impl Inner {
    /// Buffering and translating at the same site are one piece of work.
    fn reserve_buffering(&self, count: u64) -> Service {
        let placement = &self.placement;
        let site = placement.site(Work::Buffer);
        let cycles = |work| (work, placement.cycles().of(work).saturating_mul(count));
        match site.is(placement.site(Work::Translate)) {
            true => site.reserve_both(cycles(Work::Buffer), cycles(Work::Translate)),
            false => placement.reserve(Work::Buffer, count),
        }
    }

    fn give_back(&self, slots: u32) {
        if slots > 0 {
            self.credits.release(slots as usize);
        }
    }

    /// Puts units into the buffer; the caller holds a credit for each. Gives how many took a slot.
    fn take(&self, first: u32, contents: impl Iterator<Item = Content>) -> u32 {
        let mut state = self.state.borrow_mut();
        let State { map, buffer, counters, .. } = &mut *state;
        let (mut count, mut taken) = (0, 0);
        let io = self.clock.io().unwrap_or(NOBODY);
        for (lpa, content) in (first..).zip(contents) {
            count += 1;
            let entry = map.get(lpa);
            let slot = match entry.as_slot() {
                Some(slot) if buffer.waits(slot) => {
                    let slot = buffer.slot_mut(slot);
                    (slot.content, slot.io) = (content, io);
                    continue;
                }
                Some(slot) => {
                    // The new slot takes over what flash has of the unit, and will take what is under way.
                    let before = buffer.slot_mut(slot);
                    let old = std::mem::replace(&mut before.old, Entry::UNMAPPED);
                    let old_sequence = before.old_sequence;
                    buffer.take(lpa, content, io, old, old_sequence)
                }
                None => {
                    // Whatever may be under way for this unit is older than what the map says.
                    let sequence = buffer.next_sequence();
                    buffer.take(lpa, content, io, entry, sequence)
                }
            };
            map.set(lpa, Entry::slot(slot));
            taken += 1;
        }
        counters.user_units_written += u64::from(count);
        counters.units_overwritten_in_buffer += u64::from(count - taken);
        taken
    }

    /// Sends stripes to dies as long as there is one to send, and a die to take it.
    pub(super) fn dispatch(&self) {
        let stripe_units = self.geometry.units_per_stripe();
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        loop {
            let waiting = state.buffer.waiting();
            let urgent = waiting > 0 && state.buffer.waiting_since() < state.flush_to;
            if waiting < stripe_units && !urgent {
                return;
            }
            let Some(die) = state.ready.next(state.next_die) else {
                if !std::mem::replace(&mut state.roused, true) {
                    self.collectors.iter().for_each(Notify::notify_one);
                }
                return;
            };
            state.next_die = (die + 1) % self.geometry.dies();
            let (block, stripe) =
                state.blocks.take_stripe(die, Stream::Host).expect("a die that is ready has room");
            let index = state.idle_jobs.pop().expect("there are as many jobs as programs can be under way");
            let job = &mut state.jobs[index as usize];
            (job.block, job.stripe) = (block, stripe);
            let mut batch = self.flash.take_batch();
            for _ in 0..stripe_units.min(waiting) {
                let Some(slot) = state.buffer.send_first() else { break };
                let unit = state.buffer.slot(slot);
                batch.push((unit.lpa, unit.content.clone()));
                job.slots.push(slot);
            }
            state.counters.units_programmed_host += batch.len() as u64;
            state.counters.units_programmed_padding += u64::from(stripe_units) - batch.len() as u64;
            state.under_way[die as usize] += 1;
            state.refresh(die);
            let writer = &self.writers[index as usize];
            let traced = self.clock.is_traced();
            if traced {
                state.work_for_writers(&self.clock, index);
            }
            self.flash.submit_program(block, stripe, batch, Priority::HostProgram, &writer.ticket);
            if traced {
                self.clock.swap_ios(&mut state.ios);
            }
            writer.start.notify_one();
            if stripe == 0 {
                self.collectors[die as usize].notify_one();
            }
        }
    }

    /// A job has been programmed: the map goes over to it, and its slots are free.
    fn finish(&self, index: u32) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let job = &mut state.jobs[index as usize];
        let (block, stripe) = (job.block, job.stripe);
        let mut slots = std::mem::take(&mut job.slots);
        let count = slots.len();
        let mut valid = 0;
        for (unit, slot) in slots.drain(..).enumerate() {
            let entry = Entry::flash(self.geometry.ppa(block, stripe, unit as u32));
            let done = state.buffer.slot(slot);
            let (lpa, sequence) = (done.lpa, done.sequence);
            let current = state.map.get(lpa);
            let history = if current == Entry::slot(slot) {
                state.map.set(lpa, entry);
                done.old
            } else {
                match current.as_slot() {
                    // Written again meanwhile: until that is programmed, this is what flash has of it.
                    Some(later) if state.buffer.slot(later).old_sequence <= sequence => {
                        let later = state.buffer.slot_mut(later);
                        later.old_sequence = sequence;
                        std::mem::replace(&mut later.old, entry)
                    }
                    _ => entry,
                }
            };
            state.buffer.free(slot);
            if history != entry {
                valid += 1;
                self.lose(state, lpa, history);
            }
        }
        if let Some(die) = state.blocks.programmed(block, valid) {
            self.collectors[die as usize].notify_one();
        }
        let die = self.geometry.die_of_block(block);
        state.under_way[die as usize] -= 1;
        state.refresh(die);
        state.jobs[index as usize].slots = slots;
        state.idle_jobs.push(index);
        drop(guard);
        self.credits.release(count);
        self.settled.notify_all();
    }

    fn lose(&self, state: &mut State, lpa: u32, entry: Entry) {
        if let Some(die) = state.lose(&self.base, lpa, entry) {
            self.collectors[die as usize].notify_one();
        }
    }

    /// Deallocates units of one region.
    fn deallocate(&self, first: u64, end: u64) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let whole = first.is_multiple_of(REGION_UNITS)
            && (end - first == REGION_UNITS || end == self.config.user_units);
        let mut freed = 0;
        for lpa in first as u32..end as u32 {
            let entry = state.map.get(lpa);
            freed += self.drop_unit(state, lpa, entry);
            if !whole && entry != Entry::UNMAPPED {
                state.map.set(lpa, Entry::UNMAPPED);
            }
        }
        if whole {
            state.map.deallocate_region(first);
        }
        state.counters.units_deallocated += end - first;
        drop(guard);
        self.dropped(freed);
    }

    /// Whatever there is of a unit is history; its map entry is the caller's. Gives how many slots that freed.
    fn drop_unit(&self, state: &mut State, lpa: u32, entry: Entry) -> u32 {
        let Place::Slot(slot) = entry.place() else {
            self.lose(state, lpa, entry);
            return 0;
        };
        let old = std::mem::replace(&mut state.buffer.slot_mut(slot).old, Entry::UNMAPPED);
        self.lose(state, lpa, old);
        if !state.buffer.waits(slot) {
            return 0; // it is under way, and will be stale when it arrives
        }
        state.buffer.free(slot);
        1
    }

    /// Deallocates the whole drive, without a look at each unit.
    fn deallocate_all(&self) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        state.map.deallocate_all();
        state.blocks.lose_all();
        state.counters.units_deallocated += self.config.user_units;
        let mut freed = 0;
        while let Some(slot) = state.buffer.send_first() {
            state.buffer.free(slot);
            freed += 1;
        }
        drop(guard);
        self.dropped(freed);
        self.collectors.iter().for_each(Notify::notify_one);
    }

    /// Slots are free without a program: whoever waits for them to settle is not called by the end of one.
    fn dropped(&self, slots: u32) {
        if slots > 0 {
            self.give_back(slots);
            self.settled.notify_all();
        }
    }
}

impl State {
    /// In a trace: whoever happens to send a job's stripe, what is programmed is of those who wrote it. The present task
    /// works for them until its own I/Os are swapped back.
    #[cold]
    fn work_for_writers(&mut self, clock: &Clock, job: u32) {
        let slots = self.jobs[job as usize].slots.iter().map(|slot| self.buffer.slot(*slot).io);
        self.ios.clear();
        self.ios.extend(slots.filter(|io| *io != NOBODY));
        self.ios.sort_unstable();
        self.ios.dedup();
        clock.swap_ios(&mut self.ios);
    }
}

/// The content that a unit has when `change` has had its bytes.
fn changed(old: &Content, change: impl FnOnce(&mut [u8; UNIT_BYTES]), keep: Keep) -> Content {
    let mut bytes = [0; UNIT_BYTES];
    old.write_to(&mut bytes);
    change(&mut bytes);
    Content::of(&bytes, keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A turn that skipped a die, or found none where one is ready, would leave dies idle or writes waiting.
    #[test]
    fn dies_take_turns_behind_the_last_comes_the_first() {
        for dies in [1, 5, 64, 130] {
            let mut set = DieSet::new(dies);
            assert_eq!(set.next(0), None);
            (0..dies).for_each(|die| set.set(die, true));
            let mut next = 0;
            for turn in 0..2 * dies {
                let die = set.next(next).unwrap();
                assert_eq!(die, turn % dies);
                next = (die + 1) % dies;
            }
            (0..dies).for_each(|die| set.set(die, die == dies / 2));
            assert_eq!(set.next(dies - 1), Some(dies / 2));
            assert_eq!(set.next(0), Some(dies / 2));
        }
    }
}
