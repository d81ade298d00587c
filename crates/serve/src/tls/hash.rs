//! The hash functions of pre-shared keys: digests, HMAC and HKDF (RFC 5869).

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384};
use zeroize::Zeroizing;

const ANY_KEY: &str = "an HMAC takes keys of any length";

/// Hash function of a pre-shared key; it also selects the cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256, with TLS_AES_128_GCM_SHA256.
    Sha256,
    /// SHA-384, with TLS_AES_256_GCM_SHA384.
    Sha384,
}

impl Hash {
    /// Digest length in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
        }
    }

    /// The hash identifier of a PSK (TCP Transport 1.1, 3.6.1.3).
    pub const fn id(self) -> u8 {
        match self {
            Hash::Sha256 => 1,
            Hash::Sha384 => 2,
        }
    }

    pub(super) fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha384 => Sha384::digest(data).to_vec(),
        }
    }

    pub(super) fn hmac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .expect(ANY_KEY)
                .chain_update(data)
                .finalize()
                .into_bytes()
                .to_vec(),
            Hash::Sha384 => Hmac::<Sha384>::new_from_slice(key)
                .expect(ANY_KEY)
                .chain_update(data)
                .finalize()
                .into_bytes()
                .to_vec(),
        }
    }

    /// Whether `tag` is the HMAC of `data`, in constant time.
    pub(super) fn verifies(self, key: &[u8], data: &[u8], tag: &[u8]) -> bool {
        match self {
            Hash::Sha256 => Hmac::<Sha256>::new_from_slice(key)
                .expect(ANY_KEY)
                .chain_update(data)
                .verify_slice(tag)
                .is_ok(),
            Hash::Sha384 => Hmac::<Sha384>::new_from_slice(key)
                .expect(ANY_KEY)
                .chain_update(data)
                .verify_slice(tag)
                .is_ok(),
        }
    }

    /// HKDF-Extract without a salt.
    pub(super) fn extract(self, input: &[u8]) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(match self {
            Hash::Sha256 => Hkdf::<Sha256>::extract(None, input).0.to_vec(),
            Hash::Sha384 => Hkdf::<Sha384>::extract(None, input).0.to_vec(),
        })
    }

    /// HKDF-Expand of a pseudorandom key, to the length of a digest.
    pub(super) fn expand(self, extracted: &[u8], info: &[u8]) -> Zeroizing<Vec<u8>> {
        const FITS: &str = "a key of a digest's length gives one";
        let mut output = Zeroizing::new(vec![0; self.bytes()]);
        match self {
            Hash::Sha256 => {
                Hkdf::<Sha256>::from_prk(extracted).expect(FITS).expand(info, &mut output).expect(FITS);
            }
            Hash::Sha384 => {
                Hkdf::<Sha384>::from_prk(extracted).expect(FITS).expand(info, &mut output).expect(FITS);
            }
        }
        output
    }

    /// HKDF-Expand-Label (RFC 8446, 7.1) to the length of a digest. `None`: the context is longer than 255
    /// bytes.
    pub(super) fn expand_label(
        self,
        extracted: &[u8],
        label: &str,
        context: &[u8],
    ) -> Option<Zeroizing<Vec<u8>>> {
        let mut info = (self.bytes() as u16).to_be_bytes().to_vec();
        info.push(u8::try_from(LABEL_PREFIX.len() + label.len()).ok()?);
        info.extend_from_slice(LABEL_PREFIX.as_bytes());
        info.extend_from_slice(label.as_bytes());
        info.push(u8::try_from(context.len()).ok()?);
        info.extend_from_slice(context);
        Some(self.expand(extracted, &info))
    }
}

pub(super) const LABEL_PREFIX: &str = "tls13 ";
