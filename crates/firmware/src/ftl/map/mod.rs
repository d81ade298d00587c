//! The map from units to their locations, and the translation pages that persist it.
//!
//! | file | contents |
//! |---|---|
//! | [`table`] | an overlay over the base |
//! | [`extents`] | the shape of a map that is a B+-tree of extents, and its cost |
//! | [`pages`], [`page`] | translation pages: which are dirty; their encoding |
//! | [`frames`] | frames of the cached map, by recency |
//! | [`copies`] | copies of pages in memory that a host lends |
//! | [`segments`], [`redo`] | segments of peers' DRAM as additional frames; the log page of one |
//! | [`commits`] | what changes of pages in such segments cost |
//!
//! It is state, which changes within a call; `paging` loads and writes pages.

pub(in crate::ftl) mod commits;
pub(in crate::ftl) mod copies;
pub(in crate::ftl) mod extents;
pub(in crate::ftl) mod frames;
pub(in crate::ftl) mod page;
pub(in crate::ftl) mod pages;
pub mod redo;
pub(in crate::ftl) mod segments;
pub(in crate::ftl) mod table;

use crate::ftl::buffer::Buffer;
use crate::ftl::config::FtlConfig;
use crate::ftl::map::redo::Record;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::Space;
use crate::placement::Route;
use byteway_clock::{Clock, Notify};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_flash::Ppa;
use copies::Copies;
use extents::{Extents, Log, Size};
use frames::Frames;
use pages::Pages;
use segments::Segments;
use std::cell::RefCell;
use std::rc::Rc;
use table::Table;

/// Maximum allowance that the updater saves up for a burst.
const UPDATES_MOST: u64 = 4096;

/// The map, with the state of its translation pages.
pub(in crate::ftl) struct Mapping {
    table: Table,
    pub(in crate::ftl) pages: Pages,
    /// Set if the map is modelled as a tree of extents.
    extents: Option<Box<Extents>>,
    /// Frames of the cached map.
    pub(in crate::ftl) frames: Frames,
    /// Segments of peers' DRAM; None if none was ever borrowed.
    pub(in crate::ftl) segments: Option<Box<Segments>>,
    /// Copies in lent memory.
    pub(in crate::ftl) copies: Copies,
    /// Pages that the updater may still write.
    updates: u64,
}

impl Mapping {
    pub(in crate::ftl) fn new(space: Space, config: &FtlConfig) -> Self {
        let cached = config.map_cache_pages;
        let extents = config.extents.as_ref().map(|extents| Box::new(Extents::new(extents, space.user)));
        Mapping {
            extents,
            table: Table::new(space),
            pages: Pages::new(space, cached.is_some()),
            frames: Frames::new(cached.unwrap_or(0)),
            segments: None,
            copies: Copies::new(0),
            updates: 0,
        }
    }

    /// A unit's entry.
    #[inline]
    pub(in crate::ftl) fn get(&self, lpa: u64) -> Entry {
        self.table.get(lpa)
    }

    /// The table, for looking many units up.
    pub(in crate::ftl) fn table(&self) -> &Table {
        &self.table
    }

    /// Replaces the table and the state of the pages by recovered ones.
    pub(in crate::ftl) fn install(&mut self, table: Table, pages: Pages) {
        (self.table, self.pages) = (table, pages);
    }

    /// Records that the current version of a unit is in a slot of the buffer. Its page does not change.
    #[inline]
    pub(in crate::ftl) fn buffered(&mut self, lpa: u64, slot: u32) {
        self.table.set(lpa, Entry::slot(slot));
    }

    /// Sets a unit's location in flash as its page has it, or as it was rebuilt from that and a log.
    pub(in crate::ftl) fn rebuilt(&mut self, lpa: u64, entry: Entry) {
        self.table.set(lpa, entry);
    }

    /// Unmaps a unit. The caller has released its location, and records all of a deallocation together.
    pub(in crate::ftl) fn unmap(&mut self, lpa: u64) {
        self.table.set(lpa, Entry::UNMAPPED);
    }

    /// Unmaps a region, likewise.
    pub(in crate::ftl) fn unmap_region(&mut self, first: u64) {
        self.table.deallocate_region(first);
    }

    /// Moves a unit to its location in flash, through work by `route`.
    #[inline]
    pub(in crate::ftl) fn move_to(&mut self, lpa: u64, entry: Entry, route: Route) {
        self.table.set(lpa, entry);
        self.changed(lpa, entry, route);
    }

