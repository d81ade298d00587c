//! The controller's registers in BAR0, and its doorbells (NVMe Base 2.1, 3.1.4; PCIe Transport 1.1, 3.1.2).

use bitfield_struct::bitfield;

/// Controller Capabilities, 8 bytes.
pub const CAP: u64 = 0x0;
/// Version.
pub const VS: u64 = 0x8;
/// Interrupt Mask Set.
pub const INTMS: u64 = 0xC;
/// Interrupt Mask Clear.
pub const INTMC: u64 = 0x10;
/// Controller Configuration.
pub const CC: u64 = 0x14;
/// Controller Status.
pub const CSTS: u64 = 0x1C;
/// NVM Subsystem Reset.
pub const NSSR: u64 = 0x20;
/// Admin Queue Attributes.
pub const AQA: u64 = 0x24;
/// Admin Submission Queue base address, 8 bytes.
pub const ASQ: u64 = 0x28;
/// Admin Completion Queue base address, 8 bytes.
pub const ACQ: u64 = 0x30;
/// Controller Memory Buffer Location.
pub const CMBLOC: u64 = 0x38;
/// Controller Memory Buffer Size.
pub const CMBSZ: u64 = 0x3C;
/// Boot Partition Information.
pub const BPINFO: u64 = 0x40;
/// Boot Partition Read Select.
pub const BPRSEL: u64 = 0x44;
/// Boot Partition Memory Buffer Location, 8 bytes.
pub const BPMBL: u64 = 0x48;
/// Controller Memory Buffer Memory Space Control, 8 bytes.
pub const CMBMSC: u64 = 0x50;
/// Controller Memory Buffer Status.
pub const CMBSTS: u64 = 0x58;
/// Controller Memory Buffer Elasticity Buffer Size.
pub const CMBEBS: u64 = 0x5C;
/// Controller Memory Buffer Sustained Write Throughput.
pub const CMBSWTP: u64 = 0x60;
/// NVM Subsystem Shutdown.
pub const NSSD: u64 = 0x64;
/// Controller Ready Timeouts.
pub const CRTO: u64 = 0x68;
/// Persistent Memory Region Capabilities; the region's other registers follow up to 0xE1B.
pub const PMRCAP: u64 = 0xE00;
/// The first doorbell: the admin submission queue's tail.
pub const DOORBELLS: u64 = 0x1000;

/// The value for [`NSSR`] that resets the subsystem: "NVMe".
pub const NSSR_RESET: u32 = 0x4E56_4D65;

/// Controller Capabilities (NVMe Base 2.1, 3.1.4.1).
#[bitfield(u64)]
#[derive(PartialEq, Eq)]
pub struct Cap {
    /// Maximum Queue Entries Supported, zero-based.
    pub mqes_z: u16,
    /// Contiguous Queues Required.
    pub cqr: bool,
    /// Arbitration Mechanism Supported: bit 0 weighted round robin with urgent, bit 1 vendor specific.
    #[bits(2)]
    pub ams: u8,
    #[bits(5)]
    __: u8,
    /// Timeout for a change of ready, in units of 500 ms.
    pub to: u8,
    /// Doorbell Stride: doorbells are 2^(2 + DSTRD) bytes apart.
    #[bits(4)]
    pub dstrd: u8,
    /// NVM Subsystem Reset Supported.
    pub nssrs: bool,
    /// Command Sets Supported: bit 0 NVM, bit 6 one or more sets by Identify, bit 7 no I/O command set.
    pub css: u8,
    /// Boot Partition Support.
    pub bps: bool,
    /// Controller Power Scope.
    #[bits(2)]
    pub cps: u8,
    /// Memory Page Size Minimum: 2^(12 + MPSMIN) bytes.
    #[bits(4)]
    pub mpsmin: u8,
    /// Memory Page Size Maximum: 2^(12 + MPSMAX) bytes.
    #[bits(4)]
    pub mpsmax: u8,
    /// Persistent Memory Region Supported.
    pub pmrs: bool,
    /// Controller Memory Buffer Supported.
    pub cmbs: bool,
    /// NVM Subsystem Shutdown Supported.
    pub nsss: bool,
    /// Controller Ready Modes Supported.
    #[bits(2)]
    pub crms: u8,
    /// NVM Subsystem Shutdown Enhancements Supported.
    pub nsses: bool,
    #[bits(2)]
    __: u8,
}

