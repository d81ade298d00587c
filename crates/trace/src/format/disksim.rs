//! The ASCII format of DiskSim: five whitespace-separated fields a line.
//!
//! | field | what |
//! |---|---|
//! | 1 | arrival in milliseconds, a decimal number |
//! | 2 | device |
//! | 3 | first block of 512 B |
//! | 4 | blocks |
//! | 5 | flags in hexadecimal; bit 0 set: read |
//!
//! Source: the DiskSim 4.0 reference manual, "Input traces", format ASCII. The other flags (time-critical and
//! so on) are ignored. Only the decimal point in its times tells a file from MQSim's.

use super::field::{
    FieldError, decimal, nothing, number, number32, present, put, put_decimal, scaled, words,
};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

/// Decimals of a millisecond that are kept: nanoseconds.
const PLACES: u32 = 6;

pub(super) const SPEC: Spec = Spec {
    name: "disksim",
    shape: "time_ms device block512 blocks512 flags (hexadecimal, bit 0: 1 = read, 0 = write)",
    assumption: "DiskSim ASCII format, times in ms, blocks of 512 B, bit 0 of the flags 0 = write and 1 = read",
    tick_ps: 1_000,
    offset_unit: 512,
    size_unit: 512,
    reads_are: Some(1),
    ..Spec::TEXT
};

/// Reads one line.
pub(super) fn parse(line: &[u8]) -> Result<Line, FieldError> {
    let mut fields = words(line);
    let ticks = decimal(fields.next(), PLACES, "time")?;
    let device = number32(fields.next(), "device")?;
    let block = number(fields.next(), "block")?;
    let blocks = number(fields.next(), "length")?;
    let flags = present(fields.next(), "flags")?;
    nothing(fields, "five")?;
    let hexadecimal = flags.strip_prefix(b"0x").unwrap_or(flags);
    if hexadecimal.is_empty() || hexadecimal.len() > 16 || !hexadecimal.iter().all(u8::is_ascii_hexdigit) {
        return Err(FieldError::field("flags", flags, "are not a hexadecimal number"));
    }
    // Bit 0 is in the last digit. The ASCII code of a letter is odd where its value is even: a is 10, and
    // 61h.
    let last = hexadecimal[hexadecimal.len() - 1];
    let odd = if last.is_ascii_digit() { last & 1 == 1 } else { last & 1 == 0 };
    let kind = if odd { Kind::Read } else { Kind::Write };
    Ok(Line { ticks, device, offset_bytes: scaled(block, 512)?, bytes: scaled(blocks, 512)?, kind })
}

/// Whether a line is DiskSim's and not MQSim's.
pub(super) fn votes(line: &[u8]) -> bool {
    words(line).next().is_some_and(|time| time.contains(&b'.')) && parse(line).is_ok()
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put_decimal(out, ticks, PLACES, b" ");
    put(out, u64::from(record.device), b" ");
    put(out, record.offset_bytes / 512, b" ");
    put(out, record.bytes / 512, b" ");
    put(out, u64::from(record.kind == Kind::Read), b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // The flags are hexadecimal and contain more than the direction: parsed as decimal, f would be an error.
    #[test]
    fn bit_zero_of_the_flags_is_the_direction() {
        let line = parse(b"12.500000 1 16 8 1").unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (12_500_000, 1, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (8192, 4096));
        for (flags, kind) in [
            ("0", Kind::Write),
            ("a", Kind::Write),
            ("F", Kind::Read),
            ("13", Kind::Read),
            ("0x2", Kind::Write),
        ] {
            assert_eq!(parse(format!("0.0 0 0 1 {flags}").as_bytes()).unwrap().kind, kind, "{flags}");
        }
        assert!(
            parse(b"0.0 0 0 1 g").is_err() && parse(b"0.0 0 0 1").is_err() && parse(b"0.0 0 0 1 0x").is_err()
        );
        assert!(votes(b"1.0 0 8 8 1") && !votes(b"1 0 8 8 1"));
    }
}
