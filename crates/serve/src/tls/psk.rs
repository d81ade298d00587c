//! Pre-shared keys of NVMe/TCP: the interchange format, and the derivation of TLS keys (TCP Transport 1.1,
//! 3.6.1.3).
//!
//! An administrator gives both ends a configured PSK, in the interchange format. From it and the NQNs of host
//! and subsystem, each end derives a retained PSK, and from that the TLS PSK and its identity, in two
//! versions. libnvme before 1.16 encodes the input of HKDF differently from HKDF-Expand-Label; its keys are
//! offered, too, because distributions ship it.

use super::hash::{Hash, LABEL_PREFIX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use byteway_auth::GeneratedPsk;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::HashFunction;
use std::fmt;
use std::str::FromStr;
use zeroize::Zeroizing;

const PREFIX: &str = "NVMeTLSkey-1:";

/// Why a text is not a configured PSK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PskError {
    /// The text is not in the interchange format.
    #[error("a TLS key has the form `{PREFIX}01:BASE64:`, as `nvme gen-tls-key` prints it")]
    Form,
    /// The hash identifier is unknown.
    #[error("a TLS key's hash is 00, 01 or 02")]
    Hash,
    /// The Base64 part is invalid.
    #[error("a TLS key's third part is not Base64")]
    Base64,
    /// The key length is neither 32 nor 48 bytes, or does not match the hash.
    #[error("a TLS key has 32 bytes (with hash 01) or 48 (with hash 02), and 4 of a CRC")]
    Length,
    /// The CRC-32 does not match.
    #[error("a TLS key's checksum is wrong: the key was not copied exactly")]
    Crc,
}

/// A configured PSK.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredPsk {
    hash: Hash,
    /// Whether a retained PSK is derived; otherwise the configured PSK is used as it is.
    is_derived: bool,
    key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for ConfiguredPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfiguredPsk").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl FromStr for ConfiguredPsk {
    type Err = PskError;

    /// Reads the interchange format.
    fn from_str(text: &str) -> Result<Self, PskError> {
        let rest = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(':')).ok_or(PskError::Form)?;
        let (hash, coded) = rest.split_once(':').ok_or(PskError::Form)?;
        let hash = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(PskError::Hash),
        };
        let mut key = Zeroizing::new(STANDARD.decode(coded).map_err(|_| PskError::Base64)?);
        let (bytes, crc) = key.split_last_chunk::<4>().ok_or(PskError::Length)?;
        let by_length = match bytes.len() {
            32 => Hash::Sha256,
            48 => Hash::Sha384,
            _ => return Err(PskError::Length),
        };
        if hash.is_some_and(|hash| hash != by_length) {
            return Err(PskError::Length);
        }
        if crc32fast::hash(bytes) != u32::from_le_bytes(*crc) {
            return Err(PskError::Crc);
        }
        let bytes = bytes.len();
        key.truncate(bytes);
        Ok(ConfiguredPsk { hash: by_length, is_derived: hash.is_some(), key })
    }
}

/// A PSK for TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// PSK identity on the wire; not secret.
    pub identity: String,
    pub(super) hash: Hash,
    pub(super) secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPsk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Encoding of HKDF's input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// HKDF-Expand-Label.
    Label,
    /// libnvme before 1.16: a little-endian length, and strings without length prefixes.
    Libnvme,
}

impl Layout {
    /// `None`: the context is too long for this encoding.
    fn derive(self, hash: Hash, key: &[u8], label: &str, context: &str) -> Option<Zeroizing<Vec<u8>>> {
        let extracted = hash.extract(key);
        match self {
            Layout::Label => hash.expand_label(&extracted, label, context.as_bytes()),
            Layout::Libnvme => {
                let mut info = (hash.bytes() as u16).to_le_bytes().to_vec();
                [LABEL_PREFIX, label, context]
                    .iter()
                    .for_each(|part| info.extend_from_slice(part.as_bytes()));
                Some(hash.expand(&extracted, &info))
            }
        }
    }
}

impl ConfiguredPsk {
    /// The TLS PSKs of a host and a subsystem, the preferred first. Two may have the same identity.
    pub fn tls_psks(&self, host: &Nqn, subsystem: &Nqn) -> Vec<TlsPsk> {
        let ways = [(Layout::Label, 1), (Layout::Label, 0), (Layout::Libnvme, 1), (Layout::Libnvme, 0)];
        let (host, subsystem) = (host.as_str(), subsystem.as_str());
        ways.into_iter()
            .filter_map(|(layout, version)| self.tls_psk(layout, version, host, subsystem))
            .collect()
    }

