//! Segments of peers' DRAM that hold a part of the cached map: who lends them, what their logs say, and what is owed for that.
//!
//! A segment has frames of the cache and, in the borrower's own DRAM, a [log page](super::redo). Each change of an entry in one of its
//! frames is a record there. A page that is captured for flash begins anew: earlier records of it say nothing any more, which its
//! frame remembers by a number ([`Origin`]).
//!
//! A change that finds the log full *waits*, in the borrower's own DRAM like changes of pages that are away, until the segment is
//! flushed and the log cleared. Look-ups see it, so the drive goes on meanwhile. Of each unit the last change waits.

use crate::ftl::config::Canary;
use crate::ftl::map::frames::{Frames, Origin};
use crate::ftl::map::redo::{LogPage, Record};
use crate::ftl::map::table::Entry;
use crate::ftl::space::Space;
use crate::placement::{Distance, Route};
use crate::site::Site;
use byteway_clock::Delay;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// A peer that lends DRAM, by its number among those that the drive knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LenderId(pub u8);

/// A peer that lends DRAM, and what lies between it and those that work on the map. Cheap to clone.
#[derive(Clone)]
pub struct Lender(Rc<LenderParts>);

#[derive(Clone)]
struct LenderParts {
    id: LenderId,
    memory: Site,
    distance: Distance,
    /// By route; none: that works at the lender itself.
    by_route: BTreeMap<Route, Option<Distance>>,
    commit: Delay,
}

impl Lender {
    /// What it takes a core to prepare a record of the log and flush it to DRAM. "Espresso", 4.6: 321.9 ns.
    pub const COMMIT: Delay = Delay(321_900);

    /// The peer whose DRAM is that of `memory`, at a distance from the drive's own site.
    pub fn new(id: LenderId, memory: &Site, distance: &Distance) -> Lender {
        let (memory, distance) = (memory.clone(), distance.clone());
        Lender(Rc::new(LenderParts { id, memory, distance, by_route: BTreeMap::new(), commit: Self::COMMIT }))
    }

    /// The same, where work that is done by `route` is at that distance from the lender; none: it is done at the lender. Routes that
    /// are not named are as far as the drive's own site.
    pub fn with_route(mut self, route: Route, distance: Option<Distance>) -> Self {
        Rc::make_mut(&mut self.0).by_route.insert(route, distance);
        self
    }

    /// The same, where a commit takes a core so long.
    pub fn with_commit(mut self, commit: Delay) -> Self {
        Rc::make_mut(&mut self.0).commit = commit;
        self
    }

    /// Its number.
    pub fn id(&self) -> LenderId {
        self.0.id
    }

    /// What it takes a core to commit a record.
    pub(super) fn commit(&self) -> Delay {
        self.0.commit
    }

    /// What lies between who works by a route and this DRAM; none: it is theirs.
    pub(super) fn distance(&self, route: Route) -> Option<&Distance> {
        match self.0.by_route.get(&route) {
            Some(distance) => distance.as_ref(),
            None => Some(&self.0.distance),
        }
    }

    /// What lies between the drive's own site and this DRAM.
    pub(super) fn own_distance(&self) -> &Distance {
        &self.0.distance
    }

    /// The site whose DRAM it is.
    pub(super) fn memory(&self) -> &Site {
        &self.0.memory
    }
}

/// What borrowed segments have been used for, since the power came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BorrowFigures {
    /// Look-ups that found their page there.
    pub accesses: u64,
    /// Pages that were brought there.
    pub pages_loaded: u64,
    /// Pages that were read back, because they were dirty.
    pub pages_read_back: u64,
    /// Records committed, or waiting to be.
    pub commits: u64,
    /// Of those, how many had to wait because the log was full.
    pub commits_late: u64,
    /// Times that a segment was flushed because its log was full.
    pub flushes: u64,
    /// Commands that waited for that.
    pub commands_held_up: u64,
    /// Segments that were given back.
    pub segments_returned: u64,
    /// Segments that were lost with their lenders.
    pub segments_lost: u64,
    /// Dirty pages in them, which were recovered.
    pub pages_recovered: u64,
    /// Records that were replayed for that.
    pub records_replayed: u64,
}

/// A segment.
pub(super) struct Segment {
    pub(super) lender: Lender,
    pub(super) frames: Vec<u32>,
    pub(super) log: LogPage,
    /// Changes that wait for room in the log: from a unit to its entry, as a page keeps it.
    pub(super) waiting: BTreeMap<u64, u64>,
    /// How often it has been flushed because its log was full: who waits for that knows by this that it has been.
    pub(super) flushes: u64,
    /// Commands that wait for that.
    pub(super) wanted: u32,
    pub(super) is_leaving: bool,
}

/// Commits that are still to be paid for.
pub(super) struct Unpaid {
    pub(super) route: Route,
    pub(super) lender: Lender,
    pub(super) count: u64,
}

