//! Fields of a line as bytes: split, parsed and written without a copy, because a trace has millions of lines
//! and few of them are ever displayed.

use std::fmt;

use byteway_text::units::excerpt;

/// Why a line is not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError(pub(super) String);

impl FieldError {
    /// What is wrong with the line, as a clause.
    pub fn new(what: impl Into<String>) -> Self {
        FieldError(what.into())
    }

    /// A field `name` with a wrong value, and why it is: "is not a whole number".
    pub fn of(name: &str, value: &str, why: &str) -> Self {
        FieldError::field(name, value.as_bytes(), why)
    }

    /// A field that isn't there.
    pub fn missing(name: &str) -> Self {
        FieldError(format!("the {name} is missing"))
    }

    /// An invalid field.
    pub(super) fn field(what: &str, field: &[u8], why: &str) -> Self {
        FieldError(format!("the {what} `{}` {why}", shown(field)))
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Input text, shortened and without control characters, for a message.
pub fn shown(bytes: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(&bytes[..bytes.len().min(400)]))
}

/// The fields separated by white space.
pub(super) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The fields separated by commas.
pub(super) fn columns(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// A required field.
pub(super) fn present<'a>(field: Option<&'a [u8]>, what: &str) -> Result<&'a [u8], FieldError> {
    field.ok_or_else(|| FieldError::missing(what))
}

/// An error if any field follows.
pub(super) fn nothing<'a>(mut fields: impl Iterator<Item = &'a [u8]>, most: &str) -> Result<(), FieldError> {
    match fields.next() {
        None => Ok(()),
        Some(_) => Err(FieldError(format!("it has more than {most} fields"))),
    }
}

/// A required integer.
#[inline]
pub(super) fn number(field: Option<&[u8]>, what: &str) -> Result<u64, FieldError> {
    let field = present(field, what)?;
    match digits(field) {
        Digits::Value(value) => Ok(value),
        Digits::None if is_negative(field) => Err(FieldError::field(what, field, "is negative")),
        Digits::None => Err(FieldError::field(what, field, "is not a whole number")),
        Digits::TooMany => Err(FieldError::field(what, field, "is too large")),
    }
}

/// Whether it is a number below zero.
fn is_negative(field: &[u8]) -> bool {
    field.strip_prefix(b"-").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

/// A required 32-bit integer.
#[inline]
pub(super) fn number32(field: Option<&[u8]>, what: &str) -> Result<u32, FieldError> {
    let value = number(field, what)?;
    u32::try_from(value).map_err(|_| FieldError(format!("the {what} `{value}` is too large")))
}

/// `value` units of `unit` bytes, in bytes; an error on overflow.
#[inline]
pub(super) fn scaled(value: u64, unit: u64) -> Result<u64, FieldError> {
    value.checked_mul(unit).ok_or_else(|| {
        FieldError::new(format!("{value} x {unit} bytes is beyond 2^63 bytes, which is where addresses end"))
    })
}

/// A decimal number times 10^`places`, truncated: "1.5" with three places is 1500.
pub(super) fn decimal(field: Option<&[u8]>, places: u32, what: &str) -> Result<u64, FieldError> {
    let field = present(field, what)?;
    let point = field.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&field[..at], &field[at + 1..]),
        None => (field, &[][..]),
    };
    let malformed = || {
        let why = if is_negative(field) { "is negative" } else { "is not a number such as 1.5" };
        FieldError::field(what, field, why)
    };
    if (point.is_some() && fraction.is_empty()) || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(malformed());
    }
    let large = || FieldError::field(what, field, "is too large");
    let mut value = match digits(whole) {
        Digits::Value(value) => value,
        Digits::None => return Err(malformed()),
        Digits::TooMany => return Err(large()),
    };
    for place in 0..places as usize {
        let digit = fraction.get(place).map_or(0, |byte| u64::from(byte - b'0'));
        value = value.checked_mul(10).and_then(|value| value.checked_add(digit)).ok_or_else(large)?;
    }
    Ok(value)
}

enum Digits {
    Value(u64),
    None,
    TooMany,
}

#[inline]
fn digits(field: &[u8]) -> Digits {
    if field.is_empty() {
        return Digits::None;
    }
    let mut value = 0u64;
    let mut fits = true;
    for byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Digits::None;
        }
        match value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit))) {
            Some(next) => value = next,
            None => fits = false,
        }
    }
    if fits { Digits::Value(value) } else { Digits::TooMany }
}

/// Appends a number in decimal, and a separator.
pub(super) fn put(out: &mut Vec<u8>, value: u64, separator: &[u8]) {
    let mut text = [0u8; 20];
    let mut at = text.len();
    let mut rest = value;
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    out.extend_from_slice(separator);
}

/// Appends `value` / 10^`places` with all decimals.
pub(super) fn put_decimal(out: &mut Vec<u8>, value: u64, places: u32, separator: &[u8]) {
    let scale = 10u64.pow(places);
    put(out, value / scale, b".");
    // A leading one preserves leading zeros; it is removed again.
    let mark = out.len();
    put(out, scale + value % scale, separator);
    out.remove(mark);
}

/// `N` bytes at an offset in a record of fixed length.
pub(super) fn le<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&record[at..at + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    // A time converted through a float would differ from the text.
    #[test]
    fn decimals_are_exact() {
        let read = |text: &str| decimal(Some(text.as_bytes()), 6, "time");
        assert_eq!(read("1455592022.000001"), Ok(1_455_592_022_000_001));
        assert_eq!(read("0.1234567899"), Ok(123_456));
        assert_eq!(read("7"), Ok(7_000_000));
        for bad in
            ["", ".", "1.", ".5", "1.5.5", "-1.5", "1e6", "1.5x", "99999999999999999999", "18446744073710.0"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        let mut out = Vec::new();
        put_decimal(&mut out, 7_000_012, 6, b" ");
        put(&mut out, u64::MAX, b"\n");
        put(&mut out, 0, b"");
        assert_eq!(out, b"7.000012 18446744073709551615\n0");
    }
}
