//! vscsi, the binary format of VMware's virtual SCSI tracer and of CloudPhysics' traces: little-endian records.
//!
//! | version 1: 32 bytes | version 2: 40 bytes | what |
//! |---|---|---|
//! | 0 to 3 | 4 to 7 | sequence number |
//! | 4 to 7 | 8 to 11 | length in bytes |
//! | 8 to 11 | 12 to 15 | scatter-gather elements |
//! | 12, 13 | 0, 1 | SCSI operation code |
//! | 14, 15 | 2, 3 | version, in the upper byte |
//! | 16 to 23 | 16 to 23 | first block of 512 B |
//! | 24 to 31 | 24 to 31 | time in microseconds |
//! | | 32 to 39 | response time in microseconds |
//!
//! READ and WRITE of 6, 10, 12 and 16 bytes are records; other commands transfer no data blocks and are
//! skipped (UNMAP has its ranges in its payload, which is not traced). Source: libCacheSim's reader and the
//! tool of Waldspurger et al. (FAST 2015) for the layout and the position of the version; both treat lengths
//! as bytes and times as microseconds.

use super::field::{FieldError, le};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

pub(super) const SPEC_1: Spec = Spec {
    name: "vscsi1",
    shape: "u32 sn, u32 length, u32 sg, u16 command, u16 version, u64 lbn512, u64 time_us",
    assumption: "vscsi version 1, times in us, blocks of 512 B, lengths in bytes",
    tick_ps: 1_000_000,
    offset_unit: 512,
    bytes_max: u32::MAX as u64,
    devices: false,
    record_bytes: Some(32),
    ..Spec::TEXT
};

pub(super) const SPEC_2: Spec = Spec {
    name: "vscsi2",
    shape: "u16 command, u16 version, u32 sn, u32 length, u32 sg, u64 lbn512, u64 time_us, u64 response_us",
    assumption: "vscsi version 2, times in us, blocks of 512 B, lengths in bytes",
    record_bytes: Some(40),
    ..SPEC_1
};

const READS: [u8; 4] = [0x08, 0x28, 0xa8, 0x88];
const WRITES: [u8; 4] = [0x0a, 0x2a, 0xaa, 0x8a];

/// The kind of a SCSI operation code; `None` if it neither reads nor writes.
pub(super) fn kind_of(code: u8) -> Option<Kind> {
    match code {
        code if READS.contains(&code) => Some(Kind::Read),
        code if WRITES.contains(&code) => Some(Kind::Write),
        _ => None,
    }
}

/// Offsets of operation code, version and length.
fn places(version: u8) -> (usize, usize, usize) {
    if version == 1 { (12, 14, 4) } else { (0, 2, 8) }
}

/// Reads one record; `None` if it is not a READ or WRITE.
pub(super) fn parse(record: &[u8], version: u8) -> Result<Option<Line>, FieldError> {
    let (command, at, length) = places(version);
    if record[at + 1] != version {
        return Err(FieldError::new(format!("its version is {}, not {version}", record[at + 1])));
    }
    let Some(kind) = kind_of(record[command]) else { return Ok(None) };
    let bytes = u64::from(u32::from_le_bytes(le(record, length)));
    if bytes == 0 {
        // A READ or WRITE of zero blocks is legal, and transfers nothing.
        return Ok(None);
    }
    let block = u64::from_le_bytes(le(record, 16));
    Ok(Some(Line {
        ticks: u64::from_le_bytes(le(record, 24)),
        device: 0,
        offset_bytes: super::field::scaled(block, 512)?,
        bytes,
        kind,
    }))
}

/// The time of a record, if it is plausible after a record at time `latest`. Records are in order of
/// completion or issue, so times may decrease, but by at most a minute.
pub(super) fn plausible(record: &[u8], version: u8, latest: u64) -> Option<u64> {
    let (command, at, _) = places(version);
    let ticks = u64::from_le_bytes(le(record, 24));
    let parsed = parse(record, version).is_ok();
    // Operation codes have no upper byte.
    (parsed
        && record[at + 1] == version
        && record[command + 1] == 0
        && ticks.saturating_add(60_000_000) >= latest)
        .then_some(ticks.max(latest))
}

/// Writes one record.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64, sequence: u64, version: u8) {
    let command = [if record.kind == Kind::Read { 0x88 } else { 0x8a }, 0, 0, version];
    if version == 2 {
        out.extend_from_slice(&command);
    }
    out.extend_from_slice(&(sequence as u32).to_le_bytes());
    out.extend_from_slice(&(record.bytes as u32).to_le_bytes());
    out.extend_from_slice(&1u32.to_le_bytes());
    if version == 1 {
        out.extend_from_slice(&command);
    }
    out.extend_from_slice(&(record.offset_bytes / 512).to_le_bytes());
    out.extend_from_slice(&ticks.to_le_bytes());
    if version == 2 {
        out.extend_from_slice(&0u64.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The field order differs between the two versions.
    #[test]
    fn both_layouts_are_read() {
        let record = Record { time_ps: 0, device: 0, offset_bytes: 3 * 512, bytes: 4096, kind: Kind::Write };
        for (version, length) in [(1, 32), (2, 40)] {
            let mut bytes = Vec::new();
            write(&mut bytes, &record, 9, 1, version);
            assert_eq!(bytes.len(), length);
            let line = parse(&bytes, version).unwrap().unwrap();
            assert_eq!(
                line,
                Line { ticks: 9, device: 0, offset_bytes: 1536, bytes: 4096, kind: Kind::Write }
            );
            assert_eq!(plausible(&bytes, version, 5), Some(9));
            assert!(parse(&bytes, 3 - version).is_err());
            let (command, at, _) = places(version);
            bytes[command] = 0x12;
            assert_eq!(parse(&bytes, version), Ok(None));
            bytes[at + 1] = 7;
            assert!(parse(&bytes, version).is_err());
        }
    }
}
