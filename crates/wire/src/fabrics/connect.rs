//! Connect: a host creates a queue pair, and with the admin queue an association (NVMe Base 2.1, 6.3).

use core::fmt;
use core::mem::offset_of;

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::nqn::NQN_FIELD_BYTES;
use super::{FabricsType, Nqn, status};
use crate::nvme::{Cqe, SglDescriptor, Sqe, Status, assert_offsets};

/// CNTLID of Connect data: any controller; the subsystem creates one (dynamic controller model).
pub const CNTLID_DYNAMIC: u16 = 0xFFFF;
/// CNTLID of Connect data: any free existing controller (static controller model).
pub const CNTLID_STATIC: u16 = 0xFFFE;
/// Greatest valid controller identifier; those above, up to FFFDh, are invalid in Connect data.
pub const CNTLID_MAX: u16 = 0xFFEF;
/// SQHD of a Connect response: submission queue flow control is disabled.
pub const SQHD_NO_FLOW_CONTROL: u16 = 0xFFFF;

/// Connect Attributes (NVMe Base 2.1, 6.3, figure "Connect Command", byte 46).
#[bitfield(u8)]
#[derive(PartialEq, Eq)]
pub struct ConnectAttributes {
    /// Priority Class of an I/O queue, as in Create I/O Submission Queue: 0 urgent to 3 low.
    #[bits(2)]
    pub prioclass: u8,
    /// Disable SQ Flow Control is requested.
    pub dissqfc: bool,
    /// Individual I/O Queue Deletion Support of the host: Disconnect.
    pub indivioqdels: bool,
    /// Connecting Entity: a Discovery controller, not a host.
    pub connent: bool,
    #[bits(3)]
    __: u8,
}

/// Connect (NVMe Base 2.1, 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// Record Format, 0; bytes 41:40.
    pub recfmt: u16,
    /// Queue Identifier, 0 for the admin queue; bytes 43:42.
    pub qid: u16,
    /// Submission Queue Size, zero-based; bytes 45:44.
    pub sqsize_z: u16,
    /// Connect Attributes; byte 46.
    pub attributes: ConnectAttributes,
    /// Keep Alive Timeout in milliseconds, of the admin queue alone; bytes 51:48.
    pub kato_ms: u32,
    /// NVM Set Identifier, of I/O queues alone; bytes 53:52.
    pub nvmsetid: u16,
}

impl Connect {
    /// The fields of a Connect.
    pub const fn parse(sqe: &Sqe) -> Connect {
        Connect {
            recfmt: sqe.cdw10 as u16,
            qid: (sqe.cdw10 >> 16) as u16,
            sqsize_z: sqe.cdw11 as u16,
            attributes: ConnectAttributes::from_bits((sqe.cdw11 >> 16) as u8),
            kato_ms: sqe.cdw12,
            nvmsetid: sqe.cdw13 as u16,
        }
    }

    /// Builds the command; `data` describes the 1024 bytes of [`ConnectData`].
    pub fn sqe(&self, cid: u16, data: SglDescriptor) -> Sqe {
        Sqe {
            cdw10: u32::from(self.recfmt) | u32::from(self.qid) << 16,
            cdw11: u32::from(self.sqsize_z) | u32::from(self.attributes.into_bits()) << 16,
            cdw12: self.kato_ms,
            cdw13: u32::from(self.nvmsetid),
            ..FabricsType::CONNECT.sqe_with_data(cid, data)
        }
    }
}

/// Data of a Connect, 1024 bytes (NVMe Base 2.1, 6.3, figure "Connect Command - Data").
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ConnectData {
    /// Host Identifier.
    pub hostid: [u8; 16],
    /// Requested Controller ID: an identifier, [`CNTLID_DYNAMIC`] or [`CNTLID_STATIC`].
    pub cntlid: u16,
    #[doc(hidden)]
    pub reserved_18: [u8; 238],
    /// NVM Subsystem NVMe Qualified Name, zero terminated.
    pub subnqn: [u8; NQN_FIELD_BYTES],
    /// Host NVMe Qualified Name, zero terminated.
    pub hostnqn: [u8; NQN_FIELD_BYTES],
    #[doc(hidden)]
    pub reserved_768: [u8; 256],
}

