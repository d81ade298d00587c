//! A sorted table: entries in key order, in a segment of its own. The units of entries come first, then the first key
//! of each unit (the fences) and a bloom filter, both of which DRAM holds, too.

use super::cache::Unit;
use super::filter::{Filter, hash};
use super::key::{KEY_BYTES_MAX, Key};
use super::layout::{Layout, UNIT};
use super::record::Entry;
use super::varint::Reader;
use byteway_content::UnitBytes;
use byteway_content::{Content, UNIT_BYTES};
use std::rc::Rc;

/// Bytes of a unit's header: checksum, bytes used, number of entries, the table's number.
const HEADER_BYTES: usize = 16;
const BODY_BYTES: usize = UNIT_BYTES - HEADER_BYTES;
/// Upper bound of the entries in a unit. Only a unit full of deletions of keys with a common prefix comes near it.
const ENTRIES_MAX: usize = BODY_BYTES / 8;
/// Bytes of a fence: the key's length and 16 bytes.
const FENCE_BYTES: usize = KEY_BYTES_MAX + 1;

/// A table's metadata in DRAM.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Unique for the life of the store: never reused.
    pub(super) number: u64,
    pub(super) segment: u32,
    pub(super) data_units: u32,
    /// Length of its filter in flash, in words of 8 bytes.
    pub(super) filter_words: u32,
    /// CRC-32C of fences and filter.
    pub(super) meta_crc: u32,
    pub(super) entries: u64,
    /// The part of the entries that are deletions.
    pub(super) tombstones: u64,
    pub(super) first: Key,
    pub(super) last: Key,
    pub(super) fences: Vec<Key>,
    pub(super) filter: Option<Filter>,
}

impl Table {
    /// Units of fences and filter, which follow the entries.
    pub(super) fn meta_units(&self) -> u32 {
        let bytes = self.data_units as usize * FENCE_BYTES + self.filter_words as usize * 8;
        bytes.div_ceil(UNIT_BYTES) as u32
    }

    /// Whether the sizes that a manifest gives are possible.
    pub(super) fn is_sound(&self, layout: &Layout) -> bool {
        self.data_units.saturating_add(self.meta_units()) <= layout.segment_units
            && self.tombstones <= self.entries
            && self.entries <= u64::from(self.data_units) * UNIT_BYTES as u64
            && self.first <= self.last
    }

    /// The unit that would hold `key`.
    pub(super) fn unit_of(&self, key: &Key) -> Option<u32> {
        let after = self.fences.partition_point(|fence| fence <= key);
        if after == 0 || *key > self.last { None } else { Some(after as u32 - 1) }
    }

    /// The cache key of a unit.
    pub(super) fn unit_name(&self, unit: u32) -> u64 {
        self.number << 16 | u64::from(unit)
    }

    /// Loads fences and filter from their units. `false` if they are not this table's, or damaged.
    pub(super) fn load(&mut self, meta: &[u8], bits_per_key: u32) -> bool {
        let bytes = self.data_units as usize * FENCE_BYTES + self.filter_words as usize * 8;
        let Some(meta) = meta.get(..bytes) else { return false };
        if crc32c::crc32c(meta) != self.meta_crc {
            return false;
        }
        let (fences, filter) = meta.split_at(self.data_units as usize * FENCE_BYTES);
        let fence = |bytes: &[u8]| Key::new(bytes[1..].get(..usize::from(bytes[0]))?);
        let Some(fences) = fences.chunks(FENCE_BYTES).map(fence).collect() else { return false };
        self.fences = fences;
        self.filter = Filter::decode(&mut Reader(filter), self.filter_words as usize, bits_per_key)
            .filter(|filter| filter.words() > 0);
        true
    }
}

/// A table in a run of which only the keys from `from` on count; earlier keys have been merged elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) table: Rc<Table>,
    pub(super) from: Key,
}

/// The entries of a unit. Opening gives `None` if the unit is not that table's, or damaged.
pub(super) struct Entries<'a> {
    reader: Reader<'a>,
    left: u16,
    before: Option<Key>,
}

