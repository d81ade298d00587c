//! The DRAM of a powered drive: its segments, its offers, and what it has borrowed.

use crate::config::DramConfig;
use crate::decision::demand::{MapSample, Segments};
use byteway_clock::TaskId;
use byteway_firmware::{BorrowFigures, Ftl, Lender};
use byteway_world::PoweredDrive;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Segments that a drive offers or lends by one of its descriptors.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) index: usize,
    pub(crate) segments: u32,
    pub(crate) is_withdrawn: bool,
}

/// Segments borrowed from a peer, by one of the peer's descriptors.
#[derive(Clone, Copy)]
pub(crate) struct Borrowed {
    pub(crate) lender: usize,
    pub(crate) index: usize,
    pub(crate) segments: u32,
}

/// The DRAM of a powered drive, and its loans.
pub(crate) struct PresentDram {
    pub(crate) task: Cell<Option<TaskId>>,
    pub(crate) sample: Rc<MapSample>,
    /// Segments of its own; 0: it takes no part.
    pub(crate) shape: Segments,
    pub(crate) offers: RefCell<Vec<Offer>>,
    pub(crate) borrowed: RefCell<Vec<Borrowed>>,
    /// Peers as DRAM lenders, created when they are first borrowed from.
    pub(crate) lenders: RefCell<BTreeMap<usize, Lender>>,
    pub(crate) figures: Cell<DramFigures>,
    /// Hits and misses of look-ups at the last measurement.
    pub(crate) looked: Cell<(u64, u64)>,
}

/// Use of a drive's DRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DramFigures {
    /// Segments of its own.
    pub own: u32,
    /// Segments offered or lent now.
    pub offered: u32,
    /// Segments lent now.
    pub lent: u32,
    /// Segments borrowed now.
    pub borrowed: u32,
    /// Number of borrowed descriptors.
    pub borrowings: u64,
    /// Failed claims, of descriptors that had changed since they were read.
    pub claims_failed: u64,
    /// Descriptors given back because they were no longer needed.
    pub returns: u64,
    /// Descriptors given back because the lender had withdrawn them.
    pub reclaimed: u64,
    /// Look-ups of translation pages.
    pub look_ups: u64,
    /// The part of `look_ups` that hit in DRAM.
    pub hits: u64,
    /// How borrowed segments were used.
    pub use_of: BorrowFigures,
}

impl PresentDram {
    /// The state of a drive that was just powered on.
    pub(crate) fn new(config: &DramConfig, drive: &PoweredDrive, seed: u64) -> Self {
        let ftl = drive.drive.controller.backing().ftl();
        let pages = ftl.map_or(0, Ftl::map_segment_pages).max(1);
        let own = ftl.and_then(Ftl::map_frames).map_or(0, |frames| frames / pages);
        PresentDram {
            task: Cell::default(),
            sample: Rc::new(MapSample::new(config.sample, seed)),
            shape: Segments { own, pages },
            offers: RefCell::default(),
            borrowed: RefCell::default(),
            lenders: RefCell::default(),
            figures: Cell::default(),
            looked: Cell::default(),
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut DramFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    pub(crate) fn borrowed_segments(&self) -> u32 {
        self.borrowed.borrow().iter().map(|it| it.segments).sum()
    }

    pub(crate) fn offered_segments(&self) -> u32 {
        self.offers.borrow().iter().filter(|it| !it.is_withdrawn).map(|it| it.segments).sum()
    }
}
