//! The CSV format of the Alibaba Cloud block traces.
//!
//! | column | what |
//! |---|---|
//! | 1 | device |
//! | 2 | `R` or `W` |
//! | 3, 4 | offset and length in bytes |
//! | 5 | time in microseconds since 1970 |
//!
//! Source: the README of the traces (github.com/alibaba/block-traces; Li et al., IISWC 2020).

use super::field::{FieldError, columns, nothing, number, number32, put};
use super::spec::{Line, Spec, letter, letter_of};
use crate::record::Record;

pub(super) const SPEC: Spec = Spec {
    name: "alibaba",
    shape: "device,R|W,offset_bytes,length_bytes,time_us",
    assumption: "Alibaba block trace format, times in us, offsets and lengths in bytes",
    tick_ps: 1_000_000,
    ..Spec::TEXT
};

/// Reads one line; `None` for a line of column names.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case(b"device_id")) {
        return Ok(None);
    }
    let device = number32(first, "device")?;
    let kind = letter(fields.next())?;
    let offset_bytes = number(fields.next(), "offset")?;
    let bytes = number(fields.next(), "length")?;
    let ticks = number(fields.next(), "time")?;
    nothing(fields, "five")?;
    Ok(Some(Line { ticks, device, offset_bytes, bytes, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, u64::from(record.device), b",");
    out.extend_from_slice(&[letter_of(record), b',']);
    put(out, record.offset_bytes, b",");
    put(out, record.bytes, b",");
    put(out, ticks, b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    // The time is the last field; a parser that takes the first would read the device.
    #[test]
    fn a_line_of_the_collection_is_read() {
        let line = parse(b"419,W,8792731648,16384,1577808144360767").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (1_577_808_144_360_767, 419, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (8_792_731_648, 16_384));
        assert_eq!(parse(b"device_id,opcode,offset,length,timestamp"), Ok(None));
        assert!(parse(b"419,X,8192,512,1").is_err() && parse(b"419,W,8192,512").is_err());
    }
}
