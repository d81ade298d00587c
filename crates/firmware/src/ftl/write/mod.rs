//! From the host to the dies: into the buffer, out of it by stripes, and the map switched when they are programmed.
//!
//! When a stripe's worth waits, or something that may not wait, it goes to the next die in turn that has room and is
//! not busy with programs of the host's already. A task made once for each program that can be under way waits for its
//! end; nothing is allocated for a write.
//!
//! | file | what |
//! |---|---|
//! | [`filling`] | how stripes are filled and programmed: what is under way |
//! | [`die_set`] | dies as a set of bits |
//! | [`wordline`] | stripes that wait for the rest of their wordline |
//! | [`parts`], [`merge`] | parts of units that wait in DRAM; writing them, and merging them with the rest of their units |
//! | [`lock`], [`exchange`] | read-modify-write of a unit; units that are read and then written as one step |

pub(in crate::ftl) mod die_set;
pub(in crate::ftl) mod exchange;
pub(in crate::ftl) mod filling;
pub(in crate::ftl) mod lock;
pub(in crate::ftl) mod merge;
pub(in crate::ftl) mod parts;
pub(in crate::ftl) mod superseded;
pub(in crate::ftl) mod wordline;

use crate::ftl::base::BaseState;
use crate::ftl::blocks::Stream;
use crate::ftl::buffer::NOBODY;
use crate::ftl::config::Base;
use crate::ftl::config::MediaError;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::map::table::{Entry, Place, REGION_UNITS};
use crate::ftl::space::Space;
use crate::ftl::write::filling::Job;
use crate::ftl::write::wordline::Held;
use crate::hardware::FlashCommands;
use crate::placement::{Errand, Route};
use crate::work::Work;
use byteway_clock::{Clock, Notify, Service, SpanId, Spans, Stage};
use byteway_flash::{BlockId, Outdated, Priority, Spare};
use byteway_wire::content::{Content, Keep, UNIT_BYTES};
use std::ops::Range;
use std::rc::Rc;

/// The task of a writer.
pub(in crate::ftl) async fn run(inner: Rc<Inner>, index: usize) {
    let writer = &inner.writers[index];
    loop {
        writer.start.notified().await;
        let outcome = writer.ticket.wait().await;
        if inner.placement.has_hardware() {
            let units = inner.state.borrow().filling.jobs[index].slots.len() as u64;
            let (clock, commands) = (&inner.clock, FlashCommands::programs(units));
            inner.placement.command_hardware(clock, SpanId::NONE, clock.spans(), commands).await;
        }
        writer.ticket.clear();
        if outcome.failed {
            inner.state.borrow_mut().counters.program_failures += 1;
            inner.send_back(index as u32);
        } else if inner.is_spoilt(index) {
            inner.send_back(index as u32);
        } else {
            inner.finish(index as u32);
        }
        inner.dispatch();
        inner.look_for_an_end();
        inner.pay_for_changes().await;
        inner.pay_for_commits().await;
    }
}

