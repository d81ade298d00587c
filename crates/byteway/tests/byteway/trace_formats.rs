//! Round trips of every format: a written trace is detected by its first lines and read back unchanged, as far as the format allows,
//! compressed or plain; and reading ends for any content.

use std::path::Path;

use byteway_text::error::InputError;
use byteway_trace::archive::Packing;
use byteway_trace::writer::WriteError;
use byteway_trace::{Action, Format, ReadOptions, Reader, Record, Unit, Writer};
use byteway_workload::Kind;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

/// The same cases in every run.
fn config(cases: u32) -> Config {
    Config {
        cases,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}

fn write(path: &Path, format: Format, lossy: bool, records: &[Record]) -> anyhow::Result<Vec<String>> {
    let mut writer = Writer::new(Vec::new(), format, Packing::named(path), lossy)?;
    for record in records {
        writer.write(record)?;
    }
    let (bytes, losses) = writer.finish()?;
    std::fs::write(path, bytes)?;
    Ok(losses.notes(format))
}

fn read(path: &Path, options: &ReadOptions) -> Result<(Format, Vec<Record>), InputError> {
    let mut reader = Reader::open(path, options)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    Ok((reader.format(), records))
}

fn read_any(path: &Path) -> Result<(Format, Vec<Record>), InputError> {
    read(path, &ReadOptions::default())
}

/// Properties that a format preserves: its time resolution in picoseconds, units of offsets and lengths,
/// devices, writes, trims.
fn keeps(format: Format) -> (u64, u64, u64, bool, bool, bool) {
    const US: u64 = 1_000_000;
    match format {
        Format::Mqsim | Format::Disksim | Format::Fiu => (1_000, 512, 512, true, true, false),
        Format::Msr => (100_000, 1, 1, true, true, false),
        Format::Alibaba => (US, 1, 1, true, true, false),
        Format::Tencent => (1_000_000 * US, 512, 512, true, true, false),
        Format::Systor => (1_000, 1, 1, true, true, false),
        Format::Blkparse => (1_000, 512, 512, true, true, true),
        Format::Blktrace => (1_000, 512, 1, true, true, true),
        Format::Iolog2 | Format::Iolog3 => (US, 1, 1, true, true, true),
        Format::OracleGeneral => (1_000_000 * US, 4096, 1, false, false, false),
        Format::Vscsi1 | Format::Vscsi2 | Format::CloudPhysics => (US, 512, 1, false, true, false),
        Format::Spc => (1_000, 512, 1, true, true, false),
        Format::Biosnoop => (1_000, 512, 1, true, true, true),
        Format::Columns => (1_000, 1, 1, true, true, true),
        Format::Auto | Format::Own(_) => unreachable!("a trace has a format"),
    }
}

/// The records as a format preserves them, all of which it must support.
fn kept(format: Format, records: &[Record]) -> Vec<Record> {
    let (tick, offset, size, devices, writes, trims) = keeps(format);
    let keep = |record: &Record| Record {
        time_ps: record.time_ps / tick * tick,
        device: if devices { record.device } else { 0 },
        offset_bytes: record.offset_bytes / offset * offset,
        bytes: record.bytes.next_multiple_of(size),
        kind: match record.kind {
            Kind::Write | Kind::Trim if !writes => Kind::Read,
            Kind::Trim if !trims => Kind::Write,
            kind => kind,
        },
    };
    records.iter().map(keep).collect()
}

/// Records of a trace: the first at time zero, with times that never decrease.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let one = (
        prop_oneof![0..5_000_000u64, 0..5_000_000_000_000u64],
        prop_oneof![0..4u32, Just(u32::MAX), any::<u32>()],
        prop_oneof![0..1u64 << 30, 0..1u64 << 61],
        prop_oneof![1..1u64 << 16, 1..1u64 << 31],
        prop_oneof![3 => Just(Kind::Read), 2 => Just(Kind::Write), 1 => Just(Kind::Trim)],
    );
    prop::collection::vec(one, 1..60).prop_map(|parts| {
        let mut now = 0;
        let records =
            parts.into_iter().enumerate().map(|(index, (gap, device, offset_bytes, bytes, kind))| {
                now += if index == 0 { 0 } else { gap };
                Record { time_ps: now, device, offset_bytes, bytes, kind }
            });
        records.collect()
    })
}