impl<'a> Entries<'a> {
    pub(super) fn new(unit: &'a Unit, table: u64) -> Option<Entries<'a>> {
        let mut reader = Reader(unit);
        let crc = reader.u32()?;
        let counts = reader.u32()?;
        let number = reader.u64()?;
        let body = reader.bytes((counts & 0xffff) as usize)?;
        let is_whole = number == table && crc32c::crc32c(&unit[4..]) == crc;
        is_whole.then_some(Entries { reader: Reader(body), left: (counts >> 16) as u16, before: None })
    }

    /// Like `open`, for a unit whose checksum was verified before.
    fn checked(unit: &'a Unit) -> Option<Entries<'a>> {
        let mut reader = Reader(&unit[4..]);
        let counts = reader.u32()?;
        reader.u64()?;
        let body = reader.bytes((counts & 0xffff) as usize)?;
        Some(Entries { reader: Reader(body), left: (counts >> 16) as u16, before: None })
    }

    /// The entry of a key in a unit whose checksum was verified before.
    pub(super) fn find(unit: &'a Unit, key: &Key) -> Option<Entry> {
        let mut entries = Entries::checked(unit)?;
        entries.find(|(found, _)| found >= key).filter(|(found, _)| found == key).map(|(_, entry)| entry)
    }
}

impl Iterator for Entries<'_> {
    type Item = (Key, Entry);

    #[inline]
    fn next(&mut self) -> Option<(Key, Entry)> {
        self.left = self.left.checked_sub(1)?;
        let (key, entry) = Entry::decode_indexed(&mut self.reader, self.before.as_ref())?;
        self.before = Some(key);
        Some((key, entry))
    }
}

/// A table under construction.
pub(super) struct Builder {
    number: u64,
    segment: u32,
    units_max: u32,
    bits_per_key: u32,
    seed: u64,
    /// Full units that have not been taken for writing.
    units: Vec<Content>,
    taken: u32,
    body: Vec<u8>,
    count: u16,
    scratch: Vec<u8>,
    fences: Vec<Key>,
    hashes: Vec<u64>,
    first: Option<Key>,
    last: Option<Key>,
    entries: u64,
    tombstones: u64,
}

impl Builder {
    pub(super) fn new(number: u64, segment: u32, units_max: u32, bits_per_key: u32, seed: u64) -> Builder {
        Builder {
            number,
            segment,
            units_max,
            bits_per_key,
            seed,
            units: Vec::new(),
            taken: 0,
            body: Vec::with_capacity(UNIT_BYTES),
            count: 0,
            scratch: Vec::new(),
            fences: Vec::new(),
            hashes: Vec::new(),
            first: None,
            last: None,
            entries: 0,
            tombstones: 0,
        }
    }

    pub(super) fn segment(&self) -> u32 {
        self.segment
    }

    /// Number of full units that wait for writing.
    pub(super) fn waiting(&self) -> usize {
        self.units.len()
    }

    /// Appends an entry, whose key must be greater than all before. `false` if the table is full; the entry is then not
    /// added.
    pub(super) fn add(&mut self, key: &Key, entry: &Entry) -> bool {
        self.scratch.clear();
        entry.encode_indexed(key, self.last.as_ref().filter(|_| self.count > 0), &mut self.scratch);
        if self.count == 0 || self.body.len() + self.scratch.len() > BODY_BYTES {
            if self.count > 0 {
                if !self.has_room(self.fences.len() + 1, self.hashes.len() + ENTRIES_MAX) {
                    return false;
                }
                self.end_unit();
                self.scratch.clear();
                entry.encode_indexed(key, None, &mut self.scratch);
            }
            self.fences.push(*key);
        } else if usize::from(self.count) >= ENTRIES_MAX
            && !self.has_room(self.fences.len(), self.hashes.len() + 1)
        {
            return false;
        }
        self.body.extend_from_slice(&self.scratch);
        self.count += 1;
        self.entries += 1;
        self.tombstones += u64::from(entry.is_tombstone());
        if self.bits_per_key > 0 {
            self.hashes.push(hash(key, self.seed));
        }
        self.first.get_or_insert(*key);
        self.last = Some(*key);
        true
    }

    /// Whether this many units and entries, with fences and filter, fit into the segment.
    fn has_room(&self, units: usize, entries: usize) -> bool {
        let words = Filter::words_for(entries, self.bits_per_key);
        let meta = (units * FENCE_BYTES + words * 8).div_ceil(UNIT_BYTES);
        (units + meta) as u32 <= self.units_max
    }

    fn end_unit(&mut self) {
        let mut bytes = UnitBytes::from([0; UNIT_BYTES]);
        let unit = bytes.make_mut();
        let counts = self.body.len() as u32 | u32::from(self.count) << 16;
        unit[4..8].copy_from_slice(&counts.to_le_bytes());
        unit[8..16].copy_from_slice(&self.number.to_le_bytes());
        unit[HEADER_BYTES..HEADER_BYTES + self.body.len()].copy_from_slice(&self.body);
        let crc = crc32c::crc32c(&unit[4..]);
        unit[..4].copy_from_slice(&crc.to_le_bytes());
        self.units.push(Content::Bytes(bytes));
        self.body.clear();
        self.count = 0;
    }

