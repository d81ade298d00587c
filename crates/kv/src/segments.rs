//! Segments: the use of each, the dead bytes of those in the value log, and the epochs that decide when one may be
//! reused.

use super::config::{KvConfig, KvConfigError, Packing, UnitExtent};
use super::record::{Entry, ValueExtent};
use byteway_content::UNIT_BYTES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a unit.
pub(super) const UNIT: u32 = UNIT_BYTES as u32;

/// Upper bound of a value's length, in bytes.
const VALUE_BYTES_MAX: u32 = 1 << 30;

/// Upper bound of the number of segments: each takes memory, and space in the manifest.
pub(super) const SEGMENTS_MAX: u32 = 1 << 24;

/// Bound of sequence numbers and counters, far above what any run reaches. A greater number read from flash is damage,
/// and one more than a smaller one never overflows.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;

/// Bytes that a key-value pair takes in addition to its value and twice its key: a record, and an index entry with its
/// share of a filter.
const PAIR_BYTES: u32 = 36;

/// Sums over key-value pairs. An entry adds its own cost. The cost of the entry that it replaces is subtracted when
/// that is dropped in a merge, or at once if it is known at the store: the new entry then *settles* it
/// ([`Entry::settles`]), and nothing is subtracted later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) bytes: i64,
    pub(super) keys: i64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.bytes += other.bytes;
        self.keys += other.keys;
    }

    pub(super) fn gain(&mut self, cost: u32) {
        self.add(Tally { bytes: i64::from(cost), keys: i64::from(cost > 0) });
    }

    pub(super) fn lose(&mut self, cost: u32) {
        self.add(Tally { bytes: -i64::from(cost), keys: -i64::from(cost > 0) });
    }
}

/// How the store's range is divided. Units are numbered from the range's beginning.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    extents: Vec<UnitExtent>,
    pub(super) page_units: u32,
    pub(super) segment_units: u32,
    pub(super) segments: u32,
    /// Units of each of the two manifest slots.
    pub(super) manifest_units: u32,
    packing: Packing,
    /// Free segments that are reserved for flushes, merges and garbage collection: stores leave this many free,
    /// deletions half of it.
    pub(super) reserve: u32,
    /// Segments of the value log that may be opened without a new manifest.
    pub(super) pool: u32,
}

impl Layout {
    pub(super) fn new(config: &KvConfig) -> Result<Layout, KvConfigError> {
        let parameter = |is_good: bool, what| is_good.then_some(()).ok_or(KvConfigError::Parameter(what));
        let (page_units, segment_units) = (config.page_units, config.segment_units);
        parameter((1..=32).contains(&page_units), "page_units must be 1 to 32")?;
        parameter(
            (4..=16384).contains(&segment_units)
                && segment_units.is_power_of_two()
                && segment_units.is_multiple_of(page_units),
            "segment_units must be a power of two from 4 to 16384, and a multiple of page_units",
        )?;
        let buffer_bytes = u64::from(config.buffer_pages) * u64::from(page_units * UNIT);
        parameter(
            config.buffer_pages >= 1 && buffer_bytes <= 1 << 30,
            "buffer_pages must be at least 1, and the page buffer at most 1 GiB",
        )?;
        parameter(config.l0_runs >= 1 && config.l0_runs <= 64, "l0_runs must be 1 to 64")?;
        parameter((2..=100).contains(&config.level_ratio), "level_ratio must be 2 to 100")?;
        parameter(config.filter_bits_per_key <= 64, "filter_bits_per_key must be at most 64")?;
        parameter(config.memtable_bytes >= 1, "memtable_bytes must be at least 1")?;
        parameter(config.value_bytes_max <= VALUE_BYTES_MAX, "value_bytes_max must be at most 1 GiB")?;
        let units: u64 = config.extents.iter().map(|extent| extent.count).sum();
        let part = (segment_units - 1) * UNIT;
        let parts_max = config.value_bytes_max.div_ceil(part).max(1);
        parameter(parts_max <= 64, "value_bytes_max must fit into 64 segments")?;
        let too_large = KvConfigError::TooLarge { units, segment_units };
        let all = u32::try_from(units / u64::from(segment_units)).map_err(|_| too_large.clone())?;
        if all > SEGMENTS_MAX {
            return Err(too_large);
        }
        // Upper bound: each segment takes at most 100 bytes of the manifest, as a table or in the value log.
        let manifest_units = (u64::from(all) * 100 + 256).div_ceil(u64::from(UNIT)) as u32;
        let segments =
            (units.saturating_sub(2 * u64::from(manifest_units)) / u64::from(segment_units)) as u32;
        // A memtable's tables may be half full only, because units and tables end at entry boundaries.
        let of_memtable = (config.memtable_bytes * 2).div_ceil(u64::from(part)) as u32 + 1;
        let pool = (segments / 16).clamp(2, 16).max(parts_max + 2);
        let reserve = config.l0_runs + 3 + 3 * of_memtable + 2 + pool;
        let least = reserve + 8;
        if segments < least {
            let least = u64::from(least) * u64::from(segment_units) + 2 * u64::from(manifest_units);
            return Err(KvConfigError::TooSmall { units, least: least.max(units + 1) });
        }
        let (extents, packing) = (config.extents.clone(), config.packing);
        Ok(Layout { extents, page_units, segment_units, segments, manifest_units, packing, reserve, pool })
    }

