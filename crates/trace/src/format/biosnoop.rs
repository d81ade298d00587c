//! The text of biosnoop, which prints a line for each I/O that a Linux block device has completed.
//!
//! | field | what |
//! |---|---|
//! | 1 | time of the completion in seconds since the first one, a decimal number |
//! | 2, 3 | name and identifier of the process |
//! | 4 | disk, used as the device |
//! | 5 | bcc: `W`, or `R` for all else; libbpf-tools: RWBS as in blkparse, `D` is a trim |
//! | 6 | first sector of 512 B |
//! | 7 | size in bytes; 0 is a flush |
//! | 8 | with `-Q`, milliseconds in the queue, ignored |
//! | last | latency in milliseconds, ignored |
//!
//! Disks are numbered from 0 in order of appearance; a disk `device-7`, as written here, is device 7. A process name may
//! contain white space, so fields are counted from both ends; a further column, such as that of `-P`, is an error. Flushes and
//! the line of column names are skipped. Times are kept as they are: those of issue are only known as exactly as the latency.
//!
//! Source: the manual page biosnoop(8), "FIELDS", and `biosnoop.py` and `libbpf-tools/biosnoop.c` of bcc.

use super::blkparse::kind_of_rwbs;
use super::field::{FieldError, decimal, number, present, put, put_decimal, scaled, words};
use super::names::{Names, put_name};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

const PLACES: u32 = 9;

pub(super) const SPEC: Spec = Spec {
    name: "biosnoop",
    shape: "time_s process pid disk R|W sector bytes latency_ms",
    assumption: "biosnoop's text, times of completion in s, sectors of 512 B, sizes in bytes, disks as devices",
    tick_ps: 1_000,
    offset_unit: 512,
    trims: true,
    header: b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n",
    ..Spec::TEXT
};

/// Reads one line; `None` for a flush and for the line of column names.
pub(super) fn parse(line: &[u8], disks: &mut Names) -> Result<Option<Line>, FieldError> {
    let mut fields = words(line);
    let first = fields.next();
    if first == Some(b"TIME(s)") {
        return Ok(None);
    }
    let ticks = decimal(first, PLACES, "time")?;
    // A line that was cut off ends with another field, none of which has a point.
    let latency = present(fields.next_back(), "latency")?;
    if !latency.contains(&b'.') {
        return Err(FieldError::field("latency", latency, "has no decimal point"));
    }
    decimal(Some(latency), 0, "latency")?;
    let mut size = fields.next_back();
    if let Some(queued) = size.filter(|field| field.contains(&b'.')) {
        // An I/O that was in no queue has -1.000.
        if decimal(Some(queued.strip_prefix(b"-").unwrap_or(queued)), 0, "").is_err() {
            return Err(FieldError::field("time in the queue", queued, "is not a number such as 1.5"));
        }
        size = fields.next_back();
    }
    let bytes = number(size, "size")?;
    let sector = present(fields.next_back(), "sector")?;
    let word = present(fields.next_back(), "operation")?;
    if !word.iter().all(u8::is_ascii_uppercase) {
        return Err(FieldError::field("operation", word, "is none of biosnoop's"));
    }
    let disk = present(fields.next_back(), "disk")?;
    number(fields.next_back(), "process identifier")?;
    present(fields.next(), "process name")?;
    let Some(kind) = kind_of_rwbs(word).filter(|_| bytes > 0) else { return Ok(None) };
    let offset_bytes = scaled(number(Some(sector), "sector")?, 512)?;
    Ok(Some(Line { ticks, device: disks.number(disk, "disk")?, offset_bytes, bytes, kind }))
}

