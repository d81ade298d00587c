//! Authentication Send and Receive, and the codes of DH-HMAC-CHAP (NVMe Base 2.1, 6.1, 6.2 and 8.3.4). [`message`] has
//! the messages; hashes and exponentials are computed elsewhere.

pub mod descriptor;
pub mod message;

pub use descriptor::{AuthError, Descriptor};
pub use message::{Challenge, Explanation, Failure, Message, Negotiate, Reply, Success1, Success2};

use super::FabricsType;
use crate::nvme::{SglDescriptor, Sqe};

/// The security protocol that an authentication command names (SPC-5): SECP, SPSP1 and SPSP0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityProtocol {
    /// Security Protocol; byte 43.
    pub secp: u8,
    /// SP Specific 1; byte 42.
    pub spsp1: u8,
    /// SP Specific 0; byte 41.
    pub spsp0: u8,
}

impl SecurityProtocol {
    /// NVMe in-band authentication (NVMe Base 2.1, 8.3.4.2.2): SECP E9h, SPSP1 01h, SPSP0 01h.
    pub const NVME: SecurityProtocol = SecurityProtocol { secp: 0xE9, spsp1: 0x01, spsp0: 0x01 };

    const fn parse(cdw10: u32) -> SecurityProtocol {
        SecurityProtocol { secp: (cdw10 >> 24) as u8, spsp1: (cdw10 >> 16) as u8, spsp0: (cdw10 >> 8) as u8 }
    }

    const fn cdw10(self) -> u32 {
        (self.secp as u32) << 24 | (self.spsp1 as u32) << 16 | (self.spsp0 as u32) << 8
    }
}

/// Authentication Send: a message to the controller (NVMe Base 2.1, 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthSend {
    /// Security protocol.
    pub protocol: SecurityProtocol,
    /// Transfer Length in bytes; bytes 47:44.
    pub transfer_bytes: u32,
}

impl AuthSend {
    /// The fields of an Authentication Send.
    pub const fn parse(sqe: &Sqe) -> AuthSend {
        AuthSend { protocol: SecurityProtocol::parse(sqe.cdw10), transfer_bytes: sqe.cdw11 }
    }

    /// Builds the command; `data` describes the message.
    pub fn sqe(&self, cid: u16, data: SglDescriptor) -> Sqe {
        let cdw10 = self.protocol.cdw10();
        let sqe = FabricsType::AUTHENTICATION_SEND.sqe_with_data(cid, data);
        Sqe { cdw10, cdw11: self.transfer_bytes, ..sqe }
    }
}

/// Authentication Receive: a message of the controller (NVMe Base 2.1, 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthReceive {
    /// Security protocol.
    pub protocol: SecurityProtocol,
    /// Allocation Length in bytes: the buffer, which may be longer than the message; bytes 47:44.
    pub allocation_bytes: u32,
}

impl AuthReceive {
    /// The fields of an Authentication Receive.
    pub const fn parse(sqe: &Sqe) -> AuthReceive {
        AuthReceive { protocol: SecurityProtocol::parse(sqe.cdw10), allocation_bytes: sqe.cdw11 }
    }

    /// Builds the command; `data` describes the buffer.
    pub fn sqe(&self, cid: u16, data: SglDescriptor) -> Sqe {
        let cdw10 = self.protocol.cdw10();
        let sqe = FabricsType::AUTHENTICATION_RECEIVE.sqe_with_data(cid, data);
        Sqe { cdw10, cdw11: self.allocation_bytes, ..sqe }
    }
}

/// Hash function of DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HashFunction {
    /// SHA-256, 01h.
    Sha256 = 1,
    /// SHA-384, 02h.
    Sha384 = 2,
    /// SHA-512, 03h.
    Sha512 = 3,
}

impl HashFunction {
    /// All hash functions, in ascending order of their codes.
    pub const ALL: [HashFunction; 3] = [HashFunction::Sha256, HashFunction::Sha384, HashFunction::Sha512];

    /// The function with this code; `None` if it is reserved or vendor-specific.
    pub fn from_code(code: u8) -> Option<HashFunction> {
        HashFunction::ALL.into_iter().find(|hash| hash.code() == code)
    }

    /// Hash Function Identifier.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Bytes of a hash: 32, 48 or 64.
    pub const fn bytes(self) -> usize {
        16 + 16 * self as usize
    }
}

