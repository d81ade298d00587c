//! The parts of a translation layer, which do not depend on it, and the signals between its tasks. Its
//! operations are methods of [`Ftl`], [`Inner`] and [`State`] in the other files.

use crate::ftl::base::BaseState;
use crate::ftl::blocks::{Blocks, Lane};
use crate::ftl::buffer::{Buffer, Slot};
use crate::ftl::collect::collecting::Collecting;
use crate::ftl::collect::idleness::Idleness;
use crate::ftl::config::FtlConfig;
use crate::ftl::counters::FtlCounters;
use crate::ftl::durable::journal::Journal;
use crate::ftl::durable::{Checkpoints, Power};
use crate::ftl::map::copies::Lending;
use crate::ftl::map::extents::Log;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::map::{Cache, Mapping};
use crate::ftl::read_cache::{Origin, ReadCache};
use crate::ftl::scratch::Scratch;
use crate::ftl::space::Space;
use crate::ftl::streams::Streams;
use crate::ftl::write::filling::{Filling, PROGRAMS_PER_DIE, Writer};
use crate::ftl::write::lock::Locks;
use crate::ftl::write::parts::{Parts, Patch};
use crate::ftl::write::superseded::Superseded;
use crate::placement::Placement;
use crate::policy::stream::StreamCounts;
use byteway_clock::{Clock, Notify, Semaphore, TaskId};
use byteway_content::Content;
use byteway_flash::{DataEnd, Dump, Geometry, Ppa, Spare};
use std::cell::RefCell;
use std::rc::Rc;

/// State of the translation layer; each part belongs to the folder of its name.
pub(super) struct State {
    pub(super) map: Mapping,
    pub(super) buffer: Buffer,
    pub(super) blocks: Blocks,
    /// The stream policy, if it is to be asked.
    pub(super) streams: Option<Box<Streams>>,
    pub(super) filling: Filling,
    pub(super) collecting: Collecting,
    pub(super) journal: Journal,
    pub(super) checkpoints: Checkpoints,
    pub(super) parts: Parts,
    /// The read cache, if enabled.
    pub(super) read_cache: Option<ReadCache>,
    pub(super) counters: FtlCounters,
    /// Progress of the end of life.
    pub(super) end: EndOfLife,
}

/// Notifications between tasks.
pub(super) struct Signals {
    /// Buffer slots were freed: programmed, or dropped while they waited.
    pub(super) settled: Notify,
    /// Parts of units may need merging.
    pub(super) mergers: Notify,
    /// A journal page may need writing.
    pub(super) journal: Notify,
    /// A checkpoint is requested.
    pub(super) checkpoint: Notify,
    /// Superblocks of a purge were erased, or never will be.
    pub(super) purged: Notify,
    /// The drive's health may have become worse.
    pub(super) health_changed: Notify,
    /// A die started garbage collection because few superblocks are free, outside any window.
    pub(super) collection_begun: Notify,
    /// Notified when a die's collector may have work; by die.
    pub(super) collectors: Vec<Notify>,
}

impl Signals {
    pub(super) fn new(clock: &Clock, dies: u32) -> Self {
        Signals {
            settled: Notify::new(clock),
            mergers: Notify::new(clock),
            journal: Notify::new(clock),
            checkpoint: Notify::new(clock),
            purged: Notify::new(clock),
            health_changed: Notify::new(clock),
            collection_begun: Notify::new(clock),
            collectors: (0..dies).map(|_| Notify::new(clock)).collect(),
        }
    }
}

/// Stages of the end of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndOfLife {
    /// Reads and writes are accepted.
    Healthy,
    /// Writes are rejected.
    ReadOnly,
    /// The host's stream may use the garbage collection reserve, which is unused.
    Reserve,
    /// Buffered data cannot be programmed any more.
    Full,
}

pub(super) struct Inner {
    pub(super) clock: Clock,
    pub(super) placement: Placement,
    pub(super) flash: DataEnd,
    pub(super) geometry: Geometry,
    pub(super) base: Rc<BaseState>,
    pub(super) config: FtlConfig,
    pub(super) streams: StreamCounts,
    pub(super) space: Space,
    /// Credits for free buffer slots.
    pub(super) credits: Semaphore,
    pub(super) slots: u32,
    pub(super) locks: Locks,
    /// The map cache, unless DRAM holds the whole map.
    pub(super) cache: Option<Cache>,
    /// Memory lent for the map.
    pub(super) lending: Lending,
    pub(super) idleness: Idleness,
    pub(super) superseded: Superseded,
    pub(super) power: Power,
    pub(super) signals: Signals,
    pub(super) writers: Vec<Writer>,
    pub(super) state: RefCell<State>,
    pub(super) scratch: RefCell<Vec<Scratch>>,
    pub(super) tasks: RefCell<Vec<TaskId>>,
}

impl Inner {
    /// Superblocks of a die that the host leaves to garbage collection.
    pub(super) fn reserve(&self) -> u32 {
        self.config.reserve(self.streams)
    }

    /// Free superblocks of a die at which garbage collection begins.
    pub(super) fn start(&self) -> u32 {
        self.config.start(self.streams)
    }
}

/// A drive's translation layer. Cheap to clone.
#[derive(Clone)]
pub struct Ftl(pub(super) Rc<Inner>);

/// Location of a unit's current version.
pub(super) enum UnitLocation {
    Nowhere,
    Buffered(Content),
    Flash(Ppa),
    /// In flash, overlaid by these parts.
    Under(Ppa, Rc<Patch>),
}

