//! Segments of peers' DRAM that hold part of the cached map: lenders, logs, and commits not yet charged.
//!
//! A segment has frames of the cache and, in the borrower's own DRAM, a [log page](super::redo), which gets a
//! record for each change of an entry in those frames. Capturing a page for flash makes its earlier records
//! obsolete; its frame remembers that by a sequence number ([`Origin`]).
//!
//! A change that finds the log full *waits*, in the borrower's own DRAM like changes of pages that are away,
//! until the segment is flushed and the log cleared. Look-ups see it, so the drive continues meanwhile. Only
//! the last change of each unit waits.

use crate::ftl::config::Defect;
use crate::ftl::map::frames::{Frames, Origin};
use crate::ftl::map::redo::{LogPage, Record};
use crate::ftl::map::table::Entry;
use crate::ftl::space::Space;
use crate::placement::{Route, SiteLink};
use crate::site::Site;
use byteway_clock::Delay;
use byteway_defect::Planted;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// Number of a lending peer among those that the drive knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LenderId(pub u8);

/// A peer that lends DRAM, with the links between it and the sites that work on the map. Cheap to clone.
#[derive(Clone)]
pub struct Lender(Rc<LenderParts>);

#[derive(Clone)]
struct LenderParts {
    id: LenderId,
    memory: Site,
    distance: SiteLink,
    /// Link by route; None if work by that route is done at the lender itself.
    by_route: BTreeMap<Route, Option<SiteLink>>,
    commit: Delay,
}

impl Lender {
    /// Default core time to prepare a log record and flush it to DRAM. "Espresso", 4.6: 321.9 ns.
    pub const COMMIT: Delay = Delay(321_900);

    /// The peer whose DRAM is that of `memory`, with its link from the drive's own site.
    pub fn new(id: LenderId, memory: &Site, distance: &SiteLink) -> Lender {
        let (memory, distance) = (memory.clone(), distance.clone());
        Lender(Rc::new(LenderParts { id, memory, distance, by_route: BTreeMap::new(), commit: Self::COMMIT }))
    }

    /// Sets the link from the site that works by `route`; None if that is the lender itself. Other routes use
    /// the link from the drive's own site.
    pub fn with_route(mut self, route: Route, distance: Option<SiteLink>) -> Self {
        Rc::make_mut(&mut self.0).by_route.insert(route, distance);
        self
    }

    /// Sets the core time of a commit.
    pub fn with_commit(mut self, commit: Delay) -> Self {
        Rc::make_mut(&mut self.0).commit = commit;
        self
    }

    /// Number of the lender.
    pub fn id(&self) -> LenderId {
        self.0.id
    }

    /// Core time of a commit.
    pub(in crate::ftl) fn commit(&self) -> Delay {
        self.0.commit
    }

    /// The link from the site that works by `route` to this DRAM; None if it is that site's own.
    pub(in crate::ftl) fn distance(&self, route: Route) -> Option<&SiteLink> {
        match self.0.by_route.get(&route) {
            Some(distance) => distance.as_ref(),
            None => Some(&self.0.distance),
        }
    }

    /// The link from the drive's own site to this DRAM.
    pub(in crate::ftl) fn own_distance(&self) -> &SiteLink {
        &self.0.distance
    }

    /// The site whose DRAM it is.
    pub(in crate::ftl) fn memory(&self) -> &Site {
        &self.0.memory
    }
}

/// Statistics of borrowed segments since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorrowFigures {
    /// Look-ups that found their page in a segment.
    pub accesses: u64,
    /// Pages loaded into segments.
    pub pages_loaded: u64,
    /// Dirty pages read back.
    pub pages_read_back: u64,
    /// Records committed or waiting to be.
    pub commits: u64,
    /// Records that waited because the log was full.
    pub commits_late: u64,
    /// Flushes of a segment with a full log.
    pub flushes: u64,
    /// Commands that waited for such a flush.
    pub commands_held_up: u64,
    /// Segments returned to their lenders.
    pub segments_returned: u64,
    /// Segments lost with their lenders.
    pub segments_lost: u64,
    /// Dirty pages recovered from lost segments.
    pub pages_recovered: u64,
    /// Log records replayed for that.
    pub records_replayed: u64,
}

