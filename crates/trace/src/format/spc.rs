//! The SPC-1 trace file format, as in the UMass trace repository (Financial, WebSearch).
//!
//! | column | what |
//! |---|---|
//! | 1 | application storage unit (ASU), used as the device |
//! | 2 | first block of 512 B |
//! | 3 | size in bytes |
//! | 4 | `R` or `W`, upper or lower case |
//! | 5 | time in seconds since the first record, a decimal number |
//! | 6 and up | fields defined by the trace's owner, ignored |
//!
//! Source: SPC Trace File Format Specification 1.0.1, section 2. The block size is left to the description of
//! the trace; UMass's traces use 512 B. Times are kept to the nanosecond.

use super::field::{FieldError, columns, decimal, number, number32, put, put_decimal, scaled};
use super::spec::{Line, Spec, letter, letter_of};
use crate::record::Record;

const PLACES: u32 = 9;

pub(super) const SPEC: Spec = Spec {
    name: "spc",
    shape: "asu,lba512,size_bytes,R|W,time_s",
    assumption: "SPC-1 format, times in s, blocks of 512 B, sizes in bytes, device = ASU",
    tick_ps: 1_000,
    offset_unit: 512,
    ..Spec::TEXT
};

/// Reads one line; `None` for a line of column names.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case(b"asu")) {
        return Ok(None);
    }
    let device = number32(first, "ASU")?;
    let block = number(fields.next(), "block address")?;
    let bytes = number(fields.next(), "size")?;
    let kind = letter(fields.next())?;
    let ticks = decimal(fields.next(), PLACES, "time")?;
    Ok(Some(Line { ticks, device, offset_bytes: scaled(block, 512)?, bytes, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, u64::from(record.device), b",");
    put(out, record.offset_bytes / 512, b",");
    put(out, record.bytes, b",");
    out.extend_from_slice(&[letter_of(record), b',']);
    put_decimal(out, ticks, PLACES, b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    // The size is in bytes and the address in blocks: with one unit for both, every I/O would be 512 times
    // too long or too low.
    #[test]
    fn a_line_of_the_repository_is_read() {
        let line = parse(b"1,32558896,8192,r,0.008117").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (8_117_000, 1, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (32_558_896 * 512, 8192));
        assert_eq!(parse(b"0,8, 512 ,W,1.5,user,field").unwrap().unwrap().kind, Kind::Write);
        assert_eq!(parse(b"ASU,LBA,Size,Opcode,Timestamp"), Ok(None));
        assert!(parse(b"0,8,512,X,0.5").is_err() && parse(b"0,8,512,R").is_err());
    }
}
