//! The CSV format of the MSR Cambridge traces.
//!
//! | column | what |
//! |---|---|
//! | 1 | time in Windows' ticks of 100 ns |
//! | 2 | host |
//! | 3 | disk, used as the device |
//! | 4 | `Read` or `Write`; some copies have `R` or `W` |
//! | 5, 6 | offset and size in bytes |
//! | 7 | response time, ignored; missing in some copies |
//!
//! Source: the README of the traces (SNIA IOTTA, set 388; Narayanan et al., FAST 2008).

use super::field::{FieldError, columns, nothing, number, number32, present, put};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

pub(super) const SPEC: Spec = Spec {
    name: "msr",
    shape: "ticks_100ns,host,disk,Read|Write,offset_bytes,size_bytes,response",
    assumption: "MSR Cambridge format, times in ticks of 100 ns, offsets and sizes in bytes",
    tick_ps: 100_000,
    ..Spec::TEXT
};

/// Reads one line; `None` for a line of column names, which some copies have.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case(b"timestamp")) {
        return Ok(None);
    }
    let ticks = number(first, "time")?;
    present(fields.next(), "host")?;
    let device = number32(fields.next(), "disk")?;
    let word = present(fields.next(), "operation")?;
    let kind = match word {
        word if word.eq_ignore_ascii_case(b"read") || word.eq_ignore_ascii_case(b"r") => Kind::Read,
        word if word.eq_ignore_ascii_case(b"write") || word.eq_ignore_ascii_case(b"w") => Kind::Write,
        other => return Err(FieldError::field("operation", other, "is neither Read nor Write")),
    };
    let offset_bytes = number(fields.next(), "offset")?;
    let bytes = number(fields.next(), "size")?;
    fields.next();
    nothing(fields, "seven")?;
    Ok(Some(Line { ticks, device, offset_bytes, bytes, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, ticks, b",host,");
    put(out, u64::from(record.device), if record.kind == Kind::Read { b",Read," } else { b",Write," });
    put(out, record.offset_bytes, b",");
    put(out, record.bytes, b",0\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Ticks of 100 ns since 1601 overflow 64-bit picoseconds: only their differences may be scaled.
    #[test]
    fn a_line_of_the_collection_is_read() {
        let line = parse(b"128166372003061629,hm,1,Read,383496192,32768,413").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (128_166_372_003_061_629, 1, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (383_496_192, 32_768));
        for (word, kind) in [("write", Kind::Write), ("W", Kind::Write), ("R", Kind::Read), ("r", Kind::Read)]
        {
            assert_eq!(
                parse(format!("1,h,0,{word},0,512").as_bytes()).unwrap().unwrap().kind,
                kind,
                "{word}"
            );
        }
        assert_eq!(parse(b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"), Ok(None));
        assert!(parse(b"1,h,0,Trim,0,512,1").is_err());
        assert!(parse(b"1,h,0,Read,0,512,1,9").is_err());
        assert!(parse(b"1,h").is_err());
    }
}