    /// Changes a unit's location in flash to `to`, if it is still `from`. A buffered unit has it in its slot.
    #[inline]
    pub(in crate::ftl) fn relocate(&mut self, buffer: &mut Buffer, lpa: u64, from: Entry, to: Entry) -> bool {
        let entry = self.table.get(lpa);
        if entry == from {
            self.move_to(lpa, to, Route::OWN);
            return true;
        }
        match entry.as_slot() {
            Some(slot) if buffer.slot(slot).old == from => {
                buffer.set_in_flash(slot, to);
                self.changed(lpa, to, Route::OWN);
                true
            }
            _ => false,
        }
    }

    /// Flash address of a unit that was programmed, buffered versions ignored.
    #[inline]
    fn place_in_flash(&self, buffer: &Buffer, lpa: u64) -> Option<Ppa> {
        match buffer.in_flash(self.table.get(lpa)).kind() {
            EntryKind::Flash(ppa) => Some(ppa),
            EntryKind::Base | EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => None,
        }
    }

    /// Nodes of the tree of extents that a look-up visits; without a tree, the number of units.
    pub(in crate::ftl) fn look_ups(&self, first: u64, count: u64) -> u64 {
        self.extents.as_ref().map_or(count, |extents| extents.look_ups(first, count))
    }

    /// Applies map changes to the tree of extents, if the map is one.
    #[inline]
    pub(in crate::ftl) fn settle_extents(&mut self, buffer: &Buffer, log: Log) {
        if let Some(mut extents) = self.extents.take() {
            extents.settle(log, |lpa| self.place_in_flash(buffer, lpa));
            self.extents = Some(extents);
        }
    }

    /// Builds the tree of extents from the map, in order of units, if the map is one.
    pub(in crate::ftl) fn make_extents(&mut self, buffer: &Buffer, log: Log) {
        let Some(extents) = &mut self.extents else { return };
        extents.clear();
        self.table.each_kept(0..self.pages.space.user, |lpa, _| extents.note(lpa));
        self.settle_extents(buffer, log);
    }

    /// Compares the tree of extents, if the map is one, with a freshly built one, and panics if they differ.
    pub(in crate::ftl) fn check_extents(&self, buffer: &Buffer, log: Log) {
        if let Some(extents) = &self.extents {
            extents.check(log, |lpa| self.place_in_flash(buffer, lpa));
        }
    }

    /// Takes the number of nodes that changes have visited since the last call.
    pub(in crate::ftl) fn take_visits(&mut self) -> u64 {
        self.extents.as_mut().map_or(0, |extents| extents.take_visits())
    }

    /// Encodes a translation page to be written, and marks it clean. What is buffered is not in it.
    pub(in crate::ftl) fn capture(&mut self, buffer: &Buffer, page: u32, keep: Keep) -> Content {
        let content = Content::of(&self.page_bytes(buffer, page), keep);
        self.written(page);
        content
    }

    /// Encodes a translation page.
    pub(in crate::ftl) fn page_bytes(&self, buffer: &Buffer, page: u32) -> [u8; UNIT_BYTES] {
        page::encode(&self.table, buffer, self.pages.space, page)
    }

    /// The pages that the updater writes next, at most `most`.
    pub(in crate::ftl) fn next_updates(&mut self, most: u64, pages: &mut Vec<u32>) {
        let surplus = self.pages.away().saturating_sub(self.frames.most().into());
        let count = surplus.min(self.updates).min(most);
        self.updates -= count;
        pages.clear();
        pages.extend((0..count).map_while(|_| self.pages.next_away()));
        pages.sort_unstable();
        pages.dedup();
    }

    /// DRAM that it takes. `is_cached`: DRAM holds a part of it.
    pub(in crate::ftl) fn size(&self, is_cached: bool) -> Size {
        let without_tree = |bytes| Size { bytes, nodes: 0, extents: 0, height: 0 };
        let space = self.pages.space;
        match &self.extents {
            Some(extents) => extents.size(),
            None if is_cached => {
                let (logs, elsewhere) = self.segments.as_ref().map_or((0, 0), |it| it.held(&self.frames));
                without_tree((self.frames.held() - elsewhere + logs) * UNIT_BYTES as u64)
            }
            None => without_tree(space.user * if space.is_wide { 8 } else { 4 }),
        }
    }

    /// Records that the location in flash of a buffered unit changed to `entry`, through work by `route`.
    #[inline]
    pub(in crate::ftl) fn changed(&mut self, lpa: u64, entry: Entry, route: Route) {
        self.pages.changed(lpa);
        if let Some(extents) = &mut self.extents {
            extents.note(lpa);
        }
        if let Some(segments) = &mut self.segments {
            segments.changed(&self.frames, self.pages.space, lpa, entry, route);
        }
    }

