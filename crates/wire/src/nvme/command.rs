//! The submission queue entry, and the typed form of each supported command.
//!
//! A device parses once, at the edge: `ReadWrite::parse(&sqe)`. A host builds: `read.sqe(NvmOpcode::READ, cid, nsid)`.
//! Neither shifts a bit. Parsing accepts every value and drops reserved bits; the drive judges values.

mod admin;
mod management;
mod nvm;

pub use admin::{
    Abort, AsyncEventRequest, CreateCq, CreateSq, DeleteQueue, DoorbellBufferConfig, GetFeatures, GetLogPage,
    Identify, KeepAlive, QueuePriority, Select, SetFeatures,
};
pub use management::{DeviceSelfTest, FormatNvm, NamespaceAttachment, NamespaceManagement, Sanitize};
pub use nvm::{Copy, DatasetManagement, Flush, ReadWrite, WriteZeroes};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{SglDescriptor, assert_offsets};

/// PSDT 00b: PRPs describe the data.
pub const PSDT_PRP: u8 = 0b00;
/// PSDT 01b: an SGL describes the data, MPTR is the address of one contiguous buffer.
pub const PSDT_SGL: u8 = 0b01;
/// PSDT 10b: an SGL describes the data, MPTR is the address of an SGL segment.
pub const PSDT_SGL_METADATA_SGL: u8 = 0b10;

/// FUSE 00b: an ordinary command.
pub const FUSE_NONE: u8 = 0b00;
/// FUSE 01b: the first of a fused pair.
pub const FUSE_FIRST: u8 = 0b01;
/// FUSE 10b: the second of a fused pair.
pub const FUSE_SECOND: u8 = 0b10;

/// A submission queue entry of 64 bytes (NVMe Base 2.1, 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sqe {
    /// Opcode in bits 7:0, FUSE in 9:8, PSDT in 15:14, command identifier in 31:16.
    pub cdw0: u32,
    /// Namespace identifier.
    pub nsid: u32,
    /// Command dword 2.
    pub cdw2: u32,
    /// Command dword 3.
    pub cdw3: u32,
    /// Metadata pointer.
    pub mptr: u64,
    /// Data pointer: PRP entry 1, or the first half of an SGL descriptor.
    pub prp1: u64,
    /// Data pointer: PRP entry 2, or the second half of an SGL descriptor.
    pub prp2: u64,
    /// Command dword 10.
    pub cdw10: u32,
    /// Command dword 11.
    pub cdw11: u32,
    /// Command dword 12.
    pub cdw12: u32,
    /// Command dword 13.
    pub cdw13: u32,
    /// Command dword 14.
    pub cdw14: u32,
    /// Command dword 15.
    pub cdw15: u32,
}

assert_offsets!(Sqe: 64; cdw0 = 0, nsid = 4, cdw2 = 8, cdw3 = 12, mptr = 16, prp1 = 24, prp2 = 32,
    cdw10 = 40, cdw11 = 44, cdw12 = 48, cdw13 = 52, cdw14 = 56, cdw15 = 60);

impl Sqe {
    /// Bytes of an entry.
    pub const SIZE: usize = 64;

