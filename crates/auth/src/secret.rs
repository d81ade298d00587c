//! A secret in its text form (NVMe Base 2.1, 8.3.4.5.8), as `nvme gen-dhchap-key` prints it: `DHHC-1:`, two
//! digits for the transformation, `:`, the secret and its CRC in Base64, `:`.

use crate::hash::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::HashFunction;
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

const PREFIX: &str = "DHHC-1:";
/// Bytes of the CRC that follows a secret.
const CRC_BYTES: usize = 4;
/// Suffix of the NQN in the transformation of a secret.
const TRANSFORMATION: &[u8] = b"NVMe-over-Fabrics";

/// A secret of 32, 48 or 64 bytes. Neither [`Debug`] nor an error shows it, and its memory is cleared on
/// drop.
#[derive(Clone)]
pub struct Secret {
    /// The function that derives a separate key for each NQN; `None`: the secret is used as it is.
    transformation: Option<HashFunction>,
    bytes: Zeroizing<Vec<u8>>,
}

/// Why a text is not a valid secret. It contains nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The text does not have the form `DHHC-1:0t:...:`.
    #[error("the secret does not have the form DHHC-1:0t:BASE64:")]
    Form,
    /// The transformation is not one of 00 to 03.
    #[error("the secret's transformation is not 00, 01, 02 or 03")]
    Transformation,
    /// The third part is not valid Base64.
    #[error("the secret is not valid Base64")]
    Base64,
    /// The length is not that of a hash. Holds the length in bytes.
    #[error("the secret has {0} bytes instead of 32, 48 or 64")]
    Length(usize),
    /// The CRC does not match.
    #[error("the secret's checksum does not match: a character is wrong or missing")]
    Checksum,
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Secret, SecretError> {
        let rest = text.trim().strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(':'));
        let (transformation, encoded) =
            rest.and_then(|rest| rest.split_once(':')).ok_or(SecretError::Form)?;
        let transformation = match transformation {
            "00" => None,
            "01" => Some(HashFunction::Sha256),
            "02" => Some(HashFunction::Sha384),
            "03" => Some(HashFunction::Sha512),
            _ => return Err(SecretError::Transformation),
        };
        let mut bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?);
        let length = bytes.len().saturating_sub(CRC_BYTES);
        if !HashFunction::ALL.iter().any(|hash| hash.bytes() == length) {
            return Err(SecretError::Length(length));
        }
        let (secret, crc) = bytes.split_at(length);
        if crc32fast::hash(secret).to_le_bytes() != crc {
            return Err(SecretError::Checksum);
        }
        bytes.truncate(length);
        Ok(Secret { transformation, bytes })
    }
}

impl Secret {
    /// The key for an entity with this NQN: a host or a subsystem (NVMe Base 2.1, 8.3.4.5.7).
    pub(crate) fn key(&self, nqn: &Nqn) -> Zeroizing<Vec<u8>> {
        match self.transformation {
            None => self.bytes.clone(),
            Some(hash) => Zeroizing::new(hmac(hash, &self.bytes, &[nqn.as_str().as_bytes(), TRANSFORMATION])),
        }
    }
}

impl PartialEq for Secret {
    /// In constant time.
    fn eq(&self, other: &Secret) -> bool {
        self.transformation == other.transformation && bool::from(self.bytes.ct_eq(&other.bytes))
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An incomplete or mistyped secret has to be refused when it is read, not when a host fails to connect.
    #[test]
    fn a_secret_that_is_not_whole_is_refused() {
        let good = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
        assert!(good.parse::<Secret>().is_ok() && format!("\n{good}\n").parse::<Secret>().is_ok());
        let refused = |text: &str| text.parse::<Secret>().map(|_| ()).unwrap_err();
        for (from, to, error) in [
            ("DHHC-1", "DHHC-2", SecretError::Form),
            ("2n:", "2n", SecretError::Form),
            (":00:ia6", "", SecretError::Form),
            (":00:", ":04:", SecretError::Transformation),
            (":00:", ":0:", SecretError::Transformation),
            (":00:", ":+1:", SecretError::Transformation),
            ("zGod", "z*od", SecretError::Base64),
            ("ia6zGodO", "", SecretError::Length(26)),
            ("ia6zGod", "ia7zGod", SecretError::Checksum),
        ] {
            assert_eq!(refused(&good.replacen(from, to, 1)), error, "{from} -> {to}");
        }
        assert_eq!(refused(""), SecretError::Form);
        assert_eq!(refused("DHHC-1:00::"), SecretError::Length(0));
        for end in 0..good.len() {
            refused(&good[..end]);
        }
    }

    // Logs may be readable by others.
    #[test]
    fn a_secret_is_not_shown() {
        let secret: Secret = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
