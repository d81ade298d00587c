//! The cached map: so many translation pages are in DRAM, the others in flash.
//!
//! The simulator always knows where every unit is. What is modelled is which pages the DRAM holds, which of those differ
//! from what flash has, and what that costs (Gupta, Kim, Urgaonkar, "DFTL", ASPLOS 2009, is where the idea is from).
//! Where each page lies is in a directory, which is in DRAM as a whole: 4 bytes for 4 MiB of units.
//!
//! - A command looks each page up that its units are in, once. If it is not there it is read, and whoever wants the same
//!   page meanwhile waits for the same read. A page in which nothing was ever mapped is read from nowhere.
//! - It takes the place of the one that was used least recently. If that is dirty, it is buffered first, like a unit of
//!   the host's. The *evictor* does so, and a little ahead of need.
//!   Where memory is lent, a copy of a clean one goes there, and is loaded instead ([`lent`](super::lent)).
//! - Places may lie in DRAM that peers lend ([`borrow`](super::borrow)); which page is in which place is by last use alone.
//! - A map entry changes when a program ends or a collector has moved a unit. The page may have left the cache by then,
//!   or may never have been there: it is *away*. What has changed is remembered beside the cache, and is in the page
//!   when it is read next. When more pages than the cache holds are away, the *updater* reads and writes them.
//!   It has no more than one turn for each unit that the host had programmed: a page that is written makes room
//!   necessary, that moves units, and that makes pages away, without end where free space is scarce.
//!
//! Nobody waits in a circle. A command waits for the cache before it has credits for the buffer or a lock. It waits for
//! a read of flash, or for the evictor; the evictor and the updater hold nothing while they wait for credits; credits
//! come back when programs end; programs wait for free superblocks, and these come from the collectors, which never
//! wait for the cache. A flush waits for what is buffered, and so for programs alone.
//!
//! What it does not do: a page that flash can't give is there all the same, and dirty (real firmware puts it together
//! again from the spare areas of what it points to, or from parity); the DRAM that remembers changes of pages that are away is not limited; the directory never
//! leaves DRAM; pages are loaded and written as wholes, and an entry is of one unit.

#[cfg(doc)]
use crate::ftl::config::FtlConfig;
use crate::ftl::inner::Found;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::map::Cache;
use crate::ftl::map::frames::Origin;
use crate::ftl::map::table::Place;
use crate::placement::{Errand, Route};
use byteway_clock::{SpanId, Spans, Stage};
use byteway_flash::{Ppa, Priority, Ticket};
use std::rc::Rc;

/// How a page is to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Access {
    /// Its entries are looked at. Of a page with none, the directory says so.
    Read,
    /// They will change.
    Change,
}

/// What a look for a page has found.
enum Look {
    /// It is there.
    Here,
    /// It is being read: in this frame, by the load of this number.
    Coming(u32, u64),
    /// It is to be loaded into this frame, from a place in flash, the buffer, or nowhere.
    Room(u32, Found),
    /// There is no place for it.
    Full,
}

/// A load under way. Dropped early, its frame is free again.
struct Load<'a> {
    inner: &'a Inner,
    cache: &'a Cache,
    frame: u32,
    /// Of the frame, by its number.
    load: Option<u64>,
    is_done: bool,
}

impl Load<'_> {
    /// The page is there. False: its place is gone, with the peer that lent it.
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
        if self.cache.room.waiting() > 0 {
            self.cache.room.notify_one();
        }
        if self.inner.to_evict(self.cache).is_some() {
            self.cache.evictor.notify_one();
        }
    }
}

impl Ftl {
    /// Waits until the pages of `count` units from `first` have been in DRAM, each looked up once; `last` is the one
    /// that the command looked up last.
    pub(in crate::ftl) async fn pages(
        &self,
        errand: Errand,
        spans: &Spans,
        first: u64,
        count: u32,
        last: &mut Option<u32>,
    ) {
        let space = self.0.space;
        for page in space.page_of(first)..=space.page_of(first + u64::from(count) - 1) {
            if last.replace(page) != Some(page) {
                self.page(errand, spans, page, Access::Change).await;
            }
        }
    }

    /// The same for those pages of units that are deallocated of which something stays.
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

