//! The default text output of blkparse: events of the Linux block layer, of which one action is used.
//!
//! | field | what |
//! |---|---|
//! | 1 | device: `major,minor` |
//! | 2, 3 | processor and sequence number |
//! | 4 | time in seconds, a decimal number |
//! | 5 | process identifier |
//! | 6 | action: `Q` queued, `D` issued to the driver, `C` completed, and others |
//! | 7 | RWBS: `R`, `W` or `D` (discard: a trim), `N` none; other flags are ignored |
//! | 8 to 10 | first sector of 512 B, `+`, sectors |
//!
//! Other actions, flushes and the final summaries are skipped without an error, and so are commands that pass through the
//! block layer, which have no sector. The device is `major << 20 | minor`. Source: the manual page blkparse(1), "default
//! output", and its `blkparse_fmt.c`, `process_default`.

use super::field::{FieldError, decimal, number, present, put, put_decimal, scaled, words};
use super::spec::{Action, Line, Spec, device_of, put_device};
use crate::record::{Kind, Record};

const PLACES: u32 = 9;

pub(super) const SPEC: Spec = Spec {
    name: "blkparse",
    shape: "major,minor cpu sequence time_s pid action rwbs sector + sectors [process]",
    assumption: "blkparse's default text, times in s, sectors of 512 B, device = major << 20 | minor",
    tick_ps: 1_000,
    offset_unit: 512,
    size_unit: 512,
    trims: true,
    ..Spec::TEXT
};

/// Reads one line; `None` if it is not an I/O with this action.
pub(super) fn parse(line: &[u8], wanted: Action) -> Result<Option<Line>, FieldError> {
    let mut fields = words(line);
    let Some((major, minor)) = fields.next().and_then(pair) else {
        // Summaries are sentences with a colon.
        return if line.contains(&b':') {
            Ok(None)
        } else {
            Err(FieldError::new("it begins with no device such as 8,0"))
        };
    };
    number(fields.next(), "processor")?;
    number(fields.next(), "sequence number")?;
    let ticks = decimal(fields.next(), PLACES, "time")?;
    number(fields.next(), "process identifier")?;
    let action = present(fields.next(), "action")?;
    if !(1..=3).contains(&action.len()) || !action.iter().all(u8::is_ascii_alphabetic) {
        return Err(FieldError::field("action", action, "is none of blkparse's"));
    }
    if action != wanted.letter().as_bytes() {
        return Ok(None);
    }
    let rwbs = present(fields.next(), "RWBS")?;
    let Some(kind) = kind_of_rwbs(rwbs) else {
        return if rwbs.iter().all(u8::is_ascii_uppercase) {
            Ok(None)
        } else {
            Err(FieldError::field("RWBS", rwbs, "is none of blkparse's"))
        };
    };
    let device = device_of(major, minor)?;
    // A flush has no sector, or no length; a command that passes through has its length and its bytes.
    let is_aside = |field: &[u8]| field.starts_with(b"[") || field.starts_with(b"(");
    let Some(sector) = fields.next().filter(|field| !is_aside(field)) else { return Ok(None) };
    let sector = number(Some(sector), "sector")?;
    let plus = present(fields.next(), "`+` before the length")?;
    if is_aside(plus) {
        return Ok(None);
    }
    if plus != b"+" {
        return Err(FieldError::field("word", plus, "stands where `+` should"));
    }
    let sectors = number(fields.next(), "length")?;
    if sectors == 0 {
        // A flush without data.
        return Ok(None);
    }
    Ok(Some(Line { ticks, device, offset_bytes: scaled(sector, 512)?, bytes: scaled(sectors, 512)?, kind }))
}

/// The kind of an event by its RWBS flags; `None` if it moves no data.
pub(super) fn kind_of_rwbs(rwbs: &[u8]) -> Option<Kind> {
    // Zone open, close and reset (Z with R, O, C or F) and write zeroes (W with Z) carry no data; only a zone
    // append (Z with A) does.
    let zeroes_or_zone = rwbs.contains(&b'Z') && !rwbs.contains(&b'A');
    rwbs.iter().filter(|_| !zeroes_or_zone).find_map(|byte| match byte {
        b'R' => Some(Kind::Read),
        b'W' | b'Z' => Some(Kind::Write),
        b'D' => Some(Kind::Trim),
        _ => None,
    })
}

/// The action to use for a text that begins with these lines, if the user names none: the first of Q, D and C
/// that occurs there. A trace taken with a filter (`blktrace -a`) has only some of them.
pub(super) fn action_of<'a>(lines: impl Iterator<Item = &'a [u8]> + Clone) -> Action {
    let has = |action: &Action| lines.clone().any(|line| matches!(parse(line, *action), Ok(Some(_))));
    [Action::Q, Action::D, Action::C].into_iter().find(has).unwrap_or_default()
}

/// Whether a line is a blkparse event, with any action.
pub(super) fn votes(line: &[u8]) -> bool {
    let mut fields = words(line);
    fields.next().and_then(pair).is_some()
        && number(fields.next(), "").is_ok()
        && number(fields.next(), "").is_ok()
        && decimal(fields.next(), PLACES, "").is_ok()
        && number(fields.next(), "").is_ok()
        && fields.next().is_some_and(|action| action.len() <= 3 && action.iter().all(u8::is_ascii_alphabetic))
}