    /// Whether moved values are packed. Then collecting a segment also gains the gaps between its values.
    pub(super) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Bytes that key-value pairs may take in all. A quarter is left for dead values that are not known to be dead yet,
    /// and for the ends of pages.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.segments - self.reserve) * u64::from(self.segment_bytes()) / 4 * 3
    }

    pub(super) fn segment_bytes(&self) -> u32 {
        self.segment_units * UNIT
    }

    pub(super) fn page_bytes(&self) -> u32 {
        self.page_units * UNIT
    }

    /// The longest part of a value that fits into one segment, in bytes.
    pub(super) fn part_bytes(&self) -> u32 {
        (self.segment_units - 1) * UNIT
    }

    /// Units of the range that are used.
    pub(super) fn units(&self) -> u64 {
        self.first(self.segments)
    }

    /// Whether an entry read from flash is valid: its extents are within segments, and its value is not too
    /// long.
    pub(super) fn holds(&self, entry: &Entry) -> bool {
        let is_within = |place: &ValueExtent| {
            place.segment < self.segments
                && place.offset.checked_add(place.bytes).is_some_and(|end| end <= self.segment_bytes())
        };
        let bytes: u64 = entry.extents().iter().map(|place| u64::from(place.bytes)).sum();
        entry.sequence <= SEQUENCE_MAX
            && bytes <= u64::from(VALUE_BYTES_MAX)
            && entry.extents().iter().all(is_within)
    }

    /// The first unit of a segment.
    pub(super) fn first(&self, segment: u32) -> u64 {
        2 * u64::from(self.manifest_units) + u64::from(segment) * u64::from(self.segment_units)
    }

    /// The unit of a segment at `index` from its end: 0 is the last unit.
    pub(super) fn table_unit(&self, segment: u32, index: u32) -> u64 {
        self.first(segment) + u64::from(self.segment_units - 1 - index)
    }

    /// The unit's address on the drive, and how many of the next `count` units are contiguous with it there.
    pub(super) fn locate(&self, unit: u64, count: u64) -> (u64, u64) {
        let mut before = 0;
        for extent in &self.extents {
            let at = unit - before;
            if at < extent.count {
                return (extent.first + at, count.min(extent.count - at));
            }
            before += extent.count;
        }
        unreachable!("units are within the range")
    }

    /// Bytes of the log that a value takes, including its share of the padding at the ends of pages.
    pub(super) fn footprint(&self, bytes: u32) -> u32 {
        let page = self.page_bytes();
        let bytes = if self.packing == Packing::None { bytes.next_multiple_of(UNIT) } else { bytes };
        match bytes {
            0 => 0,
            // A long value may leave space at a segment's end that no equally long value can use.
            bytes if bytes > page => match self.part_bytes() / bytes.next_multiple_of(page) {
                0 => bytes.div_ceil(self.part_bytes()) * self.segment_bytes(),
                values => self.segment_bytes() / values,
            },
            bytes => page / (page / bytes),
        }
    }

    /// Bytes that a key-value pair takes in all; 0 for a deleted one.
    pub(super) fn cost(&self, key_bytes: usize, entry: &Entry) -> u32 {
        if entry.is_tombstone() { 0 } else { self.cost_of(key_bytes, entry.bytes()) }
    }

    pub(super) fn cost_of(&self, key_bytes: usize, bytes: u32) -> u32 {
        self.footprint(bytes) + 2 * key_bytes as u32 + PAIR_BYTES
    }
}

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    /// No longer named by the manifest; readers may still read it.
    Freeing,
    /// May be opened for the value log without a new manifest.
    Pool,
    Value,
    Index,
}

