//! A key file: TLS keys of several hosts, one line each with the host's NQN and its key.

use super::psk::{ConfiguredPsk, PskError};
use byteway_wire::fabrics::{Nqn, NqnError};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Hosts in a file, at most.
const HOSTS_MAX: usize = 1024;

/// An invalid line. The message shows nothing of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyLineError {
    /// The line is not an NQN and a key. Holds the line number.
    #[error("line {0}: not a host's NQN and its TLS key, with a space between them")]
    Form(usize),
    /// The NQN is invalid.
    #[error("line {0}: {1}")]
    Nqn(usize, NqnError),
    /// The key is invalid.
    #[error("line {0}: {1}")]
    Key(usize, PskError),
    /// The host already has a key: this line and the earlier one.
    #[error("line {0}: the host has a key already, in line {1}")]
    Twice(usize, usize),
    /// More than 1024 hosts.
    #[error("it has more than {HOSTS_MAX} hosts")]
    TooMany,
    /// The file has no key.
    #[error("it has no host")]
    Empty,
}

/// The keys of hosts, by NQN, each with its line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(BTreeMap<Nqn, (usize, ConfiguredPsk)>);

impl Keys {
    /// Each host with its key.
    pub fn iter(&self) -> impl Iterator<Item = (&Nqn, &ConfiguredPsk)> {
        self.0.iter().map(|(host, (_, key))| (host, key))
    }
}

impl FromStr for Keys {
    type Err = KeyLineError;

    /// Parses the text of a file. Empty lines and lines that begin with # are ignored.
    fn from_str(text: &str) -> Result<Self, KeyLineError> {
        let mut keys = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let mut words = line.split_ascii_whitespace();
            let (host, key) = match (words.next(), words.next(), words.next()) {
                (None, ..) => continue,
                (Some(comment), ..) if comment.starts_with('#') => continue,
                (Some(host), Some(key), None) => (host, key),
                _ => return Err(KeyLineError::Form(number)),
            };
            let host = Nqn::new(host).map_err(|error| KeyLineError::Nqn(number, error))?;
            let key = key.parse().map_err(|error| KeyLineError::Key(number, error))?;
            if let Some((first, _)) = keys.insert(host, (number, key)) {
                return Err(KeyLineError::Twice(number, first));
            }
            if keys.len() > HOSTS_MAX {
                return Err(KeyLineError::TooMany);
            }
        }
        if keys.is_empty() { Err(KeyLineError::Empty) } else { Ok(Keys(keys)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    // An invalid line has to be named by its number, and the message must not show the key.
    #[test]
    fn lines_are_hosts_and_keys_or_say_what_is_wrong() {
        let read = |text: &str| text.replace("KEY", KEY).parse::<Keys>();
        let keys = read("# hosts\n\nnqn.2026-11.x:a KEY\n  nqn.2026-11.x:b\tKEY  \n").unwrap();
        assert_eq!(
            keys.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>(),
            ["nqn.2026-11.x:a", "nqn.2026-11.x:b"]
        );
        assert_eq!(read("nqn.2026-11.x:a\n"), Err(KeyLineError::Form(1)));
        assert_eq!(read("\nnqn.2026-11.x:a KEY more"), Err(KeyLineError::Form(2)));
        assert_eq!(read("a KEY"), Err(KeyLineError::Nqn(1, NqnError::Date)));
        assert_eq!(read("nqn.2026-11.x:a KEY:"), Err(KeyLineError::Key(1, PskError::Base64)));
        assert_eq!(read("nqn.2026-11.x:a KEY\nnqn.2026-11.x:a KEY"), Err(KeyLineError::Twice(2, 1)));
        assert_eq!(read("# nobody\n"), Err(KeyLineError::Empty));
        let many: String = (0..=HOSTS_MAX).map(|host| format!("nqn.2026-11.x:{host} KEY\n")).collect();
        assert_eq!(read(&many), Err(KeyLineError::TooMany));
        let shown = read("nqn.2026-11.x:a NVMeTLSkey-1:01:c2VjcmV0:").unwrap_err().to_string();
        assert!(!shown.contains("c2Vj"), "{shown}");
        assert!(!format!("{keys:?}").contains("VRLb"));
    }
}
