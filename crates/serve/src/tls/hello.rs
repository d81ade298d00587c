//! The pre-shared keys that a ClientHello offers (RFC 8446, 4.2.11), and whether its sender holds them.
//!
//! TLS looks a key up by its identity, but an identity of NVMe's version 0 does not say how its key was
//! derived. So the key is also selected by the binder, before TLS verifies it. This also tells failures
//! apart: no key, an unknown key, a wrong key.

use super::psk::TlsPsk;

const PRE_SHARED_KEY: u16 = 41;
const CLIENT_HELLO: u8 = 1;

/// The pre-shared keys of a ClientHello.
pub(super) struct Offer<'a> {
    /// The handshake message up to the binders, which the binders cover.
    bound: Vec<u8>,
    identities: Vec<&'a [u8]>,
    binders: Vec<&'a [u8]>,
}

impl<'a> Offer<'a> {
    /// Parses a ClientHello without its message header. `None`: it offers no pre-shared key, or is malformed.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let mut rest = message.get(2 + 32..)?; // version, random
        let _session = vector::<1>(&mut rest)?;
        let _suites = vector::<2>(&mut rest)?;
        let _compression = vector::<1>(&mut rest)?;
        let mut extensions = vector::<2>(&mut rest)?;
        let mut offered = None;
        while !extensions.is_empty() {
            let kind = number::<2>(&mut extensions)?;
            let data = vector::<2>(&mut extensions)?;
            // pre_shared_key has to be the last extension, so the binders end the message.
            offered = (kind == PRE_SHARED_KEY as usize).then_some(data);
        }
        let mut offered = offered.filter(|_| rest.is_empty())?;
        let mut listed = vector::<2>(&mut offered)?;
        let binders_bytes = offered.len();
        let mut listed_binders = vector::<2>(&mut offered)?;
        let (mut identities, mut binders) = (Vec::new(), Vec::new());
        while !listed.is_empty() {
            identities.push(vector::<2>(&mut listed)?);
            let _age = number::<4>(&mut listed)?;
        }
        while !listed_binders.is_empty() {
            binders.push(vector::<1>(&mut listed_binders)?);
        }
        let mut bound = vec![CLIENT_HELLO];
        bound.extend_from_slice(&u32::try_from(message.len()).ok()?.to_be_bytes()[1..]);
        bound.extend_from_slice(&message[..message.len() - binders_bytes]);
        (offered.is_empty() && identities.len() == binders.len()).then_some(Offer {
            bound,
            identities,
            binders,
        })
    }

    /// Each identity with its binder.
    pub fn psks(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        self.identities.iter().copied().zip(self.binders.iter().copied())
    }

    /// Whether the binder was made with this key (RFC 8446, 4.2.11.2).
    pub fn is_bound_by(&self, psk: &TlsPsk, binder: &[u8]) -> bool {
        let hash = psk.hash;
        let early = hash.extract(&psk.secret);
        let finished = hash
            .expand_label(&early, "ext binder", &hash.digest(&[]))
            .and_then(|binder_key| hash.expand_label(&binder_key, "finished", &[]));
        finished.is_some_and(|key| hash.verifies(&key, &hash.digest(&self.bound), binder))
    }
}

/// A big-endian number of `N` bytes.
fn number<const N: usize>(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(number.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
}

/// A vector with a length prefix of `N` bytes.
fn vector<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number::<N>(bytes)?;
    let (vector, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(vector)
}
