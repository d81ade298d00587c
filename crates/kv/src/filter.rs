//! A bloom filter: tells whether a key may be in a table.

use super::key::Key;
use super::varint::Reader;

/// A seeded 64-bit hash of a key.
#[inline]
pub(super) fn hash(key: &Key, seed: u64) -> u64 {
    let (high, low) = key.words();
    let mut word = (high ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 32) ^ low).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    word ^ (word >> 32)
}

/// A bloom filter over key hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    words: Box<[u64]>,
    probes: u32,
}

impl Filter {
    /// Words of 8 bytes for `keys` keys.
    pub(super) fn words_for(keys: usize, bits_per_key: u32) -> usize {
        (keys * bits_per_key as usize).div_ceil(64)
    }

    pub(super) fn new(hashes: &[u64], bits_per_key: u32) -> Filter {
        let words = vec![0; Self::words_for(hashes.len(), bits_per_key)].into_boxed_slice();
        let mut filter = Filter { words, probes: Self::probes(bits_per_key) };
        for hash in hashes {
            filter.visit(*hash, |word, bit| {
                *word |= bit;
                true
            });
        }
        filter
    }

    /// The number of probes with the fewest false positives: bits per key times ln 2.
    fn probes(bits_per_key: u32) -> u32 {
        (bits_per_key * 69 / 100).clamp(1, 12)
    }

    /// Decodes what [`Filter::encode`] has written; `None` if bytes are missing.
    pub(super) fn decode(reader: &mut Reader<'_>, words: usize, bits_per_key: u32) -> Option<Filter> {
        let words = (0..words).map(|_| reader.u64()).collect::<Option<_>>()?;
        Some(Filter { words, probes: Self::probes(bits_per_key) })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }

    /// Size in DRAM, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Length in words of 8 bytes.
    pub(super) fn words(&self) -> usize {
        self.words.len()
    }

    #[inline]
    fn visit(&mut self, hash: u64, mut see: impl FnMut(&mut u64, u64) -> bool) {
        let bits = self.words.len() as u64 * 64;
        for probe in 0..self.probes {
            let (word, bit) = place(hash, probe, bits);
            if !see(&mut self.words[word], bit) {
                return;
            }
        }
    }

    /// Whether a key with this hash may be in the table. `false` is certain.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let bits = self.words.len() as u64 * 64;
        (0..self.probes).all(|probe| {
            let (word, bit) = place(hash, probe, bits);
            self.words.get(word).is_none_or(|word| word & bit != 0)
        })
    }
}

#[inline]
fn place(hash: u64, probe: u32, bits: u64) -> (usize, u64) {
    let step = hash.rotate_left(32) | 1;
    let mixed = hash.wrapping_add(step.wrapping_mul(u64::from(probe)));
    let bit = ((mixed >> 32) * bits) >> 32;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A filter that denies a stored key loses a pair; one that admits most keys saves no read.
    #[test]
    fn all_that_is_there_and_little_else() {
        let key = |n: u64| Key::new(&n.to_be_bytes()).unwrap();
        let hashes: Vec<u64> = (0..10_000).map(|n| hash(&key(n * 3), 5)).collect();
        let filter = Filter::new(&hashes, 10);
        assert!(hashes.iter().all(|hash| filter.may_hold(*hash)));
        let wrong = (0..10_000).filter(|n| filter.may_hold(hash(&key(n * 3 + 1), 5))).count();
        assert!(wrong < 200, "{wrong} of 10000; expected about 1 %");
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(Filter::decode(&mut Reader(&bytes), filter.words(), 10), Some(filter));
        assert!(Filter::new(&[], 10).may_hold(7), "an empty one denies nothing");
    }
}
