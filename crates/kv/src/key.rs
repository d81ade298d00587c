//! A key: 1 to 16 bytes, ordered bytewise; a prefix sorts before the keys that it begins.

use std::cmp::Ordering;
use std::fmt;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 16;

/// A key of the key-value command set.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Padded with zeroes, so that equal keys are equal structures.
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl Key {
    /// The smallest key.
    pub const FIRST: Key = Key { bytes: [0; KEY_BYTES_MAX], len: 1 };

    /// The key with these bytes; `None` unless there are 1 to 16.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        if bytes.is_empty() || bytes.len() > KEY_BYTES_MAX {
            return None;
        }
        let mut key = Key { bytes: [0; KEY_BYTES_MAX], len: bytes.len() as u8 };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Some(key)
    }

    /// The bytes, without padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Length in bytes: 1 to 16.
    #[allow(clippy::len_without_is_empty, reason = "no key is empty")]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The least key greater than this one; `None` for the greatest.
    pub fn next(&self) -> Option<Key> {
        if self.len() < KEY_BYTES_MAX {
            return Some(Key { len: self.len + 1, ..*self });
        }
        // A key of sixteen bytes can't be extended: raise its last byte that is below 0xff, and cut there.
        let at = self.bytes.iter().rposition(|byte| *byte != u8::MAX)?;
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes[..=at].copy_from_slice(&self.bytes[..=at]);
        bytes[at] += 1;
        Some(Key { bytes, len: at as u8 + 1 })
    }

    #[inline]
    fn word(&self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    /// Two words that equal keys share, for hashing.
    #[inline]
    pub(super) fn words(&self) -> (u64, u64) {
        let word = self.word();
        ((word >> 64) as u64, word as u64 ^ u64::from(self.len).rotate_left(59))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.word().cmp(&other.word()).then(self.len.cmp(&other.len))
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A listing in another order than that of the bytes would skip or repeat keys.
    #[test]
    fn keys_are_ordered_as_their_bytes() {
        let texts: [&[u8]; 9] = [b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"a\0b", b"ab", b"b", &[255; 16]];
        let keys: Vec<Key> = texts.iter().map(|text| Key::new(text).unwrap()).collect();
        for (a, x) in texts.iter().zip(&keys) {
            for (b, y) in texts.iter().zip(&keys) {
                assert_eq!(a.cmp(b), x.cmp(y), "{a:?} {b:?}");
            }
        }
        assert_eq!((Key::new(&[]), Key::new(&[0; 17])), (None, None));
        assert_eq!(Key::FIRST, keys[0]);
    }

    // A cursor that continues after a key must not skip any.
    #[test]
    fn nothing_lies_between_a_key_and_the_next() {
        let next = |bytes: &[u8]| Key::new(bytes).unwrap().next();
        assert_eq!(next(b"a"), Key::new(b"a\0"));
        assert_eq!(
            next(&[7; 16]),
            Key::new(&{
                let mut b = [7; 16];
                b[15] = 8;
                b
            })
        );
        let mut bytes = [255; 16];
        bytes[2] = 3;
        assert_eq!(next(&bytes), Key::new(&[255, 255, 4]));
        assert_eq!(next(&[255; 16]), None);
    }
}
