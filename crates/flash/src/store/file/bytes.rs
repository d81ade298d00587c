//! Little-endian encoding of numbers in journal and checkpoint.

/// Upper bound of every 64-bit count. A larger value in a file means damage.
pub(super) const COUNT_MAX: u64 = 1 << 62;
/// The same for 32-bit counts.
pub(super) const COUNT_32_MAX: u32 = 1 << 31;

/// Takes numbers off the front. None at the end of the bytes, which come from a file.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Takes bytes that are preceded by their number.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let bytes = self.u32()?;
        self.take(bytes as usize)
    }
}

/// Appends numbers.
pub(super) trait Writer {
    fn u8(&mut self, value: u8);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn counted(&mut self, bytes: &[u8]);
}

impl Writer for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn counted(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("firmware's system data is small"));
        self.extend_from_slice(bytes);
    }
}
