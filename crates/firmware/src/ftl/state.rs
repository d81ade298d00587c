//! The state of a translation layer: what its parts own, and what concerns several of them at once, such as where
//! a unit is. Nothing here waits.

use crate::ftl::base::BaseState;
use crate::ftl::blocks::{Blocks, Lane};
use crate::ftl::buffer::{Buffer, Slot};
use crate::ftl::collect::collecting::Collecting;
use crate::ftl::config::FtlConfig;
use crate::ftl::counters::FtlCounters;
use crate::ftl::journal::Journal;
use crate::ftl::journal::checkpoints::Checkpoints;
use crate::ftl::map::Mapping;
use crate::ftl::map::table::EntryKind;
use crate::ftl::read_cache::{Found, Origin, ReadCache};
use crate::ftl::reading_ahead::ReadingAhead;
use crate::ftl::streams::Streams;
use crate::ftl::write::filling::Filling;
use crate::ftl::write::parts::{Parts, Patch};
use byteway_content::Content;
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
    /// What is read ahead, if the policy of that is to be asked.
    pub(super) ahead: Option<Box<ReadingAhead>>,
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
            let entry = self.map.get(slot.lpa).as_slot();
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
        match self.map.get(lpa).kind() {
            EntryKind::Base => base.find(lpa).map_or(UnitLocation::Nowhere, UnitLocation::Flash),
            EntryKind::Unmapped => UnitLocation::Nowhere,
            EntryKind::Flash(ppa) => UnitLocation::Flash(ppa),
            EntryKind::Slot(slot) => UnitLocation::Buffered(self.buffer.slot(slot).content.clone()),
            EntryKind::Lost => UnitLocation::Buffered(Content::unreadable()),
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
                let Some(cache) = &mut self.read_cache else { return found };
                let Some(Found { content, was_ahead }) = cache.get(lpa, Origin::of(*ppa, &self.blocks))
                else {
                    self.counters.units_not_in_cache += 1;
                    return found;
                };
                self.counters.units_read_from_cache += 1;
                self.counters.units_read_ahead_used += u64::from(was_ahead);
                return UnitLocation::Buffered(match &found {
                    UnitLocation::Under(_, patch) => self.parts.over(patch, &content),
                    _ => content,
                });
            }
        }
        found
    }

    /// Updates whether a die can take a host stripe.
    pub(super) fn refresh(&mut self, die: u32) {
        self.filling.refresh(&self.blocks, die);
    }

    /// Number of the host's streams that can get a stripe in a die.
    pub(super) fn streams_with_space(&self, die: u32) -> usize {
        let streams = 0..self.filling.streams();
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