// A reader and a writer that disagree in one field would silently change a trace.
#[test]
fn every_format_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for format in Format::ALL {
        for name in ["t", "t.gz", "t.xz", "t.zst"] {
            let path = folder.path().join(name);
            let cases = if name == "t" { 64 } else { 4 };
            proptest!(config(cases), |(records in records())| {
                let records = kept(format, &records);
                let notes = write(&path, format, false, &records).unwrap();
                prop_assert!(notes.is_empty() || format == Format::OracleGeneral, "{:?}", notes);
                let (found, back) = read_any(&path).unwrap_or_else(|error| panic!("{format:?}: {error}"));
                prop_assert_eq!(found, format);
                prop_assert_eq!(back, records);
            });
        }
    }
}

// Rounding and losses must be minimal, and reported.
#[test]
fn what_is_lost_is_said_and_no_more_than_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for format in Format::ALL {
        let (tick, offset, size, devices, writes, trims) = keeps(format);
        let record = |time_ps, device, offset_bytes, bytes, kind| Record {
            time_ps,
            device,
            offset_bytes,
            bytes,
            kind,
        };
        let first = record(0, 0, 8192, 4096, Kind::Read);
        let strict = |record: Record| write(&path, format, false, &[first, record]);
        let cases = [
            (record(7, 3, 0, 4096, Kind::Read), !devices, "devices"),
            (record(7, 0, 0, 4096, Kind::Write), !writes, "direction"),
            (record(7, 0, 0, 4096, Kind::Trim), !trims, "trims"),
            (record(7, 0, 100, 4096, Kind::Read), offset > 1, "whole units"),
        ];
        for (odd, is_lost, word) in cases {
            let (refused, lossy) = (strict(odd), write(&path, format, true, &[first, odd]).unwrap());
            assert_eq!(refused.is_err(), is_lost, "{format:?} {odd:?}");
            assert_eq!(lossy.iter().any(|note| note.contains(word)), is_lost, "{format:?} {word}: {lossy:?}");
            assert!(
                lossy.iter().any(|note| note.contains("resolution") || note.contains("trims")),
                "{tick} {lossy:?}"
            );
            if let Err(error) = refused {
                let WriteError::Unfit(error) = error.downcast::<WriteError>().unwrap() else {
                    panic!("the output takes all");
                };
                assert!(error.help.contains("--to") && error.help.contains("--lossy"), "{error}");
                assert!(error.what.starts_with("record 2 does not fit"), "{error}");
            }
        }
        // Widened to all sectors that the record touches.
        write(&path, format, true, &[first, record(7, 0, offset + 3, 4096, Kind::Read)]).unwrap();
        let (_, back) = read_any(&path).unwrap();
        let (start, end) = ((offset + 3) / offset * offset, (offset + 3 + 4096).next_multiple_of(size));
        assert_eq!((back[1].offset_bytes, back[1].bytes), (start, end - start), "{format:?}");
        // Beyond the range of a format's field there is no conversion.
        if matches!(format, Format::OracleGeneral | Format::Vscsi1 | Format::Vscsi2 | Format::Blktrace) {
            let error = write(&path, format, true, &[record(0, 0, 0, 1 << 33, Kind::Read)]).unwrap_err();
            assert!(error.to_string().contains("8 GiB"), "{error}");
        }
    }
}

