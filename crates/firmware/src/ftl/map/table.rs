//! The table of the map: the location of each unit, as an overlay over the base state.
//!
//! Zero means "as in the base state", so a drive of any size starts with an empty table. An entry takes 32
//! bits as long as addresses do. Up to [`DENSE_UNITS`] the table is an array, whose zeroed pages the system
//! provides on first touch; beyond, it is a hash table of the entries that the run has touched, until an
//! array would be smaller. For a *wide* map, with entries of 64 bits, it stays a hash table: an array for the
//! smallest such drive would take 30 GiB.
//!
//! Deallocation works by region: a bit says that no unit of a region is as in the base state, so that a host
//! that deallocates terabytes neither waits for nor creates a table of them.

use crate::ftl::space::{REGION_UNITS, Space};
use byteway_content::Words;
use byteway_flash::{Geometry, Ppa};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::ops::Range;

/// Location of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Entry(u64);

/// The cases of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum EntryKind {
    /// As in the base state, where it may be unmapped.
    Base,
    /// Unmapped: it was deallocated.
    Unmapped,
    /// In flash.
    Flash(Ppa),
    /// In a slot of the write buffer.
    Slot(u32),
    /// Unknown: damage has lost it. Reads fail until it is written or deallocated.
    Lost,
}

impl Entry {
    pub(in crate::ftl) const BASE: Entry = Entry(0);
    pub(in crate::ftl) const UNMAPPED: Entry = Entry(1);
    const SLOT_FIRST: u64 = 2;
    /// Maximum slots.
    pub(in crate::ftl) const SLOTS: u32 = 1 << 24;
    pub(in crate::ftl) const LOST: Entry = Entry(Self::SLOT_FIRST + Self::SLOTS as u64);
    const FLASH_FIRST: u64 = Self::LOST.0 + 1;
    /// Persistent encoding of flash address 0.
    const KEPT_FIRST: u64 = 2;

    /// Persistent encoding of a lost unit, the largest value in a map: an address beyond any array.
    pub(in crate::ftl) const KEPT_MAX: u64 = Self::KEPT_FIRST + Geometry::UNITS_MAX as u64;
    /// The same in a map that is not wide.
    pub(in crate::ftl) const KEPT_NARROW_MAX: u64 = Self::KEPT_FIRST + Geometry::NARROW_UNITS_MAX;

    /// Decodes the persistent form. It may come from a damaged file, so the address may be out of range.
    pub(in crate::ftl) fn of_kept(kept: u64) -> Entry {
        match kept.checked_sub(Self::KEPT_FIRST) {
            None => Entry(kept),
            Some(_) if kept >= Self::KEPT_MAX => Entry::LOST,
            Some(ppa) => Entry::flash(Ppa(ppa)),
        }
    }

    #[inline]
    pub(in crate::ftl) fn flash(ppa: Ppa) -> Entry {
        Entry(ppa.0 + Self::FLASH_FIRST)
    }

    #[inline]
    pub(in crate::ftl) fn slot(slot: u32) -> Entry {
        Entry(Self::SLOT_FIRST + u64::from(slot))
    }

    #[inline]
    pub(in crate::ftl) fn kind(self) -> EntryKind {
        match self.0 {
            0 => EntryKind::Base,
            1 => EntryKind::Unmapped,
            Self::FLASH_FIRST.. => EntryKind::Flash(Ppa(self.0 - Self::FLASH_FIRST)),
            _ if self == Self::LOST => EntryKind::Lost,
            slot => EntryKind::Slot((slot - Self::SLOT_FIRST) as u32),
        }
    }

    /// Encodes the persistent form: 0 is the base state, 1 is unmapped, then come the flash addresses, and
    /// last the lost units. None for a slot.
    pub(in crate::ftl) fn kept(self) -> Option<u64> {
        match self.kind() {
            EntryKind::Base => Some(0),
            EntryKind::Unmapped => Some(1),
            EntryKind::Flash(ppa) => Some(ppa.0 + Self::KEPT_FIRST),
            EntryKind::Slot(_) => None,
            EntryKind::Lost => Some(Self::KEPT_MAX),
        }
    }

    /// The entry in 32 bits, for a map that is not wide: all of its addresses and slots fit.
    #[inline]
    fn narrow(self) -> u32 {
        debug_assert!(self.0 <= u64::from(u32::MAX), "an address of a narrow map fits 32 bits");
        self.0 as u32
    }

