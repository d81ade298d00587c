//! The map: where each unit is, as an overlay over the base state.
//!
//! An entry is 32 bits. Zero says "where the base state has it", so a drive of any size begins with a table of
//! nothing. Up to [`DENSE_UNITS`] the table is an array, which the system gives zeroed page by page as it is touched;
//! beyond, it is a hash table of what the run has touched, until an array would be smaller.
//!
//! Deallocating is by region: a bit says that nothing of a region is where the base state has it, so that a host that
//! deallocates terabytes neither waits for a table of them nor makes one.

use super::space::UNITS_PER_MAP_PAGE;
use byteway_flash::Ppa;
use byteway_wire::words::Words;
use rustc_hash::FxHashMap;

/// Where a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

/// The cases of an [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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
    pub(super) const BASE: Entry = Entry(0);
    pub(super) const UNMAPPED: Entry = Entry(1);
    const FLASH: u32 = 2;
    /// How many slots there can be.
    pub(super) const SLOTS: u32 = 1 << 24;
    const SLOT_FIRST: u32 = u32::MAX - Self::SLOTS + 1;

    /// The way back.
    pub(super) fn of_raw(raw: u32) -> Entry {
        Entry(raw)
    }

    #[inline]
    pub(super) fn flash(ppa: Ppa) -> Entry {
        Entry(ppa.0 + Self::FLASH)
    }

    #[inline]
    pub(super) fn slot(slot: u32) -> Entry {
        Entry(Self::SLOT_FIRST + slot)
    }

    #[inline]
    pub(super) fn place(self) -> Place {
        match self.0 {
            0 => Place::Base,
            1 => Place::Unmapped,
            Self::SLOT_FIRST.. => Place::Slot(self.0 - Self::SLOT_FIRST),
            _ => Place::Flash(Ppa(self.0 - Self::FLASH)),
        }
    }

    /// As it is kept: 0 is the base state, 1 is nowhere.
    pub(super) fn raw(self) -> u32 {
        self.0
    }

    /// The slot, if it is one.
    #[inline]
    pub(super) fn as_slot(self) -> Option<u32> {
        self.0.checked_sub(Self::SLOT_FIRST)
    }
}

/// The largest table that is an array from the beginning: 64 GiB of units, 64 MiB.
const DENSE_UNITS: u64 = 64 << 30 >> 12;

/// Units of a region that is deallocated by a bit.
pub(super) const REGION_UNITS: u64 = 4096;

/// Few enough that most groups of a drive of which little is touched have none, and many enough that the bits are few.
const GROUP: u32 = 8;

enum Entries {
    Dense(Words),
    /// Never iterated but to make it dense, where order does not matter.
    Sparse(FxHashMap<u32, u32>),
}

/// A drive's map.
pub(super) struct Table {
    /// The host's units, which are deallocated by region or all together.
    user: u64,
    units: u64,
    entries: Entries,
    /// While the table is a hash table: a bit for each [`GROUP`] of units of which some may be in it.
    touched: Words,
    /// A bit for each region; none before the first deallocation.
    deallocated: Vec<u64>,
}

impl Table {
    /// For `units` units, of which the first `user` are the host's; all are where the base state has them.
    pub(super) fn new(user: u64, units: u64) -> Self {
        let (entries, bits) = match units <= DENSE_UNITS {
            true => (dense(units), 0),
            false => (Entries::Sparse(FxHashMap::default()), units),
        };
        let touched = Words::zeroes(bits.div_ceil(32 * u64::from(GROUP)) as usize);
        Table { user, units, entries, touched, deallocated: Vec::new() }
    }

    #[inline]
    pub(super) fn get(&self, lpa: u32) -> Entry {
        let raw = match &self.entries {
            Entries::Dense(entries) => entries[lpa as usize],
            // Most units of a large drive are in no hash table, and to look for one there is a miss of every cache.
            Entries::Sparse(entries) if self.is_touched(lpa / GROUP) => {
                entries.get(&lpa).copied().unwrap_or(0)
            }
            Entries::Sparse(_) => 0,
        };
        if raw == 0 && self.is_deallocated(lpa) { Entry::UNMAPPED } else { Entry(raw) }
    }

    /// Looks many units up. Nothing but loads that don't wait for each other: most of them miss every cache, and so
    /// they miss at once.
    pub(super) fn get_all(&self, lpas: &[u32], entries: &mut Vec<Entry>) {
        entries.clear();
        match &self.entries {
            Entries::Dense(dense) => entries.extend(lpas.iter().map(|lpa| Entry(dense[*lpa as usize]))),
            Entries::Sparse(_) => entries.extend(lpas.iter().map(|lpa| self.get(*lpa))),
        }
        if !self.deallocated.is_empty() {
            for (entry, lpa) in entries.iter_mut().zip(lpas) {
                if *entry == Entry::BASE && self.is_deallocated(*lpa) {
                    *entry = Entry::UNMAPPED;
                }
            }
        }
    }

