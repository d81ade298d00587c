//! The commands of the NVM command set (NVM Command Set 1.1, 3.2).

use super::{Sqe, bit};
use crate::nvme::NvmOpcode;

/// Read, Write, Compare, Verify and Write Uncorrectable: the same layout with different opcodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadWrite {
    /// First logical block.
    pub slba: u64,
    /// Number of logical blocks, zero-based.
    pub nlb_z: u16,
    /// Force Unit Access: a write completes when it is on the media.
    pub fua: bool,
    /// Limited Retry.
    pub limited_retry: bool,
    /// Protection Information, 4 bits: PRACT in bit 3, PRCHK in bits 2:0.
    pub prinfo: u8,
    /// Storage Tag Check.
    pub stc: bool,
    /// Directive type, 4 bits (Write only).
    pub dtype: u8,
    /// Directive specific (Write only).
    pub dspec: u16,
    /// Dataset Management hints of the command.
    pub dsm: u8,
    /// Initial or expected initial logical block reference tag, low 32 bits.
    pub reftag: u32,
    /// Logical block application tag.
    pub apptag: u16,
    /// Logical block application tag mask.
    pub apptag_mask: u16,
}

impl ReadWrite {
    /// The fields of a Read, Write, Compare, Verify or Write Uncorrectable (which uses `slba` and `nlb_z` only).
    pub const fn parse(sqe: &Sqe) -> ReadWrite {
        ReadWrite {
            slba: slba(sqe),
            nlb_z: sqe.cdw12 as u16,
            fua: bit(sqe.cdw12, 30),
            limited_retry: bit(sqe.cdw12, 31),
            prinfo: (sqe.cdw12 >> 26 & 0xF) as u8,
            stc: bit(sqe.cdw12, 24),
            dtype: (sqe.cdw12 >> 20 & 0xF) as u8,
            dspec: (sqe.cdw13 >> 16) as u16,
            dsm: sqe.cdw13 as u8,
            reftag: sqe.cdw14,
            apptag: sqe.cdw15 as u16,
            apptag_mask: (sqe.cdw15 >> 16) as u16,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, opcode: NvmOpcode, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = with_slba(Sqe::new(opcode, cid, nsid), self.slba);
        sqe.cdw12 = u32::from(self.nlb_z)
            | u32::from(self.dtype & 0xF) << 20
            | u32::from(self.stc) << 24
            | u32::from(self.prinfo & 0xF) << 26
            | u32::from(self.fua) << 30
            | u32::from(self.limited_retry) << 31;
        sqe.cdw13 = u32::from(self.dsm) | u32::from(self.dspec) << 16;
        sqe.cdw14 = self.reftag;
        sqe.cdw15 = u32::from(self.apptag) | u32::from(self.apptag_mask) << 16;
        sqe
    }

    /// Number of logical blocks, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.nlb_z as u32 + 1
    }

    /// The block after the last one; `None` if it exceeds 64 bits.
    pub const fn end(&self) -> Option<u64> {
        self.slba.checked_add(self.blocks() as u64)
    }
}

/// Write Zeroes (NVM Command Set 1.1, 3.2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteZeroes {
    /// First logical block.
    pub slba: u64,
    /// Number of logical blocks, zero-based.
    pub nlb_z: u16,
    /// Deallocate: the blocks may be deallocated rather than written.
    pub deac: bool,
    /// Force Unit Access.
    pub fua: bool,
    /// Limited Retry.
    pub limited_retry: bool,
    /// Protection Information, 4 bits.
    pub prinfo: u8,
    /// Storage Tag Check.
    pub stc: bool,
    /// Namespace Zeroes: zeroes the whole namespace.
    pub nsz: bool,
}

impl WriteZeroes {
    /// The fields of a Write Zeroes.
    pub const fn parse(sqe: &Sqe) -> WriteZeroes {
        WriteZeroes {
            slba: slba(sqe),
            nlb_z: sqe.cdw12 as u16,
            deac: bit(sqe.cdw12, 25),
            fua: bit(sqe.cdw12, 30),
            limited_retry: bit(sqe.cdw12, 31),
            prinfo: (sqe.cdw12 >> 26 & 0xF) as u8,
            stc: bit(sqe.cdw12, 24),
            nsz: bit(sqe.cdw12, 23),
        }
    }

    /// The command.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = with_slba(Sqe::new(NvmOpcode::WRITE_ZEROES, cid, nsid), self.slba);
        sqe.cdw12 = u32::from(self.nlb_z)
            | u32::from(self.nsz) << 23
            | u32::from(self.stc) << 24
            | u32::from(self.deac) << 25
            | u32::from(self.prinfo & 0xF) << 26
            | u32::from(self.fua) << 30
            | u32::from(self.limited_retry) << 31;
        sqe
    }

    /// Number of logical blocks, 1 to 65536.
    pub const fn blocks(&self) -> u32 {
        self.nlb_z as u32 + 1
    }

    /// The block after the last one; `None` if it exceeds 64 bits.
    pub const fn end(&self) -> Option<u64> {
        self.slba.checked_add(self.blocks() as u64)
    }
}

