//! Quantities with units: the quoted values in scenarios and profiles.
//!
//! Parsing is exact: `"3.2 us"` is 3,200,000 ps without an intermediate float. A number that is not a
//! multiple of the smallest unit (`"0.5 B"`) is an error, as is one without a unit.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::error::nearest;

/// Text that is not a quantity of the expected kind. Displays as two lines: what is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// Description of the mistake.
    pub what: String,
    /// How to fix it: the accepted units, with an example.
    pub help: String,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.help)
    }
}

impl std::error::Error for UnitError {}

/// A kind of quantity: its units in ascending order, each with its size in the smallest unit.
struct Quantity {
    noun: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
    /// Alternative spellings, accepted but never written.
    aliases: &'static [(&'static str, u64)],
    /// Units that are too large for the value range.
    beyond: &'static [&'static str],
    /// Units in which a value is shown.
    shown: &'static [(&'static str, u64)],
    /// Decimals of a shown value, at most.
    decimals: u32,
}

const BYTES: Quantity = Quantity {
    noun: "a size",
    example: "4 KiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
        ("PB", 1_000_000_000_000_000),
        ("PiB", 1 << 50),
        ("EB", 1_000_000_000_000_000_000),
        ("EiB", 1 << 60),
    ],
    aliases: &[
        ("KB", 1_000),
        ("k", 1 << 10),
        ("K", 1 << 10),
        ("m", 1 << 20),
        ("M", 1 << 20),
        ("g", 1 << 30),
        ("G", 1 << 30),
        ("t", 1 << 40),
        ("T", 1 << 40),
        ("p", 1 << 50),
        ("P", 1 << 50),
    ],
    beyond: &["ZB", "ZiB", "YB", "YiB"],
    shown: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("PiB", 1 << 50),
        ("EiB", 1 << 60),
    ],
    decimals: 0,
};

const TIME_UNITS: &[(&str, u64)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
    ("min", 60_000_000_000_000),
    ("h", 3_600_000_000_000_000),
];

const PICOS: Quantity = Quantity {
    noun: "a time",
    example: "3.2 us",
    units: TIME_UNITS,
    aliases: &[("\u{b5}s", 1_000_000), ("\u{3bc}s", 1_000_000)],
    beyond: &[],
    shown: &[("ps", 1), ("ns", 1_000), ("us", 1_000_000), ("ms", 1_000_000_000), ("s", 1_000_000_000_000)],
    decimals: 3,
};

/// Ages are in seconds: in picoseconds 64 bits hold only seven months.
const AGE: Quantity = Quantity {
    noun: "an age",
    example: "90 d",
    units: AGE_UNITS,
    aliases: &[],
    beyond: &[],
    shown: AGE_UNITS,
    decimals: 0,
};

const AGE_UNITS: &[(&str, u64)] = &[("s", 1), ("min", 60), ("h", 3_600), ("d", 86_400), ("y", 31_536_000)];

const RATE: Quantity = Quantity {
    noun: "a rate",
    example: "800 MB/s",
    units: &[
        ("B/s", 1),
        ("kB/s", 1_000),
        ("KiB/s", 1 << 10),
        ("MB/s", 1_000_000),
        ("MiB/s", 1 << 20),
        ("GB/s", 1_000_000_000),
        ("GiB/s", 1 << 30),
    ],
    aliases: &[("KB/s", 1_000)],
    beyond: &[],
    shown: &[("B/s", 1), ("kB/s", 1_000), ("MB/s", 1_000_000), ("GB/s", 1_000_000_000)],
    decimals: 3,
};

