//! The steps of stores and deletions, and of values that move. Each changes several parts of the state, without a
//! wait: no other task sees a value without its entry, or an old value counted twice.
//!
//! A step that can't be taken now changes nothing that its repetition would change again, and says why (`Refusal`); the
//! caller waits and repeats it. The alternative, waiting in the middle with what was taken so far, would need an undo for
//! each place where a command may be cancelled or a format may begin.

use super::config::{KvConfig, KvError, Origin};
use super::index::Lookup;
use super::key::Key;
use super::packing::Placement;
use super::record::{Entry, Value, ValueExtent};
use super::standing::Refusal;
use super::state::State;
use super::values::{HOST, MOVED};

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

impl State {
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
        self.standing.accepts()?;
        // The look-up waited for flash; another command may have changed the key since.
        if found.is_some_and(|found| !self.index.is_current(key, found)) {
            return Err(Refusal::Stale);
        }
        let bytes = source.bytes();
        let cost = self.layout.cost_of(key.len(), bytes);
        let settles = self.admit(key, cost, found)?;
        self.has_memory(config.memtable_bytes)?;
        if self.values.queue().len() >= config.queue_max() {
            return Err(Refusal::Wait);
        }
        self.has_space(self.layout.reserve)?;
        let is_long = bytes > self.layout.part_bytes();
        let (entry, copied) = match source {
            Source::Bytes(value) if is_long => self.place_parts(key, value, settles)?,
            _ => self.place(key, source, origin, settles)?,
        };
        if found.is_none() {
            self.index.set_exact(false);
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
        self.standing.accepts()?;
        if !self.index.is_current(key, found) {
            return Err(Refusal::Stale);
        }
        self.has_memory(config.memtable_bytes)?;
        if self.values.queue().len() >= config.queue_max() {
            return Err(Refusal::Wait);
        }
        self.has_space(self.layout.pool + (self.layout.reserve - self.layout.pool) / 2)?;
        debug_assert!(found.exists(), "a deletion of a key that does not exist is answered before");
        let old = found.entry.as_ref().ok_or(Refusal::Error(KvError::NotFound))?;
        let settles = self.layout.cost(key.len(), old);
        let entry = Entry { sequence: self.index.next_sequence(), settles, value: Value::Tombstone };
        let record_bytes = self.values.record_bytes(key, &entry);
        if !self.values.host().takes_record(record_bytes) {
            self.next_segment(HOST)?;
        }
        self.index.advance();
        self.values.append(HOST, key, &entry, &mut self.segments);
        self.mark_dead(key, found);
        self.insert(*key, entry);
        Ok(())
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
        let sequence = self.index.next_sequence();
        let record_bytes = self.longest_record(key, bytes, settles);
        let (plan, segment) = match source {
            Source::Placed { ring, .. } if bytes > 0 => self.plan_placed(ring, bytes, record_bytes)?,
            _ => self.plan(HOST, bytes, origin, record_bytes)?,
        };
        let crc = match source {
            Source::Bytes(value) => crc32c::crc32c(value),
            Source::Placed { crc, .. } => {
                let found = self.values.host().checksum(plan.offset, bytes);
                if crc.is_some_and(|crc| crc != found) {
                    return Err(Refusal::Error(KvError::Misplaced));
                }
                found
            }
        };
        let place = ValueExtent { segment, offset: plan.offset, bytes, crc };
        let entry = Entry { sequence, settles, value: Value::One(place) };
        self.index.advance();
        match source {
            Source::Bytes(value) => self.values.put(HOST, &plan, Some(value), bytes),
            Source::Placed { .. } if bytes > 0 => self.values.put_placed(&plan, bytes),
            Source::Placed { .. } => self.values.put(HOST, &plan, None, bytes),
        }
        self.values.append(HOST, key, &entry, &mut self.segments);
        Ok((entry, if plan.is_copied { bytes } else { 0 }))
    }

    /// Length of the longest record of a value that is not placed yet: a record's length depends on the position.
    fn longest_record(&mut self, key: &Key, bytes: u32, settles: u32) -> usize {
        let place =
            ValueExtent { segment: self.layout.segments, offset: self.layout.segment_bytes(), bytes, crc: 0 };
        let longest = Entry { sequence: self.index.next_sequence(), settles, value: Value::One(place) };
        self.values.record_bytes(key, &longest)
    }

    /// Plans a value that the host has placed in the ring at offset `ring`, if its position is allowed.
    fn plan_placed(&self, ring: u32, bytes: u32, record_bytes: usize) -> Result<(Placement, u32), Refusal> {
        let log = self.values.host();
        let plan = log.plan_placed(ring, bytes, record_bytes).zip(log.segment());
        plan.ok_or(Refusal::Error(KvError::Misplaced))
    }

    /// Plans a value with its record, in the open segment of a log or a new one.
    fn plan(
        &mut self,
        log: usize,
        bytes: u32,
        origin: Origin,
        record_bytes: usize,
    ) -> Result<(Placement, u32), Refusal> {
        for _ in 0..2 {
            if let Some(found) = self.values.plan(log, bytes, origin, record_bytes) {
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
        if self.segments.pool().len() < count + 1 {
            self.wants.ask_for_pool();
            return Err(Refusal::Wait);
        }
        let parts = value.chunks(part).zip(self.segments.pool());
        let places = parts.map(|(bytes, segment)| ValueExtent {
            segment,
            offset: 0,
            bytes: bytes.len() as u32,
            crc: crc32c::crc32c(bytes),
        });
        let value_of = Value::Many(places.collect());
        let entry = Entry { sequence: self.index.next_sequence(), settles, value: value_of };
        self.index.advance();
        for bytes in value.chunks(part) {
            self.next_segment(HOST)?;
            let length = bytes.len() as u32;
            // A record of many parts fits next to a whole part: the first unit of the record table is never used by
            // values.
            let plan = self.values.plan(HOST, length, Origin::Memory, 0);
            let (plan, _) = plan.expect("a new segment takes a part");
            self.values.put(HOST, &plan, Some(bytes), length);
            self.values.append(HOST, key, &entry, &mut self.segments);
        }
        Ok((entry, value.len() as u32))
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
        let now = self.index.find(key);
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
        let longest = Entry { sequence, settles, value: moved(worst) };
        let record_bytes = self.values.record_bytes(key, &longest);
        let (plan, segment) = self.plan(MOVED, from.bytes, Origin::Memory, record_bytes)?;
        let to = ValueExtent { segment, offset: plan.offset, ..*from };
        let entry = Entry { sequence, settles, value: moved(to) };
        self.values.put(MOVED, &plan, Some(bytes), from.bytes);
        self.values.append(MOVED, key, &entry, &mut self.segments);
        let State { segments, layout, .. } = self;
        segments.mark_dead(layout, from);
        self.insert(*key, entry);
        self.counters.values_moved += 1;
        self.counters.value_bytes_moved += u64::from(from.bytes);
        Ok(true)
    }
}
