//! The agreement of both ends of a connection, and the layout of PDUs under it.

use super::fault::Fatal;
use super::pdu::{Digests, End, IcReq, IcResp, Pdu};

/// Maximum length of a header with its digest and padding, in bytes: with alignments up to 128 bytes it is that of a
/// Command Capsule whose data is aligned to 72 bytes.
pub const HEADER_BYTES_MAX: usize = 144;

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// The result of ICReq and ICResp (TCP Transport 1.0, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Digests in use.
    pub digests: Digests,
    /// Alignment of data to the host in bytes, 4 to 128.
    pub host_alignment: u32,
    /// Alignment of data to the controller in bytes, 4 to 128.
    pub controller_alignment: u32,
    /// Maximum number of outstanding R2Ts for a command, at least 1.
    pub maxr2t: u64,
    /// Maximum data in an H2CData PDU, in bytes.
    pub maxh2cdata: u32,
}

impl Agreement {
    /// The agreement that request and response make.
    ///
    /// # Errors
    /// [`Fatal`] with the offset of the invalid field, in the request for the controller to report, or in the response
    /// for the host: the field is invalid by itself, or the response enables a digest that was not requested.
    pub fn new(request: &IcReq, response: &IcResp) -> Result<Agreement, Fatal> {
        request.check()?;
        response.check()?;
        let digests = response.dgst;
        if digests.header() && !request.dgst.header() || digests.data() && !request.dgst.data() {
            return Err(Fatal::field(11));
        }
        Ok(Agreement {
            digests,
            host_alignment: (u32::from(request.hpda_z) + 1) * 4,
            controller_alignment: (u32::from(response.cpda_z) + 1) * 4,
            maxr2t: u64::from(request.maxr2t_z) + 1,
            maxh2cdata: response.maxh2cdata,
        })
    }

    /// Layout of the PDUs that `receiver` receives.
    pub const fn framing_to(&self, receiver: End) -> Framing {
        let alignment = match receiver {
            End::Host => self.host_alignment,
            End::Controller => self.controller_alignment,
        };
        Framing { header_digest: self.digests.header(), data_digest: self.digests.data(), alignment }
    }
}

/// Layout of the PDUs in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    header_digest: bool,
    data_digest: bool,
    /// In bytes, a multiple of 4 up to 128.
    alignment: u32,
}

impl Framing {
    /// Layout before the agreement: no digests.
    pub const INITIAL: Framing = Framing { header_digest: false, data_digest: false, alignment: 4 };

    /// Whether a PDU has a header digest: all but ICReq, ICResp and both TermReqs.
    pub const fn has_header_digest(&self, pdu: &Pdu) -> bool {
        self.header_digest && !matches!(pdu, Pdu::IcReq(_) | Pdu::IcResp(_) | Pdu::TermReq(_))
    }

    /// Whether a digest follows the data of a PDU: all but a TermReq's.
    pub const fn has_data_digest(&self, pdu: &Pdu) -> bool {
        self.data_digest && !matches!(pdu, Pdu::TermReq(_))
    }

    pub(super) const fn digests(&self) -> (bool, bool) {
        (self.header_digest, self.data_digest)
    }

    pub(super) const fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Sets digest flags, PDO and PLEN for `data_bytes` bytes of data.
    ///
    /// # Panics
    /// If the PDU's length exceeds 32 bits.
    fn seal(&self, mut pdu: Pdu, data_bytes: u32) -> Pdu {
        let (header_digest, is_term) = (self.has_header_digest(&pdu), matches!(pdu, Pdu::TermReq(_)));
        let data_digest = data_bytes > 0 && self.has_data_digest(&pdu);
        let ch = pdu.ch_mut();
        ch.flags = ch.flags.with_hdgstf(header_digest).with_ddgstf(data_digest);
        let header_bytes = u32::from(ch.hlen) + if header_digest { DIGEST_BYTES as u32 } else { 0 };
        let data_at = if is_term { header_bytes } else { header_bytes.next_multiple_of(self.alignment) };
        // Without data PDO is reserved; in a TermReq it always is.
        ch.pdo = if data_bytes > 0 && !is_term { data_at as u8 } else { 0 };
        ch.plen = if data_bytes == 0 {
            header_bytes
        } else {
            let bytes = data_at + if data_digest { DIGEST_BYTES as u32 } else { 0 };
            bytes.checked_add(data_bytes).expect("a PDU has less than 4 GiB")
        };
        pdu
    }

    /// Length of a whole PDU with `data_bytes` bytes of data.
    pub fn pdu_bytes(&self, pdu: &Pdu, data_bytes: u32) -> u32 {
        self.seal(*pdu, data_bytes).ch().plen
    }

    /// Writes the header of a PDU with `data_bytes` bytes of data, its digest and the padding; returns their length.
    /// The data follows, and then its [`DataDigest`] if [`has_data_digest`](Self::has_data_digest).
    ///
    /// # Panics
    /// If DATAL of a data PDU differs, or the PDU type has no data: errors of the caller.
    pub fn encode_header(&self, pdu: &Pdu, data_bytes: u32, out: &mut [u8; HEADER_BYTES_MAX]) -> usize {
        match pdu {
            Pdu::H2cData(header) => assert_eq!(header.datal, data_bytes, "DATAL is the data's length"),
            Pdu::C2hData(header) => assert_eq!(header.datal, data_bytes, "DATAL is the data's length"),
            Pdu::CapsuleCmd(_) | Pdu::TermReq(_) => {}
            Pdu::IcReq(_) | Pdu::IcResp(_) | Pdu::CapsuleResp(_) | Pdu::R2t(_) => {
                assert_eq!(data_bytes, 0, "the PDU has no data");
            }
        }
        let pdu = self.seal(*pdu, data_bytes);
        let header = pdu.as_bytes();
        out.fill(0);
        out[..header.len()].copy_from_slice(header);
        let mut end = header.len();
        if pdu.ch().flags.hdgstf() {
            out[end..end + DIGEST_BYTES].copy_from_slice(&digest(header));
            end += DIGEST_BYTES;
        }
        end.max(pdu.ch().pdo.into())
    }

    /// Writes a whole PDU; returns its length, or `None` if `out` is too short.
    ///
    /// # Panics
    /// Same as [`encode_header`](Self::encode_header).
    pub fn encode(&self, pdu: &Pdu, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let data_bytes = u32::try_from(data.len()).ok()?;
        let total = self.pdu_bytes(pdu, data_bytes) as usize;
        let out = out.get_mut(..total)?;
        let mut header = [0; HEADER_BYTES_MAX];
        let header_bytes = self.encode_header(pdu, data_bytes, &mut header);
        let (start, rest) = out.split_at_mut(header_bytes);
        start.copy_from_slice(&header[..header_bytes]);
        let (body, trailer) = rest.split_at_mut(data.len());
        body.copy_from_slice(data);
        if !trailer.is_empty() {
            trailer.copy_from_slice(&digest(data));
        }
        Some(total)
    }
}

/// CRC32C of `bytes`, as transmitted (TCP Transport 1.0, 3.3.1.1).
pub fn digest(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    crc32c::crc32c(bytes).to_le_bytes()
}

/// Digest of data that arrives in parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataDigest(u32);

impl DataDigest {
    /// The digest of no data.
    pub const fn new() -> DataDigest {
        DataDigest(0)
    }

    /// Adds the next part.
    pub fn update(&mut self, part: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, part);
    }

    /// The digest of all parts so far, as transmitted.
    pub const fn finish(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}
