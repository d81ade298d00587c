//! Memory that a host lends, across the link, for translation pages (Host Memory Buffer, NVMe Base 2.1, 8.2.3).
//!
//! It is a second cache behind the first one. A clean page that leaves the DRAM leaves a *copy* there, and is loaded from its copy
//! instead of from flash. A copy is what flash has of its page, or is about to have, so it is of no use any more when the page is
//! written; that a page's entries change while it is away makes it neither better nor worse than flash.
//!
//! The host may take it away at any time, and may damage it: a copy is known by its checksum, which stays in DRAM, and what
//! doesn't fit is read from flash. Nothing is lost with it. The checksum finds accidents; against a host that forges copies a real
//! drive needs one with a key. Here a forged one does no harm, as the simulator knows the map without it.
//!
//! The updater ([`cache`](super::cache)) reads pages that have changed while they were away from flash, never from their copies.

use crate::ftl::inner::{Found, Ftl, Inner, State};
use crate::ftl::map::copies::{Copies, LentMemory, Loading};
use crate::ftl::map::page;
use crate::work::Work;
use byteway_clock::{SpanId, Spans, Stage};
use byteway_wire::content::UNIT_BYTES;
use std::rc::Rc;

impl Ftl {
    /// From now on `memory`, with `places` for a page each, holds copies of translation pages that leave the cache. False, and it
    /// isn't taken: other memory is lent already, or the DRAM holds the whole map.
    pub fn borrow_memory(&self, memory: Rc<dyn LentMemory>, places: u32) -> bool {
        let inner = &self.0;
        let is_taken = inner.cache.is_some() && inner.lending.memory.borrow().is_none();
        if is_taken {
            inner.lending.memory.replace(Some(memory));
            inner.state.borrow_mut().map.copies = Copies::new(places);
        }
        is_taken
    }

    /// Gives lent memory back, if there is any. When this ends nothing is being loaded from it; what was sent to it may still be on its way. I/O goes
    /// on meanwhile. Dropped early, it is given back all the same.
    pub async fn return_memory(&self) {
        let inner = &self.0;
        inner.lending.memory.take();
        inner.state.borrow_mut().map.copies = Copies::new(0);
        inner.lending.quiet().await;
    }

    /// Translation pages of which there are copies in lent memory.
    pub fn map_copies(&self) -> u32 {
        self.0.state.borrow().map.copies.count()
    }
}

impl Inner {
    /// A clean page has left the cache: there is a copy of it from now on, if memory is lent.
    pub(in crate::ftl) fn copy_out(&self, state: &mut State, page: u32) {
        let memory = self.lending.memory.borrow();
        let Some(memory) = memory.as_ref() else { return };
        // One in which nothing was ever mapped is loaded from nowhere.
        if state.map.copies.find(page).is_some() || self.is_nowhere(state, page) {
            return;
        }
        let bytes = state.page_bytes(page);
        let Some(place) = state.map.copies.add(page, checksum(&bytes)) else { return };
        self.placement.reserve(Work::Dma, 1);
        if memory.store(place, &bytes) {
            state.counters.map_copies_stored += 1;
        } else {
            state.map.copies.forget(page);
        }
    }

    fn is_nowhere(&self, state: &State, page: u32) -> bool {
        matches!(state.find_beneath(&self.base, state.map.pages.unit(page)), Found::Nowhere)
    }

    /// Loads a page from its copy. False: there is none, or it is not as it was.
    pub(in crate::ftl) async fn load_copy(&self, span: SpanId, spans: &Spans, page: u32) -> bool {
        let memory = self.lending.memory.borrow().clone();
        let Some(memory) = memory else { return false };
        let Some(copy) = self.state.borrow_mut().map.copies.find(page) else { return false };
        let _loading = Loading::begin(&self.lending);
        let service = self.placement.run(Work::Dma, 1).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
        let mut bytes = Box::new([0; UNIT_BYTES]);
        let is_there = memory.load(copy.place, &mut bytes).await;
        spans.charge(span, self.clock.now(), Stage::Link);
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if state.map.copies.find(page) != Some(copy) {
            return false; // given back, or its place is another's meanwhile
        }
        if !is_there || checksum(&bytes[..]) != copy.sum {
            state.counters.map_copies_damaged += 1;
            state.map.copies.forget(page);
            return false;
        }
        debug_assert!(
            state.map.pages.is_dirty(page) || bytes[..] == state.page_bytes(page)[..],
            "a copy is what flash has of its page"
        );
        state.counters.map_copies_loaded += 1;
        true
    }
}

impl State {
    fn page_bytes(&self, page: u32) -> [u8; UNIT_BYTES] {
        page::encode(&self.map.table, &self.buffer, self.map.pages.space, page)
    }
}

/// FNV-1a with 64 bits, over words instead of bytes.
fn checksum(page: &[u8]) -> u64 {
    page.chunks_exact(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        let word = word.try_into().map_or(0, u64::from_le_bytes);
        (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Words that change places, as a torn copy has them, must show.
    #[test]
    fn a_checksum_depends_on_where_words_are() {
        let mut page = [0; UNIT_BYTES];
        page[0] = 1;
        let first = checksum(&page);
        page.swap(0, 8);
        assert_ne!(checksum(&page), first);
    }
}