/// All segments that are borrowed.
#[derive(Default)]
pub(in crate::ftl) struct Segments {
    /// Numbers are never used again.
    by_number: BTreeMap<u32, Segment>,
    next: u32,
    /// Those whose log is full.
    full: BTreeSet<u32>,
    /// The one that was flushed last: the next in turn comes after it.
    flushed_last: u32,
    /// Pages that may be flushed because logs are full, though no command waits for it.
    turns: u64,
    pub(super) unpaid: Vec<Unpaid>,
    pub(super) figures: BorrowFigures,
    canary: Option<Canary>,
}

/// How many turns are saved up for a burst.
const TURNS_MOST: u64 = 4096;

/// Of so many commits one is left out, where that is what is broken.
const SKIPPED_ONE_IN: u64 = 3;

impl Segments {
    pub(super) fn new(canary: Option<Canary>) -> Self {
        Segments { canary, ..Self::default() }
    }

    /// Takes a segment, whose frames are made for its number.
    pub(super) fn add(&mut self, lender: &Lender, make: impl FnOnce(u32) -> Vec<u32>) {
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

    pub(super) fn get(&self, number: u32) -> Option<&Segment> {
        self.by_number.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Segment> {
        self.by_number.get_mut(&number)
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<Segment> {
        self.full.remove(&number);
        self.by_number.remove(&number)
    }

    /// Those of a lender, in the order in which they came.
    pub(super) fn of(&self, lender: LenderId) -> impl DoubleEndedIterator<Item = (u32, &Segment)> {
        let of_lender = move |(_, segment): &(&u32, &Segment)| segment.lender.id() == lender;
        self.by_number.iter().filter(of_lender).map(|(number, segment)| (*number, segment))
    }

    /// How many are borrowed of each lender, in the order of their numbers; those that are leaving too.
    pub(super) fn counts(&self) -> BTreeMap<LenderId, u32> {
        let mut counts = BTreeMap::new();
        for segment in self.by_number.values() {
            *counts.entry(segment.lender.id()).or_insert(0) += 1;
        }
        counts
    }

    /// How many there are, and how many pages are in them.
    pub(in crate::ftl) fn held(&self, frames: &Frames) -> (u64, u64) {
        let all = self.by_number.values().flat_map(|segment| &segment.frames);
        let held = all.filter(|frame| frames.page(**frame).is_some()).count();
        (self.by_number.len() as u64, held as u64)
    }

    /// So many units of the host's have been programmed: as many pages may be flushed. Whether any log is full.
    pub(super) fn allow_flushes(&mut self, units: u64) -> bool {
        self.turns = (self.turns + units).min(TURNS_MOST);
        !self.full.is_empty()
    }

    /// A page is flushed because a log is full.
    pub(super) fn take_turn(&mut self) {
        self.turns = self.turns.saturating_sub(1);
    }

    /// The segment that is flushed next because its log is full: one that a command waits for, before others.
    pub(super) fn to_flush(&self) -> Option<u32> {
        let behind = self.full.range(self.flushed_last.saturating_add(1)..);
        let turn = || behind.clone().chain(self.full.range(..=self.flushed_last)).copied();
        let is_wanted = |number: &u32| self.get(*number).is_some_and(|segment| segment.wanted > 0);
        turn().find(is_wanted).or_else(|| turn().next().filter(|_| self.turns > 0))
    }

    /// Whether the log of a segment takes no further record now.
    pub(super) fn is_full(&self, number: u32) -> bool {
        self.full.contains(&number)
    }

    /// A segment has been flushed: its log is cleared, and takes what has waited, as far as there is room.
    pub(super) fn cleared(&mut self, number: u32) {
        self.flushed_last = number;
        let Some(segment) = self.by_number.get_mut(&number) else { return };
        segment.log.clear();
        segment.flushes += 1;
        while !segment.log.is_full()
            && let Some((unit, entry)) = segment.waiting.pop_first()
        {
            // There is room.
            _ = segment.log.commit(Record::Moved { unit, entry });
        }
        if !segment.log.is_full() {
            self.full.remove(&number);
        }
        self.figures.flushes += 1;
    }

    /// Flash has a unit elsewhere. If its page lies in a segment, that is committed to the log.
    pub(super) fn changed(&mut self, frames: &Frames, space: Space, lpa: u64, entry: Entry, route: Route) {
        if lpa >= space.user {
            return;
        }
        if let Some((_, number)) = frames.find_borrowed(space.page_of(lpa)) {
            let entry = entry.kept().expect("flash has no unit in a slot");
            self.commit(number, Record::Moved { unit: lpa, entry }, route);
        }
    }

    /// Commits a change of an entry in a segment, or has it wait.
    pub(super) fn commit(&mut self, number: u32, record: Record, route: Route) {
        let Some(segment) = self.by_number.get_mut(&number) else { return };
        self.figures.commits += 1;
        match self.unpaid.last_mut() {
            Some(last) if last.route == route && last.lender.id() == segment.lender.id() => last.count += 1,
            _ => self.unpaid.push(Unpaid { route, lender: segment.lender.clone(), count: 1 }),
        }
        if self.canary == Some(Canary::SkipCommit) && self.figures.commits.is_multiple_of(SKIPPED_ONE_IN) {
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

    /// A page is captured for flash, or all of it is history: what its log says of it up to now says nothing any more.
    pub(super) fn captured(&mut self, frames: &mut Frames, page: u32, units: Range<u64>) {
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
