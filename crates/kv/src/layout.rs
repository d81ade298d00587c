//! How the store's range is divided: two slots of manifests, then segments; and what a key-value pair costs there.

use super::config::{KvConfig, KvConfigError, Packing, SEGMENTS_MAX, UnitExtent};
use super::record::{Entry, ValueExtent};
use byteway_content::UNIT_BYTES;

/// Bytes of a unit.
pub(super) const UNIT: u32 = UNIT_BYTES as u32;

/// Upper bound of a value's length, in bytes.
const VALUE_BYTES_MAX: u32 = 1 << 30;

/// Bound of sequence numbers and counters, far above what any run reaches. A greater number read from flash is damage,
/// and one more than a smaller one never overflows.
pub(super) const SEQUENCE_MAX: u64 = 1 << 62;

/// Bytes that a key-value pair takes in addition to its value and twice its key: a record, and an index entry with its
/// share of a filter.
const PAIR_BYTES: u32 = 36;

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
