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

use super::auth::{AuthReceive, AuthSend};
use super::{Connect, FabricsType, PropertyGet, PropertySet};
use crate::nvme::Sqe;

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
    /// A reserved or vendor-specific type: Invalid Field in Command (NVMe Base 2.1, 4.1.2).
    Unknown(FabricsType),
}

impl FabricsCommand {
    /// Parses an entry; `None` if its opcode is not 7Fh.
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
    use crate::nvme::AdminOpcode;

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
}