// Files of others may contain anything: the reader must never panic, loop endlessly or exhaust memory.
#[test]
fn no_bytes_break_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let words = prop::sample::select(vec![
        "0",
        "1",
        "8,0",
        "Q",
        "D",
        "R",
        "W",
        "read",
        "write",
        "wait",
        "trim",
        "add",
        "fio version 2 iolog",
        "+",
        ",",
        " ",
        "\n",
        "\t",
        ".",
        "-",
        "Timestamp",
        "18446744073709551615",
        "9223372036854775807",
        "1.5",
        "0x1",
        "#",
        "\0",
        "\u{feff}",
    ]);
    let text = prop::collection::vec((words, prop::sample::select(vec!["", " ", ",", "\n"])), 0..200)
        .prop_map(|parts| {
            parts.into_iter().flat_map(|(word, end)| [word, end]).collect::<String>().into_bytes()
        });
    let magic = prop::sample::select(vec![
        &b""[..],
        b"\x1f\x8b\x08",
        b"\xfd7zXZ\x00",
        b"\x28\xb5\x2f\xfd",
        b"\x01\x00\x00\x01",
        b"fio version 3 iolog\n",
        b"\x07tae",
        b"eat\x07",
    ]);
    let noise = (magic, prop::collection::vec(any::<u8>(), 0..3000))
        .prop_map(|(magic, tail)| [magic, &tail].concat());
    proptest!(config(256), |(bytes in prop_oneof![text, noise], format in 0..=Format::ALL.len())| {
        std::fs::write(&path, &bytes).unwrap();
        let format = Format::ALL.get(format).copied().unwrap_or_default();
        for skip_bad_lines in [false, true] {
            let options = ReadOptions { skip_bad_lines, ..ReadOptions::of(format) };
            match read(&path, &options) {
                Ok((_, records)) => {
                    prop_assert!(records.len() <= bytes.len());
                    for record in &records {
                        prop_assert!(record.bytes > 0 && record.offset_bytes + record.bytes <= 1 << 63);
                    }
                }
                Err(error) => prop_assert!(!error.help.is_empty() && error.to_string().len() < 1500, "{}", error),
            }
        }
    });
}

// Generated records only cover expected oddities; real ones have others.
#[test]
fn real_traces_go_through_every_format() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["tpcc-small", "wsrch-small"] {
        let Some(path) = crate::common::real(&format!("block/mqsim/{name}.trace")) else { continue };
        let (format, records) = read_any(&path).unwrap();
        assert_eq!(format, Format::Mqsim);
        for format in Format::ALL {
            let new = folder.path().join("t.zst");
            write(&new, format, true, &records).unwrap();
            let (found, back) = read_any(&new).unwrap();
            assert_eq!((found, back.len()), (format, records.len()));
            let (_, offset, ..) = keeps(format);
            if offset <= 512 {
                assert_eq!(back, kept(format, &records), "{format:?}");
            }
        }
    }
}

// The polarity is an assumption: users must be able to override it, except in a format that spells it out.
#[test]
fn the_polarity_can_be_turned_where_it_is_a_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for (text, own) in [("1 0 8 8 1\n", 1), ("1.0 0 8 8 1\n", 1), ("1,8,8,0,3\n", 0)] {
        std::fs::write(&path, text).unwrap();
        for (reads_are, kind) in [(None, Kind::Read), (Some(own), Kind::Read), (Some(1 - own), Kind::Write)] {
            let reader =
                &mut Reader::open(&path, &ReadOptions { reads_are, ..ReadOptions::default() }).unwrap();
            assert_eq!(reader.next_record().unwrap().unwrap().kind, kind, "{text}");
            let turned = reader.options().assumption().contains(&format!("as asked for: {} = read", 1 - own));
            assert_eq!(turned, kind == Kind::Write);
        }
        let error = read(&path, &ReadOptions { reads_are: Some(2), ..ReadOptions::default() }).unwrap_err();
        assert!(error.what.contains("neither 0 nor 1"), "{error}");
    }
    std::fs::write(&path, "419,W,8192,512,7\n").unwrap();
    let error = read(&path, &ReadOptions { reads_are: Some(0), ..ReadOptions::default() }).unwrap_err();
    assert!(error.what.contains("alibaba") && error.help.contains("--reads-are"), "{error}");
    let error = read(&path, &ReadOptions { action: Some(Action::C), ..ReadOptions::default() }).unwrap_err();
    assert!(error.help.contains("--action"), "{error}");
    std::fs::write(&path, "8,0 3 1 0.0 697 Q W 8 + 8 [x]\n8,0 3 2 0.5 697 C W 8 + 8 [0]\n").unwrap();
    let reader =
        Reader::open(&path, &ReadOptions { action: Some(Action::C), ..ReadOptions::default() }).unwrap();
    assert!(reader.options().assumption().contains("action C"));
}

