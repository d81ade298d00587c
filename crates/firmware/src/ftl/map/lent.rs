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
//! The updater ([`cache`](super::cache)) reads pages that changed while away from flash, never from their
//! copies.

use crate::ftl::inner::{Ftl, Inner, State, UnitLocation};
use crate::ftl::map::copies::{Copies, LentMemory, Loading};
use crate::ftl::map::page;
use crate::work::WorkKind;
use byteway_clock::{SpanId, Spans, Stage};
use byteway_content::UNIT_BYTES;
use std::rc::Rc;

impl Ftl {
    /// Uses `memory`, with `places` for one page each, for copies of translation pages evicted from the
    /// cache. Returns false, with nothing changed, if other memory is lent already, or DRAM holds the whole
    /// map.
    pub fn borrow_memory(&self, memory: Rc<dyn LentMemory>, places: u32) -> bool {
        let inner = &self.0;
        let is_taken = inner.cache.is_some() && inner.lending.memory.borrow().is_none();
        if is_taken {
            inner.lending.memory.replace(Some(memory));
            inner.state.borrow_mut().map.copies = Copies::new(places);
        }
        is_taken
    }

    /// Returns lent memory, if there is any. When this ends no load from it is in flight; stores may still
    /// be. I/O continues meanwhile. The memory is returned even if this is dropped early.
    pub async fn return_memory(&self) {
        let inner = &self.0;
        inner.lending.memory.take();
        inner.state.borrow_mut().map.copies = Copies::new(0);
        inner.lending.quiet().await;
    }

    /// Translation pages with copies in lent memory.
    pub fn map_copies(&self) -> u32 {
        self.0.state.borrow().map.copies.count()
    }
}

impl Inner {
    /// Stores a copy of a clean page that was evicted, if memory is lent.
    pub(in crate::ftl) fn copy_out(&self, state: &mut State, page: u32) {
        let memory = self.lending.memory.borrow();
        let Some(memory) = memory.as_ref() else { return };
        // A page in which nothing was ever mapped needs no load, hence no copy.
        if state.map.copies.find(page).is_some() || self.is_nowhere(state, page) {
            return;
        }
        let bytes = state.page_bytes(page);
        let Some(place) = state.map.copies.add(page, checksum(&bytes)) else { return };
        self.placement.reserve(WorkKind::Dma, 1);
        if memory.store(place, &bytes) {
            state.counters.map_copies_stored += 1;
        } else {
            state.map.copies.forget(page);
        }
    }

    fn is_nowhere(&self, state: &State, page: u32) -> bool {
        matches!(state.find_beneath(&self.base, state.map.pages.unit(page)), UnitLocation::Nowhere)
    }

    /// Loads a page from its copy. False if there is none, or it does not match.
    pub(in crate::ftl) async fn load_copy(&self, span: SpanId, spans: &Spans, page: u32) -> bool {
        let memory = self.lending.memory.borrow().clone();
        let Some(memory) = memory else { return false };
        let Some(copy) = self.state.borrow_mut().map.copies.find(page) else { return false };
        let _loading = Loading::begin(&self.lending);
        let service = self.placement.run(WorkKind::Dma, 1).await;
        spans.charge_split(span, self.clock.now(), service.queued, Stage::Firmware);
        let mut bytes = Box::new([0; UNIT_BYTES]);
        let is_there = memory.load(copy.place, &mut bytes).await;
        spans.charge(span, self.clock.now(), Stage::Link);
        let mut guard = self.state.borrow_mut();
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
