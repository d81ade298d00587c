//! fio's I/O logs, versions 2 and 3: a header line with the version, then actions on files.
//!
//! | version | line | what |
//! |---|---|---|
//! | 2 | `file add`, `open`, `close` | no I/O |
//! | 2 | `file read`, `write`, `trim` `offset length` | in bytes |
//! | 2 | `file wait offset length` | wait `offset` microseconds after the previous wait |
//! | 3 | the same after a time in microseconds | a `wait` is ignored |
//!
//! `sync` and `datasync` move no data and are skipped. Files are devices, numbered from 0 in order of
//! appearance; a file `device-7`, as written here, is device 7.
//!
//! Source: fio's manual, "Trace file format", and `iolog.c`, where the times of version 3 are microseconds.
//! For version 2, `iolog.c` compares a `wait` with milliseconds since the start; this parser follows the
//! manual.

use rustc_hash::FxHashSet;

use super::field::{FieldError, number, present, put, words};
use super::names::{Names, put_name};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};

pub(super) const SPEC_2: Spec = Spec {
    name: "iolog2",
    shape: "file read|write|trim|wait offset_bytes length_bytes",
    assumption: "fio iolog version 2, offsets and lengths in bytes, waits in us since the wait before, files as devices",
    tick_ps: 1_000_000,
    trims: true,
    header: b"fio version 2 iolog\n",
    ..Spec::TEXT
};

pub(super) const SPEC_3: Spec = Spec {
    name: "iolog3",
    shape: "time_us file read|write|trim offset_bytes length_bytes",
    assumption: "fio iolog version 3, times in us, offsets and lengths in bytes, files as devices",
    header: b"fio version 3 iolog\n",
    ..SPEC_2
};

/// State of the parser between lines.
#[derive(Default)]
pub(super) struct Log {
    files: Names,
    waited_us: u64,
}

/// The version in a file's header line.
pub(super) fn version(line: &[u8]) -> Option<u8> {
    match line.strip_prefix(b"fio version ")?.strip_suffix(b" iolog")? {
        b"2" => Some(2),
        b"3" => Some(3),
        _ => None,
    }
}

impl Log {
    /// Reads one line of this version; `None` if it is not an I/O.
    pub(super) fn parse(&mut self, line: &[u8], expected: u8) -> Result<Option<Line>, FieldError> {
        if line.starts_with(b"fio version ") {
            return match version(line) {
                Some(found) if found == expected => Ok(None),
                _ => Err(FieldError::new(format!("the log is read as version {expected}"))),
            };
        }
        let mut fields = words(line);
        let mut ticks = self.waited_us;
        if expected == 3 {
            ticks = number(fields.next(), "time")?;
        }
        let file = present(fields.next(), "file")?;
        let action = present(fields.next(), "action")?;
        let kind = match action {
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            b"wait" if expected == 2 => {
                let wait = number(fields.next(), "wait")?;
                self.waited_us = self
                    .waited_us
                    .checked_add(wait)
                    .ok_or_else(|| FieldError::new("the waits are too long"))?;
                return Ok(None);
            }
            b"add" | b"open" | b"close" => {
                self.files.number(file, "file")?;
                return Ok(None);
            }
            b"sync" | b"datasync" | b"sync_file_range" | b"wait" | b"unlink" => return Ok(None),
            other => return Err(FieldError::field("action", other, "is none of fio's")),
        };
        let offset_bytes = number(fields.next(), "offset")?;
        let bytes = number(fields.next(), "length")?;
        super::field::nothing(fields, if expected == 3 { "five" } else { "four" })?;
        Ok(Some(Line { ticks, device: self.files.number(file, "file")?, offset_bytes, bytes, kind }))
    }
}

/// State of the writer between lines.
#[derive(Default)]
pub(super) struct Pen {
    added: FxHashSet<u32>,
    last_us: u64,
}

impl Pen {
    /// Writes one record, preceded by the lines that it requires.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, record: &Record, ticks: u64, version: u8) {
        let timed = version == 3;
        let begin = |out: &mut Vec<u8>| {
            if timed {
                put(out, ticks, b" ");
            }
        };
        let device = record.device;
        if self.added.insert(record.device) {
            for action in [&b" add\n"[..], b" open\n"] {
                begin(out);
                put_name(out, device, action);
            }
        }
        if !timed && ticks > self.last_us {
            begin(out);
            put_name(out, device, b" wait ");
            put(out, ticks - self.last_us, b" 0\n");
            self.last_us = ticks;
        }
        begin(out);
        put_name(
            out,
            device,
            match record.kind {
                Kind::Read => b" read ",
                Kind::Write => b" write ",
                Kind::Trim => b" trim ",
            },
        );
        put(out, record.offset_bytes, b" ");
        put(out, record.bytes, b"\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without the waits every I/O of a version 2 log would be due at once.
    #[test]
    fn waits_add_up_and_files_are_devices() {
        let mut log = Log::default();
        let mut read = |text: &str| log.parse(text.as_bytes(), 2).unwrap();
        assert_eq!(read("fio version 2 iolog"), None);
        assert_eq!(read("/dev/sdb add"), None);
        assert_eq!(read("/dev/sda wait 100 0"), None);
        assert_eq!(read("/dev/sda sync 0 0"), None);
        assert_eq!(read("/dev/sda wait 50 0"), None);
        let line = read("/dev/sda trim 4096 8192").unwrap();
        assert_eq!(line, Line { ticks: 150, device: 1, offset_bytes: 4096, bytes: 8192, kind: Kind::Trim });
        assert_eq!(read("/dev/sdb read 0 512").unwrap().device, 0);
        assert_eq!(read("device-7 write 0 512").unwrap().device, 7);
        for bad in [
            "/dev/sda raed 0 512",
            "/dev/sda",
            "/dev/sda read 0",
            "/dev/sda read 0 512 9",
            "fio version 3 iolog",
        ] {
            assert!(log.parse(bad.as_bytes(), 2).is_err(), "{bad}");
        }
    }

    // Version 3 has explicit times, so a wait would count twice.
    #[test]
    fn version_three_has_times() {
        let mut log = Log::default();
        let mut read = |text: &str| log.parse(text.as_bytes(), 3).unwrap();
        assert_eq!(read("0 /dev/sda open"), None);
        assert_eq!(read("5 /dev/sda wait 100 0"), None);
        assert_eq!(read("17 /dev/sda write 512 512").unwrap().ticks, 17);
        assert!(log.parse(b"/dev/sda write 512 512", 3).is_err());
    }
}
