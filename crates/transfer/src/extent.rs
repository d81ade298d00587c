//! Where a part of a payload lies, or that it lies nowhere.

use byteway_wire::nvme::Segment;

/// A part of a payload's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// In host memory.
    Memory(Segment),
    /// Nowhere: an SGL bit bucket, in reads.
    Discard {
        /// How many bytes are not sent.
        bytes: u32,
    },
}

impl Extent {
    /// Its length.
    pub fn bytes(self) -> u32 {
        match self {
            Extent::Memory(segment) => segment.bytes,
            Extent::Discard { bytes } => bytes,
        }
    }
}
