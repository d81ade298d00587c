//! Figures of a translation layer, and the DRAM that its map may use.

use crate::ftl::Ftl;
#[cfg(doc)]
use crate::ftl::config::FtlConfig;
use crate::ftl::counters::FtlCounters;
use crate::ftl::footprint::{self, Footprint};
use crate::ftl::health::Health;
use crate::ftl::map::MapMonitor;
use crate::ftl::map::copies::LentMemory;
use crate::ftl::map::extents::Log;
use crate::ftl::map::segments::{BorrowFigures, Lender, LenderId};
use crate::ftl::map::table::EntryKind;
use crate::ftl::paging::{borrow, clean, lent};
use crate::ftl::space::Space;
use crate::ftl::state::UnitLocation;
use crate::ftl::steady::PacedState;
use crate::placement::Placement;
#[cfg(doc)]
use crate::work::WorkKind;
use byteway_content::Content;
use byteway_flash::{BlockId, DataEnd, Flash};
use std::rc::Rc;

impl Ftl {
    /// Content of a unit at this instant, without cost, for tests over the drive's own flash. Zeroes if out
    /// of range.
    pub fn peek(&self, lpa: u64) -> Content {
        let Ok(lpa) = self.0.check(lpa, 1) else { return Content::Zero };
        let found = self.0.state.borrow().find(&self.0.base, lpa);
        match found {
            UnitLocation::Nowhere => Content::Zero,
            UnitLocation::Buffered(content) => content,
            UnitLocation::Flash(ppa) => self.flash().content(ppa),
            UnitLocation::Under(ppa, patch) => patch.over(&self.flash().content(ppa), self.0.config.keep),
        }
    }

    /// User capacity in units.
    pub fn user_units(&self) -> u64 {
        self.0.config.user_units
    }

    /// The logical units.
    pub fn space(&self) -> Space {
        self.0.space
    }

    /// Counters up to now.
    pub fn counters(&self) -> FtlCounters {
        let state = self.0.state.borrow();
        let dies = 0..self.0.geometry.dies();
        let blocks_free = dies.clone().map(|die| u64::from(state.blocks.free(die))).sum();
        let blocks_spare = dies.map(|die| u64::from(state.blocks.spares(die))).sum();
        let (power_cycles, unsafe_shutdowns) = state.checkpoints.power_cycles();
        FtlCounters { blocks_free, blocks_spare, power_cycles, unsafe_shutdowns, ..state.counters }
    }

    /// Shows `look` the counters, and returns the number of free superblocks: for a look at a few of them, often. Those
    /// that [`counters`](Ftl::counters) sums over the dies, or takes from checkpoints, are zero.
    pub fn look_at_counters(&self, look: impl FnOnce(&FtlCounters)) -> u64 {
        let state = self.0.state.borrow();
        look(&state.counters);
        (0..self.0.geometry.dies()).map(|die| u64::from(state.blocks.free(die))).sum()
    }

    /// What is expected of garbage collection, if the drive began in the steady state of a load that does not saturate it.
    pub fn paced_state(&self) -> Option<PacedState> {
        self.0.base.paced()
    }

    /// What a policy did wrong, if one did: from then on the drive decided itself, as without a policy, and no figure is one of that
    /// policy.
    pub fn policy_fault(&self) -> Option<String> {
        let state = self.0.state.borrow();
        let of_streams = || state.streams.as_ref().and_then(|streams| streams.fault());
        let of_cache = || state.read_cache.as_ref().and_then(|cache| cache.fault());
        let of_ahead = || state.ahead.as_ref().and_then(|ahead| ahead.fault());
        let of_blocks = state.blocks.policy_fault();
        of_blocks.or_else(of_streams).or_else(of_cache).or_else(of_ahead).map(str::to_owned)
    }

    /// The drive's own array.
    ///
    /// # Panics
    /// If the flash is across a link; its counters belong to the drive that has it.
    pub fn flash(&self) -> &Flash {
        self.0.flash.own().expect("the array is the drive's own")
    }

    /// The flash that it drives.
    pub fn data_end(&self) -> &DataEnd {
        &self.0.flash
    }

    /// The placement of its work.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// Units in the write buffer.
    pub fn units_buffered(&self) -> u32 {
        self.0.state.borrow().buffer.used()
    }

    /// Units with absorbed parts that wait to be merged: see [`Ftl::write_part`].
    pub fn parts_waiting(&self) -> usize {
        self.0.state.borrow().parts.len()
    }

    /// Free slots of the write buffer that no task has reserved.
    pub fn slots_free(&self) -> u32 {
        self.0.room.free()
    }

    /// Total slots of the write buffer.
    pub fn slots(&self) -> u32 {
        self.0.room.slots()
    }

    /// Whether a request is in progress. A request in progress never waits for the host.
    pub fn is_attending(&self) -> bool {
        self.0.superseded.is_any_in_flight()
    }

    /// Units locked by [`Ftl::modify`], or for merging their parts.
    pub fn units_locked(&self) -> usize {
        self.0.locks.len()
    }

    /// Valid units of a superblock, and whether it is closed: full, and not a victim.
    pub fn valid_units(&self, block: BlockId) -> (u32, bool) {
        let state = self.0.state.borrow();
        (state.blocks.valid(block), state.blocks.is_closed(block))
    }