// A truncated download must not pass for a complete trace, nor a partial record for a complete one.
#[test]
fn what_is_cut_short_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let record = |index: u64| Record {
        time_ps: index * 1_000_000,
        device: 0,
        offset_bytes: (index * 7919 % 100_000) * 4096,
        bytes: 4096,
        kind: Kind::Read,
    };
    let records: Vec<Record> = (0..20_000).map(record).collect();
    for (name, word) in [("t.gz", "gzip"), ("t.xz", "xz"), ("t.zst", "zstd")] {
        let path = folder.path().join(name);
        write(&path, Format::Mqsim, false, &records).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() * 2 / 3]).unwrap();
        let error = read(&path, &ReadOptions { skip_bad_lines: true, ..ReadOptions::default() }).unwrap_err();
        assert!(error.what.contains("cannot continue reading") && error.help.contains(word), "{error}");
    }
    let path = folder.path().join("t");
    write(&path, Format::Vscsi2, false, &records[..10]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = read_any(&path).unwrap_err();
    assert!(error.to_string().contains("record 10") && error.what.contains("within a record"), "{error}");
    let (_, rest) = read(&path, &ReadOptions { skip_bad_lines: true, ..ReadOptions::default() }).unwrap();
    assert_eq!(rest.len(), 9);
}

/// A trace of each format, from its own writer, and one with columns named by the user.
fn one_of_each() -> Vec<(ReadOptions, Vec<u8>)> {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("t");
    let record = |index: u64| Record {
        time_ps: index * 3_000_000,
        device: 0,
        offset_bytes: index * 7 * 4096,
        bytes: 4096 * (1 + index % 3),
        kind: if index.is_multiple_of(3) { Kind::Write } else { Kind::Read },
    };
    let records: Vec<Record> = (1..20).map(record).collect();
    let mut all: Vec<_> = Format::ALL
        .into_iter()
        .map(|format| {
            write(&path, format, true, &records).expect("it is lossy");
            (ReadOptions::of(format), std::fs::read(&path).expect("it was written"))
        })
        .collect();
    let named = ReadOptions {
        columns: Some("time_us,op,lba,blocks,-".parse().expect("the names are known")),
        ..Default::default()
    };
    let lines =
        records.iter().map(|record| format!("{},r,{},8,x\n", record.time_ps, record.offset_bytes / 512));
    all.push((named, lines.collect::<String>().into_bytes()));
    all
}

// Files are truncated, damaged or of another type; covers each case for every format, including new ones.
#[test]
fn every_format_survives_every_kind_of_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    for (options, whole) in one_of_each() {
        let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
        for end in (0..whole.len()).step_by(13) {
            damaged.push((format!("cut at {end}"), whole[..end].to_vec()));
        }
        for at in (0..whole.len()).step_by(23) {
            for byte in [0, b'\n', b'9', b',', 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                damaged.push((format!("byte {byte} at {at}"), bytes));
            }
        }
        if let Ok(text) = std::str::from_utf8(&whole) {
            let last = text.trim_end().lines().last().unwrap();
            let is_digit = |c: char| c.is_ascii_digit();
            for (at, number) in last.split(|c| !is_digit(c)).filter(|part| !part.is_empty()).enumerate() {
                for huge in
                    ["9223372036854775807", "18446744073709551615", "99999999999999999999999", "-1", "1e400"]
                {
                    let line = last.replacen(number, huge, 1);
                    damaged.push((format!("{huge} as number {at}"), format!("{text}{line}\n").into_bytes()));
                }
            }
            damaged.push((
                "a long line".to_owned(),
                format!("{text}{}\n{last}\n", last.repeat(500)).into_bytes(),
            ));
        }
        damaged.push(("NULs".to_owned(), [&whole[..], &[0; 70_000]].concat()));
        damaged.push((
            "garbage".to_owned(),
            (0..70_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect(),
        ));
        for (name, bytes) in damaged {
            std::fs::write(&path, &bytes).unwrap();
            for skip_bad_lines in [false, true] {
                let options = ReadOptions { skip_bad_lines, ..options.clone() };
                match read(&path, &options) {
                    Ok((_, records)) => {
                        assert!(records.len() <= bytes.len(), "{options:?}, {name}");
                        for record in &records {
                            assert!(record.bytes > 0 && record.offset_bytes + record.bytes <= 1 << 63);
                        }
                    }
                    Err(error) => assert!(
                        !error.help.is_empty() && error.to_string().len() < 2500,
                        "{options:?}, {name}: {error}"
                    ),
                }
            }
        }
    }
}

