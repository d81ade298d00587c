//! What a translation layer is made of: its parts, which know nothing of it, and what its tasks wait for. What it does is
//! in the other files, as verbs of [`Ftl`], [`Inner`] and [`State`].

use crate::ftl::base::BaseState;
use crate::ftl::blocks::{Blocks, Stream};
use crate::ftl::buffer::{Buffer, Slot};
use crate::ftl::collect::collecting::Collecting;
use crate::ftl::collect::idleness::Idleness;
use crate::ftl::config::FtlConfig;
use crate::ftl::counters::FtlCounters;
use crate::ftl::durable::journal::Journal;
use crate::ftl::durable::{Checkpoints, Power};
use crate::ftl::map::copies::Lending;
use crate::ftl::map::extents::Log;
use crate::ftl::map::table::{Entry, Place};
use crate::ftl::map::{Cache, Mapping};
use crate::ftl::read_cache::{Origin, ReadCache};
use crate::ftl::scratch::Scratch;
use crate::ftl::space::Space;
use crate::ftl::write::filling::{Filling, PROGRAMS_PER_DIE, Writer};
use crate::ftl::write::lock::Locks;
use crate::ftl::write::parts::{Parts, Patch};
use crate::ftl::write::superseded::Superseded;
use crate::placement::Placement;
use byteway_clock::{Clock, Notify, Semaphore, TaskId};
use byteway_flash::{DataEnd, Dump, Geometry, Ppa, Spare};
use byteway_wire::content::Content;
use std::cell::RefCell;
use std::rc::Rc;

/// What the translation layer knows and is at; each part is of the folder that has its name.
pub(super) struct State {
    pub(super) map: Mapping,
    pub(super) buffer: Buffer,
    pub(super) blocks: Blocks,
    pub(super) filling: Filling,
    pub(super) collecting: Collecting,
    pub(super) journal: Journal,
    pub(super) checkpoints: Checkpoints,
    pub(super) parts: Parts,
    /// What the host has read, if it is kept.
    pub(super) read_cache: Option<ReadCache>,
    pub(super) counters: FtlCounters,
    /// What may still be written.
    pub(super) end: EndOfLife,
}

/// What its tasks wait for.
pub(super) struct Signals {
    /// Slots have become free: programmed, or dropped while they waited.
    pub(super) settled: Notify,
    /// There may be parts of units to be merged.
    pub(super) mergers: Notify,
    /// There may be a page of the journal to be written.
    pub(super) journal: Notify,
    /// A checkpoint is wanted.
    pub(super) checkpoint: Notify,
    /// Superblocks have been erased, or never will be.
    pub(super) purged: Notify,
    /// The drive may be worse than it was.
    pub(super) ails: Notify,
    /// A die has begun to collect because free superblocks are few, and was in no window.
    pub(super) collection_begun: Notify,
    /// For each die: there may be something to collect.
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
            ails: Notify::new(clock),
            collection_begun: Notify::new(clock),
            collectors: (0..dies).map(|_| Notify::new(clock)).collect(),
        }
    }
}

/// How near the end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EndOfLife {
    /// It is not.
    Far,
    /// Nothing new is taken.
    ReadOnly,
    /// The host's stream has the reserve, since nobody else needs it.
    LastRoom,
    /// What is still buffered has nowhere to go.
    Full,
}

pub(super) struct Inner {
    pub(super) clock: Clock,
    pub(super) placement: Placement,
    pub(super) flash: DataEnd,
    pub(super) geometry: Geometry,
    pub(super) base: Rc<BaseState>,
    pub(super) config: FtlConfig,
    pub(super) space: Space,
    /// Slots of the buffer that are free and promised to nobody.
    pub(super) credits: Semaphore,
    pub(super) slots: u32,
    pub(super) locks: Locks,
    /// If the DRAM does not hold the whole map.
    pub(super) cache: Option<Cache>,
    /// Memory that is lent for the map.
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

/// A drive's translation layer. Cheap to clone.
#[derive(Clone)]
pub struct Ftl(pub(super) Rc<Inner>);

/// Where a unit can be had.
pub(super) enum Found {
    Nowhere,
    Buffered(Content),
    Flash(Ppa),
    /// In flash, but for these parts, which lie over it.
    Under(Ppa, Rc<Patch>),
}

impl State {
    /// What capacitors save: the units in the buffer, as they are now, and deallocations that are not in flash.
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
        // They come back in order, so of a unit that is there twice the later state counts.
        let sequence = self.buffer.next_sequence();
        let is_late = |lpa| late.iter().any(|(late, _)| *late == lpa);
        let parts = self.parts.saved(is_late);
        let parts = parts.map(|(sequence, lpa, content)| (Spare { lpa, sequence }, content)).collect();
        units.extend(late.iter().map(|(lpa, content)| (Spare { lpa: *lpa, sequence }, content.clone())));
        Dump { units, parts, records: self.journal.dump() }
    }

