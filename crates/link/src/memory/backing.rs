//! Regions of another process's memory: backing, access rights and errors.

use std::fmt;
use std::rc::Rc;
use thiserror::Error;

/// Bytes of a host memory page.
pub const PAGE_BYTES: u64 = 4096;

/// An access to memory that the host did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// First address of the access.
    pub address: u64,
    /// Length of the access in bytes.
    pub bytes: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} are not memory that the host gave", self.bytes, self.address)
    }
}

impl std::error::Error for Fault {}

/// Version of the memory map: the number of unmappings so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// Later than every epoch, for accesses that may use any region mapped now.
    pub const LAST: Epoch = Epoch(u64::MAX);
}

/// Memory of another process that is not shared, reached by messages.
///
/// Extents lie within the mapped region, with any alignment and length. Regions may be mapped and unmapped
/// during a call.
pub trait Remote {
    /// Copies out of the other process's memory, and waits for the answer.
    ///
    /// # Errors
    /// [`Fault`] if the other process refuses or has ended.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Copies into the other process's memory. When this returns, the other process has the bytes and sees
    /// them before any later write.
    ///
    /// # Errors
    /// Same as [`Remote::read`].
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;
}

/// Storage of a region's bytes.
pub enum Backing<'a> {
    /// In a file shared with the other process, at `offset`, a multiple of 4 KiB.
    File {
        /// A regular file of any file system. It need not stay open.
        file: &'a std::fs::File,
        /// Byte offset of the region in the file.
        offset: u64,
    },
    /// In the other process only.
    Remote(Rc<dyn Remote>),
}

/// The device's access rights to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Read,
    /// Read and write.
    ReadWrite,
    /// No access: the region only reserves its addresses.
    None,
}

/// Error of mapping or unmapping a region.
#[derive(Debug, Error)]
pub enum MapError {
    /// The extent is empty, not whole pages, or beyond the address space or the file.
    #[error("a region is one or more whole pages of 4 KiB within the file and the address space")]
    Extent,
    /// The extent overlaps a mapped region.
    #[error("the region overlaps one that is mapped")]
    Overlap,
    /// The extent contains no region, or cuts one.
    #[error("the extent must hold one or more whole mapped regions")]
    Unknown,
    /// The limit of 1024 regions is reached.
    #[error("too many regions are mapped: the limit is 1024")]
    TooMany,
    /// The system's error; ENODEV if the descriptor is not that of a regular file.
    #[error("mapping failed: {0}")]
    System(#[from] std::io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a refused region must say what a valid one is.
    #[test]
    fn errors_say_what_is_valid() {
        assert_eq!(
            MapError::Extent.to_string(),
            "a region is one or more whole pages of 4 KiB within the file and the address space"
        );
        assert_eq!(MapError::Overlap.to_string(), "the region overlaps one that is mapped");
        assert_eq!(MapError::Unknown.to_string(), "the extent must hold one or more whole mapped regions");
        assert_eq!(MapError::TooMany.to_string(), "too many regions are mapped: the limit is 1024");
    }
}
