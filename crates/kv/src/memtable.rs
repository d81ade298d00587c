//! The memtable: changes since the last flush, in key order.

use super::key::Key;
use super::layout::Layout;
use super::record::Entry;
use super::segments::Cover;
use super::tally::Tally;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Changes in DRAM. The value log holds a record of each, so that recovery can replay them.
#[derive(Default)]
pub(super) struct Memtable {
    /// The newest entry of each key.
    newest: BTreeMap<Key, Entry>,
    /// Replaced entries that cursors still see. Only cursors read them, and they hold the memtable.
    older: BTreeMap<(Key, Reverse<u64>), Entry>,
    /// Approximate size in an index table, in bytes.
    bytes: u64,
    /// Contribution of the entries to the sums over all key-value pairs.
    tally: Tally,
    /// Records of the value log that tables cover once this memtable is flushed.
    covers: Vec<Cover>,
}

impl Memtable {
    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    pub(super) fn covers(&self) -> &[Cover] {
        &self.covers
    }

    /// The memtable is full: tables that are made of it will reflect these records.
    pub(super) fn fill(&mut self, covers: Vec<Cover>) {
        debug_assert!(self.covers.is_empty(), "a memtable is full once");
        self.covers = covers;
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Entry> {
        self.newest.get(key)
    }

    /// The entry at `snapshot`, inclusive.
    fn seen(&self, key: &Key, newest: &Entry, snapshot: u64) -> Option<Entry> {
        if newest.sequence <= snapshot {
            return Some(newest.clone());
        }
        let mut older = self.older.range((*key, Reverse(snapshot))..);
        older.next().filter(|((found, _), _)| found == key).map(|(_, entry)| entry.clone())
    }

    /// The first key-value pair from `from` on, as of `snapshot`.
    pub(super) fn first_seen(&self, from: &Key, snapshot: u64) -> Option<(Key, Entry)> {
        let mut newest = self.newest.range(*from..);
        newest.find_map(|(key, entry)| Some((*key, self.seen(key, entry, snapshot)?)))
    }

    /// The newest entries from `from` on.
    pub(super) fn from(&self, from: &Key) -> impl Iterator<Item = (&Key, &Entry)> {
        self.newest.range(*from..)
    }

    /// Inserts an entry, and updates the sums. Returns the entry that it replaces, if that was counted until now: its
    /// value is dead from now on.
    pub(super) fn insert(&mut self, layout: &Layout, key: Key, entry: Entry, seen_to: u64) -> Option<Entry> {
        let settles = entry.settles;
        self.tally.gain(layout.cost(key.len(), &entry));
        self.tally.lose(settles);
        let old = self.replace(key, entry, seen_to)?;
        // The newest entry settles what the one that it replaced here had settled: that is what tables still hold.
        if settles != old.settles
            && let Some(entry) = self.newest.get_mut(&key)
        {
            entry.settles = old.settles;
        }
        if settles > 0 {
            return None;
        }
        self.tally.lose(layout.cost(key.len(), &old));
        Some(old)
    }

    /// Replaces an entry. The old one is kept if a snapshot up to `seen_to` sees it.
    fn replace(&mut self, key: Key, entry: Entry, seen_to: u64) -> Option<Entry> {
        let sequence = entry.sequence;
        let old = self.newest.insert(key, entry);
        match &old {
            None => self.bytes += key.len() as u64 + 20,
            Some(old) if old.sequence <= seen_to && old.sequence < sequence => {
                self.older.insert((key, Reverse(old.sequence)), old.clone());
            }
            Some(_) => {}
        }
        old
    }
}
