//! The write path: host units into the buffer, out of it in stripes, and the map update once they are
//! programmed.
//!
//! When a full stripe waits, or a unit that must not wait, it goes to the next die in turn that has space and
//! is not busy with host programs. For each program that can be in flight there is a permanent task that
//! waits for its end, so a write allocates nothing.
//!
//! | file | contents |
//! |---|---|
//! | [`filling`] | stripes being filled and programmed |
//! | [`die_set`] | dies as a set of bits |
//! | [`wordline`] | programmed stripes that wait for the rest of their wordline |
//! | [`parts`], [`merge`] | absorbed parts of units in DRAM; writing them, and merging them with the rest of their units |
//! | [`lock`], [`exchange`] | read-modify-write of one unit, and of several atomically |

pub(in crate::ftl) mod die_set;
pub(in crate::ftl) mod exchange;
pub(in crate::ftl) mod filling;
pub(in crate::ftl) mod lock;
pub(in crate::ftl) mod merge;
pub(in crate::ftl) mod parts;
pub(in crate::ftl) mod superseded;
pub(in crate::ftl) mod wordline;

use crate::ftl::base::BaseState;
use crate::ftl::blocks::Lane;
use crate::ftl::buffer::UNTRACED;
use crate::ftl::config::Base;
use crate::ftl::config::MediaError;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::{REGION_UNITS, Space};
use crate::ftl::write::filling::Job;
use crate::ftl::write::wordline::Held;
use crate::hardware::FlashCommands;
use crate::placement::{Route, WorkContext};
use crate::work::WorkKind;
use byteway_clock::{Clock, Notify, Service, SpanId, Spans, Stage};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_flash::{BlockId, Outdated, Priority, Spare};
use std::ops::Range;
use std::rc::Rc;