/// Writes one line. Process and latency are unknown, and written as zero.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put_decimal(out, ticks, PLACES, b" none 0 ");
    put_name(
        out,
        record.device,
        match record.kind {
            Kind::Read => b" R ",
            Kind::Write => b" W ",
            Kind::Trim => b" D ",
        },
    );
    put(out, record.offset_bytes / 512, b" ");
    put(out, record.bytes, b" 0.000\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Line>, FieldError> {
        parse(text.as_bytes(), &mut Names::default())
    }

    // The sector is in blocks and the size in bytes: with one unit for both, every I/O would be 512 times too long or too low.
    #[test]
    fn a_line_of_the_manual_is_read() {
        let text = "0.000004001    supervise      1950   xvda1   W  13092560  4096       0.74";
        let line = read(text).unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (4_001, 0, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (13_092_560 * 512, 4096));
        assert_eq!(read(&text.replace("supervise", "Web Content 3")).unwrap(), Some(line));
        for queued in ["  0.012", " -1.000"] {
            assert_eq!(read(&text.replace("   0.74", &format!("{queued} 0.740"))).unwrap(), Some(line));
        }
        assert_eq!(
            read("TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)"),
            Ok(None)
        );
    }

    // Discards that became reads would keep a drive busy with what it does in no time; flushes have no block.
    #[test]
    fn libbpf_tools_has_more_operations() {
        let kind = |word: &str| {
            read(&format!("1.5 fio 7 nvme0n1 {word} 8 4096 0.010")).unwrap().map(|line| line.kind)
        };
        assert_eq!(
            (kind("RA"), kind("WFS"), kind("DS")),
            (Some(Kind::Read), Some(Kind::Write), Some(Kind::Trim))
        );
        assert_eq!((kind("N"), kind("FF")), (None, None));
        assert_eq!(read("1.5 jbd2/sda-8 7 sda W 18446744073709551615 0 0.91"), Ok(None));
    }

    // Two disks on one device would be laid over each other.
    #[test]
    fn disks_are_devices() {
        let mut disks = Names::default();
        let mut device = |disk: &str| {
            parse(format!("1.5 x 1 {disk} R 8 512 0.1").as_bytes(), &mut disks).unwrap().unwrap().device
        };
        assert_eq!((device("sdb"), device("sda"), device("device-7"), device("sdb")), (0, 1, 7, 0));
    }

    // What is taken for a record although it is cut off, or has a column more, would have the fields of its neighbours.
    #[test]
    fn hostile_lines_are_refused() {
        for (bad, what) in [
            ("", "the time is missing"),
            ("1.5", "the latency is missing"),
            ("x fio 7 sda R 8 512 0.1", "the time `x`"),
            ("-1.5 fio 7 sda R 8 512 0.1", "the time `-1.5`"),
            ("1.5 fio 7 sda R 8 512", "the latency `512` has no decimal point"),
            ("1.5 fio 7 sda R 8 512 0.", "the latency `0.`"),
            ("1.5 fio 7 sda R 8 512 nan", "the latency `nan`"),
            ("1.5 fio 7 sda R 8 512 1.2.3 0.1", "the time in the queue `1.2.3`"),
            ("1.5 fio 7 sda R 8 512 --1.0 0.1", "the time in the queue `--1.0`"),
            ("1.5 fio 7 sda R 8 512 0.1 0.1 0.1", "the size `0.1`"),
            ("1.5 fio 7 sda R 8 -512 0.1", "the size `-512`"),
            ("1.5 fio 7 sda R 8 99999999999999999999 0.1", "the size `99999999999999999999` is too large"),
            ("1.5 fio 7 sda R 36028797018963968 512 0.1", "beyond 2^63"),
            ("1.5 fio 7 sda R 18446744073709551615 512 0.1", "beyond 2^63"),
            ("1.5 fio 7 sda R -1 512 0.1", "the sector `-1`"),
            ("1.5 fio 7 sda r 8 512 0.1", "the operation `r`"),
            ("1.5 fio 7 sda R S 8 512 0.1", "the process identifier `sda`"),
            ("1.5 fio x sda R 8 512 0.1", "the process identifier `x`"),
            ("1.5 7 sda R 8 512 0.1", "the process name is missing"),
            ("1.5 sda R 8 512 0.1", "the process identifier is missing"),
        ] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains(what), "{bad}: {error}");
        }
        let mut bytes = b"1.5 fio 7 sda ".to_vec();
        bytes.extend([0xff, 0, b' ']);
        bytes.extend_from_slice(b"8 512 0.1");
        assert!(parse(&bytes, &mut Names::default()).is_err());
    }
}
