//! The ASCII format of MQSim and SSDSim: five numbers a line.

use super::{Line, number};
use crate::workload::Kind;

/// A line, for messages.
pub(super) const SHAPE: &str = "time_ns device lba512 blocks512 op (0 = write, 1 = read)";

const SECTOR_BYTES: u64 = 512;

/// Reads one line. Any white space separates.
pub(super) fn parse(text: &str) -> Result<Line, String> {
    let mut fields = text.split_ascii_whitespace();
    let ticks = number(fields.next(), "time")?;
    let device = number(fields.next(), "device")?;
    let device = u32::try_from(device).map_err(|_| format!("the device `{device}` is too large"))?;
    let lba = number(fields.next(), "address")?;
    let blocks = number(fields.next(), "length")?;
    let kind = match number(fields.next(), "operation")? {
        0 => Kind::Write,
        1 => Kind::Read,
        other => return Err(format!("the operation `{other}` is neither 0 nor 1")),
    };
    if fields.next().is_some() {
        return Err("it has more than five fields".to_owned());
    }
    let beyond = || "it ends beyond 2^63 bytes".to_owned();
    Ok(Line {
        ticks,
        device,
        offset_bytes: lba.checked_mul(SECTOR_BYTES).ok_or_else(beyond)?,
        bytes: blocks.checked_mul(SECTOR_BYTES).ok_or_else(beyond)?,
        kind,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The polarity is the one thing that no reader can see in a trace: turned round, reads would become writes.
    #[test]
    fn zero_writes_and_one_reads() {
        let line = parse("938513000\t4 264719034  16 0").unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (938_513_000, 4, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (264_719_034 * 512, 8192));
        assert_eq!(parse("1 0 8 8 1").unwrap().kind, Kind::Read);
        assert!(parse("1 0 8 8 1 1").is_err());
        assert!(parse("1.5 0 8 8 1").unwrap_err().contains("time"));
    }
}
