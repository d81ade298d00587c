//! Hash table from keys to numbers with open addressing: its look-up is the cost of each row of a query with GROUP BY.

/// Marks a free slot.
const FREE: u32 = u32::MAX;
/// Initial number of slots. Sizes are powers of two.
const SLOTS_MIN: usize = 64;
/// Minimum number of slots per key, which keeps probe sequences short.
const SPARSE: usize = 4;

/// A key of fixed size.
pub(super) trait Key: Copy + Default + PartialEq {
    /// Hash, equal in every run: the position of a key must not depend on the process.
    fn hash(self) -> u64;
}

/// Combines both halves of the product, so that every bit of a key affects the low bits, which select the slot.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

// Digits of pi: nonzero and without a pattern.
const MIXERS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];

impl Key for u64 {
    #[inline(always)]
    fn hash(self) -> u64 {
        folded(self ^ MIXERS[0], MIXERS[1])
    }
}

impl Key for u128 {
    #[inline(always)]
    fn hash(self) -> u64 {
        folded(self as u64 ^ MIXERS[0], (self >> 64) as u64 ^ MIXERS[1])
    }
}

/// Keys and their numbers.
#[derive(Debug)]
pub(super) struct Numbers<K> {
    slots: Vec<(K, u32)>,
    len: usize,
    most: usize,
}

impl<K: Key> Numbers<K> {
    /// An empty table. Beyond `most` keys only the first is stored: the query then fails by its group count.
    pub fn new(most: usize) -> Self {
        Self { slots: Vec::new(), len: 0, most }
    }

    /// Number of keys stored.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(K, u32)>()
    }

    /// The number of `key`; a new key gets `new()`.
    #[inline(always)]
    pub fn of_or(&mut self, key: K, new: impl FnOnce() -> u32) -> u32 {
        // An empty table has no slots: `get` fails immediately, so that it needs no branch of its own.
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key.hash() as usize & mask;
        while let Some(&(known, number)) = self.slots.get(at) {
            if number == FREE {
                break;
            }
            if known == key {
                return number;
            }
            at = (at + 1) & mask;
        }
        self.insert(key, new())
    }

    /// The number of `key`. New keys are numbered consecutively from 0.
    #[inline(always)]
    pub fn of(&mut self, key: K) -> u32 {
        let new = self.len as u32;
        self.of_or(key, || new)
    }

    #[cold]
    #[inline(never)]
    fn insert(&mut self, key: K, number: u32) -> u32 {
        if number as usize > self.most {
            return number;
        }
        self.len += 1;
        if self.len * SPARSE > self.slots.len() {
            let slots = vec![(K::default(), FREE); (self.slots.len() * 2).max(SLOTS_MIN)];
            let known = std::mem::replace(&mut self.slots, slots);
            known.into_iter().filter(|slot| slot.1 != FREE).for_each(|(key, number)| self.put(key, number));
        }
        // Free slots end every probe sequence; a full table would be probed without end.
        debug_assert!(self.slots.len().is_power_of_two() && self.len * SPARSE <= self.slots.len());
        debug_assert_ne!(number, FREE, "the number marks free slots");
        self.put(key, number);
        number
    }

    fn put(&mut self, key: K, number: u32) {
        let mask = self.slots.len() - 1;
        let mut at = key.hash() as usize & mask;
        while self.slots[at].1 != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = (key, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A key with two numbers would split one group into two. The table grows and probes wrap around in this test.
    #[test]
    fn keys_keep_their_numbers() {
        let mut numbers = Numbers::<u128>::new(5000);
        let key = |index: u32| {
            u128::from(index % 3) << 64 | u128::from(u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        for round in 0..3 {
            for index in 0..5000 {
                assert_eq!(numbers.of(key(index)), index, "round {round}");
            }
        }
        assert_eq!(numbers.len(), 5000);
    }

    // Keys beyond the limit would exhaust memory before the query fails.
    #[test]
    fn keys_beyond_the_limit_are_not_kept() {
        let mut numbers = Numbers::<u64>::new(1000);
        for key in 0..4000u64 {
            numbers.of(key);
        }
        assert_eq!(numbers.len(), 1001);
        assert!(numbers.memory_bytes() <= 16 * 8 * 1024);
    }
}
