//! The hash functions of a negotiation, by their identifiers on the wire.

use byteway_wire::fabrics::auth::HashFunction;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

/// HMAC of the concatenated `parts`.
pub(crate) fn hmac(hash: HashFunction, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    fn with<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    }
    match hash {
        HashFunction::Sha256 => with::<Hmac<Sha256>>(key, parts),
        HashFunction::Sha384 => with::<Hmac<Sha384>>(key, parts),
        HashFunction::Sha512 => with::<Hmac<Sha512>>(key, parts),
    }
}

pub(crate) fn digest(hash: HashFunction, bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(match hash {
        HashFunction::Sha256 => Sha256::digest(bytes).to_vec(),
        HashFunction::Sha384 => Sha384::digest(bytes).to_vec(),
        HashFunction::Sha512 => Sha512::digest(bytes).to_vec(),
    })
}
