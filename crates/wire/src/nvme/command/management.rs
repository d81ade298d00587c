//! Admin commands that manage namespaces, media and self-tests (NVMe Base 2.1, 5.1).

use super::{Sqe, bit};
use crate::nvme::AdminOpcode;

/// Format NVM (NVMe Base 2.1, 5.1.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormatNvm {
    /// Index of the LBA format, 6 bits: LBAFU and LBAFL.
    pub lbaf: u8,
    /// Metadata Settings: metadata is a part of an extended block.
    pub mset: bool,
    /// Protection Information type, 3 bits.
    pub pi: u8,
    /// Protection Information Location.
    pub pil: bool,
    /// Secure Erase Settings, 3 bits: see the constants `SES_*`.
    pub ses: u8,
}

impl FormatNvm {
    /// No secure erase is requested.
    pub const SES_NONE: u8 = 0;
    /// User Data Erase.
    pub const SES_USER_DATA: u8 = 1;
    /// Cryptographic Erase.
    pub const SES_CRYPTOGRAPHIC: u8 = 2;

    /// The fields of a Format NVM.
    pub const fn parse(sqe: &Sqe) -> FormatNvm {
        FormatNvm {
            lbaf: (sqe.cdw10 & 0xF | (sqe.cdw10 >> 12 & 0b11) << 4) as u8,
            mset: bit(sqe.cdw10, 4),
            pi: (sqe.cdw10 >> 5 & 0b111) as u8,
            pil: bit(sqe.cdw10, 8),
            ses: (sqe.cdw10 >> 9 & 0b111) as u8,
        }
    }

    /// The command; `nsid` may be [`crate::nvme::NSID_ALL`].
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::FORMAT_NVM, cid, nsid);
        sqe.cdw10 = u32::from(self.lbaf & 0xF)
            | u32::from(self.mset) << 4
            | u32::from(self.pi & 0b111) << 5
            | u32::from(self.pil) << 8
            | u32::from(self.ses & 0b111) << 9
            | u32::from(self.lbaf >> 4 & 0b11) << 12;
        sqe
    }
}

/// Namespace Management (NVMe Base 2.1, 5.1.21). The data of a creation is laid out as Identify Namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceManagement {
    /// Select, 4 bits: see the constants.
    pub sel: u8,
    /// Command Set Identifier, of a creation.
    pub csi: u8,
}

impl NamespaceManagement {
    /// Create a namespace; dword 0 of the completion is its identifier.
    pub const CREATE: u8 = 0;
    /// Delete one, or all.
    pub const DELETE: u8 = 1;
    /// Bytes of a creation's data.
    pub const BYTES: u32 = 4096;

    /// The fields of a Namespace Management.
    pub const fn parse(sqe: &Sqe) -> NamespaceManagement {
        NamespaceManagement { sel: (sqe.cdw10 & 0xF) as u8, csi: (sqe.cdw11 >> 24) as u8 }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::NAMESPACE_MANAGEMENT, cid, nsid);
        sqe.cdw10 = u32::from(self.sel & 0xF);
        sqe.cdw11 = u32::from(self.csi) << 24;
        sqe
    }
}

/// Namespace Attachment (NVMe Base 2.1, 5.1.20). Its data is a [`crate::nvme::ControllerList`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceAttachment {
    /// Select, 4 bits: see the constants.
    pub sel: u8,
}

impl NamespaceAttachment {
    /// Attach the namespace to the controllers of the list.
    pub const ATTACH: u8 = 0;
    /// Detach it from them.
    pub const DETACH: u8 = 1;
    /// Bytes of its data.
    pub const BYTES: u32 = 4096;

    /// The field of a Namespace Attachment.
    pub const fn parse(sqe: &Sqe) -> NamespaceAttachment {
        NamespaceAttachment { sel: (sqe.cdw10 & 0xF) as u8 }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::NAMESPACE_ATTACHMENT, cid, nsid);
        sqe.cdw10 = u32::from(self.sel & 0xF);
        sqe
    }
}

