//! The headers of NVMe/TCP PDUs.

use bitfield_struct::bitfield;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::MAXH2CDATA_MIN;
use super::fault::{Fatal, FatalStatus};
use crate::nvme::{Cqe, Sqe, assert_offsets};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host, which connects.
    Host,
    /// The controller, which accepts.
    Controller,
}

/// PDU-Type (TCP Transport 1.0, 3.3, figure "NVMe/TCP PDU Types"). Unknown codes stay representable.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(transparent)]
pub struct PduType(pub u8);

impl PduType {
    /// Initialize Connection Request, 00h.
    pub const IC_REQ: PduType = PduType(0x00);
    /// Initialize Connection Response, 01h.
    pub const IC_RESP: PduType = PduType(0x01);
    /// Host to Controller Terminate Connection Request, 02h.
    pub const H2C_TERM_REQ: PduType = PduType(0x02);
    /// Controller to Host Terminate Connection Request, 03h.
    pub const C2H_TERM_REQ: PduType = PduType(0x03);
    /// Command Capsule, 04h.
    pub const CAPSULE_CMD: PduType = PduType(0x04);
    /// Response Capsule, 05h.
    pub const CAPSULE_RESP: PduType = PduType(0x05);
    /// Host to Controller Data, 06h.
    pub const H2C_DATA: PduType = PduType(0x06);
    /// Controller to Host Data, 07h.
    pub const C2H_DATA: PduType = PduType(0x07);
    /// Ready to Transfer, 09h.
    pub const R2T: PduType = PduType(0x09);

    /// The end that receives PDUs of this type: bit 0.
    pub const fn receiver(self) -> End {
        if self.0 & 1 == 0 { End::Controller } else { End::Host }
    }

    /// HLEN: length of the header without its digest, in bytes. `None` if the type is reserved.
    pub const fn header_bytes(self) -> Option<usize> {
        match self {
            PduType::IC_REQ | PduType::IC_RESP => Some(128),
            PduType::CAPSULE_CMD => Some(72),
            PduType::H2C_TERM_REQ
            | PduType::C2H_TERM_REQ
            | PduType::CAPSULE_RESP
            | PduType::H2C_DATA
            | PduType::C2H_DATA
            | PduType::R2T => Some(24),
            _ => None,
        }
    }

    /// Whether it initializes a connection: it has no digests, and precedes all others.
    pub const fn is_ic(self) -> bool {
        self.0 <= PduType::IC_RESP.0
    }

    /// Whether it terminates a connection: it has no digests, and may come at any time.
    pub const fn is_term(self) -> bool {
        matches!(self, PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ)
    }
}

/// FLAGS of a PDU; the type determines which are used.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Flags {
    /// HDGSTF: a header digest follows the header.
    pub hdgstf: bool,
    /// DDGSTF: a data digest follows the data.
    pub ddgstf: bool,
    /// LAST_PDU: the last H2CData PDU of an R2T, or C2HData PDU of a command.
    pub last_pdu: bool,
    /// SUCCESS: of C2HData, the command has succeeded and no response capsule follows.
    pub success: bool,
    #[bits(4)]
    __: u8,
}

/// PDU Common Header (TCP Transport 1.0, 3.6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommonHeader {
    /// PDU-Type.
    pub pdu_type: PduType,
    /// FLAGS.
    pub flags: Flags,
    /// Header Length in bytes, without the digest.
    pub hlen: u8,
    /// PDU Data Offset in bytes from the start of the PDU.
    pub pdo: u8,
    /// PDU Length in bytes, everything included.
    pub plen: u32,
}

assert_offsets!(CommonHeader: 8; pdu_type = 0, flags = 1, hlen = 2, pdo = 3, plen = 4);

impl CommonHeader {
    /// Bytes of the header.
    pub const SIZE: usize = 8;

    fn new(pdu_type: PduType) -> CommonHeader {
        let hlen = pdu_type.header_bytes().expect("the type is one of this file") as u8;
        CommonHeader { pdu_type, hlen, plen: hlen.into(), ..CommonHeader::default() }
    }
}

/// DGST: digests that an end requests, or enables.
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Digests {
    /// HDGST_ENABLE.
    pub header: bool,
    /// DDGST_ENABLE.
    pub data: bool,
    #[bits(6)]
    __: u8,
}