    /// A command without data and parameters.
    pub fn new(opcode: impl Into<u8>, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw0: u32::from(opcode.into()) | u32::from(cid) << 16, nsid, ..Sqe::default() }
    }

    /// Opcode.
    pub const fn opcode(&self) -> u8 {
        self.cdw0 as u8
    }

    /// Fused operation, 2 bits.
    pub const fn fuse(&self) -> u8 {
        (self.cdw0 >> 8 & 0b11) as u8
    }

    /// PRP or SGL for Data Transfer, 2 bits.
    pub const fn psdt(&self) -> u8 {
        (self.cdw0 >> 14 & 0b11) as u8
    }

    /// Command identifier.
    pub const fn cid(&self) -> u16 {
        (self.cdw0 >> 16) as u16
    }

    /// The data pointer read as an SGL descriptor.
    pub fn sgl(&self) -> SglDescriptor {
        zerocopy::transmute!([self.prp1, self.prp2])
    }

    /// Replaces the opcode.
    pub fn set_opcode(&mut self, opcode: impl Into<u8>) {
        self.cdw0 = self.cdw0 & !0xFF | u32::from(opcode.into());
    }

    /// Replaces the fused operation (2 bits).
    pub fn set_fuse(&mut self, fuse: u8) {
        self.cdw0 = self.cdw0 & !(0b11 << 8) | u32::from(fuse & 0b11) << 8;
    }

    /// Replaces PSDT (2 bits).
    pub fn set_psdt(&mut self, psdt: u8) {
        self.cdw0 = self.cdw0 & !(0b11 << 14) | u32::from(psdt & 0b11) << 14;
    }

    /// Replaces the command identifier.
    pub fn set_cid(&mut self, cid: u16) {
        self.cdw0 = self.cdw0 & 0xFFFF | u32::from(cid) << 16;
    }

    /// With another command identifier.
    pub fn with_cid(mut self, cid: u16) -> Sqe {
        self.set_cid(cid);
        self
    }

    /// With a fused operation (2 bits).
    pub fn with_fuse(mut self, fuse: u8) -> Sqe {
        self.set_fuse(fuse);
        self
    }

    /// With data described by PRPs.
    pub fn with_prp(mut self, prp1: u64, prp2: u64) -> Sqe {
        self.set_psdt(PSDT_PRP);
        self.prp1 = prp1;
        self.prp2 = prp2;
        self
    }

    /// With data described by an SGL that begins with `descriptor`.
    pub fn with_sgl(mut self, descriptor: SglDescriptor) -> Sqe {
        self.set_psdt(PSDT_SGL);
        [self.prp1, self.prp2] = zerocopy::transmute!(descriptor);
        self
    }

    /// With a metadata pointer.
    pub fn with_mptr(mut self, mptr: u64) -> Sqe {
        self.mptr = mptr;
        self
    }

    /// The bytes of the submission queue entry in memory.
    pub fn to_bytes(&self) -> [u8; Sqe::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// Decodes a submission queue entry from memory.
    pub fn from_bytes(bytes: &[u8; Sqe::SIZE]) -> Sqe {
        zerocopy::transmute!(*bytes)
    }
}

/// Bit `bit` of `dword`.
pub(super) const fn bit(dword: u32, bit: u32) -> bool {
    dword >> bit & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::NvmOpcode;

    /// Without this a foreign driver's entries would be misread.
    #[test]
    fn lies_in_memory_as_the_specification_says() {
        let mut sqe = ReadWrite { slba: 0x1_0000_0002, nlb_z: 7, fua: true, ..ReadWrite::default() }
            .sqe(NvmOpcode::WRITE, 0xBEEF, 5)
            .with_prp(0x1000, 0x2000);
        sqe.set_fuse(FUSE_SECOND);
        let bytes = sqe.to_bytes();
        assert_eq!(bytes[..8], [0x01, 0x02, 0xEF, 0xBE, 5, 0, 0, 0]);
        assert_eq!(bytes[24..40], [0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[40..52], [2, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0x40]);
        assert_eq!(Sqe::from_bytes(&bytes), sqe);
        assert_eq!((sqe.opcode(), sqe.fuse(), sqe.psdt(), sqe.cid()), (1, FUSE_SECOND, PSDT_PRP, 0xBEEF));
    }

    /// Without this an SGL descriptor in the data pointer would be decoded as another.
    #[test]
    fn data_pointer_holds_an_sgl_descriptor() {
        let descriptor = SglDescriptor::data_block(0xABCD_EF01_2345, 4096);
        let sqe = Sqe::new(NvmOpcode::READ, 1, 1).with_sgl(descriptor);
        assert_eq!(sqe.psdt(), PSDT_SGL);
        assert_eq!(sqe.sgl(), descriptor);
        assert_eq!(sqe.to_bytes()[24..40], descriptor.to_bytes());
        assert_eq!(sqe.with_prp(0, 0).psdt(), PSDT_PRP);
    }
}