const FREQUENCY: Quantity = Quantity {
    noun: "a frequency",
    example: "1 GHz",
    units: &[("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)],
    aliases: &[],
    beyond: &[],
    shown: &[("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000), ("GHz", 1_000_000_000)],
    decimals: 3,
};

impl Quantity {
    fn unit_names(&self) -> String {
        self.units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn expected(&self) -> String {
        format!("{} with its unit in quotes, such as \"{}\"", self.noun, self.example)
    }

    fn help(&self) -> String {
        format!("write {}; the units are {}", self.expected(), self.unit_names())
    }

    fn error(&self, what: String) -> UnitError {
        UnitError { what, help: self.help() }
    }

    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let (number, unit) = split_number(trimmed);
        if number.is_empty() {
            return Err(self.error(format!("`{}` is not {}", excerpt(text), self.noun)));
        }
        if unit.is_empty() {
            return Err(self.error(format!("`{}` has no unit", excerpt(text))));
        }
        let known = self.units.iter().chain(self.aliases).find(|(name, _)| *name == unit);
        let Some((name, scale)) = known else {
            if self.beyond.contains(&unit) {
                return Err(self.too_large(text, self.units[self.units.len() - 1]));
            }
            let mut error = self.error(format!("unknown unit `{}` in `{}`", excerpt(unit), excerpt(text)));
            if let Some(name) = nearest(unit, self.units.iter().map(|(name, _)| *name)) {
                error.help = format!("did you mean `{number} {name}`? {}", error.help);
            }
            return Err(error);
        };
        scale_decimal(number, *scale).map_err(|trouble| match trouble {
            NumberError::Malformed => self.error(format!("`{}` is not a number", excerpt(number))),
            NumberError::TooLarge => self.too_large(text, (name, *scale)),
            NumberError::Fraction => {
                self.error(format!("`{}` is not a whole number of {}", excerpt(text), self.units[0].0))
            }
        })
    }

    /// The error for a value above the range; the message states the maximum in `unit`.
    fn too_large(&self, text: &str, (unit, scale): (&str, u64)) -> UnitError {
        UnitError {
            what: format!("`{}` is too large", excerpt(text)),
            help: format!("the most is {} {unit}; {}", u64::MAX / scale, self.help()),
        }
    }

    fn show(&self, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fine = 10u64.pow(self.decimals);
        let fits = |scale: u64| value >= scale && (scale < fine || value.is_multiple_of(scale / fine));
        let (name, scale) =
            *self.shown.iter().rev().find(|(_, scale)| fits(*scale)).unwrap_or(&self.shown[0]);
        if value.is_multiple_of(scale) {
            return write!(f, "{} {name}", value / scale);
        }
        let fraction = format!("{:0width$}", value % scale / (scale / fine), width = self.decimals as usize);
        write!(f, "{}.{} {name}", value / scale, fraction.trim_end_matches('0'))
    }
}

enum NumberError {
    Malformed,
    TooLarge,
    Fraction,
}

/// Splits "3.2 us" into "3.2" and "us".
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// `number` x `scale`, exactly.
fn scale_decimal(number: &str, scale: u64) -> Result<u64, NumberError> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if fraction.starts_with(|c: char| c.is_ascii_digit()) => (whole, fraction),
        Some(_) => return Err(NumberError::Malformed),
        None => (number, ""),
    };
    if !whole.starts_with(|c: char| c.is_ascii_digit()) || fraction.contains('.') {
        return Err(NumberError::Malformed);
    }
    let digits = |text: &str| text.replace('_', "");
    let whole: u64 = digits(whole).parse().map_err(|_| NumberError::TooLarge)?;
    let fraction = digits(fraction);
    let fraction = fraction.trim_end_matches('0');
    // Every unit is below 10^18 smallest units, so a number with more decimals cannot be a whole number of
    // them.
    if fraction.len() > 18 {
        return Err(NumberError::Fraction);
    }
    let tenths = 10u128.pow(fraction.len() as u32);
    let part = u128::from(fraction.parse::<u64>().unwrap_or(0)) * u128::from(scale);
    if !part.is_multiple_of(tenths) {
        return Err(NumberError::Fraction);
    }
    let value = u128::from(whole) * u128::from(scale) + part / tenths;
    u64::try_from(value).map_err(|_| NumberError::TooLarge)
}

/// The user's text, shortened and without control characters, for a message.
pub fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}

/// A size in one of fio's lists, where a bare number is in bytes.
pub fn fio_bytes(text: &str) -> Result<Bytes, UnitError> {
    match text.trim().parse() {
        Ok(bytes) if !text.trim().starts_with('+') => Ok(Bytes(bytes)),
        _ => text.parse(),
    }
}

/// A number as fio reads it in job files and lists it among the options in its results: decimal or after `0x`, and with or
/// without a unit in any case. `kb_base` is fio's option: with 1024, its default, `4k`, `4kb` and `4ki` are 4096 and `4kib` is
/// 4000; with 1000 it is the other way round. What fio cuts off without a word (`1.5k` is 1, `4x` is 4) is refused.
///
/// Source: what fio 3.33 says with `--parse-only --debug=parse`.
pub fn fio_number(text: &str, kb_base: u64) -> Result<u64, UnitError> {
    let help = "write a whole number, or one with k, m, g, t or p, such as 4k (4096)";
    let wrong = |what: String| UnitError { what, help: help.to_owned() };
    let text = text.trim();
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, unit, radix) = match hexadecimal {
        Some(digits) => (digits, "", 16),
        None => {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            (&text[..end], &text[end..], 10)
        }
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(wrong(format!("`{}` is not a size", excerpt(text))));
    }
    let lower = unit.to_ascii_lowercase();
    let (letter, base) = match lower.strip_suffix("ib") {
        Some(letter) => (letter, if kb_base == 1000 { 1024u64 } else { 1000 }),
        None => (lower.strip_suffix(['b', 'i']).unwrap_or(&lower), kb_base),
    };
    let power = match letter {
        "" if matches!(lower.as_str(), "" | "b") => Some(0),
        "k" => Some(1),
        "m" => Some(2),
        "g" => Some(3),
        "t" => Some(4),
        "p" => Some(5),
        _ => None,
    };
    let Some(scale) = power.map(|power| base.saturating_pow(power)) else {
        return Err(wrong(format!("unknown unit `{}` in `{}`", excerpt(unit), excerpt(text))));
    };
    let value = u64::from_str_radix(digits, radix).ok().and_then(|number| number.checked_mul(scale));
    value
        .filter(|value| i64::try_from(*value).is_ok())
        .ok_or_else(|| wrong(format!("`{}` is too large", excerpt(text))))
}