assert_offsets!(ConnectData: 1024; hostid = 0, cntlid = 16, subnqn = 256, hostnqn = 512, reserved_768 = 768);

impl ConnectData {
    /// Bytes of the data.
    pub const SIZE: usize = 1024;

    /// Connect data for these names.
    pub fn new(hostid: [u8; 16], cntlid: u16, subsystem: &Nqn, host: &Nqn) -> ConnectData {
        ConnectData {
            hostid,
            cntlid,
            subnqn: subsystem.field(),
            hostnqn: host.field(),
            ..ConnectData::new_zeroed()
        }
    }

    /// Name of the subsystem.
    ///
    /// # Errors
    /// [`InvalidParameter`] with the name's offset if it is malformed.
    pub fn subsystem(&self) -> Result<Nqn, InvalidParameter> {
        Nqn::from_field(&self.subnqn)
            .map_err(|_| InvalidParameter::in_data(offset_of!(ConnectData, subnqn) as u16))
    }

    /// Name of the host; [`Nqn::NONE`] if it is empty.
    ///
    /// # Errors
    /// [`InvalidParameter`] with the name's offset if it is malformed.
    pub fn host(&self) -> Result<Nqn, InvalidParameter> {
        if self.hostnqn[0] == 0 {
            return Ok(Nqn::NONE);
        }
        Nqn::from_field(&self.hostnqn)
            .map_err(|_| InvalidParameter::in_data(offset_of!(ConnectData, hostnqn) as u16))
    }
}

impl fmt::Debug for ConnectData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectData")
            .field("hostid", &self.hostid)
            .field("cntlid", &self.cntlid)
            .field("subnqn", &self.subsystem())
            .field("hostnqn", &self.host())
            .finish_non_exhaustive()
    }
}

/// Authentication and Security Requirements of a Connect response, AUTHREQ.
#[bitfield(u16)]
#[derive(PartialEq, Eq)]
pub struct AuthRequirements {
    __: bool,
    /// Authentication Transaction Required.
    pub atr: bool,
    /// Authentication and Secure Channel Required: authentication, and a secure channel from its key.
    pub ascr: bool,
    #[bits(13)]
    __: u16,
}

/// The response to a Connect that succeeded (NVMe Base 2.1, 6.3, figure "Connect Response").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected {
    /// Controller ID of the association; bytes 1:0.
    pub cntlid: u16,
    /// Authentication that is required before other commands on the queue; bytes 3:2.
    pub requirements: AuthRequirements,
}

impl Connected {
    /// Parses the response to a Connect; `None` if it failed.
    pub fn parse(response: &Cqe) -> Option<Connected> {
        response.status().is_success().then_some(Connected {
            cntlid: response.dw0 as u16,
            requirements: AuthRequirements::from_bits((response.dw0 >> 16) as u16),
        })
    }

    /// The response; `sqhd` is the queue's head, or [`SQHD_NO_FLOW_CONTROL`] if the host asked for that.
    pub const fn cqe(&self, cid: u16, sqhd: u16) -> Cqe {
        Cqe::new(cid, Status::SUCCESS, 0, sqhd)
            .with_dw0(self.cntlid as u32 | (self.requirements.into_bits() as u32) << 16)
    }
}

/// Location of the parameter that made a Connect fail with Connect Invalid Parameters (IPO and IATTR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    /// Invalid Parameter Offset in bytes; bytes 1:0.
    pub offset: u16,
    /// The offset counts from the start of the data, not of the submission queue entry; bit 0 of byte 2.
    pub in_data: bool,
}

