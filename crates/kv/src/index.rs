//! The index in DRAM: memtables, the version that names all tables, and the snapshots that cursors see.
//!
//! Sums over all key-value pairs are kept here rather than in a count that each store adds to: an entry's cost goes
//! into the sums of the memtable that holds it, and moves to the tables' with the flush that makes it durable. So a
//! power cut loses an entry and its cost together, and recovery only has to insert records again.

use super::key::Key;
use super::layout::Layout;
use super::memtable::Memtable;
use super::record::Entry;
use super::segments::Cover;
use super::tally::Tally;
use super::version::Version;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A memtable that cursors and flushes may hold, too.
pub(super) type SharedMemtable = Rc<RefCell<Memtable>>;

/// The result of a look-up, and what it depends on.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) entry: Option<Entry>,
    /// Found in DRAM. Otherwise the result is current until another memtable is flushed.
    in_memory: bool,
    flushes: u64,
}

impl Lookup {
    /// Whether the key exists.
    pub(super) fn exists(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| !entry.is_tombstone())
    }
}

/// What a cursor sees: the memtables, the newest first, and tables up to a sequence number.
pub(super) struct Snapshot {
    pub(super) sequence: u64,
    pub(super) memtables: Vec<SharedMemtable>,
    pub(super) version: Rc<Version>,
}

/// Numbers that a manifest keeps of the index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) next_sequence: u64,
    pub(super) next_table: u64,
    /// Sums over all key-value pairs in tables.
    pub(super) tally: Tally,
    /// Whether no key-value pair was stored without a look-up since everything was merged, so that the sums are exact.
    pub(super) is_exact: bool,
}

/// The index.
pub(super) struct Index {
    memtable: SharedMemtable,
    /// Full memtables, the oldest first.
    full: VecDeque<SharedMemtable>,
    version: Rc<Version>,
    numbers: Numbers,
    /// Memtables flushed to flash.
    flushes: u64,
    /// Sequence numbers up to which cursors see, and the number of cursors for each.
    snapshots: BTreeMap<u64, u32>,
    /// Open cursors that may stay indefinitely.
    lasting: u32,
    /// Bytes of DRAM that filters take.
    filter_bytes: u64,
    /// For each level, the key after which its next merge begins.
    turns: Vec<Option<Key>>,
}

impl Index {
    pub(super) fn new() -> Index {
        Index {
            memtable: Rc::default(),
            full: VecDeque::new(),
            version: Rc::default(),
            numbers: Numbers { next_sequence: 1, next_table: 1, is_exact: true, ..Numbers::default() },
            flushes: 0,
            snapshots: BTreeMap::new(),
            lasting: 0,
            filter_bytes: 0,
            turns: Vec::new(),
        }
    }

    /// Takes over the tables and numbers of a manifest.
    pub(super) fn restore(&mut self, version: Version, numbers: Numbers) {
        debug_assert!(
            self.memtable.borrow().is_empty() && self.full.is_empty(),
            "entries older than recovery"
        );
        self.numbers = numbers;
        self.set_version(version);
    }

    /// Drops the entries of all memtables, and the sums: a format is durable. Sequence numbers go on.
    pub(super) fn begin_anew(&mut self) {
        self.memtable = Rc::default();
        self.full.clear();
        (self.numbers.tally, self.numbers.is_exact) = (Tally::default(), true);
        self.flushes += 1;
    }

    pub(super) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// The next sequence number.
    pub(super) fn next_sequence(&self) -> u64 {
        self.numbers.next_sequence
    }

    /// Uses the next sequence number up.
    pub(super) fn advance(&mut self) {
        self.numbers.next_sequence += 1;
    }

    /// Takes the next table's number.
    pub(super) fn take_table_number(&mut self) -> u64 {
        let number = self.numbers.next_table;
        self.numbers.next_table += 1;
        number
    }

    /// The sums over all key-value pairs.
    pub(super) fn sums(&self) -> Tally {
        let mut sums = self.numbers.tally;
        sums += self.memtable.borrow().tally();
        self.full.iter().for_each(|memtable| sums += memtable.borrow().tally());
        sums
    }

    pub(super) fn is_exact(&self) -> bool {
        self.numbers.is_exact
    }

    /// Whether the sums are exact from now on.
    pub(super) fn set_exact(&mut self, is_exact: bool) {
        self.numbers.is_exact = is_exact;
    }

    /// Adds to the sums of the tables.
    pub(super) fn add_to_tables(&mut self, tally: Tally) {
        self.numbers.tally += tally;
    }

