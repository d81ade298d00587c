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

use crate::ftl::config::FtlConfig;
use crate::ftl::map::redo::Record;
use crate::ftl::map::table::Entry;
use crate::ftl::space::Space;
use crate::placement::Route;
use byteway_clock::{Clock, Notify};
use copies::Copies;
use extents::Extents;
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
    pub(in crate::ftl) table: Table,
    pub(in crate::ftl) pages: Pages,
    /// Set if the map is modelled as a tree of extents.
    pub(in crate::ftl) extents: Option<Box<Extents>>,
    /// Frames of the cached map.
    pub(in crate::ftl) frames: Frames,
    /// Segments of peers' DRAM; None if none was ever borrowed.
    pub(in crate::ftl) segments: Option<Box<Segments>>,
    /// Copies in lent memory.
    pub(in crate::ftl) copies: Copies,
    /// Pages that the updater may still write.
    pub(in crate::ftl) updates: u64,
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

    /// Records that a unit's location in flash changed to `entry`, through work by `route`.
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
    }

    /// Records that every unit was deallocated.
    pub(in crate::ftl) fn deallocated_all(&mut self) {
        if self.segments.is_some() {
            self.deallocated(0, self.pages.space.user);
        }
        self.pages.deallocated_all();
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
}
