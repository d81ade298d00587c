//! Messages of in-band authentication (NVMe Base 2.1, 8.3.4.4 and 8.3.4.5), parsed and built.
//!
//! | message | type, identifier | sent by | bytes |
//! |---|---|---|---|
//! | AUTH_Negotiate | 00h, 00h | host | 8, and 64 a protocol |
//! | DH-HMAC-CHAP_Challenge | 01h, 01h | controller | 16, hash, exponential |
//! | DH-HMAC-CHAP_Reply | 01h, 02h | host | 16, two hashes, exponential |
//! | DH-HMAC-CHAP_Success1 | 01h, 03h | controller | 16, hash |
//! | DH-HMAC-CHAP_Success2 | 01h, 04h | host | 16 |
//! | AUTH_Failure2 | 00h, F0h | host | 8 |
//! | AUTH_Failure1 | 00h, F1h | controller | 8 |
//!
//! A buffer may be longer than its message; the allocation of an Authentication Receive usually is.

use core::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::descriptor::{AuthError, Descriptor};
use super::{DhGroup, HashFunction, SecureChannel};
use crate::nvme::assert_offsets;

/// AUTH_TYPE of the common messages.
const COMMON: u8 = 0x00;
/// AUTH_TYPE of DH-HMAC-CHAP.
const DH_HMAC_CHAP: u8 = 0x01;

/// The header of AUTH_Negotiate and the failures, 8 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CommonHead {
    auth_type: u8,
    auth_id: u8,
    reserved_2: [u8; 2],
    t_id: U16,
    /// SC_C, or reason code.
    sc_c: u8,
    /// Number of protocol descriptors, or reason code explanation.
    napd: u8,
}

assert_offsets!(CommonHead: 8; auth_type = 0, auth_id = 1, t_id = 4, sc_c = 6, napd = 7);

/// The header of the DH-HMAC-CHAP messages, 16 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ChapHead {
    auth_type: u8,
    auth_id: u8,
    reserved_2: [u8; 2],
    t_id: U16,
    /// Hash Length in bytes.
    hl: u8,
    reserved_7: u8,
    /// Challenge: HashID; Reply: CVALID; Success1: RVALID.
    hash_id: u8,
    /// Challenge: DHgID.
    dhg_id: u8,
    /// Challenge and Reply: DH Value Length in bytes.
    dhvlen: U16,
    /// Challenge and Reply: Sequence Number.
    seqnum: U32,
}

assert_offsets!(ChapHead: 16; auth_type = 0, auth_id = 1, t_id = 4, hl = 6, hash_id = 8, dhg_id = 9, dhvlen = 10,
    seqnum = 12);

/// AUTH_Negotiate (NVMe Base 2.1, 8.3.4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiate<'a> {
    /// Transaction Identifier.
    pub transaction: u16,
    /// Secure Channel Concatenation.
    pub secure_channel: SecureChannel,
    /// Protocols that the host can use; at most 255.
    pub descriptors: &'a [Descriptor],
}

/// DH-HMAC-CHAP_Challenge (NVMe Base 2.1, 8.3.4.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Transaction Identifier.
    pub transaction: u16,
    /// Hash function that the controller has chosen.
    pub hash: HashFunction,
    /// Group that the controller has chosen.
    pub group: DhGroup,
    /// Sequence Number S1.
    pub sequence: u32,
    /// Challenge Value C1, as long as a hash.
    pub challenge: &'a [u8],
    /// The controller's exponential; empty for the null group.
    pub dh_value: &'a [u8],
}

/// DH-HMAC-CHAP_Reply (NVMe Base 2.1, 8.3.4.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Transaction Identifier.
    pub transaction: u16,
    /// Sequence Number S2; 0 if C2 is for a generated key alone, and the controller does not have to answer it.
    pub sequence: u32,
    /// Response Value R1: 32, 48 or 64 bytes. The controller checks that it has the length of the chosen hash.
    pub response: &'a [u8],
    /// Challenge Value C2, as long as the response, if the controller is to be authenticated too or a key is generated.
    pub challenge: Option<&'a [u8]>,
    /// The host's exponential; empty for the null group.
    pub dh_value: &'a [u8],
}

/// DH-HMAC-CHAP_Success1 (NVMe Base 2.1, 8.3.4.5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success1<'a> {
    /// Transaction Identifier.
    pub transaction: u16,
    /// The chosen hash function, which determines the message's length.
    pub hash: HashFunction,
    /// Response Value R2, as long as a hash, if the host has asked for it.
    pub response: Option<&'a [u8]>,
}

/// DH-HMAC-CHAP_Success2 (NVMe Base 2.1, 8.3.4.5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Success2 {
    /// Transaction Identifier.
    pub transaction: u16,
}

