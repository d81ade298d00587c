//! Where the bytes of a region are, what the device may do with them, and what can go wrong.

use std::fmt;
use std::rc::Rc;
use thiserror::Error;

/// Bytes of a host memory page.
pub const PAGE_BYTES: u64 = 4096;

/// An access outside what the host gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it began.
    pub address: u64,
    /// How many bytes it wanted.
    pub bytes: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} are not memory that the host gave", self.bytes, self.address)
    }
}

impl std::error::Error for Fault {}

/// How far memory has come: counts the times at which regions were unmapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// Later than any: for what need not have been there before.
    pub const LAST: Epoch = Epoch(u64::MAX);
}

/// Memory of the other process that is not shared: reached by messages to it.
///
/// Extents lie within the region that it was mapped for, but may have any alignment and, within that, any length.
/// Regions may be mapped and unmapped during a call.
pub trait Remote {
    /// Copies out of the other process's memory; waits for the answer.
    ///
    /// # Errors
    /// The other process refuses, or has gone.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault>;

    /// Copies into it; when this returns the other process has it, and sees it before what is written later.
    ///
    /// # Errors
    /// As for reading.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault>;
}

/// Where the bytes of a region are.
pub enum Backing<'a> {
    /// In a file, from `offset` on, a multiple of 4 KiB; shared with the other process.
    File {
        /// The file: a regular one, of whatever file system. It need not stay open.
        file: &'a std::fs::File,
        /// Where in it the region begins.
        offset: u64,
    },
    /// In the other process only.
    Remote(Rc<dyn Remote>),
}

/// What the device may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only read it.
    Read,
    /// Read and write it.
    ReadWrite,
    /// Nothing: the addresses are taken, that is all.
    None,
}

/// Why a region could not be mapped or unmapped.
#[derive(Debug, Error)]
pub enum MapError {
    /// Not whole pages, empty, beyond the address space or beyond the file.
    #[error("not whole pages of 4 KiB within the file and the address space, at least one")]
    Extent,
    /// It overlaps one that is there.
    #[error("it overlaps a region that is mapped")]
    Overlap,
    /// No such region, or only a part of one.
    #[error("there is no region, or only a part of one")]
    Unknown,
    /// There are too many.
    #[error("too many regions are mapped")]
    TooMany,
    /// The system said no; also that the descriptor is no regular file's (ENODEV).
    #[error("mapping failed: {0}")]
    System(#[from] std::io::Error),
}
