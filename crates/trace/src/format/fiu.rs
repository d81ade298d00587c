//! The format of the FIU traces (SRCMap, IODedup): nine whitespace-separated fields a line.
//!
//! | field | what |
//! |---|---|
//! | 1 | time in nanoseconds |
//! | 2, 3 | process identifier and name |
//! | 4 | first block of 512 B |
//! | 5 | blocks |
//! | 6 | `R` or `W` |
//! | 7, 8 | major and minor number of the device |
//! | 9 | MD5 of the content |
//!
//! The device is `major << 20 | minor`, as in Linux. A process name may contain white space, so fields are
//! counted from both ends. Source: the README of the traces (SNIA IOTTA, set 390; Koller and Rangaswami, FAST
//! 2010).

use super::field::{FieldError, number, present, put, scaled, words};
use super::spec::{Line, Spec, device_of, letter, letter_of, put_device};
use crate::record::Record;

pub(super) const SPEC: Spec = Spec {
    name: "fiu",
    shape: "time_ns pid process lba512 blocks512 R|W major minor md5",
    assumption: "FIU format, times in ns, blocks of 512 B, device = major << 20 | minor",
    tick_ps: 1_000,
    offset_unit: 512,
    size_unit: 512,
    ..Spec::TEXT
};

/// Reads one line.
pub(super) fn parse(line: &[u8]) -> Result<Line, FieldError> {
    let mut fields = words(line);
    present(fields.next_back(), "MD5")?;
    let minor = number(fields.next_back(), "minor number")?;
    let major = number(fields.next_back(), "major number")?;
    let kind = letter(fields.next_back())?;
    let blocks = number(fields.next_back(), "length")?;
    let lba = number(fields.next_back(), "address")?;
    let ticks = number(fields.next(), "time")?;
    number(fields.next(), "process identifier")?;
    present(fields.next(), "process name")?;
    let device = device_of(major, minor)?;
    Ok(Line { ticks, device, offset_bytes: scaled(lba, 512)?, bytes: scaled(blocks, 512)?, kind })
}

/// Writes one line. Process and content are unknown, and written as zero.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(out, ticks, b" 0 none ");
    put(out, record.offset_bytes / 512, b" ");
    put(out, record.bytes / 512, b" ");
    out.extend_from_slice(&[letter_of(record), b' ']);
    put_device(out, record.device, b" ", b" ");
    out.extend_from_slice(b"00000000000000000000000000000000\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    // Process names may contain white space.
    #[test]
    fn a_line_of_the_collection_is_read() {
        let text = "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523";
        let line = parse(text.as_bytes()).unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (89_968_195_792_462, 6 << 20, Kind::Read));
        assert_eq!((line.offset_bytes, line.bytes), (283_193_184 * 512, 4096));
        assert_eq!(parse(text.replace("gzip", "my own gzip").as_bytes()).unwrap(), line);
        assert!(parse(text.replace("gzip ", "").as_bytes()).is_err());
        assert!(parse(text.replace(" 6 0 ", " 6 1048576 ").as_bytes()).is_err());
        assert!(parse(b"1 2 3 4").is_err());
    }
}
