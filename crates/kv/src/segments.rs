//! Segments: what each is used for, what is live in those of the value log, and when one that was given up may be used
//! again.

use super::config::{KvConfig, KvConfigError, Packing, UnitExtent};
use super::record::{Entry, Place};
use byteway_wire::content::UNIT_BYTES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a unit.
pub(super) const UNIT: u32 = UNIT_BYTES as u32;

/// No value is longer.
const VALUE_BYTES_MAX: u32 = 1 << 30;

/// Segments, at most: each costs memory, and a place in the manifest.
pub(super) const SEGMENTS_MAX: u32 = 1 << 24;

/// What counts changes never gets so far: greater numbers in flash are wrong, and one more never overflows.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;

/// What a pair takes beside its value and twice its key: a record, and an entry of the index with its share of a filter.
const PAIR_BYTES: u32 = 36;

/// Sums over pairs. An entry adds what it takes. What the one before it took is taken off when that is dropped, or
/// earlier, when it is known: then the new one *settles* it ([`Entry::settles`]), and nothing is taken off later.
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

/// How the range is cut up. Units are numbered from the range's beginning.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    extents: Vec<UnitExtent>,
    pub(super) page_units: u32,
    pub(super) segment_units: u32,
    pub(super) segments: u32,
    /// Of each of the two slots.
    pub(super) manifest_units: u32,
    packing: Packing,
    /// Segments that are left for what the store does by itself: stores leave this many free, and deletions half of it.
    pub(super) reserve: u32,
    /// Segments of the value log that may be opened without a new manifest.
    pub(super) pool: u32,
}

