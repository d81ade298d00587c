//! Flags and values of flags that several commands have.

use byteway_console::table::{Width, wrapped};
use byteway_console::units::{Bytes, UnitError};
use byteway_transfer::Method;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::net::{SocketAddr, ToSocketAddrs};

/// A transfer method by its name.
pub(super) fn method() -> impl TypedValueParser<Value = Method> {
    let names = Method::ALL
        .map(|method| PossibleValue::new(method.name()).help(method.entry().about.trim_end_matches('.')));
    PossibleValuesParser::new(names).map(|name| {
        let found = Method::ALL.into_iter().find(|method| method.name() == name);
        found.expect("it is one of the names")
    })
}

/// An address and a port; a name such as `localhost` is looked up.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    const CURE: &str = "write an address and a port, such as 127.0.0.1:4420";
    let found = text.to_socket_addrs().map_err(|error| format!("{error}: {CURE}"))?;
    // Most listen there, also where a name is one of both kinds.
    let (first, rest): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv4);
    first.into_iter().chain(rest).next().ok_or_else(|| format!("no machine has that name: {CURE}"))
}

/// A size as people who come from fio write it, too: 4k, 1g, or bytes without a unit.
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

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum OutputFormat {
    /// Tables for the eye.
    Table,
    /// For scripts: what summary.json holds; of served drives, one line each.
    Json,
}

/// How tables are printed.
#[derive(Clone, Copy, clap::Args)]
pub(super) struct Tables {
    /// Print all columns, instead of those that fit into 80, and sentences in one line each.
    #[arg(long)]
    pub(super) wide: bool,
}

impl Tables {
    pub(super) fn width(self) -> Width {
        if self.wide { Width::Wide } else { Width::Narrow }
    }

    /// A printed text with its sentences in lines.
    pub(super) fn wrapped(self, text: &str) -> String {
        wrapped(text, self.width())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Whoever comes from fio writes 4k; taken for 4000 bytes it would be another benchmark.
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
}
