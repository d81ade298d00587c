//! The cached map: DRAM holds a limited number of translation pages, flash holds the others.
//!
//! The simulator always knows the location of every unit. The model covers which pages DRAM holds, which of
//! those differ from flash, and what that costs (the idea is from Gupta, Kim, Urgaonkar, "DFTL", ASPLOS
//! 2009). The flash address of each page is in a directory that DRAM holds as a whole: 4 bytes for 4 MiB of
//! units.
//!
//! - A command looks up each page of its units once. On a miss the page is read, and other commands that need
//!   it meanwhile wait for the same read. A page in which nothing was ever mapped needs no read.
//! - A page is loaded into the least recently used frame. If the page in it is dirty, it is buffered first,
//!   like a host unit; the *evictor* does so, a little ahead of need. If memory is lent, a copy of a clean
//!   page goes there, and is loaded from there later ([`lent`](super::lent)).
//! - Frames may lie in DRAM that peers lend ([`borrow`](super::borrow)). Recency alone decides which page is
//!   in which frame.
//! - A map entry changes when a program ends or garbage collection has moved a unit. Its page may have left
//!   the cache by then, or may never have been there: it is *away*. Its changes are remembered next to the
//!   cache, and applied when it is next read. When more pages are away than the cache holds, the *updater*
//!   reads and writes them back, at most one for each host unit programmed: a page that is written takes free
//!   space, so units are moved, which makes further pages away, without end where free space is scarce.
//!
//! There is no cycle of waits. A command waits for the cache before it holds buffer credits or a lock. It
//! waits for a flash read, or for the evictor; the evictor and the updater hold nothing while they wait for
//! credits; credits return when programs end; programs wait for free superblocks, which come from the
//! collectors, and those never wait for the cache. A flush waits for buffered units, and so for programs
//! only.
//!
//! What it does not do: a page that flash cannot deliver counts as read, and dirty (real firmware rebuilds it
//! from the spare areas of its units, or from parity). The DRAM for changes of pages that are away is
//! unlimited. The directory never leaves DRAM. Pages are loaded and written as a whole, and an entry covers
//! one unit.

#[cfg(doc)]
use crate::ftl::config::FtlConfig;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::inner::UnitLocation;
use crate::ftl::map::Cache;
use crate::ftl::map::frames::Origin;
use crate::ftl::map::table::EntryKind;
use crate::placement::{Route, WorkContext};
use byteway_clock::{Awaited, SpanId, Spans, Stage};
use byteway_flash::{Ppa, Priority, Ticket};
use std::rc::Rc;

/// Kind of access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Access {
    /// Entries of the page are read. For a void page the directory suffices.
    Read,
    /// Entries of the page will change.
    Change,
}

/// Result of a look-up of a page.
enum Look {
    /// Cached.
    Here,
    /// Being loaded: the frame, and the load's number.
    Coming(u32, u64),
    /// The page must be loaded into this frame: from flash, from the write buffer, or, for a void page,
    /// without a read.
    Load(u32, UnitLocation),
    /// No frame is available.
    Full,
}

/// A load in flight. If dropped early, its frame is freed.
struct Load<'a> {
    inner: &'a Inner,
    cache: &'a Cache,
    frame: u32,
    /// Number of this load among the loads of the frame.
    load: Option<u64>,
    is_done: bool,
}

impl Load<'_> {
    /// Completes the load. Returns false if the frame was lost, together with the peer that lent it.
    fn end(mut self, route: Route) -> bool {
        self.is_done = true;
        let mut state = self.inner.state.borrow_mut();
        if state.map.frames.load(self.frame) != self.load {
            return false;
        }
        if state.map.frames.segment(self.frame).is_some() {
            self.inner.enter_segment(&mut state, self.frame, route);
        }
        state.map.frames.loaded(self.frame);
        true
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.inner.state.borrow_mut();
            if state.map.frames.load(self.frame) == self.load {
                let page = state.map.frames.abandoned(self.frame);
                state.map.pages.hold(page, false);
            }
        }
        self.cache.loaded(self.frame).notify_all();
        if self.cache.frame_available.waiting() > 0 {
            self.cache.frame_available.notify_one();
        }
        if self.inner.to_evict(self.cache).is_some() {
            self.cache.evictor.notify_one();
        }
    }
}

