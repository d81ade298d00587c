//! DRAM that peers lend for the cached map ("Espresso", 4.5): segments of additional frames, reached over a
//! fabric.
//!
//! A page in such a frame is lost together with its lender, and is not protected at a power cut. Therefore:
//!
//! - **Access.** Accessing an entry transfers its line over the fabric to the cores that do the work: the
//!   drive's own, or a lender's for work by its route; work at the lender itself crosses nothing. A page that
//!   is loaded is sent there, and a dirty one is read back before it is captured for flash.
//! - **Change.** A change of an entry is committed to the log page of its segment, in the drive's own DRAM,
//!   at the point where the entry changes: when a program ends, when garbage collection has moved a unit,
//!   when units are deallocated, and when a page is loaded that has changed while it was not cached. The cost
//!   is paid afterwards, on the cores that wrote the unit: one line to the log if those are a lender's, and
//!   one to the entry. Writers and collectors do not wait for the log.
//! - **Full log.** When the log is full, the segment is flushed: its dirty pages are captured one after the
//!   other, and the log is cleared. Meanwhile changes wait next to it ([`segments`](super::segments)), and a
//!   command that is about to change an entry there waits for the end of the flush.
//! - **Lost lender.** A lender's segments are lost with it. The map of each page is then rebuilt from the
//!   copy in flash, or in the write buffer on its way there, with the log records replayed over it, by their
//!   bytes. Such a page is *away*, like one that has changed while it was not cached: the log records have
//!   become its remembered changes.
//!
//! There is no cycle of waits. A command waits for a flush before it holds credits or a lock, and for one
//! flush, not for free log records. The flusher waits for credits and for the fabric, and for the latter only
//! until the link is back or the lender is declared lost; programs and collectors wait for neither. Nor does
//! flushing feed itself: a flushed page takes free space, so units are moved to free more, which fills logs.
//! It is therefore limited to one page for each host unit, as the updater is, or to what a waiting command
//! needs.
//!
//! A power cut of the borrower needs neither the lender nor the log: recovery finds everything programmed
//! since the last root in spare areas (`durable::recover`), wherever the page of its entry was.
//!
//! Recovery of a page after the loss of its segment: [`restore`](super::restore).
//!
//! What it does not do: it does not detect the loss of a lender, but must be notified. The log pages, one for
//! about five hundred pages of the cache, take no frame of it. At the end of life nothing is flushed any
//! more.

use crate::ftl::config::InjectedDefect;
use crate::ftl::inner::{Ftl, Inner};
use crate::ftl::map::cache::Access;
use crate::ftl::map::segments::{BorrowFigures, Lender, LenderId, Segments, Unpaid};
use crate::ftl::map::{Cache, MapMonitor};
use crate::placement::{LinkDirection, Route, SiteLink, WorkContext};
use crate::work::WorkKind;
use byteway_clock::{Awaited, Delay, Notify, SpanId, Spans, Stage};
use byteway_content::UNIT_BYTES;
use std::rc::Rc;

/// Time after which an unsendable message is retried; meanwhile the drive may learn that the lender is lost.
const RETRY: Delay = Delay::from_us(10);

impl Ftl {
    /// Borrows a peer's DRAM for `segments` segments of
    /// [`FtlConfig::map_segment_pages`](crate::FtlConfig::map_segment_pages), to hold pages of the map.
    /// Returns the number taken: none if the drive's own DRAM holds the whole map, or its flash is across a
    /// link.
    pub fn borrow_segments(&self, lender: &Lender, segments: u32) -> u32 {
        let inner = &self.0;
        let Some(cache) = inner.cache.as_ref().filter(|_| inner.flash.own().is_some()) else { return 0 };
        {
            let mut guard = inner.state.borrow_mut();
            let map = &mut guard.map;
            if map.segments.is_none() {
                inner.tasks.borrow_mut().push(inner.clock.spawn("map flusher", flush(inner.clone())));
            }
            let borrowed = map.segments.get_or_insert_with(|| Box::new(Segments::new(inner.config.canary)));
            let pages = inner.config.map_segment_pages;
            for _ in 0..segments {
                borrowed.add(lender, |number| map.frames.add_segment(number, pages));
            }
        }
        cache.frame_available.notify_all();
        segments
    }

