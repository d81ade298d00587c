//! oracleGeneral, the binary format of libCacheSim: records of 24 bytes, little-endian, without padding.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | time in seconds |
//! | 4 to 11 | object |
//! | 12 to 15 | size in bytes |
//! | 16 to 23 | index of the next access to the object, signed; -1 (or the largest) for none |
//!
//! This is a format for caches. It has no direction, so every record is a read, and no address. The object
//! identifier is taken as the number of a 4 KiB unit, modulo 2^50: objects with consecutive identifiers are
//! then adjacent on the drive, and objects larger than 4 KiB overlap the next. Source: libCacheSim's
//! documentation, `oracleGeneral`.

use super::field::{FieldError, le};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

const UNIT: u64 = 4096;
const OBJECTS: u64 = 1 << 50;

pub(super) const SPEC: Spec = Spec {
    name: "oraclegeneral",
    shape: "u32 time_s, u64 object, u32 size_bytes, i64 next_access",
    assumption: "oracleGeneral format, times in whole seconds, every access a read, object number x 4 KiB as its offset",
    tick_ps: 1_000_000_000_000,
    offset_unit: UNIT,
    bytes_max: u32::MAX as u64,
    offset_end: OBJECTS * UNIT,
    ticks_max: u32::MAX as u64,
    devices: false,
    writes: false,
    record_bytes: Some(24),
    ..Spec::TEXT
};

/// Reads one record.
pub(super) fn parse(record: &[u8]) -> Result<Option<Line>, FieldError> {
    let object = u64::from_le_bytes(le(record, 4));
    Ok(Some(Line {
        ticks: u64::from(u32::from_le_bytes(le(record, 0))),
        device: 0,
        offset_bytes: object % OBJECTS * UNIT,
        bytes: u64::from(u32::from_le_bytes(le(record, 12))),
        kind: Kind::Read,
    }))
}

/// The time of the record at an index, if it is plausible after a record at time `latest`: times do not
/// decrease, and the next access is later.
pub(super) fn plausible(record: &[u8], index: u64, latest: u64) -> Option<u64> {
    let line = parse(record).ok().flatten()?;
    let next = i64::from_le_bytes(le(record, 16));
    let later = next == -1 || u64::try_from(next).is_ok_and(|next| next > index);
    (later && line.bytes > 0 && line.ticks >= latest).then_some(line.ticks)
}

/// Writes one record. Its next access is unknown, and written as none.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    out.extend_from_slice(&(ticks as u32).to_le_bytes());
    out.extend_from_slice(&(record.offset_bytes / UNIT).to_le_bytes());
    out.extend_from_slice(&(record.bytes as u32).to_le_bytes());
    out.extend_from_slice(&(-1i64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    // The fields are unaligned: with the padding of a C struct every object would be another.
    #[test]
    fn the_layout_has_no_padding() {
        let mut record = [0; 24];
        record[0] = 7;
        record[4] = 5;
        record[12..14].copy_from_slice(&[0, 2]);
        record[16..].fill(0xff);
        let line = parse(&record).unwrap().unwrap();
        assert_eq!(line, Line { ticks: 7, device: 0, offset_bytes: 5 * 4096, bytes: 512, kind: Kind::Read });
        assert_eq!(plausible(&record, 3, 7), Some(7));
        assert_eq!(plausible(&record, 3, 8), None);
        record[16..].copy_from_slice(&3i64.to_le_bytes());
        assert_eq!((plausible(&record, 3, 0), plausible(&record, 2, 0)), (None, Some(7)));
        record[4..12].fill(0xff);
        assert!(parse(&record).unwrap().unwrap().offset_bytes < 1 << 62);
    }
}
