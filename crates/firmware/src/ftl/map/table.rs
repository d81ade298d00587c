//! The map: where each unit is, as an overlay over the base state.
//!
//! Zero says "where the base state has it", so a drive of any size begins with a table of nothing. An entry takes 32 bits
//! as long as places do. Up to [`DENSE_UNITS`] the table is an array, which the system gives zeroed page by page as it is
//! touched; beyond, it is a hash table of what the run has touched, until an array would be smaller. Of a *wide* map, whose
//! entries take 64 bits, it stays a hash table: an array of the smallest such drive would have 30 GiB.
//!
//! Deallocating is by region: a bit says that nothing of a region is where the base state has it, so that a host that
//! deallocates terabytes neither waits for a table of them nor makes one.

use crate::ftl::space::Space;
use byteway_flash::{Geometry, Ppa};
use byteway_wire::words::Words;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::ops::Range;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Entry(u64);

/// The cases of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Place {
    /// Where the base state has it; nowhere, if it has not.
    Base,
    /// Nowhere: it was deallocated.
    Unmapped,
    /// In flash.
    Flash(Ppa),
    /// In a slot of the write buffer.
    Slot(u32),
}

impl Entry {
    pub(in crate::ftl) const BASE: Entry = Entry(0);
    pub(in crate::ftl) const UNMAPPED: Entry = Entry(1);
    const SLOT_FIRST: u64 = 2;
    /// How many slots there can be.
    pub(in crate::ftl) const SLOTS: u32 = 1 << 24;
    const FLASH_FIRST: u64 = Self::SLOT_FIRST + Self::SLOTS as u64;
    /// Where flash has it, as it is kept.
    const KEPT_FIRST: u64 = 2;

    /// A place beyond any array, as it is kept; and one for which a map has room that is not wide.
    pub(in crate::ftl) const KEPT_MAX: u64 = Self::KEPT_FIRST + Geometry::UNITS_MAX as u64;
    pub(in crate::ftl) const KEPT_NARROW_MAX: u64 = Self::KEPT_FIRST + Geometry::NARROW_UNITS_MAX;

    /// From what is kept. That may come from damaged files: a place may be none of the array.
    pub(in crate::ftl) fn of_kept(kept: u64) -> Entry {
        match kept.min(Self::KEPT_MAX).checked_sub(Self::KEPT_FIRST) {
            None => Entry(kept),
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
    pub(in crate::ftl) fn place(self) -> Place {
        match self.0 {
            0 => Place::Base,
            1 => Place::Unmapped,
            Self::FLASH_FIRST.. => Place::Flash(Ppa(self.0 - Self::FLASH_FIRST)),
            slot => Place::Slot((slot - Self::SLOT_FIRST) as u32),
        }
    }

    /// As it is kept: 0 is the base state, 1 is nowhere, and then come the units of the array. None of a slot.
    pub(in crate::ftl) fn kept(self) -> Option<u64> {
        match self.place() {
            Place::Base => Some(0),
            Place::Unmapped => Some(1),
            Place::Flash(ppa) => Some(ppa.0 + Self::KEPT_FIRST),
            Place::Slot(_) => None,
        }
    }

    /// In 32 bits, of a map that is not wide: all its places and slots have room there.
    #[inline]
    fn narrow(self) -> u32 {
        debug_assert!(self.0 <= u64::from(u32::MAX), "a place that takes more than 32 bits");
        self.0 as u32
    }

    /// The slot, if it is one.
    #[inline]
    pub(in crate::ftl) fn as_slot(self) -> Option<u32> {
        let slot = self.0.wrapping_sub(Self::SLOT_FIRST);
        (slot < u64::from(Self::SLOTS)).then_some(slot as u32)
    }
}

const _: () = assert!(Geometry::NARROW_UNITS_MAX + Entry::FLASH_FIRST <= u32::MAX as u64);

/// The most units of the host's of which the table is an array from the beginning: 64 GiB, 64 MiB.
const DENSE_UNITS: u64 = 64 << 30 >> 12;

/// For how many entries a hash table has room at first: 2 GiB of units, so that few runs see it grow. Memory is taken
/// as it is touched, but for a byte an entry.
const SPARSE_ENTRIES: usize = 1 << 19;

/// Units of a region that is deallocated by a bit.
pub(in crate::ftl) const REGION_UNITS: u64 = 4096;

/// Few enough that most groups of a drive of which little is touched have none, and many enough that the bits are few.
const GROUP: u64 = 8;

/// Units whose groups share a word.
const WORD_UNITS: u64 = 32 * GROUP;

enum Entries {
    Dense(Words),
    /// Never iterated but to make it dense, where order does not matter.
    Sparse(FxHashMap<u32, u32>),
    Wide(FxHashMap<u64, u64>),
}

/// A drive's map.
pub(in crate::ftl) struct Table {
    /// The host's units, which are deallocated by region or all together.
    space: Space,
    entries: Entries,
    /// While the entries are in a hash table: a bit for each [`GROUP`] of units of which some may be in it.
    touched: Words,
    /// A bit for each region; none before the first deallocation.
    deallocated: Vec<u64>,
}

impl Table {
    /// For these units; all are where the base state has them.
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
            // Most units of a large drive are in no hash table, and to look for one there is a miss of every cache.
            _ if !self.is_touched(lpa / GROUP) => Entry::BASE,
            _ => self.look_up(lpa),
        };
        if entry == Entry::BASE && self.is_deallocated(lpa) { Entry::UNMAPPED } else { entry }
    }

