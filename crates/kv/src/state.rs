//! The state of a store in DRAM, and the steps that change it without waiting.

use super::cache::Cache;
use super::config::{KvConfig, KvError, Origin};
use super::counters::{KvCounters, KvUsage};
use super::key::Key;
use super::log::{Log, Queue};
use super::memtable::Memtable;
use super::record::{Entry, Value, ValueExtent};
use super::segments::{Layout, Segments, Tally, UNIT, Use, ValueSegment};
use super::version::Version;
use byteway_content::Content;
use byteway_firmware::MediaError;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Full memtables that may wait for a flush before stores wait, too.
const FULL_MEMTABLES_MAX: usize = 2;

/// The result of a look-up, and what it depends on.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) entry: Option<Entry>,
    /// Lookup in DRAM. Otherwise the result is current until another memtable is flushed.
    pub(super) in_memory: bool,
    pub(super) flushes: u64,
}

impl Lookup {
    /// Whether the key exists.
    pub(super) fn exists(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| !entry.is_tombstone())
    }
}

/// Why a step can't be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Wait for a change of the state, then try again.
    Wait,
    /// The look-up is no longer current: repeat it.
    Stale,
    /// The step needs a look-up first.
    Look,
    Error(KvError),
}

/// The value of a store.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    /// Already in the page buffer, at offset `ring`: `bytes` bytes.
    Placed {
        ring: u32,
        bytes: u32,
        crc: Option<u32>,
    },
}

impl Source<'_> {
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u32,
            Source::Placed { bytes, .. } => *bytes,
        }
    }
}

/// Requests to the upkeep task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// More segments in the pool of the value log.
    pub(super) pool: bool,
    /// Free segments.
    pub(super) space: bool,
    /// Exact sums: merge everything.
    pub(super) sums: bool,
}

pub(super) struct State {
    pub(super) layout: Rc<Layout>,
    pub(super) segments: Segments,
    pub(super) memtable: Rc<RefCell<Memtable>>,
    /// Full memtables, the oldest first.
    pub(super) full: VecDeque<Rc<RefCell<Memtable>>>,
    pub(super) version: Rc<Version>,
    pub(super) logs: [Log; 2],
    pub(super) queue: Queue,
    pub(super) cache: Cache,
    pub(super) next_sequence: u64,
    pub(super) next_table: u64,
    /// Number of power-ons and formats.
    pub(super) mount: u32,
    pub(super) next_generation: u32,
    /// Sequence number of the newest manifest.
    pub(super) manifest: u64,
    /// Memtables flushed to flash.
    pub(super) flushes: u64,
    /// Sums over all key-value pairs in tables.
    pub(super) tally: Tally,
    /// Whether no key-value pair was stored without a look-up since everything was merged, so that the sums
    /// are exact.
    pub(super) is_exact: bool,
    /// The next sequence number at the time when nothing could be reclaimed.
    pub(super) exhausted_at: Option<u64>,
    pub(super) is_formatting: bool,
    pub(super) wants: Wants,
    /// Sequence numbers up to which cursors see, and the number of cursors for each.
    pub(super) snapshots: BTreeMap<u64, u32>,
    /// Open cursors that may stay indefinitely.
    pub(super) lasting: u32,
    pub(super) filter_bytes: u64,
    /// For each level, the key after which its next merge begins.
    pub(super) turns: Vec<Option<Key>>,
    pub(super) counters: KvCounters,
    /// Flash has failed: the store only reads.
    pub(super) failed: Option<MediaError>,
    /// The contents are unknown: the store can't be read either.
    pub(super) is_lost: bool,
    pub(super) is_stopped: bool,
    /// Segments of the value log that can't be collected, because their record table is unreadable.
    pub(super) spoiled: BTreeSet<u32>,
    record: Vec<u8>,
    pub(super) contents: Vec<Vec<Content>>,
}