    /// The slot, if it is buffered.
    #[inline]
    pub(in crate::ftl) fn as_slot(self) -> Option<u32> {
        let slot = self.0.wrapping_sub(Self::SLOT_FIRST);
        (slot < u64::from(Self::SLOTS)).then_some(slot as u32)
    }
}

const _: () = assert!(Geometry::NARROW_UNITS_MAX + Entry::FLASH_FIRST <= u32::MAX as u64);

/// Maximum host units for which the table is an array from the start: 64 GiB, a table of 64 MiB.
const DENSE_UNITS: u64 = 64 << 30 >> 12;

/// Initial capacity of a hash table in entries: 2 GiB of units, so that few runs see it grow. Its memory is
/// allocated on touch, except for a byte an entry.
const SPARSE_ENTRIES: usize = 1 << 19;

/// Units of a bit in `touched`: few enough that most groups of a sparsely used drive are untouched, many
/// enough that the bits are few.
const GROUP: u64 = 8;

/// Units whose groups share a word of bits.
const WORD_UNITS: u64 = 32 * GROUP;

enum Entries {
    Dense(Words),
    /// Iterated only to build an array, where order does not matter.
    Sparse(FxHashMap<u32, u32>),
    Wide(FxHashMap<u64, u64>),
}

/// A drive's map.
pub(in crate::ftl) struct Table {
    /// The ranges of units; host units are deallocated by region or all together.
    space: Space,
    entries: Entries,
    /// With a hash table: a bit for each [`GROUP`] of units of which some may be in it.
    touched: Words,
    /// A bit for each region; empty before the first deallocation.
    deallocated: Vec<u64>,
}

impl Table {
    /// A table for these units, all as in the base state.
    pub(in crate::ftl) fn new(space: Space) -> Self {
        let units = space.units();
        let (entries, bits) = match space.user {
            _ if space.is_wide => (Entries::Wide(FxHashMap::default()), units),
            ..=DENSE_UNITS => (dense(units), 0),
            _ => {
                let entries = FxHashMap::with_capacity_and_hasher(SPARSE_ENTRIES, FxBuildHasher);
                (Entries::Sparse(entries), units)
            }
        };
        let touched = Words::zeroes(bits.div_ceil(WORD_UNITS) as usize);
        Table { space, entries, touched, deallocated: Vec::new() }
    }

    #[inline]
    pub(in crate::ftl) fn get(&self, lpa: u64) -> Entry {
        let entry = match &self.entries {
            Entries::Dense(entries) => Entry(entries[lpa as usize].into()),
            // Most units of a large drive are in no hash table, and a look-up there would miss every cache.
            _ if !self.is_touched(lpa / GROUP) => Entry::BASE,
            _ => self.look_up(lpa),
        };
        if entry == Entry::BASE && self.is_deallocated(lpa) { Entry::UNMAPPED } else { entry }
    }

    /// Look-up in the hash table.
    #[inline]
    fn look_up(&self, lpa: u64) -> Entry {
        match &self.entries {
            Entries::Dense(_) => Entry::BASE,
            Entries::Sparse(entries) => Entry(entries.get(&(lpa as u32)).map_or(0, |entry| (*entry).into())),
            Entries::Wide(entries) => Entry(entries.get(&lpa).copied().unwrap_or(0)),
        }
    }

    /// Looks up many units by independent loads, so that their cache misses overlap. A number that is no unit
    /// is unmapped.
    pub(in crate::ftl) fn get_all(&self, lpas: impl Iterator<Item = u64>, entries: &mut Vec<Entry>) {
        entries.clear();
        match &self.entries {
            Entries::Dense(dense) if self.deallocated.is_empty() => {
                let get = |lpa: u64| dense.get(lpa as usize).map(|entry| Entry((*entry).into()));
                entries.extend(lpas.map(|lpa| get(lpa).unwrap_or(Entry::UNMAPPED)));
            }
            _ => {
                let get = |lpa| if self.space.holds(lpa) { self.get(lpa) } else { Entry::UNMAPPED };
                entries.extend(lpas.map(get));
            }
        }
    }

    #[inline]
    pub(in crate::ftl) fn set(&mut self, lpa: u64, entry: Entry) {
        let mut is_dense_smaller = false;
        match &mut self.entries {
            Entries::Dense(entries) => {
                entries[lpa as usize] = entry.narrow();
                return;
            }
            Entries::Sparse(entries) => {
                entries.insert(lpa as u32, entry.narrow());
                // A bucket is an entry of 8 bytes and a tag of 1; the table fills to 7/8.
                is_dense_smaller = entries.capacity() as u64 * 10 > self.space.units() * 4;
            }
            Entries::Wide(entries) => _ = entries.insert(lpa, entry.0),
        }
        let group = lpa / GROUP;
        self.touched[group as usize / 32] |= 1 << (group % 32);
        if is_dense_smaller {
            self.make_dense();
        }
    }

