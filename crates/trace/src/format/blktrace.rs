//! blktrace's binary format: events of the Linux block layer, of which one action is used. Each event is a header of 48
//! bytes in the byte order of the traced machine, and a payload.
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 3 | magic 0x656174 and version 7 |
//! | 4 to 7 | sequence number |
//! | 8 to 15 | time in nanoseconds |
//! | 16 to 23 | first sector of 512 B |
//! | 24 to 27 | length in bytes |
//! | 28 to 31 | action (low half) and categories (high half) |
//! | 32 to 35 | process identifier |
//! | 36 to 39 | device: `major << 20 \| minor` |
//! | 40 to 43 | processor |
//! | 44 to 45 | error of a completion |
//! | 46 to 47 | length of the payload, which is skipped |
//!
//! Notes, pass-through commands and events without data, such as flushes, are skipped. blktrace writes a file for each
//! processor, with its events only; `blkparse -d` merges them. Source: `linux/blktrace_api.h`; the direction as in
//! blkparse's `fill_rwbs`.

use super::field::{FieldError, scaled};
use super::spec::{Action, Line, Spec};
use crate::record::{Kind, Record};

const HEADER_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Marks an event whose payload begins with a control group.
const CGROUP: u32 = 1 << 8;

// Categories.
const WRITE: u32 = 1 << 17;
const PASS_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

pub(super) const SPEC: Spec = Spec {
    name: "blktrace",
    shape: "u32 magic 0x65617407, u32 sequence, u64 time_ns, u64 sector, u32 bytes, u32 action, u32 pid, u32 device, u32 cpu, u16 error, u16 payload_bytes",
    assumption: "blktrace's binary format, times in ns, sectors of 512 B, device = major << 20 | minor, only the events of the processors in the file (blkparse -i NAME -d FILE merges them)",
    tick_ps: 1_000,
    offset_unit: 512,
    bytes_max: u32::MAX as u64,
    trims: true,
    record_bytes: Some(HEADER_BYTES),
    ..Spec::TEXT
};

/// A header in one of the byte orders.
struct Header<'a> {
    bytes: &'a [u8],
    is_big_endian: bool,
}

