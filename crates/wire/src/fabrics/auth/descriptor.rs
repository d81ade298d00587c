//! The descriptor of an authentication protocol in AUTH_Negotiate, and the parse errors of all messages.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{DhGroup, HashFunction};
use crate::nvme::assert_offsets;

/// Authentication Protocol Identifier of DH-HMAC-CHAP.
const DH_HMAC_CHAP: u8 = 0x01;

/// Why bytes are not a valid message. The receiver reports
/// [`Explanation::INCORRECT_PAYLOAD`](super::Explanation::INCORRECT_PAYLOAD), or
/// [`Explanation::INCORRECT_MESSAGE`](super::Explanation::INCORRECT_MESSAGE) for an unknown one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// AUTH_TYPE and AUTH_ID name no message.
    #[error("an authentication message has the unknown type {0:02X}h and identifier {1:02X}h")]
    Unknown(u8, u8),
    /// The message is shorter than its own length fields say.
    #[error("an authentication message has {is} bytes instead of {needs}")]
    Short {
        /// Bytes present.
        is: usize,
        /// Bytes required.
        needs: usize,
    },
    /// A list of hash functions or groups is empty or too long, or a length does not suit the hash or the group.
    #[error("an authentication message has an invalid length field")]
    Length,
    /// The hash function is unknown.
    #[error("an authentication message names the unknown hash function {0:02X}h")]
    Hash(u8),
    /// The group is unknown.
    #[error("an authentication message names the unknown Diffie-Hellman group {0:02X}h")]
    Group(u8),
    /// CVALID or RVALID is neither 0 nor 1.
    #[error("an authentication message has the reserved value {0:02X}h where validity is stated")]
    Valid(u8),
}

/// Authentication protocol descriptor for DH-HMAC-CHAP, 64 bytes (NVMe Base 2.1, 8.3.4.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    /// Authentication Protocol Identifier: 01h for DH-HMAC-CHAP.
    pub auth_id: u8,
    #[doc(hidden)]
    pub reserved_1: u8,
    /// HashIDList Length, 1 to 30.
    pub halen: u8,
    /// DHgIDList Length, 1 to 30.
    pub dhlen: u8,
    /// Hash Function Identifier List, the preferred one first.
    pub hash_ids: [u8; 30],
    /// Diffie-Hellman Group Identifier List, the preferred one first.
    pub dhg_ids: [u8; 30],
}

assert_offsets!(Descriptor: 64; auth_id = 0, halen = 2, dhlen = 3, hash_ids = 4, dhg_ids = 34);

impl Descriptor {
    /// A descriptor of DH-HMAC-CHAP, in order of preference.
    ///
    /// # Panics
    /// If a list is longer than 30.
    pub fn new(hashes: &[HashFunction], groups: &[DhGroup]) -> Descriptor {
        let (halen, dhlen) = (hashes.len() as u8, groups.len() as u8);
        let mut descriptor = Descriptor { auth_id: DH_HMAC_CHAP, halen, dhlen, ..Descriptor::new_zeroed() };
        for (id, hash) in descriptor.hash_ids[..hashes.len()].iter_mut().zip(hashes) {
            *id = hash.code();
        }
        for (id, group) in descriptor.dhg_ids[..groups.len()].iter_mut().zip(groups) {
            *id = group.code();
        }
        descriptor
    }

    /// The known hash functions of the list; none if the descriptor is of another protocol.
    pub fn hashes(&self) -> impl Iterator<Item = HashFunction> + '_ {
        let ids = if self.is_chap() { self.hash_ids.get(..usize::from(self.halen)) } else { None };
        ids.unwrap_or_default().iter().filter_map(|id| HashFunction::from_code(*id))
    }

    /// The known groups of the list; none if the descriptor is of another protocol.
    pub fn groups(&self) -> impl Iterator<Item = DhGroup> + '_ {
        let ids = if self.is_chap() { self.dhg_ids.get(..usize::from(self.dhlen)) } else { None };
        ids.unwrap_or_default().iter().filter_map(|id| DhGroup::from_code(*id))
    }

    /// Whether it describes DH-HMAC-CHAP.
    pub const fn is_chap(&self) -> bool {
        self.auth_id == DH_HMAC_CHAP
    }

    /// Checks the lengths of its lists.
    pub(super) fn check(&self) -> Result<(), AuthError> {
        let fits = |length| (1..=30).contains(&length);
        if self.is_chap() && !(fits(self.halen) && fits(self.dhlen)) {
            return Err(AuthError::Length);
        }
        Ok(())
    }
}