/// The state of a segment of the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSegment {
    /// Identifies one use of the segment: no two openings of any segment share a generation.
    pub(super) generation: u64,
    pub(super) is_open: bool,
    /// Units of its record table, once it is closed.
    pub(super) table_units: u32,
    pub(super) records: u32,
    /// The number of its records that tables in flash reflect.
    pub(super) covered: u32,
    /// Bytes of values known to be dead. Some may be counted twice after a power cut.
    pub(super) dead_bytes: u64,
    pub(super) dead_records: u32,
    /// Bytes that no value uses, and that moving the live values would regain.
    pub(super) slack: u32,
}

impl ValueSegment {
    /// Whether the numbers of a manifest are within their ranges.
    pub(super) fn is_sound(&self, layout: &Layout) -> bool {
        let bytes = layout.segment_bytes();
        self.table_units <= layout.segment_units
            && self.records <= bytes
            && self.covered <= bytes
            && self.slack <= bytes
            && self.dead_records <= u32::MAX / 2
            && self.dead_bytes <= SEQUENCE_MAX
    }
}

/// The use of all segments.
pub(super) struct Segments {
    uses: Vec<Use>,
    free: VecDeque<u32>,
    pub(super) pool: VecDeque<u32>,
    /// Segments to be freed, each with the last epoch in which a reader may have started to use it.
    freeing: VecDeque<(u64, u32)>,
    /// For each segment, the epoch in which it was allocated.
    births: Vec<u64>,
    pub(super) values: BTreeMap<u32, ValueSegment>,
    /// Segments with records that no table reflects: recovery must replay them.
    pub(super) uncovered: BTreeSet<u32>,
    /// Rises with each durable manifest.
    epoch: u64,
    /// Epochs with active readers, and their number.
    pins: BTreeMap<u64, u32>,
}

impl Segments {
    pub(super) fn new(count: u32) -> Segments {
        Segments {
            uses: vec![Use::Free; count as usize],
            free: (0..count).collect(),
            pool: VecDeque::new(),
            freeing: VecDeque::new(),
            births: vec![0; count as usize],
            values: BTreeMap::new(),
            uncovered: BTreeSet::new(),
            epoch: 0,
            pins: BTreeMap::new(),
        }
    }

    /// Frees all segments, keeping the pins: readers that are active now find nothing that passes their checks.
    pub(super) fn clear(&mut self) {
        let (epoch, pins) = (self.epoch, std::mem::take(&mut self.pins));
        *self = Segments { epoch, pins, ..Segments::new(self.uses.len() as u32) };
    }

    /// Sets the use of a segment, as the manifest names it.
    pub(super) fn set(&mut self, segment: u32, usage: Use) {
        self.uses[segment as usize] = usage;
        if matches!(usage, Use::Value | Use::Index) {
            self.births[segment as usize] = self.epoch;
        }
    }

    /// Marks a segment whose contents are older than itself (moved values): readers that started before it was taken
    /// may look there, too.
    pub(super) fn show_to_all(&mut self, segment: u32) {
        self.births[segment as usize] = 0;
    }

    pub(super) fn usage(&self, segment: u32) -> Option<Use> {
        self.uses.get(segment as usize).copied()
    }

    /// Rebuilds the free list from the uses, after recovery.
    pub(super) fn gather_free(&mut self) {
        self.free = (0..self.uses.len() as u32).filter(|at| self.uses[*at as usize] == Use::Free).collect();
    }

    /// Segments that can be used now, including those of the pool.
    pub(super) fn free(&self) -> u32 {
        (self.free.len() + self.pool.len()) as u32
    }

    /// Segments that become free when their readers end.
    pub(super) fn freeing(&self) -> u32 {
        self.freeing.len() as u32
    }

    /// Moves up to `count` free segments into the pool. They may be opened once the next manifest is durable.
    pub(super) fn for_pool(&mut self, count: u32) -> Vec<u32> {
        let count = self.free.len().min(count as usize);
        let added: Vec<u32> = self.free.drain(..count).collect();
        added.iter().for_each(|segment| self.set(*segment, Use::Pool));
        added
    }