    /// Returns up to `segments` segments to their lender. Their pages are evicted, the dirty ones after a
    /// read back, while I/O continues. When this ends the segments are unused for good, and their number is
    /// returned; fewer than requested if some were lost meanwhile. If dropped early, the segments take no
    /// further pages, and the next call returns them first.
    pub async fn give_back_segments(&self, lender: LenderId, segments: u32) -> u32 {
        let inner = &*self.0;
        let Some(cache) = &inner.cache else { return 0 };
        let chosen = {
            let mut guard = inner.state.borrow_mut();
            let map = &mut guard.map;
            let Some(borrowed) = &mut map.segments else { return 0 };
            let leaving = borrowed.of(lender).filter(|(_, segment)| segment.is_leaving);
            let staying = borrowed.of(lender).rev().filter(|(_, segment)| !segment.is_leaving);
            let chosen = leaving.chain(staying).take(segments as usize).map(|(number, _)| number);
            let chosen: Vec<u32> = chosen.collect();
            for number in &chosen {
                if let Some(segment) = borrowed.get_mut(*number) {
                    segment.is_leaving = true;
                    map.frames.close_segment(&segment.frames);
                }
            }
            chosen
        };
        let mut given = 0;
        for number in chosen {
            given += u32::from(inner.empty_segment(cache, number).await);
        }
        given
    }

    /// Declares a lender lost together with its DRAM, and recovers the pages of its segments. Returns the
    /// number of segments.
    ///
    /// Takes [`WorkKind::Translate`] for each replayed record, queued behind the work of commands.
    pub fn lose_segments(&self, lender: LenderId) -> u32 {
        let inner = &*self.0;
        let Some(cache) = &inner.cache else { return 0 };
        let Some(flash) = inner.flash.own() else { return 0 };
        let (lost, replayed) = {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            let Some(mut segments) = state.map.segments.take() else { return 0 };
            let numbers: Vec<u32> = segments.of(lender).map(|(number, _)| number).collect();
            let before = segments.figures.records_replayed;
            for number in &numbers {
                let Some(segment) = segments.remove(*number) else { continue };
                inner.lose_segment(state, flash, &segment, &mut segments.figures);
            }
            let replayed = segments.figures.records_replayed - before;
            segments.figures.segments_lost += numbers.len() as u64;
            state.map.segments = Some(segments);
            (numbers.len() as u32, replayed)
        };
        inner.placement.reserve(WorkKind::Translate, replayed);
        cache.loaded.iter().for_each(Notify::notify_all);
        cache.frame_available.notify_all();
        cache.flushed.notify_all();
        cache.evictor.notify_one();
        lost
    }

    /// Number of segments borrowed from each lender, in order of lenders; includes segments that are being
    /// returned.
    pub fn segments_borrowed(&self) -> Vec<(LenderId, u32)> {
        let state = self.0.state.borrow();
        state.map.segments.iter().flat_map(|segments| segments.counts()).collect()
    }

    /// Statistics of borrowed segments.
    pub fn borrow_figures(&self) -> BorrowFigures {
        self.0.state.borrow().map.segments.as_ref().map_or_else(Default::default, |it| it.figures)
    }

    /// Reports each translation page that a command looks up to `monitor`; None stops it. Returns false if
    /// DRAM holds the whole map, so that no page is looked up.
    pub fn monitor_map(&self, monitor: Option<Rc<dyn MapMonitor>>) -> bool {
        self.0.cache.as_ref().map(|cache| cache.monitor.replace(monitor)).is_some()
    }
}

/// Counts a command that waits for the flush of a segment, until dropped.
struct Waiting<'a>(&'a Inner, u32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if let Some(segment) = state.map.segments.as_mut().and_then(|segments| segments.get_mut(self.1)) {
            segment.wanted -= 1;
        }
    }
}

impl Inner {
    /// Whether a page lies in a peer's DRAM.
    #[inline]
    pub(super) fn is_borrowed(&self, page: u32) -> bool {
        let state = self.state.borrow();
        state.map.segments.is_some() && state.map.frames.find_borrowed(page).is_some()
    }

    /// The lender in whose DRAM a page lies, and the segment's number.
    fn lender_of(&self, page: u32) -> Option<(Lender, u32)> {
        let state = self.state.borrow();
        let (_, number) = state.map.frames.find_borrowed(page)?;
        let segment = state.map.segments.as_ref()?.get(number)?;
        Some((segment.lender.clone(), number))
    }

    /// Whether a segment still exists.
    fn has_segment(&self, number: u32) -> bool {
        let state = self.state.borrow();
        state.map.segments.as_ref().is_some_and(|segments| segments.get(number).is_some())
    }

    fn count(&self, change: impl FnOnce(&mut BorrowFigures)) {
        if let Some(segments) = &mut self.state.borrow_mut().map.segments {
            change(&mut segments.figures);
        }
    }

    /// Transfers the line of an entry in a peer's DRAM to the cores that do the work. False if the peer is
    /// lost.
    pub(super) async fn reach(&self, context: WorkContext, spans: &Spans, page: u32) -> bool {
        let Some((lender, number)) = self.lender_of(page) else { return true };
        self.count(|figures| figures.accesses += 1);
        let Some(distance) = lender.distance(context.route) else { return true };
        if !self.open(distance.there(), number).await {
            return false;
        }
        let asked = distance.there().ask();
        self.clock.sleep_until(asked.arrival + lender.memory().dram_latency()).await;
        if !self.open(distance.back(), number).await {
            return false;
        }
        let line = distance.back().send(SiteLink::LINE_BYTES);
        self.clock.sleep_until(line.arrival).await;
        spans.charge_split(context.span, self.clock.now(), asked.queued + line.queued, Stage::Dram);
        self.has_segment(number)
    }