    fn tls_psk(&self, layout: Layout, version: u8, host: &str, subsystem: &str) -> Option<TlsPsk> {
        let hash = self.hash;
        let retained = match self.is_derived {
            true => layout.derive(hash, &self.key, "HostNQN", host)?,
            false => self.key.clone(),
        };
        if version == 1 {
            let (identity, context) = version_1(hash, &retained, 'R', host, subsystem);
            let secret = layout.derive(hash, &retained, LABEL, &context)?;
            return Some(TlsPsk { identity, hash, secret });
        }
        let identity = format!("NVMe0R{:02} {host} {subsystem}", hash.id());
        let secret = layout.derive(hash, &retained, LABEL, &identity)?;
        Some(TlsPsk { identity, hash, secret })
    }
}

/// Label of the TLS PSK derivation.
const LABEL: &str = "nvme-tls-psk";
/// Prefix of the identities of generated keys.
pub(super) const GENERATED_PREFIX: &[u8] = b"NVMe1G";

/// The identity of version 1, and the context of its derivation, for a retained or generated PSK (`kind` R or
/// G).
fn version_1(hash: Hash, psk: &[u8], kind: char, host: &str, subsystem: &str) -> (String, String) {
    let (names, id) = (format!("{host} {subsystem}"), hash.id());
    let digest = STANDARD.encode(hash.hmac(psk, format!("{names} NVMe-over-Fabrics").as_bytes()));
    (format!("NVMe1{kind}{id:02} {names} {digest}"), format!("{id:02} {digest}"))
}

impl TlsPsk {
    /// The TLS PSK of a host and a subsystem for a key that authentication generated. Only version 1, derived
    /// by HKDF-Expand-Label, as Linux does (`nvme_auth_generate_digest`, `nvme_auth_derive_tls_psk`,
    /// `nvme_tls_psk_refresh`).
    pub fn generated(psk: &GeneratedPsk, host: &Nqn, subsystem: &Nqn) -> TlsPsk {
        let hash = match psk.hash() {
            HashFunction::Sha256 => Hash::Sha256,
            // Authentication generates no key with SHA-512.
            HashFunction::Sha384 | HashFunction::Sha512 => Hash::Sha384,
        };
        TlsPsk::of_key(hash, psk.key(), 'G', host.as_str(), subsystem.as_str())
    }

