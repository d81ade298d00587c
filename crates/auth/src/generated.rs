//! The generated PSK: the pre-shared TLS key that a transaction with secure channel concatenation produces
//! (NVMe Base 2.1, 8.3.4.5.9).

use crate::hash::{digest, hmac};
use byteway_wire::fabrics::auth::HashFunction;
use std::fmt;
use zeroize::Zeroizing;

/// A generated PSK, from which both ends derive the TLS PSK and its identity. Its memory is cleared on drop.
#[derive(Clone)]
pub struct GeneratedPsk {
    hash: HashFunction,
    key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for GeneratedPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedPsk").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl GeneratedPsk {
    /// Derives the key from the Diffie-Hellman shared value and the challenges C1 and C2.
    ///
    /// The session key is the hash of the shared value. Linux before 7.1 uses the value itself, with the same
    /// result: the value is longer than a hash block, and HMAC hashes such keys first.
    pub(crate) fn new(hash: HashFunction, shared: &[u8], challenges: [&[u8]; 2]) -> GeneratedPsk {
        GeneratedPsk::of_session_key(hash, &digest(hash, shared), challenges)
    }

    fn of_session_key(hash: HashFunction, session_key: &[u8], challenges: [&[u8]; 2]) -> GeneratedPsk {
        GeneratedPsk { hash, key: Zeroizing::new(hmac(hash, session_key, &challenges)) }
    }

    /// The hash function of the transaction, and of the key's TLS cipher suite: SHA-256 or SHA-384.
    pub fn hash(&self) -> HashFunction {
        self.hash
    }

    /// The key; its length is the digest length of [`GeneratedPsk::hash`].
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::shared_of;

    // Two ends of this crate would agree on a wrong key, too. Inputs and keys are those of Linux's own test
    // (drivers/nvme/common/tests/auth_kunit.c, 7.0).
    #[test]
    fn keys_are_those_of_linux() {
        let [session_key, first, second]: [Vec<u8>; 3] =
            [(0..64).map(|at| b'A' + at).collect(), (0..64).collect(), (0..64).map(|at| 0xFF - at).collect()];
        for (hash, expected) in [
            (HashFunction::Sha256, "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a"),
            (
                HashFunction::Sha384,
                "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e11874900\
                 1ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
            ),
        ] {
            let bytes = hash.bytes();
            let challenges = [&first[..bytes], &second[..bytes]];
            let psk = GeneratedPsk::of_session_key(hash, &session_key[..bytes], challenges);
            let digits: String = psk.key().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((digits.as_str(), psk.hash()), (expected, hash));
            assert_eq!(format!("{psk:?}"), format!("GeneratedPsk {{ hash: {hash:?}, .. }}"));
        }
    }

    // Linux 6.15 to 7.0 does not hash the shared value. Its hosts depend on this equality.
    #[test]
    fn the_shared_value_itself_gives_the_same_key() {
        let shared = shared_of(0x3535_3535, 0xA2A2_A2A2);
        for hash in [HashFunction::Sha256, HashFunction::Sha384] {
            let challenges = [&[1; 48][..hash.bytes()], &[2; 48][..hash.bytes()]];
            let hashed = GeneratedPsk::new(hash, &shared, challenges);
            let plain = GeneratedPsk::of_session_key(hash, &shared, challenges);
            assert_eq!(hashed.key(), plain.key());
        }
    }
}
