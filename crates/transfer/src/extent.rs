//! Location of part of a payload in memory, or that it is discarded.

use byteway_wire::nvme::Segment;

/// Part of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// In host memory.
    Memory(Segment),
    /// Discarded: an SGL bit bucket, in reads.
    Discard {
        /// Number of bytes that are not transferred.
        bytes: u32,
    },
}

impl Extent {
    /// Length in bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Extent::Memory(segment) => segment.bytes,
            Extent::Discard { bytes } => bytes,
        }
    }
}