impl<'a> Header<'a> {
    /// A header of any version; `None` without the magic number.
    fn of(bytes: &'a [u8]) -> Option<Header<'a>> {
        bytes.get(..HEADER_BYTES)?;
        [false, true]
            .map(|is_big_endian| Header { bytes, is_big_endian })
            .into_iter()
            .find(|header| header.word(0) & !0xff == MAGIC)
    }

    /// An unsigned integer of `N` bytes at an offset.
    fn number<const N: usize>(&self, at: usize) -> u64 {
        let digits = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let bytes = &self.bytes[at..at + N];
        match self.is_big_endian {
            true => bytes.iter().fold(0, digits),
            false => bytes.iter().rev().fold(0, digits),
        }
    }

    fn word(&self, at: usize) -> u32 {
        self.number::<4>(at) as u32
    }
}

/// Whether a file begins with a header, of any version.
pub(super) fn begins(head: &[u8]) -> bool {
    Header::of(head).is_some()
}

/// Bytes that follow this header.
pub(super) fn payload_bytes(record: &[u8]) -> usize {
    Header::of(record).map_or(0, |header| header.number::<2>(46) as usize)
}

/// Reads one header; `None` if it is not an I/O with this action.
pub(super) fn parse(record: &[u8], wanted: Action) -> Result<Option<Line>, FieldError> {
    let Some(header) = Header::of(record) else {
        return Err(FieldError::new("it does not begin with blktrace's magic number 0x65617407"));
    };
    let version = header.word(0) & 0xff;
    if version != VERSION {
        let what = format!("it has version {version} of blktrace's format, and {VERSION} is read");
        return Err(FieldError::new(what));
    }
    let (bytes, action) = (header.word(24), header.word(28));
    if action & (NOTIFY | PASS_THROUGH) != 0 || bytes == 0 || action & 0xffff & !CGROUP != code(wanted) {
        return Ok(None);
    }
    let kind = match action {
        _ if action & DISCARD != 0 => Kind::Trim,
        _ if action & WRITE != 0 => Kind::Write,
        _ => Kind::Read,
    };
    Ok(Some(Line {
        ticks: header.number::<8>(8),
        device: header.word(36),
        offset_bytes: scaled(header.number::<8>(16), 512)?,
        bytes: u64::from(bytes),
        kind,
    }))
}

/// The number of an action, `__BLK_TA_...`.
fn code(action: Action) -> u32 {
    match action {
        Action::Q => 1,
        Action::D => 7,
        Action::C => 8,
    }
}

/// The action to use for a file that begins so, if the user names none, as for blkparse's text.
pub(super) fn action_of(head: &[u8]) -> Action {
    let has = |action: &Action| {
        let mut rest = head;
        while rest.len() >= HEADER_BYTES {
            if matches!(parse(rest, *action), Ok(Some(_))) {
                return true;
            }
            rest = rest.get(HEADER_BYTES + payload_bytes(rest)..).unwrap_or_default();
        }
        false
    };
    [Action::Q, Action::D, Action::C].into_iter().find(has).unwrap_or_default()
}

/// Writes one event, of an I/O that is queued.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64, sequence: u64) {
    let category = match record.kind {
        Kind::Read => 1 << 16,
        Kind::Write => WRITE,
        Kind::Trim => DISCARD | WRITE,
    };
    out.extend_from_slice(&(MAGIC | VERSION).to_le_bytes());
    out.extend_from_slice(&(sequence as u32).to_le_bytes());
    out.extend_from_slice(&ticks.to_le_bytes());
    out.extend_from_slice(&(record.offset_bytes / 512).to_le_bytes());
    out.extend_from_slice(&(record.bytes as u32).to_le_bytes());
    out.extend_from_slice(&(category | code(Action::Q)).to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&record.device.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event as the kernel lays it out, with a payload.
    fn event(action: u32, sector: u64, bytes: u32, payload: &[u8], is_big_endian: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |number: u64, bytes: usize| match is_big_endian {
            true => out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]),
            false => out.extend_from_slice(&number.to_le_bytes()[..bytes]),
        };
        let length = payload.len() as u64;
        for (number, bytes) in [
            (0x6561_7407, 4),
            (1, 4),
            (42, 8),
            (sector, 8),
            (u64::from(bytes), 4),
            (u64::from(action), 4),
            (4711, 4),
            (259 << 20 | 3, 4),
            (1, 4),
            (0, 2),
            (length, 2),
        ] {
            put(number, bytes);
        }
        out.extend_from_slice(payload);
        out
    }

    // The traced machine decides the byte order; only one action of an I/O is that I/O.
    #[test]
    fn both_byte_orders_and_every_kind_of_event_are_told_apart() {
        const READ: u32 = 1 << 16;
        const FLUSH: u32 = 1 << 18;
        for is_big_endian in [false, true] {
            let read = |action: u32, bytes: u32| {
                let event = event(action, 8, bytes, b"abc", is_big_endian);
                assert!(begins(&event) && payload_bytes(&event) == 3);
                parse(&event, Action::Q).unwrap()
            };
            let line =
                Line { ticks: 42, device: 259 << 20 | 3, offset_bytes: 4096, bytes: 512, kind: Kind::Read };
            assert_eq!(read(READ | 1, 512), Some(line));
            assert_eq!(read(READ | CGROUP | 1, 512), Some(line));
            assert_eq!(read(WRITE | 1, 512), Some(Line { kind: Kind::Write, ..line }));
            assert_eq!(read(WRITE | FLUSH | 1, 512), Some(Line { kind: Kind::Write, ..line }));
            assert_eq!(read(DISCARD | WRITE | 1, 512), Some(Line { kind: Kind::Trim, ..line }));
            for (action, bytes) in [(WRITE | FLUSH | 1, 0), (NOTIFY | 1, 512), (PASS_THROUGH | READ | 1, 36)]
            {
                assert_eq!(read(action, bytes), None, "{action:x}");
            }
            for other in (0..32).filter(|code| *code != 1) {
                assert_eq!(read(READ | other, 512), None, "{other}");
            }
            let completed = event(READ | 8, 8, 512, b"", is_big_endian);
            assert_eq!(parse(&completed, Action::C), Ok(Some(line)));
            let mut several = event(NOTIFY, 0, 0, b"dd", is_big_endian);
            several.extend(completed);
            assert_eq!(action_of(&several), Action::C);
            several.extend(event(READ | 7, 8, 512, b"", is_big_endian));
            assert_eq!(action_of(&several), Action::D);
        }
    }

    // A later version may have other fields at the same places.
    #[test]
    fn another_version_and_other_bytes_are_refused_by_name() {
        let mut later = event(1 << 16 | 1, 8, 512, b"", false);
        later[0] = 8;
        assert!(begins(&later));
        assert!(parse(&later, Action::Q).unwrap_err().to_string().contains("version 8"));
        assert!(parse(&[0; HEADER_BYTES], Action::Q).unwrap_err().to_string().contains("0x65617407"));
        assert!(!begins(b"\x07tae") && payload_bytes(&[0xff; HEADER_BYTES]) == 0);
        assert!(parse(&event(1 << 16 | 1, u64::MAX, 512, b"", true), Action::Q).is_err());
    }
}
