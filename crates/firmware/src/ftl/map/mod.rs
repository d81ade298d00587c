//! The map: from a unit to where it is, and the translation pages that it is written down in.
//!
//! | file | what |
//! |---|---|
//! | [`table`] | an overlay over the base |
//! | [`extents`] | the shape of a map that is a B+-tree of extents, and what it takes |
//! | [`pages`], [`page`] | translation pages: which are dirty, and what one says |
//! | [`cache`] | the cached map: misses, the evictor, pages that change while they are away, places lent and taken |
//! | [`frames`] | its places, by last use |
//! | [`copies`], [`lent`] | copies of pages in memory that a host lends; when they are made, used and given up |
//! | [`segments`], [`borrow`] | segments of peers' DRAM as further places, and their logs; what their use costs, when they come and go |
//! | [`redo`], [`restore`] | the log page of such a segment; what a page is when its segment is gone |

pub(in crate::ftl) mod borrow;
pub(in crate::ftl) mod cache;
pub(in crate::ftl) mod copies;
pub(in crate::ftl) mod extents;
pub(in crate::ftl) mod frames;
pub(in crate::ftl) mod lent;
pub(in crate::ftl) mod page;
pub(in crate::ftl) mod pages;
pub mod redo;
pub(in crate::ftl) mod restore;
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

/// Where everything is.
pub(in crate::ftl) struct Mapping {
    pub(in crate::ftl) table: Table,
    pub(in crate::ftl) pages: Pages,
    /// If it is modelled as a tree of extents.
    pub(in crate::ftl) extents: Option<Box<Extents>>,
    /// Those of them that are in DRAM, if not all are.
    pub(in crate::ftl) frames: Frames,
    /// Segments of peers' DRAM that hold some; none: none was ever borrowed.
    pub(in crate::ftl) segments: Option<Box<Segments>>,
    /// Those of which there are copies in lent memory.
    pub(in crate::ftl) copies: Copies,
    /// How many pages that are away may be written.
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

    /// Where flash has a unit has changed to `entry`, by work that was done by `route`.
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

    /// Units have been deallocated.
    pub(in crate::ftl) fn deallocated(&mut self, first: u64, end: u64) {
        if let Some(segments) = &mut self.segments {
            for page in self.pages.space.page_of(first)..=self.pages.space.page_of(end - 1) {
                let Some((frame, number)) = self.frames.find_borrowed(page) else { continue };
                let units = self.pages.units(page);
                if first <= units.start && units.end <= end {
                    // The directory says as much as the page would.
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

    /// Every unit has been deallocated.
    pub(in crate::ftl) fn deallocated_all(&mut self) {
        if self.segments.is_some() {
            self.deallocated(0, self.pages.space.user);
        }
        self.pages.deallocated_all();
    }

    /// Flash will have a page as the map says it now.
    pub(in crate::ftl) fn written(&mut self, page: u32) {
        self.pages.written(page);
        self.copies.forget(page);
        if let Some(segments) = &mut self.segments {
            let units = self.pages.units(page);
            segments.captured(&mut self.frames, page, units);
        }
    }
}

/// Who waits for what. The pages themselves are in [`Mapping`].
pub(in crate::ftl) struct Cache {
    /// How many of the pages that go next are kept clean, at most: a stripe's worth.
    ahead_most: u32,
    /// The load of one of the frames with this number, modulo, has ended.
    loaded: [Notify; 16],
    /// There may be a place for another page.
    room: Notify,
    evictor: Notify,
    updater: Notify,
    /// The log of a borrowed segment may be full.
    flusher: Notify,
    /// A borrowed segment has been flushed, or is gone.
    flushed: Notify,
    monitor: RefCell<Option<Rc<dyn MapMonitor>>>,
}

/// What looks at which translation pages commands look up.
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
            room: notify(),
            evictor: notify(),
            updater: notify(),
            flusher: notify(),
            flushed: notify(),
            monitor: RefCell::default(),
        }
    }

    fn loaded(&self, frame: u32) -> &Notify {
        &self.loaded[frame as usize % self.loaded.len()]
    }
}
