//! DRAM that peers lend for the cached map ("Espresso", 4.5): segments of further places, across a fabric.
//!
//! What is in such a place is the lender's to lose, and nothing protects it when the power goes. So:
//!
//! - **An access** to an entry there brings its line across the fabric to whoever does the work: the drive's own cores, or a lender's
//!   by their route; at the lender itself there is nothing between. A page that is loaded is sent there, and a dirty one is read back
//!   before it is captured for flash.
//! - **A change** of an entry there is committed to the log page of its segment, in the drive's own DRAM, where the entry changes: when
//!   a program ends, when a collector has moved a unit, when units are deallocated, and when a page is loaded that has changed while it
//!   was away. It is paid behind, on the cores of whoever wrote the unit, with a line to the log if that is a lender, and one to the
//!   entry. Writers and collectors don't wait for the log.
//! - **A full log** has the segment flushed: its dirty pages are captured one after the other, and the log is cleared. Meanwhile
//!   changes wait beside it ([`segments`](super::segments)), and a command that comes to change an entry there waits for the end.
//! - **A lender that is gone** takes its segments with it. Of each page there the map is then what flash has of it, or the write
//!   buffer on its way there, with the records of the log over it, by their bytes. Such a page is away, like one that has changed while
//!   it was not in the cache: what the log says of it has become what is remembered of it.
//!
//! Nobody waits in a circle here either. A command waits for a flush before it has credits or a lock, and for one flush, not for room
//! in the log. The flusher waits for credits and for the fabric, and no longer for that than until the link is back or the lender is
//! said to be gone; programs and collectors wait for none of it. Nor does it turn without end: a page that is flushed makes room necessary, that moves units, and that fills logs. So there is
//! a turn for each unit of the host's, as for the updater, or for a command that waits.
//!
//! A power cut of the borrower needs neither the lender nor the log: recovery finds in spare areas what was programmed since the last
//! root (`durable::recover`), wherever the page of its entry was.
//!
//! What a page is made of when its segment is gone stands in [`restore`](super::restore).
//!
//! What it does not do: a lender is not noticed to be gone, but said to be; the log pages take no place of the cache's, one in five
//! hundred; at the end of life nothing is flushed any more.

use crate::ftl::config::Canary;
use crate::ftl::inner::{Ftl, Inner};
use crate::ftl::map::cache::Access;
use crate::ftl::map::segments::{BorrowFigures, Lender, LenderId, Segments, Unpaid};
use crate::ftl::map::{Cache, MapMonitor};
use crate::placement::{Distance, Errand, Route, Way};
use crate::work::Work;
use byteway_clock::{Delay, Notify, SpanId, Spans, Stage};
use byteway_wire::content::UNIT_BYTES;
use std::rc::Rc;

/// How often a message is tried again that can't be sent: in between it may turn out that the lender is gone.
const RETRY: Delay = Delay::from_us(10);

impl Ftl {
    /// A peer's DRAM for so many segments of [`FtlConfig::map_segment_pages`](crate::FtlConfig::map_segment_pages) holds pages of the
    /// map from now on. Gives how many are taken: none where the drive's own DRAM holds the whole map, or its flash is across a link.
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
        cache.room.notify_all();
        segments
    }

    /// Gives so many segments back to their lender, or as many as are borrowed of it. The pages in them leave, the dirty ones when they
    /// have been read back; I/O goes on meanwhile. When this ends nothing is in them, nor will be; it gives how many they are. Fewer:
    /// they were lost meanwhile. Dropped early, they take no other pages, and go first when this is called again.
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

    /// A lender is gone, and its DRAM with it: what was in its segments is recovered. Gives how many segments those were.
    ///
    /// Takes [`Work::Translate`] for each record that is replayed, which nobody waits for.
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
        inner.placement.reserve(Work::Translate, replayed);
        cache.loaded.iter().for_each(Notify::notify_all);
        cache.room.notify_all();
        cache.flushed.notify_all();
        cache.evictor.notify_one();
        lost
    }

    /// Segments that are borrowed of each lender, in the order of their numbers; those that are being given back too.
    pub fn segments_borrowed(&self) -> Vec<(LenderId, u32)> {
        let state = self.0.state.borrow();
        state.map.segments.iter().flat_map(|segments| segments.counts()).collect()
    }

    /// What borrowed segments have been used for.
    pub fn borrow_figures(&self) -> BorrowFigures {
        self.0.state.borrow().map.segments.as_ref().map_or_else(Default::default, |it| it.figures)
    }

    /// From now on `monitor` is told of each translation page that a command looks up; none: nothing is. False: the DRAM holds the
    /// whole map, and no page is looked up.
    pub fn monitor_map(&self, monitor: Option<Rc<dyn MapMonitor>>) -> bool {
        self.0.cache.as_ref().map(|cache| cache.monitor.replace(monitor)).is_some()
    }
}

