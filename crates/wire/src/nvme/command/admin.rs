//! The commands of the admin queue (NVMe Base 2.1, 5.1 and 5.2).

use super::{Sqe, bit};
use crate::nvme::{AdminOpcode, Cns};

/// The class of a submission queue under weighted round robin with urgent (NVMe Base 2.1, 3.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePriority {
    /// 00b: served before the weighted classes.
    #[default]
    Urgent,
    /// 01b.
    High,
    /// 10b.
    Medium,
    /// 11b.
    Low,
}

impl QueuePriority {
    /// The class of the two low bits.
    pub const fn from_bits(bits: u8) -> QueuePriority {
        match bits & 0b11 {
            0b00 => QueuePriority::Urgent,
            0b01 => QueuePriority::High,
            0b10 => QueuePriority::Medium,
            _ => QueuePriority::Low,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// Create I/O Submission Queue (NVMe Base 2.1, 5.2.2). Its memory is PRP1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateSq {
    /// The queue to create.
    pub qid: u16,
    /// Entries of the queue, zero-based.
    pub qsize_z: u16,
    /// Physically Contiguous: PRP1 is the queue, not a list of its pages.
    pub pc: bool,
    /// Arbitration class.
    pub qprio: QueuePriority,
    /// The completion queue that takes its completions.
    pub cqid: u16,
}

impl CreateSq {
    /// The fields of a Create I/O Submission Queue.
    pub const fn parse(sqe: &Sqe) -> CreateSq {
        CreateSq {
            qid: sqe.cdw10 as u16,
            qsize_z: (sqe.cdw10 >> 16) as u16,
            pc: bit(sqe.cdw11, 0),
            qprio: QueuePriority::from_bits((sqe.cdw11 >> 1) as u8),
            cqid: (sqe.cdw11 >> 16) as u16,
        }
    }

    /// The command, with the queue (or the list of its pages) at `prp1`.
    pub fn sqe(&self, cid: u16, prp1: u64) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::CREATE_SQ, cid, 0).with_prp(prp1, 0);
        sqe.cdw10 = u32::from(self.qid) | u32::from(self.qsize_z) << 16;
        sqe.cdw11 = u32::from(self.pc) | u32::from(self.qprio.bits()) << 1 | u32::from(self.cqid) << 16;
        sqe
    }
}

/// Create I/O Completion Queue (NVMe Base 2.1, 5.2.1). Its memory is PRP1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateCq {
    /// The queue to create.
    pub qid: u16,
    /// Entries of the queue, zero-based.
    pub qsize_z: u16,
    /// Physically Contiguous: PRP1 is the queue, not a list of its pages.
    pub pc: bool,
    /// Interrupts Enabled.
    pub ien: bool,
    /// Interrupt Vector.
    pub iv: u16,
}

impl CreateCq {
    /// The fields of a Create I/O Completion Queue.
    pub const fn parse(sqe: &Sqe) -> CreateCq {
        CreateCq {
            qid: sqe.cdw10 as u16,
            qsize_z: (sqe.cdw10 >> 16) as u16,
            pc: bit(sqe.cdw11, 0),
            ien: bit(sqe.cdw11, 1),
            iv: (sqe.cdw11 >> 16) as u16,
        }
    }

    /// The command, with the queue (or the list of its pages) at `prp1`.
    pub fn sqe(&self, cid: u16, prp1: u64) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::CREATE_CQ, cid, 0).with_prp(prp1, 0);
        sqe.cdw10 = u32::from(self.qid) | u32::from(self.qsize_z) << 16;
        sqe.cdw11 = u32::from(self.pc) | u32::from(self.ien) << 1 | u32::from(self.iv) << 16;
        sqe
    }
}

/// Delete I/O Submission Queue or Delete I/O Completion Queue (NVMe Base 2.1, 5.2.3 and 5.2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteQueue {
    /// The queue to delete.
    pub qid: u16,
}

impl DeleteQueue {
    /// The field of either command.
    pub const fn parse(sqe: &Sqe) -> DeleteQueue {
        DeleteQueue { qid: sqe.cdw10 as u16 }
    }

    /// Builds the command; `opcode` is [`AdminOpcode::DELETE_SQ`] or [`AdminOpcode::DELETE_CQ`].
    pub fn sqe(&self, opcode: AdminOpcode, cid: u16) -> Sqe {
        let mut sqe = Sqe::new(opcode, cid, 0);
        sqe.cdw10 = u32::from(self.qid);
        sqe
    }
}