/// A borrowed segment.
pub(in crate::ftl) struct Segment {
    pub(in crate::ftl) lender: Lender,
    pub(in crate::ftl) frames: Vec<u32>,
    pub(in crate::ftl) log: LogPage,
    /// Changes that wait for space in the log: from a unit to its entry, in the encoding of a page.
    pub(in crate::ftl) waiting: BTreeMap<u64, u64>,
    /// Flushes because of a full log; a waiting command recognises the end of a flush by it.
    pub(in crate::ftl) flushes: u64,
    /// Commands that wait for a flush.
    pub(in crate::ftl) wanted: u32,
    pub(in crate::ftl) is_leaving: bool,
}

/// Commits not yet charged.
pub(in crate::ftl) struct Unpaid {
    pub(in crate::ftl) route: Route,
    pub(in crate::ftl) lender: Lender,
    pub(in crate::ftl) count: u64,
}

/// All borrowed segments.
#[derive(Default)]
pub(in crate::ftl) struct Segments {
    /// Numbers are never reused.
    by_number: BTreeMap<u32, Segment>,
    next: u32,
    /// Segments with a full log.
    full: BTreeSet<u32>,
    /// The segment flushed last; the next in turn comes after it.
    flushed_last: u32,
    /// Pages that may be flushed because of full logs although no command waits.
    turns: u64,
    pub(in crate::ftl) unpaid: Vec<Unpaid>,
    pub(in crate::ftl) figures: BorrowFigures,
    defect: Planted<Defect>,
}

/// Maximum turns saved up for a burst.
const TURNS_MOST: u64 = 4096;

/// With a defect, one of this many commits is omitted.
const SKIPPED_ONE_IN: u64 = 3;

impl Segments {
    pub(in crate::ftl) fn new(defect: Planted<Defect>) -> Self {
        Segments { defect, ..Self::default() }
    }

    /// Adds a segment; `make` creates frames for its number.
    pub(in crate::ftl) fn add(&mut self, lender: &Lender, make: impl FnOnce(u32) -> Vec<u32>) {
        let number = self.next;
        self.next += 1;
        let segment = Segment {
            lender: lender.clone(),
            frames: make(number),
            log: LogPage::default(),
            waiting: BTreeMap::new(),
            flushes: 0,
            wanted: 0,
            is_leaving: false,
        };
        self.by_number.insert(number, segment);
    }

    pub(in crate::ftl) fn get(&self, number: u32) -> Option<&Segment> {
        self.by_number.get(&number)
    }

    pub(in crate::ftl) fn get_mut(&mut self, number: u32) -> Option<&mut Segment> {
        self.by_number.get_mut(&number)
    }

    pub(in crate::ftl) fn remove(&mut self, number: u32) -> Option<Segment> {
        self.full.remove(&number);
        self.by_number.remove(&number)
    }

    /// Segments of a lender, in the order of their arrival.
    pub(in crate::ftl) fn of(&self, lender: LenderId) -> impl DoubleEndedIterator<Item = (u32, &Segment)> {
        let of_lender = move |(_, segment): &(&u32, &Segment)| segment.lender.id() == lender;
        self.by_number.iter().filter(of_lender).map(|(number, segment)| (*number, segment))
    }

    /// Segments borrowed from each lender, in order of lenders, including those that are leaving.
    pub(in crate::ftl) fn counts(&self) -> BTreeMap<LenderId, u32> {
        let mut counts = BTreeMap::new();
        for segment in self.by_number.values() {
            *counts.entry(segment.lender.id()).or_insert(0) += 1;
        }
        counts
    }

    /// Number of segments, and of pages in them.
    pub(in crate::ftl) fn held(&self, frames: &Frames) -> (u64, u64) {
        let all = self.by_number.values().flat_map(|segment| &segment.frames);
        let held = all.filter(|frame| frames.page(**frame).is_some()).count();
        (self.by_number.len() as u64, held as u64)
    }