    pub(super) fn of_key(hash: Hash, key: &[u8], kind: char, host: &str, subsystem: &str) -> TlsPsk {
        let (identity, context) = version_1(hash, key, kind, host, subsystem);
        let secret = Layout::Label.derive(hash, key, LABEL, &context);
        TlsPsk { identity, hash, secret: secret.expect("a digest is shorter than 255 bytes") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const KEY_384: &str =
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
    /// The identity without the names, and the key in hexadecimal digits.
    fn derived(key: &str, layout: Layout, version: u8) -> (String, String) {
        const NAMES: &str = " nqn.psk-test-host nqn.psk-test-subsys";
        let key: ConfiguredPsk = key.parse().unwrap();
        let psk = key.tls_psk(layout, version, "nqn.psk-test-host", "nqn.psk-test-subsys").unwrap();
        let secret = psk.secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(psk.identity.contains(NAMES));
        (psk.identity.replace(NAMES, ""), secret)
    }

    // Without this, other implementations would derive a different key. The identities are those of libnvme's
    // own tests and of nvme-cli 2.13 (`check-tls-key`), whose keys these are; the secrets come from another
    // implementation of HKDF.
    #[test]
    fn keys_are_derived_as_others_derive_them() {
        use Layout::{Label, Libnvme};
        let none = KEY_256.replace(":01:", ":00:");
        for (key, layout, version, identity, secret) in [
            (
                KEY_256,
                Label,
                1,
                "NVMe1R01 iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
                "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
            ),
            (
                KEY_256,
                Label,
                0,
                "NVMe0R01",
                "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
            ),
            (
                KEY_256,
                Libnvme,
                1,
                "NVMe1R01 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
                "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
            ),
            (
                KEY_256,
                Libnvme,
                0,
                "NVMe0R01",
                "09fb1983ac6d6d0353e7cae4f23daddd651c367fa347c59d9cf6936f5a83eafb",
            ),
            (
                KEY_384,
                Label,
                1,
                "NVMe1R02 QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
                "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
            ),
            (
                KEY_384,
                Label,
                0,
                "NVMe0R02",
                "f42ba63824cdfe421914c582921f85b5b5b7e2d4df084caeedc9be20b212e8bb0fe8a23e9d59a1c8fc6449da4970a78d",
            ),
            (
                KEY_384,
                Libnvme,
                1,
                "NVMe1R02 RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
                "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48d3014aa8d76ad80107e4f5c9f27e2149",
            ),
            (
                &none,
                Libnvme,
                1,
                "NVMe1R01 quJVUJjp/BImWR0UQay/MjSfEgyAr6TyBOWybS/B404=",
                "d50f6d3dd79345b6e8217744524df5ac0dc66964ff70cc5fd18e1b9d57ce7fcf",
            ),
        ] {
            assert_eq!(derived(key, layout, version), (identity.to_owned(), secret.to_owned()));
        }
    }

    // Without this, Linux would derive another key from the same authentication. Keys, digests and secrets
    // are those of Linux's own test (drivers/nvme/common/tests/auth_kunit.c, 7.0).
    #[test]
    fn generated_keys_are_derived_as_linux_derives_them() {
        let bytes = |digits: &str| -> Vec<u8> {
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect()
        };
        for (hash, key, identity, secret) in [
            (
                Hash::Sha256,
                "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
                "NVMe1G01 hostnqn subsysnqn OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
                "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
            ),
            (
                Hash::Sha384,
                "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e11874900\
                 1ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
                "NVMe1G02 hostnqn subsysnqn cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
                "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d08\
                 98fff15bb8b77119d2be0aac423e7590",
            ),
        ] {
            let psk = TlsPsk::of_key(hash, &bytes(key), 'G', "hostnqn", "subsysnqn");
            assert_eq!((psk.identity.as_str(), &psk.secret[..]), (identity, &bytes(secret)[..]));
        }
    }

    // An identity of version 0 is its own context, limited to 255 bytes by HKDF-Expand-Label; NQNs may be
    // longer.
    #[test]
    fn names_that_are_too_long_for_a_version_have_the_others() {
        let name = |byte: &str| Nqn::new(&format!("nqn.2026-11.x:{}", byte.repeat(200))).unwrap();
        let psks = KEY_384.parse::<ConfiguredPsk>().unwrap().tls_psks(&name("h"), &name("s"));
        let versions: Vec<_> = psks.iter().map(|psk| &psk.identity[..8]).collect();
        assert_eq!(versions, ["NVMe1R02", "NVMe1R02", "NVMe0R02"]);
    }

    // A wrongly copied key must be reported when it is read, not when a host fails to connect.
    #[test]
    fn texts_that_are_no_keys_are_told_apart() {
        let key = |text: &str| text.parse::<ConfiguredPsk>().map(|_| ());
        assert_eq!((key(KEY_256), key(KEY_384)), (Ok(()), Ok(())));
        assert_eq!(key(&KEY_256.replace(":01:", ":00:")), Ok(()));
        assert_eq!(key(&KEY_384.replace(":02:", ":00:")), Ok(()));
        for text in ["", "NVMeTLSkey-1:", "NVMeTLSkey-1:01", "DHHC-1:00:AAAA:", &KEY_256[..KEY_256.len() - 1]]
        {
            assert_eq!(key(text), Err(PskError::Form), "{text}");
        }
        assert_eq!(key(&KEY_256.replace(":01:", ":03:")), Err(PskError::Hash));
        assert_eq!(key(&KEY_256.replace("VRL", "V*L")), Err(PskError::Base64));
        assert_eq!(key(&KEY_256.replace(":01:", ":02:")), Err(PskError::Length));
        assert_eq!(key(&KEY_384.replace(":02:", ":01:")), Err(PskError::Length));
        assert_eq!(key("NVMeTLSkey-1:01:AAA=:"), Err(PskError::Length));
        assert_eq!(key("NVMeTLSkey-1:01::"), Err(PskError::Length));
        assert_eq!(key(&KEY_256.replace("VRL", "VRM")), Err(PskError::Crc));
        let shown = format!("{:?}", KEY_256.parse::<ConfiguredPsk>().unwrap());
        assert_eq!(shown, "ConfiguredPsk { hash: Sha256, .. }");
    }
}