/// AUTH_Failure1 and AUTH_Failure2 (NVMe Base 2.1, 8.3.4.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Transaction Identifier.
    pub transaction: u16,
    /// Reason code; 01h, authentication failure, is the only one.
    pub reason: u8,
    /// Reason code explanation.
    pub explanation: Explanation,
}

impl Failure {
    /// An authentication failure.
    pub const fn new(transaction: u16, explanation: Explanation) -> Failure {
        Failure { transaction, reason: 0x01, explanation }
    }
}

/// Reason code explanation of a failure. Unknown codes stay representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation(pub u8);

impl Explanation {
    /// Authentication failed.
    pub const FAILED: Explanation = Explanation(0x01);
    /// Authentication protocol not usable.
    pub const PROTOCOL_NOT_USABLE: Explanation = Explanation(0x02);
    /// Secure channel concatenation mismatch.
    pub const SECURE_CHANNEL_MISMATCH: Explanation = Explanation(0x03);
    /// Hash function not usable.
    pub const HASH_NOT_USABLE: Explanation = Explanation(0x04);
    /// DH group not usable.
    pub const GROUP_NOT_USABLE: Explanation = Explanation(0x05);
    /// Incorrect payload.
    pub const INCORRECT_PAYLOAD: Explanation = Explanation(0x06);
    /// Incorrect protocol message.
    pub const INCORRECT_MESSAGE: Explanation = Explanation(0x07);

    /// The specification's name, or "reserved explanation".
    pub const fn name(self) -> &'static str {
        match self {
            Explanation::FAILED => "authentication failed",
            Explanation::PROTOCOL_NOT_USABLE => "authentication protocol not usable",
            Explanation::SECURE_CHANNEL_MISMATCH => "secure channel concatenation mismatch",
            Explanation::HASH_NOT_USABLE => "hash function not usable",
            Explanation::GROUP_NOT_USABLE => "DH group not usable",
            Explanation::INCORRECT_PAYLOAD => "incorrect payload",
            Explanation::INCORRECT_MESSAGE => "incorrect protocol message",
            _ => "reserved explanation",
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:02X}h)", self.name(), self.0)
    }
}