/// Index of the log for the host's values; [`MOVED`] is that for values that garbage collection moves.
pub(super) const HOST: usize = 0;
pub(super) const MOVED: usize = 1;

impl State {
    pub(super) fn new(config: &KvConfig, layout: &Rc<Layout>) -> State {
        State {
            layout: layout.clone(),
            segments: Segments::new(layout.segments),
            memtable: Rc::default(),
            full: VecDeque::new(),
            version: Rc::default(),
            logs: [Log::new(config, layout, false), Log::new(config, layout, true)],
            queue: Queue::default(),
            cache: Cache::new(config.cache_units),
            next_sequence: 1,
            next_table: 1,
            mount: 0,
            next_generation: 0,
            manifest: 0,
            flushes: 0,
            tally: Tally::default(),
            is_exact: true,
            exhausted_at: None,
            is_formatting: false,
            wants: Wants::default(),
            snapshots: BTreeMap::new(),
            lasting: 0,
            filter_bytes: 0,
            turns: Vec::new(),
            counters: KvCounters::default(),
            failed: None,
            is_lost: false,
            is_stopped: false,
            spoiled: BTreeSet::new(),
            record: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// Whether the store can be read.
    pub(super) fn check_known(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) if self.is_lost => Err(KvError::Media(error)),
            _ => Ok(()),
        }
    }

