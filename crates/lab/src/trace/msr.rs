//! The CSV format of the MSR Cambridge traces.

use super::{Line, number};
use crate::workload::Kind;

/// A line, for messages.
pub(super) const SHAPE: &str = "ticks_100ns,host,disk,Read|Write,offset_bytes,size_bytes,response";

/// Reads one line; `None` for the line of column names that some copies begin with.
pub(super) fn parse(text: &str) -> Result<Option<Line>, String> {
    let mut fields = text.split(',').map(str::trim);
    let first = fields.next();
    if first.is_some_and(|field| field.eq_ignore_ascii_case("timestamp")) {
        return Ok(None);
    }
    let ticks = number(first, "time")?;
    fields.next().ok_or("the host is missing")?;
    let disk = number(fields.next(), "disk")?;
    let device = u32::try_from(disk).map_err(|_| format!("the disk `{disk}` is too large"))?;
    let kind = match fields.next() {
        Some(word) if word.eq_ignore_ascii_case("read") => Kind::Read,
        Some(word) if word.eq_ignore_ascii_case("write") => Kind::Write,
        Some(word) => return Err(format!("`{}` is neither Read nor Write", crate::units::excerpt(word))),
        None => return Err("the operation is missing".to_owned()),
    };
    let offset_bytes = number(fields.next(), "offset")?;
    let bytes = number(fields.next(), "size")?;
    // The response time of the traced system is of no use here, and some copies leave it out.
    fields.next();
    if fields.next().is_some() {
        return Err("it has more than seven fields".to_owned());
    }
    Ok(Some(Line { ticks, device, offset_bytes, bytes, kind }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Ticks of 100 ns since 1601 overflow picoseconds in 64 bits: only their differences may be scaled.
    #[test]
    fn a_line_of_the_collection_is_read() {
        let line = parse("128166372003061629,hm,1,Read,383496192,32768,413").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (128_166_372_003_061_629, 1, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (383_496_192, 32_768));
        assert_eq!(parse("1,h,0,write,0,512").unwrap().unwrap().kind, Kind::Write);
        assert_eq!(parse("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"), Ok(None));
        assert!(parse("1,h,0,Trim,0,512,1").is_err());
        assert!(parse("1,h,0,Read,0,512,1,9").is_err());
        assert!(parse("1,h").is_err());
    }
}