impl Layout {
    pub(super) fn new(config: &KvConfig) -> Result<Layout, KvConfigError> {
        let parameter = |is_good: bool, what| is_good.then_some(()).ok_or(KvConfigError::Parameter(what));
        let (page_units, segment_units) = (config.page_units, config.segment_units);
        parameter((1..=32).contains(&page_units), "a log page has 1 to 32 units")?;
        parameter(
            (4..=16384).contains(&segment_units)
                && segment_units.is_power_of_two()
                && segment_units.is_multiple_of(page_units),
            "a segment has 4 to 16384 units: a power of two, and whole log pages",
        )?;
        let buffer_bytes = u64::from(config.buffer_pages) * u64::from(page_units * UNIT);
        parameter(
            config.buffer_pages >= 1 && buffer_bytes <= 1 << 30,
            "the page buffer has at least a page, and at most 1 GiB",
        )?;
        parameter(config.l0_runs >= 1 && config.l0_runs <= 64, "1 to 64 runs wait to be merged")?;
        parameter((2..=100).contains(&config.level_ratio), "level_ratio must be 2 to 100")?;
        parameter(config.filter_bits_per_key <= 64, "a filter has at most 64 bits for each key")?;
        parameter(config.memtable_bytes >= 1, "a memtable needs room")?;
        parameter(config.value_bytes_max <= VALUE_BYTES_MAX, "the longest value is 1 GiB at most")?;
        let units: u64 = config.extents.iter().map(|extent| extent.count).sum();
        let part = (segment_units - 1) * UNIT;
        let parts_max = config.value_bytes_max.div_ceil(part).max(1);
        parameter(parts_max <= 64, "the longest value takes more than 64 segments")?;
        let too_large = KvConfigError::TooLarge { units, segment_units };
        let all = u32::try_from(units / u64::from(segment_units)).map_err(|_| too_large.clone())?;
        if all > SEGMENTS_MAX {
            return Err(too_large);
        }
        // Each segment takes at most so much of the manifest, as a table or of the value log.
        let manifest_units = (u64::from(all) * 100 + 256).div_ceil(u64::from(UNIT)) as u32;
        let segments =
            (units.saturating_sub(2 * u64::from(manifest_units)) / u64::from(segment_units)) as u32;
        // A memtable's tables may hold half of what they could, where units and tables end.
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

    /// Whether values that are moved are packed: then nothing is lost between them.
    pub(super) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// What pairs may take in all: a quarter is left for what is dead and not known to be, and for what pages lose at their ends.
    pub(super) fn capacity(&self) -> u64 {
        u64::from(self.segments - self.reserve) * u64::from(self.segment_bytes()) / 4 * 3
    }

    pub(super) fn segment_bytes(&self) -> u32 {
        self.segment_units * UNIT
    }

    pub(super) fn page_bytes(&self) -> u32 {
        self.page_units * UNIT
    }

    /// The longest part of a value that a segment takes.
    pub(super) fn part_bytes(&self) -> u32 {
        (self.segment_units - 1) * UNIT
    }

    /// Units of the range that are used.
    pub(super) fn units(&self) -> u64 {
        self.first(self.segments)
    }

    /// Whether an entry that flash has given can be one: its places are within segments, and its value no longer than any.
    pub(super) fn holds(&self, entry: &Entry) -> bool {
        let is_within = |place: &Place| {
            place.segment < self.segments
                && place.offset.checked_add(place.bytes).is_some_and(|end| end <= self.segment_bytes())
        };
        let bytes: u64 = entry.places().iter().map(|place| u64::from(place.bytes)).sum();
        entry.sequence <= SEQUENCE_MAX
            && bytes <= u64::from(VALUE_BYTES_MAX)
            && entry.places().iter().all(is_within)
    }

    /// The first unit of a segment.
    pub(super) fn first(&self, segment: u32) -> u64 {
        2 * u64::from(self.manifest_units) + u64::from(segment) * u64::from(self.segment_units)
    }

    /// The unit of a segment that is so far from its end: 0 is the last.
    pub(super) fn table_unit(&self, segment: u32, index: u32) -> u64 {
        self.first(segment) + u64::from(self.segment_units - 1 - index)
    }

    /// Where a unit lies on the drive, and how many of the next `count` follow it there.
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

    /// What a value of so many bytes takes of the log, its share of what is left empty in pages included.
    pub(super) fn footprint(&self, bytes: u32) -> u32 {
        let page = self.page_bytes();
        let bytes = if self.packing == Packing::None { bytes.next_multiple_of(UNIT) } else { bytes };
        match bytes {
            0 => 0,
            // What is long may leave room at a segment's end that nothing as long can use.
            bytes if bytes > page => match self.part_bytes() / bytes.next_multiple_of(page) {
                0 => bytes.div_ceil(self.part_bytes()) * self.segment_bytes(),
                values => self.segment_bytes() / values,
            },
            bytes => page / (page / bytes),
        }
    }

    /// What a pair takes in all; 0 for one that was deleted.
    pub(super) fn cost(&self, key_bytes: usize, entry: &Entry) -> u32 {
        if entry.is_tombstone() { 0 } else { self.cost_of(key_bytes, entry.bytes()) }
    }

    pub(super) fn cost_of(&self, key_bytes: usize, bytes: u32) -> u32 {
        self.footprint(bytes) + 2 * key_bytes as u32 + PAIR_BYTES
    }
}

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    /// Given up; readers may still look at it.
    Freeing,
    /// May become one of the value log, as the manifest says.
    Pool,
    Value,
    Index,
}

/// A segment of the value log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueSegment {
    /// Which of the lives of a segment this is: never the same again.
    pub(super) generation: u64,
    pub(super) is_open: bool,
    /// Units of its record table, once it is closed.
    pub(super) table_units: u32,
    pub(super) records: u32,
    /// How many of them tables in flash reflect.
    pub(super) covered: u32,
    /// What values take that are known to be dead; some may be counted twice after a power cut.
    pub(super) dead_bytes: u64,
    pub(super) dead_records: u32,
    /// Room that nothing was put into, and that moving the rest would gain.
    pub(super) slack: u32,
}

impl ValueSegment {
    /// Whether a manifest may say so.
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

/// All segments.
pub(super) struct Segments {
    uses: Vec<Use>,
    free: VecDeque<u32>,
    pub(super) pool: VecDeque<u32>,
    /// With the last epoch in which somebody may have begun to look at it.
    freeing: VecDeque<(u64, u32)>,
    /// Of each segment, the epoch in which it was taken.
    births: Vec<u64>,
    pub(super) values: BTreeMap<u32, ValueSegment>,
    /// Those with records that no table reflects.
    pub(super) uncovered: BTreeSet<u32>,
    /// Rises with each manifest.
    epoch: u64,
    /// Epochs in which somebody still reads, and how many do.
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