    /// Waits until a page is in DRAM. It is from then on until the caller waits again, or was when its turn came.
    ///
    /// Charges what a read of flash takes, if there has to be one, and waiting for a place as queueing. Of a page in a peer's DRAM it
    /// is one line that comes from there, charged as DRAM.
    pub(in crate::ftl) async fn page(&self, errand: Errand, spans: &Spans, page: u32, access: Access) {
        let inner = &*self.0;
        let span = errand.span;
        let Some(cache) = &inner.cache else { return };
        if let Some(monitor) = &*cache.monitor.borrow() {
            monitor.look_up(page);
        }
        let mut has_waited = false;
        loop {
            let look = inner.look(page, access);
            if has_waited && !matches!(look, Look::Full | Look::Room(..)) {
                cache.room.notify_one(); // the place is for another one
            }
            inner.state.borrow_mut().count_look(&look, has_waited);
            match look {
                Look::Here => {}
                Look::Room(frame, from) => {
                    if !self.load(errand, spans, page, frame, from).await {
                        continue; // its place is gone
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
                    cache.room.notified().await;
                    spans.charge(span, inner.clock.now(), Stage::Queueing);
                    continue;
                }
            }
            if !inner.is_borrowed(page) {
                return;
            }
            if inner.reach(errand, spans, page).await {
                return inner.wait_for_flush(span, spans, page, access).await;
            }
            // The lender is gone, and the page with it.
        }
    }

    /// Reads a page into a frame that waits for it. False: the frame is gone, with the peer that lent it.
    async fn load(&self, errand: Errand, spans: &Spans, page: u32, frame: u32, from: Found) -> bool {
        let (inner, span) = (&*self.0, errand.span);
        let Some(cache) = &inner.cache else { return true };
        let (load, is_borrowed) = {
            let frames = &inner.state.borrow().map.frames;
            (frames.load(frame), frames.segment(frame).is_some())
        };
        let load = Load { inner, cache, frame, load, is_done: false };
        match from {
            Found::Nowhere => {}
            Found::Buffered(_) => self.leave_buffer(span.into(), spans, 1).await,
            Found::Flash(_) if self.0.load_copy(span, spans, page).await => {}
            Found::Flash(ppa) | Found::Under(ppa, _) => {
                let ticket = inner.flash.ticket();
                inner.read_page(ppa, &ticket);
                let outcome = ticket.wait().await;
                spans.charge_split(span, inner.clock.now(), outcome.queued, Stage::Flash);
                inner.command_reads(span, spans, 1).await;
                if outcome.failed {
                    inner.state.borrow_mut().rebuild(page);
                }
            }
        }
        if is_borrowed {
            inner.fill_borrowed(span, spans, frame).await;
        }
        let is_there = load.end(errand.route);
        if is_borrowed && is_there {
            inner.pay_for_commits().await;
        }
        is_there
    }

    /// Translation pages that are in DRAM, of a cached map.
    pub fn map_pages_held(&self) -> u32 {
        self.0.state.borrow().map.frames.oldest().count() as u32
    }

    /// Translation pages that the DRAM has places for; none where it holds the whole map.
    pub fn map_frames(&self) -> Option<u32> {
        self.0.cache.as_ref().map(|_| self.0.state.borrow().map.frames.most())
    }

    /// Translation pages in all.
    pub fn map_pages(&self) -> u32 {
        self.0.state.borrow().map.pages.count()
    }

    /// Translation pages of a segment, in which DRAM for the map is taken and given up.
    pub fn map_segment_pages(&self) -> u32 {
        self.0.config.map_segment_pages
    }

    /// DRAM for so many more segments of [`FtlConfig::map_segment_pages`] has come: from a peer, or back from one.
    /// Where the DRAM holds the whole map, nothing comes of it.
    pub fn take_map_segments(&self, segments: u32) {
        let Some(cache) = &self.0.cache else { return };
        {
            let frames = &mut self.0.state.borrow_mut().map.frames;
            frames.resize(
                frames.own().saturating_add(segments.saturating_mul(self.0.config.map_segment_pages)),
            );
        }
        cache.room.notify_all();
    }

    /// Gives own DRAM of so many segments up, or of fewer: a place for one page is left. The pages in it leave, the dirty ones
    /// when they are buffered; I/O goes on meanwhile. When this ends nothing is in it any more; it gives how many segments
    /// those are. Dropped early, the places are not used for other pages, and the ones that are in them stay.
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
        let lies = |page: &u32| match state
            .buffer
            .in_flash(state.map.table.get(state.map.pages.unit(*page)))
            .place()
        {
            Place::Base => self.0.base.find(state.map.pages.unit(*page)).is_some(),
            place => matches!(place, Place::Flash(_)),
        };
        (0..state.map.pages.count()).filter(lies).count() as u64
    }
}

