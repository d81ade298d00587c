//! Payloads that are not complete yet: how many there may be, and which parts of one are there.
//!
//! The memory of a payload that is complete or given up goes back to the [`Pool`], and the next one takes it from
//! there: nothing is allocated once as many payloads were incomplete at once as ever will be.

use byteway_clock::Time;
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// It was missing.
    New,
    /// It was there, with the same bytes.
    Same,
    /// It was there, with other bytes, and stays as it was.
    Other,
}

/// A payload, parts of which are missing.
#[derive(Debug, Default)]
pub struct Partial {
    bytes: Vec<u8>,
    /// A bit for each part that is there.
    here: Vec<u64>,
    parts: u32,
    /// One more than the last part that is there.
    end: u32,
    until: Time,
}

impl Partial {
    /// Puts part `index`, which begins with byte `at` of the payload, where it belongs. Of the same part the same
    /// number of bytes is given each time.
    pub fn place(&mut self, index: u32, at: usize, part: &[u8]) -> Placed {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if word >= self.here.len() {
            self.here.resize(word + 1, 0);
        }
        let end = at + part.len();
        if self.here[word] & bit != 0 {
            return if self.bytes[at..end] == *part { Placed::Same } else { Placed::Other };
        }
        self.here[word] |= bit;
        self.parts += 1;
        self.end = self.end.max(index + 1);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(part);
        Placed::New
    }

    /// Adds a part behind those that are there.
    pub fn append(&mut self, part: &[u8]) {
        self.parts += 1;
        self.bytes.extend_from_slice(part);
    }

    /// Parts that are there.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// One more than the last part that is there.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Bytes that are there, with those of missing parts before the last.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// When it is given up.
    pub fn until(&self) -> Time {
        self.until
    }

    /// Exchanges its bytes for the memory of `into`, which then holds the first `bytes` of them.
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

/// A bounded number of [`Partial`]s, reused.
#[derive(Debug, Default)]
pub struct Pool {
    partials_max: u32,
    used: u32,
    spare: Vec<Partial>,
}

impl Pool {
    /// For `partials_max` incomplete payloads at once.
    pub fn new(partials_max: u32) -> Self {
        Pool { partials_max, used: 0, spare: Vec::new() }
    }

    /// One without parts, to be given up at `until`; none if there are as many as there may be.
    pub fn take(&mut self, until: Time) -> Option<Partial> {
        if self.used == self.partials_max {
            return None;
        }
        self.used += 1;
        let mut partial = self.spare.pop().unwrap_or_default();
        partial.until = until;
        Some(partial)
    }

    /// Takes one back.
    pub fn give(&mut self, mut partial: Partial) {
        partial.clear();
        self.used -= 1;
        self.spare.push(partial);
    }

    /// How many are in use.
    pub fn used(&self) -> u32 {
        self.used
    }
}

/// Values by key, looked through in an order that depends on nothing but what was done before.
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

    /// Adds a value under a key that has none.
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

    /// The first value that `is_sought`, with its key.
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

    /// Without this a host could have a drive keep more than it has memory for, or memory would be lost with each
    /// payload.
    #[test]
    fn a_pool_is_bounded_and_gives_memory_again() {
        let mut pool = Pool::new(2);
        let mut first = pool.take(Time::ZERO).unwrap();
        assert_eq!(first.place(0, 0, &[7; 4096]), Placed::New);
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

    /// Without this a part would be counted twice, and a payload taken for complete that is not.
    #[test]
    fn a_part_counts_once() {
        let mut partial = Partial::default();
        assert_eq!(partial.place(70, 140, &[1, 2]), Placed::New);
        assert_eq!(partial.place(70, 140, &[1, 2]), Placed::Same);
        assert_eq!(partial.place(70, 140, &[1, 3]), Placed::Other);
        assert_eq!(partial.place(6, 12, &[9, 9]), Placed::New);
        assert_eq!((partial.parts(), partial.end(), partial.bytes()), (2, 71, 142));
        let mut bytes = vec![0xEE; 3];
        partial.swap_into(&mut bytes, 14);
        assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9]);
    }
}