/// Deserializes a string; other types get serde's "invalid type".
struct Text<T>(String, fn(&str) -> Result<T, UnitError>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $quantity:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl FromStr for $name {
            type Err = UnitError;
            fn from_str(text: &str) -> Result<Self, UnitError> {
                $quantity.parse(text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $quantity.show(self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text($quantity.expected(), str::parse))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $quantity.help(),
                    "pattern": concat!(r"^\s*[0-9][0-9_]*(\.[0-9_]+)?\s*(", $pattern, r")\s*$"),
                    "examples": [$quantity.example],
                })
            }
        }
    };
}

quantity!(
    /// A size in bytes: `"4 KiB"`, `"1 TB"`, or in fio's notation, `"4k"`.
    Bytes, BYTES, "B|[kKMGTPE]B|[KMGTPE]iB|[kKmMgGtT]"
);
quantity!(
    /// A duration in picoseconds: `"3.2 us"`, `"10 ms"`.
    Picos, PICOS, "ps|ns|us|\u{b5}s|\u{3bc}s|ms|s|min|h"
);
quantity!(
    /// A duration in seconds of calendar time: `"90 d"`, `"1 y"` (365 days).
    Age, AGE, "s|min|h|d|y"
);
quantity!(
    /// A rate in bytes per second: `"800 MB/s"`.
    Rate, RATE, "B/s|[kKMG]B/s|[KMG]iB/s"
);
quantity!(
    /// A frequency in Hz: `"1 GHz"`.
    Frequency, FREQUENCY, "Hz|kHz|MHz|GHz"
);

/// A percentage: `"7 %"` is 7.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl Percent {
    /// This share of a whole, rounded up.
    pub fn of(self, whole: u64) -> u64 {
        (whole as f64 * self.0 / 100.0).ceil() as u64
    }
}

const PERCENT_EXPECTED: &str = "a percentage in quotes, such as \"7 %\"";

impl FromStr for Percent {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let error =
            |what: String| Err(UnitError { what, help: format!("write {PERCENT_EXPECTED}; the unit is %") });
        let (number, unit) = split_number(text.trim());
        if number.is_empty() {
            return error(format!("`{}` is not a percentage", excerpt(text)));
        }
        if unit.is_empty() {
            return error(format!("`{}` has no unit", excerpt(text)));
        }
        if unit != "%" {
            return error(format!("unknown unit `{}` in `{}`", excerpt(unit), excerpt(text)));
        }
        match number.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Percent(value)),
            _ => error(format!("`{}` is not a number", excerpt(number))),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(PERCENT_EXPECTED.to_owned(), str::parse))
    }
}

/// A temperature in degrees Celsius: `"78 C"`, `"-5 C"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Celsius(pub i16);

impl Celsius {
    /// In kelvins, as NVMe has it.
    pub fn kelvins(self) -> u16 {
        self.0.saturating_add(273).max(0) as u16
    }
}

const CELSIUS_EXPECTED: &str = "a temperature in whole degrees in quotes, such as \"78 C\"";

impl FromStr for Celsius {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let number = text.trim().strip_suffix('C').map(str::trim_end);
        number.and_then(|number| number.parse().ok()).map(Celsius).ok_or_else(|| UnitError {
            what: format!("`{}` is not a temperature", excerpt(text)),
            help: format!("write {CELSIUS_EXPECTED}; the unit is C"),
        })
    }
}

impl fmt::Display for Celsius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} C", self.0)
    }
}