/// Diffie-Hellman group of DH-HMAC-CHAP (NVMe Base 2.1, 8.3.4.5.2; RFC 7919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DhGroup {
    /// No exchange, 00h.
    Null = 0,
    /// ffdhe2048, 01h.
    Ffdhe2048 = 1,
    /// ffdhe3072, 02h.
    Ffdhe3072 = 2,
    /// ffdhe4096, 03h.
    Ffdhe4096 = 3,
    /// ffdhe6144, 04h.
    Ffdhe6144 = 4,
    /// ffdhe8192, 05h.
    Ffdhe8192 = 5,
}

impl DhGroup {
    /// All groups, in ascending order of their codes.
    pub const ALL: [DhGroup; 6] = [
        DhGroup::Null,
        DhGroup::Ffdhe2048,
        DhGroup::Ffdhe3072,
        DhGroup::Ffdhe4096,
        DhGroup::Ffdhe6144,
        DhGroup::Ffdhe8192,
    ];

    /// The group with this code; `None` if it is reserved or vendor-specific.
    pub fn from_code(code: u8) -> Option<DhGroup> {
        DhGroup::ALL.into_iter().find(|group| group.code() == code)
    }

    /// Diffie-Hellman Group Identifier.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Length of the modulus, which bounds an exponential, in bytes; 0 for the null group.
    pub const fn bytes(self) -> usize {
        match self {
            DhGroup::Null => 0,
            DhGroup::Ffdhe2048 => 256,
            DhGroup::Ffdhe3072 => 384,
            DhGroup::Ffdhe4096 => 512,
            DhGroup::Ffdhe6144 => 768,
            DhGroup::Ffdhe8192 => 1024,
        }
    }
}

/// Secure Channel Concatenation, SC_C (NVMe Base 2.1, 8.3.4.4.1). Unknown codes stay representable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecureChannel(pub u8);

impl SecureChannel {
    /// NOSC, 00h: none.
    pub const NONE: SecureChannel = SecureChannel(0x00);
    /// NEWTLSPSK, 02h: a pre-shared key for TLS is generated, on an admin queue in the clear.
    pub const NEW_TLS_PSK: SecureChannel = SecureChannel(0x02);
    /// REPLACETLSPSK, 03h: the generated key of the TLS channel in use is replaced, on an admin queue.
    pub const REPLACE_TLS_PSK: SecureChannel = SecureChannel(0x03);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabrics::DataPointer;

    /// Without this an authentication command would be taken for another security protocol's.
    #[test]
    fn fields_lie_where_the_specification_says() {
        let data = DataPointer::Transport { bytes: 4096 }.descriptor();
        let send = AuthSend { protocol: SecurityProtocol::NVME, transfer_bytes: 72 };
        let bytes = send.sqe(3, data).to_bytes();
        assert_eq!((bytes[4], bytes[39]), (5, 0x5A));
        assert_eq!(bytes[40..48], [0, 1, 1, 0xE9, 72, 0, 0, 0]);
        assert_eq!(AuthSend::parse(&send.sqe(3, data)), send);
        let protocol = SecurityProtocol { secp: 1, spsp1: 2, spsp0: 3 };
        let receive = AuthReceive { protocol, allocation_bytes: 0x1000 };
        let bytes = receive.sqe(3, data).to_bytes();
        assert_eq!((bytes[4], &bytes[40..48]), (6, &[0, 3, 2, 1, 0, 0x10, 0, 0][..]));
        assert_eq!(AuthReceive::parse(&receive.sqe(3, data)), receive);
    }

    /// Without this a hash or an exponential would be split at another position than where the sender joined it.
    #[test]
    fn codes_and_lengths_are_the_specifications() {
        assert_eq!(HashFunction::ALL.map(|hash| (hash.code(), hash.bytes())), [(1, 32), (2, 48), (3, 64)]);
        assert_eq!(DhGroup::ALL.map(DhGroup::bytes), [0, 256, 384, 512, 768, 1024]);
        assert!(DhGroup::ALL.into_iter().all(|group| DhGroup::from_code(group.code()) == Some(group)));
        assert_eq!((HashFunction::from_code(0), DhGroup::from_code(6)), (None, None));
    }
}
