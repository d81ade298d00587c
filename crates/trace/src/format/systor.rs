//! The CSV format of the SYSTOR'17 traces (a virtual desktop infrastructure).
//!
//! | column | what |
//! |---|---|
//! | 1 | time in seconds since 1970, a decimal number |
//! | 2 | response time in seconds, ignored |
//! | 3 | `R` or `W` |
//! | 4 | LUN, used as the device |
//! | 5, 6 | offset and size in bytes |
//!
//! Each file begins with a line of column names. Source: the README of the traces (SNIA IOTTA, set 4964; Lee et al.,
//! SYSTOR 2017). Times are kept to the nanosecond.

use super::field::{FieldError, columns, decimal, nothing, number, number32, present, put, put_decimal};
use super::spec::{Line, Spec, letter, letter_of};
use crate::record::Record;

const PLACES: u32 = 9;

pub(super) const SPEC: Spec = Spec {
    name: "systor",
    shape: "time_s,response,R|W,lun,offset_bytes,size_bytes",
    assumption: "SYSTOR'17 format, times in s, offsets and sizes in bytes",
    tick_ps: 1_000,
    header: b"Timestamp,Response,IOType,LUN,Offset,Size\n",
    ..Spec::TEXT
};

/// Reads one line; `None` for the line of column names.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case(b"timestamp")) {
        return Ok(None);
    }
    let ticks = decimal(first, PLACES, "time")?;
    present(fields.next(), "response time")?;
    let kind = letter(fields.next())?;
    let device = number32(fields.next(), "LUN")?;
    let offset_bytes = number(fields.next(), "offset")?;
    let bytes = number(fields.next(), "size")?;
    nothing(fields, "six")?;
    Ok(Some(Line { ticks, device, offset_bytes, bytes, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put_decimal(out, ticks, PLACES, b",0.0,");
    out.extend_from_slice(&[letter_of(record), b',']);
    put(out, u64::from(record.device), b",");
    put(out, record.offset_bytes, b",");
    put(out, record.bytes, b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    // Seconds since 1970 with nine decimals need 61 bits; a float would be off by 200 ns.
    #[test]
    fn a_line_of_the_collection_is_read() {
        let line = parse(b"1455592022.044413090,0.001285791,R,3,157253447680,4096").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (1_455_592_022_044_413_090, 3, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (157_253_447_680, 4096));
        assert_eq!(parse(b"Timestamp,Response,IOType,LUN,Offset,Size"), Ok(None));
        assert!(parse(b"1.0,,W,0,0,512").is_ok());
        assert!(parse(b"1.0,0.1,,0,0,512").is_err() && parse(b"1.0,0.1,R,0,0").is_err());
    }
}
