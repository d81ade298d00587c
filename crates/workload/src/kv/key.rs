//! Keys of key-value pairs, derived from the pair's number.

use byteway_clock::permutation::Permutation;
use byteway_clock::random::mix;

use byteway_text::error::InputError;

/// The longest key (NVMe Key Value Command Set 1.0, 2.1).
pub const KEY_BYTES_MAX: usize = 16;

/// A key: 1 to 16 bytes, ordered lexicographically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBytes {
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl KeyBytes {
    /// `None` if it is empty, or longer than 16 bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        (!key.is_empty()).then_some(KeyBytes { bytes, len: key.len() as u8 })
    }

    /// The bytes of the key.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Order of the keys of key-value pairs 0, 1, 2 ...
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// Ascending.
    #[default]
    Rising,
    /// Scattered over all keys of the length by a permutation, so that each key-value pair has a distinct
    /// key.
    Scattered,
}

/// Generator of keys of one length.
#[derive(Clone, Debug)]
pub struct Keys {
    bytes: usize,
    scatter: Option<Scatter>,
}

#[derive(Clone, Debug)]
enum Scatter {
    /// A permutation of all possible keys.
    Whole(Permutation),
    /// A permutation of the first 8 bytes.
    Words,
}

impl Keys {
    /// Keys of `bytes` bytes for `count` key-value pairs.
    ///
    /// # Errors
    /// `bytes` is not 1 to 16, or there are more pairs than keys of this length.
    pub fn new(bytes: u32, count: u64, order: KeyOrder) -> Result<Self, InputError> {
        if !(1..=KEY_BYTES_MAX as u32).contains(&bytes) {
            let what = format!("keys have 1 to {KEY_BYTES_MAX} bytes, not {bytes}");
            return Err(InputError::new(what, "write `key_bytes = 8`"));
        }
        if bytes < 8 && count > 1 << (8 * bytes) {
            let what = format!("there are fewer than {count} keys of {bytes} B");
            return Err(InputError::new(what, "raise `key_bytes`, or lower `keys`"));
        }
        let scatter = match order {
            KeyOrder::Rising => None,
            // Where a permutation of all keys is not possible, one of the first 2^40 is long enough for any
            // run.
            KeyOrder::Scattered if bytes < 8 => {
                let all = (1u64 << (8 * bytes)).min(Permutation::N_MAX);
                let permutation = Permutation::new(0, all).expect("from 2^8 to 2^40");
                Some(Scatter::Whole(permutation))
            }
            KeyOrder::Scattered => Some(Scatter::Words),
        };
        Ok(Keys { bytes: bytes as usize, scatter })
    }

    /// Key of a key-value pair. Numbers beyond the number of keys wrap around.
    pub fn of(&self, number: u64) -> KeyBytes {
        let mut bytes = [0; KEY_BYTES_MAX];
        match &self.scatter {
            Some(Scatter::Words) => bytes[..8].copy_from_slice(&mix(number.wrapping_add(1)).to_be_bytes()),
            Some(Scatter::Whole(permutation)) => {
                self.put(&mut bytes, permutation.forward(number % permutation.n()));
            }
            None => self.put(&mut bytes, number),
        }
        KeyBytes { bytes, len: self.bytes as u8 }
    }

    /// Big-endian, so that keys are ordered like numbers.
    fn put(&self, bytes: &mut [u8; KEY_BYTES_MAX], number: u64) {
        let word = number.to_be_bytes();
        let taken = self.bytes.min(8);
        bytes[self.bytes - taken..self.bytes].copy_from_slice(&word[8 - taken..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    // If keys were not ordered like their numbers, a sequential fill would be random.
    #[test]
    fn rising_keys_rise() {
        for bytes in [2, 4, 8, 11, 16] {
            let keys = Keys::new(bytes, 65536, KeyOrder::Rising).unwrap();
            let made: Vec<KeyBytes> = (0..65536).map(|number| keys.of(number)).collect();
            assert!(made.windows(2).all(|pair| pair[0] < pair[1]), "{bytes} B");
            assert_eq!(made[300].as_slice().len(), bytes as usize);
        }
    }

    // Two pairs with one key would overwrite each other, which leaves fewer pairs than were loaded.
    #[test]
    fn scattered_keys_are_all_different() {
        for bytes in [2, 3, 4, 8, 16] {
            let keys = Keys::new(bytes, 65536, KeyOrder::Scattered).unwrap();
            let made: BTreeSet<KeyBytes> = (0..65536).map(|number| keys.of(number)).collect();
            assert_eq!(made.len(), 65536, "{bytes} B");
            let rising = (0..1000).map(|number| keys.of(number)).collect::<Vec<_>>();
            assert!(rising.windows(2).any(|pair| pair[0] > pair[1]), "{bytes} B are in order");
        }
    }

    // A drive accepts no key of 0 or 17 bytes.
    #[test]
    fn keys_have_1_to_16_bytes() {
        assert!(KeyBytes::new(&[]).is_none() && KeyBytes::new(&[0; 17]).is_none());
        assert!(KeyBytes::new(&[7; 16]).is_some());
        assert!(Keys::new(0, 1, KeyOrder::Rising).is_err() && Keys::new(17, 1, KeyOrder::Rising).is_err());
        assert!(Keys::new(1, 257, KeyOrder::Rising).is_err() && Keys::new(1, 256, KeyOrder::Rising).is_ok());
    }
}