    /// Calls `take` with each of these units that is not as in the base state, in order.
    pub(in crate::ftl) fn each_changed(&self, units: Range<u64>, mut take: impl FnMut(u64, Entry)) {
        let mut next = units.start;
        while next < units.end {
            let stop = ((next / REGION_UNITS + 1) * REGION_UNITS).min(units.end);
            match self.is_deallocated(next) {
                true => (next..stop).for_each(|lpa| take(lpa, self.get(lpa))),
                false => self.each_kept(next..stop, &mut take),
            }
            next = stop;
        }
    }

    /// Calls `take` with each of these units that has an entry of its own, in order; deallocation by region
    /// is ignored.
    pub(in crate::ftl) fn each_kept(&self, units: Range<u64>, mut take: impl FnMut(u64, Entry)) {
        let mut give = |lpa, entry| {
            if entry != Entry::BASE {
                take(lpa, entry);
            }
        };
        if let Entries::Dense(entries) = &self.entries {
            let entries = &entries[units.start as usize..units.end as usize];
            return (units.start..).zip(entries).for_each(|(lpa, entry)| give(lpa, Entry((*entry).into())));
        }
        let first = units.start / WORD_UNITS;
        let words = &self.touched[first as usize..units.end.div_ceil(WORD_UNITS) as usize];
        for (word, touched) in (first..).zip(words).filter(|(_, touched)| **touched != 0) {
            for group in (0..32).filter(|group| touched >> group & 1 == 1) {
                let group = word * WORD_UNITS + group * GROUP;
                for lpa in (group..group + GROUP).filter(|lpa| units.contains(lpa)) {
                    give(lpa, self.look_up(lpa));
                }
            }
        }
    }

    /// Whether some units of a group may be in the hash table.
    #[inline]
    fn is_touched(&self, group: u64) -> bool {
        self.touched[group as usize / 32] >> (group % 32) & 1 == 1
    }

    #[inline]
    fn is_deallocated(&self, lpa: u64) -> bool {
        let region = lpa / REGION_UNITS;
        self.deallocated.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// Deallocates a whole region, given by its first unit; the last region may be short. The caller has
    /// already released the locations of its entries.
    pub(in crate::ftl) fn deallocate_region(&mut self, first: u64) {
        self.make_bits();
        let region = first / REGION_UNITS;
        self.deallocated[(region / 64) as usize] |= 1 << (region % 64);
        // The host's regions end before the other units, which begin with a new region.
        let end = if first < self.space.user { self.space.user } else { self.space.units() };
        let end = (first + REGION_UNITS).min(end);
        let mut kept = Vec::new();
        if !matches!(self.entries, Entries::Dense(_)) {
            self.each_kept(first..end, |lpa, _| kept.push(lpa));
        }
        match &mut self.entries {
            Entries::Dense(entries) => {
                // Writing only non-zero entries leaves untouched pages untouched.
                for entry in entries[first as usize..end as usize].iter_mut().filter(|entry| **entry != 0) {
                    *entry = 0;
                }
            }
            Entries::Sparse(entries) => kept.iter().for_each(|lpa| _ = entries.remove(&(*lpa as u32))),
            Entries::Wide(entries) => kept.iter().for_each(|lpa| _ = entries.remove(lpa)),
        }
    }

    /// Whether no host unit is as in the base state.
    pub(in crate::ftl) fn is_all_deallocated(&self) -> bool {
        let regions = self.space.user.div_ceil(REGION_UNITS);
        (0..regions).step_by(64).all(|first| {
            let bits = u64::MAX >> (64 - (regions - first).min(64));
            self.deallocated.get((first / 64) as usize).is_some_and(|word| word & bits == bits)
        })
    }

    /// Deallocates every host unit.
    pub(in crate::ftl) fn deallocate_all(&mut self) {
        self.make_bits();
        for region in 0..self.space.user.div_ceil(REGION_UNITS) {
            self.deallocated[(region / 64) as usize] |= 1 << (region % 64);
        }
        let first_own = self.space.user;
        match &mut self.entries {
            Entries::Dense(entries) => {
                let own = entries[first_own as usize..].to_vec();
                *entries = Words::zeroes(self.space.units() as usize);
                entries[first_own as usize..].copy_from_slice(&own);
            }
            Entries::Sparse(entries) => entries.retain(|lpa, _| u64::from(*lpa) >= first_own),
            Entries::Wide(entries) => entries.retain(|lpa, _| *lpa >= first_own),
        }
    }

    /// Unmaps units, by region where possible, either host units or others. The caller has already released
    /// their locations.
    pub(in crate::ftl) fn unmap(&mut self, units: Range<u64>) {
        let Space { user, .. } = self.space;
        if units == (0..user) {
            return self.deallocate_all();
        }
        let mut next = units.start;
        while next < units.end {
            let stop = ((next / REGION_UNITS + 1) * REGION_UNITS).min(units.end);
            let is_whole = stop - next == REGION_UNITS || stop == user || stop == self.space.units();
            if next.is_multiple_of(REGION_UNITS) && is_whole {
                self.deallocate_region(next);
            } else {
                (next..stop).for_each(|lpa| self.set(lpa, Entry::UNMAPPED));
            }
            next = stop;
        }
    }

    /// Whether all of these units of one region are unmapped. With a hash table this usually takes a look at
    /// a few words.
    pub(in crate::ftl) fn is_blank(&self, mut units: Range<u64>) -> bool {
        if !matches!(self.entries, Entries::Dense(_)) {
            let words = (units.start / WORD_UNITS) as usize..units.end.div_ceil(WORD_UNITS) as usize;
            if self.touched[words].iter().all(|word| *word == 0) {
                return self.is_deallocated(units.start);
            }
        }
        units.all(|lpa| self.get(lpa) == Entry::UNMAPPED)
    }

    fn make_bits(&mut self) {
        if self.deallocated.is_empty() {
            self.deallocated = vec![0; self.space.units().div_ceil(REGION_UNITS * 64) as usize];
        }
    }

    fn make_dense(&mut self) {
        if !matches!(self.entries, Entries::Sparse(_)) {
            return;
        }
        let before = std::mem::replace(&mut self.entries, dense(self.space.units()));
        if let (Entries::Sparse(sparse), Entries::Dense(entries)) = (before, &mut self.entries) {
            #[expect(
                clippy::iter_over_hash_type,
                reason = "each entry has its own place: the order shows nowhere"
            )]
            for (lpa, entry) in sparse {
                entries[lpa as usize] = entry;
            }
        }
        self.touched = Words::zeroes(0);
    }
}

