//! The Subsystem Local Memory command set (NVMe Subsystem Local Memory Command Set 1.0): commands, parsed and built.
//!
//! | field | Memory Read, Write, Fill | Memory Copy |
//! |---|---|---|
//! | CDW1 | memory namespace | destination memory namespace |
//! | CDW2, 3 | 0 | total length |
//! | DPTR | Read, Write: the data | the source ranges |
//! | CDW10, 11 | first byte | first byte |
//! | CDW12 | length | bits 7:0 source ranges, zero-based; bits 11:8 their format |
//!
//! Addresses and lengths are in bytes, and multiples of [`GRANULARITY`]. Opcodes and fields follow two public
//! implementations of the command set, a target's and a host library's, which agree. Where the text of the
//! specification was not available, Byteway's own choices are: Memory Fill fills with zeroes, and the layout
//! of [`LocalMemoryIdentify`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;
use super::command::Sqe;
use super::opcode::opcodes;

/// Command Set Identifier.
pub const CSI: u8 = 0x03;

opcodes! {
    /// An opcode of an I/O queue under the Subsystem Local Memory command set.
    LocalMemoryOpcode, vendor specific from 0x80 {
        MEMORY_COPY = 0x01, "Memory Copy";
        MEMORY_READ = 0x02, "Memory Read";
        MEMORY_FILL = 0x04, "Memory Fill";
        MEMORY_WRITE = 0x05, "Memory Write";
    }
}

/// Granularity of addresses and lengths, in bytes.
pub const GRANULARITY: u32 = 4;

/// Memory Read, Memory Write or Memory Fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryAccess {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u32,
}

impl MemoryAccess {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> MemoryAccess {
        MemoryAccess { start: sqe.cdw10 as u64 | (sqe.cdw11 as u64) << 32, bytes: sqe.cdw12 }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, opcode: LocalMemoryOpcode, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: self.start as u32,
            cdw11: (self.start >> 32) as u32,
            cdw12: self.bytes,
            ..Sqe::new(opcode, cid, nsid)
        }
    }
}

/// Memory Copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCopy {
    /// First destination byte.
    pub to: u64,
    /// Total length of the source ranges, in bytes.
    pub bytes: u64,
    /// Number of source ranges, zero-based.
    pub ranges_z: u8,
    /// Descriptor format of the source ranges: [`MemoryCopy::BLOCKS`] or [`MemoryCopy::BYTES`].
    pub format: u8,
}

impl MemoryCopy {
    /// Source ranges are [`BlocksRange`]s (descriptor format 2h).
    pub const BLOCKS: u8 = 0x2;
    /// Source ranges are [`BytesRange`]s (descriptor format 4h).
    pub const BYTES: u8 = 0x4;

    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> MemoryCopy {
        MemoryCopy {
            to: sqe.cdw10 as u64 | (sqe.cdw11 as u64) << 32,
            bytes: sqe.cdw2 as u64 | (sqe.cdw3 as u64) << 32,
            ranges_z: sqe.cdw12 as u8,
            format: (sqe.cdw12 >> 8 & 0xf) as u8,
        }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw2: self.bytes as u32,
            cdw3: (self.bytes >> 32) as u32,
            cdw10: self.to as u32,
            cdw11: (self.to >> 32) as u32,
            cdw12: u32::from(self.ranges_z) | u32::from(self.format & 0xf) << 8,
            ..Sqe::new(LocalMemoryOpcode::MEMORY_COPY, cid, nsid)
        }
    }

    /// Number of source ranges, 1 to 256.
    pub const fn ranges(&self) -> usize {
        self.ranges_z as usize + 1
    }
}

/// A source range of logical blocks, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BlocksRange {
    /// Block namespace.
    pub snsid: u32,
    #[doc(hidden)]
    pub reserved_4: [u8; 4],
    /// First block.
    pub slba: u64,
    /// Number of blocks, zero-based.
    pub nlb_z: u16,
    #[doc(hidden)]
    pub reserved_18: [u8; 4],
    /// Options: [`FAST_ONLY`].
    pub sopt: u16,
    #[doc(hidden)]
    pub reserved_24: [u8; 8],
}

assert_offsets!(BlocksRange: 32; snsid = 0, slba = 8, nlb_z = 16, sopt = 22, reserved_24 = 24);

/// A source range of bytes of a memory namespace, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BytesRange {
    /// Memory namespace.
    pub snsid: u32,
    #[doc(hidden)]
    pub reserved_4: [u8; 4],
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u32,
    #[doc(hidden)]
    pub reserved_20: [u8; 2],
    /// Options: [`FAST_ONLY`].
    pub sopt: u16,
    #[doc(hidden)]
    pub reserved_24: [u8; 8],
}

assert_offsets!(BytesRange: 32; snsid = 0, start = 8, bytes = 16, sopt = 22, reserved_24 = 24);

/// Option of a source range: fail unless the copy is fast.
pub const FAST_ONLY: u16 = 1;

/// The Identify Namespace data structure of a memory namespace (CNS 05h); the remaining bytes are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LocalMemoryIdentify {
    /// Size of the namespace, in bytes.
    pub nsze: u64,
    /// Granularity of addresses and lengths, in bytes.
    pub granularity: u32,
    /// Maximum length of a Memory Read or Memory Write, in bytes.
    pub transfer_bytes_max: u32,
    /// Maximum length of a Memory Copy, in bytes.
    pub copy_bytes_max: u32,
    /// Maximum number of source ranges of a Memory Copy.
    pub copy_ranges_max: u32,
}

assert_offsets!(LocalMemoryIdentify: 24; nsze = 0, granularity = 8, transfer_bytes_max = 12, copy_bytes_max = 16,
    copy_ranges_max = 20);

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host's bytes would land elsewhere than it meant.
    #[test]
    fn commands_come_back_as_they_were_built() {
        let access = MemoryAccess { start: 0x1_2345_6788, bytes: 0x40 };
        let sqe = access.sqe(LocalMemoryOpcode::MEMORY_WRITE, 3, 9);
        assert_eq!((sqe.opcode(), MemoryAccess::parse(&sqe)), (0x05, access));
        assert_eq!(sqe.to_bytes()[40..52], [0x88, 0x67, 0x45, 0x23, 1, 0, 0, 0, 0x40, 0, 0, 0]);
        let copy =
            MemoryCopy { to: 0x1_0000_0004, bytes: 0x2_0000_0008, ranges_z: 6, format: MemoryCopy::BYTES };
        let sqe = copy.sqe(3, 9);
        assert_eq!((sqe.opcode(), MemoryCopy::parse(&sqe), copy.ranges()), (0x01, copy, 7));
        assert_eq!((sqe.cdw2, sqe.cdw3, sqe.cdw12), (8, 2, 0x406));
    }
}
