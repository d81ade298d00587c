//! NVMe Qualified Names (NVMe Base 2.1, 4.7).

use core::{fmt, str};

/// Bytes of the longest name, without the terminator.
pub const NQN_BYTES_MAX: usize = 223;

/// Size of a field for a name and its terminator, in bytes.
pub const NQN_FIELD_BYTES: usize = 256;

/// The well-known name of every Discovery Service.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Prefix of a UUID-based name.
pub const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// Why a name is not a valid NVMe Qualified Name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// The field has no terminating zero.
    #[error("an NQN field has no zero byte")]
    NotTerminated,
    /// Longer than [`NQN_BYTES_MAX`], or empty.
    #[error("an NQN has {0} bytes, not 1 to {NQN_BYTES_MAX}")]
    Length(usize),
    /// Not UTF-8, or with a control character.
    #[error("an NQN is not printable UTF-8")]
    Text,
    /// Does not begin with `nqn.`, a year and a month.
    #[error("an NQN does not begin with \"nqn.yyyy-mm.\"")]
    Date,
    /// The part before the colon is not a reversed domain name.
    #[error("an NQN's domain is not a reversed domain name")]
    Domain,
    /// The domain is not followed by a unique part.
    #[error("an NQN has nothing after its domain")]
    Unique,
    /// A UUID-based name does not have the form 8-4-4-4-12 hexadecimal digits.
    #[error("an NQN's UUID is malformed")]
    Uuid,
}

/// A valid NVMe Qualified Name: 1 to 223 bytes of UTF-8 in one of the two forms of NVMe Base 2.1, 4.7, or the name of
/// the Discovery Service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nqn {
    /// Zero after `length` bytes.
    bytes: [u8; NQN_BYTES_MAX],
    length: u8,
}

impl Nqn {
    /// No name: what some hosts, such as SPDK's perf, give as their own. No check accepts it.
    pub const NONE: Nqn = Nqn { bytes: [0; NQN_BYTES_MAX], length: 0 };

    /// Checks a name.
    ///
    /// # Errors
    /// [`NqnError`] if it is malformed.
    pub fn new(name: &str) -> Result<Nqn, NqnError> {
        if name.is_empty() || name.len() > NQN_BYTES_MAX {
            return Err(NqnError::Length(name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err(NqnError::Text);
        }
        if name != DISCOVERY {
            check(name)?;
        }
        let mut bytes = [0; NQN_BYTES_MAX];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Nqn { bytes, length: name.len() as u8 })
    }

    /// Reads a field of 256 bytes, up to the first zero byte.
    ///
    /// # Errors
    /// [`NqnError`] if the field is not terminated, or the name is malformed.
    pub fn from_field(field: &[u8; NQN_FIELD_BYTES]) -> Result<Nqn, NqnError> {
        let end = field.iter().position(|byte| *byte == 0).ok_or(NqnError::NotTerminated)?;
        Nqn::new(str::from_utf8(&field[..end]).map_err(|_| NqnError::Text)?)
    }

    /// The name of the Discovery Service.
    pub fn discovery() -> Nqn {
        Nqn::new(DISCOVERY).expect("the well-known name is valid")
    }

    /// The name as a field of 256 bytes, padded with zeros.
    pub fn field(&self) -> [u8; NQN_FIELD_BYTES] {
        let mut field = [0; NQN_FIELD_BYTES];
        field[..NQN_BYTES_MAX].copy_from_slice(&self.bytes);
        field
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("a name is UTF-8")
    }

    /// Whether it is the name of the Discovery Service.
    pub fn is_discovery(&self) -> bool {
        self.as_str() == DISCOVERY
    }
}

/// `nqn.yyyy-mm.domain.reversed:anything`.
fn check(name: &str) -> Result<(), NqnError> {
    let dated = name.strip_prefix("nqn.").and_then(|rest| rest.split_at_checked(8)).ok_or(NqnError::Date)?;
    let ([y1, y2, y3, y4, b'-', m1, m2, b'.'], rest) = (dated.0.as_bytes(), dated.1) else {
        return Err(NqnError::Date);
    };
    let month = (m1.wrapping_sub(b'0') as u32) * 10 + m2.wrapping_sub(b'0') as u32;
    if ![y1, y2, y3, y4, m1, m2].iter().all(|digit| digit.is_ascii_digit()) || !(1..=12).contains(&month) {
        return Err(NqnError::Date);
    }
    let (domain, unique) = rest.split_once(':').unwrap_or((rest, ""));
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if !domain.split('.').all(is_label) {
        return Err(NqnError::Domain);
    }
    if unique.is_empty() {
        return Err(NqnError::Unique);
    }
    match name.strip_prefix(UUID_PREFIX) {
        Some(uuid) if !is_uuid(uuid) => Err(NqnError::Uuid),
        _ => Ok(()),
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl str::FromStr for Nqn {
    type Err = NqnError;

    fn from_str(name: &str) -> Result<Nqn, NqnError> {
        Nqn::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host could not connect to a subsystem with a name of another valid form.
    #[test]
    fn names_of_every_form_are_valid() {
        for name in [
            DISCOVERY,
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2014-08.com.example:nvme:nvm-subsystem-sn-d78432",
            "nqn.2016-06.io.spdk:cnode1",
            "nqn.2024-12.x:\u{fc}",
        ] {
            let nqn = Nqn::new(name).unwrap();
            assert_eq!(Nqn::from_field(&nqn.field()), Ok(nqn));
            assert_eq!((nqn.as_str(), nqn.is_discovery()), (name, name == DISCOVERY));
        }
        let prefix = "nqn.2014-08.com.example:";
        let longest = format!("{prefix}{}", "x".repeat(NQN_BYTES_MAX - prefix.len()));
        assert_eq!(Nqn::from_field(&Nqn::new(&longest).unwrap().field()).unwrap().as_str(), longest);
        assert_eq!(Nqn::new(&format!("{longest}x")), Err(NqnError::Length(224)));
    }

    /// Without this a malformed name would be accepted for a host or a subsystem.
    #[test]
    fn malformed_names_are_told_apart() {
        for (name, error) in [
            ("", NqnError::Length(0)),
            ("iqn.2014-08.com.example:x", NqnError::Date),
            ("nqn.2014-13.com.example:x", NqnError::Date),
            ("nqn.2014-00.com.example:x", NqnError::Date),
            ("nqn.14-08.com.example:x", NqnError::Date),
            ("nqn.2014-0\u{fc}.a:x", NqnError::Date),
            ("nqn.2014-08", NqnError::Date),
            ("nqn.2014-08.com..example:x", NqnError::Domain),
            ("nqn.2014-08.com.-example:x", NqnError::Domain),
            ("nqn.2014-08.:x", NqnError::Domain),
            ("nqn.2014-08.com.example", NqnError::Unique),
            ("nqn.2014-08.com.example:", NqnError::Unique),
            ("nqn.2014-08.com.example:a\nb", NqnError::Text),
            ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae", NqnError::Uuid),
            ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bfg", NqnError::Uuid),
        ] {
            assert_eq!(Nqn::new(name), Err(error), "{name:?}");
        }
        assert_eq!(Nqn::from_field(&[b'n'; 256]), Err(NqnError::NotTerminated));
        let mut field = [0; 256];
        field[..2].copy_from_slice(&[0xFF, 0xFE]);
        assert_eq!(Nqn::from_field(&field), Err(NqnError::Text));
    }
}
