//! Files with secrets for authentication: of the hosts of a target, and of a single host. Only their owner
//! may read them, and errors show nothing of their contents.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::source::too_deep;
use byteway_auth::{Algorithms, Credentials, HostSecrets, Secret, TlsPolicy};
use byteway_text::error::{InputError, SourceLocation};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{DhGroup, HashFunction};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

/// Files with secrets are smaller than this.
const BYTES_MAX: u64 = 1 << 20;
const SECRET_CURE: &str = "write it as `nvme gen-dhchap-key` prints it: DHHC-1:00:BASE64:";
const KEYS_CURE: &str = "write [[host]] tables with nqn, secret and perhaps controller_secret, and hashes, groups and tls before them";
const HASHES: [(&str, HashFunction); 3] =
    [("sha-256", HashFunction::Sha256), ("sha-384", HashFunction::Sha384), ("sha-512", HashFunction::Sha512)];
const GROUPS: [(&str, DhGroup); 6] = [
    ("null", DhGroup::Null),
    ("ffdhe2048", DhGroup::Ffdhe2048),
    ("ffdhe3072", DhGroup::Ffdhe3072),
    ("ffdhe4096", DhGroup::Ffdhe4096),
    ("ffdhe6144", DhGroup::Ffdhe6144),
    ("ffdhe8192", DhGroup::Ffdhe8192),
];

const POLICIES: [(&str, TlsPolicy); 3] =
    [("never", TlsPolicy::Never), ("offered", TlsPolicy::Offered), ("required", TlsPolicy::Required)];

/// Reads the file of a target's `--secrets`: TOML with a `[[host]]` table for each host that authenticates.
///
/// # Errors
/// The file cannot be read, other users have access, or its contents are invalid.
pub fn load_secrets(path: &Path) -> Result<Credentials, InputError> {
    let text = read_private(path)?;
    SecretsFile { path, text: &text }.credentials()
}

/// Reads a file with one secret.
///
/// # Errors
/// Same as [`load_secrets`].
pub fn load_secret(path: &Path) -> Result<Secret, InputError> {
    let text = read_private(path)?;
    text.parse().map_err(|error| InputError::new(format!("`{}`: {error}", path.display()), SECRET_CURE))
}

/// The text of a file that only its owner may read.
fn read_private(path: &Path) -> Result<Zeroizing<String>, InputError> {
    let name = path.display();
    let failed = |error: std::io::Error| {
        InputError::new(
            format!("cannot read the secrets in `{name}`: {error}"),
            "name a file that this user may read",
        )
    };
    let file = File::open(path).map_err(failed)?;
    // Checked on the open file, which cannot be replaced any more.
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(InputError::new(format!("`{name}` is a folder"), "name a file of secrets"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let what = format!(
            "the secrets in `{name}` may be read or written by others than its owner (mode {mode:03o})"
        );
        return Err(InputError::new(what, format!("chmod 600 {name}")));
    }
    let mut text = Zeroizing::new(String::new());
    let read = file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > BYTES_MAX {
        return Err(InputError::new(format!("`{name}` is longer than 1 MiB"), "name a file of secrets"));
    }
    Ok(text)
}

struct SecretsFile<'t> {
    path: &'t Path,
    text: &'t str,
}

type Value<'t> = Spanned<DeValue<'t>>;