/// Doorbell Buffer Config (NVMe Base 2.1, 5.2.5): two pages of host memory, laid out as the doorbells are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorbellBufferConfig {
    /// The shadow doorbells (PRP1): the host writes tails and heads there.
    pub shadow_doorbells: u64,
    /// The event indexes (PRP2): the controller writes them to request writes of doorbell registers.
    pub event_indexes: u64,
}

impl DoorbellBufferConfig {
    /// The fields of a Doorbell Buffer Config.
    pub const fn parse(sqe: &Sqe) -> DoorbellBufferConfig {
        DoorbellBufferConfig { shadow_doorbells: sqe.prp1, event_indexes: sqe.prp2 }
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe::new(AdminOpcode::DOORBELL_BUFFER_CONFIG, cid, 0)
            .with_prp(self.shadow_doorbells, self.event_indexes)
    }
}

/// Identify (NVMe Base 2.1, 5.1.13). It returns 4096 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identify {
    /// Controller or Namespace Structure: the requested data structure.
    pub cns: Cns,
    /// Controller identifier, for the structures that need one.
    pub cntid: u16,
    /// CNS specific identifier (an NVM set's, a domain's).
    pub cnssid: u16,
    /// Command Set Identifier, for the structures of one command set.
    pub csi: u8,
    /// UUID index, 7 bits.
    pub uidx: u8,
}

impl Identify {
    /// Bytes that an Identify returns.
    pub const BYTES: u32 = 4096;

    /// The fields of an Identify.
    pub const fn parse(sqe: &Sqe) -> Identify {
        Identify {
            cns: Cns(sqe.cdw10 as u8),
            cntid: (sqe.cdw10 >> 16) as u16,
            cnssid: sqe.cdw11 as u16,
            csi: (sqe.cdw11 >> 24) as u8,
            uidx: (sqe.cdw14 & 0x7F) as u8,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::IDENTIFY, cid, nsid);
        sqe.cdw10 = u32::from(self.cns.0) | u32::from(self.cntid) << 16;
        sqe.cdw11 = u32::from(self.cnssid) | u32::from(self.csi) << 24;
        sqe.cdw14 = u32::from(self.uidx & 0x7F);
        sqe
    }
}

/// Get Log Page (NVMe Base 2.1, 5.1.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetLogPage {
    /// Log page identifier, see [`crate::nvme::lid`].
    pub lid: u8,
    /// Log specific parameter, 7 bits.
    pub lsp: u8,
    /// Retain Asynchronous Event: reading does not clear the page's event.
    pub rae: bool,
    /// Number of dwords, zero-based.
    pub numd_z: u32,
    /// Log specific identifier.
    pub lsi: u16,
    /// Log page offset in bytes, or an index if `ot` is set.
    pub lpo: u64,
    /// Offset Type: `lpo` is an index of an entry.
    pub ot: bool,
    /// Command Set Identifier.
    pub csi: u8,
    /// UUID index, 7 bits.
    pub uidx: u8,
}

impl GetLogPage {
    /// The fields of a Get Log Page.
    pub const fn parse(sqe: &Sqe) -> GetLogPage {
        GetLogPage {
            lid: sqe.cdw10 as u8,
            lsp: (sqe.cdw10 >> 8 & 0x7F) as u8,
            rae: bit(sqe.cdw10, 15),
            numd_z: sqe.cdw10 >> 16 | sqe.cdw11 << 16,
            lsi: (sqe.cdw11 >> 16) as u16,
            lpo: sqe.cdw12 as u64 | (sqe.cdw13 as u64) << 32,
            ot: bit(sqe.cdw14, 23),
            csi: (sqe.cdw14 >> 24) as u8,
            uidx: (sqe.cdw14 & 0x7F) as u8,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE, cid, nsid);
        sqe.cdw10 = u32::from(self.lid)
            | u32::from(self.lsp & 0x7F) << 8
            | u32::from(self.rae) << 15
            | self.numd_z << 16;
        sqe.cdw11 = self.numd_z >> 16 | u32::from(self.lsi) << 16;
        sqe.cdw12 = self.lpo as u32;
        sqe.cdw13 = (self.lpo >> 32) as u32;
        sqe.cdw14 = u32::from(self.uidx & 0x7F) | u32::from(self.ot) << 23 | u32::from(self.csi) << 24;
        sqe
    }

    /// Requested bytes, 4 to 16 GiB.
    pub const fn bytes(&self) -> u64 {
        (self.numd_z as u64 + 1) * 4
    }
}