impl Ftl {
    /// Takes `contents`, which it empties, into the write buffer as the units from `first` on, waiting for room.
    /// Returns when they are buffered: with a write cache, that is when a write may be acknowledged. With `durable` it
    /// returns when they are programmed, which the drive with power-loss protection need not wait for.
    ///
    /// Charges [`Work::Buffer`] and [`Work::Translate`] for each unit, and the passage into the buffer's DRAM. A tree of extents
    /// is changed when the units are programmed: [`Work::Translate`] is then paid behind, for each node that is visited. Units
    /// appear one stripe's worth after another; a reader may see some new and some old.
    ///
    /// # Errors
    /// If not all are units of the drive.
    pub async fn write(
        &self,
        errand: impl Into<Errand>,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let (inner, errand) = (&*self.0, errand.into());
        let span = errand.span;
        let count = contents.len() as u64;
        let mut next = self.check(first, count)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit(errand, spans, count, inner.changes_at_once(count)).await;
        let mut contents = contents.drain(..);
        let mut left = count as u32;
        let mut paged = None;
        while left > 0 {
            let chunk = left.min(inner.geometry.units_per_stripe());
            if inner.cache.is_some() {
                self.pages(errand, spans, next, chunk, &mut paged).await;
            }
            let permit = inner.slots(chunk).await?;
            inner.locks.wait(next, chunk).await;
            let taken = inner.take(errand.route, next, contents.by_ref().take(chunk as usize));
            permit.forget();
            inner.give_back(chunk - taken);
            inner.dispatch();
            next += u64::from(chunk);
            left -= chunk;
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        self.settle(span, spans, durable).await
    }

    /// Whether a unit can be taken into the write buffer within the call, where modelled waits take no time: the conditions of
    /// [`Ftl::read_at_once`], a free slot, and with `durable` a buffer that is as durable as flash. If not, [`Ftl::write`] takes
    /// it, or says why not.
    pub fn can_write_at_once(&self, unit: u64, durable: bool) -> bool {
        let inner = &*self.0;
        inner.is_at_once()
            && (!durable || inner.config.plp)
            && !inner.power.is_untouched.get()
            && inner.locks.len() == 0
            && inner.credits.available() > 0
            && inner.credits.waiting() == 0
            && self.check(unit, 1).is_ok()
            && inner.check_writable().is_ok()
    }

    /// Takes a unit into the write buffer: right behind [`Ftl::can_write_at_once`], which has said that it can.
    pub fn write_at_once(&self, unit: u64, content: Content) {
        let inner = &*self.0;
        let has_slot = inner.credits.try_take(1);
        debug_assert!(has_slot, "nothing was waited for since there was one");
        let attending = inner.attend();
        let taken = inner.take(Route::OWN, unit, std::iter::once(content));
        inner.give_back(1 - taken);
        inner.dispatch();
        drop(attending);
    }

    /// Changes a part of a unit: reads it, lets `change` have its bytes, and buffers what comes out. Nothing that others
    /// write to the unit meanwhile is undone: they wait. Otherwise as [`Ftl::write`].
    ///
    /// # Errors
    /// If it is no unit of the drive, or can't be read; then nothing is written.
    pub async fn modify(
        &self,
        errand: impl Into<Errand>,
        spans: &Spans,
        unit: u64,
        change: impl FnOnce(&mut [u8; UNIT_BYTES]),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.edit(errand, spans, unit, |bytes, _| change(bytes), durable).await
    }

    /// The same, where also which parts of the unit can't be read may change ([`Content::edited`]). What waits of the unit
    /// ([`Ftl::write_part`]) is in what it reads, and so in what it writes.
    ///
    /// # Errors
    /// As [`Ftl::modify`].
    pub async fn edit(
        &self,
        errand: impl Into<Errand>,
        spans: &Spans,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.edit_bytes(errand.into(), spans, unit, UNIT_BYTES, edit, durable).await
    }

    /// The same, of which the host wrote so many bytes.
    pub(in crate::ftl) async fn edit_bytes(
        &self,
        errand: Errand,
        spans: &Spans,
        unit: u64,
        bytes: usize,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let span = errand.span;
        let lpa = self.check(unit, 1)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit(errand, spans, 1, inner.look_ups(lpa, 1)).await;
        if inner.cache.is_some() {
            self.pages(errand, spans, lpa, 1, &mut None).await;
        }
        let permit = inner.slots(1).await?;
        let lock = inner.locks.lock(lpa).await;
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        let old = self.read_unit(errand, spans, lpa, false).await?;
        let new = old.edited(inner.config.keep, edit);
        let taken = inner.take(errand.route, lpa, std::iter::once(new));
        inner.state.borrow_mut().counters.user_bytes_written -= (UNIT_BYTES - bytes) as u64;
        permit.forget();
        inner.give_back(1 - taken);
        drop(lock);
        inner.dispatch();
        self.settle(span, spans, durable).await
    }

    /// Waits until everything that was buffered before the call is programmed; a stripe that is not full is padded. With
    /// power-loss protection there is nothing to wait for.
    ///
    /// # Errors
    /// At the end of life, if flash has no room for what is buffered.
    pub async fn flush(&self, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
        self.ready().await;
        let _attending = self.0.attend();
        self.settle(span, spans, true).await
    }

    /// Deallocates `count` units from `first`: they read as zeroes. What of them waits in the buffer is dropped.
    ///
    /// Charges [`Work::Translate`] for each translation page's worth of units, or for each node of a tree of extents that is
    /// visited.
    ///
    /// # Errors
    /// If not all are units of the drive.
    pub async fn trim(&self, span: SpanId, spans: &Spans, first: u64, count: u64) -> Result<(), MediaError> {
        let inner = &*self.0;
        self.check(first, count)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        let end = first + count;
        let service = inner
            .placement
            .reserve(Work::Translate, inner.changes_at_once(count.div_ceil(inner.space.page_units())));
        inner.clock.sleep_until(service.end).await;
        spans.charge_split(span, inner.clock.now(), service.queued, Stage::Firmware);
        if count == 0 {
            return Ok(());
        }
        while !inner.has_journal_room() {
            inner.check_writable()?;
            inner.signals.settled.notified().await;
        }
        if first == 0 && end == inner.config.user_units && inner.locks.len() == 0 {
            inner.deallocate_all();
            inner.journal_filled();
            inner.pay_for_changes().await;
            inner.pay_for_commits().await;
            return Ok(());
        }
        if inner.cache.is_some() {
            self.pages_in_part(span, spans, first, end).await;
        }
        let mut next = first;
        while next < end {
            let stop = (next / REGION_UNITS + 1).saturating_mul(REGION_UNITS).min(end);
            inner.locks.wait(next, (stop - next) as u32).await;
            while !inner.has_journal_room() {
                inner.check_writable()?;
                inner.signals.settled.notified().await;
                inner.locks.wait(next, (stop - next) as u32).await;
            }
            inner.deallocate(next, stop);
            inner.journal_filled();
            inner.pay_for_changes().await;
            inner.pay_for_commits().await;
            next = stop;
            if next < end {
                // A terabyte is a quarter of a million regions: others have their turn in between.
                inner.clock.yield_now().await;
            }
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        Ok(())
    }

    /// Does the work of buffering `count` units, and of so many look-ups, and moves them into the buffer's DRAM.
    pub(in crate::ftl) async fn admit(&self, errand: Errand, spans: &Spans, count: u64, look_ups: u64) {
        self.admit_bytes(errand, spans, count, look_ups, count * UNIT_BYTES as u64).await;
    }

    /// The same for so many bytes of the units.
    async fn admit_bytes(&self, errand: Errand, spans: &Spans, count: u64, look_ups: u64, bytes: u64) {
        let (inner, Errand { span, route }) = (&*self.0, errand);
        let entered = inner.placement.enter(&inner.clock, errand, spans).await;
        let placement = &inner.placement;
        let mut queued = if placement.is_lent(route) {
            let buffering = placement.work_by(&inner.clock, route, Work::Buffer, count).await;
            buffering + placement.work_by(&inner.clock, route, Work::Translate, look_ups).await
        } else {
            let service = inner.reserve_buffering(route, count, look_ups);
            inner.clock.sleep_until(service.end).await;
            service.queued
        };
        if look_ups > 0
            && !placement.site_by(Work::Buffer, route).is(placement.site_by(Work::Translate, route))
        {
            let service = placement.reserve_by(route, Work::Translate, look_ups);
            inner.clock.sleep_until(service.end).await;
            queued += service.queued;
        }
        spans.charge_split(span, inner.clock.now(), queued, Stage::Firmware);
        drop(entered);
        placement.update_map(&inner.clock, errand, spans).await;
        placement.add_to_buffer(&inner.clock, errand, spans, bytes).await;
    }

    /// If it must be durable: waits until all that is buffered now is programmed.
    pub(in crate::ftl) async fn settle(
        &self,
        span: SpanId,
        spans: &Spans,
        durable: bool,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        if !durable || inner.config.plp {
            return Ok(());
        }
        inner.settle_all().await?;
        inner.flash.sync().await;
        spans.charge(span, inner.clock.now(), Stage::Flash);
        Ok(())
    }
}

impl Inner {
    /// Waits until all that is buffered now, and every deallocation up to now, is on flash.
    ///
    /// # Errors
    /// At the end of life, if flash has no room for what is buffered.
    async fn settle_all(&self) -> Result<(), MediaError> {
        // First, so that what they are merged into, or are replaced with meanwhile, is waited for below.
        self.settle_parts().await?;
        let (target, writes_journal) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            let target = state.buffer.next_sequence();
            state.filling.flush_to = target;
            (target, state.journal.want(target))
        };
        if writes_journal {
            self.signals.journal.notify_one();
        }
        self.dispatch();
        self.look_for_an_end();
        while !self.state.borrow().is_durable(target) {
            self.check_room()?;
            self.signals.settled.notified().await;
        }
        // A deallocation that came meanwhile may have dropped some of it from the buffer. Its record must be safe then, or
        // what flash had before would come back.
        let (dropped_to, writes_journal) = {
            let mut guard = self.state.borrow_mut();
            let dropped_to = guard.filling.dropped_to;
            (dropped_to, dropped_to > target && guard.journal.want(dropped_to))
        };
        if writes_journal {
            self.signals.journal.notify_one();
        }
        while self.state.borrow().journal.durable_to() < dropped_to {
            self.signals.settled.notified().await;
        }
        Ok(())
    }

    /// Waits until all that is buffered now is on flash.
    ///
    /// # Errors
    /// As [`Inner::settle_all`].
    pub(in crate::ftl) async fn settle_units(&self) -> Result<(), MediaError> {
        let target = {
            let mut state = self.state.borrow_mut();
            state.filling.flush_to = state.buffer.next_sequence();
            state.filling.flush_to
        };
        self.dispatch();
        self.look_for_an_end();
        while self.state.borrow().buffer.settled() < target {
            self.check_room()?;
            self.signals.settled.notified().await;
        }
        Ok(())
    }

    /// How many changes of the map are paid where they are decided: those of a tree of extents are paid behind.
    #[inline]
    pub(in crate::ftl) fn changes_at_once(&self, count: u64) -> u64 {
        if self.config.extents.is_some() { 0 } else { count }
    }

    /// Buffering and translating at the same site are one piece of work.
    pub(in crate::ftl) fn reserve_buffering(&self, route: Route, count: u64, look_ups: u64) -> Service {
        let placement = &self.placement;
        let site = placement.site_by(Work::Buffer, route);
        let cycles = |work, count| (work, placement.cycles().of(work).saturating_mul(count));
        match look_ups > 0 && site.is(placement.site_by(Work::Translate, route)) {
            true => {
                let (buffer, translate) = (cycles(Work::Buffer, count), cycles(Work::Translate, look_ups));
                if route != Route::OWN {
                    site.note_lent(buffer.1.saturating_add(translate.1));
                }
                site.reserve_both(buffer, translate)
            }
            false => placement.reserve_by(route, Work::Buffer, count),
        }
    }

    pub(in crate::ftl) fn give_back(&self, slots: u32) {
        if slots > 0 {
            self.credits.release(slots as usize);
        }
    }

    /// Puts units into the buffer, by work that was done by `route`; the caller holds a credit for each. Gives how many took a slot.
    pub(in crate::ftl) fn take(
        &self,
        route: Route,
        first: u64,
        contents: impl Iterator<Item = Content>,
    ) -> u32 {
        let mut state = self.state.borrow_mut();
        let (mut count, mut taken, mut has_dropped) = (0, 0, false);
        let io = self.clock.io().unwrap_or(NOBODY);
        for (lpa, content) in (first..).zip(contents) {
            count += 1;
            taken += u32::from(state.buffer_unit(lpa, content, io, route).is_some());
            has_dropped |= state.parts.drop_unit(lpa);
        }
        state.counters.user_units_written += u64::from(count);
        state.counters.user_bytes_written += u64::from(count) * UNIT_BYTES as u64;
        state.counters.units_overwritten_in_buffer += u64::from(count - taken);
        drop(state);
        if has_dropped {
            self.signals.settled.notify_all();
        }
        taken
    }

    /// Sends stripes to dies as long as there is one to send, and a die to take it.
    pub(in crate::ftl) fn dispatch(&self) {
        let stripe_units = self.geometry.units_per_stripe();
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        loop {
            let waiting = state.buffer.waiting();
            let urgent = waiting > 0 && state.buffer.waiting_since() < state.filling.flush_to;
            let full = waiting >= stripe_units;
            if !full
                && !urgent
                && !state.filling.wordlines.must_end(&state.filling.ready, state.filling.flush_to)
            {
                return;
            }
            let (ready, wordlines) = (&state.filling.ready, &state.filling.wordlines);
            let Some(die) =
                wordlines.choose(ready, state.filling.next_die, full, urgent, state.filling.flush_to)
            else {
                if !std::mem::replace(&mut state.collecting.roused, true) {
                    self.signals.collectors.iter().for_each(Notify::notify_one);
                }
                return;
            };
            state.filling.next_die = (die + 1) % self.geometry.dies();
            let is_cached =
                !state.filling.wordlines.is_begun(die) && state.blocks.has_room(die, Stream::Cache);
            let stream = if is_cached { Stream::Cache } else { Stream::Host };
            let (block, stripe) =
                state.blocks.take_stripe(die, stream).expect("a die that is ready has room");
            let index =
                state.filling.idle_jobs.pop().expect("there are as many jobs as programs can be under way");
            let job = &mut state.filling.jobs[index as usize];
            (job.block, job.stripe) = (block, stripe);
            let mut batch = self.flash.take_batch();
            (batch.number, job.number) = (state.filling.next_number, Some(state.filling.next_number));
            state.filling.next_number += 1;
            let first = (waiting > 0).then(|| state.buffer.waiting_since());
            if !is_cached {
                state.filling.wordlines.give(die, block, stripe, first);
            }
            let mut map_units = 0;
            for _ in 0..stripe_units.min(waiting) {
                let Some(slot) = state.buffer.send_first() else { break };
                let unit = state.buffer.slot(slot);
                batch.units.push((Spare { lpa: unit.lpa, sequence: unit.stamp }, unit.content.clone()));
                job.slots.push(slot);
                map_units += u64::from(self.space.is_map(unit.lpa));
            }
            let units = batch.units.len() as u64;
            state.counters.units_programmed_host += units - map_units;
            state.counters.units_programmed_map += map_units;
            state.counters.units_programmed_cache += if is_cached { units } else { 0 };
            state.counters.units_programmed_padding += u64::from(stripe_units) - units;
            state.filling.under_way[die as usize] += 1;
            state.refresh(die);
            let writer = &self.writers[index as usize];
            let traced = self.clock.is_traced();
            if traced {
                state.work_for_writers(&self.clock, index);
            }
            self.flash.submit_program(block, stripe, batch, Priority::HostProgram, &writer.ticket);
            if traced {
                self.clock.swap_ios(&mut state.filling.ios);
            }
            writer.start.notify_one();
            if stripe == 0 {
                self.signals.collectors[die as usize].notify_one();
            }
        }
    }

    /// A job has been programmed. When that completes a wordline, all of it is safe.
    fn finish(&self, index: u32) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let job = &mut state.filling.jobs[index as usize];
        let (block, stripe) = (job.block, job.stripe);
        let number = job.number.take().expect("a job that ends has begun");
        let mut slots = std::mem::take(&mut job.slots);
        let die = self.geometry.die_of_block(block);
        let (mut count, mut host_units) = (0, 0);
        // One of the cache is a wordline by itself. A superblock that has failed takes no more programs, so nothing can go
        // wrong with this one any more.
        let is_bad = state.blocks.is_bad(block);
        if state.filling.wordlines.stripes() == 1 || state.blocks.is_cache(block) || is_bad {
            if is_bad {
                (count, host_units) = self.settle_held(state, die, block, 0..u32::MAX);
            }
            count += slots.len();
            host_units += self.settle_stripe(state, block, stripe, &mut slots);
        } else {
            let memory = state.filling.wordlines.slots();
            let slots = std::mem::replace(&mut slots, memory);
            state.filling.wordlines.hold(die, Held { block, stripe, number, slots });
            if let Some(stripes) = state.filling.wordlines.safe_wordline(die, block, stripe) {
                (count, host_units) = self.settle_held(state, die, block, stripes);
            }
        }
        state.filling.under_way[die as usize] -= 1;
        state.refresh(die);
        state.filling.jobs[index as usize].slots = slots;
        state.filling.idle_jobs.push(index);
        let is_checkpoint_due = state.is_checkpoint_due(self.config.checkpoint_units);
        let calls_updater = self.cache.is_some() && state.allow_updates(host_units);
        drop(guard);
        self.placement.programmed(count as u64);
        self.superseded.settle(|units| self.flash.forget(units));
        if count > 0 {
            self.credits.release(count);
            self.signals.settled.notify_all();
        }
        if calls_updater {
            self.call_updater();
        }
        if is_checkpoint_due {
            self.want_checkpoint();
        }
    }

