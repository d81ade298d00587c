//! What was changed since the last table was written, in order.

use super::key::Key;
use super::record::Entry;
use super::segments::Tally;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Changes in DRAM. The records of all of them are in the value log.
#[derive(Default)]
pub(super) struct Memtable {
    /// The newest of each key.
    newest: BTreeMap<Key, Entry>,
    /// What cursors still see. Their memtables are kept for them; nobody else looks here.
    older: BTreeMap<(Key, Reverse<u64>), Entry>,
    /// About what it takes in an index table.
    pub(super) bytes: u64,
    /// What it adds to the sums.
    pub(super) tally: Tally,
    /// Of segments of the value log, how many records are covered when this is in flash.
    pub(super) covers: Vec<(u32, u32)>,
}

impl Memtable {
    pub(super) fn len(&self) -> usize {
        self.newest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Entry> {
        self.newest.get(key)
    }

    /// What there was before `snapshot`, inclusive.
    fn seen(&self, key: &Key, newest: &Entry, snapshot: u64) -> Option<Entry> {
        if newest.sequence <= snapshot {
            return Some(newest.clone());
        }
        let mut older = self.older.range((*key, Reverse(snapshot))..);
        older.next().filter(|((found, _), _)| found == key).map(|(_, entry)| entry.clone())
    }

    /// The first pair from `from` on, as it was at `snapshot`.
    pub(super) fn first_seen(&self, from: &Key, snapshot: u64) -> Option<(Key, Entry)> {
        let mut newest = self.newest.range(*from..);
        newest.find_map(|(key, entry)| Some((*key, self.seen(key, entry, snapshot)?)))
    }

    /// The newest entries from `from` on.
    pub(super) fn from(&self, from: &Key) -> impl Iterator<Item = (&Key, &Entry)> {
        self.newest.range(*from..)
    }

    /// What the newest entry of a key settles is what the one that it replaced did.
    pub(super) fn inherit(&mut self, key: &Key, settles: u32) {
        if let Some(entry) = self.newest.get_mut(key) {
            entry.settles = settles;
        }
    }

    /// Puts an entry in, and gives the one that it replaces. That is kept for snapshots up to `seen_to`.
    pub(super) fn insert(&mut self, key: Key, entry: Entry, seen_to: u64) -> Option<Entry> {
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