impl Serialize for Celsius {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Celsius {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(CELSIUS_EXPECTED.to_owned(), str::parse))
    }
}

impl JsonSchema for Celsius {
    fn schema_name() -> Cow<'static, str> {
        "Celsius".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": CELSIUS_EXPECTED,
            "pattern": r"^\s*[+-]?[0-9]+\s*C\s*$",
            "examples": ["78 C"],
        })
    }
}

/// A size, absolute or as a percentage of a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Portion {
    /// A size in bytes.
    Bytes(Bytes),
    /// A percentage of the whole.
    Part(Percent),
}

impl Portion {
    /// The size in bytes for a whole of `whole` bytes; a percentage is rounded to multiples of `unit` bytes.
    pub fn of(self, whole: Bytes, unit: u64) -> Bytes {
        match self {
            Portion::Bytes(bytes) => bytes,
            Portion::Part(percent) => {
                // Computed in millionths, so that 100 % of any size is exactly that size.
                let millionths = libm::round(percent.0.clamp(0.0, 1e6) * 1e6) as u128;
                let bytes = u128::from(whole.0) * millionths / 100_000_000;
                Bytes(u64::try_from(bytes).unwrap_or(u64::MAX) / unit.max(1) * unit.max(1))
            }
        }
    }
}

impl Default for Portion {
    fn default() -> Self {
        Portion::Bytes(Bytes(0))
    }
}

impl From<Bytes> for Portion {
    fn from(bytes: Bytes) -> Self {
        Portion::Bytes(bytes)
    }
}

impl FromStr for Portion {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim().ends_with('%') {
            true => text.parse().map(Portion::Part),
            false => text.parse().map(Portion::Bytes),
        }
    }
}

impl fmt::Display for Portion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Portion::Bytes(bytes) => bytes.fmt(f),
            Portion::Part(percent) => percent.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Portion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text(BYTES.expected(), str::parse))
    }
}

impl JsonSchema for Portion {
    fn schema_name() -> Cow<'static, str> {
        "Portion".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "a size, or a part in percent", "examples": ["64 GiB", "30 %"] })
    }
}

impl JsonSchema for Percent {
    fn schema_name() -> Cow<'static, str> {
        "Percent".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": PERCENT_EXPECTED,
            "pattern": r"^\s*[0-9][0-9_]*(\.[0-9_]+)?\s*%\s*$",
            "examples": ["7 %"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A time converted through a float would differ by picoseconds from the constant in the file.
    #[test]
    fn numbers_are_exact() {
        assert_eq!("3.2 us".parse(), Ok(Picos(3_200_000)));
        assert_eq!("0.001ns".parse(), Ok(Picos(1)));
        assert_eq!("29.76 \u{b5}s".parse(), Ok(Picos(29_760_000)));
        assert_eq!("1.50 h".parse(), Ok(Picos(5_400_000_000_000_000)));
        assert_eq!("4KiB".parse(), Ok(Bytes(4096)));
        assert_eq!("0.5 KiB".parse(), Ok(Bytes(512)));
        assert_eq!("0.250 KiB".parse(), Ok(Bytes(256)));
        assert_eq!("1_024 B".parse(), Ok(Bytes(1024)));
        assert_eq!("1 TB".parse(), Ok(Bytes(1_000_000_000_000)));
        assert_eq!("1.5 y".parse(), Ok(Age(47_304_000)));
        assert_eq!("800 MB/s".parse(), Ok(Rate(800_000_000)));
        assert_eq!("1.25 GHz".parse(), Ok(Frequency(1_250_000_000)));
        assert_eq!("7 %".parse(), Ok(Percent(7.0)));
        assert_eq!("12.5%".parse(), Ok(Percent(12.5)));
    }

    // A message that says only "invalid value" leaves the reader to guess the units.
    #[test]
    fn each_error_names_the_units_and_an_example() {
        let wrong = [
            "",
            "KiB",
            "4",
            "4 kib",
            "4 us",
            "4..5 KiB",
            ".5 KiB",
            "5. KiB",
            "0.3 B",
            "-1 B",
            "1e3 B",
            "4 KiB x",
            "_ B",
            "1._ B",
            "99999999999999999999 B",
            "999999999 TiB",
            "\u{0}",
            "0.00000000000000000000000000001 TiB",
            "4 \u{1F4BE}",
        ];
        for text in wrong {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.help.contains("KiB") && error.help.contains("\"4 KiB\""), "{text:?}: {error}");
        }
        let error = "4 kib".parse::<Bytes>().unwrap_err();
        assert!(error.help.starts_with("did you mean `4 KiB`?"), "{error}");
        for (text, most) in
            [("1 ZiB", "15 EiB"), ("2 YB", "15 EiB"), ("16 EiB", "15 EiB"), ("999999999 TiB", "16777215 TiB")]
        {
            let error = text.parse::<Bytes>().unwrap_err();
            assert!(error.what.ends_with("is too large"), "{error}");
            assert!(error.help.starts_with(&format!("the most is {most};")), "{error}");
        }
        assert!("5 msec".parse::<Picos>().is_err());
        assert!("7".parse::<Percent>().is_err());
        assert!("7 pc".parse::<Percent>().is_err());
        assert!("1.2.3 %".parse::<Percent>().is_err());
    }