/// A command that waits for the flush of a segment, whether or not its end is waited for.
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

    /// The lender in whose DRAM a page lies, and the number of the segment.
    fn lender_of(&self, page: u32) -> Option<(Lender, u32)> {
        let state = self.state.borrow();
        let (_, number) = state.map.frames.find_borrowed(page)?;
        let segment = state.map.segments.as_ref()?.get(number)?;
        Some((segment.lender.clone(), number))
    }

    /// Whether a segment is still there.
    fn has_segment(&self, number: u32) -> bool {
        let state = self.state.borrow();
        state.map.segments.as_ref().is_some_and(|segments| segments.get(number).is_some())
    }

    fn count(&self, change: impl FnOnce(&mut BorrowFigures)) {
        if let Some(segments) = &mut self.state.borrow_mut().map.segments {
            change(&mut segments.figures);
        }
    }

    /// Brings the line of an entry of a page in a peer's DRAM to whoever does the work. False: the peer is gone.
    pub(super) async fn reach(&self, errand: Errand, spans: &Spans, page: u32) -> bool {
        let Some((lender, number)) = self.lender_of(page) else { return true };
        self.count(|figures| figures.accesses += 1);
        let Some(distance) = lender.distance(errand.route) else { return true };
        if !self.open(distance.there(), number).await {
            return false;
        }
        let asked = distance.there().ask();
        self.clock.sleep_until(asked.arrival + lender.memory().dram_latency()).await;
        if !self.open(distance.back(), number).await {
            return false;
        }
        let line = distance.back().send(Distance::LINE_BYTES);
        self.clock.sleep_until(line.arrival).await;
        spans.charge_split(errand.span, self.clock.now(), asked.queued + line.queued, Stage::Dram);
        self.has_segment(number)
    }

    /// Waits until a way to a segment, or from it, is open. False: the segment is gone.
    async fn open(&self, way: &dyn Way, number: u32) -> bool {
        while way.closed().is_some() {
            if !self.has_segment(number) {
                return false;
            }
            self.clock.sleep(RETRY).await;
        }
        true
    }

    /// Sends a line or more, if the way there is open: what can't be sent is of a segment that is about to be lost.
    async fn post(&self, way: &dyn Way, bytes: u64) {
        if way.closed().is_none() {
            self.clock.sleep_until(way.send(bytes).arrival).await;
        }
    }

    /// Waits for the flush of the segment in which a page lies, if its log is full and an entry is to change.
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
        spans.charge(span, self.clock.now(), Stage::Queueing);
    }

    /// Sends a page that is being loaded into a frame in a peer's DRAM there.
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

    /// A dirty page is about to be captured for flash: if it lies in a peer's DRAM, it is read back. False: it is there no more, or
    /// need not be written any more.
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

    /// Evicts what is in a segment that is leaving, and takes it out. False: it is lost.
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
                None if is_dirty && self.config.canary != Some(Canary::ReturnUnread) => {
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

    /// Flushes a segment whose log is full, and clears that.
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
                next.filter(|_| self.config.canary != Some(Canary::ClearUnflushed))
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
        // What is dirty now changed after it was captured, while the log was full: all of that waits.
        if let Some(segments) = &mut self.state.borrow_mut().map.segments {
            segments.cleared(number);
        }
    }

    /// Does the work of commits up to now, behind what has changed the entries.
    pub(in crate::ftl) async fn pay_for_commits(&self) {
        loop {
            let unpaid = match &mut self.state.borrow_mut().map.segments {
                Some(segments) => segments.unpaid.pop(),
                None => return,
            };
            let Some(Unpaid { route, lender, count }) = unpaid else { return };
            let site = self.placement.site_by(Work::Translate, route);
            let time = lender.commit() * count;
            if route != Route::OWN {
                site.note_lent_time(time);
            }
            let service = site.spend(Work::Translate, time);
            self.clock.sleep_until(service.end).await;
            let bytes = count * Distance::LINE_BYTES;
            // The record first, then the entry.
            if let Some(distance) = self.placement.distance(Work::Translate, route) {
                self.post(distance.there(), bytes).await;
            }
            if let Some(distance) = lender.distance(route) {
                self.post(distance.there(), bytes).await;
            }
        }
    }
}

/// The task that flushes segments whose logs are full.
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
