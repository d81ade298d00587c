//! The CSV format of the Tencent CBS (cloud block storage) traces.
//!
//! | column | what |
//! |---|---|
//! | 1 | time in seconds since 1970 |
//! | 2, 3 | offset and size in sectors of 512 B |
//! | 4 | 0 = read, 1 = write: the opposite of MQSim |
//! | 5 | volume, used as the device |
//!
//! Source: the README of the traces (SNIA IOTTA, set 27917; Zhang et al., USENIX ATC 2020). The resolution of
//! times is a second.

use super::field::{FieldError, columns, nothing, number, number32, put, scaled};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

pub(super) const SPEC: Spec = Spec {
    name: "tencent",
    shape: "time_s,offset512,size512,iotype (0 = read, 1 = write),volume",
    assumption: "Tencent CBS format, times in whole seconds, sectors of 512 B, type 0 = read and 1 = write",
    tick_ps: 1_000_000_000_000,
    offset_unit: 512,
    size_unit: 512,
    reads_are: Some(0),
    ..Spec::TEXT
};

/// Reads one line; `None` for a line of column names.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case(b"timestamp")) {
        return Ok(None);
    }
    let ticks = number(first, "time")?;
    let offset = number(fields.next(), "offset")?;
    let size = number(fields.next(), "size")?;
    let kind = match number(fields.next(), "type")? {
        0 => Kind::Read,
        1 => Kind::Write,
        other => return Err(FieldError::new(format!("the type `{other}` is neither 0 nor 1"))),
    };
    let device = number32(fields.next(), "volume")?;
    nothing(fields, "five")?;
    Ok(Some(Line { ticks, device, offset_bytes: scaled(offset, 512)?, bytes: scaled(size, 512)?, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, ticks, b",");
    put(out, record.offset_bytes / 512, b",");
    put(out, record.bytes / 512, b",");
    put(out, u64::from(record.kind != Kind::Read), b",");
    put(out, u64::from(record.device), b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // The polarity is the opposite of MQSim's.
    #[test]
    fn zero_reads_and_one_writes() {
        let line = parse(b"1538323200,12910952,8,0,1063").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (1_538_323_200, 1063, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (12_910_952 * 512, 4096));
        assert_eq!(parse(b"1,0,8,1,0").unwrap().unwrap().kind, Kind::Write);
        assert!(parse(b"1,0,8,2,0").is_err() && parse(b"1,0,8,1").is_err() && parse(b"1,0,8,1,0,0").is_err());
    }
}