impl InvalidParameter {
    /// QID in the submission queue entry.
    pub const QID: InvalidParameter = InvalidParameter { offset: 42, in_data: false };
    /// SQSIZE in the submission queue entry.
    pub const SQSIZE: InvalidParameter = InvalidParameter { offset: 44, in_data: false };
    /// HOSTID in the data.
    pub const HOSTID: InvalidParameter = InvalidParameter::in_data(0);
    /// CNTLID in the data.
    pub const CNTLID: InvalidParameter = InvalidParameter::in_data(16);
    /// SUBNQN in the data.
    pub const SUBNQN: InvalidParameter = InvalidParameter::in_data(256);
    /// HOSTNQN in the data.
    pub const HOSTNQN: InvalidParameter = InvalidParameter::in_data(512);

    /// A parameter in the data.
    pub const fn in_data(offset: u16) -> InvalidParameter {
        InvalidParameter { offset, in_data: true }
    }

    /// Parses the response to a Connect; `None` if it has another status.
    pub fn parse(response: &Cqe) -> Option<InvalidParameter> {
        response
            .status()
            .is(status::CONNECT_INVALID_PARAMETERS)
            .then_some(InvalidParameter { offset: response.dw0 as u16, in_data: response.dw0 >> 16 & 1 == 1 })
    }

    /// The response: Connect Invalid Parameters, Do Not Retry.
    pub const fn cqe(&self, cid: u16) -> Cqe {
        Cqe::new(cid, status::CONNECT_INVALID_PARAMETERS.with_dnr(), 0, 0)
            .with_dw0(self.offset as u32 | (self.in_data as u32) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabrics::DataPointer;

    /// Without this no foreign host could connect to a drive, and no drive's host to a foreign target.
    #[test]
    fn fields_lie_where_the_specification_says() {
        let connect = Connect {
            qid: 2,
            sqsize_z: 127,
            attributes: ConnectAttributes::new().with_dissqfc(true).with_indivioqdels(true).with_prioclass(3),
            kato_ms: 5000,
            nvmsetid: 9,
            recfmt: 0,
        };
        let sqe = connect.sqe(0x0201, DataPointer::InCapsule { offset: 0, bytes: 1024 }.descriptor());
        let bytes = sqe.to_bytes();
        assert_eq!(bytes[..8], [0x7F, 0x40, 1, 2, 1, 0, 0, 0]);
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[40..56], [0, 0, 2, 0, 127, 0, 0x0F, 0, 0x88, 0x13, 0, 0, 9, 0, 0, 0]);
        assert_eq!(Connect::parse(&sqe), connect);

        let response = Connected { cntlid: 5, requirements: AuthRequirements::new().with_atr(true) };
        assert_eq!(
            response.cqe(7, SQHD_NO_FLOW_CONTROL).to_bytes(),
            [5, 0, 2, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 7, 0, 0, 0]
        );
        assert_eq!(Connected::parse(&response.cqe(7, 0)), Some(response));
        let invalid = InvalidParameter::SUBNQN.cqe(7);
        assert_eq!(invalid.to_bytes(), [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0x04, 0x83]);
        assert_eq!(InvalidParameter::parse(&invalid), Some(InvalidParameter::SUBNQN));
        assert_eq!((Connected::parse(&invalid), InvalidParameter::parse(&response.cqe(7, 0))), (None, None));
    }

    /// Without this a malformed name would be accepted, or reported at a wrong offset.
    #[test]
    fn names_in_the_data_are_checked() {
        let host = Nqn::new("nqn.2014-08.com.example:host").unwrap();
        let mut data = ConnectData::new([7; 16], CNTLID_DYNAMIC, &Nqn::discovery(), &host);
        assert_eq!((data.subsystem(), data.host()), (Ok(Nqn::discovery()), Ok(host)));
        assert_eq!(data.as_bytes()[14..20], [7, 7, 0xFF, 0xFF, 0, 0]);
        assert_eq!(data.as_bytes()[512..516], *b"nqn.");
        data.subnqn = [b'n'; 256];
        data.hostnqn[3] = b'x';
        assert_eq!(data.subsystem(), Err(InvalidParameter::SUBNQN));
        assert_eq!(data.host(), Err(InvalidParameter::HOSTNQN));
        assert!(format!("{data:?}").contains("cntlid: 65535"));
    }
}
