//! Variable-length integers: seven bits per byte, least significant first, the top bit set in all bytes but the last.

/// Appends `value`.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A cursor over bytes. Reads past the end give `None`.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// A number that [`put`] wrote.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (at, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * at as u32);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Like [`Reader::varint`]; `None` if it exceeds 32 bits.
    #[inline]
    pub(super) fn varint32(&mut self) -> Option<u32> {
        self.varint().and_then(|value| u32::try_from(value).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A number that is decoded as another would direct a reader to another's value.
    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let numbers = [0, 1, 127, 128, 300, 1 << 32, u64::MAX];
        numbers.iter().for_each(|number| put(&mut out, *number));
        let mut reader = Reader(&out);
        assert!(numbers.iter().all(|number| reader.varint() == Some(*number)));
        assert_eq!(reader.varint(), None);
        assert_eq!(Reader(&[0x80; 20]).varint(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x7f]).varint32(), None);
    }
}
