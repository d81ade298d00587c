//! What the store is at a moment, and the steps that change it without a wait.

use super::cache::Cache;
use super::config::{KvConfig, KvError, Origin};
use super::counters::{KvCounters, KvUsage};
use super::key::Key;
use super::log::{Log, Queue};
use super::memtable::Memtable;
use super::record::{Entry, Place, Value};
use super::segments::{Layout, Segments, Tally, UNIT, Use, ValueSegment};
use super::version::Version;
use byteway_firmware::MediaError;
use byteway_wire::content::Content;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Memtables that wait to be written.
const FULL_MEMTABLES_MAX: usize = 2;

/// What was found of a key, and what that holds for.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) entry: Option<Entry>,
    /// It was in DRAM; else this is so until another memtable is in flash.
    pub(super) in_memory: bool,
    pub(super) flushes: u64,
}

impl Found {
    /// Whether there is a pair.
    pub(super) fn exists(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| !entry.is_tombstone())
    }
}

/// Why a step can't be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Something must happen first.
    Wait,
    /// What was found is no more so.
    Stale,
    /// It must be known what there is.
    Look,
    Error(KvError),
}

/// The value of a store.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Bytes(&'a [u8]),
    /// In the page buffer at this place: so many bytes.
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

/// What somebody wants of the tasks behind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// More segments for the value log.
    pub(super) pool: bool,
    /// Free segments.
    pub(super) space: bool,
    /// Sums that are exact: everything merged.
    pub(super) sums: bool,
}

pub(super) struct State {
    pub(super) layout: Rc<Layout>,
    pub(super) segments: Segments,
    pub(super) memtable: Rc<RefCell<Memtable>>,
    /// The oldest first.
    pub(super) full: VecDeque<Rc<RefCell<Memtable>>>,
    pub(super) version: Rc<Version>,
    pub(super) logs: [Log; 2],
    pub(super) queue: Queue,
    pub(super) cache: Cache,
    pub(super) next_sequence: u64,
    pub(super) next_table: u64,
    /// How often the power has come.
    pub(super) mount: u32,
    pub(super) next_generation: u32,
    /// Manifests written.
    pub(super) manifest: u64,
    /// Memtables that have gone to flash.
    pub(super) flushes: u64,
    /// Of all that is in tables.
    pub(super) tally: Tally,
    /// Nothing was stored anew without a look since everything was merged.
    pub(super) is_exact: bool,
    /// The next sequence number when nothing could be reclaimed.
    pub(super) exhausted_at: Option<u64>,
    pub(super) is_formatting: bool,
    pub(super) wants: Wants,
    /// Sequence numbers that cursors see up to, and how many do.
    pub(super) snapshots: BTreeMap<u64, u32>,
    /// Cursors that may stay for long.
    pub(super) lasting: u32,
    pub(super) filter_bytes: u64,
    /// Where the next merge of each level begins.
    pub(super) turns: Vec<Option<Key>>,
    pub(super) counters: KvCounters,
    /// Flash has failed: nothing is changed any more.
    pub(super) failed: Option<MediaError>,
    /// And what it holds is not known: nor can anything be read.
    pub(super) is_lost: bool,
    pub(super) is_stopped: bool,
    /// Segments of the value log that can't be collected: flash does not give all that is to be known of them.
    pub(super) spoiled: BTreeSet<u32>,
    record: Vec<u8>,
    pub(super) contents: Vec<Vec<Content>>,
}