fn dense(units: u64) -> Entries {
    Entries::Dense(Words::zeroes(units as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    /// An array, a hash table, and wide ones: small, and the largest.
    fn spaces(units: u64) -> [Space; 4] {
        let narrow = [units, DENSE_UNITS + units].map(|user| Space::new(user, false));
        let [dense, sparse] = narrow;
        [dense, sparse, Space::new(units, true), Space::new((1 << 34) + units, true)]
    }

    // Sparse, dense, wide, or converted, the table must return the same entries.
    #[test]
    fn a_table_forgets_nothing_also_when_it_becomes_dense() {
        for space in spaces(50_000) {
            let mut table = Table::new(space);
            let is_narrow_hash = matches!(table.entries, Entries::Sparse(_));
            let mut model = std::collections::BTreeMap::new();
            let mut stream = Rng::new(1).stream("map");
            // Wide addresses exceed 32 bits.
            let above = if space.is_wide { 1 << 33 } else { 0 };
            for i in 0..200_000u64 {
                let lpa = stream.below(space.units());
                table.set(lpa, Entry::flash(Ppa(above + i)));
                model.insert(lpa, Entry::flash(Ppa(above + i)));
                if i == 100_000 && is_narrow_hash {
                    table.make_dense();
                    assert!(matches!(table.entries, Entries::Dense(_)) && table.touched.is_empty());
                }
            }
            for (lpa, entry) in &model {
                assert_eq!(table.get(*lpa), *entry);
            }
            for _ in 0..100_000 {
                let lpa = stream.below(space.units());
                assert_eq!(table.get(lpa), model.get(&lpa).copied().unwrap_or(Entry::BASE));
            }
        }
    }

    // Page contents come from a shortcut through the table, which must equal single look-ups; so must the set
    // of pages with any entry.
    #[test]
    fn what_is_changed_in_a_page_is_what_each_unit_says() {
        for space in spaces(20_000) {
            let mut table = Table::new(space);
            let mut stream = Rng::new(2).stream("pages");
            // At the end, where numbers are largest.
            let first = (space.user - 20_000) / REGION_UNITS * REGION_UNITS;
            for i in 0..4000u64 {
                table.set(first + stream.below(16_384), Entry::flash(Ppa(i)));
                if i == 2000 {
                    table.deallocate_region(first + 8192);
                }
            }
            table.set(first + 40, Entry::BASE);
            for page in space.page_of(first)..=space.page_of(first + 16_383) {
                let units = space.units_of(page);
                let units = units.start..units.end - 7;
                let mut found = Vec::new();
                table.each_changed(units.clone(), |lpa, entry| found.push((lpa, entry)));
                let each = units.clone().map(|lpa| (lpa, table.get(lpa)));
                assert_eq!(found, each.filter(|(_, entry)| *entry != Entry::BASE).collect::<Vec<_>>());
                let is_blank = units.clone().all(|lpa| table.get(lpa) == Entry::UNMAPPED);
                assert_eq!(table.is_blank(units), is_blank);
            }
        }
    }

    // A deallocated region must read as unmapped, and units written to it later must be found.
    #[test]
    fn a_deallocated_region_is_unmapped_until_it_is_written() {
        for space in spaces(16_384) {
            let first = (space.user - 16_384) / REGION_UNITS * REGION_UNITS;
            let mut table = Table::new(space);
            table.set(first + 4097, Entry::slot(7));
            table.set(first + 9000, Entry::flash(Ppa(0)));
            table.deallocate_region(first + 4096);
            assert_eq!(table.get(first + 4095), Entry::BASE);
            assert_eq!(table.get(first + 4096), Entry::UNMAPPED);
            assert_eq!(table.get(first + 4097), Entry::UNMAPPED);
            assert_eq!(table.get(first + 8191), Entry::UNMAPPED);
            assert_eq!(table.get(first + 8192), Entry::BASE);
            table.set(first + 4097, Entry::flash(Ppa(5)));
            assert_eq!(table.get(first + 4097), Entry::flash(Ppa(5)));
            table.deallocate_all();
            assert_eq!(table.get(first + 9000), Entry::UNMAPPED);
            assert_eq!(table.get(0), Entry::UNMAPPED);
        }
    }

    // The translation layer's own units must survive a deallocation of all host units.
    #[test]
    fn deallocating_everything_leaves_what_is_not_the_hosts() {
        for space in spaces(4096) {
            let mut table = Table::new(space);
            let own = space.map.0;
            table.set(own + 3, Entry::flash(Ppa(9)));
            table.set(5, Entry::flash(Ppa(8)));
            table.deallocate_all();
            assert_eq!(table.get(5), Entry::UNMAPPED);
            assert_eq!(table.get(own + 3), Entry::flash(Ppa(9)));
            assert_eq!(table.get(own + 2), Entry::BASE);
        }
    }

    // Entries of different kinds must never have the same number, nor lose a bit in the persistent form.
    #[test]
    fn entries_come_back_as_what_they_were() {
        for last in [Geometry::NARROW_UNITS_MAX, Geometry::UNITS_MAX as u64] {
            for ppa in [Ppa(0), Ppa(1), Ppa(last - 1)] {
                let entry = Entry::flash(ppa);
                assert_eq!((entry.kind(), entry.as_slot()), (EntryKind::Flash(ppa), None));
                assert_eq!(entry.kept().map(Entry::of_kept), Some(entry));
                // As all drives have kept it.
                assert_eq!(entry.kept(), Some(ppa.0 + 2));
            }
        }
        let last = Ppa(Geometry::NARROW_UNITS_MAX - 1);
        assert_eq!(Entry(Entry::flash(last).narrow().into()), Entry::flash(last));
        for slot in [0, 1, Entry::SLOTS - 1] {
            assert_eq!(Entry::slot(slot).kind(), EntryKind::Slot(slot));
            assert_eq!((Entry::slot(slot).as_slot(), Entry::slot(slot).kept()), (Some(slot), None));
        }
        for (entry, place, kept) in
            [(Entry::BASE, EntryKind::Base, 0), (Entry::UNMAPPED, EntryKind::Unmapped, 1)]
        {
            assert_eq!((entry.kind(), entry.kept(), entry.as_slot()), (place, Some(kept), None));
            assert_eq!(Entry::of_kept(kept), entry);
        }
        assert_eq!((Entry::LOST.kind(), Entry::LOST.as_slot()), (EntryKind::Lost, None));
        assert_eq!(Entry(Entry::LOST.narrow().into()), Entry::LOST);
        for kept in [Entry::LOST.kept().unwrap(), u64::MAX] {
            assert_eq!(Entry::of_kept(kept), Entry::LOST);
        }
    }
}