impl Ftl {
    /// Waits until the pages of `count` units from `first` have been cached, each looked up once; `last` is
    /// the page that the command looked up last.
    pub(in crate::ftl) async fn pages(
        &self,
        context: WorkContext,
        spans: &Spans,
        first: u64,
        count: u32,
        last: &mut Option<u32>,
    ) {
        let space = self.0.space;
        for page in space.page_of(first)..=space.page_of(first + u64::from(count) - 1) {
            if last.replace(page) != Some(page) {
                self.page(context, spans, page, Access::Change).await;
            }
        }
    }

    /// Like [`pages`](Inner::pages), for the pages of which a deallocation leaves some units mapped.
    pub(in crate::ftl) async fn pages_in_part(&self, span: SpanId, spans: &Spans, first: u64, end: u64) {
        let user = self.0.config.user_units;
        let space = self.0.space;
        let page = |unit: u64| space.page_of(unit);
        let (begins, ends) =
            (first.is_multiple_of(space.page_units()), end.is_multiple_of(space.page_units()) || end == user);
        if end > first && !begins {
            self.page(span.into(), spans, page(first), Access::Change).await;
        }
        if end > first && !ends && (begins || page(first) != page(end)) {
            self.page(span.into(), spans, page(end), Access::Change).await;
        }
    }

    /// Waits until a page is cached. It stays so until the caller's next wait, or was so when the caller's
    /// turn came.
    ///
    /// A flash read, if needed, is charged as such, and the wait for a frame as queueing. A page in a peer's
    /// DRAM transfers one line from there, charged as DRAM.
    pub(in crate::ftl) async fn page(&self, context: WorkContext, spans: &Spans, page: u32, access: Access) {
        let inner = &*self.0;
        let span = context.span;
        let Some(cache) = &inner.cache else { return };
        if let Some(monitor) = &*cache.monitor.borrow() {
            monitor.look_up(page);
        }
        let mut has_waited = false;
        loop {
            let look = inner.look(page, access);
            if has_waited && !matches!(look, Look::Full | Look::Load(..)) {
                cache.frame_available.notify_one(); // another page can have the frame
            }
            inner.state.borrow_mut().count_look(&look, has_waited);
            match look {
                Look::Here => {}
                Look::Load(frame, from) => {
                    if !self.load(context, spans, page, frame, from).await {
                        continue; // the frame was lost: look the page up again
                    }
                    if inner.is_borrowed(page) {
                        inner.wait_for_flush(span, spans, page, access).await;
                    }
                    return;
                }
                Look::Coming(frame, load) => {
                    while inner.state.borrow().map.frames.load(frame) == Some(load) {
                        cache.loaded(frame).notified().await;
                    }
                    spans.charge(span, inner.clock.now(), Stage::Flash);
                }
                Look::Full => {
                    has_waited = true;
                    cache.evictor.notify_one();
                    cache.frame_available.notified().await;
                    spans.wait(span, inner.clock.now(), Awaited::MapFrame);
                    continue;
                }
            }
            if !inner.is_borrowed(page) {
                return;
            }
            if inner.reach(context, spans, page).await {
                return inner.wait_for_flush(span, spans, page, access).await;
            }
            // The lender is lost, and the page with it: retry.
        }
    }