    /// Records that units were deallocated.
    pub(in crate::ftl) fn deallocated(&mut self, first: u64, end: u64) {
        if let Some(segments) = &mut self.segments {
            for page in self.pages.space.page_of(first)..=self.pages.space.page_of(end - 1) {
                let Some((frame, number)) = self.frames.find_borrowed(page) else { continue };
                let units = self.pages.units(page);
                if first <= units.start && units.end <= end {
                    // The directory then says as much as the page would.
                    segments.captured(&mut self.frames, page, units);
                    self.frames.drop_page(frame);
                    self.pages.hold(page, false);
                } else {
                    let first = first.max(units.start);
                    let count = end.min(units.end) - first;
                    segments.commit(number, Record::Deallocated { first, count }, Route::OWN);
                }
            }
        }
        self.pages.deallocated(first, end);
        if let Some(extents) = &mut self.extents {
            extents.remove(first, end);
        }
    }

    /// Deallocates every unit of the host.
    pub(in crate::ftl) fn deallocate_all(&mut self) {
        self.table.deallocate_all();
        if self.segments.is_some() {
            self.deallocated(0, self.pages.space.user);
        }
        self.pages.deallocated_all();
        if let Some(extents) = &mut self.extents {
            extents.clear();
        }
    }

    /// Allows the updater `units` more pages, the number of programmed host units. Returns whether any page
    /// is away.
    pub(in crate::ftl) fn allow_updates(&mut self, units: u64) -> bool {
        self.updates = (self.updates + units).min(UPDATES_MOST);
        let has_full = self.segments.as_mut().is_some_and(|segments| segments.allow_flushes(units));
        self.pages.away() > 0 || has_full
    }

    /// Records that a page is captured for flash as the map is now.
    pub(in crate::ftl) fn written(&mut self, page: u32) {
        self.pages.written(page);
        self.copies.forget(page);
        if let Some(segments) = &mut self.segments {
            let units = self.pages.units(page);
            segments.captured(&mut self.frames, page, units);
        }
    }
}

/// Signals between the tasks of the cached map. The pages themselves are in [`Mapping`].
pub(in crate::ftl) struct Cache {
    /// Maximum of the next pages to evict that are kept clean: the units of a stripe.
    pub(in crate::ftl) ahead_most: u32,
    /// Notified when the load of a frame ends, by frame number modulo the length.
    pub(in crate::ftl) loaded: [Notify; 16],
    /// Notified when a frame may have become available.
    pub(in crate::ftl) frame_available: Notify,
    pub(in crate::ftl) evictor: Notify,
    pub(in crate::ftl) updater: Notify,
    /// Notified when the log of a borrowed segment may be full.
    pub(in crate::ftl) flusher: Notify,
    /// Notified when a borrowed segment has been flushed or is lost.
    pub(in crate::ftl) flushed: Notify,
    pub(in crate::ftl) monitor: RefCell<Option<Rc<dyn MapMonitor>>>,
}

/// Observer of the translation pages that commands look up.
pub trait MapMonitor {
    /// A command looks a page up. Must not wait, nor call the translation layer.
    fn look_up(&self, page: u32);
}

impl Cache {
    pub(in crate::ftl) fn new(clock: &Clock, stripe_units: u32) -> Self {
        let notify = || Notify::new(clock);
        Cache {
            ahead_most: stripe_units,
            loaded: std::array::from_fn(|_| notify()),
            frame_available: notify(),
            evictor: notify(),
            updater: notify(),
            flusher: notify(),
            flushed: notify(),
            monitor: RefCell::default(),
        }
    }

    pub(in crate::ftl) fn loaded(&self, frame: u32) -> &Notify {
        &self.loaded[frame as usize % self.loaded.len()]
    }

    /// Wakes commands that wait for a frame: frames in peers' DRAM may have become free by other means than a
    /// load or an eviction.
    pub(in crate::ftl) fn wake_frame_waiters(&self, map: &Mapping) {
        if map.segments.is_some() {
            self.frame_available.notify_all();
        }
    }

    /// Wakes the updater, since pages that are away should be written, and the flusher, if there is one.
    pub(in crate::ftl) fn call_updater(&self, map: &Mapping) {
        self.updater.notify_one();
        if map.segments.is_some() {
            self.flusher.notify_one();
        }
    }

    /// Reports each page that is looked up to `monitor`.
    pub(in crate::ftl) fn set_monitor(&self, monitor: Option<Rc<dyn MapMonitor>>) {
        self.monitor.replace(monitor);
    }
}
