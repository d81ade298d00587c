//! Pages in DRAM that peers lend: what crosses the fabric when one is accessed, loaded or read back, and the wait for
//! the flush of a full log.

use crate::ftl::core::Core;
use crate::ftl::map::segments::{BorrowFigures, Lender};
use crate::placement::{LinkDirection, SiteLink, WorkContext};
use byteway_clock::{Awaited, Delay, SpanId, Spans, Stage};
use byteway_content::UNIT_BYTES;

/// Time after which an unsendable message is retried; meanwhile the drive may learn that the lender is lost.
const RETRY: Delay = Delay::from_us(10);

/// Kind of access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Access {
    /// Entries of the page are read. For a void page the directory suffices.
    Read,
    /// Entries of the page will change.
    Change,
}

/// Counts a command that waits for the flush of a segment, until dropped.
struct Waiting<'a>(&'a Core, u32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if let Some(segment) = state.map.segments.as_mut().and_then(|segments| segments.get_mut(self.1)) {
            segment.wanted -= 1;
        }
    }
}

/// Whether a page lies in a peer's DRAM.
#[inline]
pub(super) fn is_borrowed(core: &Core, page: u32) -> bool {
    let state = core.state.borrow();
    state.map.segments.is_some() && state.map.frames.find_borrowed(page).is_some()
}

/// The lender in whose DRAM a page lies, and the segment's number.
fn lender_of(core: &Core, page: u32) -> Option<(Lender, u32)> {
    let state = core.state.borrow();
    let (_, number) = state.map.frames.find_borrowed(page)?;
    let segment = state.map.segments.as_ref()?.get(number)?;
    Some((segment.lender.clone(), number))
}

/// Whether a segment still exists.
fn has_segment(core: &Core, number: u32) -> bool {
    let state = core.state.borrow();
    state.map.segments.as_ref().is_some_and(|segments| segments.get(number).is_some())
}

fn count_borrowed(core: &Core, change: impl FnOnce(&mut BorrowFigures)) {
    if let Some(segments) = &mut core.state.borrow_mut().map.segments {
        change(&mut segments.figures);
    }
}

/// Transfers the line of an entry in a peer's DRAM to the cores that do the work. False if the peer is
/// lost.
pub(super) async fn reach(core: &Core, context: WorkContext, spans: &Spans, page: u32) -> bool {
    let Some((lender, number)) = lender_of(core, page) else { return true };
    count_borrowed(core, |figures| figures.accesses += 1);
    let Some(distance) = lender.distance(context.route) else { return true };
    if !open(core, distance.there(), number).await {
        return false;
    }
    let asked = distance.there().ask();
    core.clock.sleep_until(asked.arrival + lender.memory().dram_latency()).await;
    if !open(core, distance.back(), number).await {
        return false;
    }
    let line = distance.back().send(SiteLink::LINE_BYTES);
    core.clock.sleep_until(line.arrival).await;
    spans.charge_split(context.span, core.clock.now(), asked.queued + line.queued, Stage::Dram);
    has_segment(core, number)
}

/// Waits until a link direction to or from a segment is open. False if the segment is lost.
async fn open(core: &Core, way: &dyn LinkDirection, number: u32) -> bool {
    while way.closed().is_some() {
        if !has_segment(core, number) {
            return false;
        }
        core.clock.sleep(RETRY).await;
    }
    true
}

/// Waits for the flush of the page's segment, if its log is full and an entry is to change.
pub(super) async fn wait_for_flush(core: &Core, span: SpanId, spans: &Spans, page: u32, access: Access) {
    let Some(cache) = &core.cache else { return };
    let (number, turn) = {
        let mut guard = core.state.borrow_mut();
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
    let waiting = Waiting(core, number);
    cache.flusher.notify_one();
    let is_due = || {
        let state = core.state.borrow();
        let segment = state.map.segments.as_ref().and_then(|segments| segments.get(number));
        segment.is_some_and(|segment| segment.flushes == turn) && !state.checkpoints.is_over()
    };
    while is_due() {
        cache.flushed.notified().await;
    }
    drop(waiting);
    spans.wait(span, core.clock.now(), Awaited::MapFrame);
}

/// Sends a page that is being loaded to its frame in a peer's DRAM.
pub(super) async fn fill_borrowed(core: &Core, span: SpanId, spans: &Spans, frame: u32) {
    let to = {
        let state = core.state.borrow();
        let number = state.map.frames.segment(frame);
        let segment = number.and_then(|number| Some((state.map.segments.as_ref()?.get(number)?, number)));
        segment.map(|(segment, number)| (segment.lender.clone(), number))
    };
    let Some((lender, number)) = to else { return };
    count_borrowed(core, |figures| figures.pages_loaded += 1);
    let way = lender.own_distance().there();
    if !open(core, way, number).await {
        return;
    }
    let sent = way.send(UNIT_BYTES as u64);
    core.clock.sleep_until(sent.arrival).await;
    let stored = lender.memory().dram("lent map", UNIT_BYTES as u64);
    core.clock.sleep_until(stored.arrival).await;
    spans.charge_split(span, core.clock.now(), sent.queued + stored.queued, Stage::Dram);
}

/// Reads a dirty page back from a peer's DRAM, before it is captured for flash. False if it is no longer
/// present, or no longer needs writing.
pub(in crate::ftl) async fn read_back(core: &Core, page: u32) -> bool {
    if !is_borrowed(core, page) {
        return true;
    }
    let Some((lender, number)) = lender_of(core, page) else { return true };
    let Some(frame) = core.state.borrow().map.frames.find(page) else { return true };
    count_borrowed(core, |figures| figures.pages_read_back += 1);
    let distance = lender.own_distance();
    if !open(core, distance.there(), number).await {
        return false;
    }
    core.clock.sleep_until(distance.there().ask().arrival).await;
    core.clock.sleep_until(lender.memory().dram("lent map", UNIT_BYTES as u64).arrival).await;
    if !open(core, distance.back(), number).await {
        return false;
    }
    core.clock.sleep_until(distance.back().send(UNIT_BYTES as u64).arrival).await;
    let state = core.state.borrow();
    state.map.frames.find_borrowed(page) == Some((frame, number)) && state.map.pages.is_dirty(page)
}
