//! Block traces, read as a stream: a record at a time, whatever the length of the file or of a line.
//!
//! | file | what |
//! |---|---|
//! | [`mqsim`] | the ASCII format of MQSim and SSDSim |
//! | [`msr`] | the CSV format of the MSR Cambridge traces |
//!
//! A line that is not a record is an error that names the file, the line and what was expected, or is skipped and
//! counted. Times that go backwards (several devices merged, clocks corrected) are raised to the latest time
//! before them and counted: an I/O cannot be issued in the past.

pub mod mqsim;
pub mod msr;

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, Place};
use crate::units::excerpt;
use crate::workload::Kind;

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Since the first record, in picoseconds; never less than the record before.
    pub time_ps: u64,
    /// The device or disk number of the trace.
    pub device: u32,
    /// Where it begins, in bytes.
    pub offset_bytes: u64,
    /// How long it is, in bytes: at least one, and it ends below 2^63.
    pub bytes: u64,
    /// What is done.
    pub kind: Kind,
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// As the first lines look.
    #[default]
    Auto,
    /// MQSim, SSDSim: `time_ns device lba512 blocks512 op`.
    Mqsim,
    /// MSR Cambridge: `ticks,host,disk,Read|Write,offset,bytes,response`.
    Msr,
}

/// What was met while reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records given out.
    pub records: u64,
    /// Records of devices that were not asked for.
    pub other_devices: u64,
    /// Lines that are not a record, skipped.
    pub bad_lines: u64,
    /// The first of them, and why.
    pub first_bad: Option<String>,
    /// Records whose time was earlier than that of a record before.
    pub times_raised: u64,
}

/// A line as a format reads it: times still in the trace's own ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    ticks: u64,
    device: u32,
    offset_bytes: u64,
    bytes: u64,
    kind: Kind,
}

/// Longer lines are bad lines; a record of any format is a tenth of it.
const LINE_BYTES_MAX: usize = 4096;

/// What is looked at to tell the format.
const DETECT_BYTES: usize = 64 << 10;
const DETECT_LINES: usize = 20;

/// Offsets and ends lie below it: 2^63.
const OFFSET_END: u64 = 1 << 63;

impl Format {
    /// What a line of the format looks like, for messages.
    fn shape(self) -> &'static str {
        match self {
            Format::Auto => "a record",
            Format::Mqsim => mqsim::SHAPE,
            Format::Msr => msr::SHAPE,
        }
    }

    /// What was taken for granted about the format, for the notes of a result.
    pub fn assumption(self) -> &'static str {
        match self {
            Format::Auto => "nothing",
            Format::Mqsim => {
                "MQSim/SSDSim format, times in ns, sectors of 512 B, operation 0 = write and 1 = read"
            }
            Format::Msr => "MSR Cambridge format, times in ticks of 100 ns, offsets and sizes in bytes",
        }
    }

    fn tick_ps(self) -> u64 {
        match self {
            Format::Auto | Format::Mqsim => 1_000,
            Format::Msr => 100_000,
        }
    }

    fn parse(self, text: &str) -> Result<Option<Line>, String> {
        let line = match self {
            Format::Auto | Format::Mqsim => mqsim::parse(text)?,
            Format::Msr => match msr::parse(text)? {
                Some(line) => line,
                None => return Ok(None),
            },
        };
        if line.bytes == 0 {
            return Err("its length is zero".to_owned());
        }
        if line.offset_bytes.checked_add(line.bytes).is_none_or(|end| end > OFFSET_END) {
            return Err("it ends beyond 2^63 bytes".to_owned());
        }
        Ok(Some(line))
    }
}

/// Reads a trace, record by record.
pub struct Reader {
    shown: String,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    line_number: u64,
    format: Format,
    device: Option<u32>,
    skip_bad_lines: bool,
    first_ticks: Option<u64>,
    latest_ps: u64,
    tally: Tally,
    ended: bool,
}