/// Version (NVMe Base 2.1, 3.1.4.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Vs {
    /// Tertiary version number.
    pub ter: u8,
    /// Minor version number.
    pub mnr: u8,
    /// Major version number.
    pub mjr: u16,
}

impl Vs {
    /// NVMe 1.4.
    pub const V1_4: Vs = Vs::new().with_mjr(1).with_mnr(4);
    /// NVMe 2.0.
    pub const V2_0: Vs = Vs::new().with_mjr(2);
    /// NVMe 2.1.
    pub const V2_1: Vs = Vs::new().with_mjr(2).with_mnr(1);
}

/// Controller Configuration (NVMe Base 2.1, 3.1.4.5).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Cc {
    /// Enable.
    pub en: bool,
    #[bits(3)]
    __: u8,
    /// Command Set Selected.
    #[bits(3)]
    pub css: u8,
    /// Memory Page Size: 2^(12 + MPS) bytes.
    #[bits(4)]
    pub mps: u8,
    /// Arbitration Mechanism Selected.
    #[bits(3)]
    pub ams: u8,
    /// Shutdown Notification.
    #[bits(2)]
    pub shn: u8,
    /// I/O Submission Queue Entry Size: 2^IOSQES bytes, 6 for 64.
    #[bits(4)]
    pub iosqes: u8,
    /// I/O Completion Queue Entry Size: 2^IOCQES bytes, 4 for 16.
    #[bits(4)]
    pub iocqes: u8,
    /// Controller Ready Independent of Media Enable.
    pub crime: bool,
    #[bits(7)]
    __: u8,
}

impl Cc {
    /// CSS: the NVM command set.
    pub const CSS_NVM: u8 = 0b000;
    /// CSS: all supported I/O command sets.
    pub const CSS_ALL: u8 = 0b110;
    /// CSS: admin command set only.
    pub const CSS_ADMIN: u8 = 0b111;
    /// AMS: round robin.
    pub const AMS_ROUND_ROBIN: u8 = 0b000;
    /// AMS: weighted round robin with urgent priority class.
    pub const AMS_WEIGHTED_ROUND_ROBIN: u8 = 0b001;
    /// AMS: vendor specific.
    pub const AMS_VENDOR: u8 = 0b111;
    /// SHN: no notification.
    pub const SHN_NONE: u8 = 0b00;
    /// SHN: normal shutdown.
    pub const SHN_NORMAL: u8 = 0b01;
    /// SHN: abrupt shutdown.
    pub const SHN_ABRUPT: u8 = 0b10;

    /// Memory page size in bytes, 4 KiB to 128 MiB.
    pub const fn page_bytes(self) -> u32 {
        1 << (12 + self.mps())
    }
}

/// Controller Status (NVMe Base 2.1, 3.1.4.6).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Csts {
    /// Ready.
    pub rdy: bool,
    /// Controller Fatal Status.
    pub cfs: bool,
    /// Shutdown Status.
    #[bits(2)]
    pub shst: u8,
    /// NVM Subsystem Reset Occurred; written 1 to clear.
    pub nssro: bool,
    /// Processing Paused.
    pub pp: bool,
    /// Shutdown Type: the shutdown is the subsystem's.
    pub st: bool,
    #[bits(25)]
    __: u32,
}

impl Csts {
    /// SHST: normal operation.
    pub const SHST_NORMAL: u8 = 0b00;
    /// SHST: shutdown processing occurring.
    pub const SHST_OCCURRING: u8 = 0b01;
    /// SHST: shutdown processing complete.
    pub const SHST_COMPLETE: u8 = 0b10;
}

/// Admin Queue Attributes (NVMe Base 2.1, 3.1.4.8).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Aqa {
    /// Admin Submission Queue Size, zero-based, 12 bits.
    #[bits(12)]
    pub asqs_z: u16,
    #[bits(4)]
    __: u8,
    /// Admin Completion Queue Size, zero-based, 12 bits.
    #[bits(12)]
    pub acqs_z: u16,
    #[bits(4)]
    __: u8,
}