    /// Reads a page into a frame that is loading. False if the frame is lost, together with the peer that
    /// lent it.
    async fn load(
        &self,
        context: WorkContext,
        spans: &Spans,
        page: u32,
        frame: u32,
        from: UnitLocation,
    ) -> bool {
        let (inner, span) = (&*self.0, context.span);
        let Some(cache) = &inner.cache else { return true };
        let (load, is_borrowed) = {
            let frames = &inner.state.borrow().map.frames;
            (frames.load(frame), frames.segment(frame).is_some())
        };
        let load = Load { inner, cache, frame, load, is_done: false };
        match from {
            UnitLocation::Nowhere => {}
            UnitLocation::Buffered(_) => self.leave_buffer(span.into(), spans, 1).await,
            UnitLocation::Flash(_) if self.0.load_copy(span, spans, page).await => {}
            UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => {
                let ticket = inner.flash.ticket();
                inner.read_page(ppa, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_waits(span, inner.clock.now(), outcome.waits(), Stage::Flash);
                inner.command_reads(span, spans, 1).await;
                if outcome.failed {
                    inner.state.borrow_mut().rebuild(page);
                }
            }
        }
        if is_borrowed {
            inner.fill_borrowed(span, spans, frame).await;
        }
        let is_there = load.end(context.route);
        if is_borrowed && is_there {
            inner.pay_for_commits().await;
        }
        is_there
    }

    /// Translation pages in DRAM, for a cached map.
    pub fn map_pages_held(&self) -> u32 {
        self.0.state.borrow().map.frames.oldest().count() as u32
    }

    /// Frames for translation pages in DRAM; None if it holds the whole map.
    pub fn map_frames(&self) -> Option<u32> {
        self.0.cache.as_ref().map(|_| self.0.state.borrow().map.frames.most())
    }

    /// Translation pages of the map.
    pub fn map_pages(&self) -> u32 {
        self.0.state.borrow().map.pages.count()
    }

    /// Translation pages of a segment, the unit in which DRAM for the map is taken and given up.
    pub fn map_segment_pages(&self) -> u32 {
        self.0.config.map_segment_pages
    }

    /// Adds own DRAM for `segments` segments of [`FtlConfig::map_segment_pages`], from a peer or back from
    /// one. No effect if DRAM holds the whole map.
    pub fn take_map_segments(&self, segments: u32) {
        let Some(cache) = &self.0.cache else { return };
        {
            let frames = &mut self.0.state.borrow_mut().map.frames;
            frames.resize(
                frames.own().saturating_add(segments.saturating_mul(self.0.config.map_segment_pages)),
            );
        }
        cache.frame_available.notify_all();
    }

    /// Gives up own DRAM of up to `segments` segments; a frame for one page remains. The pages in it are
    /// evicted, the dirty ones once they are buffered, while I/O continues. When this ends the DRAM is
    /// unused; returns the number of segments. If dropped early, the frames take no other pages, and their
    /// present pages stay.
    pub async fn give_up_map_segments(&self, segments: u32) -> u32 {
        let inner = &*self.0;
        let Some(cache) = &inner.cache else { return 0 };
        let given = {
            let frames = &mut inner.state.borrow_mut().map.frames;
            let given = segments.min(frames.own().saturating_sub(1) / inner.config.map_segment_pages.max(1));
            frames.resize(frames.own() - given * inner.config.map_segment_pages);
            given
        };
        loop {
            let (frame, page, load, is_dirty) = {
                let mut state = inner.state.borrow_mut();
                let Some((frame, page)) = state.map.frames.next_to_leave() else { break };
                (frame, page, state.map.frames.load(frame), state.map.pages.is_dirty(page))
            };
            match load {
                Some(load) => {
                    while inner.state.borrow().map.frames.load(frame) == Some(load) {
                        cache.loaded(frame).notified().await;
                    }
                }
                None if is_dirty => {
                    inner
                        .clean(cache, || {
                            let mut state = inner.state.borrow_mut();
                            let goes = state.map.frames.next_to_leave() == Some((frame, page));
                            (goes && state.map.pages.is_dirty(page)).then_some(page)
                        })
                        .await
                }
                None => {
                    let mut state = inner.state.borrow_mut();
                    state.map.frames.drop_page(frame);
                    state.map.pages.hold(page, false);
                    inner.copy_out(&mut state, page);
                }
            }
        }
        given
    }

    /// Translation pages that lie in flash.
    pub fn map_pages_in_flash(&self) -> u64 {
        let state = self.0.state.borrow();
        let lies =
            |page: &u32| match state.buffer.in_flash(state.map.table.get(state.map.pages.unit(*page))).kind()
            {
                EntryKind::Base => self.0.base.find(state.map.pages.unit(*page)).is_some(),
                place => matches!(place, EntryKind::Flash(_)),
            };
        (0..state.map.pages.count()).filter(lies).count() as u64
    }
}

impl Inner {
    /// Looks a page up, and starts to load it on a miss if possible.
    fn look(&self, page: u32, access: Access) -> Look {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if let Some(frame) = state.map.frames.find(page) {
            if let Some(load) = state.map.frames.load(frame) {
                return Look::Coming(frame, load);
            }
            state.map.frames.touch(frame);
            return Look::Here;
        }
        let is_void = state.map.pages.is_void(page);
        let from = if is_void {
            UnitLocation::Nowhere
        } else {
            state.find_beneath(&self.base, state.map.pages.unit(page))
        };
        let is_empty = is_void || matches!(from, UnitLocation::Nowhere) && !state.map.pages.is_dirty(page);
        if is_empty && access == Access::Read {
            return Look::Here;
        }
        let frame = match state.map.frames.begin(page) {
            Some(frame) => frame,
            None => {
                let clean = |page: &u32| !state.map.pages.is_dirty(*page);
                let Some(victim) = state.map.frames.oldest().next().filter(clean) else { return Look::Full };
                state.map.frames.drop_oldest();
                state.map.pages.hold(victim, false);
                self.copy_out(state, victim);
                let Some(frame) = state.map.frames.begin(page) else { return Look::Full };
                frame
            }
        };
        state.map.pages.hold(page, true);
        if state.map.frames.segment(frame).is_some() {
            state.map.frames.set_origin(frame, Origin { since: 0, is_void });
        }
        Look::Load(frame, from)
    }