impl Reader {
    /// Opens a trace file. With [`Format::Auto`] the first lines decide. Only records of `device` are given out, if
    /// one is named. The file must be a regular one, for it is read more than once.
    pub fn open(
        path: &Path,
        format: Format,
        device: Option<u32>,
        skip_bad_lines: bool,
    ) -> Result<Self, InputError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| {
            let what = format!("cannot read the trace `{shown}`: {error}");
            InputError::new(what, "check the path (relative to the scenario file) and its permissions")
        };
        // Looked at before it is opened: to open a pipe that nobody writes to waits for ever.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            let what = format!("the trace `{shown}` is not a regular file");
            return Err(InputError::new(
                what,
                "name a file; it is read twice, so that a broken line shows at once",
            ));
        }
        let file = File::open(path).map_err(failed)?;
        Reader::new(file, shown, format, device, skip_bad_lines)
    }

    fn new(
        mut input: impl Read + 'static,
        shown: String,
        format: Format,
        device: Option<u32>,
        skip_bad_lines: bool,
    ) -> Result<Self, InputError> {
        let mut head = Vec::new();
        if format == Format::Auto {
            let head_bytes = DETECT_BYTES as u64;
            input.by_ref().take(head_bytes).read_to_end(&mut head).map_err(|error| {
                InputError::new(format!("cannot read the trace `{shown}`: {error}"), "check the disk")
            })?;
        }
        let format = match format {
            Format::Auto => detect(&head, &shown)?,
            chosen => chosen,
        };
        Ok(Reader {
            shown,
            input: Box::new(BufReader::with_capacity(256 << 10, Cursor::new(head).chain(input))),
            line: Vec::with_capacity(LINE_BYTES_MAX),
            line_number: 0,
            format,
            device,
            skip_bad_lines,
            first_ticks: None,
            latest_ps: 0,
            tally: Tally::default(),
            ended: false,
        })
    }

    /// The format, as forced or found.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The line that was read last, from 1.
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    /// What was met so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Where the line that was read last stands.
    pub fn place(&self) -> Place {
        Place {
            source: self.shown.clone(),
            position: Some((usize::try_from(self.line_number).unwrap_or(usize::MAX), 1)),
            excerpt: None,
        }
    }

    /// The next record, `None` at the end. After an error there is no next record.
    pub fn next_record(&mut self) -> Result<Option<Record>, InputError> {
        if self.ended {
            return Ok(None);
        }
        loop {
            match self.read_line() {
                Ok(false) => {
                    self.ended = true;
                    return Ok(None);
                }
                Ok(true) => {}
                Err(error) => {
                    self.ended = true;
                    let what = format!("cannot read on: {error}");
                    return Err(InputError::new(what, "check the disk").at(self.place()));
                }
            }
            match self.record() {
                Ok(Some(record)) => {
                    self.tally.records += 1;
                    return Ok(Some(record));
                }
                Ok(None) => {}
                Err(trouble) if self.skip_bad_lines => {
                    self.tally.bad_lines += 1;
                    if self.tally.first_bad.is_none() {
                        self.tally.first_bad = Some(format!("line {}: {trouble}", self.line_number));
                    }
                }
                Err(trouble) => {
                    self.ended = true;
                    let shown = excerpt(&String::from_utf8_lossy(&self.line));
                    let what = format!("not a record: {trouble}: `{shown}`");
                    let cure = format!(
                        "a line should read `{}`; mend it, or run with --skip-bad-lines to skip and count such lines",
                        self.format.shape()
                    );
                    return Err(InputError::new(what, cure).at(self.place()));
                }
            }
        }
    }

    /// The record of the line just read; `None` if it has none to give.
    fn record(&mut self) -> Result<Option<Record>, String> {
        if self.line.len() > LINE_BYTES_MAX {
            return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| "not UTF-8 text".to_owned())?;
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let Some(line) = self.format.parse(text)? else { return Ok(None) };
        if self.device.is_some_and(|device| device != line.device) {
            self.tally.other_devices += 1;
            return Ok(None);
        }
        let first = self.first_ticks.unwrap_or(line.ticks);
        let time_ps = match line.ticks.checked_sub(first) {
            None => 0,
            Some(ticks) => ticks
                .checked_mul(self.format.tick_ps())
                .ok_or("its time is more than 213 days after the first, which is as far as a run reaches")?,
        };
        self.first_ticks = Some(first);
        if line.ticks < first || time_ps < self.latest_ps {
            self.tally.times_raised += 1;
        }
        self.latest_ps = self.latest_ps.max(time_ps);
        Ok(Some(Record {
            time_ps: self.latest_ps,
            device: line.device,
            offset_bytes: line.offset_bytes,
            bytes: line.bytes,
            kind: line.kind,
        }))
    }

    /// Reads a line into `self.line`, without its end. Of a line that is too long only the beginning is kept, one
    /// byte more than allowed. False at the end of the file.
    fn read_line(&mut self) -> std::io::Result<bool> {
        self.line.clear();
        let mut any = false;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                self.line_number += u64::from(any);
                return Ok(any);
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            let room = (LINE_BYTES_MAX + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                self.line_number += 1;
                return Ok(true);
            }
        }
    }
}

