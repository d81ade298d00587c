//! Looking a translation page up, and loading it.

use crate::ftl::core::Core;
use crate::ftl::counters::FtlCounters;
use crate::ftl::map::Cache;
use crate::ftl::map::commits::pay_for_commits;
use crate::ftl::map::frames::Origin;
use crate::ftl::paging::clean::{read_page, to_evict};
use crate::ftl::paging::lent::{copy_out, load_copy};
use crate::ftl::paging::reach::{Access, fill_borrowed, is_borrowed, reach, wait_for_flush};
use crate::ftl::paging::restore::enter_segment;
use crate::ftl::state::{State, UnitLocation};
use crate::placement::{Route, WorkContext};
use byteway_clock::{Awaited, SpanId, Spans, Stage};

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
    core: &'a Core,
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
        let mut state = self.core.state.borrow_mut();
        if state.map.frames.load(self.frame) != self.load {
            return false;
        }
        if state.map.frames.segment(self.frame).is_some() {
            enter_segment(self.core, &mut state, self.frame, route);
        }
        state.map.frames.loaded(self.frame);
        true
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut state = self.core.state.borrow_mut();
            if state.map.frames.load(self.frame) == self.load {
                let page = state.map.frames.abandoned(self.frame);
                state.map.pages.hold(page, false);
            }
        }
        self.cache.loaded(self.frame).notify_all();
        if self.cache.frame_available.waiting() > 0 {
            self.cache.frame_available.notify_one();
        }
        if to_evict(self.core, self.cache).is_some() {
            self.cache.evictor.notify_one();
        }
    }
}

/// Waits until the pages of `count` units from `first` have been cached, each looked up once; `last` is
/// the page that the command looked up last.
pub(in crate::ftl) async fn look_up_all(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    first: u64,
    count: u32,
    last: &mut Option<u32>,
) {
    let space = core.space;
    for page in space.page_of(first)..=space.page_of(first + u64::from(count) - 1) {
        if last.replace(page) != Some(page) {
            look_up(core, context, spans, page, Access::Change).await;
        }
    }
}

/// Like [`look_up_all`], for the pages of which a deallocation leaves some units mapped.
pub(in crate::ftl) async fn look_up_in_part(core: &Core, span: SpanId, spans: &Spans, first: u64, end: u64) {
    let user = core.config.user_units;
    let space = core.space;
    let page = |unit: u64| space.page_of(unit);
    let (begins, ends) =
        (first.is_multiple_of(space.page_units()), end.is_multiple_of(space.page_units()) || end == user);
    if end > first && !begins {
        look_up(core, span.into(), spans, page(first), Access::Change).await;
    }
    if end > first && !ends && (begins || page(first) != page(end)) {
        look_up(core, span.into(), spans, page(end), Access::Change).await;
    }
}

/// Waits until a page is cached. It stays so until the caller's next wait, or was so when the caller's
/// turn came.
///
/// A flash read, if needed, is charged as such, and the wait for a frame as queueing. A page in a peer's
/// DRAM transfers one line from there, charged as DRAM.
pub(in crate::ftl) async fn look_up(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    page: u32,
    access: Access,
) {
    let span = context.span;
    let Some(cache) = &core.cache else { return };
    if let Some(monitor) = &*cache.monitor.borrow() {
        monitor.look_up(page);
    }
    let mut has_waited = false;
    loop {
        let look = look(core, page, access);
        if has_waited && !matches!(look, Look::Full | Look::Load(..)) {
            cache.frame_available.notify_one(); // another page can have the frame
        }
        count_look(&mut core.state.borrow_mut().counters, &look, has_waited);
        match look {
            Look::Here => {}
            Look::Load(frame, from) => {
                if !load(core, context, spans, page, frame, from).await {
                    continue; // the frame was lost: look the page up again
                }
                if is_borrowed(core, page) {
                    wait_for_flush(core, span, spans, page, access).await;
                }
                return;
            }
            Look::Coming(frame, load) => {
                while core.state.borrow().map.frames.load(frame) == Some(load) {
                    cache.loaded(frame).notified().await;
                }
                spans.charge(span, core.clock.now(), Stage::Flash);
            }
            Look::Full => {
                has_waited = true;
                cache.evictor.notify_one();
                cache.frame_available.notified().await;
                spans.wait(span, core.clock.now(), Awaited::MapFrame);
                continue;
            }
        }
        if !is_borrowed(core, page) {
            return;
        }
        if reach(core, context, spans, page).await {
            return wait_for_flush(core, span, spans, page, access).await;
        }
        // The lender is lost, and the page with it: retry.
    }
}

/// Reads a page into a frame that is loading. False if the frame is lost, together with the peer that
/// lent it.
async fn load(
    core: &Core,
    context: WorkContext,
    spans: &Spans,
    page: u32,
    frame: u32,
    from: UnitLocation,
) -> bool {
    let span = context.span;
    let Some(cache) = &core.cache else { return true };
    let (load, is_borrowed) = {
        let frames = &core.state.borrow().map.frames;
        (frames.load(frame), frames.segment(frame).is_some())
    };
    let load = Load { core, cache, frame, load, is_done: false };
    match from {
        UnitLocation::Nowhere => {}
        UnitLocation::Buffered(_) => core.leave_buffer(span.into(), spans, 1).await,
        UnitLocation::Flash(_) if load_copy(core, span, spans, page).await => {}
        UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => {
            let ticket = core.flash.ticket();
            read_page(core, ppa, &ticket);
            let outcome = ticket.wait().await;
            spans.charge_waits(span, core.clock.now(), outcome.waits(), Stage::Flash);
            core.command_reads(span, spans, 1).await;
            if outcome.failed {
                rebuild(&mut core.state.borrow_mut(), page);
            }
        }
    }
    if is_borrowed {
        fill_borrowed(core, span, spans, frame).await;
    }
    let is_there = load.end(context.route);
    if is_borrowed && is_there {
        pay_for_commits(core).await;
    }
    is_there
}

/// Looks a page up, and starts to load it on a miss if possible.
fn look(core: &Core, page: u32, access: Access) -> Look {
    let mut guard = core.state.borrow_mut();
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
        state.find_beneath(&core.base, state.map.pages.unit(page))
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
            copy_out(core, state, victim);
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

fn count_look(counters: &mut FtlCounters, look: &Look, has_waited: bool) {
    match look {
        Look::Here if !has_waited => counters.map_hits += 1,
        Look::Here | Look::Coming(..) => counters.map_misses_shared += 1,
        Look::Load(..) => counters.map_misses += 1,
        Look::Full => {}
    }
}

/// Marks a page that flash could not deliver for rewriting.
fn rebuild(state: &mut State, page: u32) {
    state.counters.map_reads_failed += 1;
    state.map.pages.changed(state.map.pages.units(page).start);
}