    /// The current health.
    pub fn health(&self) -> Health {
        let core = &*self.0;
        let state = core.state.borrow();
        Health {
            available_spare_percent: state.available_spare_percent(&core.config, &core.geometry),
            spare_threshold_percent: Health::SPARE_THRESHOLD_PERCENT,
            is_read_only: state.is_read_only(),
            unreadable: state.counters.units_unreadable + state.counters.units_lost,
            blocks_retired: state.counters.blocks_retired,
        }
    }

    /// Units that damage of the medium has lost, as found when power came on. They read as errors until they
    /// are written or deallocated.
    pub fn lost_units(&self) -> u64 {
        self.0.power.losses().units
    }

    /// Waits until [`health`](Ftl::health) may have become worse since the last call: spares are gone, or
    /// writes fail. For one task; changes between calls are not lost.
    pub async fn worsened(&self) {
        self.0.signals.health_changed.notified().await;
    }

    /// DRAM in use now. Takes no modelled time and only a few look-ups.
    pub fn footprint(&self) -> Footprint {
        footprint::footprint(&self.0)
    }

    /// Compares the tree of extents with a freshly built one.
    ///
    /// # Panics
    /// If they differ, or the map is not such a tree.
    #[doc(hidden)]
    pub fn check_extents(&self) {
        let core = &*self.0;
        let state = core.state.borrow();
        let log = Log { flash: &core.flash, geometry: &core.geometry };
        state.map.check_extents(&state.buffer, log);
    }

    /// Translation pages in DRAM, for a cached map.
    pub fn map_pages_held(&self) -> u32 {
        self.0.state.borrow().map.frames.oldest().count() as u32
    }

    /// Frames for translation pages in DRAM; None if it holds the whole map.
    pub fn map_frames(&self) -> Option<u32> {
        self.0.cache.as_ref().map(|_| self.0.state.borrow().map.frames.most())
    }

    /// Translation pages of the map.
    pub fn map_pages(&self) -> u32 {
        self.0.state.borrow().map.pages.count()
    }

    /// Translation pages of a segment, the unit in which DRAM for the map is taken and given up.
    pub fn map_segment_pages(&self) -> u32 {
        self.0.config.map_segment_pages
    }

    /// Adds own DRAM for `segments` segments of [`FtlConfig::map_segment_pages`], from a peer or back from
    /// one. No effect if DRAM holds the whole map.
    pub fn take_map_segments(&self, segments: u32) {
        clean::take_segments(&self.0, segments);
    }

    /// Gives up own DRAM of up to `segments` segments; a frame for one page remains. The pages in it are
    /// evicted, the dirty ones once they are buffered, while I/O continues. When this ends the DRAM is
    /// unused; returns the number of segments. If dropped early, the frames take no other pages, and their
    /// present pages stay.
    pub fn give_up_map_segments(&self, segments: u32) -> impl Future<Output = u32> {
        clean::give_up_segments(&self.0, segments)
    }

    /// Translation pages that lie in flash.
    pub fn map_pages_in_flash(&self) -> u64 {
        let state = self.0.state.borrow();
        let lies = |page: &u32| match state.buffer.in_flash(state.map.get(state.map.pages.unit(*page))).kind()
        {
            EntryKind::Base => self.0.base.find(state.map.pages.unit(*page)).is_some(),
            place => matches!(place, EntryKind::Flash(_)),
        };
        (0..state.map.pages.count()).filter(lies).count() as u64
    }

    /// Uses `memory`, with `places` for one page each, for copies of translation pages evicted from the
    /// cache. Returns false, with nothing changed, if other memory is lent already, or DRAM holds the whole
    /// map.
    pub fn borrow_memory(&self, memory: Rc<dyn LentMemory>, places: u32) -> bool {
        lent::borrow_memory(&self.0, memory, places)
    }

    /// Returns lent memory, if there is any. When this ends no load from it is in flight; stores may still
    /// be. I/O continues meanwhile. The memory is returned even if this is dropped early.
    pub fn return_memory(&self) -> impl Future<Output = ()> {
        lent::return_memory(&self.0)
    }

    /// Translation pages with copies in lent memory.
    pub fn map_copies(&self) -> u32 {
        self.0.state.borrow().map.copies.count()
    }

    /// Borrows a peer's DRAM for `segments` segments of
    /// [`FtlConfig::map_segment_pages`], to hold pages of the map.
    /// Returns the number taken: none if the drive's own DRAM holds the whole map, or its flash is across a
    /// link.
    pub fn borrow_segments(&self, lender: &Lender, segments: u32) -> u32 {
        borrow::borrow_segments(&self.0, lender, segments)
    }

    /// Returns up to `segments` segments to their lender. Their pages are evicted, the dirty ones after a
    /// read back, while I/O continues. When this ends the segments are unused for good, and their number is
    /// returned; fewer than requested if some were lost meanwhile. If dropped early, the segments take no
    /// further pages, and the next call returns them first.
    pub fn give_back_segments(&self, lender: LenderId, segments: u32) -> impl Future<Output = u32> {
        borrow::give_back_segments(&self.0, lender, segments)
    }

    /// Declares a lender lost together with its DRAM, and recovers the pages of its segments. Returns the
    /// number of segments.
    ///
    /// Takes [`WorkKind::Translate`] for each replayed record, queued behind the work of commands.
    pub fn lose_segments(&self, lender: LenderId) -> u32 {
        borrow::lose_segments(&self.0, lender)
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
        self.0.cache.as_ref().map(|cache| cache.set_monitor(monitor)).is_some()
    }
}