    /// Waits until a link direction to or from a segment is open. False if the segment is lost.
    async fn open(&self, way: &dyn LinkDirection, number: u32) -> bool {
        while way.closed().is_some() {
            if !self.has_segment(number) {
                return false;
            }
            self.clock.sleep(RETRY).await;
        }
        true
    }

    /// Sends lines if the link is open. If it is closed, the segment is about to be lost anyway.
    async fn post(&self, way: &dyn LinkDirection, bytes: u64) {
        if way.closed().is_none() {
            self.clock.sleep_until(way.send(bytes).arrival).await;
        }
    }

    /// Waits for the flush of the page's segment, if its log is full and an entry is to change.
    pub(super) async fn wait_for_flush(&self, span: SpanId, spans: &Spans, page: u32, access: Access) {
        let Some(cache) = &self.cache else { return };
        let (number, turn) = {
            let mut guard = self.state.borrow_mut();
            let map = &mut guard.map;
            let Some(segments) = map.segments.as_mut().filter(|_| access == Access::Change) else { return };
            let Some((_, number)) = map.frames.find_borrowed(page) else { return };
            if !segments.is_full(number) {
                return;
            }
            segments.figures.commands_held_up += 1;
            let Some(segment) = segments.get_mut(number) else { return };
            segment.wanted += 1;
            (number, segment.flushes)
        };
        let waiting = Waiting(self, number);
        cache.flusher.notify_one();
        let is_due = || {
            let state = self.state.borrow();
            let segment = state.map.segments.as_ref().and_then(|segments| segments.get(number));
            segment.is_some_and(|segment| segment.flushes == turn) && !state.checkpoints.is_over
        };
        while is_due() {
            cache.flushed.notified().await;
        }
        drop(waiting);
        spans.wait(span, self.clock.now(), Awaited::MapFrame);
    }

    /// Sends a page that is being loaded to its frame in a peer's DRAM.
    pub(super) async fn fill_borrowed(&self, span: SpanId, spans: &Spans, frame: u32) {
        let to = {
            let state = self.state.borrow();
            let number = state.map.frames.segment(frame);
            let segment = number.and_then(|number| Some((state.map.segments.as_ref()?.get(number)?, number)));
            segment.map(|(segment, number)| (segment.lender.clone(), number))
        };
        let Some((lender, number)) = to else { return };
        self.count(|figures| figures.pages_loaded += 1);
        let way = lender.own_distance().there();
        if !self.open(way, number).await {
            return;
        }
        let sent = way.send(UNIT_BYTES as u64);
        self.clock.sleep_until(sent.arrival).await;
        let stored = lender.memory().dram("lent map", UNIT_BYTES as u64);
        self.clock.sleep_until(stored.arrival).await;
        spans.charge_split(span, self.clock.now(), sent.queued + stored.queued, Stage::Dram);
    }

    /// Reads a dirty page back from a peer's DRAM, before it is captured for flash. False if it is no longer
    /// present, or no longer needs writing.
    pub(in crate::ftl) async fn read_back(&self, page: u32) -> bool {
        if !self.is_borrowed(page) {
            return true;
        }
        let Some((lender, number)) = self.lender_of(page) else { return true };
        let Some(frame) = self.state.borrow().map.frames.find(page) else { return true };
        self.count(|figures| figures.pages_read_back += 1);
        let distance = lender.own_distance();
        if !self.open(distance.there(), number).await {
            return false;
        }
        self.clock.sleep_until(distance.there().ask().arrival).await;
        self.clock.sleep_until(lender.memory().dram("lent map", UNIT_BYTES as u64).arrival).await;
        if !self.open(distance.back(), number).await {
            return false;
        }
        self.clock.sleep_until(distance.back().send(UNIT_BYTES as u64).arrival).await;
        let state = self.state.borrow();
        state.map.frames.find_borrowed(page) == Some((frame, number)) && state.map.pages.is_dirty(page)
    }

