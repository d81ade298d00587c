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
//!   other, and the log is cleared. Meanwhile changes wait next to it (`map::segments`), and a
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

use crate::ftl::config::Defect;
use crate::ftl::core::Core;
use crate::ftl::map::Cache;
use crate::ftl::map::segments::{Lender, LenderId, Segments};
use crate::ftl::paging::clean::clean;
use crate::ftl::paging::lent::copy_out;
use crate::ftl::paging::restore::{in_flash, lose_segment, set_entries};
use crate::work::WorkKind;
use byteway_clock::Notify;
use std::rc::Rc;

/// Borrows `segments` segments of a peer's DRAM. Returns the number taken.
pub(in crate::ftl) fn borrow_segments(core: &Rc<Core>, lender: &Lender, segments: u32) -> u32 {
    let Some(cache) = core.cache.as_ref().filter(|_| core.flash.own().is_some()) else { return 0 };
    {
        let mut guard = core.state.borrow_mut();
        let map = &mut guard.map;
        if map.segments.is_none() {
            core.tasks.borrow_mut().push(core.clock.spawn("map flusher", flush(core.clone())));
        }
        let borrowed = map.segments.get_or_insert_with(|| Box::new(Segments::new(core.config.defect)));
        let pages = core.config.map_segment_pages;
        for _ in 0..segments {
            borrowed.add(lender, |number| map.frames.add_segment(number, pages));
        }
    }
    cache.frame_available.notify_all();
    segments
}

/// Returns up to `segments` segments to their lender. Returns their number.
pub(in crate::ftl) async fn give_back_segments(core: &Core, lender: LenderId, segments: u32) -> u32 {
    let Some(cache) = &core.cache else { return 0 };
    let chosen = {
        let mut guard = core.state.borrow_mut();
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
        given += u32::from(empty_segment(core, cache, number).await);
    }
    given
}

/// Declares a lender lost, and recovers the pages of its segments. Returns the number of segments.
pub(in crate::ftl) fn lose_segments(core: &Core, lender: LenderId) -> u32 {
    let Some(cache) = &core.cache else { return 0 };
    let Some(flash) = core.flash.own() else { return 0 };
    let (lost, replayed) = {
        let mut guard = core.state.borrow_mut();
        let state = &mut *guard;
        let Some(mut segments) = state.map.segments.take() else { return 0 };
        let numbers: Vec<u32> = segments.of(lender).map(|(number, _)| number).collect();
        let before = segments.figures.records_replayed;
        for number in &numbers {
            let Some(segment) = segments.remove(*number) else { continue };
            lose_segment(core, state, flash, &segment, &mut segments.figures);
        }
        let replayed = segments.figures.records_replayed - before;
        segments.figures.segments_lost += numbers.len() as u64;
        state.map.segments = Some(segments);
        (numbers.len() as u32, replayed)
    };
    core.placement.reserve(WorkKind::Translate, replayed);
    cache.loaded.iter().for_each(Notify::notify_all);
    cache.frame_available.notify_all();
    cache.flushed.notify_all();
    cache.evictor.notify_one();
    lost
}

/// The task that flushes segments with full logs.
async fn flush(core: Rc<Core>) {
    let Some(cache) = &core.cache else { return };
    loop {
        let next = {
            let state = core.state.borrow();
            let segments = state.map.segments.as_ref().filter(|_| !state.checkpoints.is_over());
            segments.and_then(|segments| segments.to_flush())
        };
        match next {
            Some(number) => {
                flush_segment(&core, cache, number).await;
                cache.flushed.notify_all();
            }
            None => cache.flusher.notified().await,
        }
    }
}

/// Evicts the pages of a segment that is being returned, and removes it. False if it is lost.
async fn empty_segment(core: &Core, cache: &Cache, number: u32) -> bool {
    let mut at = 0;
    loop {
        let next = {
            let mut guard = core.state.borrow_mut();
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
                while core.state.borrow().map.frames.load(frame) == Some(load) {
                    cache.loaded(frame).notified().await;
                }
            }
            None if is_dirty && !core.config.defect.has(Defect::ReturnUnread) => {
                clean(core, cache, || is_dirty_in(core, page, frame, number).then_some(page)).await;
            }
            None => {
                let mut guard = core.state.borrow_mut();
                let state = &mut *guard;
                if let (true, Some(flash)) = (is_dirty, core.flash.own()) {
                    let flash_has = in_flash(core, state, flash, page, false);
                    set_entries(core, state, page, &flash_has);
                }
                state.map.frames.drop_page(frame);
                state.map.pages.hold(page, false);
                copy_out(core, state, page);
            }
        }
    }
}

/// Whether a page is in that frame of that segment, and dirty.
fn is_dirty_in(core: &Core, page: u32, frame: u32, number: u32) -> bool {
    let state = core.state.borrow();
    state.map.frames.find_borrowed(page) == Some((frame, number)) && state.map.pages.is_dirty(page)
}

/// Flushes a segment with a full log, and clears the log.
async fn flush_segment(core: &Core, cache: &Cache, number: u32) {
    let mut at = 0;
    loop {
        let next = {
            let state = core.state.borrow();
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
        let Some((index, frame, page)) = next.filter(|_| !core.config.defect.has(Defect::ClearUnflushed))
        else {
            break;
        };
        at = index + 1;
        clean(core, cache, || is_dirty_in(core, page, frame, number).then_some(page)).await;
        if core.state.borrow().checkpoints.is_over() {
            return;
        }
        if let Some(segments) = &mut core.state.borrow_mut().map.segments {
            segments.take_turn();
        }
    }
    // Pages that are dirty now changed after their capture, while the log was full: their changes wait
    // next to it.
    if let Some(segments) = &mut core.state.borrow_mut().map.segments {
        segments.cleared(number);
    }
}