/// The log of the host's values, and that of those that collection moves.
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

    /// Whether anything can be read.
    pub(super) fn check_known(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) if self.is_lost => Err(KvError::Media(error)),
            _ => Ok(()),
        }
    }

    /// Whether anything may still be changed.
    pub(super) fn check(&self) -> Result<(), KvError> {
        match self.failed {
            _ if self.is_stopped => Err(KvError::Stopped),
            Some(error) => Err(KvError::Media(error)),
            None => Ok(()),
        }
    }

    /// Whether something of the queue is on its way to flash, or will be.
    pub(super) fn is_writing(&self) -> bool {
        self.queue.is_writing || self.failed.is_none() && !self.queue.writes.is_empty()
    }

    /// The sums over all pairs.
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

    /// What DRAM has of a key.
    pub(super) fn find_in_memory(&self, key: &Key) -> Option<Entry> {
        if let Some(entry) = self.memtable.borrow().get(key) {
            return Some(entry.clone());
        }
        self.full.iter().rev().find_map(|memtable| memtable.borrow().get(key).cloned())
    }

    /// What DRAM or tables have of a key, as it is found now.
    pub(super) fn found(&self, entry: Option<Entry>, in_memory: bool) -> Found {
        Found { entry, in_memory, flushes: self.flushes }
    }

    /// Whether it is still so.
    fn is_so(&self, key: &Key, found: &Found) -> bool {
        match self.find_in_memory(key) {
            Some(entry) => found.entry.as_ref().is_some_and(|old| old.sequence == entry.sequence),
            None => !found.in_memory && found.flushes == self.flushes,
        }
    }

    /// The memtable is full: it waits to be written.
    pub(super) fn rotate(&mut self) {
        let full = std::mem::take(&mut self.memtable);
        let segments = &self.segments;
        let records = |segment: &u32| Some((*segment, segments.values.get(segment)?.records));
        full.borrow_mut().covers = segments.uncovered.iter().filter_map(records).collect();
        self.full.push_back(full);
    }

    /// Makes room in the memtable, if that is possible now.
    fn has_memory(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        if self.memtable.borrow().bytes < bytes_max {
            return Ok(());
        }
        if self.full.len() < FULL_MEMTABLES_MAX {
            self.rotate();
            return Ok(());
        }
        // Those that are full find no room in flash, and nobody will make some.
        if self.is_exhausted() && !self.is_read() {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.space = true;
        Err(Refusal::Wait)
    }

    /// Puts an entry into the memtable. The sums and the segments learn what it adds, and what the one before it took.
    pub(super) fn insert(&mut self, key: Key, entry: Entry) -> bool {
        let seen_to = self.snapshots.last_key_value().map_or(0, |(snapshot, _)| *snapshot);
        let State { memtable, layout, segments, .. } = self;
        let mut memtable = memtable.borrow_mut();
        let (settles, cost) = (entry.settles, layout.cost(key.len(), &entry));
        memtable.tally.gain(cost);
        memtable.tally.lose(settles);
        let Some(old) = memtable.insert(key, entry, seen_to) else { return false };
        if settles == 0 {
            old.places().iter().for_each(|place| segments.died(layout, place));
            let cost = layout.cost(key.len(), &old);
            memtable.tally.lose(cost);
        }
        if settles != old.settles {
            memtable.inherit(&key, old.settles);
        }
        true
    }

    /// Whether there is room for a pair, by the sums. Gives what it settles.
    fn admit(&mut self, key: &Key, cost: u32, found: Option<&Found>) -> Result<u32, Refusal> {
        let old =
            found.and_then(|found| found.entry.as_ref()).map_or(0, |old| self.layout.cost(key.len(), old));
        let sums = self.sums().bytes + i64::from(cost) - i64::from(old);
        let capacity = self.layout.capacity() as i64;
        // Near the end it is looked what there is, so that the sums stay exact.
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

    /// Whether segments that were given up will be free when a command ends; not a cursor, which may stay.
    pub(super) fn is_read(&self) -> bool {
        self.segments.freeing() > 0 && self.lasting == 0
    }

    /// Whether so many segments beyond those that are needed are free.
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

    /// Stores a pair: place, copy and index entry are one step. Gives how many bytes the processor copied.
    pub(super) fn store(
        &mut self,
        config: &KvConfig,
        key: &Key,
        source: Source<'_>,
        origin: Origin,
        found: Option<&Found>,
    ) -> Result<u32, Refusal> {
        self.check().map_err(Refusal::Error)?;
        if self.is_formatting {
            return Err(Refusal::Wait);
        }
        if found.is_some_and(|found| !self.is_so(key, found)) {
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
        }
        if let Some(found) = found.filter(|_| settles > 0) {
            self.died(key, found);
        }
        self.insert(*key, entry);
        self.counters.values_stored += 1;
        self.counters.value_bytes_stored += u64::from(bytes);
        self.counters.bytes_packed += u64::from(copied);
        Ok(copied)
    }

    /// Deletes a pair that is there.
    pub(super) fn delete(&mut self, config: &KvConfig, key: &Key, found: &Found) -> Result<(), Refusal> {
        self.check().map_err(Refusal::Error)?;
        if self.is_formatting {
            return Err(Refusal::Wait);
        }
        if !self.is_so(key, found) {
            return Err(Refusal::Stale);
        }
        self.has_memory(config.memtable_bytes)?;
        if self.queue.writes.len() >= config.buffer_pages as usize + 2 {
            return Err(Refusal::Wait);
        }
        self.has_space(self.layout.pool + (self.layout.reserve - self.layout.pool) / 2)?;
        let old = found.entry.as_ref().ok_or(Refusal::Error(KvError::NotFound))?;
        let settles = self.layout.cost(key.len(), old);
        let entry = Entry { sequence: self.next_sequence, settles, value: Value::Tombstone };
        self.encode(key, &entry);
        if !self.logs[HOST].takes_record(self.record.len()) {
            self.next_segment(HOST)?;
        }
        self.next_sequence += 1;
        self.append(HOST);
        self.died(key, found);
        self.insert(*key, entry);
        Ok(())
    }

    /// The value that was found is of no use any more. It may have been moved since.
    fn died(&mut self, key: &Key, found: &Found) {
        let Some(old) = self.find_in_memory(key).or_else(|| found.entry.clone()) else { return };
        let State { segments, layout, .. } = self;
        old.places().iter().for_each(|place| segments.died(layout, place));
    }

    fn encode(&mut self, key: &Key, entry: &Entry) {
        self.record.clear();
        entry.encode_record(key, &mut self.record);
    }

    /// Appends the record that is encoded to a log.
    fn append(&mut self, log: usize) {
        let State { logs, queue, record, segments, .. } = self;
        logs[log].append(record, queue);
        if let Some(segment) = logs[log].segment().and_then(|segment| segments.values.get_mut(&segment)) {
            segment.records = logs[log].records;
        }
    }

    /// Places a value in the open segment, or the next, with its record. Not for one that is longer than a segment takes.
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
        let place = Place { segment, offset: plan.offset, bytes, crc };
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

    /// The place in the ring for a value that the host has put there, if it can be there.
    fn plan_placed(
        &mut self,
        key: &Key,
        ring: u32,
        bytes: u32,
        settles: u32,
    ) -> Result<(super::packing::Placement, u32), Refusal> {
        let place =
            Place { segment: self.layout.segments, offset: self.layout.segment_bytes(), bytes, crc: 0 };
        let longest = Entry { sequence: self.next_sequence, settles, value: Value::One(place) };
        self.encode(key, &longest);
        let log = &self.logs[HOST];
        let plan = log.plan_placed(ring, bytes, self.record.len()).zip(log.segment());
        plan.ok_or(Refusal::Error(KvError::Misplaced))
    }

    /// Where a value would go with its record, in the open segment of a log or a new one.
    pub(super) fn plan(
        &mut self,
        log: usize,
        key: &Key,
        bytes: u32,
        origin: Origin,
        settles: u32,
    ) -> Result<(super::packing::Placement, u32), Refusal> {
        // The record's length hangs on the place: as long as it can be.
        let place =
            Place { segment: self.layout.segments, offset: self.layout.segment_bytes(), bytes, crc: 0 };
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

    /// Places a value that is longer than a segment takes: each part at the beginning of one.
    fn place_parts(&mut self, key: &Key, value: &[u8], settles: u32) -> Result<(Entry, u32), Refusal> {
        let part = self.layout.part_bytes() as usize;
        let count = value.len().div_ceil(part);
        if self.segments.pool.len() < count + 1 {
            self.wants.pool = true;
            return Err(Refusal::Wait);
        }
        let parts = value.chunks(part).zip(self.segments.pool.iter());
        let places = parts.map(|(bytes, segment)| Place {
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
            // A record of many parts fits beside a whole part: the table's first unit is left for it.
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
        // The last one of the pool is left for what collection moves.
        if self.segments.pool.len() <= usize::from(log == HOST) {
            self.wants.pool = true;
            return Err(Refusal::Wait);
        }
        self.close_log(log);
        let segment = self.segments.pool.pop_front().ok_or(Refusal::Wait)?;
        let generation = u64::from(self.mount) << 32 | u64::from(self.next_generation);
        self.next_generation += 1;
        self.segments.set(segment, Use::Value);
        if log == MOVED {
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
        let mut slack = 0;
        if log == HOST {
            self.counters.padding_bytes += u64::from(closed.padding);
            // With little in it the room behind it counts, too: what several such segments hold goes into one.
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

    /// Moves a value to the collector's log: its bytes, and which place of its entry it had. False if somebody has
    /// changed the pair meanwhile.
    pub(super) fn move_value(
        &mut self,
        key: &Key,
        old: &Entry,
        from: &Place,
        bytes: &[u8],
        looks: bool,
    ) -> Result<bool, Refusal> {
        let now = self.find_in_memory(key);
        let current = match now {
            Some(now) if looks && (now.sequence != old.sequence || !now.places().contains(from)) => {
                return Ok(false);
            }
            Some(now) if now.sequence == old.sequence => now,
            _ => old.clone(),
        };
        let settles = self.layout.cost(key.len(), &current);
        let places = current.places();
        let moved = |to: Place| match places {
            [_] => Value::One(to),
            places => {
                Value::Many(places.iter().map(|place| if place == from { to } else { *place }).collect())
            }
        };
        let sequence = current.sequence;
        // A record of many places is longer.
        let worst = Place { segment: u32::MAX, offset: u32::MAX, ..*from };
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
        let to = Place { segment, offset: plan.offset, ..*from };
        let entry = Entry { sequence, settles, value: moved(to) };
        self.logs[MOVED].put(&plan, Some(bytes), from.bytes, &mut self.queue);
        self.encode(key, &entry);
        self.append(MOVED);
        let State { segments, layout, .. } = self;
        segments.died(layout, from);
        self.insert(*key, entry);
        self.counters.values_moved += 1;
        self.counters.value_bytes_moved += u64::from(from.bytes);
        Ok(true)
    }
}
