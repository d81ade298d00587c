//! Fabrics commands: opcode 7Fh, told apart by their type (NVMe Base 2.1, 4.1.2 and 6).
//!
//! | field of the entry | meaning |
//! |---|---|
//! | byte 0 | 7Fh |
//! | byte 1, bits 7:6 | PSDT, see below |
//! | bytes 3:2 | command identifier |
//! | byte 4 | FCTYPE, where other commands have the namespace identifier |
//! | bytes 39:24 | SGL descriptor of the data |
//! | bytes 63:40 | fields of the command |
//!
//! The specification wants PSDT 00b without data and 10b with data, but Linux's target refuses all but 01b, which the
//! hosts of Linux and SPDK send: so do the builders here, and parsers take every value.

use core::fmt;

use super::auth::{AuthReceive, AuthSend};
use super::{Connect, PropertyGet, PropertySet};
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

    /// Type of a Fabrics command; none if the opcode is another one.
    pub fn of(sqe: &Sqe) -> Option<FabricsType> {
        (sqe.opcode() == AdminOpcode::FABRICS.0).then_some(FabricsType(sqe.nsid as u8))
    }

    /// The way the command's data goes: bits 1:0, as in opcodes.
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

/// A Fabrics command, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricsCommand {
    /// Sets a property; without data.
    PropertySet(PropertySet),
    /// Creates a queue pair; [`ConnectData`](super::ConnectData) goes to the controller.
    Connect(Connect),
    /// Reads a property; without data.
    PropertyGet(PropertyGet),
    /// Carries an authentication message to the controller.
    AuthSend(AuthSend),
    /// Asks for an authentication message of the controller.
    AuthReceive(AuthReceive),
    /// Deletes the I/O queue pair that it was sent on; without data.
    Disconnect(Disconnect),
    /// A type that is reserved or a vendor's: Invalid Field in Command (NVMe Base 2.1, 4.1.2).
    Unknown(FabricsType),
}

impl FabricsCommand {
    /// Parses an entry; none if its opcode is not 7Fh.
    pub fn parse(sqe: &Sqe) -> Option<FabricsCommand> {
        Some(match FabricsType::of(sqe)? {
            FabricsType::PROPERTY_SET => FabricsCommand::PropertySet(PropertySet::parse(sqe)),
            FabricsType::CONNECT => FabricsCommand::Connect(Connect::parse(sqe)),
            FabricsType::PROPERTY_GET => FabricsCommand::PropertyGet(PropertyGet::parse(sqe)),
            FabricsType::AUTHENTICATION_SEND => FabricsCommand::AuthSend(AuthSend::parse(sqe)),
            FabricsType::AUTHENTICATION_RECEIVE => FabricsCommand::AuthReceive(AuthReceive::parse(sqe)),
            FabricsType::DISCONNECT => FabricsCommand::Disconnect(Disconnect::parse(sqe)),
            unknown => FabricsCommand::Unknown(unknown),
        })
    }
}

/// Disconnect (NVMe Base 2.1, 6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disconnect {
    /// Record Format, 0.
    pub recfmt: u16,
}

impl Disconnect {
    /// The fields of a Disconnect.
    pub const fn parse(sqe: &Sqe) -> Disconnect {
        Disconnect { recfmt: sqe.cdw10 as u16 }
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe { cdw10: u32::from(self.recfmt), ..FabricsType::DISCONNECT.sqe(cid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would ask for one thing and the controller do another.
    #[test]
    fn type_lies_where_the_specification_says() {
        let sqe = Disconnect::default().sqe(0x1234);
        assert_eq!(sqe.to_bytes()[..8], [0x7F, 0x40, 0x34, 0x12, 8, 0, 0, 0]);
        assert_eq!(FabricsCommand::parse(&sqe), Some(FabricsCommand::Disconnect(Disconnect { recfmt: 0 })));
        let unknown = FabricsType(0xC3).sqe(1);
        assert_eq!(FabricsCommand::parse(&unknown), Some(FabricsCommand::Unknown(FabricsType(0xC3))));
        assert_eq!(FabricsCommand::parse(&Sqe::new(AdminOpcode::IDENTIFY, 1, 1)), None);
    }

    /// Without this a transfer could run against the direction that its type states.
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
