//! The reader: from a file to records.

use std::cell::Cell;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use super::archive::{Packing, unpack};
use super::buffer::{Buffer, LINE_BYTES_MAX};
use super::detect::{DETECT_BYTES, detect, header, without_mark};
use super::format::field::{FieldError, shown};
use super::format::{Action, Format, Unit};
use super::format::{Line, Parser, SECTOR_BYTES};
use super::input::{Input, is_stdin, open, open_once};
use super::options::ReadOptions;
use super::record::Record;
use super::tally::Tally;
use byteway_text::error::{InputError, SourceLocation};
use byteway_text::interrupt::Interrupt;

/// Reads a trace record by record.
pub struct Reader {
    shown: String,
    buffer: Buffer,
    packing: Packing,
    file_bytes: u64,
    read_bytes: Rc<Cell<u64>>,
    line_number: u64,
    options: ReadOptions,
    record_bytes: Option<usize>,
    /// Bytes between the record read last and the next one.
    payload_bytes: usize,
    parser: Parser,
    /// Whether the format counts in sectors and no unit option was given.
    in_sectors: bool,
    sieve: Sieve,
    tally: Tally,
    ended: bool,
}

impl Reader {
    /// Opens a trace file, plain or compressed. [`Format::Auto`] detects the format by the first lines. If a
    /// device is given, only its records are returned. The file must be regular, because it is read more than
    /// once; the standard input (`-`) is stored completely.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, InputError> {
        Reader::of(open(path)?, path, options)
    }

    /// Like [`Reader::open`], for one pass: the standard input (`-`) is read directly, and an interrupt ends
    /// reading with an error.
    pub fn open_once(path: &Path, options: &ReadOptions, interrupt: &Interrupt) -> Result<Self, InputError> {
        let mut reader = Reader::of(open_once(path, interrupt)?, path, options)?;
        reader.buffer.end_at(interrupt);
        Ok(reader)
    }

    fn of(input: Input, path: &Path, options: &ReadOptions) -> Result<Self, InputError> {
        let shown = if is_stdin(path) { "stdin".to_owned() } else { path.display().to_string() };
        let mut reader = Reader::new(input.bytes, shown, options)?;
        reader.file_bytes = input.length;
        Ok(reader)
    }

    pub(super) fn new(
        input: impl Read + 'static,
        shown: String,
        options: &ReadOptions,
    ) -> Result<Self, InputError> {
        let broken = |packing, error| {
            InputError::new(format!("cannot read the trace `{shown}`: {error}"), cure_of(packing))
        };
        let unpacked = unpack(input).map_err(|error| broken(Packing::Plain, error))?;
        let packing = unpacked.packing;
        let mut buffer = Buffer::new(unpacked.input);
        let mut options = options.clone();
        let mut tally = Tally::default();
        let head = buffer.peek(DETECT_BYTES).map_err(|error| broken(packing, error))?;
        let head = &head[..head.len().min(DETECT_BYTES)];
        match (&options.columns, options.format) {
            (Some(_), Format::Auto | Format::Columns) => options.format = Format::Columns,
            (Some(_), other) => {
                let what = format!("`columns` contradicts the format {}", other.name());
                return Err(InputError::new(what, "leave one of the two out"));
            }
            (None, Format::Auto) => options.format = detect(head, &shown)?,
            (None, _) => {}
        }
        options.check()?;
        if options.format == Format::Columns && options.columns.is_none() {
            options.columns = header(head);
        }
        if options.format.has_actions() && options.action.is_none() {
            let action = options.format.action_of(head);
            options.action = Some(action);
            tally.fallback = (action != Action::default()).then_some(action);
        }
        let spec = options.format.spec();
        Ok(Reader {
            shown,
            buffer,
            packing,
            file_bytes: 0,
            read_bytes: unpacked.count,
            line_number: 0,
            record_bytes: spec.record_bytes,
            payload_bytes: 0,
            parser: Parser::new(&options),
            in_sectors: options.unit.is_none() && spec.unit() == Some(Unit::Sectors),
            sieve: Sieve { device: options.device, tick_ps: spec.tick_ps, ..Sieve::default() },
            options,
            tally,
            ended: false,
        })
    }

    /// The format, as given or detected.
    pub fn format(&self) -> Format {
        self.options.format
    }

    /// The options, with the detected format.
    pub fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// The compression of the file.
    pub fn packing(&self) -> Packing {
        self.packing
    }

    /// Number, from 1, of the line (binary formats: the record) read last.
    pub fn line_number(&self) -> u64 {
        self.line_number
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Size of the file, and bytes of it read so far, both compressed.
    pub fn progress_bytes(&self) -> (u64, u64) {
        (self.read_bytes.get(), self.file_bytes)
    }

    /// Location of the line read last.
    pub fn place(&self) -> SourceLocation {
        let number = usize::try_from(self.line_number).unwrap_or(usize::MAX);
        match self.record_bytes {
            None => SourceLocation { source: self.shown.clone(), position: Some((number, 1)), excerpt: None },
            Some(_) => SourceLocation {
                source: format!("{}, record {number}", self.shown),
                position: None,
                excerpt: None,
            },
        }
    }

    /// The next record; `None` at the end. After an error no record follows.
    pub fn next_record(&mut self) -> Result<Option<Record>, InputError> {
        while !self.ended {
            match self.step() {
                Ok(Step::Record(record)) => {
                    self.tally.records += 1;
                    let unit = SECTOR_BYTES * SECTOR_BYTES;
                    let is_multiple = |bytes: u64| bytes.is_multiple_of(unit);
                    if self.in_sectors && is_multiple(record.offset_bytes) && is_multiple(record.bytes) {
                        self.tally.multiples_of_512 += 1;
                    }
                    return Ok(Some(record));
                }
                Ok(Step::Nothing) => {}
                Ok(Step::OtherDevice) => self.tally.other_devices += 1,
                Ok(Step::End) => self.ended = true,
                Ok(Step::Bad(bad)) => self.bad(*bad)?,
                Err(error) => {
                    self.ended = true;
                    let what = format!("cannot continue reading: {error}");
                    return Err(InputError::new(what, cure_of(self.packing)).at(self.place()));
                }
            }
        }
        Ok(None)
    }

    /// Reads one line.
    #[inline]
    fn step(&mut self) -> std::io::Result<Step> {
        if self.payload_bytes > 0 {
            let wanted = std::mem::take(&mut self.payload_bytes);
            let there = self.buffer.record(wanted)?.map_or(0, <[u8]>::len);
            if there < wanted {
                return Ok(Step::Bad(Box::new((FieldError::new(CUT_SHORT), String::new()))));
            }
        }
        let line = match self.record_bytes {
            None => self.buffer.line()?,
            Some(bytes) => self.buffer.record(bytes)?,
        };
        let Some(line) = line else { return Ok(Step::End) };
        self.line_number += 1;
        let parsed = match self.record_bytes {
            None => {
                if line.len() > LINE_BYTES_MAX {
                    Err(FieldError::new(format!("longer than {LINE_BYTES_MAX} bytes")))
                } else {
                    let line = if self.line_number == 1 { without_mark(line) } else { line };
                    let line = line.trim_ascii();
                    match line.first() {
                        None | Some(b'#') => return Ok(Step::Nothing),
                        Some(_) => self.parser.parse(line),
                    }
                }
            }
            Some(bytes) if line.len() < bytes => Err(FieldError::new(CUT_SHORT)),
            Some(_) => {
                self.payload_bytes = self.options.format.payload_bytes(line);
                self.parser.parse(line)
            }
        };
        let sifted = match parsed {
            Ok(Some(parsed)) => self.sieve.sift(&parsed, &mut self.tally),
            Ok(None) => return Ok(Step::Nothing),
            Err(trouble) => Err(trouble),
        };
        Ok(match sifted {
            Ok(Some(record)) => Step::Record(record),
            Ok(None) => Step::OtherDevice,
            Err(trouble) => Step::Bad(Box::new((trouble, shown(line)))),
        })
    }

    /// Handles a line that is not a record: counts it, or ends with an error.
    fn bad(&mut self, (trouble, text): (FieldError, String)) -> Result<(), InputError> {
        let noun = if self.record_bytes.is_some() { "record" } else { "line" };
        if self.options.skip_bad_lines && !self.parser.is_broken() {
            self.tally.bad_lines += 1;
            if self.tally.first_bad.is_none() {
                self.tally.first_bad = Some(format!("{noun} {}: {trouble}", self.line_number));
            }
            return Ok(());
        }
        self.ended = true;
        let what = match self.record_bytes {
            None => format!("not a record: {trouble}: `{text}`"),
            Some(_) => format!("not a record: {trouble}"),
        };
        if self.parser.is_broken() {
            let help = "correct the format, which is not built in: it must return an error for a line that is no record";
            return Err(InputError::new(what, help).at(self.place()));
        }
        let shape = match (&self.options.columns, self.options.format) {
            (Some(columns), _) => format!("`{columns}`"),
            (None, Format::Own(own)) => {
                format!("as the format {} has it ({})", own.name(), own.about().trim_end_matches('.'))
            }
            (None, format) => format!("`{}`", format.spec().shape),
        };
        let help = format!(
            "a {noun} should read {shape}; correct it, or run with --skip-bad-lines to skip and count such {noun}s"
        );
        Err(InputError::new(what, help).at(self.place()))
    }
}