impl<'t> SecretsFile<'t> {
    fn credentials(&self) -> Result<Credentials, InputError> {
        if let Some(at) = too_deep(self.text) {
            return Err(self.wrong(at..at, "this nests more deeply than anything here", KEYS_CURE));
        }
        // The parser's message may contain the text, so it is not shown.
        let table = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().unwrap_or_default();
            self.wrong(
                at,
                "this is not valid TOML",
                "put values in quotation marks, each in a line of its own",
            )
        })?;
        let (mut algorithms, mut tls, mut hosts) =
            (Algorithms::default(), TlsPolicy::default(), BTreeMap::new());
        for (key, value) in table.get_ref().iter() {
            match key.get_ref().as_ref() {
                "hashes" => algorithms.hashes = self.choices(value, &HASHES)?,
                "groups" => algorithms.groups = self.choices(value, &GROUPS)?,
                "tls" => {
                    let name = self.string(value)?;
                    let found = POLICIES.iter().find(|(known, _)| *known == name);
                    (_, tls) = *found.ok_or_else(|| {
                        let help = "write \"never\", \"offered\" or \"required\"";
                        self.wrong(value.span(), "this says nothing about TLS", help)
                    })?;
                }
                "host" => {
                    let tables = value.get_ref().as_array();
                    let tables = tables
                        .ok_or_else(|| self.wrong(value.span(), "`host` is no list of tables", KEYS_CURE))?;
                    for table in tables.iter() {
                        let (nqn, secrets) = self.host(table)?;
                        if hosts.insert(nqn, secrets).is_some() {
                            let what = format!("the host {} has two tables", nqn.as_str());
                            return Err(self.wrong(table.span(), what, "write one of them"));
                        }
                    }
                }
                _ => return Err(self.wrong(key.span(), "there is no such key", KEYS_CURE)),
            }
        }
        if hosts.is_empty() {
            let what = format!("`{}` has no host", self.path.display());
            return Err(InputError::new(what, KEYS_CURE));
        }
        // With only SHA-512 or the null group no TLS key can be generated: every host would be refused.
        let has_key = algorithms.hashes.iter().any(|hash| *hash != HashFunction::Sha512)
            && algorithms.groups.iter().any(|group| *group != DhGroup::Null);
        if tls == TlsPolicy::Required && !has_key {
            let what = format!("`{}` requires TLS, for which no key can be generated", self.path.display());
            return Err(InputError::new(what, "list SHA-256 or SHA-384 in hashes, and a group in groups"));
        }
        Ok(Credentials::new(algorithms, hosts).with_tls(tls))
    }

    fn host(&self, value: &Value<'t>) -> Result<(Nqn, HostSecrets), InputError> {
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| self.wrong(value.span(), "this is no table", KEYS_CURE))?;
        let (mut nqn, mut host, mut controller) = (None, None, None);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "nqn" => {
                    let named = Nqn::new(self.string(value)?);
                    nqn = Some(named.map_err(|error| {
                        self.wrong(
                            value.span(),
                            error.to_string(),
                            "name a host's NQN, which /etc/nvme/hostnqn holds there",
                        )
                    })?);
                }
                "secret" => host = Some(self.secret(value)?),
                "controller_secret" => controller = Some(self.secret(value)?),
                _ => return Err(self.wrong(key.span(), "a host has no such key", KEYS_CURE)),
            }
        }
        match (nqn, host) {
            (Some(nqn), Some(host)) => Ok((nqn, HostSecrets { host, controller })),
            (None, _) => Err(self.wrong(value.span(), "a host has no `nqn`", KEYS_CURE)),
            (_, None) => Err(self.wrong(value.span(), "a host has no `secret`", KEYS_CURE)),
        }
    }

    fn secret(&self, value: &Value<'t>) -> Result<Secret, InputError> {
        self.string(value)?.parse().map_err(|error: byteway_auth::SecretError| {
            self.wrong(value.span(), error.to_string(), SECRET_CURE)
        })
    }

    /// A list of names in order of preference.
    fn choices<T: Copy>(&self, value: &Value<'t>, known: &[(&str, T)]) -> Result<Vec<T>, InputError> {
        let help = || {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            format!("list some of {}, the preferred one first", names.join(", "))
        };
        let list = value.get_ref().as_array().filter(|list| !list.is_empty());
        let list =
            list.ok_or_else(|| self.wrong(value.span(), "this is no list, or an empty one", help()))?;
        let choice = |value: &Value<'t>| {
            let name = self.string(value)?;
            let found = known.iter().find(|(known, _)| *known == name);
            found
                .map(|(_, choice)| *choice)
                .ok_or_else(|| self.wrong(value.span(), "there is no such choice", help()))
        };
        list.iter().map(choice).collect()
    }

    fn string<'v>(&self, value: &'v Value<'t>) -> Result<&'v str, InputError> {
        value
            .get_ref()
            .as_str()
            .ok_or_else(|| self.wrong(value.span(), "this is no text", "put it in quotation marks"))
    }

    /// An error with a location, but without the text of the line.
    fn wrong(&self, at: Range<usize>, what: impl Into<String>, help: impl Into<String>) -> InputError {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
        let position = Some((line, column));
        InputError::new(what, help).at(SourceLocation {
            source: self.path.display().to_string(),
            position,
            excerpt: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    const SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
    const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";

    /// Loads a text from a file with this mode.
    fn load<T>(
        text: &str,
        mode: u32,
        load: impl Fn(&Path) -> Result<T, InputError>,
    ) -> Result<T, InputError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        load(&path)
    }

    fn host(rest: &str) -> String {
        format!("[[host]]\nnqn = \"{HOST}\"\n{rest}\n")
    }

    // Without this a target could accept other hosts or algorithms than its owner listed.
    #[test]
    fn hosts_and_algorithms_are_those_of_the_file() {
        let one = host(&format!("secret = \"{SECRET}\"\ncontroller_secret = \"{SECRET}\""));
        let text = format!("hashes = [\"sha-384\"]\ngroups = [\"ffdhe4096\", \"null\"]\n{one}");
        let credentials = load(&text, 0o600, load_secrets).unwrap();
        assert_eq!(credentials.algorithms().hashes, [HashFunction::Sha384]);
        assert_eq!(credentials.algorithms().groups, [DhGroup::Ffdhe4096, DhGroup::Null]);
        let secrets = credentials.of(&Nqn::new(HOST).unwrap()).unwrap();
        assert!(secrets.controller.is_some());
        let credentials = load(&host(&format!("secret = \"{SECRET}\"")), 0o400, load_secrets).unwrap();
        assert_eq!(
            (credentials.algorithms(), credentials.tls()),
            (Algorithms::default(), TlsPolicy::Offered)
        );
        for (name, policy) in POLICIES {
            let text = format!("tls = \"{name}\"\n{one}");
            assert_eq!(load(&text, 0o600, load_secrets).unwrap().tls(), policy);
        }
        // A setting that refuses every host is a mistake.
        for choice in ["hashes = [\"sha-512\"]", "groups = [\"null\"]"] {
            let text = format!("{choice}\ntls = \"required\"\n{one}");
            assert!(load(&text, 0o600, load_secrets).unwrap_err().what.contains("no key can be generated"));
        }
        assert!(load(&format!("{SECRET}\n"), 0o600, load_secret).is_ok());
    }

    // A secret that other users can read is not secret.
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        for mode in [0o640, 0o604, 0o644, 0o620, 0o602, 0o610, 0o777] {
            let error = load(SECRET, mode, load_secret).unwrap_err();
            assert!(error.what.contains(&format!("mode {mode:03o}")), "{error}");
            assert!(error.help.starts_with("chmod 600 "), "{error}");
            assert!(load(&host(&format!("secret = \"{SECRET}\"")), mode, load_secrets).is_err());
        }
        let missing = load_secret(Path::new("/nowhere/secret")).unwrap_err();
        assert!(missing.what.contains("/nowhere/secret"), "{missing}");
    }

    // Errors go to logs and terminals; the secret must not, wherever it is in the file.
    #[test]
    fn errors_name_the_place_and_not_the_secret() {
        let good = format!("secret = \"{SECRET}\"");
        let short = &SECRET[..40];
        for (text, what, line) in [
            (String::new(), "has no host", None),
            ("host = []".to_owned(), "has no host", None),
            (format!("host = \"{SECRET}\""), "no list of tables", Some(1)),
            (format!("host = [\"{SECRET}\"]"), "no table", Some(1)),
            (SECRET.to_owned(), "not valid TOML", Some(1)),
            (host(&format!("secret = {SECRET}")), "not valid TOML", Some(3)),
            (host(&format!("\"{SECRET}\" = 1")), "no such key", Some(3)),
            (format!("\"{SECRET}\" = 1"), "no such key", Some(1)),
            (host(""), "no `secret`", Some(1)),
            (format!("[[host]]\n{good}"), "no `nqn`", Some(1)),
            (format!("[[host]]\nnqn = \"{SECRET}\"\n{good}"), "", Some(2)),
            (host(&format!("secret = \"{short}:\"")), "secret", Some(3)),
            (host("secret = 5"), "no text", Some(3)),
            (
                host(&format!("{good}\ncontroller_secret = \"{}\"", SECRET.replace(":00:", ":07:"))),
                "transformation",
                Some(4),
            ),
            (format!("{}{}", host(&good), host(&good)), "two tables", Some(4)),
            (format!("hashes = [\"{SECRET}\"]"), "no such choice", Some(1)),
            (format!("hashes = [\"md5\"]\n{}", host(&good)), "no such choice", Some(1)),
            (".".repeat(100) + SECRET, "nests", Some(1)),
            (format!("groups = []\n{}", host(&good)), "empty", Some(1)),
            (format!("tls = \"{SECRET}\"\n{}", host(&good)), "nothing about TLS", Some(1)),
        ] {
            let error = load(&text, 0o600, load_secrets).unwrap_err();
            assert!(error.what.contains(what), "{text}: {error}");
            assert_eq!(
                error.place.as_ref().and_then(|place| place.position).map(|at| at.0),
                line,
                "{text}: {error}"
            );
            assert!(!error.to_string().contains(&SECRET[12..24]), "{error}");
        }
        let error = load(short, 0o600, load_secret).unwrap_err();
        assert!(!error.to_string().contains(&SECRET[12..24]), "{error}");
    }
}