    /// The entry that DRAM has for a key.
    pub(super) fn find(&self, key: &Key) -> Option<Entry> {
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
    pub(super) fn is_current(&self, key: &Key, found: &Lookup) -> bool {
        match self.find(key) {
            Some(entry) => found.entry.as_ref().is_some_and(|old| old.sequence == entry.sequence),
            None => !found.in_memory && found.flushes == self.flushes,
        }
    }

    /// Inserts an entry into the memtable. Returns the entry that it replaces, if its value is dead from now on.
    pub(super) fn insert(&mut self, layout: &Layout, key: Key, entry: Entry) -> Option<Entry> {
        debug_assert!(
            entry.sequence < self.next_sequence(),
            "an entry has a sequence number that was used up"
        );
        let seen_to = self.snapshots.last_key_value().map_or(0, |(snapshot, _)| *snapshot);
        self.memtable.borrow_mut().insert(layout, key, entry, seen_to)
    }

    /// Approximate size of the memtable in tables, in bytes.
    pub(super) fn memtable_bytes(&self) -> u64 {
        self.memtable.borrow().bytes()
    }

    pub(super) fn is_memtable_empty(&self) -> bool {
        self.memtable.borrow().is_empty()
    }

    /// Puts the memtable into the queue for flushes, and starts a new one. `covers`: the records that are in it or in
    /// an older one, for segments of the value log.
    pub(super) fn rotate(&mut self, covers: Vec<Cover>) {
        let full = std::mem::take(&mut self.memtable);
        full.borrow_mut().fill(covers);
        self.full.push_back(full);
    }

    /// Number of full memtables.
    pub(super) fn full(&self) -> usize {
        self.full.len()
    }

    /// The oldest full memtable.
    pub(super) fn oldest(&self) -> Option<&SharedMemtable> {
        self.full.front()
    }

    /// The oldest full memtable is in tables now.
    pub(super) fn end_flush(&mut self) {
        let flushed = self.full.pop_front();
        debug_assert!(flushed.is_some(), "a flush has a memtable");
        self.flushes += 1;
    }

    pub(super) fn version(&self) -> &Rc<Version> {
        &self.version
    }

    /// Makes a version visible.
    pub(super) fn publish(&mut self, mut version: Version) {
        version.tidy();
        self.set_version(version);
    }

    fn set_version(&mut self, version: Version) {
        debug_assert!(
            version.slices().all(|slice| slice.table.number < self.numbers.next_table),
            "a table has a number that was not given yet"
        );
        self.version = Rc::new(version);
        let filters = self.version.slices().filter_map(|slice| slice.table.filter.as_ref());
        self.filter_bytes = filters.map(|filter| filter.bytes()).sum();
    }

    /// Bytes left for filters of at most `bytes_max`.
    pub(super) fn filter_bytes_left(&self, bytes_max: u64) -> u64 {
        bytes_max.saturating_sub(self.filter_bytes)
    }

    /// Counts a filter of a table that no version has yet.
    pub(super) fn add_filter(&mut self, bytes: u64) {
        self.filter_bytes += bytes;
    }

    /// The key after which a level's next merge begins.
    pub(super) fn turn(&self, level: usize) -> Option<Key> {
        self.turns.get(level).copied().flatten()
    }

    pub(super) fn set_turn(&mut self, level: usize, key: Option<Key>) {
        if self.turns.len() <= level {
            self.turns.resize(level + 1, None);
        }
        self.turns[level] = key;
    }

    /// Takes a snapshot. `is_lasting`: its cursor may stay indefinitely.
    pub(super) fn take_snapshot(&mut self, is_lasting: bool) -> Snapshot {
        let memtables = std::iter::once(&self.memtable).chain(self.full.iter().rev()).cloned().collect();
        let sequence = self.next_sequence() - 1;
        *self.snapshots.entry(sequence).or_default() += 1;
        self.lasting += u32::from(is_lasting);
        Snapshot { sequence, memtables, version: self.version.clone() }
    }

    /// Ends a snapshot. Returns whether it was the last of its sequence number.
    pub(super) fn end_snapshot(&mut self, sequence: u64, is_lasting: bool) -> bool {
        debug_assert!(self.snapshots.contains_key(&sequence), "a snapshot ends that was not taken");
        debug_assert!(self.lasting >= u32::from(is_lasting), "more lasting cursors end than began");
        self.lasting -= u32::from(is_lasting);
        let Some(count) = self.snapshots.get_mut(&sequence) else { return false };
        *count -= 1;
        if *count > 0 {
            return false;
        }
        self.snapshots.remove(&sequence);
        true
    }

    /// Open cursors that may stay indefinitely.
    pub(super) fn lasting(&self) -> u32 {
        self.lasting
    }
}