// The length of a stream is unknown: memory must not grow with it.
#[test]
fn no_stream_fills_the_memory() {
    // Above the memory of the unoptimized program, and below the stream's length.
    const LIMIT_KIB: u64 = 80 << 10;
    const STREAM_BYTES: u64 = 96 << 20;
    let program = env!("CARGO_BIN_EXE_byteway");
    for (options, _) in one_of_each() {
        let how = match &options.columns {
            Some(columns) => format!("--columns {columns}"),
            None => format!("--from {}", options.format.name()),
        };
        let script = format!(
            "ulimit -v {LIMIT_KIB}; head -c {STREAM_BYTES} /dev/zero | '{program}' trace inspect --quiet --skip-bad-lines {how} -"
        );
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        let ended = matches!(output.status.code(), Some(0 | 2));
        assert!(ended && !message.contains("memory") && !message.contains("panicked"), "{how}: {message}");
    }
}

// Offsets in bytes that are read as sectors are 512 times too high, and lengths 512 times too large.
#[test]
fn bytes_in_a_format_of_sectors_are_doubted_and_can_be_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let records: Vec<Record> = (0..8)
        .map(|index| Record {
            time_ps: 0,
            device: 0,
            offset_bytes: index * 4096,
            bytes: 4096,
            kind: Kind::Read,
        })
        .collect();
    let in_sectors = |format: &Format| {
        let (_, offset, size, ..) = keeps(*format);
        (offset, size) == (512, 512)
    };
    let formats: Vec<Format> = Format::ALL.into_iter().filter(in_sectors).collect();
    assert!(formats.len() >= 5, "{formats:?}");
    for format in formats {
        let in_bytes: Vec<Record> = records
            .iter()
            .map(|record| Record {
                offset_bytes: record.offset_bytes * 512,
                bytes: record.bytes * 512,
                ..*record
            })
            .collect();
        write(&path, format, false, &in_bytes).unwrap();
        let doubts = |unit: Option<Unit>| {
            let mut reader = Reader::open(&path, &ReadOptions { unit, ..ReadOptions::of(format) }).unwrap();
            let mut found = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                found.push(record);
            }
            (found, reader.tally().doubts(reader.options()), reader.options().assumption())
        };
        let (found, said, _) = doubts(None);
        assert_eq!(found, in_bytes, "{format:?}");
        assert!(said.len() == 1 && said[0].contains("--unit bytes"), "{format:?}: {said:?}");
        let (found, said, assumption) = doubts(Some(Unit::Bytes));
        assert_eq!((found, said), (records.clone(), Vec::new()), "{format:?}");
        assert!(assumption.contains("as asked for: offsets and sizes in bytes"), "{assumption}");
        assert_eq!(doubts(Some(Unit::Sectors)).1, Vec::<String>::new(), "{format:?}");
        // A single record that is impossible in bytes settles it.
        let odd = Record { offset_bytes: 512, bytes: 512, time_ps: 0, device: 0, kind: Kind::Read };
        write(&path, format, false, &[&in_bytes[..], &[odd]].concat()).unwrap();
        assert_eq!(doubts(None).1, Vec::<String>::new(), "{format:?}");
    }
    std::fs::write(&path, "1,h,0,R,8,16\n").unwrap();
    let msr =
        read(&path, &ReadOptions { unit: Some(Unit::Sectors), ..ReadOptions::of(Format::Msr) }).unwrap().1;
    assert_eq!((msr[0].offset_bytes, msr[0].bytes), (4096, 8192));
    std::fs::write(&path, "0,8,512,R,0.5\n").unwrap();
    let error = read(&path, &ReadOptions { unit: Some(Unit::Bytes), ..ReadOptions::default() }).unwrap_err();
    assert!(error.what.contains("spc") && error.help.contains("--columns"), "{error}");
}

