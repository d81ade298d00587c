//! The bytes of a value: they follow from its key and version.

use byteway_clock::random::mix;
use byteway_wire::nvme::kv::Key;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Fills `into` with the bytes from `offset` on of a key's value of a version.
pub(super) fn pattern(key: Key, version: u32, tag: u16, offset: u32, into: &mut [u8]) {
    let seed = seed(key, version, tag);
    let mut at = u64::from(offset);
    let mut rest = into;
    while !rest.is_empty() {
        let skip = (at % 8) as usize;
        let (now, later) = rest.split_at_mut((8 - skip).min(rest.len()));
        now.copy_from_slice(&word(seed, at / 8).to_le_bytes()[skip..skip + now.len()]);
        at += now.len() as u64;
        rest = later;
    }
}

/// Whether `bytes` are those from `offset` on.
pub(super) fn is_pattern(key: Key, version: u32, tag: u16, offset: u32, bytes: &[u8]) -> bool {
    let seed = seed(key, version, tag);
    let mut at = u64::from(offset);
    let mut rest = bytes;
    while !rest.is_empty() {
        let skip = (at % 8) as usize;
        let (now, later) = rest.split_at((8 - skip).min(rest.len()));
        if *now != word(seed, at / 8).to_le_bytes()[skip..skip + now.len()] {
            return false;
        }
        at += now.len() as u64;
        rest = later;
    }
    true
}

fn seed(key: Key, version: u32, tag: u16) -> u64 {
    let mut hasher = FxHasher::default();
    (key, version, tag).hash(&mut hasher);
    mix(hasher.finish())
}

fn word(seed: u64, index: u64) -> u64 {
    mix(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a part of a value would not be recognised, or one of another value would.
    #[test]
    fn every_part_of_a_value_is_its_own() {
        let key = Key::new(b"key").unwrap();
        let mut whole = [0; 100];
        pattern(key, 3, 1, 0, &mut whole);
        for from in 0..100 {
            let mut part = [0; 100];
            pattern(key, 3, 1, from as u32, &mut part[from..]);
            assert_eq!(part[from..], whole[from..]);
            assert!(is_pattern(key, 3, 1, from as u32, &whole[from..]));
        }
        assert!(is_pattern(key, 3, 1, 50, &[]));
        for (key, version, tag) in [(Key::new(b"kez").unwrap(), 3, 1), (key, 4, 1), (key, 3, 2)] {
            assert!(!is_pattern(key, version, tag, 0, &whole));
        }
    }
}
