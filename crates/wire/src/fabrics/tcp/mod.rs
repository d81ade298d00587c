//! NVMe/TCP: the PDUs of a connection, which is one queue pair (TCP Transport 1.0, 3.3 and 3.6.2).
//!
//! | file | what |
//! |---|---|
//! | [`pdu`] | header of each PDU |
//! | [`fault`] | fatal errors |
//! | [`framing`] | the agreement of both ends; encoding; digests |
//! | [`outgoing`] | the send queue |
//! | [`decode`] | the decoder: headers, and data in pieces |
//!
//! ```text
//! | CH, 8 bytes | PSH | HDGST, 4 | PAD          | DATA          | DDGST, 4 |
//! |<---- HLEN ----->|          |<- up to PDO ->|               |          |
//! |<------------------------------ PLEN ------------------------------->|
//! ```
//!
//! HDGST and DDGST are present if both ends have enabled them. PAD aligns DATA as the receiver of the PDU requests
//! (HPDA, CPDA). No digest covers PAD or digests. Everything is little endian, including digests.

pub mod decode;
pub mod fault;
pub mod framing;
pub mod outgoing;
pub mod pdu;

pub use decode::{Decoder, Event, Limits};
pub use fault::{Fatal, FatalStatus, PduError};
pub use framing::{Agreement, DataDigest, Framing, HEADER_BYTES_MAX};
pub use outgoing::Outgoing;
pub use pdu::{
    C2hData, CapsuleCmd, CapsuleResp, CommonHeader, Digests, End, Flags, H2cData, IcReq, IcResp, Pdu,
    PduType, R2t, TermReq,
};

/// TCP port of NVMe/TCP Discovery controllers (TCP Transport 1.0, 3.1.2).
pub const DISCOVERY_PORT: u16 = 8009;

/// TCP port of NVMe over Fabrics, commonly that of I/O controllers.
pub const PORT: u16 = 4420;

/// In-capsule data that every controller accepts with Fabrics and admin commands, in bytes (TCP Transport 1.0, 3.3.1).
pub const ADMIN_CAPSULE_DATA_BYTES: u32 = 8192;

/// The least MAXH2CDATA, in bytes (TCP Transport 1.0, 3.6.2.3).
pub const MAXH2CDATA_MIN: u32 = 4096;

/// Maximum length of a TermReq PDU, in bytes: a header of 24 and up to 128 of the invalid header (TCP Transport 1.0,
/// 3.5).
pub const TERM_BYTES_MAX: u32 = 152;