    /// Wakes commands that wait for a frame: frames in peers' DRAM may have become free by other means than a
    /// load or an eviction.
    pub(in crate::ftl) fn wake_frame_waiters(&self) {
        if let Some(cache) = &self.cache
            && self.state.borrow().map.segments.is_some()
        {
            cache.frame_available.notify_all();
        }
    }

    /// Submits the read of a translation page.
    fn read_page(&self, ppa: Ppa, ticket: &Ticket) {
        let mask = 1 << self.geometry.unit_of_stripe(ppa);
        self.flash.submit_read(ppa, mask, Priority::Map, ticket);
        self.state.borrow_mut().counters.map_reads += 1;
    }

    /// Reads those of the pages that are away, which must precede their write. Charges no span.
    pub(in crate::ftl) async fn read_away(&self, pages: &[u32]) {
        let (mut ticket, mut read) = (None, 0);
        for page in pages {
            let found = {
                let state = self.state.borrow();
                if !state.map.pages.is_away(*page) {
                    continue;
                }
                state.find(&self.base, state.map.pages.unit(*page))
            };
            if let UnitLocation::Flash(ppa) = found {
                self.read_page(ppa, ticket.get_or_insert_with(|| self.flash.ticket()));
                read += 1;
            }
        }
        let Some(ticket) = ticket else { return };
        let outcome = ticket.wait().await;
        self.command_reads(SpanId::NONE, self.clock.spans(), read).await;
        // They are dirty, and are written back in any case.
        self.state.borrow_mut().counters.map_reads_failed += u64::from(outcome.unreadable);
    }

    /// The page that the evictor writes next: a dirty one among the next to be evicted.
    fn to_evict(&self, cache: &Cache) -> Option<u32> {
        let state = self.state.borrow();
        let ahead = (state.map.frames.most() / 8).min(cache.ahead_most) as usize;
        let next = ahead.max(cache.frame_available.waiting());
        if !state.map.frames.is_full() {
            return None;
        }
        state.map.frames.oldest().take(next).find(|page| state.map.pages.is_dirty(*page))
    }