    /// Those of a superblock's `stripes` that waited for their wordline are safe. Returns how many slots that frees, and
    /// how many units of the host's there are in them.
    fn settle_held(&self, state: &mut State, die: u32, block: BlockId, stripes: Range<u32>) -> (usize, u64) {
        if state.filling.wordlines.stripes() == 1 {
            return (0, 0);
        }
        let mut held = state.filling.wordlines.take_held(die, block, stripes);
        let (mut count, mut host_units) = (0, 0);
        for Held { block, stripe, slots, .. } in &mut held {
            count += slots.len();
            host_units += self.settle_stripe(state, *block, *stripe, slots);
        }
        state.filling.wordlines.give_back(held);
        (count, host_units)
    }

    /// The host's open superblocks have been closed as they are: what waited for the rest of a wordline is safe.
    pub(in crate::ftl) fn settle_closed(&self) {
        let mut freed = 0;
        for die in 0..self.geometry.dies() {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            if state.blocks.opened(die, Stream::Host).is_none()
                && let Some((block, stripes)) = state.filling.wordlines.close(die)
            {
                freed += self.settle_held(state, die, block, stripes).0;
            }
        }
        self.dropped(freed as u32);
    }

    /// A stripe is safe in flash: the map goes over to it, and its slots are free. Gives how many units of the host's.
    fn settle_stripe(&self, state: &mut State, block: BlockId, stripe: u32, slots: &mut Vec<u32>) -> u64 {
        let mut host_units = 0;
        for (unit, slot) in slots.drain(..).enumerate() {
            let ppa = self.geometry.ppa(block, stripe, unit as u32);
            let entry = Entry::flash(ppa);
            let done = state.buffer.slot(slot);
            let (lpa, sequence, route) = (done.lpa, done.sequence, done.route);
            host_units += u64::from(lpa < self.space.user);
            let current = state.map.table.get(lpa);
            let history = if current == Entry::slot(slot) {
                let old = done.old;
                state.map.table.set(lpa, entry);
                state.map.changed(lpa, entry, route);
                old
            } else {
                match current.as_slot() {
                    // Written again meanwhile: until that is programmed, this is what flash has of it.
                    Some(later) if state.buffer.slot(later).old_sequence <= sequence => {
                        let later = state.buffer.slot_mut(later);
                        later.old_sequence = sequence;
                        let old = std::mem::replace(&mut later.old, entry);
                        state.map.changed(lpa, entry, route);
                        old
                    }
                    _ => entry,
                }
            };
            state.buffer.free(slot);
            if history != entry {
                // At once: what it replaces may lie in the same stripe, where a failed program has sent both.
                state.blocks.gained(block);
                self.lose(state, lpa, history);
                if let Place::Flash(ppa) = history.place()
                    && lpa < self.space.user
                {
                    self.superseded.add(Outdated { ppa, lpa, sequence });
                }
            }
        }
        self.settle_extents(state);
        if let Some(die) = state.blocks.programmed(block, 0) {
            self.signals.collectors[die as usize].notify_one();
        }
        host_units
    }