    /// Takes a segment for a table.
    pub(super) fn take(&mut self) -> Option<u32> {
        let segment = match self.free.pop_front() {
            Some(segment) => segment,
            // The last free segments may be in the pool. The manifest that names the table also takes the segment off
            // the pool.
            None if self.pool.len() > 2 => self.pool.pop_back()?,
            None => return None,
        };
        debug_assert!(matches!(self.uses[segment as usize], Use::Free | Use::Pool));
        self.set(segment, Use::Index);
        Some(segment)
    }

    /// Frees a segment that no manifest has named.
    pub(super) fn give_back(&mut self, segment: u32) {
        // Only a segment in use may come back; a second return would put it on the free list twice.
        debug_assert_ne!(self.uses[segment as usize], Use::Free, "segment {segment} is freed twice");
        self.set(segment, Use::Free);
        self.free.push_front(segment);
    }

    /// Gives up a segment that no manifest names any more. Active readers may still read it.
    pub(super) fn give_up(&mut self, segment: u32) {
        debug_assert!(
            matches!(self.uses[segment as usize], Use::Pool | Use::Value | Use::Index),
            "segment {segment} is given up as {:?}",
            self.uses[segment as usize]
        );
        self.set(segment, Use::Freeing);
        self.values.remove(&segment);
        self.uncovered.remove(&segment);
        self.freeing.push_back((self.epoch, segment));
    }

    /// Starts the next epoch. Call it when a manifest is durable.
    pub(super) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Takes a given-up segment that no reader uses any more.
    pub(super) fn unread(&mut self) -> Option<u32> {
        // A reader that started before the segment was taken never saw it, so only pins from its birth on count.
        let is_unread = |(epoch, segment): &(u64, u32)| {
            self.pins.range(self.births[*segment as usize]..=*epoch).next().is_none()
        };
        let at = self.freeing.iter().position(is_unread)?;
        self.freeing.remove(at).map(|(_, segment)| segment)
    }

    pub(super) fn release(&mut self, segment: u32) {
        debug_assert_eq!(self.uses[segment as usize], Use::Freeing, "segment {segment} is released in use");
        self.set(segment, Use::Free);
        self.free.push_back(segment);
    }

    pub(super) fn pin(&mut self) -> u64 {
        *self.pins.entry(self.epoch).or_default() += 1;
        self.epoch
    }

    /// Ends a pin. Returns whether a segment may have become free.
    pub(super) fn unpin(&mut self, epoch: u64) -> bool {
        debug_assert!(self.pins.contains_key(&epoch), "epoch {epoch} has no pin to end");
        if let Some(count) = self.pins.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&epoch);
                return !self.freeing.is_empty();
            }
        }
        false
    }

    /// Counts a value, or a part of one, as dead.
    pub(super) fn mark_dead(&mut self, layout: &Layout, place: &ValueExtent) {
        if let Some(segment) = self.values.get_mut(&place.segment) {
            segment.dead_bytes += u64::from(layout.footprint(place.bytes));
            segment.dead_records += 1;
        }
    }

    /// Checks that each segment is in the list of its use, and in no other.
    pub(super) fn check(&self) -> Result<(), String> {
        let lists = self.free.iter().map(|segment| (*segment, Use::Free));
        let lists = lists.chain(self.pool.iter().map(|segment| (*segment, Use::Pool)));
        let lists = lists.chain(self.freeing.iter().map(|(_, segment)| (*segment, Use::Freeing)));
        let lists = lists.chain(self.values.keys().map(|segment| (*segment, Use::Value)));
        let mut seen = BTreeSet::new();
        for (segment, usage) in lists {
            if self.usage(segment) != Some(usage) || !seen.insert(segment) {
                return Err(format!(
                    "segment {segment} is {:?}, and listed as {usage:?}",
                    self.usage(segment)
                ));
            }
        }
        // Segments that a manifest is about to name, or that are being released, are in no list for a moment.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A cursor finds values that were moved after it was made in a segment younger than itself. If that segment became
    // free before the cursor ends, the cursor would read what is written there next. Segments for new values are
    // invisible to it and wait for no reader.
    #[test]
    fn what_values_are_moved_to_waits_for_older_readers() {
        let mut segments = Segments::new(8);
        let reader = segments.pin();
        segments.next_epoch();
        for segment in [3, 4] {
            segments.set(segment, Use::Value);
        }
        segments.show_to_all(4);
        segments.next_epoch();
        segments.give_up(4);
        segments.give_up(3);
        assert_eq!((segments.unread(), segments.unread()), (Some(3), None));
        assert!(segments.unpin(reader));
        assert_eq!(segments.unread(), Some(4));
    }
}