/// A message of an authentication transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Host: supported protocols, hashes and groups.
    Negotiate(Negotiate<'a>),
    /// Controller: the choice, and a challenge for the host.
    Challenge(Challenge<'a>),
    /// Host: the response, and possibly a challenge for the controller.
    Reply(Reply<'a>),
    /// Controller: the host is authenticated; contains the response if the host asked for one.
    Success1(Success1<'a>),
    /// Host: the controller is authenticated.
    Success2(Success2),
    /// Controller: the transaction has failed.
    Failure1(Failure),
    /// Host: the transaction has failed.
    Failure2(Failure),
}

impl<'a> Message<'a> {
    /// Parses a message at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`AuthError`] if the message is unknown or too short, or its lengths do not match its hash and group.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, AuthError> {
        let short = |needs| AuthError::Short { is: bytes.len(), needs };
        let (head, rest) = CommonHead::read_from_prefix(bytes).map_err(|_| short(size_of::<CommonHead>()))?;
        let transaction = head.t_id.get();
        let failure = Failure { transaction, reason: head.sc_c, explanation: Explanation(head.napd) };
        match (head.auth_type, head.auth_id) {
            (COMMON, 0x00) => {
                let needs = size_of::<CommonHead>() + usize::from(head.napd) * size_of::<Descriptor>();
                let list = rest.get(..needs - size_of::<CommonHead>()).ok_or(short(needs))?;
                let descriptors = <[Descriptor]>::ref_from_bytes(list).map_err(|_| AuthError::Length)?;
                descriptors.iter().try_for_each(Descriptor::check)?;
                let secure_channel = SecureChannel(head.sc_c);
                Ok(Message::Negotiate(Negotiate { transaction, secure_channel, descriptors }))
            }
            (COMMON, 0xF0) => Ok(Message::Failure2(failure)),
            (COMMON, 0xF1) => Ok(Message::Failure1(failure)),
            (DH_HMAC_CHAP, 0x01..=0x04) => Message::parse_chap(bytes),
            (auth_type, auth_id) => Err(AuthError::Unknown(auth_type, auth_id)),
        }
    }

    fn parse_chap(bytes: &'a [u8]) -> Result<Message<'a>, AuthError> {
        let short = |needs| AuthError::Short { is: bytes.len(), needs };
        let (head, rest) = ChapHead::read_from_prefix(bytes).map_err(|_| short(size_of::<ChapHead>()))?;
        let (transaction, sequence) = (head.t_id.get(), head.seqnum.get());
        if head.auth_id == 0x04 {
            return Ok(Message::Success2(Success2 { transaction }));
        }
        let hash_bytes = usize::from(head.hl);
        let hash = HashFunction::ALL.into_iter().find(|hash| hash.bytes() == hash_bytes);
        let hash = hash.ok_or(AuthError::Length)?;
        let valid = || match head.hash_id {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(AuthError::Valid(other)),
        };
        // Splits off the next part of the message.
        let mut rest = rest;
        let mut take = |length: usize| {
            let needs = bytes.len() - rest.len() + length;
            let (part, after) = rest.split_at_checked(length).ok_or(short(needs))?;
            rest = after;
            Ok(part)
        };
        let dhvlen = usize::from(head.dhvlen.get());
        match head.auth_id {
            0x01 => {
                let chosen = HashFunction::from_code(head.hash_id).ok_or(AuthError::Hash(head.hash_id))?;
                let group = DhGroup::from_code(head.dhg_id).ok_or(AuthError::Group(head.dhg_id))?;
                if chosen != hash || dhvlen > group.bytes() || (dhvlen == 0) != (group == DhGroup::Null) {
                    return Err(AuthError::Length);
                }
                let (challenge, dh_value) = (take(hash_bytes)?, take(dhvlen)?);
                Ok(Message::Challenge(Challenge { transaction, hash, group, sequence, challenge, dh_value }))
            }
            0x02 => {
                if dhvlen > DhGroup::Ffdhe8192.bytes() {
                    return Err(AuthError::Length);
                }
                let (response, challenge) = (take(hash_bytes)?, take(hash_bytes)?);
                let challenge = valid()?.then_some(challenge);
                let dh_value = take(dhvlen)?;
                Ok(Message::Reply(Reply { transaction, sequence, response, challenge, dh_value }))
            }
            // Some controllers omit the response field when there is no response.
            _ => {
                let response = if valid()? { Some(take(hash_bytes)?) } else { None };
                Ok(Message::Success1(Success1 { transaction, hash, response }))
            }
        }
    }

    /// Encodes the message.
    ///
    /// # Panics
    /// If parts of an own message exceed its length fields, or do not have the hash's length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let chap = |auth_id, transaction: u16, hash_bytes: usize| ChapHead {
            auth_type: DH_HMAC_CHAP,
            auth_id,
            t_id: transaction.into(),
            hl: hash_bytes as u8,
            ..ChapHead::new_zeroed()
        };
        let dhvlen = |dh_value: &[u8]| U16::new(u16::try_from(dh_value.len()).expect("an exponential fits"));
        match *self {
            Message::Negotiate(Negotiate { transaction, secure_channel, descriptors }) => {
                let napd = u8::try_from(descriptors.len()).expect("there are at most 255 descriptors");
                [common(0x00, transaction, secure_channel.0, napd).as_bytes(), descriptors.as_bytes()]
                    .concat()
            }
            Message::Challenge(Challenge { transaction, hash, group, sequence, challenge, dh_value }) => {
                assert_eq!(challenge.len(), hash.bytes(), "a challenge is as long as a hash");
                let head = ChapHead {
                    hash_id: hash.code(),
                    dhg_id: group.code(),
                    dhvlen: dhvlen(dh_value),
                    seqnum: sequence.into(),
                    ..chap(0x01, transaction, hash.bytes())
                };
                [head.as_bytes(), challenge, dh_value].concat()
            }
            Message::Reply(Reply { transaction, sequence, response, challenge, dh_value }) => {
                let none = [0; 64];
                let challenge_field = challenge.unwrap_or(&none[..response.len()]);
                assert_eq!(challenge_field.len(), response.len(), "a challenge is as long as a hash");
                let head = ChapHead {
                    hash_id: challenge.is_some().into(),
                    dhvlen: dhvlen(dh_value),
                    seqnum: sequence.into(),
                    ..chap(0x02, transaction, response.len())
                };
                [head.as_bytes(), response, challenge_field, dh_value].concat()
            }
            Message::Success1(Success1 { transaction, hash, response }) => {
                let none = [0; 64];
                let response_field = response.unwrap_or(&none[..hash.bytes()]);
                assert_eq!(response_field.len(), hash.bytes(), "a response is as long as a hash");
                let head =
                    ChapHead { hash_id: response.is_some().into(), ..chap(0x03, transaction, hash.bytes()) };
                [head.as_bytes(), response_field].concat()
            }
            Message::Success2(Success2 { transaction }) => chap(0x04, transaction, 0).as_bytes().to_vec(),
            Message::Failure1(Failure { transaction, reason, explanation }) => {
                common(0xF1, transaction, reason, explanation.0).as_bytes().to_vec()
            }
            Message::Failure2(Failure { transaction, reason, explanation }) => {
                common(0xF0, transaction, reason, explanation.0).as_bytes().to_vec()
            }
        }
    }
}

fn common(auth_id: u8, transaction: u16, sc_c: u8, napd: u8) -> CommonHead {
    CommonHead { auth_type: COMMON, auth_id, reserved_2: [0; 2], t_id: transaction.into(), sc_c, napd }
}
