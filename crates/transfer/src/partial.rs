//! Incomplete payloads: a bounded pool of them, and the parts present of each.
//!
//! The memory of a payload that is complete or given up returns to the [`Pool`] for reuse: nothing is
//! allocated beyond the maximum of payloads incomplete at once.

use byteway_clock::Time;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Result of placing a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartResult {
    /// The part was missing.
    New,
    /// The part was present with the same bytes.
    Same,
    /// The part was present with other bytes, and is unchanged.
    Other,
}

/// A payload with missing parts.
#[derive(Debug, Default)]
pub struct Partial {
    bytes: Vec<u8>,
    /// One bit for each present part.
    here: Vec<u64>,
    parts: u32,
    /// Index after the last present part.
    end: u32,
    until: Time,
}

impl Partial {
    /// Places part `index`, which begins at byte `at` of the payload. Each call for the same part has the
    /// same length.
    pub fn place(&mut self, index: u32, at: usize, part: &[u8]) -> PartResult {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if word >= self.here.len() {
            self.here.resize(word + 1, 0);
        }
        let end = at + part.len();
        if self.here[word] & bit != 0 {
            return if self.bytes[at..end] == *part { PartResult::Same } else { PartResult::Other };
        }
        self.here[word] |= bit;
        self.parts += 1;
        self.end = self.end.max(index + 1);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(part);
        PartResult::New
    }

    /// Appends a part after the present ones.
    pub fn append(&mut self, part: &[u8]) {
        self.parts += 1;
        self.bytes.extend_from_slice(part);
    }

    /// Number of present parts.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// Index after the last present part.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Bytes up to the last present part, missing parts before it included.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Deadline after which it is given up.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Swaps its bytes with the memory of `into`, which then holds the first `bytes` of them.
    pub fn swap_into(&mut self, into: &mut Vec<u8>, bytes: usize) {
        std::mem::swap(&mut self.bytes, into);
        into.truncate(bytes);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.here.clear();
        (self.parts, self.end) = (0, 0);
    }
}

/// A bounded pool of [`Partial`]s.
#[derive(Debug, Default)]
pub struct Pool {
    partials_max: u32,
    used: u32,
    spare: Vec<Partial>,
}

impl Pool {
    /// A pool for at most `partials_max` incomplete payloads at once.
    pub fn new(partials_max: u32) -> Self {
        Pool { partials_max, used: 0, spare: Vec::new() }
    }

    /// A payload without parts, with the deadline `until`; None if the pool is exhausted.
    pub fn take(&mut self, until: Time) -> Option<Partial> {
        if self.used == self.partials_max {
            return None;
        }
        self.used += 1;
        let mut partial = self.spare.pop().unwrap_or_default();
        partial.until = until;
        Some(partial)
    }

    /// Returns a payload to the pool.
    pub fn give(&mut self, mut partial: Partial) {
        partial.clear();
        self.used -= 1;
        self.spare.push(partial);
    }

    /// Payloads in use.
    pub fn used(&self) -> u32 {
        self.used
    }
}

/// Values by key, searched in an order that depends only on the history.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    places: Vec<Option<(K, V)>>,
    free: Vec<usize>,
    index: FxHashMap<K, usize>,
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    pub fn new() -> Self {
        Table { places: Vec::new(), free: Vec::new(), index: FxHashMap::default() }
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let place = *self.index.get(&key)?;
        self.places[place].as_mut().map(|(_, value)| value)
    }

    /// Adds a value under an unused key.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let before = self.index.insert(key, place);
        debug_assert!(before.is_none(), "a key has one value");
        &mut self.places[place].insert((key, value)).1
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let place = self.index.remove(&key)?;
        self.free.push(place);
        self.places[place].take().map(|(_, value)| value)
    }

    /// The key of the first value for which `is_sought` holds.
    pub fn find(&self, mut is_sought: impl FnMut(&K, &V) -> bool) -> Option<K> {
        let found = self.places.iter().flatten().find(|(key, value)| is_sought(key, value));
        found.map(|(key, _)| *key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.places.iter().flatten().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host could make a drive keep more than it has memory for, or each payload would leak
    /// memory.
    #[test]
    fn a_pool_is_bounded_and_gives_memory_again() {
        let mut pool = Pool::new(2);
        let mut first = pool.take(Time::ZERO).unwrap();
        assert_eq!(first.place(0, 0, &[7; 4096]), PartResult::New);
        let held = first.bytes.as_ptr();
        let second = pool.take(Time::ZERO).unwrap();
        assert!(pool.take(Time::ZERO).is_none());
        pool.give(first);
        let again = pool.take(Time::ZERO).unwrap();
        assert_eq!((again.bytes(), again.parts(), again.end()), (0, 0, 0), "nothing of the payload before");
        assert_eq!((again.bytes.as_ptr(), again.bytes.capacity() >= 4096), (held, true));
        pool.give(again);
        pool.give(second);
        assert_eq!(pool.used(), 0);
    }

    /// Without this a part would be counted twice, and a payload with a missing part would count as complete.
    #[test]
    fn a_part_counts_once() {
        let mut partial = Partial::default();
        assert_eq!(partial.place(70, 140, &[1, 2]), PartResult::New);
        assert_eq!(partial.place(70, 140, &[1, 2]), PartResult::Same);
        assert_eq!(partial.place(70, 140, &[1, 3]), PartResult::Other);
        assert_eq!(partial.place(6, 12, &[9, 9]), PartResult::New);
        assert_eq!((partial.parts(), partial.end(), partial.bytes()), (2, 71, 142));
        let mut bytes = vec![0xEE; 3];
        partial.swap_into(&mut bytes, 14);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9]);
    }
}