    /// Where a unit can be had now.
    #[inline]
    pub(super) fn find(&self, base: &BaseState, lpa: u64) -> Found {
        let found = self.find_beneath(base, lpa);
        match self.parts.get(lpa) {
            None => found,
            Some(patch) => match found {
                Found::Flash(ppa) if !patch.is_whole() => Found::Under(ppa, patch.clone()),
                Found::Buffered(content) => Found::Buffered(self.parts.over(patch, &content)),
                Found::Nowhere | Found::Flash(_) | Found::Under(..) => {
                    Found::Buffered(self.parts.over(patch, &Content::Zero))
                }
            },
        }
    }

    /// The same of what the buffer or flash has of it, whatever parts of it wait.
    #[inline]
    pub(super) fn find_beneath(&self, base: &BaseState, lpa: u64) -> Found {
        match self.map.table.get(lpa).place() {
            Place::Base => base.find(lpa).map_or(Found::Nowhere, Found::Flash),
            Place::Unmapped => Found::Nowhere,
            Place::Flash(ppa) => Found::Flash(ppa),
            Place::Slot(slot) => Found::Buffered(self.buffer.slot(slot).content.clone()),
        }
    }

    /// Nodes that a look-up in the tree of extents visits.
    pub(super) fn look_ups(&self, first: u64, count: u64) -> u64 {
        self.map.extents.as_ref().map_or(count, |extents| extents.look_ups(first, count))
    }

    /// The tree of extents follows what has changed.
    pub(super) fn settle_extents(&mut self, log: Log) {
        if let Some(mut extents) = self.map.extents.take() {
            extents.settle(log, |lpa| self.place_in_flash(lpa));
            self.map.extents = Some(extents);
        }
    }

    /// Where flash has a unit that was programmed, whatever the buffer has of it.
    #[inline]
    pub(super) fn place_in_flash(&self, lpa: u64) -> Option<Ppa> {
        match self.buffer.in_flash(self.map.table.get(lpa)).place() {
            Place::Flash(ppa) => Some(ppa),
            Place::Base | Place::Unmapped | Place::Slot(_) => None,
        }
    }

    /// The same, for a read of the host's.
    #[inline]
    pub(super) fn find_counted(&mut self, base: &BaseState, lpa: u64) -> Found {
        let found = self.find(base, lpa);
        match &found {
            Found::Nowhere => self.counters.units_read_unmapped += 1,
            Found::Buffered(_) => self.counters.units_read_from_buffer += 1,
            Found::Flash(ppa) | Found::Under(ppa, _) => {
                if let Some(cache) = &mut self.read_cache
                    && let Some(content) = cache.get(lpa, Origin::of(*ppa, &self.blocks))
                {
                    self.counters.units_read_from_cache += 1;
                    return Found::Buffered(match &found {
                        Found::Under(_, patch) => self.parts.over(patch, &content),
                        _ => content,
                    });
                }
            }
        }
        found
    }

    /// The state that flash has of a unit is history. Gives the die if its collector wants to know.
    #[inline]
    pub(super) fn lose(&mut self, base: &BaseState, lpa: u64, entry: Entry) -> Option<u32> {
        let block = match entry.place() {
            Place::Base => base.block_of(lpa)?,
            Place::Flash(ppa) => self.blocks.block_of(ppa),
            Place::Unmapped | Place::Slot(_) => return None,
        };
        self.blocks.lost(block, 1)
    }

    /// Notes whether a die can take a stripe of the host's.
    pub(super) fn refresh(&mut self, die: u32) {
        let idle = self.filling.under_way[die as usize] < PROGRAMS_PER_DIE;
        let has_room = self.blocks.has_room(die, Stream::Cache) || self.blocks.has_room(die, Stream::Host);
        self.filling.ready.set(die, idle && has_room);
    }
}