/// Set Features (NVMe Base 2.1, 5.1.25). [`crate::nvme::feature`] describes `cdw11`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFeatures {
    /// Feature identifier, see [`crate::nvme::fid`].
    pub fid: u8,
    /// Save: the value survives power cycles and resets.
    pub sv: bool,
    /// Command dword 11.
    pub cdw11: u32,
    /// Command dword 12.
    pub cdw12: u32,
    /// Command dword 13.
    pub cdw13: u32,
    /// Command dword 14; its bits 6:0 are the UUID index.
    pub cdw14: u32,
    /// Command dword 15.
    pub cdw15: u32,
}

impl SetFeatures {
    /// The fields of a Set Features.
    pub const fn parse(sqe: &Sqe) -> SetFeatures {
        SetFeatures {
            fid: sqe.cdw10 as u8,
            sv: bit(sqe.cdw10, 31),
            cdw11: sqe.cdw11,
            cdw12: sqe.cdw12,
            cdw13: sqe.cdw13,
            cdw14: sqe.cdw14,
            cdw15: sqe.cdw15,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: u32::from(self.fid) | u32::from(self.sv) << 31,
            cdw11: self.cdw11,
            cdw12: self.cdw12,
            cdw13: self.cdw13,
            cdw14: self.cdw14,
            cdw15: self.cdw15,
            ..Sqe::new(AdminOpcode::SET_FEATURES, cid, nsid)
        }
    }
}

/// The value that Get Features requests (NVMe Base 2.1, 5.1.11). Codes above 3 are reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select(pub u8);

impl Select {
    /// The current value.
    pub const CURRENT: Select = Select(0);
    /// The default value.
    pub const DEFAULT: Select = Select(1);
    /// The saved value.
    pub const SAVED: Select = Select(2);
    /// Capabilities of the feature: [`Select::SAVEABLE`] and the following bits of the result.
    pub const SUPPORTED: Select = Select(3);

    /// Bit of the result of [`Select::SUPPORTED`]: the feature is saveable.
    pub const SAVEABLE: u32 = 1 << 0;
    /// Bit of the result of [`Select::SUPPORTED`]: the feature is namespace specific.
    pub const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    /// Bit of the result of [`Select::SUPPORTED`]: the feature is changeable.
    pub const CHANGEABLE: u32 = 1 << 2;
}

/// Get Features (NVMe Base 2.1, 5.1.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GetFeatures {
    /// Feature identifier, see [`crate::nvme::fid`].
    pub fid: u8,
    /// The requested value.
    pub sel: Select,
    /// Command dword 11: some features have a selector there.
    pub cdw11: u32,
    /// UUID index, 7 bits.
    pub uidx: u8,
}

impl GetFeatures {
    /// The fields of a Get Features.
    pub const fn parse(sqe: &Sqe) -> GetFeatures {
        GetFeatures {
            fid: sqe.cdw10 as u8,
            sel: Select((sqe.cdw10 >> 8 & 0b111) as u8),
            cdw11: sqe.cdw11,
            uidx: (sqe.cdw14 & 0x7F) as u8,
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::GET_FEATURES, cid, nsid);
        sqe.cdw10 = u32::from(self.fid) | u32::from(self.sel.0 & 0b111) << 8;
        sqe.cdw11 = self.cdw11;
        sqe.cdw14 = u32::from(self.uidx & 0x7F);
        sqe
    }
}

/// Abort (NVMe Base 2.1, 5.1.1). Bit 0 of its result is set if the command was not aborted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// The submission queue of the command to abort.
    pub sqid: u16,
    /// The identifier of the command to abort.
    pub cid: u16,
}

impl Abort {
    /// Bit of the completion's first dword: the command was not aborted.
    pub const NOT_ABORTED: u32 = 1;

    /// The fields of an Abort.
    pub const fn parse(sqe: &Sqe) -> Abort {
        Abort { sqid: sqe.cdw10 as u16, cid: (sqe.cdw10 >> 16) as u16 }
    }

    /// Builds the command; `cid` is its own identifier, not that of the command to abort.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::ABORT, cid, 0);
        sqe.cdw10 = u32::from(self.sqid) | u32::from(self.cid) << 16;
        sqe
    }
}

/// Asynchronous Event Request (NVMe Base 2.1, 5.1.2): completes with an event, see [`crate::nvme::AsyncEvent`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncEventRequest;

impl AsyncEventRequest {
    /// Decodes the command, which has no fields of its own.
    pub const fn parse(_sqe: &Sqe) -> AsyncEventRequest {
        AsyncEventRequest
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST, cid, 0)
    }
}

/// Keep Alive (NVMe Base 2.1, 5.1.14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive;

impl KeepAlive {
    /// Decodes the command, which has no fields of its own.
    pub const fn parse(_sqe: &Sqe) -> KeepAlive {
        KeepAlive
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe::new(AdminOpcode::KEEP_ALIVE, cid, 0)
    }
}