/// "8,0"
fn pair(field: &[u8]) -> Option<(u64, u64)> {
    let comma = field.iter().position(|byte| *byte == b',')?;
    Some((number(Some(&field[..comma]), "").ok()?, number(Some(&field[comma + 1..]), "").ok()?))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64, sequence: u64, action: Action) {
    put_device(out, record.device, b",", b" 0 ");
    put(out, sequence, b" ");
    put_decimal(out, ticks, PLACES, b" 0 ");
    out.extend_from_slice(action.letter().as_bytes());
    out.extend_from_slice(match record.kind {
        Kind::Read => b" R ",
        Kind::Write => b" W ",
        Kind::Trim => b" D ",
    });
    put(out, record.offset_bytes / 512, b" + ");
    put(out, record.bytes / 512, b" [none]\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Flushes and pass-through commands have no sector: an error there would refuse the trace of any file system.
    #[test]
    fn every_shape_that_blkparse_prints_is_read() {
        // `process_default` prints each of these after the RWBS, with `-t` also the time since the event before.
        let asides = ["[jbd2/nvme0n1-8]", "[0]", "[my prog (x) + 1]", "[]", "[a] b]"];
        for action in [Action::Q, Action::D, Action::C] {
            let letter = action.letter();
            let read = |rwbs: &str, rest: &str| {
                let line = format!("259,0    1   12     1.000030000   812  {letter} {rwbs:>3} {rest}");
                parse(line.trim_end().as_bytes(), action).map_err(|error| format!("{line}: {error}"))
            };
            for aside in asides {
                for rwbs in ["FWS", "FN", "N", "WS", "R", "D", "FWFS"] {
                    for before in
                        ["", "0 ", "(      50) ", "0 (      50) ", "0 + 0 ", "36 (5a 00 ..) ", "(00 ..) "]
                    {
                        assert_eq!(read(rwbs, &format!("{before}{aside}")), Ok(None), "{before}{aside}");
                    }
                }
                for (rwbs, kind) in
                    [("R", Kind::Read), ("RA", Kind::Read), ("FWFS", Kind::Write), ("DS", Kind::Trim)]
                {
                    for between in ["", "(    1234) "] {
                        let line = read(rwbs, &format!("2048 + 8 {between}{aside}")).unwrap().unwrap();
                        assert_eq!((line.offset_bytes, line.bytes, line.kind), (2048 * 512, 4096, kind));
                    }
                }
            }
            for bad in ["x + 8 [a]", "8 8 [a]", "8 / 16 [a]", "8 + [a]", "-8 + 8 [a]"] {
                assert!(read("W", bad).is_err(), "{bad}");
            }
        }
    }

    // Each I/O appears once for each step: using all steps would replay it five times.
    #[test]
    fn one_action_is_taken_and_the_rest_is_no_mistake() {
        let read = |text: &str| parse(text.as_bytes(), Action::Q);
        let line =
            read("  8,16   3        1     0.000000042   697  Q   W 223490 + 8 [kjournald]").unwrap().unwrap();
        assert_eq!((line.ticks, line.device, line.kind), (42, (8 << 20) | 16, Kind::Write));
        assert_eq!((line.offset_bytes, line.bytes), (223_490 * 512, 4096));
        assert_eq!(read("8,0 3 2 0.1 697 Q DS 8 + 8 [fstrim]").unwrap().unwrap().kind, Kind::Trim);
        assert_eq!(read("8,0 3 2 0.1 697 Q RA 8 + 8 [cat]").unwrap().unwrap().kind, Kind::Read);
        assert_eq!(read("8,0 3 2 0.1 697 Q FWS 8 + 8 [x]").unwrap().unwrap().kind, Kind::Write);
        assert_eq!(read("259,0 1 7 0.1 9 Q ZA 0 + 8 [x]").unwrap().unwrap().kind, Kind::Write);
        for other in [
            "259,0 1 7 0.1 9 Q ZR 0 + 524288 [x]",
            "259,0 1 7 0.1 9 Q WZS 0 + 8 [x]",
            "8,0 3 2 0.000001829 697 G W 223490 + 8 [kjournald]",
            "8,0 3 4 0.000006980 697 P N [kjournald]",
            "8,0 3 4 0.000006980 697 Q N [kjournald]",
            "8,0 3 4 0.000006980 697 Q FWS 0 + 0 [kjournald]",
            "8,0 1 9 0.5 0 C W 223490 + 8 [0]",
            "8,1 1 9 0.5 0 A R 8 + 8 <- (8,1) 0",
            "8,0 0 9 0.5 0 m N cfq102 insert",
            "CPU0 (8,0):",
            " Reads Queued:           1,        4KiB\t Writes Queued:           2,        8KiB",
            "Total (8,0):",
            "Throughput (R/W): 0KiB/s / 9KiB/s",
        ] {
            assert_eq!(read(other), Ok(None), "{other}");
        }
        let completed = parse(b"8,0 1 9 0.5 0 C W 223490 + 8 [0]", Action::C).unwrap();
        assert!(completed.is_some());
        for bad in
            ["8,0 3 1 0.0 697 Q W 223490 8", "hello", "8,0 3 1 x 697 Q W 8 + 8", "8,0 3 1 0.0 697 Q W x + 8"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(votes(b"8,0 3 4 0.000006980 697 P N [kjournald]") && !votes(b"Total (8,0):"));
    }
}