    /// All are free. Who reads now finds nothing that he could believe.
    pub(super) fn clear(&mut self) {
        let (epoch, pins) = (self.epoch, std::mem::take(&mut self.pins));
        *self = Segments { epoch, pins, ..Segments::new(self.uses.len() as u32) };
    }

    /// What a manifest says is taken.
    pub(super) fn set(&mut self, segment: u32, usage: Use) {
        self.uses[segment as usize] = usage;
        if matches!(usage, Use::Value | Use::Index) {
            self.births[segment as usize] = self.epoch;
        }
    }

    /// What goes there is older than the segment: who began to read before it was taken may look for it there, too.
    pub(super) fn show_to_all(&mut self, segment: u32) {
        self.births[segment as usize] = 0;
    }

    pub(super) fn usage(&self, segment: u32) -> Option<Use> {
        self.uses.get(segment as usize).copied()
    }

    /// After a look at a manifest: what is free.
    pub(super) fn gather_free(&mut self) {
        self.free = (0..self.uses.len() as u32).filter(|at| self.uses[*at as usize] == Use::Free).collect();
    }

    /// How many can be used now, those of the pool among them.
    pub(super) fn free(&self) -> u32 {
        (self.free.len() + self.pool.len()) as u32
    }

    /// How many will be free when no reader is left.
    pub(super) fn freeing(&self) -> u32 {
        self.freeing.len() as u32
    }

    /// Free segments for the pool, as many as there are. It takes effect with the next manifest.
    pub(super) fn for_pool(&mut self, count: u32) -> Vec<u32> {
        let count = self.free.len().min(count as usize);
        let added: Vec<u32> = self.free.drain(..count).collect();
        added.iter().for_each(|segment| self.set(*segment, Use::Pool));
        added
    }

    /// A segment for a table.
    pub(super) fn take(&mut self) -> Option<u32> {
        let segment = match self.free.pop_front() {
            Some(segment) => segment,
            // The last ones may be in the pool. That is said by a manifest which names the table, too.
            None if self.pool.len() > 2 => self.pool.pop_back()?,
            None => return None,
        };
        self.set(segment, Use::Index);
        Some(segment)
    }

    /// A segment that nobody has named goes back.
    pub(super) fn give_back(&mut self, segment: u32) {
        self.set(segment, Use::Free);
        self.free.push_front(segment);
    }

    /// A segment that no manifest names any more. Whoever reads now may still look at it.
    pub(super) fn give_up(&mut self, segment: u32) {
        self.set(segment, Use::Freeing);
        self.values.remove(&segment);
        self.uncovered.remove(&segment);
        self.freeing.push_back((self.epoch, segment));
    }

    /// A manifest is durable.
    pub(super) fn next_epoch(&mut self) {
        self.epoch += 1;
    }

    /// The next segment that no reader looks at any more.
    pub(super) fn unread(&mut self) -> Option<u32> {
        // Who began before it was taken has never seen it.
        let is_unread = |(epoch, segment): &(u64, u32)| {
            self.pins.range(self.births[*segment as usize]..=*epoch).next().is_none()
        };
        let at = self.freeing.iter().position(is_unread)?;
        self.freeing.remove(at).map(|(_, segment)| segment)
    }

    pub(super) fn release(&mut self, segment: u32) {
        self.set(segment, Use::Free);
        self.free.push_back(segment);
    }

    pub(super) fn pin(&mut self) -> u64 {
        *self.pins.entry(self.epoch).or_default() += 1;
        self.epoch
    }

    /// Whether something may be free then.
    pub(super) fn unpin(&mut self, epoch: u64) -> bool {
        if let Some(count) = self.pins.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&epoch);
                return !self.freeing.is_empty();
            }
        }
        false
    }

    /// A value, or a part of one, is of no use any more.
    pub(super) fn died(&mut self, layout: &Layout, place: &Place) {
        if let Some(segment) = self.values.get_mut(&place.segment) {
            segment.dead_bytes += u64::from(layout.footprint(place.bytes));
            segment.dead_records += 1;
        }
    }

    /// Whether each segment is where its use says, and nowhere else.
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
        // Those that a manifest is about to name, or that are being released, are nowhere for a moment.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A cursor finds what was moved since it was made in a segment that is younger than it. If that were free before the
    // cursor ends, it would find what came there next. What was stored since it doesn't see, and waits for nobody.
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
