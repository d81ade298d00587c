//! The CSV format of CloudPhysics' virtual SCSI traces, which also exist as binary `vscsi`.
//!
//! | column | what |
//! |---|---|
//! | 1 | version of the record, 1 or 2 |
//! | 2 | time in seconds |
//! | 3 | SCSI operation code, hexadecimal: `28` is READ (10), `2a` WRITE (10) |
//! | 4 | size in bytes |
//! | 5 | first block of 512 B |
//!
//! Files begin with the header `version,time,op,size,lbn`. Operation codes other than READ and WRITE transfer
//! no data blocks and are skipped. Source: libCacheSim's sample, which exists as CSV and as `vscsi`: its
//! times are those of the binary trace in whole seconds. Decimals are read to the microsecond, the resolution
//! of `vscsi`.

use super::field::{FieldError, columns, decimal, nothing, number, present, put, put_decimal, scaled};
use super::spec::{Line, Spec};
use super::vscsi;
use crate::record::{Kind, Record};

const PLACES: u32 = 6;

pub(super) const SPEC: Spec = Spec {
    name: "cloudphysics",
    shape: "version,time_s,scsi_opcode_hex,size_bytes,lbn512",
    assumption: "CloudPhysics CSV, times in s, SCSI operation codes, sizes in bytes, blocks of 512 B",
    tick_ps: 1_000_000,
    offset_unit: 512,
    devices: false,
    header: b"version,time,op,size,lbn\n",
    ..Spec::TEXT
};

/// Reads one line; `None` for the header, and for commands that neither read nor write.
pub(super) fn parse(line: &[u8]) -> Result<Option<Line>, FieldError> {
    let mut fields = columns(line);
    let version = present(fields.next(), "version")?;
    if version.eq_ignore_ascii_case(b"version") {
        return Ok(None);
    }
    if !matches!(version, b"1" | b"2") {
        return Err(FieldError::field("version", version, "is neither 1 nor 2"));
    }
    let ticks = decimal(fields.next(), PLACES, "time")?;
    let word = present(fields.next(), "operation code")?;
    let text = std::str::from_utf8(word).ok().map(|text| text.strip_prefix("0x").unwrap_or(text));
    let code = text
        .filter(|text| !text.starts_with('+'))
        .and_then(|text| u8::from_str_radix(text, 16).ok())
        .ok_or_else(|| FieldError::field("operation code", word, "is none of SCSI's, such as 28 or 2a"))?;
    let bytes = number(fields.next(), "size")?;
    let block = number(fields.next(), "block address")?;
    nothing(fields, "five")?;
    let Some(kind) = vscsi::kind_of(code) else { return Ok(None) };
    Ok(Some(Line { ticks, device: 0, offset_bytes: scaled(block, 512)?, bytes, kind }))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    out.extend_from_slice(b"1,");
    put_decimal(out, ticks, PLACES, if record.kind == Kind::Read { b",28," } else { b",2a," });
    put(out, record.bytes, b",");
    put(out, record.offset_bytes / 512, b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Hexadecimal codes without letters look like decimal numbers; 28 is a read, and 1c is neither a read nor
    // a write.
    #[test]
    fn a_line_of_the_sample_is_read() {
        let line = parse(b"1,5633898,2a,6656,40409911").unwrap().unwrap();
        assert_eq!((line.ticks, line.kind), (5_633_898_000_000, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (40_409_911 * 512, 6656));
        assert_eq!(parse(b"2,1.25,28,512,8").unwrap().unwrap().kind, Kind::Read);
        assert_eq!(parse(b"version,time,op,size,lbn"), Ok(None));
        assert_eq!(parse(b"1,7,1c,512,8"), Ok(None));
        for bad in ["3,7,28,512,8", "1,7,read,512,8", "1,7,+8,512,8", "1,7,28,512", "1,7,28,512,8,9"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