impl Inner {
    /// Looks for a page, and begins to load it if it is not there and can be.
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
        let from =
            if is_void { Found::Nowhere } else { state.find_beneath(&self.base, state.map.pages.unit(page)) };
        let is_empty = is_void || matches!(from, Found::Nowhere) && !state.map.pages.is_dirty(page);
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
        Look::Room(frame, from)
    }

    /// Places in peers' DRAM may be free that were not freed by a load or an eviction.
    pub(in crate::ftl) fn call_for_room(&self) {
        if let Some(cache) = &self.cache
            && self.state.borrow().map.segments.is_some()
        {
            cache.room.notify_all();
        }
    }

    /// Submits the read of a translation page.
    fn read_page(&self, ppa: Ppa, ticket: &Ticket) {
        let mask = 1 << self.geometry.unit_of_stripe(ppa);
        self.flash.submit_read(ppa, mask, Priority::Map, ticket);
        self.state.borrow_mut().counters.map_reads += 1;
    }

    /// Reads those of the pages that are away, as is to be done before they are written. Charges no span.
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
            if let Found::Flash(ppa) = found {
                self.read_page(ppa, ticket.get_or_insert_with(|| self.flash.ticket()));
                read += 1;
            }
        }
        let Some(ticket) = ticket else { return };
        let outcome = ticket.wait().await;
        self.command_reads(SpanId::NONE, self.clock.spans(), read).await;
        // They are dirty, and written anew in any case.
        self.state.borrow_mut().counters.map_reads_failed += u64::from(outcome.unreadable);
    }

    /// The page that the evictor writes next: one of the next to go, if it is dirty.
    fn to_evict(&self, cache: &Cache) -> Option<u32> {
        let state = self.state.borrow();
        let ahead = (state.map.frames.most() / 8).min(cache.ahead_most) as usize;
        let next = ahead.max(cache.room.waiting());
        if !state.map.frames.is_full() {
            return None;
        }
        state.map.frames.oldest().take(next).find(|page| state.map.pages.is_dirty(*page))
    }

    /// Buffers a dirty page, so that it can leave: the one that is `wanted` when there is a slot for it, if there is one then.
    pub(super) async fn clean(&self, cache: &Cache, wanted: impl Fn() -> Option<u32>) {
        let permit = self.slots(1).await;
        let Some(page) = wanted() else { return };
        if permit.is_ok() && !self.read_back(page).await {
            return;
        }
        let mut state = self.state.borrow_mut();
        let Ok(permit) = permit else {
            // At the end of life: recovery finds what it says without it, as long as no checkpoint comes any more.
            state.checkpoints.is_over = true;
            state.map.written(page);
            cache.room.notify_one();
            return;
        };
        state.counters.map_evictions_dirty += 1;
        let taken = state.buffer_page(page, self.config.keep);
        drop(state);
        permit.forget();
        self.give_back(u32::from(!taken));
        cache.room.notify_one();
        self.dispatch();
    }

    /// The pages that the updater writes next.
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

    /// Pages may be away that are to be written.
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
            Look::Room(..) => counters.map_misses += 1,
            Look::Full => {}
        }
    }

    /// So many units of the host's have been programmed: as many pages that are away may be. Whether there are any.
    pub(in crate::ftl) fn allow_updates(&mut self, units: u64) -> bool {
        self.map.updates = (self.map.updates + units).min(UPDATES_MOST);
        let has_full = self.map.segments.as_mut().is_some_and(|segments| segments.allow_flushes(units));
        self.map.pages.away() > 0 || has_full
    }

    /// Flash could not give a page: it is to be written anew.
    fn rebuild(&mut self, page: u32) {
        self.counters.map_reads_failed += 1;
        self.map.pages.changed(self.map.pages.units(page).start);
    }
}

/// How many turns the updater saves up for a burst.
const UPDATES_MOST: u64 = 4096;

/// The task that writes dirty pages before their places are needed.
pub(in crate::ftl) async fn evict(inner: Rc<Inner>) {
    let Some(cache) = &inner.cache else { return };
    loop {
        if inner.to_evict(cache).is_none() {
            // Clean already, by somebody else's doing: nobody has told those who wait.
            if cache.room.waiting() > 0 && inner.state.borrow().map.frames.oldest().next().is_some() {
                cache.room.notify_one();
            }
            cache.evictor.notified().await;
            continue;
        }
        inner.clean(cache, || inner.to_evict(cache)).await;
    }
}

/// The task that reads and writes pages that have changed while they were away.
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
            // The host may have asked for it meanwhile, or deallocated all that is in it.
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
