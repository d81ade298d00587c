//! The ASCII format of MQSim and SSDSim: five whitespace-separated integers a line.
//!
//! | field | what |
//! |---|---|
//! | 1 | arrival in nanoseconds |
//! | 2 | device |
//! | 3 | first sector of 512 B |
//! | 4 | sectors |
//! | 5 | operation: 0 = write, 1 = read |
//!
//! Source: MQSim's README, "ASCII disk traces"; the polarity is that of its example traces and its source code.

use super::field::{FieldError, nothing, number, number32, put, scaled, words};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

pub(super) const SPEC: Spec = Spec {
    name: "mqsim",
    shape: "time_ns device lba512 blocks512 op (0 = write, 1 = read)",
    assumption: "MQSim/SSDSim format, times in ns, sectors of 512 B, operation 0 = write and 1 = read",
    tick_ps: 1_000,
    offset_unit: 512,
    size_unit: 512,
    reads_are: Some(1),
    ..Spec::TEXT
};

/// Reads one line.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Line, FieldError> {
    let mut fields = words(line);
    let ticks = number(fields.next(), "time")?;
    let device = number32(fields.next(), "device")?;
    let lba = number(fields.next(), "address")?;
    let blocks = number(fields.next(), "length")?;
    let kind = match number(fields.next(), "operation")? {
        0 => Kind::Write,
        1 => Kind::Read,
        other => return Err(FieldError::new(format!("the operation `{other}` is neither 0 nor 1"))),
    };
    nothing(fields, "five")?;
    Ok(Line { ticks, device, offset_bytes: scaled(lba, 512)?, bytes: scaled(blocks, 512)?, kind })
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, ticks, b" ");
    put(out, u64::from(record.device), b" ");
    put(out, record.offset_bytes / 512, b" ");
    put(out, record.bytes / 512, b" ");
    put(out, u64::from(record.kind == Kind::Read), b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // The polarity cannot be seen in a trace: inverted, reads would become writes.
    #[test]
    fn zero_writes_and_one_reads() {
        let line = parse(b"938513000\t4 264719034  16 0").unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (938_513_000, 4, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (264_719_034 * 512, 8192));
        assert_eq!(parse(b"1 0 8 8 1").unwrap().kind, Kind::Read);
        assert!(parse(b"1 0 8 8 1 1").is_err());
        assert!(parse(b"1.5 0 8 8 1").unwrap_err().0.contains("time"));
    }
}