macro_rules! header {
    ($(#[$doc:meta])* $type:ident: $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $kind:ty = $offset:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $type {
            /// Common header; [`Framing`](super::Framing) fills in digest flags, PDO and PLEN.
            pub ch: CommonHeader,
            $($(#[$field_doc])* pub $field: $kind,)+
        }

        assert_offsets!($type: $bytes; ch = 0, $($field = $offset),+);
    };
}

header! {
    /// Initialize Connection Request (TCP Transport 1.0, 3.6.2.2).
    IcReq: 128 {
        /// PDU Format Version, 0.
        pfv: u16 = 8,
        /// Host PDU Data Alignment in dwords, zero-based, at most 31: of data that comes from the controller.
        hpda_z: u8 = 10,
        /// Digests that the host requests.
        dgst: Digests = 11,
        /// Maximum Number of Outstanding R2T of one command, zero-based.
        maxr2t_z: u32 = 12,
        #[doc(hidden)]
        reserved_16: [u8; 112] = 16,
    }
}

header! {
    /// Initialize Connection Response (TCP Transport 1.0, 3.6.2.3).
    IcResp: 128 {
        /// PDU Format Version, 0.
        pfv: u16 = 8,
        /// Controller PDU Data Alignment in dwords, zero-based, at most 31: of data that comes from the host.
        cpda_z: u8 = 10,
        /// Digests in use.
        dgst: Digests = 11,
        /// Maximum Host to Controller Data length in bytes of one H2CData PDU: a multiple of 4, at least 4096.
        maxh2cdata: u32 = 12,
        #[doc(hidden)]
        reserved_16: [u8; 112] = 16,
    }
}

header! {
    /// Terminate Connection Request of either end (TCP Transport 1.0, 3.6.2.4 and 3.6.2.5). Its data is the invalid
    /// header, up to 128 bytes.
    TermReq: 24 {
        /// Fatal Error Status.
        fes: FatalStatus = 8,
        /// Fatal Error Information, see [`Fatal::info`].
        fei: U32 = 10,
        #[doc(hidden)]
        reserved_14: [u8; 10] = 14,
    }
}

header! {
    /// Command Capsule (TCP Transport 1.0, 3.6.2.6). Its data is the in-capsule data.
    CapsuleCmd: 72 {
        /// The command.
        sqe: Sqe = 8,
    }
}

header! {
    /// Response Capsule (TCP Transport 1.0, 3.6.2.7).
    CapsuleResp: 24 {
        /// The completion; SQID and the phase tag are reserved.
        cqe: Cqe = 8,
    }
}

header! {
    /// Host to Controller Data (TCP Transport 1.0, 3.6.2.8).
    H2cData: 24 {
        /// Command Capsule CID: the command's identifier.
        cccid: u16 = 8,
        /// Transfer Tag of the R2T.
        ttag: u16 = 10,
        /// Data Offset in bytes in the command's data buffer, a multiple of 4.
        datao: u32 = 12,
        /// Data Length in bytes, a multiple of 4.
        datal: u32 = 16,
        #[doc(hidden)]
        reserved_20: [u8; 4] = 20,
    }
}

header! {
    /// Controller to Host Data (TCP Transport 1.0, 3.6.2.9).
    C2hData: 24 {
        /// Command Capsule CID: the command's identifier.
        cccid: u16 = 8,
        #[doc(hidden)]
        reserved_10: [u8; 2] = 10,
        /// Data Offset in bytes in the command's data buffer, a multiple of 4.
        datao: u32 = 12,
        /// Data Length in bytes, a multiple of 4.
        datal: u32 = 16,
        #[doc(hidden)]
        reserved_20: [u8; 4] = 20,
    }
}

header! {
    /// Ready to Transfer: the controller requests data (TCP Transport 1.0, 3.6.2.10).
    R2t: 24 {
        /// Command Capsule CID: the command's identifier.
        cccid: u16 = 8,
        /// Transfer Tag, which the H2CData PDUs repeat.
        ttag: u16 = 10,
        /// Requested Data Offset in bytes, a multiple of 4.
        r2to: u32 = 12,
        /// Requested Data Length in bytes, a multiple of 4.
        r2tl: u32 = 16,
        #[doc(hidden)]
        reserved_20: [u8; 4] = 20,
    }
}

impl IcReq {
    /// A request with alignment, digests and number of R2Ts, as encoded in the fields.
    pub fn new(hpda_z: u8, dgst: Digests, maxr2t_z: u32) -> IcReq {
        IcReq { ch: CommonHeader::new(PduType::IC_REQ), hpda_z, dgst, maxr2t_z, ..IcReq::new_zeroed() }
    }

    /// Checks the request, as a controller does.
    ///
    /// # Errors
    /// [`Fatal`] if the format version is unsupported, or the alignment is invalid.
    pub fn check(&self) -> Result<(), Fatal> {
        check_ic(self.pfv, self.hpda_z)
    }
}

impl IcResp {
    /// A response with alignment, digests and MAXH2CDATA in bytes.
    pub fn new(cpda_z: u8, dgst: Digests, maxh2cdata: u32) -> IcResp {
        IcResp { ch: CommonHeader::new(PduType::IC_RESP), cpda_z, dgst, maxh2cdata, ..IcResp::new_zeroed() }
    }

    /// Checks the response, as a host does, independent of the request.
    ///
    /// # Errors
    /// [`Fatal`] if the format version is unsupported, the alignment is invalid, or MAXH2CDATA is too small or not a
    /// multiple of 4.
    pub fn check(&self) -> Result<(), Fatal> {
        check_ic(self.pfv, self.cpda_z)?;
        if self.maxh2cdata < MAXH2CDATA_MIN || !self.maxh2cdata.is_multiple_of(4) {
            return Err(Fatal::field(12));
        }
        Ok(())
    }
}

fn check_ic(pfv: u16, pda_z: u8) -> Result<(), Fatal> {
    match (pfv, pda_z) {
        (0, 0..=31) => Ok(()),
        (0, _) => Err(Fatal::field(10)),
        _ => Err(Fatal { status: FatalStatus::UNSUPPORTED_PARAMETER, info: 8 }),
    }
}

impl TermReq {
    /// The request of an end that has found a fatal error.
    pub fn new(sender: End, fatal: Fatal) -> TermReq {
        let pdu_type = if sender == End::Host { PduType::H2C_TERM_REQ } else { PduType::C2H_TERM_REQ };
        TermReq {
            ch: CommonHeader::new(pdu_type),
            fes: fatal.status,
            fei: fatal.info.into(),
            ..TermReq::new_zeroed()
        }
    }

    /// The error that the sender has found.
    pub const fn fatal(&self) -> Fatal {
        Fatal { status: self.fes, info: self.fei.get() }
    }
}

impl CapsuleCmd {
    /// A capsule with a command.
    pub fn new(sqe: Sqe) -> CapsuleCmd {
        CapsuleCmd { ch: CommonHeader::new(PduType::CAPSULE_CMD), sqe }
    }
}

impl CapsuleResp {
    /// A capsule with a completion.
    pub fn new(cqe: Cqe) -> CapsuleResp {
        CapsuleResp { ch: CommonHeader::new(PduType::CAPSULE_RESP), cqe }
    }
}

impl H2cData {
    /// `datal` bytes for the R2T with `ttag`, from byte `datao` of the command's buffer on.
    pub fn new(cccid: u16, ttag: u16, datao: u32, datal: u32, last: bool) -> H2cData {
        let mut ch = CommonHeader::new(PduType::H2C_DATA);
        ch.flags.set_last_pdu(last);
        H2cData { ch, cccid, ttag, datao, datal, ..H2cData::new_zeroed() }
    }
}

impl C2hData {
    /// `datal` bytes for byte `datao` of the command's buffer on. `success` means that no response capsule follows; it
    /// requires `last`.
    pub fn new(cccid: u16, datao: u32, datal: u32, last: bool, success: bool) -> C2hData {
        debug_assert!(last || !success, "a command succeeds with its last data");
        let mut ch = CommonHeader::new(PduType::C2H_DATA);
        ch.flags = ch.flags.with_last_pdu(last).with_success(success);
        C2hData { ch, cccid, datao, datal, ..C2hData::new_zeroed() }
    }
}

impl R2t {
    /// Requests `r2tl` bytes from byte `r2to` of the command's buffer on.
    pub fn new(cccid: u16, ttag: u16, r2to: u32, r2tl: u32) -> R2t {
        R2t { ch: CommonHeader::new(PduType::R2T), cccid, ttag, r2to, r2tl, ..R2t::new_zeroed() }
    }
}

macro_rules! pdus {
    ($($type:ident($header:ty) = $code:pat,)+) => {
        /// The header of a PDU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Pdu {
            $(#[doc = concat!("[`", stringify!($header), "`]; of a TermReq the type says which end has sent it.")]
            $type($header),)+
        }

        impl Pdu {
            /// The common header.
            pub const fn ch(&self) -> &CommonHeader {
                match self { $(Pdu::$type(header) => &header.ch,)+ }
            }

            /// The common header, mutable.
            pub const fn ch_mut(&mut self) -> &mut CommonHeader {
                match self { $(Pdu::$type(header) => &mut header.ch,)+ }
            }

            /// The encoded header.
            pub fn as_bytes(&self) -> &[u8] {
                match self { $(Pdu::$type(header) => header.as_bytes(),)+ }
            }

            /// Decodes a header; `None` if the type is reserved or bytes are missing.
            pub fn from_bytes(bytes: &[u8]) -> Option<Pdu> {
                match PduType(*bytes.first()?) {
                    $($code => <$header>::read_from_prefix(bytes).ok().map(|(header, _)| Pdu::$type(header)),)+
                    _ => None,
                }
            }
        }

        $(impl From<$header> for Pdu {
            fn from(header: $header) -> Pdu {
                Pdu::$type(header)
            }
        })+
    };
}

pdus! {
    IcReq(IcReq) = PduType::IC_REQ,
    IcResp(IcResp) = PduType::IC_RESP,
    TermReq(TermReq) = PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ,
    CapsuleCmd(CapsuleCmd) = PduType::CAPSULE_CMD,
    CapsuleResp(CapsuleResp) = PduType::CAPSULE_RESP,
    H2cData(H2cData) = PduType::H2C_DATA,
    C2hData(C2hData) = PduType::C2H_DATA,
    R2t(R2t) = PduType::R2T,
}