impl State {
    /// The save for the capacitors: current versions of the buffered units, and deallocations that are not
    /// yet in flash.
    pub(super) fn dump(&self, user_units: u64, late: Vec<(u64, Content)>) -> Dump {
        let is_latest = |slot: &&Slot| {
            let entry = self.map.table.get(slot.lpa).as_slot();
            slot.lpa < user_units
                && entry.is_some_and(|entry| self.buffer.slot(entry).sequence == slot.sequence)
        };
        let units = self.buffer.iter().filter(is_latest);
        let spare = |slot: &Slot| Spare { lpa: slot.lpa, sequence: slot.sequence };
        let mut units: Vec<(Spare, Content)> =
            units.map(|slot| (spare(slot), slot.content.clone())).collect();
        // Units are restored in order, so of two versions of a unit the later one prevails.
        let sequence = self.buffer.next_sequence();
        let is_late = |lpa| late.iter().any(|(late, _)| *late == lpa);
        let parts = self.parts.saved(is_late);
        let parts = parts.map(|(sequence, lpa, content)| (Spare { lpa, sequence }, content)).collect();
        units.extend(late.iter().map(|(lpa, content)| (Spare { lpa: *lpa, sequence }, content.clone())));
        Dump { units, parts, records: self.journal.dump() }
    }

    /// Location of a unit's current version.
    #[inline]
    pub(super) fn find(&self, base: &BaseState, lpa: u64) -> UnitLocation {
        let found = self.find_beneath(base, lpa);
        match self.parts.get(lpa) {
            None => found,
            Some(patch) => match found {
                UnitLocation::Flash(ppa) if !patch.is_whole() => UnitLocation::Under(ppa, patch.clone()),
                UnitLocation::Buffered(content) => UnitLocation::Buffered(self.parts.over(patch, &content)),
                UnitLocation::Nowhere | UnitLocation::Flash(_) | UnitLocation::Under(..) => {
                    UnitLocation::Buffered(self.parts.over(patch, &Content::Zero))
                }
            },
        }
    }

    /// Location of a unit in buffer or flash, absorbed parts ignored.
    #[inline]
    pub(super) fn find_beneath(&self, base: &BaseState, lpa: u64) -> UnitLocation {
        match self.map.table.get(lpa).kind() {
            EntryKind::Base => base.find(lpa).map_or(UnitLocation::Nowhere, UnitLocation::Flash),
            EntryKind::Unmapped => UnitLocation::Nowhere,
            EntryKind::Flash(ppa) => UnitLocation::Flash(ppa),
            EntryKind::Slot(slot) => UnitLocation::Buffered(self.buffer.slot(slot).content.clone()),
            EntryKind::Lost => UnitLocation::Buffered(Content::unreadable()),
        }
    }

    /// Nodes of the tree of extents that a look-up visits; without a tree, the number of units.
    pub(super) fn look_ups(&self, first: u64, count: u64) -> u64 {
        self.map.extents.as_ref().map_or(count, |extents| extents.look_ups(first, count))
    }

    /// Applies map changes to the tree of extents.
    pub(super) fn settle_extents(&mut self, log: Log) {
        if let Some(mut extents) = self.map.extents.take() {
            extents.settle(log, |lpa| self.place_in_flash(lpa));
            self.map.extents = Some(extents);
        }
    }

    /// Flash address of a unit that was programmed, buffered versions ignored.
    #[inline]
    pub(super) fn place_in_flash(&self, lpa: u64) -> Option<Ppa> {
        match self.buffer.in_flash(self.map.table.get(lpa)).kind() {
            EntryKind::Flash(ppa) => Some(ppa),
            EntryKind::Base | EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => None,
        }
    }

    /// Like [`find`](State::find), with counters and the read cache, for a host read.
    #[inline]
    pub(super) fn find_counted(&mut self, base: &BaseState, lpa: u64) -> UnitLocation {
        let found = self.find(base, lpa);
        match &found {
            UnitLocation::Nowhere => self.counters.units_read_unmapped += 1,
            UnitLocation::Buffered(_) => self.counters.units_read_from_buffer += 1,
            UnitLocation::Flash(ppa) | UnitLocation::Under(ppa, _) => {
                if let Some(cache) = &mut self.read_cache
                    && let Some(content) = cache.get(lpa, Origin::of(*ppa, &self.blocks))
                {
                    self.counters.units_read_from_cache += 1;
                    return UnitLocation::Buffered(match &found {
                        UnitLocation::Under(_, patch) => self.parts.over(patch, &content),
                        _ => content,
                    });
                }
            }
        }
        found
    }

    /// Marks the version in flash as stale. Returns the die if its collector must be notified.
    #[inline]
    pub(super) fn lose(&mut self, base: &BaseState, lpa: u64, entry: Entry) -> Option<u32> {
        let block = match entry.kind() {
            EntryKind::Base => base.block_of(lpa)?,
            EntryKind::Flash(ppa) => self.blocks.block_of(ppa),
            EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => return None,
        };
        self.blocks.lost(block, 1)
    }

    /// Updates whether a die can take a host stripe.
    pub(super) fn refresh(&mut self, die: u32) {
        let State { filling, blocks, .. } = self;
        let idle = filling.in_flight[die as usize] < PROGRAMS_PER_DIE;
        for (stream, lane) in (0..).zip(&mut filling.lanes) {
            let has_space = blocks.has_space(die, Lane::Cache) || blocks.has_space(die, Lane::Host(stream));
            lane.ready.set(die, idle && has_space);
        }
    }
}
