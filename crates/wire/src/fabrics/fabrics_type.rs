//! The Fabrics command type, FCTYPE: byte 4 of an entry with opcode 7Fh (NVMe Base 2.1, 6).

use core::fmt;

use crate::nvme::opcode::Direction;
use crate::nvme::{AdminOpcode, SglDescriptor, Sqe};

/// Fabrics Command Type (NVMe Base 2.1, 6, figure "Fabrics Command Type"). Unknown codes stay representable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FabricsType(pub u8);

impl FabricsType {
    /// 00h.
    pub const PROPERTY_SET: FabricsType = FabricsType(0x00);
    /// 01h.
    pub const CONNECT: FabricsType = FabricsType(0x01);
    /// 04h.
    pub const PROPERTY_GET: FabricsType = FabricsType(0x04);
    /// 05h.
    pub const AUTHENTICATION_SEND: FabricsType = FabricsType(0x05);
    /// 06h.
    pub const AUTHENTICATION_RECEIVE: FabricsType = FabricsType(0x06);
    /// 08h.
    pub const DISCONNECT: FabricsType = FabricsType(0x08);
    /// C0h: the first of the vendor specific types.
    pub const VENDOR: FabricsType = FabricsType(0xC0);

    /// Type of a Fabrics command; `None` for another opcode.
    pub fn of(sqe: &Sqe) -> Option<FabricsType> {
        (sqe.opcode() == AdminOpcode::FABRICS.0).then_some(FabricsType(sqe.nsid as u8))
    }

    /// The direction of the command's data: bits 1:0, as in opcodes.
    pub const fn direction(self) -> Direction {
        Direction::of(self.0)
    }

    /// The specification's name, or "Vendor Specific" or "Reserved".
    pub const fn name(self) -> &'static str {
        match self {
            FabricsType::PROPERTY_SET => "Property Set",
            FabricsType::CONNECT => "Connect",
            FabricsType::PROPERTY_GET => "Property Get",
            FabricsType::AUTHENTICATION_SEND => "Authentication Send",
            FabricsType::AUTHENTICATION_RECEIVE => "Authentication Receive",
            FabricsType::DISCONNECT => "Disconnect",
            FabricsType(0xC0..) => "Vendor Specific",
            _ => "Reserved",
        }
    }

    /// A command of this type without data and parameters, PSDT 01b.
    pub fn sqe(self, cid: u16) -> Sqe {
        self.sqe_with_data(cid, SglDescriptor::default())
    }

    pub(super) fn sqe_with_data(self, cid: u16, data: SglDescriptor) -> Sqe {
        Sqe::new(AdminOpcode::FABRICS, cid, u32::from(self.0)).with_sgl(data)
    }
}

impl fmt::Display for FabricsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:02X}h)", self.name(), self.0)
    }
}

impl fmt::Debug for FabricsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this data could be transferred in the wrong direction.
    #[test]
    fn direction_is_the_low_two_bits() {
        assert_eq!(FabricsType::CONNECT.direction(), Direction::HostToController);
        assert_eq!(FabricsType::AUTHENTICATION_SEND.direction(), Direction::HostToController);
        assert_eq!(FabricsType::AUTHENTICATION_RECEIVE.direction(), Direction::ControllerToHost);
        assert_eq!(FabricsType::PROPERTY_GET.direction(), Direction::None);
        assert_eq!(FabricsType::CONNECT.to_string(), "Connect (01h)");
        assert_eq!((FabricsType(3).name(), FabricsType(0xFF).name()), ("Reserved", "Vendor Specific"));
    }
}