/// A doorbell, by the queue that it belongs to (PCIe Transport 1.1, 3.1.2.1 and 3.1.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doorbell {
    /// The tail of this submission queue.
    SubmissionTail(u16),
    /// The head of this completion queue.
    CompletionHead(u16),
}

impl Doorbell {
    /// The doorbell's offset in BAR0; `dstrd` (4 bits) is CAP.DSTRD.
    pub const fn offset(self, dstrd: u8) -> u64 {
        let index = match self {
            Doorbell::SubmissionTail(qid) => 2 * qid as u64,
            Doorbell::CompletionHead(qid) => 2 * qid as u64 + 1,
        };
        DOORBELLS + index * stride_bytes(dstrd)
    }

    /// The doorbell at `offset`; `None` below the doorbells, between two of them, or past those of the last possible
    /// queue.
    pub const fn decode(offset: u64, dstrd: u8) -> Option<Doorbell> {
        let Some(from_first) = offset.checked_sub(DOORBELLS) else { return None };
        if !from_first.is_multiple_of(stride_bytes(dstrd)) {
            return None;
        }
        let index = from_first / stride_bytes(dstrd);
        if index / 2 > u16::MAX as u64 {
            return None;
        }
        let qid = (index / 2) as u16;
        Some(if index.is_multiple_of(2) {
            Doorbell::SubmissionTail(qid)
        } else {
            Doorbell::CompletionHead(qid)
        })
    }
}

const fn stride_bytes(dstrd: u8) -> u64 {
    4 << (dstrd & 0xF)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a driver would configure another controller than intended.
    #[test]
    fn bits_are_where_the_specification_says() {
        let cap =
            Cap::new().with_mqes_z(1023).with_cqr(true).with_to(20).with_dstrd(1).with_css(1).with_mpsmax(4);
        assert_eq!(cap.into_bits(), 1023 | 1 << 16 | 20 << 24 | 1 << 32 | 1 << 37 | 4 << 52);
        assert_eq!(Cap::new().with_pmrs(true).with_crms(3).into_bits(), 1 << 56 | 3 << 59);
        assert_eq!(Vs::V1_4.into_bits(), 0x0001_0400);
        let cc = Cc::from_bits(0x0046_0001);
        assert_eq!((cc.en(), cc.iosqes(), cc.iocqes(), cc.page_bytes()), (true, 6, 4, 4096));
        assert_eq!(Cc::new().with_shn(2).with_ams(1).with_mps(3).into_bits(), 2 << 14 | 1 << 11 | 3 << 7);
        assert_eq!(Csts::new().with_rdy(true).with_shst(2).with_pp(true).into_bits(), 0x29);
        assert_eq!(Aqa::new().with_asqs_z(31).with_acqs_z(63).into_bits(), 0x003F_001F);
    }

    /// Without this a write between two doorbells would count as a write of one of them.
    #[test]
    fn doorbells_decode_only_where_they_are() {
        assert_eq!(Doorbell::SubmissionTail(0).offset(0), 0x1000);
        assert_eq!(Doorbell::CompletionHead(0).offset(0), 0x1004);
        assert_eq!(Doorbell::SubmissionTail(3).offset(0), 0x1018);
        assert_eq!(Doorbell::CompletionHead(1).offset(4), 0x1000 + 3 * 64);
        assert_eq!(Doorbell::decode(0xFFC, 0), None);
        assert_eq!(Doorbell::decode(0x1002, 0), None);
        assert_eq!(Doorbell::decode(0x1004, 1), None);
        assert_eq!(Doorbell::decode(0x1008, 1), Some(Doorbell::CompletionHead(0)));
        assert_eq!(Doorbell::decode(0x1000 + 4 * 0x20000, 0), None);
        assert_eq!(Doorbell::decode(u64::MAX, 0), None);
        for dstrd in 0..16 {
            for bell in [Doorbell::SubmissionTail(u16::MAX), Doorbell::CompletionHead(u16::MAX)] {
                assert_eq!(Doorbell::decode(bell.offset(dstrd), dstrd), Some(bell));
            }
        }
    }
}
