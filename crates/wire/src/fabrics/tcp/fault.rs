//! Fatal transport errors: the answer to an invalid PDU.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Fatal Error Status, FES (TCP Transport 1.0, 3.6.2.4 and 3.6.2.5). Unknown codes stay representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct FatalStatus(pub u16);

impl FatalStatus {
    /// Invalid PDU Header Field.
    pub const INVALID_FIELD: FatalStatus = FatalStatus(0x01);
    /// PDU Sequence Error.
    pub const SEQUENCE: FatalStatus = FatalStatus(0x02);
    /// Header Digest Error.
    pub const HEADER_DIGEST: FatalStatus = FatalStatus(0x03);
    /// Data Transfer Out of Range.
    pub const OUT_OF_RANGE: FatalStatus = FatalStatus(0x04);
    /// From a controller: Data Transfer Limit Exceeded, an H2CData PDU with more than MAXH2CDATA. From a host: R2T Limit
    /// Exceeded, more than MAXR2T.
    pub const LIMIT_EXCEEDED: FatalStatus = FatalStatus(0x05);
    /// Unsupported Parameter.
    pub const UNSUPPORTED_PARAMETER: FatalStatus = FatalStatus(0x06);

    /// The specification's name, or "Reserved".
    pub const fn name(self) -> &'static str {
        match self {
            FatalStatus::INVALID_FIELD => "Invalid PDU Header Field",
            FatalStatus::SEQUENCE => "PDU Sequence Error",
            FatalStatus::HEADER_DIGEST => "Header Digest Error",
            FatalStatus::OUT_OF_RANGE => "Data Transfer Out of Range",
            FatalStatus::LIMIT_EXCEEDED => "Data Transfer or R2T Limit Exceeded",
            FatalStatus::UNSUPPORTED_PARAMETER => "Unsupported Parameter",
            _ => "Reserved",
        }
    }
}

/// A fatal transport error: it ends the connection with a TermReq (TCP Transport 1.0, 3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal {
    /// FES.
    pub status: FatalStatus,
    /// FEI: with 01h and 06h the offset of the wrong field in bytes from the start of the PDU, with 03h the header digest
    /// as received, else 0.
    pub info: u32,
}

impl Fatal {
    /// The field at `offset` is invalid.
    pub const fn field(offset: u32) -> Fatal {
        Fatal { status: FatalStatus::INVALID_FIELD, info: offset }
    }

    /// An error without further information.
    pub const fn of(status: FatalStatus) -> Fatal {
        Fatal { status, info: 0 }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (FES {:02X}h, FEI {:X}h)", self.status.name(), self.status.0, self.info)
    }
}

/// Why decoding of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PduError {
    /// A fatal error, which must be answered with a [`TermReq`](super::TermReq).
    #[error("fatal NVMe/TCP error: {0}")]
    Fatal(Fatal),
    /// A TermReq that is itself malformed: it is ignored, and the connection closed (TCP Transport 1.0, 3.5).
    #[error("malformed NVMe/TCP TermReq")]
    TermReq,
}

impl From<Fatal> for PduError {
    fn from(fatal: Fatal) -> PduError {
        PduError::Fatal(fatal)
    }
}