    #[inline]
    pub(super) fn set(&mut self, lpa: u32, entry: Entry) {
        match &mut self.entries {
            Entries::Dense(entries) => entries[lpa as usize] = entry.0,
            Entries::Sparse(entries) => {
                entries.insert(lpa, entry.0);
                let group = lpa / GROUP;
                self.touched[group as usize / 32] |= 1 << (group % 32);
                // A bucket is 8 bytes of entry and 1 of tag; the table fills to 7/8.
                if entries.capacity() as u64 * 10 > self.units * 4 {
                    self.make_dense();
                }
            }
        }
    }

    /// Looks units of one region up, and gives those that are not where the base state has them, in order.
    pub(super) fn each_changed(&self, units: std::ops::Range<u32>, mut take: impl FnMut(u32, Entry)) {
        let mut give = |lpa, entry| {
            if entry != Entry::BASE {
                take(lpa, entry);
            }
        };
        let is_deallocated = self.is_deallocated(units.start);
        match &self.entries {
            Entries::Sparse(entries) if !is_deallocated => {
                let groups = units.start / GROUP..units.end.div_ceil(GROUP);
                for group in groups.filter(|group| self.is_touched(*group)) {
                    for lpa in (group * GROUP..(group + 1) * GROUP).filter(|lpa| units.contains(lpa)) {
                        give(lpa, Entry(entries.get(&lpa).copied().unwrap_or(0)));
                    }
                }
            }
            _ => units.for_each(|lpa| give(lpa, self.get(lpa))),
        }
    }

    /// Whether some units of a group may be in the hash table.
    #[inline]
    fn is_touched(&self, group: u32) -> bool {
        self.touched[group as usize / 32] >> (group % 32) & 1 == 1
    }

