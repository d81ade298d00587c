//! A run of host memory: what both kinds of list come down to.

/// `bytes` bytes of host memory from `address` on.
///
/// A segment that a walker yields never wraps: `address + bytes` fits in 64 bits. Whether there is memory at the
/// address is for memory to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length in bytes, at least 1 when a walker yields it.
    pub bytes: u32,
}

impl Segment {
    /// The address behind the last byte.
    ///
    /// # Panics
    /// If the segment wraps, which no walker yields.
    pub fn end(self) -> u64 {
        self.address.checked_add(u64::from(self.bytes)).expect("a segment doesn't wrap")
    }
}

/// Whether `bytes` bytes from `address` on have an end that 64 bits can hold.
pub(crate) fn fits(address: u64, bytes: u64) -> bool {
    address.checked_add(bytes).is_some()
}