    /// Whether a job's program, which went well, was spoilt by a later one of its wordline that failed. Without modelled time
    /// that failure may be learned first.
    fn is_spoilt(&self, index: usize) -> bool {
        let state = self.state.borrow();
        let Job { block, stripe, number, .. } = &state.filling.jobs[index];
        state.blocks.is_bad(*block) && self.flash.stripe_number(*block, *stripe) != *number
    }

    /// A job's program has failed: what it held waits again, and so does what was programmed in its wordline before.
    #[cold]
    fn send_back(&self, index: u32) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let job = &mut state.filling.jobs[index as usize];
        let number = job.number.take().expect("a job that ends has begun");
        let block = job.block;
        for slot in job.slots.drain(..) {
            state.buffer.send_back(slot, number);
        }
        state.filling.idle_jobs.push(index);
        let die = self.geometry.die_of_block(block);
        state.filling.under_way[die as usize] -= 1;
        if state.blocks.opened(die, Stream::Host) == Some(block) {
            state.filling.wordlines.abandon(die);
        }
        self.fail(state, block);
        let mut held = state.filling.wordlines.take_held(die, block, 0..u32::MAX);
        for Held { number, slots, .. } in &mut held {
            slots.drain(..).for_each(|slot| state.buffer.send_back(slot, *number));
            self.close(state, block);
        }
        state.filling.wordlines.give_back(held);
        self.close(state, block);
        state.refresh(die);
    }

    /// Nothing of a stripe is valid.
    fn close(&self, state: &mut State, block: BlockId) {
        if let Some(die) = state.blocks.programmed(block, 0) {
            self.signals.collectors[die as usize].notify_one();
        }
    }

    fn lose(&self, state: &mut State, lpa: u64, entry: Entry) {
        if let Some(die) = state.lose(&self.base, lpa, entry) {
            self.signals.collectors[die as usize].notify_one();
        }
    }

    /// Deallocates units of one region.
    fn deallocate(&self, first: u64, end: u64) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let whole = first.is_multiple_of(REGION_UNITS)
            && (end - first == REGION_UNITS || end == self.config.user_units);
        let mut freed = 0;
        if whole && self.config.base == Base::Empty {
            // What has no entry is nowhere already: a host may deallocate terabytes of that.
            let mut kept = Vec::new();
            state.map.table.each_kept(first..end, |lpa, entry| kept.push((lpa, entry)));
            for (lpa, entry) in kept {
                freed += self.drop_unit(state, lpa, entry);
            }
            state.map.table.deallocate_region(first);
        } else {
            for lpa in first..end {
                let entry = state.map.table.get(lpa);
                freed += self.drop_unit(state, lpa, entry);
                if !whole && entry != Entry::UNMAPPED {
                    state.map.table.set(lpa, Entry::UNMAPPED);
                }
            }
            if whole {
                state.map.table.deallocate_region(first);
            }
        }
        state.map.deallocated(first, end);
        if let Some(extents) = &mut state.map.extents {
            extents.remove(first, end);
        }
        self.settle_extents(state);
        state.counters.units_deallocated += end - first;
        state.journal.add(first, end - first, state.buffer.counter());
        let parts = state.parts.drop_units(first..end);
        state.note_dropped(freed + parts);
        drop(guard);
        self.call_for_room();
        self.dropped(freed);
        if parts > 0 {
            self.signals.settled.notify_all();
        }
    }

    /// Whatever there is of a unit is history; its map entry is the caller's. Gives how many slots that freed.
    fn drop_unit(&self, state: &mut State, lpa: u64, entry: Entry) -> u32 {
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
        state.map.table.deallocate_all();
        state.map.deallocated_all();
        if let Some(extents) = &mut state.map.extents {
            extents.clear();
        }
        state.blocks.lose_all();
        let user = self.config.user_units;
        state.counters.units_deallocated += user;
        state.journal.add(0, user, state.buffer.counter());
        let freed = state.buffer.drop_waiting(|lpa| lpa < user);
        state.count_own(&self.base, &self.space);
        let parts = state.parts.drop_units(0..user);
        state.note_dropped(freed + parts);
        drop(guard);
        self.call_for_room();
        self.dropped(freed);
        if parts > 0 {
            self.signals.settled.notify_all();
        }
        self.signals.collectors.iter().for_each(Notify::notify_one);
    }

    /// Slots are free without a program: whoever waits for them to settle is not called by the end of one.
    fn dropped(&self, slots: u32) {
        if slots > 0 {
            self.give_back(slots);
            self.signals.settled.notify_all();
        }
    }
}

