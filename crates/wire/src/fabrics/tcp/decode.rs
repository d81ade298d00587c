//! The NVMe/TCP decoder: turns bytes from a socket into PDUs, with headers checked as a whole and data in pieces.
//!
//! The decoder allocates nothing: it buffers one header, and passes data on as slices of the caller's bytes.

use super::TERM_BYTES_MAX;
use super::fault::{Fatal, FatalStatus, PduError};
use super::framing::{DIGEST_BYTES, DataDigest, Framing, digest};
use super::pdu::{CommonHeader, End, Flags, Pdu, PduType};

/// The longest header with its digest: a Command Capsule has 76 bytes, an ICReq 128 without a digest.
const HEADER_BYTES: usize = 128;

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Greatest PLEN, in bytes; a greater one is an invalid field. H2CData has a separate limit.
    pub plen_max: u32,
    /// MAXH2CDATA in bytes, as the controller announced it; more data in an H2CData PDU is Data Transfer Limit
    /// Exceeded.
    pub maxh2cdata: u32,
    /// Whether data offsets and lengths must be multiples of 4, as TCP Transport 1.0, 3.6.2.8 to 3.6.2.10 demands.
    /// Linux and SPDK do not check, and values of key-value pairs have any length.
    pub dwords: bool,
}

/// The result of a decoding step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// All bytes were consumed; more are needed.
    More,
    /// A valid header. If the PDU has data, [`Event::Data`] and then [`Event::End`] follow; otherwise the PDU is
    /// complete.
    Header {
        /// The header.
        pdu: Pdu,
        /// Length of its data, in bytes.
        data_bytes: u32,
    },
    /// The next part of the data, at least one byte.
    Data(&'a [u8]),
    /// The data is complete.
    End {
        /// Whether the data matches its digest; true without digests. On a mismatch the command fails with Transient
        /// Transport Error, and the connection continues (TCP Transport 1.0, 3.5).
        intact: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between PDUs: the last header is kept for [`Decoder::header`].
    Between,
    /// In the common header.
    Common,
    /// In the rest of the header and its digest.
    Specific { data_bytes: u32, pad: u32 },
    /// In the padding.
    Pad { left: u32, data_bytes: u32 },
    /// In the data.
    Data { left: u32 },
    /// In the data digest.
    Trailer,
    /// An error occurred: nothing further is decoded.
    Failed(PduError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// ICReq or ICResp must come first.
    Initial,
    /// The request was received, and the caller has not established the agreement yet.
    Agreeing,
    /// All other PDUs are allowed.
    Running,
}

/// Decodes the PDUs that one end of a connection receives.
///
/// After an error every further call returns the same error.
#[derive(Clone, Debug)]
pub struct Decoder {
    receiver: End,
    limits: Limits,
    framing: Framing,
    phase: Phase,
    state: State,
    header: [u8; HEADER_BYTES],
    /// Bytes of `header` received.
    filled: usize,
    /// Bytes required: of the common header first, then of HLEN and the digest.
    needed: usize,
    /// Whether a digest follows this PDU's data.
    has_trailer: bool,
    data_digest: DataDigest,
    trailer: [u8; DIGEST_BYTES],
    trailer_filled: usize,
}

impl Decoder {
    /// A decoder for a new connection, for the PDUs that `receiver` receives.
    pub const fn new(receiver: End, limits: Limits) -> Decoder {
        Decoder {
            receiver,
            limits,
            framing: Framing::INITIAL,
            phase: Phase::Initial,
            state: State::Between,
            header: [0; HEADER_BYTES],
            filled: 0,
            needed: CommonHeader::SIZE,
            has_trailer: false,
            data_digest: DataDigest::new(),
            trailer: [0; DIGEST_BYTES],
            trailer_filled: 0,
        }
    }

    /// Sets the agreed layout. Call it after ICReq or ICResp was received, and before passing any later byte.
    pub const fn establish(&mut self, framing: Framing) {
        self.framing = framing;
        self.phase = Phase::Running;
    }

    /// The bytes of the last header, or of its received part: the data of a TermReq. At most 128 bytes.
    pub fn header(&self) -> &[u8] {
        let hlen = Pdu::from_bytes(&self.header[..self.filled]).map(|pdu| pdu.ch().hlen.into());
        &self.header[..self.filled.min(hlen.unwrap_or(CommonHeader::SIZE))]
    }

    /// Consumes bytes from the front of `bytes` up to the next event. Call it until it returns [`Event::More`].
    ///
    /// # Errors
    /// [`PduError`] if the stream violates the protocol. No header is reported before it was checked.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Event<'a>, PduError> {
        let event = self.step(bytes);
        if let Err(error) = event {
            self.state = State::Failed(error);
        }
        event
    }

    fn step<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Event<'a>, PduError> {
        loop {
            match self.state {
                State::Failed(error) => return Err(error),
                State::Between => {
                    if bytes.is_empty() {
                        return Ok(Event::More);
                    }
                    (self.filled, self.needed) = (0, CommonHeader::SIZE);
                    self.state = State::Common;
                }
                State::Common => {
                    if !self.fill(bytes) {
                        return Ok(Event::More);
                    }
                    self.state = self.check_common()?;
                }
                State::Specific { data_bytes, pad } => {
                    if !self.fill(bytes) {
                        return Ok(Event::More);
                    }
                    let pdu = self.check_specific(data_bytes)?;
                    if pdu.ch().pdu_type.is_ic() {
                        self.phase = Phase::Agreeing;
                    }
                    self.state =
                        if data_bytes == 0 { State::Between } else { State::Pad { left: pad, data_bytes } };
                    return Ok(Event::Header { pdu, data_bytes });
                }
                State::Pad { left, data_bytes } => {
                    let skipped = take(bytes, left).len() as u32;
                    if skipped < left {
                        self.state = State::Pad { left: left - skipped, data_bytes };
                        return Ok(Event::More);
                    }
                    (self.data_digest, self.trailer_filled) = (DataDigest::new(), 0);
                    self.state = State::Data { left: data_bytes };
                }
                State::Data { left: 0 } => self.state = State::Trailer,
                State::Data { left } => {
                    let part = take(bytes, left);
                    if part.is_empty() {
                        return Ok(Event::More);
                    }
                    if self.has_trailer {
                        self.data_digest.update(part);
                    }
                    self.state = State::Data { left: left - part.len() as u32 };
                    return Ok(Event::Data(part));
                }
                State::Trailer => {
                    if self.has_trailer {
                        let part = take(bytes, (DIGEST_BYTES - self.trailer_filled) as u32);
                        self.trailer[self.trailer_filled..][..part.len()].copy_from_slice(part);
                        self.trailer_filled += part.len();
                        if self.trailer_filled < DIGEST_BYTES {
                            return Ok(Event::More);
                        }
                    }
                    self.state = State::Between;
                    let intact = !self.has_trailer || self.trailer == self.data_digest.finish();
                    return Ok(Event::End { intact });
                }
            }
        }
    }

    /// Consumes bytes of the header; returns whether all required ones are there.
    fn fill(&mut self, bytes: &mut &[u8]) -> bool {
        let part = take(bytes, (self.needed - self.filled) as u32);
        self.header[self.filled..][..part.len()].copy_from_slice(part);
        self.filled += part.len();
        self.filled == self.needed
    }

    /// Checks the common header in the order of field offsets, so that the lowest invalid field is reported.
    fn check_common(&mut self) -> Result<State, PduError> {
        let [pdu_type, flags, hlen, pdo, plen @ ..] =
            *self.header.first_chunk::<{ CommonHeader::SIZE }>().expect("a header is longer");
        let (pdu_type, flags) = (PduType(pdu_type), Flags::from_bits(flags));
        let plen = u32::from_le_bytes(plen);
        let header_bytes = pdu_type.header_bytes().filter(|_| pdu_type.receiver() == self.receiver);
        let header_bytes = header_bytes.ok_or(Fatal::field(0))?;
        if pdu_type.is_term() {
            return self.check_term(hlen, plen);
        }
        if pdu_type.is_ic() != (self.phase == Phase::Initial) || self.phase == Phase::Agreeing {
            return Err(Fatal::of(FatalStatus::SEQUENCE).into());
        }
        // In ICReq and ICResp the flags are reserved, and the initial layout has no digests.
        let (header_digest, data_digest) = self.framing.digests();
        if !pdu_type.is_ic() && flags.hdgstf() != header_digest {
            return Err(Fatal::field(1).into());
        }
        self.needed = header_bytes + if header_digest { DIGEST_BYTES } else { 0 };
        let needed = self.needed as u32;
        let has_data = match pdu_type {
            PduType::CAPSULE_CMD => plen > needed,
            PduType::H2C_DATA | PduType::C2H_DATA => true,
            _ => false,
        };
        self.has_trailer = has_data && data_digest;
        let is_early_success = pdu_type == PduType::C2H_DATA && flags.success() && !flags.last_pdu();
        if has_data && flags.ddgstf() != data_digest || is_early_success {
            return Err(Fatal::field(1).into());
        }
        if usize::from(hlen) != header_bytes {
            return Err(Fatal::field(2).into());
        }
        if !has_data {
            let is_wrong = plen != needed || plen > self.limits.plen_max && !pdu_type.is_ic();
            return if is_wrong {
                Err(Fatal::field(4).into())
            } else {
                Ok(State::Specific { data_bytes: 0, pad: 0 })
            };
        }
        let pdo = u32::from(pdo);
        if pdo < needed || !pdo.is_multiple_of(self.framing.alignment()) {
            return Err(Fatal::field(3).into());
        }
        let trailer = if self.has_trailer { DIGEST_BYTES as u32 } else { 0 };
        let data_bytes = plen.checked_sub(pdo + trailer).filter(|bytes| *bytes > 0);
        let is_within = plen <= self.limits.plen_max || pdu_type == PduType::H2C_DATA;
        let data_bytes = data_bytes.filter(|_| is_within).ok_or(Fatal::field(4))?;
        Ok(State::Specific { data_bytes, pad: pdo - needed })
    }

    /// A TermReq has neither digest nor padding, and a malformed one gets no answer.
    fn check_term(&mut self, hlen: u8, plen: u32) -> Result<State, PduError> {
        let header_bytes = 24;
        if hlen != header_bytes || !(header_bytes.into()..=TERM_BYTES_MAX).contains(&plen) {
            return Err(PduError::TermReq);
        }
        self.needed = header_bytes.into();
        self.has_trailer = false;
        Ok(State::Specific { data_bytes: plen - u32::from(header_bytes), pad: 0 })
    }

    /// Checks the header's digest, then its other fields.
    fn check_specific(&self, data_bytes: u32) -> Result<Pdu, PduError> {
        let pdu = Pdu::from_bytes(&self.header[..self.filled]).expect("the type was checked");
        let (header, received) = self.header[..self.filled].split_at(pdu.ch().hlen.into());
        if let Some(received) = received.first_chunk()
            && *received != digest(header)
        {
            let info = u32::from_le_bytes(*received);
            return Err(Fatal { status: FatalStatus::HEADER_DIGEST, info }.into());
        }
        match &pdu {
            Pdu::IcReq(request) => request.check()?,
            Pdu::IcResp(response) => response.check()?,
            Pdu::H2cData(header) => {
                self.check_data(header.datao, header.datal, data_bytes)?;
                if data_bytes > self.limits.maxh2cdata {
                    return Err(Fatal::of(FatalStatus::LIMIT_EXCEEDED).into());
                }
            }
            Pdu::C2hData(header) => self.check_data(header.datao, header.datal, data_bytes)?,
            Pdu::R2t(header) => {
                // An R2T for zero bytes could not be answered with data.
                self.check_range(header.r2to, header.r2tl)?;
                if header.r2tl == 0 {
                    return Err(Fatal::field(16).into());
                }
            }
            Pdu::TermReq(_) | Pdu::CapsuleCmd(_) | Pdu::CapsuleResp(_) => {}
        }
        Ok(pdu)
    }

    /// Checks offset and length of data. The length must match PLEN; if not, PLEN is reported, the lower field.
    fn check_data(&self, offset: u32, length: u32, data_bytes: u32) -> Result<(), Fatal> {
        if length != data_bytes {
            return Err(Fatal::field(4));
        }
        self.check_range(offset, length)
    }

    fn check_range(&self, offset: u32, length: u32) -> Result<(), Fatal> {
        for (field, value) in [(12, offset), (16, length)] {
            if self.limits.dwords && !value.is_multiple_of(4) {
                return Err(Fatal::field(field));
            }
        }
        match offset.checked_add(length) {
            Some(_) => Ok(()),
            None => Err(Fatal::of(FatalStatus::OUT_OF_RANGE)),
        }
    }
}

/// Splits off up to `count` bytes at the front.
fn take<'a>(bytes: &mut &'a [u8], count: u32) -> &'a [u8] {
    let (part, rest) = bytes.split_at(bytes.len().min(count as usize));
    *bytes = rest;
    part
}
