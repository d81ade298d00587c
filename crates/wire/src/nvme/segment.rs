//! A run of host memory, the result of both kinds of lists.

/// `bytes` bytes of host memory from `address` on.
///
/// A segment that a walker yields never wraps: `address + bytes` fits in 64 bits. Whether memory exists at the address
/// is not checked here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length in bytes, at least 1 when a walker yields it.
    pub bytes: u32,
}

impl Segment {
    /// The address after the last byte.
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
