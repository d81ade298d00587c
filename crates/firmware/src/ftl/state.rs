//! The state of a translation layer: what its parts own, and what concerns several of them at once, such as where
//! a unit is. Nothing here waits.

use crate::ftl::base::BaseState;
use crate::ftl::blocks::{Blocks, Lane};
use crate::ftl::buffer::{Buffer, Slot, UNTRACED};
use crate::ftl::collect::collecting::Collecting;
use crate::ftl::config::FtlConfig;
use crate::ftl::counters::FtlCounters;
use crate::ftl::journal::Journal;
use crate::ftl::journal::checkpoints::Checkpoints;
use crate::ftl::map::Mapping;
use crate::ftl::map::extents::Log;
use crate::ftl::map::page;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::read_cache::{Origin, ReadCache};
use crate::ftl::streams::Streams;
use crate::ftl::write::filling::{Filling, PROGRAMS_PER_DIE};
use crate::ftl::write::parts::{Parts, Patch};
use crate::placement::Route;
use byteway_content::{Content, Keep};
use byteway_flash::{Dump, Geometry, Ppa, Spare};
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

    /// Whether the latest programmed version of a unit is at `from`, according to its map entry, or to the
    /// slot of its buffered version.
    #[inline]
    pub(super) fn holds(&self, entry: Entry, from: Entry) -> bool {
        entry == from || entry.as_slot().is_some_and(|slot| self.buffer.slot(slot).old == from)
    }

    /// Changes a unit's location in flash to `to`, if it is still `from`.
    #[inline]
    pub(super) fn relocate(&mut self, lpa: u64, from: Entry, to: Entry) -> bool {
        let entry = self.map.table.get(lpa);
        if entry == from {
            self.map.table.set(lpa, to);
            self.map.changed(lpa, to, Route::OWN);
            return true;
        }
        match entry.as_slot() {
            Some(slot) if self.buffer.slot(slot).old == from => {
                self.buffer.slot_mut(slot).old = to;
                self.map.changed(lpa, to, Route::OWN);
                true
            }
            _ => false,
        }
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

    /// Encodes a translation page to be written, and marks it clean. Also returns the sequence number that it
    /// reflects: everything buffered before is in it.
    ///
    /// An entry takes four bytes, or eight in a wide map, little-endian, in the encoding of [`Entry::kept`].
    pub(super) fn capture(&mut self, page: u32, keep: Keep) -> (Content, u64) {
        let content = self.page_content(page, keep);
        self.map.written(page);
        (content, self.buffer.settled())
    }

    /// Encodes a translation page.
    pub(super) fn page_content(&self, page: u32, keep: Keep) -> Content {
        Content::of(&page::encode(&self.map.table, &self.buffer, self.map.pages.space, page), keep)
    }

    /// Buffers a unit; the caller holds a credit. Returns the slot taken; None if the unit replaced one that
    /// waits.
    pub(super) fn buffer_unit(&mut self, lpa: u64, content: Content, io: u32, route: Route) -> Option<u32> {
        let State { map, buffer, streams, filling, .. } = self;
        let stream = streams.as_mut().map_or(0, |streams| streams.place_written(lpa));
        let entry = map.table.get(lpa);
        let slot = match entry.as_slot() {
            Some(index) if buffer.waits(index) => {
                let slot = buffer.slot_mut(index);
                (slot.content, slot.io, slot.route) = (content, io, route);
                buffer.move_to(index, stream);
                return None;
            }
            Some(slot) => {
                // The new slot inherits the version in flash, and will inherit the one in flight.
                debug_assert_eq!(buffer.slot(slot).lpa, lpa, "a map entry leads to a slot of its own unit");
                let before = buffer.slot_mut(slot);
                let old = std::mem::replace(&mut before.old, Entry::UNMAPPED);
                let old_sequence = before.old_sequence;
                buffer.take(stream, lpa, content, io, old, old_sequence)
            }
            None => {
                // Anything in flight for this unit is older than the map entry.
                let sequence = buffer.next_sequence();
                buffer.take(stream, lpa, content, io, entry, sequence)
            }
        };
        buffer.slot_mut(slot).route = route;
        if filling.lanes.len() > 1 {
            // Those of other streams may overtake it.
            buffer.slot_mut(slot).first_stripe = Some(filling.next_number);
        }
        map.table.set(lpa, Entry::slot(slot));
        Some(slot)
    }

    /// Buffers the present state of a translation page; the caller holds a credit. Returns whether it took a
    /// slot.
    pub(super) fn buffer_page(&mut self, page: u32, keep: Keep) -> bool {
        let unit = self.map.pages.unit(page);
        let (content, reflects) = self.capture(page, keep);
        let taken = self.buffer_unit(unit, content, UNTRACED, Route::OWN).is_some();
        if let Some(slot) = self.map.table.get(unit).as_slot() {
            self.buffer.slot_mut(slot).stamp = reflects;
        }
        taken
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

    /// Whether a unit waits, and a die can take a stripe of its stream.
    pub(super) fn can_send(&self) -> bool {
        let mut lanes = (0..).zip(&self.filling.lanes);
        lanes.any(|(stream, lane)| self.buffer.waiting_in(stream) > 0 && !lane.ready.is_empty())
    }

    /// Number of the host's streams that can get a stripe in a die.
    pub(super) fn streams_with_space(&self, die: u32) -> usize {
        let streams = 0..self.filling.lanes.len() as u8;
        streams.filter(|stream| self.blocks.has_space(die, Lane::Host(*stream))).count()
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.end > EndOfLife::Healthy
    }

    pub(super) fn available_spare_percent(&self, config: &FtlConfig, geometry: &Geometry) -> u8 {
        if self.is_read_only() {
            return 0;
        }
        let mut initial = vec![config.upkeep.spare_blocks; geometry.dies() as usize];
        for block in config.factory_bad(geometry) {
            initial[geometry.die_of_block(block) as usize] -= 1;
        }
        let left = (0..).zip(&initial).filter(|(_, initial)| **initial > 0);
        let percent = left.map(|(die, initial)| self.blocks.spares(die) * 100 / initial);
        percent.min().unwrap_or(100).min(100) as u8
    }
}