const CUT_SHORT: &str = "the file ends within a record";

/// Outcome of reading a line.
enum Step {
    Record(Record),
    OtherDevice,
    Nothing,
    Bad(Box<(FieldError, String)>),
    End,
}

/// Filters by device, and converts ticks to times.
#[derive(Default)]
struct Sieve {
    device: Option<u32>,
    tick_ps: u64,
    first_ticks: Option<u64>,
    latest_ps: u64,
}

impl Sieve {
    #[inline]
    fn sift(&mut self, line: &Line, tally: &mut Tally) -> Result<Option<Record>, FieldError> {
        if self.device.is_some_and(|device| device != line.device) {
            return Ok(None);
        }
        let first = self.first_ticks.unwrap_or(line.ticks);
        let time_ps = match line.ticks.checked_sub(first) {
            None => 0,
            Some(ticks) => ticks.checked_mul(self.tick_ps).ok_or_else(|| {
                FieldError::new(
                    "its time is more than 213 days after the first, which is as far as a run reaches",
                )
            })?,
        };
        self.first_ticks = Some(first);
        if line.ticks < first || time_ps < self.latest_ps {
            tally.times_raised += 1;
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
}

/// The remedy for a file that cannot be read further.
fn cure_of(packing: Packing) -> String {
    match packing {
        Packing::Plain => "check the disk, and that the file is whole".to_owned(),
        packed => format!(
            "the file is packed by {} and damaged, cut short, or needs more than 128 MiB to unpack: fetch it again, or \
             unpack it beforehand",
            packed.name()
        ),
    }
}