/// The task of a writer: completes the programs of one job after another.
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
    /// Moves `contents` into the write buffer as the units from `first` on, waiting for free slots. Returns
    /// when they are buffered: with a write cache, a write may be acknowledged then. With `durable` it
    /// returns when they are programmed, which a drive with power-loss protection need not wait for.
    ///
    /// Charges [`WorkKind::Buffer`] and [`WorkKind::Translate`] for each unit, and the transfer into the
    /// buffer's DRAM. A tree of extents changes when the units are programmed, and [`WorkKind::Translate`]
    /// for each visited node is paid then, in the background. Units become visible one stripe's worth at a
    /// time, so a concurrent reader may see some new and some old.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, the drive is read-only, or, with `durable`, flash has no
    /// more space.
    pub async fn write(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let (inner, context) = (&*self.0, context.into());
        let span = context.span;
        let count = contents.len() as u64;
        let mut next = self.check(first, count)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit(context, spans, count, inner.changes_at_once(count)).await;
        let mut contents = contents.drain(..);
        let mut left = count as u32;
        let mut paged = None;
        while left > 0 {
            // A chunk's worth of slots always exists, so this cannot wait for slots that only this write
            // could free.
            let chunk = left.min(inner.geometry.units_per_stripe());
            if inner.cache.is_some() {
                self.pages(context, spans, next, chunk, &mut paged).await;
            }
            let permit = inner.slots_for(span, spans, chunk).await?;
            // The lock comes after the slots: its holder must never wait for slots that this write keeps.
            inner.locks.wait(next, chunk).await;
            let taken = inner.take(context.route, next, contents.by_ref().take(chunk as usize));
            permit.forget();
            inner.give_back(chunk - taken);
            inner.dispatch();
            next += u64::from(chunk);
            left -= chunk;
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        self.settle(span, spans, durable).await
    }

    /// Whether a unit can be buffered within the call, if modelled waits take no time: under the conditions
    /// of [`Ftl::read_at_once`], with a free slot, and with `durable` only if the buffer is as durable as
    /// flash. Otherwise use [`Ftl::write`].
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

    /// Buffers a unit within the call. Call only directly after [`Ftl::can_write_at_once`] returned true.
    pub fn write_at_once(&self, unit: u64, content: Content) {
        let inner = &*self.0;
        let has_slot = inner.credits.try_take(1);
        debug_assert!(has_slot, "the slot was available at the check, and no wait has passed since");
        let attending = inner.attend();
        let taken = inner.take(Route::OWN, unit, std::iter::once(content));
        inner.give_back(1 - taken);
        inner.dispatch();
        drop(attending);
    }

    /// Changes a unit: reads it, applies `change` to its bytes, and buffers the result. Concurrent writes to
    /// the unit wait, so none is undone. Otherwise as [`Ftl::write`].
    ///
    /// # Errors
    /// [`MediaError`] if the unit is out of range or unreadable; nothing is written then.
    pub async fn modify(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        change: impl FnOnce(&mut [u8; UNIT_BYTES]),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.edit(context, spans, unit, |bytes, _| change(bytes), durable).await
    }

    /// Like [`Ftl::modify`], but `edit` may also change which parts of the unit are unreadable
    /// ([`Content::edited`]). The unit's absorbed parts ([`Ftl::write_part`]) are included in what is read,
    /// and so in what is written.
    ///
    /// # Errors
    /// Same as [`Ftl::modify`].
    pub async fn edit(
        &self,
        context: impl Into<WorkContext>,
        spans: &Spans,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        self.edit_bytes(context.into(), spans, unit, UNIT_BYTES, edit, durable).await
    }

    /// Like [`Ftl::edit`], for a host write of `bytes` bytes.
    pub(in crate::ftl) async fn edit_bytes(
        &self,
        context: WorkContext,
        spans: &Spans,
        unit: u64,
        bytes: usize,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        let inner = &*self.0;
        let span = context.span;
        let lpa = self.check(unit, 1)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        if inner.power.is_untouched.take() {
            inner.go_on_overwriting();
        }
        self.admit(context, spans, 1, inner.look_ups(lpa, 1)).await;
        if inner.cache.is_some() {
            self.pages(context, spans, lpa, 1, &mut None).await;
        }
        let permit = inner.slots_for(span, spans, 1).await?;
        let lock = inner.locks.lock(lpa).await;
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        let old = self.read_unit(context, spans, lpa, false).await?;
        // From the read to this point the lock excludes other writers of the unit.
        let new = old.edited(inner.config.keep, edit);
        let taken = inner.take(context.route, lpa, std::iter::once(new));
        inner.state.borrow_mut().counters.user_bytes_written -= (UNIT_BYTES - bytes) as u64;
        permit.forget();
        inner.give_back(1 - taken);
        drop(lock);
        inner.dispatch();
        self.settle(span, spans, durable).await
    }

    /// Waits until everything buffered before the call is programmed; a partial stripe is padded. With
    /// power-loss protection there is nothing to wait for.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life, if flash has no space for the buffer.
    pub async fn flush(&self, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
        self.ready().await;
        let _attending = self.0.attend();
        self.settle(span, spans, true).await
    }

    /// Deallocates `count` units from `first`, which then read as zeroes. Their waiting units in the buffer
    /// are dropped.
    ///
    /// Charges [`WorkKind::Translate`] for each translation page of units, or for each visited node of a tree
    /// of extents.
    ///
    /// # Errors
    /// [`MediaError`] if a unit is out of range, or the drive is read-only.
    pub async fn trim(&self, span: SpanId, spans: &Spans, first: u64, count: u64) -> Result<(), MediaError> {
        let inner = &*self.0;
        self.check(first, count)?;
        self.ready().await;
        let _attending = inner.attend_writing()?;
        let end = first + count;
        let service = inner
            .placement
            .reserve(WorkKind::Translate, inner.changes_at_once(count.div_ceil(inner.space.page_units())));
        inner.clock.sleep_until(service.end).await;
        spans.charge_split(span, inner.clock.now(), service.queued, Stage::Firmware);
        if count == 0 {
            return Ok(());
        }
        while !inner.has_journal_space() {
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
            while !inner.has_journal_space() {
                inner.check_writable()?;
                inner.signals.settled.notified().await;
                // A unit may have been locked during the wait.
                inner.locks.wait(next, (stop - next) as u32).await;
            }
            inner.deallocate(next, stop);
            inner.journal_filled();
            inner.pay_for_changes().await;
            inner.pay_for_commits().await;
            next = stop;
            if next < end {
                // A terabyte is a quarter of a million regions: other tasks must run in between.
                inner.clock.yield_now().await;
            }
        }
        spans.charge(span, inner.clock.now(), Stage::Queueing);
        Ok(())
    }

    /// Does the work of buffering `count` units and of `look_ups` look-ups, and transfers the units into the
    /// buffer's DRAM.
    pub(in crate::ftl) async fn admit(&self, context: WorkContext, spans: &Spans, count: u64, look_ups: u64) {
        self.admit_bytes(context, spans, count, look_ups, count * UNIT_BYTES as u64).await;
    }

    /// Like [`admit`](Ftl::admit), with `bytes` bytes to transfer.
    async fn admit_bytes(&self, context: WorkContext, spans: &Spans, count: u64, look_ups: u64, bytes: u64) {
        let (inner, WorkContext { span, route }) = (&*self.0, context);
        let entered = inner.placement.enter(&inner.clock, context, spans).await;
        let placement = &inner.placement;
        let mut queued = if placement.is_lent(route) {
            let buffering = placement.work_by(&inner.clock, route, WorkKind::Buffer, count).await;
            buffering + placement.work_by(&inner.clock, route, WorkKind::Translate, look_ups).await
        } else {
            let service = inner.reserve_buffering(route, count, look_ups);
            inner.clock.sleep_until(service.end).await;
            service.queued
        };
        if look_ups > 0
            && !placement.site_by(WorkKind::Buffer, route).is(placement.site_by(WorkKind::Translate, route))
        {
            let service = placement.reserve_by(route, WorkKind::Translate, look_ups);
            inner.clock.sleep_until(service.end).await;
            queued += service.queued;
        }
        spans.charge_split(span, inner.clock.now(), queued, Stage::Firmware);
        drop(entered);
        placement.update_map(&inner.clock, context, spans).await;
        placement.add_to_buffer(&inner.clock, context, spans, bytes).await;
    }

    /// With `durable`, waits until everything buffered now is programmed.
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
    /// Waits until everything buffered now, and every deallocation up to now, is on flash.
    ///
    /// # Errors
    /// [`MediaError::WriteProtected`] at the end of life, if flash has no space for the buffer.
    async fn settle_all(&self) -> Result<(), MediaError> {
        // First, so that the wait below covers the units that the parts are merged into or replaced with.
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
            self.check_space()?;
            self.signals.settled.notified().await;
        }
        // A deallocation in between may have dropped some of these units from the buffer. Its record must
        // then be durable too, otherwise recovery would bring back what flash had before.
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

    /// Waits until everything buffered now is on flash.
    ///
    /// # Errors
    /// Same as [`Inner::settle_all`].
    pub(in crate::ftl) async fn settle_units(&self) -> Result<(), MediaError> {
        let target = {
            let mut state = self.state.borrow_mut();
            state.filling.flush_to = state.buffer.next_sequence();
            state.filling.flush_to
        };
        self.dispatch();
        self.look_for_an_end();
        while self.state.borrow().buffer.settled() < target {
            self.check_space()?;
            self.signals.settled.notified().await;
        }
        Ok(())
    }

    /// Map changes that are charged immediately; changes of a tree of extents are charged later.
    #[inline]
    pub(in crate::ftl) fn changes_at_once(&self, count: u64) -> u64 {
        if self.config.extents.is_some() { 0 } else { count }
    }

    /// Reserves the cores for buffering and, at the same site, translating as one piece of work.
    pub(in crate::ftl) fn reserve_buffering(&self, route: Route, count: u64, look_ups: u64) -> Service {
        let placement = &self.placement;
        let site = placement.site_by(WorkKind::Buffer, route);
        let cycles = |work, count| (work, placement.cycles().of(work).saturating_mul(count));
        match look_ups > 0 && site.is(placement.site_by(WorkKind::Translate, route)) {
            true => {
                let (buffer, translate) =
                    (cycles(WorkKind::Buffer, count), cycles(WorkKind::Translate, look_ups));
                if route != Route::OWN {
                    site.note_lent(buffer.1.saturating_add(translate.1));
                }
                site.reserve_both(buffer, translate)
            }
            false => placement.reserve_by(route, WorkKind::Buffer, count),
        }
    }

    pub(in crate::ftl) fn give_back(&self, slots: u32) {
        if slots > 0 {
            self.credits.release(slots as usize);
        }
    }

    /// Buffers units on behalf of `route`; the caller holds a credit for each. Returns the number of slots
    /// taken.
    pub(in crate::ftl) fn take(
        &self,
        route: Route,
        first: u64,
        contents: impl Iterator<Item = Content>,
    ) -> u32 {
        let mut state = self.state.borrow_mut();
        let (mut count, mut taken, mut has_dropped) = (0, 0, false);
        let io = self.clock.io().unwrap_or(UNTRACED);
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

    /// Sends stripes to dies while there is a stripe to send and a die to take it.
    pub(in crate::ftl) fn dispatch(&self) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        while let Some((stream, die)) = self.next_program(state) {
            self.send(state, stream, die);
        }
    }

    /// The stream to send a stripe of, and the die to take it: of several streams the one with the oldest
    /// unit that waits.
    fn next_program(&self, state: &mut State) -> Option<(u8, u32)> {
        let State { filling, buffer, collecting, .. } = state;
        let (mut is_wanted, mut next): (bool, Option<(u64, u8, u32)>) = (false, None);
        for (stream, lane) in (0..).zip(&filling.lanes) {
            let (waiting, since) = (buffer.waiting_in(stream), buffer.waiting_since(stream));
            let urgent = waiting > 0 && since < filling.flush_to;
            let full = waiting >= self.geometry.units_per_stripe();
            let (ready, wordlines) = (&lane.ready, &lane.wordlines);
            if !full && !urgent && !wordlines.must_end(ready, filling.flush_to) {
                continue;
            }
            is_wanted = true;
            let may_begin = filling.may_begin(stream.into());
            let die = wordlines.choose(ready, lane.next_die, full, urgent, filling.flush_to, may_begin);
            if let Some(die) = die
                && next.is_none_or(|(oldest, ..)| since < oldest)
            {
                next = Some((since, stream, die));
            }
        }
        // All dies are busy or full: wake every collector once, since any of them may free space.
        if is_wanted && next.is_none() && !std::mem::replace(&mut collecting.roused, true) {
            self.signals.collectors.iter().for_each(Notify::notify_one);
        }
        next.map(|(_, stream, die)| (stream, die))
    }

    /// Sends a stripe of a stream to a die.
    fn send(&self, state: &mut State, stream: u8, die: u32) {
        let stripe_units = self.geometry.units_per_stripe();
        let filling = &mut state.filling;
        let host_lane = &mut filling.lanes[usize::from(stream)];
        host_lane.next_die = (die + 1) % self.geometry.dies();
        let is_cached = !host_lane.wordlines.is_begun(die) && state.blocks.has_space(die, Lane::Cache);
        let lane = if is_cached { Lane::Cache } else { Lane::Host(stream) };
        let (block, stripe) = state.blocks.take_stripe(die, lane).expect("a ready die has a stripe");
        if stripe == 0
            && let Some(streams) = &mut state.streams
        {
            streams.opened(block, lane);
        }
        let index = filling.idle_jobs.pop().expect("there is a job for each program that can be in flight");
        let job = &mut filling.jobs[index as usize];
        debug_assert!(job.slots.is_empty() && job.number.is_none(), "an idle job has no program");
        (job.stream, job.block, job.stripe) = (stream, block, stripe);
        let mut batch = self.flash.take_batch();
        (batch.number, job.number) = (filling.next_number, Some(filling.next_number));
        filling.next_number += 1;
        // Taken before `send_first` advances it: the wordline must know its oldest unit.
        let waiting = state.buffer.waiting_in(stream);
        let first = (waiting > 0).then(|| state.buffer.waiting_since(stream));
        if !is_cached {
            host_lane.wordlines.give(die, block, stripe, first);
        }
        let mut map_units = 0;
        for _ in 0..stripe_units.min(waiting) {
            let Some(slot) = state.buffer.send_first(stream) else { break };
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
        debug_assert!(
            filling.in_flight[die as usize] < filling::PROGRAMS_PER_DIE,
            "a ready die has a free program"
        );
        filling.in_flight[die as usize] += 1;
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
        // A new superblock was opened, so fewer are free.
        if stripe == 0 {
            self.signals.collectors[die as usize].notify_one();
        }
    }

    /// Completes a job's program. Once that completes a wordline, all of its stripes are safe.
    fn finish(&self, index: u32) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let job = &mut state.filling.jobs[index as usize];
        let (stream, block, stripe) = (job.stream, job.block, job.stripe);
        let number = job.number.take().expect("a job that ends has started");
        let mut slots = std::mem::take(&mut job.slots);
        let die = self.geometry.die_of_block(block);
        let (mut count, mut host_units) = (0, 0);
        // A cache stripe is a wordline of its own. A failed superblock takes no more programs, so nothing can
        // destroy this stripe any more.
        let is_bad = state.blocks.is_bad(block);
        let wordlines = &mut state.filling.lanes[usize::from(stream)].wordlines;
        if wordlines.stripes() == 1 || state.blocks.is_cache(block) || is_bad {
            if is_bad {
                (count, host_units) = self.settle_held(state, stream, block, 0..u32::MAX);
            }
            count += slots.len();
            host_units += self.settle_stripe(state, block, stripe, &mut slots);
        } else {
            let memory = wordlines.slots();
            let slots = std::mem::replace(&mut slots, memory);
            wordlines.hold(die, Held { block, stripe, number, slots });
            if let Some(stripes) = wordlines.safe_wordline(die, block, stripe) {
                (count, host_units) = self.settle_held(state, stream, block, stripes);
            }
        }
        debug_assert!(state.filling.in_flight[die as usize] > 0, "a program that ends was counted");
        state.filling.in_flight[die as usize] -= 1;
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

    /// Completes the stripes of a superblock of a stream that waited for their wordline. Returns the slots
    /// freed, and the host units among them.
    fn settle_held(
        &self,
        state: &mut State,
        stream: u8,
        block: BlockId,
        stripes: Range<u32>,
    ) -> (usize, u64) {
        let wordlines = &mut state.filling.lanes[usize::from(stream)].wordlines;
        if wordlines.stripes() == 1 {
            return (0, 0);
        }
        let mut held = wordlines.take_held(self.geometry.die_of_block(block), block, stripes);
        let (mut count, mut host_units) = (0, 0);
        for Held { block, stripe, slots, .. } in &mut held {
            count += slots.len();
            host_units += self.settle_stripe(state, *block, *stripe, slots);
        }
        state.filling.lanes[usize::from(stream)].wordlines.give_back(held);
        (count, host_units)
    }

    /// Completes held stripes of host superblocks that were closed early: no later program can destroy them.
    pub(in crate::ftl) fn settle_closed(&self) {
        let mut freed = 0;
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        for (die, stream) in (0..self.geometry.dies())
            .flat_map(|die| (0..self.streams.host as u8).map(move |stream| (die, stream)))
        {
            if state.blocks.opened(die, Lane::Host(stream)).is_none()
                && let Some((block, stripes)) = state.filling.lanes[usize::from(stream)].wordlines.close(die)
            {
                freed += self.settle_held(state, stream, block, stripes).0;
            }
        }
        drop(guard);
        self.dropped(freed as u32);
    }

    /// Moves the map to a stripe that is safe in flash, and frees its slots. Returns the host units in it.
    fn settle_stripe(&self, state: &mut State, block: BlockId, stripe: u32, slots: &mut Vec<u32>) -> u64 {
        let mut host_units = 0;
        for (unit, slot) in slots.drain(..).enumerate() {
            let ppa = self.geometry.ppa(block, stripe, unit as u32);
            let entry = Entry::flash(ppa);
            let done = state.buffer.slot(slot);
            let (lpa, sequence, route) = (done.lpa, done.sequence, done.route);
            host_units += u64::from(lpa < self.space.user);
            debug_assert!(
                state.map.table.get(lpa).as_slot().is_none_or(|slot| state.buffer.slot(slot).lpa == lpa)
            );
            let current = state.map.table.get(lpa);
            let history = if current == Entry::slot(slot) {
                let old = done.old;
                state.map.table.set(lpa, entry);
                state.map.changed(lpa, entry, route);
                old
            } else {
                match current.as_slot() {
                    // Rewritten meanwhile: until the rewrite is programmed, this is the version in flash.
                    Some(later) if state.buffer.slot(later).old_sequence <= sequence => {
                        let later = state.buffer.slot_mut(later);
                        later.old_sequence = sequence;
                        let old = std::mem::replace(&mut later.old, entry);
                        state.map.changed(lpa, entry, route);
                        old
                    }
                    // Newer data have been programmed, or the unit was deallocated: this copy is stale on
                    // arrival.
                    _ => entry,
                }
            };
            state.buffer.free(slot);
            if history != entry {
                // Gain before loss: the replaced copy may lie in the same stripe, which holds both after a
                // failed program.
                state.blocks.gained(block);
                self.lose(state, lpa, history);
                if let EntryKind::Flash(ppa) = history.kind()
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

    /// Whether a job's successful program was destroyed by a later failed program of its wordline. Without
    /// modelled time that failure may be reported first.
    fn is_spoilt(&self, index: usize) -> bool {
        let state = self.state.borrow();
        let Job { block, stripe, number, .. } = &state.filling.jobs[index];
        state.blocks.is_bad(*block) && self.flash.stripe_number(*block, *stripe) != *number
    }

    /// Handles a failed program: its units wait again, and so do those of earlier stripes of its wordline.
    #[cold]
    fn send_back(&self, index: u32) {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let job = &mut state.filling.jobs[index as usize];
        let number = job.number.take().expect("a job that ends has started");
        let (stream, block) = (job.stream, job.block);
        // Back into the buffer first: if the drive reaches its end of life below, these units still count as
        // unsaved.
        for slot in job.slots.drain(..) {
            state.buffer.send_back(slot, number);
        }
        state.filling.idle_jobs.push(index);
        let die = self.geometry.die_of_block(block);
        state.filling.in_flight[die as usize] -= 1;
        if state.blocks.opened(die, Lane::Host(stream)) == Some(block) {
            state.filling.lanes[usize::from(stream)].wordlines.abandon(die);
        }
        self.fail(state, block);
        // The failure destroyed these stripes too, although their own programs succeeded.
        let mut held = state.filling.lanes[usize::from(stream)].wordlines.take_held(die, block, 0..u32::MAX);
        for Held { number, slots, .. } in &mut held {
            slots.drain(..).for_each(|slot| state.buffer.send_back(slot, *number));
            self.close(state, block);
        }
        state.filling.lanes[usize::from(stream)].wordlines.give_back(held);
        self.close(state, block);
        state.refresh(die);
    }

    /// Counts a stripe without valid units as programmed.
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
            // Units without an entry are unmapped already; a host may deallocate terabytes of these.
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
        // In the same step as the map change: recovery must know of it before any superblock of these units
        // is erased.
        state.journal.add(first, end - first, state.buffer.counter());
        let parts = state.parts.drop_units(first..end);
        state.note_dropped(freed + parts);
        drop(guard);
        self.wake_frame_waiters();
        self.dropped(freed);
        if parts > 0 {
            self.signals.settled.notify_all();
        }
    }

    /// Releases the versions of a unit in buffer and flash; the caller changes the map entry. Returns the
    /// slots freed.
    fn drop_unit(&self, state: &mut State, lpa: u64, entry: Entry) -> u32 {
        let EntryKind::Slot(slot) = entry.kind() else {
            self.lose(state, lpa, entry);
            return 0;
        };
        let old = std::mem::replace(&mut state.buffer.slot_mut(slot).old, Entry::UNMAPPED);
        self.lose(state, lpa, old);
        if !state.buffer.waits(slot) {
            return 0; // in flight: stale when it is programmed
        }
        state.buffer.free(slot);
        1
    }

    /// Deallocates the whole drive without visiting each unit.
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
        self.wake_frame_waiters();
        self.dropped(freed);
        if parts > 0 {
            self.signals.settled.notify_all();
        }
        self.signals.collectors.iter().for_each(Notify::notify_one);
    }

    /// Slots were freed without a program, so no program's end will wake the tasks that wait for them.
    fn dropped(&self, slots: u32) {
        if slots > 0 {
            self.give_back(slots);
            self.signals.settled.notify_all();
        }
    }
}

impl State {
    /// Whether everything before this sequence number is on flash.
    fn is_durable(&self, target: u64) -> bool {
        self.buffer.settled() >= target && self.journal.durable_to() >= target
    }

    /// Whether a unit waits, and a die can take a stripe of its stream.
    pub(in crate::ftl) fn can_send(&self) -> bool {
        let mut lanes = (0..).zip(&self.filling.lanes);
        lanes.any(|(stream, lane)| self.buffer.waiting_in(stream) > 0 && !lane.ready.is_empty())
    }

    /// Notes that a deallocation, whose record is in the journal, has dropped waiting units.
    fn note_dropped(&mut self, units: u32) {
        if units > 0 {
            self.filling.dropped_to = self.buffer.next_sequence();
        }
    }

    /// Buffers a unit; the caller holds a credit. Returns the slot taken; None if the unit replaced one that
    /// waits.
    pub(in crate::ftl) fn buffer_unit(
        &mut self,
        lpa: u64,
        content: Content,
        io: u32,
        route: Route,
    ) -> Option<u32> {
        let State { map, buffer, streams, filling, .. } = self;
        let stream = streams.as_mut().map_or(0, |streams| streams.place_written(lpa));
        let entry = map.table.get(lpa);
        let slot = match entry.as_slot() {
            Some(index) if buffer.waits(index) => {
                let slot = buffer.slot_mut(index);
                (slot.content, slot.io, slot.route) = (content, io, route);
                buffer.move_to(index, stream);
                return None;
            }
            Some(slot) => {
                // The new slot inherits the version in flash, and will inherit the one in flight.
                debug_assert_eq!(buffer.slot(slot).lpa, lpa, "a map entry leads to a slot of its own unit");
                let before = buffer.slot_mut(slot);
                let old = std::mem::replace(&mut before.old, Entry::UNMAPPED);
                let old_sequence = before.old_sequence;
                buffer.take(stream, lpa, content, io, old, old_sequence)
            }
            None => {
                // Anything in flight for this unit is older than the map entry.
                let sequence = buffer.next_sequence();
                buffer.take(stream, lpa, content, io, entry, sequence)
            }
        };
        buffer.slot_mut(slot).route = route;
        if filling.lanes.len() > 1 {
            // Those of other streams may overtake it.
            buffer.slot_mut(slot).first_stripe = Some(filling.next_number);
        }
        map.table.set(lpa, Entry::slot(slot));
        Some(slot)
    }

    /// Buffers the present state of a translation page; the caller holds a credit. Returns whether it took a
    /// slot.
    pub(in crate::ftl) fn buffer_page(&mut self, page: u32, keep: Keep) -> bool {
        let unit = self.map.pages.unit(page);
        let (content, reflects) = self.capture(page, keep);
        let taken = self.buffer_unit(unit, content, UNTRACED, Route::OWN).is_some();
        if let Some(slot) = self.map.table.get(unit).as_slot() {
            self.buffer.slot_mut(slot).stamp = reflects;
        }
        taken
    }

    /// Counts the valid units that are not the host's, when no others are valid.
    fn count_own(&mut self, base: &BaseState, space: &Space) {
        let (first, count) = space.map;
        for lpa in first..first + count {
            match self.buffer.in_flash(self.map.table.get(lpa)).kind() {
                EntryKind::Base => base.block_of(lpa).into_iter().for_each(|block| self.blocks.gained(block)),
                EntryKind::Flash(ppa) => self.blocks.gained(self.blocks.block_of(ppa)),
                EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => {}
            }
        }
    }

    /// In a trace, charges the program to the I/Os that wrote its units, whichever task sends it. The current
    /// task works for them until its own I/Os are swapped back.
    #[cold]
    fn work_for_writers(&mut self, clock: &Clock, job: u32) {
        let slots = self.filling.jobs[job as usize].slots.iter().map(|slot| self.buffer.slot(*slot).io);
        self.filling.ios.clear();
        self.filling.ios.extend(slots.filter(|io| *io != UNTRACED));
        self.filling.ios.sort_unstable();
        self.filling.ios.dedup();
        clock.swap_ios(&mut self.filling.ios);
    }
}
