//! Writing dirty pages: the evictor, which makes frames available, and the updater of pages that are away.

use crate::ftl::core::Core;
use crate::ftl::map::Cache;
use crate::ftl::paging::lent::copy_out;
use crate::ftl::paging::reach::read_back;
use crate::ftl::state::UnitLocation;
use crate::ftl::write::buffering::buffer_page;
use crate::ftl::write::dispatch::dispatch;
use byteway_clock::SpanId;
use byteway_flash::{Ppa, Priority, Ticket};
use std::rc::Rc;

/// The evictor: writes dirty pages before their frames are needed.
pub(in crate::ftl) async fn evict(core: Rc<Core>) {
    let Some(cache) = &core.cache else { return };
    loop {
        if to_evict(&core, cache).is_none() {
            // Another task has cleaned the frame already without waking the commands that wait for one.
            if cache.frame_available.waiting() > 0 && core.state.borrow().map.frames.oldest().next().is_some()
            {
                cache.frame_available.notify_one();
            }
            cache.evictor.notified().await;
            continue;
        }
        clean(&core, cache, || to_evict(&core, cache)).await;
    }
}

/// The updater: reads and writes pages that changed while they were away.
pub(in crate::ftl) async fn update(core: Rc<Core>) {
    let Some(cache) = &core.cache else { return };
    let mut pages = Vec::with_capacity(core.geometry.units_per_stripe() as usize);
    loop {
        core.state.borrow_mut().map.next_updates(core.geometry.units_per_stripe().into(), &mut pages);
        if pages.is_empty() {
            cache.updater.notified().await;
            continue;
        }
        read_away(&core, &pages).await;
        for page in &pages {
            let Ok(permit) = core.slots(1).await else { return };
            let mut state = core.state.borrow_mut();
            // During the read a command may have loaded the page, or a deallocation emptied it.
            if !state.map.pages.is_away(*page) {
                continue;
            }
            state.counters.map_updates += 1;
            let taken = buffer_page(&mut state, *page, core.config.keep);
            drop(state);
            permit.forget();
            core.room.give_back(u32::from(!taken));
            dispatch(&core);
        }
    }
}

/// Submits the read of a translation page.
pub(super) fn read_page(core: &Core, ppa: Ppa, ticket: &Ticket) {
    let mask = 1 << core.geometry.unit_of_stripe(ppa);
    core.flash.submit_read(ppa, mask, Priority::Map, ticket);
    core.state.borrow_mut().counters.map_reads += 1;
}

/// Reads those of the pages that are away, which must precede their write. Charges no span.
pub(in crate::ftl) async fn read_away(core: &Core, pages: &[u32]) {
    let (mut ticket, mut read) = (None, 0);
    for page in pages {
        let found = {
            let state = core.state.borrow();
            if !state.map.pages.is_away(*page) {
                continue;
            }
            state.find(&core.base, state.map.pages.unit(*page))
        };
        if let UnitLocation::Flash(ppa) = found {
            read_page(core, ppa, ticket.get_or_insert_with(|| core.flash.ticket()));
            read += 1;
        }
    }
    let Some(ticket) = ticket else { return };
    let outcome = ticket.wait().await;
    core.command_reads(SpanId::NONE, core.clock.spans(), read).await;
    // They are dirty, and are written back in any case.
    core.state.borrow_mut().counters.map_reads_failed += u64::from(outcome.unreadable);
}

/// The page that the evictor writes next: a dirty one among the next to be evicted.
pub(super) fn to_evict(core: &Core, cache: &Cache) -> Option<u32> {
    let state = core.state.borrow();
    let ahead = (state.map.frames.most() / 8).min(cache.ahead_most) as usize;
    let next = ahead.max(cache.frame_available.waiting());
    if !state.map.frames.is_full() {
        return None;
    }
    state.map.frames.oldest().take(next).find(|page| state.map.pages.is_dirty(*page))
}

/// Buffers a dirty page, so that it can be evicted: the page that `wanted` returns once there is a slot,
/// if any.
pub(super) async fn clean(core: &Core, cache: &Cache, wanted: impl Fn() -> Option<u32>) {
    let permit = core.slots(1).await;
    let Some(page) = wanted() else { return };
    if permit.is_ok() && !read_back(core, page).await {
        return;
    }
    let mut state = core.state.borrow_mut();
    let Ok(permit) = permit else {
        // At the end of life: recovery needs no such page as long as no further checkpoint is written.
        state.checkpoints.give_up();
        state.map.written(page);
        cache.frame_available.notify_one();
        return;
    };
    state.counters.map_evictions_dirty += 1;
    let taken = buffer_page(&mut state, page, core.config.keep);
    drop(state);
    permit.forget();
    core.room.give_back(u32::from(!taken));
    cache.frame_available.notify_one();
    dispatch(core);
}

/// Adds own DRAM for `segments` segments.
pub(in crate::ftl) fn take_segments(core: &Core, segments: u32) {
    let Some(cache) = &core.cache else { return };
    {
        let frames = &mut core.state.borrow_mut().map.frames;
        frames.resize(frames.own().saturating_add(segments.saturating_mul(core.config.map_segment_pages)));
    }
    cache.frame_available.notify_all();
}

/// Gives up own DRAM of up to `segments` segments. Returns the number of segments.
pub(in crate::ftl) async fn give_up_segments(core: &Core, segments: u32) -> u32 {
    let Some(cache) = &core.cache else { return 0 };
    let given = {
        let frames = &mut core.state.borrow_mut().map.frames;
        let given = segments.min(frames.own().saturating_sub(1) / core.config.map_segment_pages.max(1));
        frames.resize(frames.own() - given * core.config.map_segment_pages);
        given
    };
    loop {
        let (frame, page, load, is_dirty) = {
            let mut state = core.state.borrow_mut();
            let Some((frame, page)) = state.map.frames.next_to_leave() else { break };
            (frame, page, state.map.frames.load(frame), state.map.pages.is_dirty(page))
        };
        match load {
            Some(load) => {
                while core.state.borrow().map.frames.load(frame) == Some(load) {
                    cache.loaded(frame).notified().await;
                }
            }
            None if is_dirty => {
                clean(core, cache, || {
                    let mut state = core.state.borrow_mut();
                    let goes = state.map.frames.next_to_leave() == Some((frame, page));
                    (goes && state.map.pages.is_dirty(page)).then_some(page)
                })
                .await
            }
            None => {
                let mut state = core.state.borrow_mut();
                state.map.frames.drop_page(frame);
                state.map.pages.hold(page, false);
                copy_out(core, &mut state, page);
            }
        }
    }
    given
}