/// Sanitize (NVMe Base 2.1, 5.1.22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sanitize {
    /// Sanitize Action, 3 bits: see the constants.
    pub sanact: u8,
    /// Allow Unrestricted Sanitize Exit: Exit Failure Mode may leave a failure.
    pub ause: bool,
    /// Overwrite Pass Count, 4 bits.
    pub owpass: u8,
    /// Overwrite Invert Pattern Between Passes.
    pub oipbp: bool,
    /// No-Deallocate After Sanitize.
    pub ndas: bool,
    /// Enter Media Verification State.
    pub emvs: bool,
    /// Overwrite Pattern.
    pub pattern: u32,
}

impl Sanitize {
    /// Exit Failure Mode.
    pub const EXIT_FAILURE: u8 = 0b001;
    /// Start a block erase.
    pub const BLOCK_ERASE: u8 = 0b010;
    /// Start an overwrite.
    pub const OVERWRITE: u8 = 0b011;
    /// Start a crypto erase.
    pub const CRYPTO_ERASE: u8 = 0b100;
    /// Exit Media Verification State.
    pub const EXIT_VERIFICATION: u8 = 0b101;

    /// The fields of a Sanitize.
    pub const fn parse(sqe: &Sqe) -> Sanitize {
        Sanitize {
            sanact: (sqe.cdw10 & 0b111) as u8,
            ause: bit(sqe.cdw10, 3),
            owpass: (sqe.cdw10 >> 4 & 0xF) as u8,
            oipbp: bit(sqe.cdw10, 8),
            ndas: bit(sqe.cdw10, 9),
            emvs: bit(sqe.cdw10, 10),
            pattern: sqe.cdw11,
        }
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::SANITIZE, cid, 0);
        sqe.cdw10 = u32::from(self.sanact & 0b111)
            | u32::from(self.ause) << 3
            | u32::from(self.owpass & 0xF) << 4
            | u32::from(self.oipbp) << 8
            | u32::from(self.ndas) << 9
            | u32::from(self.emvs) << 10;
        sqe.cdw11 = self.pattern;
        sqe
    }
}

/// Device Self-test (NVMe Base 2.1, 5.1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSelfTest {
    /// Self-test Code, 4 bits: see the constants.
    pub stc: u8,
}

impl DeviceSelfTest {
    /// Start a short one.
    pub const SHORT: u8 = 0x1;
    /// Start an extended one.
    pub const EXTENDED: u8 = 0x2;
    /// Abort the test in progress.
    pub const ABORT: u8 = 0xF;

    /// The field of a Device Self-test.
    pub const fn parse(sqe: &Sqe) -> DeviceSelfTest {
        DeviceSelfTest { stc: (sqe.cdw10 & 0xF) as u8 }
    }

    /// The command. `nsid` 0 tests the controller only; [`crate::nvme::NSID_ALL`] tests all its namespaces, too.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::DEVICE_SELF_TEST, cid, nsid);
        sqe.cdw10 = u32::from(self.stc & 0xF);
        sqe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a format index above 15 would be taken for another, or a format erase more than requested.
    #[test]
    fn fields_lie_where_the_specification_says() {
        let format = FormatNvm { lbaf: 0x25, ses: 1, ..FormatNvm::default() };
        assert_eq!(format.sqe(0, 1).cdw10, 0x5 | 1 << 9 | 0b10 << 12);
        let sanitize =
            Sanitize { sanact: Sanitize::BLOCK_ERASE, ause: true, ndas: true, ..Sanitize::default() };
        assert_eq!(sanitize.sqe(0).cdw10, 0b010 | 1 << 3 | 1 << 9);
        assert_eq!(NamespaceManagement { sel: 1, csi: 2 }.sqe(0, 1).cdw11, 2 << 24);
    }
}