/// The format of which one of the first lines is a record.
fn detect(head: &[u8], shown: &str) -> Result<Format, InputError> {
    let mut first = None;
    let lines = head.split(|byte| *byte == b'\n').enumerate();
    let written = lines.filter(|(_, line)| {
        let line = line.trim_ascii();
        !line.is_empty() && line[0] != b'#'
    });
    for (index, line) in written.take(DETECT_LINES) {
        let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
        let text = text.trim_start_matches('\u{feff}').trim();
        for format in [Format::Mqsim, Format::Msr] {
            if matches!(format.parse(text), Ok(Some(_))) {
                return Ok(format);
            }
        }
        first.get_or_insert_with(|| (index + 1, excerpt(text)));
    }
    let Some((line, text)) = first else {
        let what = format!("the trace `{shown}` has no record in its first {} KiB", DETECT_BYTES >> 10);
        return Err(InputError::new(what, "name a trace that is not empty, or its `format`"));
    };
    let what = format!("cannot tell the format of the trace: `{text}` is a record of none");
    let cure = format!(
        "a line of MQSim or SSDSim reads `{}`, one of MSR Cambridge `{}`; force one with `format = \"mqsim\"` or \
         \"msr\", and skip broken lines with --skip-bad-lines",
        mqsim::SHAPE,
        msr::SHAPE
    );
    Err(InputError::new(what, cure).at(Place {
        source: shown.to_owned(),
        position: Some((line, 1)),
        excerpt: None,
    }))
}

/// A whole number of a field, with a word for what it should be.
fn number(field: Option<&str>, what: &str) -> Result<u64, String> {
    let field = field.ok_or_else(|| format!("the {what} is missing"))?;
    if field.is_empty() || !field.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("the {what} `{}` is not a whole number", excerpt(field)));
    }
    field.parse().map_err(|_| format!("the {what} `{}` is too large", excerpt(field)))
}

/// What a trace file is called in results, which hold no paths.
pub fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(text: impl Into<Vec<u8>>, skip_bad_lines: bool) -> Result<Reader, InputError> {
        Reader::new(Cursor::new(text.into()), "t.trace".to_owned(), Format::Auto, None, skip_bad_lines)
    }

    fn all(reader: &mut Reader) -> Result<Vec<Record>, InputError> {
        let mut records = Vec::new();
        while let Some(record) = reader.next_record()? {
            records.push(record);
        }
        Ok(records)
    }

    // The two formats share nothing but digits; a wrong guess would replay nonsense without a word.
    #[test]
    fn the_first_record_tells_the_format() {
        assert_eq!(reader("\n# x\n1 0 8 8 1\n", false).unwrap().format(), Format::Mqsim);
        let msr = "128166372003061629,hm,1,Read,383496192,32768,413\r\n";
        assert_eq!(reader(msr, false).unwrap().format(), Format::Msr);
        let header = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{msr}");
        assert_eq!(all(&mut reader(header, false).unwrap()).unwrap().len(), 1);
        let error = reader("hello\n", false).err().unwrap();
        assert!(error.to_string().contains("t.trace:1:1") && error.cure.contains("mqsim"), "{error}");
        assert!(reader("", false).is_err());
        assert!(reader("\n\n \n", false).is_err());
    }

    // Without the line number a user with a million lines cannot find the broken one.
    #[test]
    fn a_broken_line_is_named_or_counted() {
        let text = "5 0 8 8 1\n5 0 8 8\n6 0 8 0 1\n7 0 8 8 2\n8 0 8 -8 1\n9 0 8 8 0\n";
        let error = all(&mut reader(text, false).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("t.trace:2:1: not a record"), "{error}");
        assert!(error.cure.contains("--skip-bad-lines") && error.cure.contains(mqsim::SHAPE), "{error}");
        let mut lenient = reader(text, true).unwrap();
        assert_eq!(all(&mut lenient).unwrap().len(), 2);
        assert_eq!(lenient.tally().bad_lines, 4);
        assert!(lenient.tally().first_bad.as_ref().unwrap().starts_with("line 2:"));
    }

    // A trace is from anywhere: its numbers must not overflow, and its lines not fill the memory.
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
        assert!(reader.line.capacity() <= 2 * LINE_BYTES_MAX);
    }

    // An I/O before the one in front of it would have to be issued in the past.
    #[test]
    fn times_never_go_backwards() {
        let mut reader =
            reader("100 0 0 1 0\n300 0 0 1 0\n200 0 0 1 0\n50 0 0 1 0\n301 0 0 1 0", false).unwrap();
        let times: Vec<u64> = all(&mut reader).unwrap().iter().map(|record| record.time_ps).collect();
        assert_eq!(times, [0, 200_000, 200_000, 200_000, 201_000]);
        assert_eq!(reader.tally().times_raised, 2);
    }

    // With a filter, time begins with the first record that passes it, not with a foreign device's.
    #[test]
    fn a_device_can_be_picked() {
        let text = "100 3 0 1 0\n300 4 16 2 1\n400 3 0 1 0\n500 4 8 1 0\n";
        let input = Cursor::new(text.as_bytes().to_vec());
        let mut reader = Reader::new(input, "t".to_owned(), Format::Mqsim, Some(4), false).unwrap();
        let records = all(&mut reader).unwrap();
        let first = Record { time_ps: 0, device: 4, offset_bytes: 8192, bytes: 1024, kind: Kind::Read };
        assert_eq!(records[0], first);
        assert_eq!((records[1].time_ps, records[1].kind), (200_000, Kind::Write));
        assert_eq!(reader.tally().other_devices, 2);
    }
}