    /// Allows `units` more pages to be flushed, the number of programmed host units. Returns whether any log
    /// is full.
    pub(in crate::ftl) fn allow_flushes(&mut self, units: u64) -> bool {
        self.turns = (self.turns + units).min(TURNS_MOST);
        !self.full.is_empty()
    }

    /// Consumes the allowance for a page flushed because of a full log.
    pub(in crate::ftl) fn take_turn(&mut self) {
        self.turns = self.turns.saturating_sub(1);
    }

    /// The segment to flush next: one that a command waits for, before others.
    pub(in crate::ftl) fn to_flush(&self) -> Option<u32> {
        let behind = self.full.range(self.flushed_last.saturating_add(1)..);
        let turn = || behind.clone().chain(self.full.range(..=self.flushed_last)).copied();
        let is_wanted = |number: &u32| self.get(*number).is_some_and(|segment| segment.wanted > 0);
        turn().find(is_wanted).or_else(|| turn().next().filter(|_| self.turns > 0))
    }

    /// Whether the log of a segment is full.
    pub(in crate::ftl) fn is_full(&self, number: u32) -> bool {
        self.full.contains(&number)
    }

    /// Clears the log of a flushed segment, and commits the changes that have waited, until it is full.
    pub(in crate::ftl) fn cleared(&mut self, number: u32) {
        self.flushed_last = number;
        let Some(segment) = self.by_number.get_mut(&number) else { return };
        segment.log.clear();
        segment.flushes += 1;
        while !segment.log.is_full()
            && let Some((unit, entry)) = segment.waiting.pop_first()
        {
            // Cannot fail: the loop ends when the log is full.
            _ = segment.log.commit(Record::Moved { unit, entry });
        }
        if !segment.log.is_full() {
            self.full.remove(&number);
        }
        self.figures.flushes += 1;
    }

    /// Records a unit's new location in flash: commits it to the log if its page lies in a segment.
    pub(in crate::ftl) fn changed(
        &mut self,
        frames: &Frames,
        space: Space,
        lpa: u64,
        entry: Entry,
        route: Route,
    ) {
        if lpa >= space.user {
            return;
        }
        if let Some((_, number)) = frames.find_borrowed(space.page_of(lpa)) {
            let entry = entry.kept().expect("an entry for flash is no slot");
            self.commit(number, Record::Moved { unit: lpa, entry }, route);
        }
    }

    /// Commits a change of an entry in a segment, or queues it if the log is full.
    pub(in crate::ftl) fn commit(&mut self, number: u32, record: Record, route: Route) {
        let Some(segment) = self.by_number.get_mut(&number) else { return };
        self.figures.commits += 1;
        match self.unpaid.last_mut() {
            Some(last) if last.route == route && last.lender.id() == segment.lender.id() => last.count += 1,
            _ => self.unpaid.push(Unpaid { route, lender: segment.lender.clone(), count: 1 }),
        }
        if self.defect.has(Defect::SkipCommit) && self.figures.commits.is_multiple_of(SKIPPED_ONE_IN) {
            return;
        }
        if segment.waiting.is_empty() && segment.log.commit(record).is_ok() {
            if segment.log.is_full() {
                self.full.insert(number);
            }
            return;
        }
        self.figures.commits_late += 1;
        match record {
            Record::Moved { unit, entry } => _ = segment.waiting.insert(unit, entry),
            Record::Deallocated { first, count } => {
                let nowhere = Entry::UNMAPPED.kept().unwrap_or_default();
                segment.waiting.extend((first..first + count).map(|unit| (unit, nowhere)));
            }
        }
    }

    /// Marks the log records of a page as obsolete, because it is captured for flash or is obsolete itself.
    pub(in crate::ftl) fn captured(&mut self, frames: &mut Frames, page: u32, units: Range<u64>) {
        let Some(frame) = frames.find(page) else { return };
        let Some(segment) = frames.segment(frame).and_then(|number| self.by_number.get_mut(&number)) else {
            return;
        };
        frames.set_origin(frame, Origin { since: segment.log.next(), is_void: false });
        while let Some(unit) = segment.waiting.range(units.clone()).next().map(|(unit, _)| *unit) {
            segment.waiting.remove(&unit);
        }
    }
}