/// Dataset Management (NVM Command Set 1.1, 3.2.3); its ranges lie in its data, see [`crate::nvme::Range`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatasetManagement {
    /// Number of ranges, zero-based.
    pub nr_z: u8,
    /// Attribute Deallocate: the ranges are trimmed.
    pub ad: bool,
    /// Attribute Integral Dataset for Read.
    pub idr: bool,
    /// Attribute Integral Dataset for Write.
    pub idw: bool,
}

impl DatasetManagement {
    /// The fields of a Dataset Management.
    pub const fn parse(sqe: &Sqe) -> DatasetManagement {
        DatasetManagement {
            nr_z: sqe.cdw10 as u8,
            ad: bit(sqe.cdw11, 2),
            idr: bit(sqe.cdw11, 0),
            idw: bit(sqe.cdw11, 1),
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT, cid, nsid);
        sqe.cdw10 = u32::from(self.nr_z);
        sqe.cdw11 = u32::from(self.idr) | u32::from(self.idw) << 1 | u32::from(self.ad) << 2;
        sqe
    }

    /// Number of ranges, 1 to 256.
    pub const fn ranges(&self) -> usize {
        self.nr_z as usize + 1
    }

    /// Bytes of the ranges, 16 to 4096.
    pub const fn bytes(&self) -> u32 {
        self.ranges() as u32 * crate::nvme::Range::SIZE as u32
    }
}

/// Copy (NVM Command Set 1.1, 3.2.2); its source ranges lie in its data, see [`crate::nvme::CopyRange`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// First logical block of the destination.
    pub sdlba: u64,
    /// Number of source ranges, zero-based.
    pub nr_z: u8,
    /// Descriptor format of the ranges, 4 bits.
    pub format: u8,
    /// Protection Information of the blocks read, 4 bits.
    pub prinfo_read: u8,
    /// Protection Information of the blocks written, 4 bits.
    pub prinfo_write: u8,
    /// Directive type, 4 bits.
    pub dtype: u8,
    /// Directive specific.
    pub dspec: u16,
    /// Storage Tag Check of the blocks read.
    pub stc_read: bool,
    /// Storage Tag Check of the blocks written.
    pub stc_write: bool,
    /// Force Unit Access, of the blocks written.
    pub fua: bool,
    /// Limited Retry.
    pub limited_retry: bool,
}

impl Copy {
    /// The fields of a Copy.
    pub const fn parse(sqe: &Sqe) -> Copy {
        Copy {
            sdlba: slba(sqe),
            nr_z: sqe.cdw12 as u8,
            format: (sqe.cdw12 >> 8 & 0xF) as u8,
            prinfo_read: (sqe.cdw12 >> 12 & 0xF) as u8,
            dtype: (sqe.cdw12 >> 20 & 0xF) as u8,
            stc_write: bit(sqe.cdw12, 24),
            stc_read: bit(sqe.cdw12, 25),
            prinfo_write: (sqe.cdw12 >> 26 & 0xF) as u8,
            fua: bit(sqe.cdw12, 30),
            limited_retry: bit(sqe.cdw12, 31),
            dspec: (sqe.cdw13 >> 16) as u16,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = with_slba(Sqe::new(NvmOpcode::COPY, cid, nsid), self.sdlba);
        sqe.cdw12 = u32::from(self.nr_z)
            | u32::from(self.format & 0xF) << 8
            | u32::from(self.prinfo_read & 0xF) << 12
            | u32::from(self.dtype & 0xF) << 20
            | u32::from(self.stc_write) << 24
            | u32::from(self.stc_read) << 25
            | u32::from(self.prinfo_write & 0xF) << 26
            | u32::from(self.fua) << 30
            | u32::from(self.limited_retry) << 31;
        sqe.cdw13 = u32::from(self.dspec) << 16;
        sqe
    }

    /// Number of source ranges, 1 to 256.
    pub const fn ranges(&self) -> usize {
        self.nr_z as usize + 1
    }
}

/// Flush (NVMe Base 2.1, 7.2): when it completes, all writes completed before it are on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flush;

impl Flush {
    /// Decodes the command, which has no fields of its own.
    pub const fn parse(_sqe: &Sqe) -> Flush {
        Flush
    }

    /// The command; `nsid` may be [`crate::nvme::NSID_ALL`].
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe::new(NvmOpcode::FLUSH, cid, nsid)
    }
}

const fn slba(sqe: &Sqe) -> u64 {
    sqe.cdw10 as u64 | (sqe.cdw11 as u64) << 32
}

fn with_slba(mut sqe: Sqe, slba: u64) -> Sqe {
    sqe.cdw10 = slba as u32;
    sqe.cdw11 = (slba >> 32) as u32;
    sqe
}
