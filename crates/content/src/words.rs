//! A large table of 32-bit words, initially zero. Memory is allocated when it is touched, in huge pages where the
//! system has them: a table with random look-ups would otherwise spend its time in page walks.

use memmap2::{Advice, MmapMut};
use std::ops::{Deref, DerefMut};
use zerocopy::FromBytes;

/// A fixed number of words, initially zero.
pub struct Words(Memory);

enum Memory {
    Small(Vec<u32>),
    Large(MmapMut),
}

/// Size in bytes below which tables use ordinary memory.
const LARGE_BYTES: usize = 4 << 20;

impl Words {
    /// A table of `count` zeroes.
    pub fn zeroes(count: usize) -> Self {
        let large = count.checked_mul(4).filter(|bytes| *bytes >= LARGE_BYTES);
        let map = large.and_then(|bytes| MmapMut::map_anon(bytes).ok());
        Words(match map {
            Some(map) => {
                // Only a hint: without huge pages the table is just slower.
                let _ = map.advise(Advice::HugePage);
                Memory::Large(map)
            }
            None => Memory::Small(vec![0; count]),
        })
    }
}

impl Deref for Words {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match &self.0 {
            Memory::Small(words) => words,
            Memory::Large(map) => {
                FromBytes::ref_from_bytes(&map[..]).expect("a mapping is aligned to a page")
            }
        }
    }
}

impl DerefMut for Words {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        match &mut self.0 {
            Memory::Small(words) => words,
            Memory::Large(map) => {
                FromBytes::mut_from_bytes(&mut map[..]).expect("a mapping is aligned to a page")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Small and large tables must differ in speed only; a word that is not zero initially is a map entry that was never
    // made.
    #[test]
    fn tables_begin_as_zeroes_and_keep_what_is_put_in() {
        for count in [0, 1, 1000, (LARGE_BYTES / 4) - 1, LARGE_BYTES / 4, LARGE_BYTES / 4 + 12_345] {
            let mut words = Words::zeroes(count);
            assert_eq!(words.len(), count);
            assert!(words.iter().all(|word| *word == 0));
            for index in (0..count).step_by(997) {
                words[index] = index as u32 + 1;
            }
            assert!(
                (0..count).all(|index| words[index] == if index % 997 == 0 { index as u32 + 1 } else { 0 })
            );
        }
    }
}