    // A user's job file and fio's results use these; `64Mi` taken as 64 MB would be another load. The table is what
    // `fio --parse-only --debug=parse` of fio 3.33 says about `size=4...`.
    #[test]
    fn every_unit_of_fio_means_what_fio_takes_it_for() {
        for kb_base in [1000u64, 1024] {
            let other = 2024 - kb_base;
            for (power, letter) in ["", "k", "m", "g", "t", "p"].into_iter().enumerate() {
                let (by, by_other) = (kb_base.pow(power as u32), other.pow(power as u32));
                for (suffix, scale) in [("", by), ("b", by), ("i", by), ("ib", by_other)] {
                    if letter.is_empty() && suffix.starts_with('i') {
                        continue;
                    }
                    let unit = format!("{letter}{suffix}");
                    let bits = 1 << unit.len();
                    for case in 0..bits {
                        let cased = unit.chars().enumerate().map(|(at, c)| match case >> at & 1 {
                            0 => c,
                            _ => c.to_ascii_uppercase(),
                        });
                        let text = format!("4{}", cased.collect::<String>());
                        assert_eq!(fio_number(&text, kb_base), Ok(4 * scale), "{text}, kb_base {kb_base}");
                    }
                }
            }
        }
        assert_eq!(fio_number("64Mi", 1024), Ok(64 << 20));
        assert_eq!(fio_number(" 0x1000 ", 1024), Ok(4096));
        assert_eq!(fio_number("0XfF", 1000), Ok(255));
        assert_eq!(fio_number("9223372036854775807", 1024), Ok(i64::MAX as u64));
        for (text, what) in [
            ("", "not a size"),
            ("k", "not a size"),
            ("-4k", "not a size"),
            ("+4k", "not a size"),
            ("0x", "not a size"),
            ("0x1k", "not a size"),
            ("1.5k", "unknown unit"),
            ("4 k", "unknown unit"),
            ("4i", "unknown unit"),
            ("4ib", "unknown unit"),
            ("4kk", "unknown unit"),
            ("4kibi", "unknown unit"),
            ("4e", "unknown unit"),
            ("4,8", "unknown unit"),
            ("10%", "unknown unit"),
            ("4\u{212a}", "unknown unit"),
            ("8192p", "too large"),
            ("99999999999999999999", "too large"),
            ("0xffffffffffffffffff", "too large"),
        ] {
            let error = fio_number(text, 1024).unwrap_err();
            assert!(error.what.contains(what) && error.help.contains("4k (4096)"), "{text}: {error}");
        }
    }

    // A value shown in a report must be accepted in a scenario, or a result could not be reproduced.
    #[test]
    fn what_is_shown_can_be_read_back() {
        for (value, text) in
            [(0, "0 B"), (512, "512 B"), (4096, "4 KiB"), (1 << 39, "512 GiB"), (1025, "1025 B")]
        {
            assert_eq!(Bytes(value).to_string(), text);
            assert_eq!(text.parse(), Ok(Bytes(value)));
        }
        for (value, text) in [
            (0, "0 ps"),
            (999, "999 ps"),
            (3_200_000, "3.2 us"),
            (1_500, "1.5 ns"),
            (1_000_001, "1000.001 ns"),
        ] {
            assert_eq!(Picos(value).to_string(), text);
            assert_eq!(text.parse(), Ok(Picos(value)));
        }
        assert_eq!(Rate(800_000_000).to_string(), "800 MB/s");
        assert_eq!(Frequency(667_000_000).to_string(), "667 MHz");
        assert_eq!(Percent(7.0).to_string(), "7 %");
        assert_eq!([90 * 86_400, 730 * 86_400, 61].map(|age| Age(age).to_string()), ["90 d", "2 y", "61 s"]);
        for value in [u64::MAX, u64::MAX - 1, 1 << 63, 12_345_678_901_234] {
            assert_eq!(Picos(value).to_string().parse(), Ok(Picos(value)));
            assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
        }
    }
}
