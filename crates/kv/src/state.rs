//! The state of a store in DRAM: what its parts own, and what concerns several of them at once, such as when a segment
//! of the value log ends. Nothing here waits.

use super::cache::Cache;
use super::config::{KvConfig, KvError};
use super::counters::{KvCounters, KvUsage};
use super::index::{Index, Lookup};
use super::key::Key;
use super::layout::Layout;
use super::manifest::Slots;
use super::record::Entry;
use super::segments::Segments;
use super::standing::{Refusal, Standing, Wants};
use super::values::{HOST, ValueLog};
use std::rc::Rc;

/// Full memtables that may wait for a flush before stores wait, too.
const FULL_MEMTABLES_MAX: usize = 2;

/// The parts of a store that change within a call.
pub(super) struct State {
    pub(super) layout: Rc<Layout>,
    pub(super) segments: Segments,
    pub(super) values: ValueLog,
    pub(super) index: Index,
    pub(super) cache: Cache,
    pub(super) slots: Slots,
    pub(super) standing: Standing,
    pub(super) wants: Wants,
    pub(super) counters: KvCounters,
}

impl State {
    pub(super) fn new(config: &KvConfig, layout: &Rc<Layout>) -> State {
        State {
            layout: layout.clone(),
            segments: Segments::new(layout.segments),
            values: ValueLog::new(config, layout),
            index: Index::new(),
            cache: Cache::new(config.cache_units),
            slots: Slots::default(),
            standing: Standing::default(),
            wants: Wants::default(),
            counters: KvCounters::default(),
        }
    }

    /// Whether a queued write is being written, or will be.
    pub(super) fn is_writing(&self) -> bool {
        let queue = self.values.queue();
        queue.is_writing() || !self.standing.has_failed() && queue.len() > 0
    }

    pub(super) fn usage(&self) -> KvUsage {
        let sums = self.index.sums();
        KvUsage {
            capacity_bytes: self.layout.capacity(),
            used_bytes: sums.bytes.max(0) as u64,
            keys: sums.keys.max(0) as u64,
        }
    }

    /// Puts the full memtable into the queue for flushes, and starts a new one.
    pub(super) fn rotate(&mut self) {
        // Records of these segments are covered once this memtable is flushed: all of them are in it or an older one.
        self.index.rotate(self.segments.uncovered());
    }

    /// Inserts an entry into the memtable, and updates the sums and the dead bytes of the segments.
    pub(super) fn insert(&mut self, key: Key, entry: Entry) {
        let State { index, layout, segments, .. } = self;
        if let Some(old) = index.insert(layout, key, entry) {
            old.extents().iter().for_each(|place| segments.mark_dead(layout, place));
        }
    }

    /// Counts the replaced value as dead, at its current position: it may have been moved since the look-up.
    pub(super) fn mark_dead(&mut self, key: &Key, found: &Lookup) {
        let Some(old) = self.index.find(key).or_else(|| found.entry.clone()) else { return };
        let State { segments, layout, .. } = self;
        old.extents().iter().for_each(|place| segments.mark_dead(layout, place));
    }

    /// Makes space in the memtable, if that is possible now.
    pub(super) fn has_memory(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        if self.index.memtable_bytes() < bytes_max {
            return Ok(());
        }
        if self.index.full() < FULL_MEMTABLES_MAX {
            self.rotate();
            return Ok(());
        }
        // Full memtables find no free segment in flash, and none can be gained.
        self.ask_for_space()
    }

    /// Whether more than `reserve` segments are free.
    pub(super) fn has_space(&mut self, reserve: u32) -> Result<(), Refusal> {
        if self.segments.free() > reserve { Ok(()) } else { self.ask_for_space() }
    }

    /// Asks for free segments, unless none can be gained.
    fn ask_for_space(&mut self) -> Result<(), Refusal> {
        if self.is_exhausted() && !self.is_read() {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.ask_for_space();
        Err(Refusal::Wait)
    }

    /// Whether the sums leave space for a key-value pair. Returns the cost of the entry that the new one settles.
    pub(super) fn admit(&mut self, key: &Key, cost: u32, found: Option<&Lookup>) -> Result<u32, Refusal> {
        let old =
            found.and_then(|found| found.entry.as_ref()).map_or(0, |old| self.layout.cost(key.len(), old));
        let sums = self.index.sums().bytes + i64::from(cost) - i64::from(old);
        let capacity = self.layout.capacity() as i64;
        // Near the capacity every store looks up the old entry, so that the sums stay exact.
        if found.is_none() && sums > capacity - capacity / 16 {
            return Err(Refusal::Look);
        }
        if sums <= capacity {
            return Ok(old);
        }
        if self.index.is_exact() {
            return Err(Refusal::Error(KvError::CapacityExceeded));
        }
        self.wants.ask_for_sums();
        Err(Refusal::Wait)
    }

    /// Whether given-up segments become free when running commands end. A cursor does not count: it may stay open
    /// indefinitely.
    pub(super) fn is_read(&self) -> bool {
        self.segments.freeing() > 0 && self.index.lasting() == 0
    }

    /// Whether nothing could be reclaimed, and nothing has changed since.
    pub(super) fn is_exhausted(&self) -> bool {
        self.wants.is_exhausted(self.index.next_sequence())
    }

    /// Nothing can be reclaimed, until something changes.
    pub(super) fn exhaust(&mut self) {
        self.wants.exhaust(self.index.next_sequence());
    }

    /// Closes the open segment of a log, and opens the next.
    pub(super) fn next_segment(&mut self, log: usize) -> Result<(), Refusal> {
        if self.standing.is_formatting() {
            return Err(Refusal::Wait);
        }
        // The last segment of the pool is reserved for garbage collection, which must not wait for itself.
        if self.segments.pool().len() <= usize::from(log == HOST) {
            self.wants.ask_for_pool();
            return Err(Refusal::Wait);
        }
        self.counters.padding_bytes += u64::from(self.values.close(log, &mut self.segments));
        if !self.values.open(log, &mut self.segments) {
            return Err(Refusal::Wait);
        }
        if self.segments.pool().len() <= 2 {
            self.wants.ask_for_pool();
        }
        Ok(())
    }

    /// Resets the state to that of an empty store: a format is durable.
    pub(super) fn begin_anew(&mut self) {
        self.standing.renew();
        self.values.begin_anew();
        self.index.begin_anew();
        self.wants.replenish();
        self.segments.begin_anew();
    }
}
