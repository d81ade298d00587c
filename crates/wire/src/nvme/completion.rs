//! The completion queue entry.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Status, assert_offsets};

/// A completion queue entry of 16 bytes (NVMe Base 2.1, 4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cqe {
    /// Command specific result.
    pub dw0: u32,
    /// Command specific result, second dword.
    pub dw1: u32,
    /// Submission queue head: the host may reuse the entries before it.
    pub sqhd: u16,
    /// The submission queue of the command.
    pub sqid: u16,
    /// The command's identifier.
    pub cid: u16,
    /// Status in bits 15:1, phase tag in bit 0.
    pub status_phase: u16,
}

assert_offsets!(Cqe: 16; dw0 = 0, dw1 = 4, sqhd = 8, sqid = 10, cid = 12, status_phase = 14);

impl Cqe {
    /// Bytes of an entry.
    pub const SIZE: usize = 16;

    /// The completion of command `cid` of queue `sqid`, with result dwords 0 and phase 0.
    pub const fn new(cid: u16, status: Status, sqid: u16, sqhd: u16) -> Cqe {
        Cqe { dw0: 0, dw1: 0, sqhd, sqid, cid, status_phase: status.bits() << 1 }
    }

    /// With the first result dword.
    pub const fn with_dw0(self, dw0: u32) -> Cqe {
        Cqe { dw0, ..self }
    }

    /// With the second result dword.
    pub const fn with_dw1(self, dw1: u32) -> Cqe {
        Cqe { dw1, ..self }
    }

    /// With the phase tag, which inverts with each pass over the queue and so marks new entries.
    pub const fn with_phase(self, phase: bool) -> Cqe {
        Cqe { status_phase: self.status_phase & !1 | phase as u16, ..self }
    }

    /// With another status and the same phase tag.
    pub const fn with_status(self, status: Status) -> Cqe {
        Cqe { status_phase: status.bits() << 1 | self.status_phase & 1, ..self }
    }

    /// The command's status.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status_phase >> 1)
    }

    /// The phase tag.
    pub const fn phase(&self) -> bool {
        self.status_phase & 1 == 1
    }

    /// The four dwords in order. The last one holds the phase tag: write it to shared memory after the other three.
    pub const fn dwords(&self) -> [u32; 4] {
        [
            self.dw0,
            self.dw1,
            self.sqhd as u32 | (self.sqid as u32) << 16,
            self.cid as u32 | (self.status_phase as u32) << 16,
        ]
    }

    /// The bytes of the completion queue entry in memory.
    pub fn to_bytes(&self) -> [u8; Cqe::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// Decodes a completion queue entry from memory.
    pub fn from_bytes(bytes: &[u8; Cqe::SIZE]) -> Cqe {
        zerocopy::transmute!(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a foreign driver would read another status than the one posted.
    #[test]
    fn lies_in_memory_as_the_specification_says() {
        let cqe = Cqe::new(0x1234, Status::LBA_OUT_OF_RANGE.with_dnr(), 3, 0x0102)
            .with_dw0(0xAABB_CCDD)
            .with_phase(true);
        let bytes = cqe.to_bytes();
        assert_eq!(bytes, [0xDD, 0xCC, 0xBB, 0xAA, 0, 0, 0, 0, 0x02, 0x01, 3, 0, 0x34, 0x12, 0x01, 0x81]);
        assert_eq!(cqe.dwords()[3], 0x8101_1234);
        assert_eq!(Cqe::from_bytes(&bytes), cqe);
        assert!(cqe.phase() && !cqe.with_phase(false).phase());
        assert_eq!(cqe.with_phase(false).status(), Status::LBA_OUT_OF_RANGE.with_dnr());
        assert!(cqe.with_status(Status::SUCCESS).phase());
    }
}
