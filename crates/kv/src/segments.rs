//! Segments: the use of each, the dead bytes of those in the value log, and the epochs that decide when one may be
//! reused.
//!
//! Readers pin an epoch rather than the segments that they read: a reader knows what it reads only as it goes on, and a
//! count on each segment would have to be taken for all tables of a version. The price is that a reader also holds
//! back segments that it never looks at; only those taken after it began are free of it.

use super::layout::{Layout, SEQUENCE_MAX};
use super::record::ValueExtent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Approximate bytes of a record in a segment.
const RECORD_BYTES: u32 = 24;

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

/// The first records of a segment, which tables reflect once a memtable is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) segment: u32,
    /// That of the segment when they were appended.
    pub(super) generation: u64,
    pub(super) records: u32,
}

/// The use of all segments.
pub(super) struct Segments {
    uses: Vec<Use>,
    free: VecDeque<u32>,
    pool: VecDeque<u32>,
    /// Segments to be freed, each with the last epoch in which a reader may have started to use it.
    freeing: VecDeque<(u64, u32)>,
    /// For each segment, the epoch in which it was allocated.
    births: Vec<u64>,
    values: BTreeMap<u32, ValueSegment>,
    /// Segments with records that no table reflects: recovery must replay them.
    uncovered: BTreeSet<u32>,
    /// Segments of the value log that can't be collected, because their record table is unreadable.
    spoiled: BTreeSet<u32>,
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
            spoiled: BTreeSet::new(),
            epoch: 0,
            pins: BTreeMap::new(),
        }
    }

    /// Frees all segments, keeping the pins: readers that are active now find nothing that passes their checks.
    pub(super) fn clear(&mut self) {
        let (epoch, pins) = (self.epoch, std::mem::take(&mut self.pins));
        *self = Segments { epoch, pins, ..Segments::new(self.uses.len() as u32) };
    }

    /// Takes over what a manifest and the records after it say: segments of values, and those of tables.
    pub(super) fn restore(&mut self, values: BTreeMap<u32, ValueSegment>, tables: impl Iterator<Item = u32>) {
        debug_assert!(self.pool.is_empty(), "recovery runs before any segment is opened");
        debug_assert!(self.values.is_empty(), "a store is recovered once");
        for (segment, info) in &values {
            self.set(*segment, Use::Value);
            if info.covered < info.records {
                self.uncovered.insert(*segment);
            }
        }
        self.values = values;
        tables.for_each(|segment| self.set(segment, Use::Index));
    }

    /// Forgets the pool, and which segments can't be collected: a format gives all of them up.
    pub(super) fn begin_anew(&mut self) {
        self.pool.clear();
        self.spoiled.clear();
    }

    /// Sets the use of a segment, as the manifest names it.
    fn set(&mut self, segment: u32, usage: Use) {
        self.uses[segment as usize] = usage;
        if matches!(usage, Use::Value | Use::Index) {
            self.births[segment as usize] = self.epoch;
        }
    }

    /// Segments that the newest manifest names or lists as its pool, or that tables not yet named are in.
    pub(super) fn in_use(&self) -> Vec<u32> {
        let is_used = |at: &u32| matches!(self.usage(*at), Some(Use::Pool | Use::Value | Use::Index));
        (0..self.uses.len() as u32).filter(is_used).collect()
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

    /// The segments of the pool, in the order in which they are opened.
    pub(super) fn pool(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.pool.iter().copied()
    }

    /// Chooses up to `count` free segments for the pool. They join it ([`Segments::extend_pool`]) when the manifest that
    /// lists them is durable.
    pub(super) fn for_pool(&mut self, count: u32) -> Vec<u32> {
        let count = self.free.len().min(count as usize);
        let added: Vec<u32> = self.free.drain(..count).collect();
        added.iter().for_each(|segment| self.set(*segment, Use::Pool));
        added
    }

    /// Adds chosen segments to the pool, once their manifest is durable.
    pub(super) fn extend_pool(&mut self, added: Vec<u32>) {
        debug_assert!(
            added.iter().all(|segment| self.uses[*segment as usize] == Use::Pool),
            "a segment joins the pool that was not chosen for it"
        );
        self.pool.extend(added);
    }

    /// Opens the next segment of the pool for values. If they are moved ones, they are older than the segment: cursors
    /// that were made before must keep it from reuse, too. `None` if the pool is empty.
    pub(super) fn open(&mut self, generation: u64, is_moved: bool) -> Option<u32> {
        let segment = self.pool.pop_front()?;
        debug_assert_eq!(self.uses[segment as usize], Use::Pool, "segment {segment} is opened in use");
        debug_assert!(!self.values.contains_key(&segment), "segment {segment} is opened twice");
        self.set(segment, Use::Value);
        if is_moved {
            self.births[segment as usize] = 0;
        }
        self.uncovered.insert(segment);
        let info = ValueSegment { generation, is_open: true, ..ValueSegment::default() };
        self.values.insert(segment, info);
        Some(segment)
    }

    /// Counts a record that was appended to the open segment: it is the `records`-th.
    pub(super) fn count_record(&mut self, segment: u32, records: u32) {
        let Some(info) = self.values.get_mut(&segment) else { return };
        debug_assert!(info.is_open, "a record in a segment that is closed");
        debug_assert_eq!(info.records + 1, records, "records of a segment are numbered without a gap");
        info.records = records;
    }

    /// Closes a segment of values.
    pub(super) fn close(&mut self, segment: u32, table_units: u32, slack: u32) {
        let Some(info) = self.values.get_mut(&segment) else { return };
        debug_assert!(info.is_open, "segment {segment} is closed twice");
        (info.is_open, info.table_units, info.slack) = (false, table_units, slack);
        if info.covered == info.records {
            self.uncovered.remove(&segment);
        }
    }

    /// The state of a segment of the value log.
    pub(super) fn value(&self, segment: u32) -> Option<ValueSegment> {
        self.values.get(&segment).copied()
    }

    /// All segments of the value log.
    pub(super) fn values(&self) -> impl Iterator<Item = (u32, &ValueSegment)> + Clone {
        self.values.iter().map(|(segment, info)| (*segment, info))
    }

    /// All records now of the segments with records that no table reflects.
    pub(super) fn uncovered(&self) -> Vec<Cover> {
        let records = |segment: &u32| {
            let ValueSegment { generation, records, .. } = *self.values.get(segment)?;
            Some(Cover { segment: *segment, generation, records })
        };
        self.uncovered.iter().filter_map(records).collect()
    }

    /// Whether tables reflect all records of a segment.
    pub(super) fn is_covered(&self, segment: u32) -> bool {
        !self.uncovered.contains(&segment)
    }

    /// Marks the first records of segments as covered: recovery need not replay them.
    pub(super) fn cover(&mut self, covers: &[Cover]) {
        for Cover { segment, generation, records } in covers {
            // A segment that was given up since may be in use again. Its records now are others, which recovery has to replay: today no segment
            // is given up while a memtable waits that covers it, but that is due to the order of the upkeep task alone.
            let info = self.values.get_mut(segment).filter(|info| info.generation == *generation);
            let Some(info) = info else { continue };
            debug_assert!(*records <= info.records, "tables reflect records that were never appended");
            info.covered = info.covered.max(*records);
            if info.covered == info.records && !info.is_open {
                self.uncovered.remove(segment);
            }
        }
    }

    /// The closed segment whose collection gains most, and its gain in bytes.
    pub(super) fn victim(&self, layout: &Layout) -> Option<(u32, u32)> {
        let gain = |info: &ValueSegment| {
            let dead = info.dead_bytes + u64::from(info.dead_records) * u64::from(RECORD_BYTES);
            (dead + u64::from(info.slack)).min(u64::from(layout.segment_bytes())) as u32
        };
        let closed = self.values.iter().filter(|(_, info)| !info.is_open);
        let closed = closed.filter(|(segment, _)| !self.spoiled.contains(segment));
        closed.map(|(segment, info)| (*segment, gain(info))).max_by_key(|(segment, gain)| (*gain, !*segment))
    }

    /// Sets a segment aside that can't be collected.
    pub(super) fn spoil(&mut self, segment: u32) {
        self.spoiled.insert(segment);
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
        self.values.remove(&segment);
        self.uncovered.remove(&segment);
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

    // Records of a later use of a segment, taken for those that a memtable covers, would not be replayed after a power cut.
    #[test]
    fn records_of_a_later_use_of_a_segment_are_not_covered() {
        let mut segments = Segments::new(4);
        let chosen = segments.for_pool(1);
        segments.extend_pool(chosen);
        assert_eq!(segments.open(7, false), Some(0));
        (1..=3).for_each(|records| segments.count_record(0, records));
        let first = segments.uncovered();
        assert_eq!(first, [Cover { segment: 0, generation: 7, records: 3 }]);
        // As many as were ever appended, while it is open: more may follow.
        segments.cover(&first);
        assert_eq!((segments.value(0).unwrap().covered, segments.is_covered(0)), (3, false));
        segments.count_record(0, 4);
        let all = segments.uncovered();
        segments.close(0, 1, 0);
        assert!(!segments.is_covered(0));
        segments.cover(&all);
        assert!(segments.is_covered(0));
        // An older memtable, whose flush ends later, takes nothing back.
        segments.cover(&first);
        assert_eq!(segments.value(0).unwrap().covered, 4);
        segments.give_up(0);
        segments.cover(&all);
        assert_eq!(segments.unread(), Some(0));
        segments.release(0);
        let chosen = segments.for_pool(4);
        segments.extend_pool(chosen);
        while segments.open(8, false) != Some(0) {}
        segments.count_record(0, 1);
        segments.cover(&all);
        let ValueSegment { covered, records, .. } = segments.value(0).unwrap();
        assert_eq!((covered, records, segments.is_covered(0)), (0, 1, false));
    }

    // A cursor finds values that were moved after it was made in a segment younger than itself. If that segment became
    // free before the cursor ends, the cursor would read what is written there next. Segments for new values are
    // invisible to it and wait for no reader.
    #[test]
    fn what_values_are_moved_to_waits_for_older_readers() {
        let mut segments = Segments::new(8);
        let reader = segments.pin();
        segments.next_epoch();
        let chosen = segments.for_pool(2);
        segments.extend_pool(chosen);
        assert_eq!((segments.open(1, false), segments.open(2, true)), (Some(0), Some(1)));
        segments.next_epoch();
        segments.give_up(1);
        segments.give_up(0);
        assert_eq!((segments.unread(), segments.unread()), (Some(0), None));
        assert!(segments.unpin(reader));
        assert_eq!(segments.unread(), Some(1));
    }
}
