//! Flags and value parsers shared by several commands.

use byteway_explore::assumption::Constants;
use byteway_explore::replicate::Repeat;
use byteway_text::table::{Width, wrapped};
use byteway_text::units::{Bytes, UnitError};
use byteway_transfer::Method;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Parses the name of a transfer method.
pub(super) fn method() -> impl TypedValueParser<Value = Method> {
    let names = Method::ALL
        .map(|method| PossibleValue::new(method.name()).help(method.entry().about.trim_end_matches('.')));
    PossibleValuesParser::new(names).map(|name| {
        let found = Method::ALL.into_iter().find(|method| method.name() == name);
        found.expect("the parser accepts only these names")
    })
}

/// Parses an address and a port; host names such as `localhost` are resolved.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    resolved(text, "write an address and a port, such as 127.0.0.1:4420")
}

fn resolved(text: &str, help: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("{error}: {help}"))?;
    // Prefers IPv4, on which most servers listen, if a name has both kinds of addresses.
    let (first, rest): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv4);
    first.into_iter().chain(rest).next().ok_or_else(|| format!("no address found for that name: {help}"))
}

/// Parses the address of watchers: a port alone is one of the loopback address.
pub(super) fn http_address(text: &str) -> Result<SocketAddr, String> {
    const CURE: &str = "write a port, such as 9100, or an address and a port, such as 127.0.0.1:9100";
    let port = text.strip_prefix(':').unwrap_or(text);
    match port.parse() {
        Ok(port) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("`{text}` is not a port from 0 to 65535: {CURE}"))
        }
        Err(_) => resolved(text, CURE),
    }
}

/// Parses a size, including fio's forms: 4k, 1g, or bytes without a unit.
pub(super) fn size(text: &str) -> Result<Bytes, UnitError> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        "t" => "TiB",
        "p" => "PiB",
        _ => return text.parse(),
    };
    match digits.ends_with(|c: char| c.is_ascii_digit()) {
        true => format!("{digits} {unit}").parse(),
        false => text.parse(),
    }
}

/// Number of threads: as many as `jobs` says, or one for each processor.
pub(super) fn threads(jobs: Option<u16>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    jobs.map_or_else(all, usize::from)
}

/// Parses a number of replicates.
pub(super) fn repeat(text: &str) -> Result<Repeat, String> {
    let whole = text.parse().map_err(|_| "not a whole number".to_owned())?;
    Repeat::new(whole).map_err(|error| format!("{}; {}", error.what, error.help))
}

/// Parses the constants of `--sensitivity`: keys with commas between them, or nothing for all that are assumed.
pub(super) fn constants() -> impl TypedValueParser<Value = Constants> {
    clap::builder::StringValueParser::new().map(|text| Constants::parse(&text))
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum OutputFormat {
    /// Human-readable tables.
    Table,
    /// JSON for scripts: the content of summary.json; for served drives, one line each.
    Json,
}

/// Formatting of tables.
#[derive(Clone, Copy, clap::Args)]
pub(super) struct Tables {
    /// Print all columns, not only those that fit into 80 characters, and do not wrap sentences.
    #[arg(long)]
    pub(super) wide: bool,
}

impl Tables {
    pub(super) fn width(self) -> Width {
        if self.wide { Width::Wide } else { Width::Narrow }
    }

    /// Wraps the sentences of a text, unless `--wide`.
    pub(super) fn wrapped(self, text: &str) -> String {
        wrapped(text, self.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // fio users write 4k; parsing it as 4000 bytes would change the benchmark.
    #[test]
    fn sizes_are_understood_as_fio_understands_them() {
        for text in ["4k", "4K", "4096", "4 KiB", "4KiB", " 4096 B"] {
            assert_eq!(size(text).unwrap(), Bytes(4096), "{text}");
        }
        assert_eq!(size("1g").unwrap(), Bytes(1 << 30));
        assert_eq!(size("1.5m").unwrap(), Bytes(3 << 19));
        assert_eq!(size("1P").unwrap(), Bytes(1 << 50));
        assert_eq!(size("4 kB").unwrap(), Bytes(4000));
        for text in ["", "k", "-4k", "4 x", "4kk", "4.k", "99999999999t"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    // A page without authentication must not be open to the network because of what was left out.
    #[test]
    fn a_port_alone_is_of_the_loopback_address() {
        for text in ["9100", ":9100", "127.0.0.1:9100"] {
            assert_eq!(http_address(text).unwrap(), "127.0.0.1:9100".parse().unwrap(), "{text}");
        }
        assert_eq!(http_address("0.0.0.0:0").unwrap(), "0.0.0.0:0".parse().unwrap());
        assert_eq!(http_address("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        for text in ["", ":", "65536", "-1", "127.0.0.1", "127.0.0.1:", "9100/metrics"] {
            let error = http_address(text).unwrap_err();
            assert!(error.contains("write a port, such as 9100"), "{text}: {error}");
        }
    }
}