    /// In the hash table.
    #[inline]
    fn look_up(&self, lpa: u64) -> Entry {
        match &self.entries {
            Entries::Dense(_) => Entry::BASE,
            Entries::Sparse(entries) => Entry(entries.get(&(lpa as u32)).map_or(0, |entry| (*entry).into())),
            Entries::Wide(entries) => Entry(entries.get(&lpa).copied().unwrap_or(0)),
        }
    }

    /// Looks many units up. Nothing but loads that don't wait for each other: most of them miss every cache, and so
    /// they miss at once. What is no unit is nowhere.
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
                // A bucket is 8 bytes of entry and 1 of tag; the table fills to 7/8.
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

    /// Gives those of these units that are not where the base state has them, in order.
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

    /// Gives those of these units that have entries of their own, in order: not those that were deallocated by region.
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

    /// Deallocates a whole region, named by its first unit; the last may be short. The caller has seen to what its
    /// entries pointed at.
    pub(in crate::ftl) fn deallocate_region(&mut self, first: u64) {
        self.make_bits();
        let region = first / REGION_UNITS;
        self.deallocated[(region / 64) as usize] |= 1 << (region % 64);
        // Those of the host's end before the others begin, with a region.
        let end = if first < self.space.user { self.space.user } else { self.space.units() };
        let end = (first + REGION_UNITS).min(end);
        let mut kept = Vec::new();
        if !matches!(self.entries, Entries::Dense(_)) {
            self.each_kept(first..end, |lpa, _| kept.push(lpa));
        }
        match &mut self.entries {
            Entries::Dense(entries) => {
                // Writing only what is not zero already leaves untouched pages untouched.
                for entry in entries[first as usize..end as usize].iter_mut().filter(|entry| **entry != 0) {
                    *entry = 0;
                }
            }
            Entries::Sparse(entries) => kept.iter().for_each(|lpa| _ = entries.remove(&(*lpa as u32))),
            Entries::Wide(entries) => kept.iter().for_each(|lpa| _ = entries.remove(lpa)),
        }
    }

    /// Whether no unit of the host's is where the base state has it.
    pub(in crate::ftl) fn is_all_deallocated(&self) -> bool {
        let regions = self.space.user.div_ceil(REGION_UNITS);
        (0..regions).step_by(64).all(|first| {
            let bits = u64::MAX >> (64 - (regions - first).min(64));
            self.deallocated.get((first / 64) as usize).is_some_and(|word| word & bits == bits)
        })
    }

    /// Deallocates every unit of the host's.
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

    /// Units are nowhere, by region where it can be: the host's, or others. The caller has seen to what their entries pointed at.
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

