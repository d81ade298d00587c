//! The ranges in the data of Dataset Management and Copy.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;

/// Maximum number of ranges of a command: NR is a zero-based byte.
pub const RANGES_MAX: usize = 256;

/// A range of logical blocks of 16 bytes (NVM Command Set 1.1, 3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Range {
    /// Context attributes: hints about how the range is accessed.
    pub context: u32,
    /// Length in logical blocks, not zero-based: 0 is an empty range.
    pub length: u32,
    /// First logical block.
    pub slba: u64,
}

assert_offsets!(Range: 16; context = 0, length = 4, slba = 8);

impl Range {
    /// Bytes of a range.
    pub const SIZE: usize = 16;

    /// `length` blocks from `slba` on, without attributes.
    pub const fn new(slba: u64, length: u32) -> Range {
        Range { context: 0, length, slba }
    }

    /// The block after the last one; `None` if it exceeds 64 bits.
    pub const fn end(&self) -> Option<u64> {
        self.slba.checked_add(self.length as u64)
    }

    /// The range as it lies in memory.
    pub fn to_bytes(&self) -> [u8; Range::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// The range that lies in memory as `bytes`.
    pub fn from_bytes(bytes: &[u8; Range::SIZE]) -> Range {
        zerocopy::transmute!(*bytes)
    }

    /// The whole ranges in `bytes`, in order; a remainder of less than 16 bytes is ignored.
    pub fn parse_list(bytes: &[u8]) -> impl ExactSizeIterator<Item = Range> + '_ {
        let (ranges, _rest) = bytes.as_chunks::<{ Range::SIZE }>();
        ranges.iter().map(Range::from_bytes)
    }
}

/// A source range of a Copy in descriptor format 0h, 32 bytes (NVM Command Set 1.1, 3.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CopyRange {
    #[doc(hidden)]
    pub reserved_0: [u8; 8],
    /// First logical block.
    pub slba: u64,
    /// Number of logical blocks, zero-based.
    pub nlb_z: u16,
    #[doc(hidden)]
    pub reserved_18: [u8; 6],
    /// Expected initial logical block reference tag.
    pub reftag: u32,
    /// Expected logical block application tag.
    pub apptag: u16,
    /// Expected logical block application tag mask.
    pub apptag_mask: u16,
}

assert_offsets!(CopyRange: 32; slba = 8, nlb_z = 16, reftag = 24, apptag = 28, apptag_mask = 30);

impl CopyRange {
    /// Bytes of a range.
    pub const SIZE: usize = 32;

    /// `blocks` blocks from `slba` on, 1 to 65536.
    ///
    /// # Panics
    /// If `blocks` is 0 or above 65536.
    pub fn new(slba: u64, blocks: u32) -> CopyRange {
        let nlb_z = blocks.checked_sub(1).and_then(|blocks| u16::try_from(blocks).ok());
        CopyRange { slba, nlb_z: nlb_z.expect("from 1 to 65536 blocks"), ..CopyRange::default() }
    }

    /// Number of logical blocks, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.nlb_z as u32 + 1
    }

    /// The range as it lies in memory.
    pub fn to_bytes(&self) -> [u8; CopyRange::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// The range that lies in memory as `bytes`.
    pub fn from_bytes(bytes: &[u8; CopyRange::SIZE]) -> CopyRange {
        zerocopy::transmute!(*bytes)
    }

    /// The whole ranges in `bytes`, in order; a remainder of less than 32 bytes is ignored.
    pub fn parse_list(bytes: &[u8]) -> impl ExactSizeIterator<Item = CopyRange> + '_ {
        let (ranges, _rest) = bytes.as_chunks::<{ CopyRange::SIZE }>();
        ranges.iter().map(CopyRange::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a Copy would read other blocks than those named.
    #[test]
    fn a_source_range_lies_in_memory_as_the_specification_says() {
        let bytes = CopyRange::new(0x0102, 0x1_0000).to_bytes();
        assert_eq!((bytes[8], bytes[9], bytes[16], bytes[17]), (2, 1, 0xff, 0xff));
        assert_eq!(CopyRange::parse_list(&[bytes, bytes].concat()).next().unwrap().blocks(), 0x1_0000);
    }

    /// Without this a Dataset Management would deallocate other blocks than those named.
    #[test]
    fn lies_in_memory_as_the_specification_says() {
        let range = Range { context: 1, length: 2, slba: 0x0102_0304_0506_0708 };
        let bytes = range.to_bytes();
        assert_eq!(bytes, [1, 0, 0, 0, 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1]);
        let mut list = bytes.to_vec();
        list.extend([0; 20]);
        assert_eq!(Range::parse_list(&list).collect::<Vec<_>>(), [range, Range::default()]);
        assert_eq!(Range::new(u64::MAX, 1).end(), None);
    }
}