    /// Evicts the pages of a segment that is being returned, and removes it. False if it is lost.
    async fn empty_segment(&self, cache: &Cache, number: u32) -> bool {
        let mut at = 0;
        loop {
            let next = {
                let mut guard = self.state.borrow_mut();
                let state = &mut *guard;
                let Some(segments) = &mut state.map.segments else { return false };
                let Some(segment) = segments.get(number) else { return false };
                let taken = segment.frames.iter().enumerate().skip(at);
                let mut taken =
                    taken.filter_map(|(index, frame)| Some((index, *frame, state.map.frames.page(*frame)?)));
                match taken.next() {
                    None => {
                        if let Some(segment) = segments.remove(number) {
                            state.map.frames.drop_segment(&segment.frames);
                            segments.figures.segments_returned += 1;
                        }
                        None
                    }
                    Some((index, frame, page)) => {
                        at = index;
                        let load = state.map.frames.load(frame);
                        Some((frame, page, load, state.map.pages.is_dirty(page)))
                    }
                }
            };
            let Some((frame, page, load, is_dirty)) = next else {
                cache.flushed.notify_all();
                return true;
            };
            match load {
                Some(load) => {
                    while self.state.borrow().map.frames.load(frame) == Some(load) {
                        cache.loaded(frame).notified().await;
                    }
                }
                None if is_dirty && self.config.canary != Some(InjectedDefect::ReturnUnread) => {
                    self.clean(cache, || self.is_dirty_in(page, frame, number).then_some(page)).await;
                }
                None => {
                    let mut guard = self.state.borrow_mut();
                    let state = &mut *guard;
                    if let (true, Some(flash)) = (is_dirty, self.flash.own()) {
                        let flash_has = self.in_flash(state, flash, page, false);
                        self.set_entries(state, page, &flash_has);
                    }
                    state.map.frames.drop_page(frame);
                    state.map.pages.hold(page, false);
                    self.copy_out(state, page);
                }
            }
        }
    }

    /// Whether a page is in that frame of that segment, and dirty.
    fn is_dirty_in(&self, page: u32, frame: u32, number: u32) -> bool {
        let state = self.state.borrow();
        state.map.frames.find_borrowed(page) == Some((frame, number)) && state.map.pages.is_dirty(page)
    }

    /// Flushes a segment with a full log, and clears the log.
    async fn flush_segment(&self, cache: &Cache, number: u32) {
        let mut at = 0;
        loop {
            let next = {
                let state = self.state.borrow();
                let segment = state.map.segments.as_ref().and_then(|segments| segments.get(number));
                let Some(segment) = segment else { return };
                let frames = segment.frames.iter().enumerate().skip(at);
                let mut dirty = frames.filter_map(|(index, frame)| {
                    let page = state.map.frames.page(*frame)?;
                    let is_loaded = state.map.frames.load(*frame).is_none();
                    (is_loaded && state.map.pages.is_dirty(page)).then_some((index, *frame, page))
                });
                dirty.next()
            };
            let Some((index, frame, page)) =
                next.filter(|_| self.config.canary != Some(InjectedDefect::ClearUnflushed))
            else {
                break;
            };
            at = index + 1;
            self.clean(cache, || self.is_dirty_in(page, frame, number).then_some(page)).await;
            if self.state.borrow().checkpoints.is_over {
                return;
            }
            if let Some(segments) = &mut self.state.borrow_mut().map.segments {
                segments.take_turn();
            }
        }
        // Pages that are dirty now changed after their capture, while the log was full: their changes wait
        // next to it.
        if let Some(segments) = &mut self.state.borrow_mut().map.segments {
            segments.cleared(number);
        }
    }

    /// Charges the commits up to now, after the work that changed the entries.
    pub(in crate::ftl) async fn pay_for_commits(&self) {
        loop {
            let unpaid = match &mut self.state.borrow_mut().map.segments {
                Some(segments) => segments.unpaid.pop(),
                None => return,
            };
            let Some(Unpaid { route, lender, count }) = unpaid else { return };
            let site = self.placement.site_by(WorkKind::Translate, route);
            let time = lender.commit() * count;
            if route != Route::OWN {
                site.note_lent_time(time);
            }
            let service = site.spend(WorkKind::Translate, time);
            self.clock.sleep_until(service.end).await;
            let bytes = count * SiteLink::LINE_BYTES;
            // The record first, then the entry: a lost lender must find the change in the log.
            if let Some(distance) = self.placement.distance(WorkKind::Translate, route) {
                self.post(distance.there(), bytes).await;
            }
            if let Some(distance) = lender.distance(route) {
                self.post(distance.there(), bytes).await;
            }
        }
    }
}

/// The task that flushes segments with full logs.
async fn flush(inner: Rc<Inner>) {
    let Some(cache) = &inner.cache else { return };
    loop {
        let next = {
            let state = inner.state.borrow();
            let segments = state.map.segments.as_ref().filter(|_| !state.checkpoints.is_over);
            segments.and_then(|segments| segments.to_flush())
        };
        match next {
            Some(number) => {
                inner.flush_segment(cache, number).await;
                cache.flushed.notify_all();
            }
            None => cache.flusher.notified().await,
        }
    }
}
