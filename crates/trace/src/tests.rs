//! Properties that every reader has, for any input.

use std::io::Cursor;

use super::format::Format;
use super::*;
use byteway_text::error::InputError;

fn reader(text: impl Into<Vec<u8>>, skip_bad_lines: bool) -> Result<Reader, InputError> {
    let options = ReadOptions { skip_bad_lines, ..ReadOptions::default() };
    Reader::new(Cursor::new(text.into()), "t.trace".to_owned(), &options)
}

fn all(reader: &mut Reader) -> Result<Vec<Record>, InputError> {
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok(records)
}

// The formats differ only in their digits; a wrong guess would silently replay nonsense.
#[test]
fn the_first_record_tells_the_format() {
    assert_eq!(reader("\n# x\n1 0 8 8 1\n", false).unwrap().format(), Format::Mqsim);
    let msr = "128166372003061629,hm,1,Read,383496192,32768,413\r\n";
    assert_eq!(reader(msr, false).unwrap().format(), Format::Msr);
    let header = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{msr}");
    assert_eq!(all(&mut reader(header, false).unwrap()).unwrap().len(), 1);
    let error = reader("hello\n", false).err().unwrap();
    assert!(error.to_string().contains("t.trace:1:1") && error.help.contains("mqsim"), "{error}");
    assert!(reader("", false).is_err());
    assert!(reader("\n\n \n", false).is_err());
}

// Without the line number a user with a million lines cannot find the invalid one.
#[test]
fn a_broken_line_is_named_or_counted() {
    let text = "5 0 8 8 1\n5 0 8 8\n6 0 8 0 1\n7 0 8 8 2\n8 0 8 -8 1\n9 0 8 8 0\n";
    let error = all(&mut reader(text, false).unwrap()).unwrap_err();
    assert!(error.to_string().starts_with("t.trace:2:1: not a record"), "{error}");
    assert!(
        error.help.contains("--skip-bad-lines") && error.help.contains(Format::Mqsim.spec().shape),
        "{error}"
    );
    let mut lenient = reader(text, true).unwrap();
    assert_eq!(all(&mut lenient).unwrap().len(), 2);
    assert_eq!(lenient.tally().bad_lines, 4);
    assert!(lenient.tally().first_bad.as_ref().unwrap().starts_with("line 2:"));
}

// A trace may come from anywhere: its numbers must not overflow, and its lines must not fill memory.
#[test]
fn hostile_lines_are_bad_lines() {
    let bad = [
        "1 0 9223372036854775807 8 1".to_owned(),
        "1 0 18446744073709551615 1 1".to_owned(),
        "1 0 0 18014398509481985 1".to_owned(),
        "99999999999999999999 0 8 8 1".to_owned(),
        "18446744073709551615 0 8 8 1".to_owned(),
        "1 4294967296 8 8 1".to_owned(),
        format!("1 0 8 8 1{}", " ".repeat(1 << 20)),
        "1 0 8 8 1 \u{0} 7".to_owned(),
        "\u{fffd}\u{1F4BE}".to_owned(),
    ];
    for line in &bad {
        let text = format!("0 0 0 1 0\n{line}\n2 0 8 8 1\n");
        let mut lenient = reader(text.clone(), true).unwrap();
        assert_eq!(all(&mut lenient).unwrap().len(), 2, "{line:.50}");
        assert_eq!(lenient.tally().bad_lines, 1, "{line:.50}");
        let error = all(&mut reader(text, false).unwrap()).unwrap_err();
        assert!(error.to_string().contains(":2:1") && error.to_string().len() < 600, "{error}");
    }
    let mut bytes = b"0 0 0 1 0\n".to_vec();
    bytes.extend([0xff, 0xfe, b'\n']);
    assert_eq!(all(&mut reader(bytes, true).unwrap()).unwrap().len(), 1);
    let mut reader = reader("0 0 0 1 0\n".to_owned() + &"9".repeat(10 << 20), true).unwrap();
    assert_eq!(all(&mut reader).unwrap().len(), 1);
}

// An I/O earlier than its predecessor would have to be issued in the past.
#[test]
fn times_never_go_backwards() {
    let mut reader = reader("100 0 0 1 0\n300 0 0 1 0\n200 0 0 1 0\n50 0 0 1 0\n301 0 0 1 0", false).unwrap();
    let times: Vec<u64> = all(&mut reader).unwrap().iter().map(|record| record.time_ps).collect();
    assert_eq!(times, [0, 200_000, 200_000, 200_000, 201_000]);
    assert_eq!(reader.tally().times_raised, 2);
}

// With a filter, time begins with the first matching record, not with that of another device.
#[test]
fn a_device_can_be_picked() {
    let text = "100 3 0 1 0\n300 4 16 2 1\n400 3 0 1 0\n500 4 8 1 0\n";
    let input = Cursor::new(text.as_bytes().to_vec());
    let mut reader = Reader::new(
        input,
        "t".to_owned(),
        &ReadOptions { device: Some(4), ..ReadOptions::of(Format::Mqsim) },
    )
    .unwrap();
    let records = all(&mut reader).unwrap();
    let first = Record { time_ps: 0, device: 4, offset_bytes: 8192, bytes: 1024, kind: Kind::Read };
    assert_eq!(records[0], first);
    assert_eq!((records[1].time_ps, records[1].kind), (200_000, Kind::Write));
    assert_eq!(reader.tally().other_devices, 2);
}

// A payload taken for an event would end reading, or be an I/O that never was.
#[test]
fn payloads_of_blktrace_are_skipped_and_may_not_be_cut_short() {
    let event = |sequence: u32, action: u32, payload: usize| {
        let mut bytes = vec![0; 48 + payload];
        bytes[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&u64::from(sequence * 1000).to_le_bytes());
        bytes[24..28].copy_from_slice(&4096u32.to_le_bytes());
        bytes[28..32].copy_from_slice(&action.to_le_bytes());
        bytes[46..48].copy_from_slice(&(payload as u16).to_le_bytes());
        bytes
    };
    // Queued and completed reads, and a note about a process.
    let parts = [
        event(1, 1 << 16 | 1, 0),
        event(2, 1 << 26, 16),
        event(3, 1 << 16 | 1, 65_535),
        event(4, 1 << 16 | 8, 3),
    ];
    let whole = parts.concat();
    let ends: Vec<usize> = parts
        .iter()
        .scan(0, |end, part| {
            *end += part.len();
            Some(*end)
        })
        .collect();
    for end in (1..whole.len())
        .filter(|end| *end >= 48 && (end % 997 == 0 || end + 100 > whole.len()))
        .chain([whole.len()])
    {
        let read = |skip_bad_lines| {
            let options = ReadOptions { skip_bad_lines, ..ReadOptions::default() };
            let mut reader =
                Reader::new(std::io::Cursor::new(whole[..end].to_vec()), "t".to_owned(), &options)?;
            let mut times = Vec::new();
            while let Some(record) = reader.next_record()? {
                times.push(record.time_ps);
            }
            Ok::<_, InputError>((reader.format(), times))
        };
        let is_whole = ends.contains(&end);
        assert_eq!(read(false).is_ok(), is_whole, "{end}");
        let (format, times) = read(true).unwrap();
        assert_eq!(format, Format::Blktrace);
        let queued = 1 + usize::from(end >= ends[1] + 48);
        assert_eq!(times, [0, 2_000_000][..queued], "{end}");
    }
}