    /// Moves the full units to `into`; returns the index of the first of them in the segment.
    pub(super) fn take(&mut self, into: &mut Vec<Content>) -> u32 {
        let at = self.taken;
        self.taken += self.units.len() as u32;
        into.append(&mut self.units);
        at
    }

    /// Ends the table, if it has entries; its last units can be taken then. The filter stays in DRAM if it takes no
    /// more than `filter_bytes`.
    pub(super) fn finish(&mut self, filter_bytes: u64) -> Option<Table> {
        let (first, last) = (self.first?, self.last?);
        if self.count > 0 {
            self.end_unit();
        }
        let filter = Filter::new(&self.hashes, self.bits_per_key);
        let mut meta = Vec::with_capacity(self.fences.len() * FENCE_BYTES + filter.bytes() as usize);
        for fence in &self.fences {
            let at = meta.len();
            meta.push(fence.len() as u8);
            meta.extend_from_slice(fence.as_bytes());
            meta.resize(at + FENCE_BYTES, 0);
        }
        filter.encode(&mut meta);
        let table = Table {
            number: self.number,
            segment: self.segment,
            data_units: self.fences.len() as u32,
            filter_words: filter.words() as u32,
            meta_crc: crc32c::crc32c(&meta),
            entries: self.entries,
            tombstones: self.tombstones,
            first,
            last,
            fences: std::mem::take(&mut self.fences),
            filter: (filter.words() > 0 && filter.bytes() <= filter_bytes).then_some(filter),
        };
        for part in meta.chunks(UNIT_BYTES) {
            let mut unit = [0; UNIT_BYTES];
            unit[..part.len()].copy_from_slice(part);
            self.units.push(Content::Bytes(unit.into()));
        }
        debug_assert!(table.data_units + table.meta_units() <= self.units_max);
        debug_assert_eq!(UNIT as usize, UNIT_BYTES);
        Some(table)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Value, ValueExtent};
    use super::*;

    // Deletions of keys with a common prefix take next to nothing of a unit, but as much of a filter as others. A table
    // longer than its segment would overwrite the next one.
    #[test]
    fn a_table_of_deletions_stays_in_its_segment() {
        for (units, bits) in (4..40).flat_map(|units| [1, 10, 64].map(|bits| (units, bits))) {
            let mut builder = Builder::new(7, 3, units, bits, 1);
            let entry = Entry { sequence: 1, settles: 0, value: Value::Tombstone };
            let mut count = 0u64;
            while builder.add(&Key::new(&count.to_be_bytes()).unwrap(), &entry) {
                count += 1;
            }
            let table = builder.finish(u64::MAX).unwrap();
            assert!(table.data_units + table.meta_units() <= units, "{units} units, {bits} bits");
            assert!(table.entries == count && count > 200);
        }
    }

    // A table that loses an entry between two units, or exceeds its segment, loses pairs.
    #[test]
    fn a_full_table_gives_every_entry_back() {
        let mut builder = Builder::new(7, 3, 8, 10, 1);
        let key = |n: u64| Key::new(&(n * 3).to_be_bytes()).unwrap();
        let entry = |n: u64| {
            let place = ValueExtent { segment: 1, offset: n as u32, bytes: 5, crc: 9 };
            Entry { sequence: n, settles: 0, value: Value::One(place) }
        };
        let mut count = 0;
        while builder.add(&key(count), &entry(count)) {
            count += 1;
        }
        let table = builder.finish(u64::MAX).unwrap();
        let mut units = Vec::new();
        assert_eq!(builder.take(&mut units), 0);
        assert!(units.len() <= 8 && units.len() >= 7, "{}", units.len());
        assert_eq!(units.len() as u32, table.data_units + table.meta_units());
        let bytes: Vec<UnitBytes> = units
            .iter()
            .map(|unit| match unit {
                Content::Bytes(bytes) => bytes.clone(),
                _ => panic!(),
            })
            .collect();
        for n in 0..count {
            let unit = table.unit_of(&key(n)).unwrap();
            assert_eq!(Entries::find(&bytes[unit as usize], &key(n)), Some(entry(n)));
            assert!(table.filter.as_ref().unwrap().may_hold(hash(&key(n), 1)));
        }
        let all = (0..table.data_units).flat_map(|unit| Entries::new(&bytes[unit as usize], 7).unwrap());
        assert!(all.map(|(key, _)| key).eq((0..count).map(key)));
        assert!(Entries::new(&bytes[0], 8).is_none(), "another table's");
        let mut again = Table { fences: Vec::new(), filter: None, ..table.clone() };
        let meta: Vec<u8> =
            bytes[table.data_units as usize..].iter().flat_map(|unit| unit.iter().copied()).collect();
        assert!(again.load(&meta, 10));
        assert_eq!((again.fences, again.filter), (table.fences, table.filter));
    }
}