    /// Whether the store can be changed.
    pub(super) fn check(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) => Err(KvError::Media(error)),
            None => Ok(()),
        }
    }

    /// Whether a queued write is being written, or will be.
    pub(super) fn is_writing(&self) -> bool {
        self.queue.is_writing || self.failed.is_none() && !self.queue.writes.is_empty()
    }

    /// The sums over all key-value pairs.
    pub(super) fn sums(&self) -> Tally {
        let mut sums = self.tally;
        sums.add(self.memtable.borrow().tally);
        self.full.iter().for_each(|memtable| sums.add(memtable.borrow().tally));
        sums
    }

    pub(super) fn usage(&self) -> KvUsage {
        let sums = self.sums();
        KvUsage {
            capacity_bytes: self.layout.capacity(),
            used_bytes: sums.bytes.max(0) as u64,
            keys: sums.keys.max(0) as u64,
        }
    }

    /// The entry that DRAM has for a key.
    pub(super) fn find_in_memory(&self, key: &Key) -> Option<Entry> {
        if let Some(entry) = self.memtable.borrow().get(key) {
            return Some(entry.clone());
        }
        self.full.iter().rev().find_map(|memtable| memtable.borrow().get(key).cloned())
    }

    /// A look-up result, as of now.
    pub(super) fn found(&self, entry: Option<Entry>, in_memory: bool) -> Lookup {
        Lookup { entry, in_memory, flushes: self.flushes }
    }

    /// Whether a look-up result is still current.
    fn is_current(&self, key: &Key, found: &Lookup) -> bool {
        match self.find_in_memory(key) {
            Some(entry) => found.entry.as_ref().is_some_and(|old| old.sequence == entry.sequence),
            None => !found.in_memory && found.flushes == self.flushes,
        }
    }

    /// Puts the full memtable into the queue for flushes, and starts a new one.
    pub(super) fn rotate(&mut self) {
        let full = std::mem::take(&mut self.memtable);
        // Records of these segments are covered once this memtable is flushed: all of them are in it or an older one.
        let segments = &self.segments;
        let records = |segment: &u32| Some((*segment, segments.values.get(segment)?.records));
        full.borrow_mut().covers = segments.uncovered.iter().filter_map(records).collect();
        self.full.push_back(full);
    }

    /// Makes space in the memtable, if that is possible now.
    fn has_memory(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        if self.memtable.borrow().bytes < bytes_max {
            return Ok(());
        }
        if self.full.len() < FULL_MEMTABLES_MAX {
            self.rotate();
            return Ok(());
        }
        // Full memtables find no free segment in flash, and none can be gained.
        if self.is_exhausted() && !self.is_read() {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.space = true;
        Err(Refusal::Wait)
    }

    /// Inserts an entry into the memtable, and updates the sums and the dead bytes of the segments.
    pub(super) fn insert(&mut self, key: Key, entry: Entry) -> bool {
        let seen_to = self.snapshots.last_key_value().map_or(0, |(snapshot, _)| *snapshot);
        let State { memtable, layout, segments, .. } = self;
        let mut memtable = memtable.borrow_mut();
        let (settles, cost) = (entry.settles, layout.cost(key.len(), &entry));
        memtable.tally.gain(cost);
        memtable.tally.lose(settles);
        let Some(old) = memtable.insert(key, entry, seen_to) else { return false };
        if settles == 0 {
            old.extents().iter().for_each(|place| segments.mark_dead(layout, place));
            let cost = layout.cost(key.len(), &old);
            memtable.tally.lose(cost);
        }
        if settles != old.settles {
            memtable.inherit(&key, old.settles);
        }
        true
    }

    /// Whether the sums leave space for a key-value pair. Returns the cost of the entry that the new one settles.
    fn admit(&mut self, key: &Key, cost: u32, found: Option<&Lookup>) -> Result<u32, Refusal> {
        let old =
            found.and_then(|found| found.entry.as_ref()).map_or(0, |old| self.layout.cost(key.len(), old));
        let sums = self.sums().bytes + i64::from(cost) - i64::from(old);
        let capacity = self.layout.capacity() as i64;
        // Near the capacity every store looks up the old entry, so that the sums stay exact.
        if found.is_none() && sums > capacity - capacity / 16 {
            return Err(Refusal::Look);
        }
        if sums <= capacity {
            return Ok(old);
        }
        if self.is_exact {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.sums = true;
        Err(Refusal::Wait)
    }

    /// Whether given-up segments become free when running commands end. A cursor does not count: it may stay open
    /// indefinitely.
    pub(super) fn is_read(&self) -> bool {
        self.segments.freeing() > 0 && self.lasting == 0
    }

    /// Whether more than `reserve` segments are free.
    fn has_space(&mut self, reserve: u32) -> Result<(), Refusal> {
        if self.segments.free() > reserve {
            return Ok(());
        }
        if self.is_exhausted() && !self.is_read() {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.space = true;
        Err(Refusal::Wait)
    }

    /// Stores a key-value pair: placement, copy and index entry in one step. Returns the number of bytes that the
    /// processor copied.
    pub(super) fn store(
        &mut self,
        config: &KvConfig,
        key: &Key,
        source: Source<'_>,
        origin: Origin,
        found: Option<&Lookup>,
    ) -> Result<u32, Refusal> {
        self.check().map_err(Refusal::Error)?;
        if self.is_formatting {
            return Err(Refusal::Wait);
        }
        // The look-up waited for flash; another command may have changed the key since.
        if found.is_some_and(|found| !self.is_current(key, found)) {
            return Err(Refusal::Stale);
        }
        let bytes = source.bytes();
        let cost = self.layout.cost_of(key.len(), bytes);
        let settles = self.admit(key, cost, found)?;
        self.has_memory(config.memtable_bytes)?;
        if self.queue.writes.len() >= config.buffer_pages as usize + 2 {
            return Err(Refusal::Wait);
        }
        self.has_space(self.layout.reserve)?;
        let is_long = bytes > self.layout.part_bytes();
        let (entry, copied) = match source {
            Source::Bytes(value) if is_long => self.place_parts(key, value, settles)?,
            _ => self.place(key, source, origin, settles)?,
        };
        if found.is_none() {
            self.is_exact = false;
            // A single step without a wait: no other task sees the value without its entry, or the old value counted twice.
        }
        if let Some(found) = found.filter(|_| settles > 0) {
            self.mark_dead(key, found);
        }
        self.insert(*key, entry);
        self.counters.values_stored += 1;
        self.counters.value_bytes_stored += u64::from(bytes);
        self.counters.bytes_packed += u64::from(copied);
        Ok(copied)
    }

    /// Deletes a key that exists.
    pub(super) fn delete(&mut self, config: &KvConfig, key: &Key, found: &Lookup) -> Result<(), Refusal> {
        self.check().map_err(Refusal::Error)?;
        if self.is_formatting {
            return Err(Refusal::Wait);
        }
        if !self.is_current(key, found) {
            return Err(Refusal::Stale);
        }
        self.has_memory(config.memtable_bytes)?;
        if self.queue.writes.len() >= config.buffer_pages as usize + 2 {
            return Err(Refusal::Wait);
        }
        self.has_space(self.layout.pool + (self.layout.reserve - self.layout.pool) / 2)?;
        debug_assert!(found.exists(), "a deletion of a key that does not exist is answered before");
        let old = found.entry.as_ref().ok_or(Refusal::Error(KvError::NotFound))?;
        let settles = self.layout.cost(key.len(), old);
        let entry = Entry { sequence: self.next_sequence, settles, value: Value::Tombstone };
        self.encode(key, &entry);
        if !self.logs[HOST].takes_record(self.record.len()) {
            self.next_segment(HOST)?;
        }
        self.next_sequence += 1;
        self.append(HOST);
        self.mark_dead(key, found);
        self.insert(*key, entry);
        Ok(())
    }

    /// Counts the replaced value as dead, at its current position: it may have been moved since the look-up.
    fn mark_dead(&mut self, key: &Key, found: &Lookup) {
        let Some(old) = self.find_in_memory(key).or_else(|| found.entry.clone()) else { return };
        let State { segments, layout, .. } = self;
        old.extents().iter().for_each(|place| segments.mark_dead(layout, place));
    }

    fn encode(&mut self, key: &Key, entry: &Entry) {
        self.record.clear();
        entry.encode_record(key, &mut self.record);
    }

    /// Appends the encoded record to a log.
    fn append(&mut self, log: usize) {
        let State { logs, queue, record, segments, .. } = self;
        logs[log].append(record, queue);
        if let Some(segment) = logs[log].segment().and_then(|segment| segments.values.get_mut(&segment)) {
            segment.records = logs[log].records;
        }
    }

    /// Places a value with its record, in the open segment or a new one. The value must fit into a segment.
    fn place(
        &mut self,
        key: &Key,
        source: Source<'_>,
        origin: Origin,
        settles: u32,
    ) -> Result<(Entry, u32), Refusal> {
        let bytes = source.bytes();
        let sequence = self.next_sequence;
        let (plan, segment) = match source {
            Source::Placed { ring, .. } if bytes > 0 => self.plan_placed(key, ring, bytes, settles)?,
            _ => self.plan(HOST, key, bytes, origin, settles)?,
        };
        let crc = match source {
            Source::Bytes(value) => crc32c::crc32c(value),
            Source::Placed { crc, .. } => {
                let found = self.logs[HOST].checksum(plan.offset, bytes);
                if crc.is_some_and(|crc| crc != found) {
                    return Err(Refusal::Error(KvError::Misplaced));
                }
                found
            }
        };
        let place = ValueExtent { segment, offset: plan.offset, bytes, crc };
        let entry = Entry { sequence, settles, value: Value::One(place) };
        self.next_sequence += 1;
        let log = &mut self.logs[HOST];
        match source {
            Source::Bytes(value) => log.put(&plan, Some(value), bytes, &mut self.queue),
            Source::Placed { .. } if bytes > 0 => log.put_placed(&plan, bytes, &mut self.queue),
            Source::Placed { .. } => log.put(&plan, None, bytes, &mut self.queue),
        }
        self.encode(key, &entry);
        self.append(HOST);
        Ok((entry, if plan.is_copied { bytes } else { 0 }))
    }

    /// Plans a value that the host has placed in the ring at offset `ring`, if its position is allowed.
    fn plan_placed(
        &mut self,
        key: &Key,
        ring: u32,
        bytes: u32,
        settles: u32,
    ) -> Result<(super::packing::Placement, u32), Refusal> {
        let place =
            ValueExtent { segment: self.layout.segments, offset: self.layout.segment_bytes(), bytes, crc: 0 };
        let longest = Entry { sequence: self.next_sequence, settles, value: Value::One(place) };
        self.encode(key, &longest);
        let log = &self.logs[HOST];
        let plan = log.plan_placed(ring, bytes, self.record.len()).zip(log.segment());
        plan.ok_or(Refusal::Error(KvError::Misplaced))
    }

    /// Plans a value with its record, in the open segment of a log or a new one.
    pub(super) fn plan(
        &mut self,
        log: usize,
        key: &Key,
        bytes: u32,
        origin: Origin,
        settles: u32,
    ) -> Result<(super::packing::Placement, u32), Refusal> {
        // The record's length depends on the position: assume the longest.
        let place =
            ValueExtent { segment: self.layout.segments, offset: self.layout.segment_bytes(), bytes, crc: 0 };
        let longest = Entry { sequence: self.next_sequence, settles, value: Value::One(place) };
        self.encode(key, &longest);
        for _ in 0..2 {
            let log_ref = &self.logs[log];
            if let Some(found) = log_ref.plan(bytes, origin, self.record.len()).zip(log_ref.segment()) {
                return Ok(found);
            }
            self.next_segment(log)?;
        }
        Err(Refusal::Error(KvError::ValueTooLong))
    }

    /// Places a value longer than a segment: each part at the beginning of a segment of its own.
    fn place_parts(&mut self, key: &Key, value: &[u8], settles: u32) -> Result<(Entry, u32), Refusal> {
        let part = self.layout.part_bytes() as usize;
        let count = value.len().div_ceil(part);
        debug_assert!((2..=64).contains(&count), "a value of {count} parts");
        // All segments must be in the pool now: a wait halfway would leave parts without the others.
        if self.segments.pool.len() < count + 1 {
            self.wants.pool = true;
            return Err(Refusal::Wait);
        }
        let parts = value.chunks(part).zip(self.segments.pool.iter());
        let places = parts.map(|(bytes, segment)| ValueExtent {
            segment: *segment,
            offset: 0,
            bytes: bytes.len() as u32,
            crc: crc32c::crc32c(bytes),
        });
        let value_of = Value::Many(places.collect());
        let entry = Entry { sequence: self.next_sequence, settles, value: value_of };
        self.next_sequence += 1;
        for bytes in value.chunks(part) {
            self.next_segment(HOST)?;
            let log = &mut self.logs[HOST];
            // A record of many parts fits next to a whole part: the first unit of the record table is never used by
            // values.
            let plan = log.plan(bytes.len() as u32, Origin::Memory, 0).expect("a new segment takes a part");
            log.put(&plan, Some(bytes), bytes.len() as u32, &mut self.queue);
            self.encode(key, &entry);
            self.append(HOST);
        }
        Ok((entry, value.len() as u32))
    }

    /// Closes the open segment of a log, and opens the next.
    pub(super) fn next_segment(&mut self, log: usize) -> Result<(), Refusal> {
        if self.is_formatting {
            return Err(Refusal::Wait);
        }
        // The last segment of the pool is reserved for garbage collection, which must not wait for itself.
        if self.segments.pool.len() <= usize::from(log == HOST) {
            self.wants.pool = true;
            return Err(Refusal::Wait);
        }
        self.close_log(log);
        let segment = self.segments.pool.pop_front().ok_or(Refusal::Wait)?;
        let generation = u64::from(self.mount) << 32 | u64::from(self.next_generation);
        self.next_generation += 1;
        debug_assert!(!self.segments.values.contains_key(&segment), "segment {segment} is opened twice");
        self.segments.set(segment, Use::Value);
        if log == MOVED {
            // Moved values are older than the segment: cursors that were made before must keep it from reuse, too.
            self.segments.show_to_all(segment);
        }
        self.segments.uncovered.insert(segment);
        let info = ValueSegment { generation, is_open: true, ..ValueSegment::default() };
        self.segments.values.insert(segment, info);
        self.logs[log].open(segment, generation);
        if self.segments.pool.len() <= 2 {
            self.wants.pool = true;
        }
        Ok(())
    }

    /// Closes the open segment of a log.
    pub(super) fn close_log(&mut self, log: usize) {
        let Some(closed) = self.logs[log].close(&mut self.queue) else { return };
        debug_assert!(closed.placed + closed.table_units * UNIT <= self.layout.segment_bytes());
        let mut slack = 0;
        if log == HOST {
            self.counters.padding_bytes += u64::from(closed.padding);
            // In a sparse segment the space after the last value counts, too: several such segments fit into one.
            let is_sparse = closed.placed <= self.layout.part_bytes() / 2;
            let all = self.layout.segment_bytes().saturating_sub(closed.placed + closed.table_units * UNIT);
            slack = match self.layout.is_packed() {
                true if is_sparse => all,
                true => closed.padding,
                false => 0,
            };
        }
        if let Some(info) = self.segments.values.get_mut(&closed.segment) {
            (info.is_open, info.table_units, info.slack) = (false, closed.table_units, slack);
            if info.covered == info.records {
                self.segments.uncovered.remove(&closed.segment);
            }
        }
    }

    /// Moves the value at `from` to the log for moved values. `false` if the entry was changed meanwhile; with `looks`
    /// false, that is not checked.
    pub(super) fn move_value(
        &mut self,
        key: &Key,
        old: &Entry,
        from: &ValueExtent,
        bytes: &[u8],
        looks: bool,
    ) -> Result<bool, Refusal> {
        debug_assert_eq!(bytes.len(), from.bytes as usize);
        let now = self.find_in_memory(key);
        let current = match now {
            Some(now) if looks && (now.sequence != old.sequence || !now.extents().contains(from)) => {
                return Ok(false);
            }
            Some(now) if now.sequence == old.sequence => now,
            _ => old.clone(),
        };
        debug_assert!(!current.is_tombstone(), "a deleted value has nothing to move");
        let settles = self.layout.cost(key.len(), &current);
        let places = current.extents();
        let moved = |to: ValueExtent| match places {
            [_] => Value::One(to),
            places => {
                Value::Many(places.iter().map(|place| if place == from { to } else { *place }).collect())
            }
        };
        let sequence = current.sequence;
        // A record with larger numbers is longer: assume the longest.
        let worst = ValueExtent { segment: u32::MAX, offset: u32::MAX, ..*from };
        self.encode(key, &Entry { sequence, settles, value: moved(worst) });
        let record_bytes = self.record.len();
        let mut plan = None;
        for _ in 0..2 {
            let log = &self.logs[MOVED];
            plan = log.plan(from.bytes, Origin::Memory, record_bytes).zip(log.segment());
            if plan.is_some() {
                break;
            }
            self.next_segment(MOVED)?;
        }
        let (plan, segment) = plan.ok_or(Refusal::Error(KvError::ValueTooLong))?;
        let to = ValueExtent { segment, offset: plan.offset, ..*from };
        let entry = Entry { sequence, settles, value: moved(to) };
        self.logs[MOVED].put(&plan, Some(bytes), from.bytes, &mut self.queue);
        self.encode(key, &entry);
        self.append(MOVED);
        let State { segments, layout, .. } = self;
        segments.mark_dead(layout, from);
        self.insert(*key, entry);
        self.counters.values_moved += 1;
        self.counters.value_bytes_moved += u64::from(from.bytes);
        Ok(true)
    }
}