    #[inline]
    fn is_deallocated(&self, lpa: u32) -> bool {
        let region = lpa as u64 / REGION_UNITS;
        self.deallocated.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// Deallocates a whole region, named by its first unit; the last may be short. The caller has seen to what its
    /// entries pointed at.
    pub(super) fn deallocate_region(&mut self, first: u64) {
        self.make_bits();
        let region = first / REGION_UNITS;
        self.deallocated[(region / 64) as usize] |= 1 << (region % 64);
        let end = (first + REGION_UNITS).min(self.user);
        match &mut self.entries {
            Entries::Dense(entries) => {
                // Writing only what is not zero already leaves untouched pages untouched.
                for entry in entries[first as usize..end as usize].iter_mut().filter(|entry| **entry != 0) {
                    *entry = 0;
                }
            }
            Entries::Sparse(entries) => {
                for lpa in first..end {
                    if entries.is_empty() {
                        break;
                    }
                    entries.remove(&(lpa as u32));
                }
            }
        }
    }

    /// Deallocates every unit of the host's.
    pub(super) fn deallocate_all(&mut self) {
        self.make_bits();
        for region in 0..self.user.div_ceil(REGION_UNITS) {
            self.deallocated[(region / 64) as usize] |= 1 << (region % 64);
        }
        let first_own = self.user as usize;
        match &mut self.entries {
            Entries::Dense(entries) => {
                let own = entries[first_own..].to_vec();
                *entries = Words::zeroes(self.units as usize);
                entries[first_own..].copy_from_slice(&own);
            }
            Entries::Sparse(entries) => entries.retain(|lpa, _| *lpa as usize >= first_own),
        }
    }

    /// Of each translation page of 1024 units that begins in a sparse table, whether it says anything of its own. None of
    /// an array, in which that is quickly seen.
    pub(super) fn occupied(&self) -> Option<Vec<bool>> {
        let Entries::Sparse(entries) = &self.entries else { return None };
        let mut occupied = vec![false; self.units.div_ceil(UNITS_PER_MAP_PAGE) as usize];
        #[expect(clippy::iter_over_hash_type, reason = "a mark for each: the order shows nowhere")]
        for lpa in entries.keys() {
            occupied[u64::from(*lpa) as usize / UNITS_PER_MAP_PAGE as usize] = true;
        }
        Some(occupied)
    }

    /// Whether units of one region are nowhere, all of them. `occupied` is what [`Table::occupied`] says.
    pub(super) fn is_blank(&self, mut units: std::ops::Range<u32>, occupied: Option<&[bool]>) -> bool {
        if let Some(occupied) = occupied
            && !occupied[units.start as usize / UNITS_PER_MAP_PAGE as usize]
        {
            return self.is_deallocated(units.start);
        }
        units.all(|lpa| self.get(lpa) == Entry::UNMAPPED)
    }

    fn make_bits(&mut self) {
        if self.deallocated.is_empty() {
            self.deallocated = vec![0; self.units.div_ceil(REGION_UNITS * 64) as usize];
        }
    }

    fn make_dense(&mut self) {
        let Entries::Sparse(sparse) = std::mem::replace(&mut self.entries, dense(self.units)) else { return };
        if let Entries::Dense(entries) = &mut self.entries {
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

    // Sparse, dense, or turned from one to the other, the table must say the same.
    #[test]
    fn a_sparse_table_that_becomes_dense_forgets_nothing() {
        let units = DENSE_UNITS + 1;
        let mut table = Table::new(units, units);
        assert!(matches!(table.entries, Entries::Sparse(_)));
        let mut model = std::collections::BTreeMap::new();
        let mut stream = Rng::new(1).stream("map");
        for i in 0..200_000u32 {
            let lpa = stream.below(units) as u32;
            table.set(lpa, Entry::flash(Ppa(i)));
            model.insert(lpa, Entry::flash(Ppa(i)));
            if i == 100_000 {
                table.make_dense();
                assert!(matches!(table.entries, Entries::Dense(_)));
            }
        }
        for (lpa, entry) in &model {
            assert_eq!(table.get(*lpa), *entry);
        }
        assert!(table.touched.is_empty());
        for _ in 0..100_000 {
            let lpa = stream.below(units) as u32;
            assert_eq!(table.get(lpa), model.get(&lpa).copied().unwrap_or(Entry::BASE));
        }
    }

    // What a translation page says is looked up in a shorter way: it must be the same.
    #[test]
    fn what_is_changed_in_a_page_is_what_each_unit_says() {
        for units in [20_000, DENSE_UNITS + 20_000] {
            let mut table = Table::new(units, units);
            let mut stream = Rng::new(2).stream("pages");
            for i in 0..4000u32 {
                table.set(stream.below(16_384) as u32, Entry::flash(Ppa(i)));
                if i == 2000 {
                    table.deallocate_region(8192);
                }
            }
            table.set(40, Entry::BASE);
            for page in 0..16 {
                let units = page * 1024..(page + 1) * 1024 - 7;
                let mut found = Vec::new();
                table.each_changed(units.clone(), |lpa, entry| found.push((lpa, entry)));
                let each = units.map(|lpa| (lpa, table.get(lpa)));
                assert_eq!(found, each.filter(|(_, entry)| *entry != Entry::BASE).collect::<Vec<_>>());
            }
        }
    }

    // A region that is deallocated must read as nothing, and what is written to it later must be found.
    #[test]
    fn a_deallocated_region_is_unmapped_until_it_is_written() {
        for units in [10_000, DENSE_UNITS + 10_000] {
            let mut table = Table::new(units, units);
            table.set(4097, Entry::slot(7));
            table.set(9000, Entry::flash(Ppa(0)));
            table.deallocate_region(4096);
            assert_eq!(table.get(4095), Entry::BASE);
            assert_eq!(table.get(4096), Entry::UNMAPPED);
            assert_eq!(table.get(4097), Entry::UNMAPPED);
            assert_eq!(table.get(8191), Entry::UNMAPPED);
            assert_eq!(table.get(8192), Entry::BASE);
            table.set(4097, Entry::flash(Ppa(5)));
            assert_eq!(table.get(4097), Entry::flash(Ppa(5)));
            table.deallocate_all();
            assert_eq!(table.get(9000), Entry::UNMAPPED);
            assert_eq!(table.get(0), Entry::UNMAPPED);
        }
    }

    // The translation layer's own units are not the host's to deallocate.
    #[test]
    fn deallocating_everything_leaves_what_is_not_the_hosts() {
        for user in [4096, DENSE_UNITS + 4096] {
            let mut table = Table::new(user, user + 8);
            table.set(user as u32 + 3, Entry::flash(Ppa(9)));
            table.set(5, Entry::flash(Ppa(8)));
            table.deallocate_all();
            assert_eq!(table.get(5), Entry::UNMAPPED);
            assert_eq!(table.get(user as u32 + 3), Entry::flash(Ppa(9)));
            assert_eq!(table.get(user as u32 + 4), Entry::BASE);
        }
    }

    // Entries of different kinds must never be the same number.
    #[test]
    fn entries_come_back_as_what_they_were() {
        let last = Ppa(UNITS_MAX - 1);
        for ppa in [Ppa(0), Ppa(1), last] {
            assert_eq!(Entry::flash(ppa).place(), Place::Flash(ppa));
            assert_eq!(Entry::flash(ppa).as_slot(), None);
        }
        for slot in [0, 1, Entry::SLOTS - 1] {
            assert_eq!(Entry::slot(slot).place(), Place::Slot(slot));
            assert_eq!(Entry::slot(slot).as_slot(), Some(slot));
        }
        assert_eq!(Entry::BASE.place(), Place::Base);
        assert_eq!(Entry::UNMAPPED.place(), Place::Unmapped);
    }

    const UNITS_MAX: u32 = byteway_flash::Geometry::UNITS_MAX as u32;
}