// blktrace can record a single step of each I/O; read by another step such a file would be empty.
#[test]
fn a_blkparse_text_is_read_by_the_events_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let line = |action: &str, second: u32| format!("8,0 3 1 {second}.0 697 {action} W 8 + 8 [x]\n");
    for (actions, taken, said) in [
        (&["Q", "D", "C"][..], "Q", None),
        (&["G", "D", "C"], "D", Some("no I/O is queued (Q) at the beginning")),
        (&["P", "C"], "C", Some("no I/O is queued (Q) or issued (D)")),
    ] {
        let text: String =
            (0..50).flat_map(|at| actions.iter().map(move |action| line(action, at))).collect();
        std::fs::write(&path, text).unwrap();
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        let mut records = 0;
        while reader.next_record().unwrap().is_some() {
            records += 1;
        }
        assert_eq!(records, 50, "{actions:?}");
        assert!(reader.options().assumption().contains(&format!("action {taken}")));
        let doubts = reader.tally().doubts(reader.options());
        assert_eq!(doubts.len(), usize::from(said.is_some()), "{doubts:?}");
        assert!(said.is_none_or(|said| doubts[0].contains(said)), "{doubts:?}");
        // A named action is used exclusively.
        let named = ReadOptions { action: Some(Action::Q), ..ReadOptions::default() };
        assert_eq!(read(&path, &named).unwrap().1.len(), if taken == "Q" { 50 } else { 0 });
    }
}

// A round trip holds if reader and writer are wrong in the same way; these are lines of others, with what they mean by hand.
#[test]
fn a_biosnoop_text_means_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let text = "\
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)
2.000004001    supervise      1950   xvda1   W  13092560  4096       0.74
2.000178002    supervise      1950   xvda1   W  13092432  4096       0.61
2.001469001    supervise      1956   xvda1   W  13092440  4096       1.24
2.001588    Web Content    71      nvme0n1   R 16         512       0.084
2.001588    jbd2/sda-8     171     nvme0n1   FWS 0        0         1.200
2.022346001    supervise      1950   xvda1   RA 8         131072     0.83
2.9         fstrim         9       nvme0n1   DS 4096      1048576   -1.000   7.125
2.5         ?              0       ?         R 3         1024      0.000
3           a  b   c       1       nvme0n1   WS 2048      8192      0.5
";
    let us = |time: u64| time * 1_000_000;
    let wanted = [
        (0, 0, 13_092_560 * 512, 4096, Kind::Write),
        (174_001_000, 0, 13_092_432 * 512, 4096, Kind::Write),
        (1_465_000_000, 0, 13_092_440 * 512, 4096, Kind::Write),
        (1_583_999_000, 1, 16 * 512, 512, Kind::Read),
        (22_342_000_000, 0, 8 * 512, 131_072, Kind::Read),
        (us(899_996) - 1_000, 1, 4096 * 512, 1 << 20, Kind::Trim),
        // Its own time is earlier.
        (us(899_996) - 1_000, 2, 3 * 512, 1024, Kind::Read),
        (us(999_996) - 1_000, 1, 2048 * 512, 8192, Kind::Write),
    ];
    let wanted = wanted.map(|(time_ps, device, offset_bytes, bytes, kind)| Record {
        time_ps,
        device,
        offset_bytes,
        bytes,
        kind,
    });
    std::fs::write(&path, text).unwrap();
    assert_eq!(read_any(&path).unwrap(), (Format::Biosnoop, wanted.to_vec()));
    // The last line of a text that Ctrl-C has cut off, and a column more (-P).
    for (bad, what) in [
        ("3.1 x 1 sda R 8 40", "the latency `40`"),
        ("3.1 x 1 sda R S 8 4096 0.5", "the process identifier `sda`"),
        ("3.1 x 1 sda R 18446744073709551615 4096 0.5", "beyond 2^63"),
    ] {
        std::fs::write(&path, format!("{text}{bad}\n")).unwrap();
        let error = read_any(&path).unwrap_err();
        assert!(error.to_string().contains("t:11:1") && error.what.contains(what), "{error}");
        assert!(error.help.contains("R|W sector bytes"), "{error}");
        let options = ReadOptions { skip_bad_lines: true, ..ReadOptions::default() };
        assert_eq!(read(&path, &options).unwrap().1, wanted, "{bad}");
    }
}