    /// Of each translation page's worth of units, whether some may be in the hash table. None of an array, in which that is
    /// quickly seen.
    pub(in crate::ftl) fn occupied(&self) -> Option<Vec<bool>> {
        if let Entries::Dense(_) = self.entries {
            return None;
        }
        let mut occupied = vec![false; self.space.units().div_ceil(self.space.page_units()) as usize];
        for (index, word) in self.touched.iter().enumerate().filter(|(_, word)| **word != 0) {
            let first = index as u64 * WORD_UNITS;
            for group in (0..32).filter(|group| word >> group & 1 == 1) {
                occupied[self.space.page_of(first + group * GROUP) as usize] = true;
            }
        }
        Some(occupied)
    }

    /// Whether units of one region are nowhere, all of them. `occupied` is what [`Table::occupied`] says.
    pub(in crate::ftl) fn is_blank(&self, mut units: Range<u64>, occupied: Option<&[bool]>) -> bool {
        if let Some(occupied) = occupied
            && !occupied[self.space.page_of(units.start) as usize]
        {
            return self.is_deallocated(units.start);
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

    // Sparse, dense, wide, or turned from one to the other, the table must say the same.
    #[test]
    fn a_table_forgets_nothing_also_when_it_becomes_dense() {
        for space in spaces(50_000) {
            let mut table = Table::new(space);
            let is_narrow_hash = matches!(table.entries, Entries::Sparse(_));
            let mut model = std::collections::BTreeMap::new();
            let mut stream = Rng::new(1).stream("map");
            // Wide places are beyond 32 bits.
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

    // What a translation page says is looked up in a shorter way: it must be the same. And so must be which pages say
    // anything.
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
            let occupied = table.occupied();
            for page in space.page_of(first)..=space.page_of(first + 16_383) {
                let units = space.units_of(page);
                let units = units.start..units.end - 7;
                let mut found = Vec::new();
                table.each_changed(units.clone(), |lpa, entry| found.push((lpa, entry)));
                let each = units.clone().map(|lpa| (lpa, table.get(lpa)));
                assert_eq!(found, each.filter(|(_, entry)| *entry != Entry::BASE).collect::<Vec<_>>());
                let is_blank = units.clone().all(|lpa| table.get(lpa) == Entry::UNMAPPED);
                assert_eq!(table.is_blank(units, occupied.as_deref()), is_blank);
            }
        }
    }

    // A region that is deallocated must read as nothing, and what is written to it later must be found.
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

    // The translation layer's own units are not the host's to deallocate.
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

    // Entries of different kinds must never be the same number, nor lose a bit where they are kept.
    #[test]
    fn entries_come_back_as_what_they_were() {
        for last in [Geometry::NARROW_UNITS_MAX, Geometry::UNITS_MAX as u64] {
            for ppa in [Ppa(0), Ppa(1), Ppa(last - 1)] {
                let entry = Entry::flash(ppa);
                assert_eq!((entry.place(), entry.as_slot()), (Place::Flash(ppa), None));
                assert_eq!(entry.kept().map(Entry::of_kept), Some(entry));
                // As all drives have kept it.
                assert_eq!(entry.kept(), Some(ppa.0 + 2));
            }
        }
        let last = Ppa(Geometry::NARROW_UNITS_MAX - 1);
        assert_eq!(Entry(Entry::flash(last).narrow().into()), Entry::flash(last));
        for slot in [0, 1, Entry::SLOTS - 1] {
            assert_eq!(Entry::slot(slot).place(), Place::Slot(slot));
            assert_eq!((Entry::slot(slot).as_slot(), Entry::slot(slot).kept()), (Some(slot), None));
        }
        for (entry, place, kept) in [(Entry::BASE, Place::Base, 0), (Entry::UNMAPPED, Place::Unmapped, 1)] {
            assert_eq!((entry.place(), entry.kept(), entry.as_slot()), (place, Some(kept), None));
            assert_eq!(Entry::of_kept(kept), entry);
        }
        assert!(
            matches!(Entry::of_kept(u64::MAX).place(), Place::Flash(Ppa(ppa)) if u128::from(ppa) >= Geometry::UNITS_MAX)
        );
    }
}