impl State {
    /// Whether everything before this number is on flash.
    fn is_durable(&self, target: u64) -> bool {
        self.buffer.settled() >= target && self.journal.durable_to() >= target
    }

    /// A deallocation, whose record is in the journal, has dropped so many units that waited.
    fn note_dropped(&mut self, units: u32) {
        if units > 0 {
            self.filling.dropped_to = self.buffer.next_sequence();
        }
    }

    /// Buffers a unit; the caller holds a credit. Gives the slot, if it took one: not if it replaced one that waits.
    pub(in crate::ftl) fn buffer_unit(
        &mut self,
        lpa: u64,
        content: Content,
        io: u32,
        route: Route,
    ) -> Option<u32> {
        let State { map, buffer, .. } = self;
        let entry = map.table.get(lpa);
        let slot = match entry.as_slot() {
            Some(slot) if buffer.waits(slot) => {
                let slot = buffer.slot_mut(slot);
                (slot.content, slot.io, slot.route) = (content, io, route);
                return None;
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
        buffer.slot_mut(slot).route = route;
        map.table.set(lpa, Entry::slot(slot));
        Some(slot)
    }

    /// Buffers a translation page as it is now; the caller holds a credit. Whether it took a slot.
    pub(in crate::ftl) fn buffer_page(&mut self, page: u32, keep: Keep) -> bool {
        let unit = self.map.pages.unit(page);
        let (content, reflects) = self.capture(page, keep);
        let taken = self.buffer_unit(unit, content, NOBODY, Route::OWN).is_some();
        if let Some(slot) = self.map.table.get(unit).as_slot() {
            self.buffer.slot_mut(slot).stamp = reflects;
        }
        taken
    }

    /// Counts the valid units that are not the host's, when nothing else is valid.
    fn count_own(&mut self, base: &BaseState, space: &Space) {
        let (first, count) = space.map;
        for lpa in first..first + count {
            match self.buffer.in_flash(self.map.table.get(lpa)).place() {
                Place::Base => base.block_of(lpa).into_iter().for_each(|block| self.blocks.gained(block)),
                Place::Flash(ppa) => self.blocks.gained(self.blocks.block_of(ppa)),
                Place::Unmapped | Place::Slot(_) => {}
            }
        }
    }

    /// In a trace: whoever happens to send a job's stripe, what is programmed is of those who wrote it. The present task
    /// works for them until its own I/Os are swapped back.
    #[cold]
    fn work_for_writers(&mut self, clock: &Clock, job: u32) {
        let slots = self.filling.jobs[job as usize].slots.iter().map(|slot| self.buffer.slot(*slot).io);
        self.filling.ios.clear();
        self.filling.ios.extend(slots.filter(|io| *io != NOBODY));
        self.filling.ios.sort_unstable();
        self.filling.ios.dedup();
        clock.swap_ios(&mut self.filling.ios);
    }
}