    /// Buffers a dirty page, so that it can be evicted: the page that `wanted` returns once there is a slot,
    /// if any.
    pub(super) async fn clean(&self, cache: &Cache, wanted: impl Fn() -> Option<u32>) {
        let permit = self.slots(1).await;
        let Some(page) = wanted() else { return };
        if permit.is_ok() && !self.read_back(page).await {
            return;
        }
        let mut state = self.state.borrow_mut();
        let Ok(permit) = permit else {
            // At the end of life: recovery needs no such page as long as no further checkpoint is written.
            state.checkpoints.is_over = true;
            state.map.written(page);
            cache.frame_available.notify_one();
            return;
        };
        state.counters.map_evictions_dirty += 1;
        let taken = state.buffer_page(page, self.config.keep);
        drop(state);
        permit.forget();
        self.give_back(u32::from(!taken));
        cache.frame_available.notify_one();
        self.dispatch();
    }

    /// Collects the pages that the updater writes next.
    fn to_update(&self, pages: &mut Vec<u32>) {
        let mut state = self.state.borrow_mut();
        let surplus = state.map.pages.away().saturating_sub(state.map.frames.most().into());
        let count = surplus.min(state.map.updates).min(u64::from(self.geometry.units_per_stripe()));
        state.map.updates -= count;
        pages.clear();
        pages.extend((0..count).map_while(|_| state.map.pages.next_away()));
        pages.sort_unstable();
        pages.dedup();
    }

    /// Wakes the updater if pages that are away should be written.
    pub(in crate::ftl) fn call_updater(&self) {
        if let Some(cache) = &self.cache {
            cache.updater.notify_one();
            if self.state.borrow().map.segments.is_some() {
                cache.flusher.notify_one();
            }
        }
    }
}

impl State {
    fn count_look(&mut self, look: &Look, has_waited: bool) {
        let counters = &mut self.counters;
        match look {
            Look::Here if !has_waited => counters.map_hits += 1,
            Look::Here | Look::Coming(..) => counters.map_misses_shared += 1,
            Look::Load(..) => counters.map_misses += 1,
            Look::Full => {}
        }
    }

    /// Allows the updater `units` more pages, the number of programmed host units. Returns whether any page
    /// is away.
    pub(in crate::ftl) fn allow_updates(&mut self, units: u64) -> bool {
        self.map.updates = (self.map.updates + units).min(UPDATES_MOST);
        let has_full = self.map.segments.as_mut().is_some_and(|segments| segments.allow_flushes(units));
        self.map.pages.away() > 0 || has_full
    }

    /// Marks a page that flash could not deliver for rewriting.
    fn rebuild(&mut self, page: u32) {
        self.counters.map_reads_failed += 1;
        self.map.pages.changed(self.map.pages.units(page).start);
    }
}

/// Maximum allowance that the updater saves up for a burst.
const UPDATES_MOST: u64 = 4096;

/// The evictor: writes dirty pages before their frames are needed.
pub(in crate::ftl) async fn evict(inner: Rc<Inner>) {
    let Some(cache) = &inner.cache else { return };
    loop {
        if inner.to_evict(cache).is_none() {
            // Another task has cleaned the frame already without waking the commands that wait for one.
            if cache.frame_available.waiting() > 0
                && inner.state.borrow().map.frames.oldest().next().is_some()
            {
                cache.frame_available.notify_one();
            }
            cache.evictor.notified().await;
            continue;
        }
        inner.clean(cache, || inner.to_evict(cache)).await;
    }
}

/// The updater: reads and writes pages that changed while they were away.
pub(in crate::ftl) async fn update(inner: Rc<Inner>) {
    let Some(cache) = &inner.cache else { return };
    let mut pages = Vec::with_capacity(inner.geometry.units_per_stripe() as usize);
    loop {
        inner.to_update(&mut pages);
        if pages.is_empty() {
            cache.updater.notified().await;
            continue;
        }
        inner.read_away(&pages).await;
        for page in &pages {
            let Ok(permit) = inner.slots(1).await else { return };
            let mut state = inner.state.borrow_mut();
            // During the read a command may have loaded the page, or a deallocation emptied it.
            if !state.map.pages.is_away(*page) {
                continue;
            }
            state.counters.map_updates += 1;
            let taken = state.buffer_page(*page, inner.config.keep);
            drop(state);
            permit.forget();
            inner.give_back(u32::from(!taken));
            inner.dispatch();
        }
    }
}
