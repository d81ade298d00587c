//! Memory that a host lends over the link for translation pages (Host Memory Buffer, NVMe Base 2.1, 8.2.3).
//!
//! It is a second-level cache. A clean page evicted from DRAM leaves a *copy* there, and is loaded from its
//! copy instead of from flash. A copy equals what flash has of its page, or is about to have, so it becomes
//! obsolete when the page is written. Changes to the page's entries while it is away make it neither better
//! nor worse than flash.
//!
//! The host may take the memory away or damage it at any time. The checksum of each copy stays in DRAM, and a
//! page whose copy does not match is read from flash; nothing is lost. The checksum finds accidents; a real
//! drive needs a keyed one against a host that forges copies. Here forgery is harmless, since the simulator
//! knows the map without it.
//!
//! The updater ([`clean`](super::clean)) reads pages that changed while away from flash, never from their
//! copies.

use crate::ftl::core::Core;
use crate::ftl::map::copies::{Copies, LentMemory, Loading};
use crate::ftl::state::{State, UnitLocation};
use crate::work::WorkKind;
use byteway_clock::{SpanId, Spans, Stage};
use byteway_content::UNIT_BYTES;
use std::rc::Rc;

/// Uses `memory`, with `places` for one page each. False if other memory is lent already, or DRAM holds the whole map.
pub(in crate::ftl) fn borrow_memory(core: &Core, memory: Rc<dyn LentMemory>, places: u32) -> bool {
    let is_taken = core.cache.is_some() && core.lending.memory.borrow().is_none();
    if is_taken {
        core.lending.memory.replace(Some(memory));
        core.state.borrow_mut().map.copies = Copies::new(places);
    }
    is_taken
}

/// Returns lent memory, if there is any. When this ends no load from it is in flight.
pub(in crate::ftl) async fn return_memory(core: &Core) {
    core.lending.memory.take();
    core.state.borrow_mut().map.copies = Copies::new(0);
    core.lending.quiet().await;
}

/// Stores a copy of a clean page that was evicted, if memory is lent.
pub(in crate::ftl) fn copy_out(core: &Core, state: &mut State, page: u32) {
    let memory = core.lending.memory.borrow();
    let Some(memory) = memory.as_ref() else { return };
    // A page in which nothing was ever mapped needs no load, hence no copy.
    if state.map.copies.find(page).is_some() || is_nowhere(core, state, page) {
        return;
    }
    let bytes = state.map.page_bytes(&state.buffer, page);
    let Some(place) = state.map.copies.add(page, checksum(&bytes)) else { return };
    core.placement.reserve(WorkKind::Dma, 1);
    if memory.store(place, &bytes) {
        state.counters.map_copies_stored += 1;
    } else {
        state.map.copies.forget(page);
    }
}

fn is_nowhere(core: &Core, state: &State, page: u32) -> bool {
    matches!(state.find_beneath(&core.base, state.map.pages.unit(page)), UnitLocation::Nowhere)
}

/// Loads a page from its copy. False if there is none, or it does not match.
pub(in crate::ftl) async fn load_copy(core: &Core, span: SpanId, spans: &Spans, page: u32) -> bool {
    let memory = core.lending.memory.borrow().clone();
    let Some(memory) = memory else { return false };
    let Some(copy) = core.state.borrow_mut().map.copies.find(page) else { return false };
    let _loading = Loading::begin(&core.lending);
    let service = core.placement.run(WorkKind::Dma, 1).await;
    spans.charge_split(span, core.clock.now(), service.queued, Stage::Firmware);
    let mut bytes = Box::new([0; UNIT_BYTES]);
    let is_there = memory.load(copy.place, &mut bytes).await;
    spans.charge(span, core.clock.now(), Stage::Link);
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    if state.map.copies.find(page) != Some(copy) {
        return false; // returned meanwhile, or its place was reused
    }
    if !is_there || checksum(&bytes[..]) != copy.sum {
        state.counters.map_copies_damaged += 1;
        state.map.copies.forget(page);
        return false;
    }
    debug_assert!(
        state.map.pages.is_dirty(page) || bytes[..] == state.map.page_bytes(&state.buffer, page)[..],
        "a copy is what flash has of its page"
    );
    state.counters.map_copies_loaded += 1;
    true
}

/// 64-bit FNV-1a over words instead of bytes.
fn checksum(page: &[u8]) -> u64 {
    page.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Swapped words, as in a torn copy, must change the checksum.
    #[test]
    fn a_checksum_depends_on_where_words_are() {
        let mut page = [0; UNIT_BYTES];
        page[0] = 1;
        let first = checksum(&page);
        page.swap(0, 8);
        assert_ne!(checksum(&page), first);
    }
}
