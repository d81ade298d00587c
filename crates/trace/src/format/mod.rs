//! The trace formats: parsing and writing a line or record of each.
//!
//! | file | format |
//! |---|---|
//! | `mqsim` | MQSim and SSDSim ASCII |
//! | `disksim` | DiskSim ASCII |
//! | `msr` | MSR Cambridge |
//! | `alibaba` | Alibaba block traces |
//! | `tencent` | Tencent CBS |
//! | `systor` | SYSTOR'17 |
//! | `fiu` | FIU |
//! | `blkparse` | blkparse's default text |
//! | `blktrace` | blktrace's events (binary) |
//! | `iolog` | fio iolog, versions 2 and 3 |
//! | `oracle_general` | oracleGeneral (binary) |
//! | `vscsi` | vscsi, versions 1 and 2 (binary) |
//! | `spc` | SPC-1, UMass |
//! | `cloud_physics` | CloudPhysics' CSV |
//! | `biosnoop` | biosnoop's text |
//! | `columns` | columns named by the user or by the header line |
//! | `own` | formats that are not built in |
//! | `spec` | the common part: a parsed line, a format's specification |
//! | `field` | numbers and words in a line |
//! | `names` | numbers for devices that are named by words |
//!
//! A format handles single lines; the neighbouring modules handle files, archives, order and detection.

mod alibaba;
mod biosnoop;
mod blkparse;
mod blktrace;
mod cloud_physics;
mod columns;
mod disksim;
pub(super) mod field;
mod fiu;
mod iolog;
mod mqsim;
mod msr;
mod names;
mod oracle_general;
mod own;
mod spc;
mod spec;
mod systor;
mod tencent;
mod vscsi;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::detect::lines;
use crate::options::ReadOptions;
use crate::record::{Kind, Record};
use field::{number, scaled};
use names::Names;
use own::OwnParser;
use spec::device_of;

pub use columns::Columns;
pub use field::FieldError;
pub use own::{OwnFormat, TraceFormat, TraceLine};
pub use spec::{Action, Unit};
pub(super) use spec::{Line, SECTOR_BYTES, Spec};

/// Format of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Format {
    /// Detected by the first lines.
    #[default]
    Auto,
    /// MQSim, SSDSim: `time_ns device lba512 blocks512 op`, op 0 = write.
    #[serde(alias = "ssdsim")]
    #[value(alias = "ssdsim")]
    Mqsim,
    /// DiskSim ASCII: `time_ms device block512 blocks512 flags`, bit 0 = read.
    Disksim,
    /// MSR Cambridge: `ticks,host,disk,Read|Write,offset,bytes,response`.
    Msr,
    /// Alibaba block traces: `device,R|W,offset,length,time_us`.
    Alibaba,
    /// Tencent CBS: `time_s,offset512,size512,type,volume`, type 0 = read.
    Tencent,
    /// SYSTOR'17: `time_s,response,R|W,lun,offset,size`.
    Systor,
    /// FIU: `time_ns pid process lba512 blocks512 R|W major minor md5`.
    Fiu,
    /// blkparse's default text.
    Blkparse,
    /// blktrace's events, binary.
    Blktrace,
    /// fio iolog version 2.
    Iolog2,
    /// fio iolog version 3.
    Iolog3,
    /// libCacheSim's oracleGeneral, binary.
    OracleGeneral,
    /// vscsi version 1, binary.
    Vscsi1,
    /// vscsi version 2, binary.
    Vscsi2,
    /// SPC-1, UMass: `asu,lba512,bytes,R|W,time_s`.
    #[serde(alias = "umass")]
    #[value(alias = "umass")]
    Spc,
    /// CloudPhysics CSV: `version,time_s,scsi_opcode,bytes,lbn512`.
    CloudPhysics,
    /// biosnoop's text: `time_s process pid disk R|W sector bytes latency_ms`.
    Biosnoop,
    /// Columns named by the `columns` option, or by the header line of the file.
    Columns,
    /// One that is not built in.
    #[serde(skip)]
    #[value(skip)]
    Own(&'static OwnFormat),
}

/// Upper bound of offsets and ends of I/Os: 2^63.
const OFFSET_END: u64 = 1 << 63;

impl Format {
    /// Every format that is built in.
    pub const ALL: [Format; 18] = [
        Format::Mqsim,
        Format::Disksim,
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::Systor,
        Format::Fiu,
        Format::Blkparse,
        Format::Blktrace,
        Format::Iolog2,
        Format::Iolog3,
        Format::OracleGeneral,
        Format::Vscsi1,
        Format::Vscsi2,
        Format::Spc,
        Format::CloudPhysics,
        Format::Biosnoop,
        Format::Columns,
    ];

    pub(super) fn spec(self) -> &'static Spec {
        match self {
            Format::Auto | Format::Mqsim => &mqsim::SPEC,
            Format::Disksim => &disksim::SPEC,
            Format::Msr => &msr::SPEC,
            Format::Alibaba => &alibaba::SPEC,
            Format::Tencent => &tencent::SPEC,
            Format::Systor => &systor::SPEC,
            Format::Fiu => &fiu::SPEC,
            Format::Blkparse => &blkparse::SPEC,
            Format::Blktrace => &blktrace::SPEC,
            Format::Iolog2 => &iolog::SPEC_2,
            Format::Iolog3 => &iolog::SPEC_3,
            Format::OracleGeneral => &oracle_general::SPEC,
            Format::Vscsi1 => &vscsi::SPEC_1,
            Format::Vscsi2 => &vscsi::SPEC_2,
            Format::Spc => &spc::SPEC,
            Format::CloudPhysics => &cloud_physics::SPEC,
            Format::Biosnoop => &biosnoop::SPEC,
            Format::Columns => &columns::SPEC,
            Format::Own(own) => own.spec(),
        }
    }

    /// Name in the user interface.
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            format => format.spec().name,
        }
    }

    /// Assumptions about the format, for the notes of a result.
    pub fn assumption(self) -> &'static str {
        match self {
            Format::Auto => "nothing",
            format => format.spec().assumption,
        }
    }

    /// The built-in format of this name, ignoring case.
    pub fn named(name: &str) -> Option<Format> {
        if name.eq_ignore_ascii_case("ssdsim") {
            return Some(Format::Mqsim);
        }
        if name.eq_ignore_ascii_case("umass") {
            return Some(Format::Spc);
        }
        Format::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// Whether a trimmed text line matches this format, and no similar one.
    pub(super) fn votes(self, line: &[u8]) -> bool {
        match self {
            Format::Disksim => disksim::votes(line),
            Format::Blkparse => blkparse::votes(line),
            Format::Iolog2 => iolog::version(line) == Some(2),
            Format::Iolog3 => iolog::version(line) == Some(3),
            Format::Columns => false,
            _ if self.spec().record_bytes.is_some() => false,
            _ => matches!(Parser::new(&ReadOptions::of(self)).parse(line), Ok(Some(_))),
        }
    }

    /// Whether its records are lines.
    pub(super) fn is_text(self) -> bool {
        self.spec().record_bytes.is_none()
    }

    /// Whether the format records several actions of an I/O, of which one is used.
    pub(super) fn has_actions(self) -> bool {
        matches!(self, Format::Blkparse | Format::Blktrace)
    }

    /// The action to use for a file that begins so, if the user names none: the first of Q, D and C that occurs there.
    pub(super) fn action_of(self, head: &[u8]) -> Action {
        match self {
            Format::Blktrace => blktrace::action_of(head),
            _ => blkparse::action_of(lines(head).map(|(_, line)| line)),
        }
    }

    /// Bytes to be skipped after this whole record of a binary file.
    #[inline]
    pub(super) fn payload_bytes(self, record: &[u8]) -> usize {
        if self == Format::Blktrace { blktrace::payload_bytes(record) } else { 0 }
    }

    /// The time of the record at an index of a binary file, if it is plausible after one at time `latest`.
    pub(super) fn plausible(self, record: &[u8], index: u64, latest: u64) -> Option<u64> {
        match self {
            Format::OracleGeneral => oracle_general::plausible(record, index, latest),
            Format::Vscsi1 => vscsi::plausible(record, 1, latest),
            Format::Vscsi2 => vscsi::plausible(record, 2, latest),
            _ => None,
        }
    }
}

/// Whether a file that begins so is blktrace's, whose events begin with a magic number.
pub(super) fn is_blktrace(head: &[u8]) -> bool {
    blktrace::begins(head)
}

/// Parser for consecutive lines of one format.
pub(super) struct Parser {
    format: Format,
    action: Action,
    turned: bool,
    /// Unit of offsets and lengths, if it differs from the format's.
    unit: Option<Unit>,
    log: iolog::Log,
    disks: Names,
    table: columns::Table,
    own: Option<OwnParser>,
}

impl Parser {
    pub fn new(options: &ReadOptions) -> Self {
        let (format, reads_are) = (options.format, options.reads_are);
        Parser {
            format,
            action: options.action.unwrap_or_default(),
            turned: format != Format::Columns && reads_are.is_some() && reads_are != format.spec().reads_are,
            unit: options.unit.filter(|unit| format.spec().unit() != Some(*unit)),
            log: iolog::Log::default(),
            disks: Names::default(),
            table: columns::Table::new(options.columns.clone(), reads_are),
            own: if let Format::Own(own) = format { Some(own.parser()) } else { None },
        }
    }

    /// Whether it can't go on: what is not built in has panicked.
    pub fn is_broken(&self) -> bool {
        self.own.as_ref().is_some_and(OwnParser::is_broken)
    }

    /// Parses a line, or a binary record of the format's length; `None` if it is valid but not a record.
    #[inline]
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, FieldError> {
        let parsed = match self.format {
            Format::Auto | Format::Mqsim => Some(mqsim::parse(line)?),
            Format::Disksim => Some(disksim::parse(line)?),
            Format::Msr => msr::parse(line)?,
            Format::Alibaba => alibaba::parse(line)?,
            Format::Tencent => tencent::parse(line)?,
            Format::Systor => systor::parse(line)?,
            Format::Fiu => Some(fiu::parse(line)?),
            Format::Blkparse => blkparse::parse(line, self.action)?,
            Format::Blktrace => blktrace::parse(line, self.action)?,
            Format::Iolog2 => self.log.parse(line, 2)?,
            Format::Iolog3 => self.log.parse(line, 3)?,
            Format::OracleGeneral => oracle_general::parse(line)?,
            Format::Vscsi1 => vscsi::parse(line, 1)?,
            Format::Vscsi2 => vscsi::parse(line, 2)?,
            Format::Spc => spc::parse(line)?,
            Format::CloudPhysics => cloud_physics::parse(line)?,
            Format::Biosnoop => biosnoop::parse(line, &mut self.disks)?,
            Format::Columns => self.table.parse(line)?,
            Format::Own(_) => self.own.as_mut().map_or(Ok(None), |own| own.parse(line))?,
        };
        let Some(mut line) = parsed else { return Ok(None) };
        match self.unit {
            None => {}
            Some(Unit::Bytes) => {
                line.offset_bytes /= SECTOR_BYTES;
                line.bytes /= SECTOR_BYTES;
            }
            Some(Unit::Sectors) => {
                line.offset_bytes = scaled(line.offset_bytes, SECTOR_BYTES)?;
                line.bytes = scaled(line.bytes, SECTOR_BYTES)?;
            }
        }
        if line.bytes == 0 {
            return Err(FieldError::new("its length is zero"));
        }
        if line.offset_bytes.checked_add(line.bytes).is_none_or(|end| end > OFFSET_END) {
            return Err(FieldError::new(format!(
                "its {} bytes from byte {} on end beyond 2^63 bytes, which is where addresses end",
                line.bytes, line.offset_bytes
            )));
        }
        if self.turned {
            line.kind = match line.kind {
                Kind::Read => Kind::Write,
                Kind::Write => Kind::Read,
                Kind::Trim => Kind::Trim,
            };
        }
        Ok(Some(line))
    }
}

/// Writer of consecutive lines of one format.
pub(super) struct Pen {
    format: Format,
    sequence: u64,
    log: iolog::Pen,
}

impl Pen {
    pub fn new(format: Format) -> Self {
        Pen { format, sequence: 0, log: iolog::Pen::default() }
    }

    /// Appends a record that the format can represent, with its time in the format's ticks.
    pub fn write(&mut self, out: &mut Vec<u8>, record: &Record, ticks: u64) {
        self.sequence += 1;
        match self.format {
            Format::Auto | Format::Mqsim => mqsim::write(out, record, ticks),
            Format::Disksim => disksim::write(out, record, ticks),
            Format::Msr => msr::write(out, record, ticks),
            Format::Alibaba => alibaba::write(out, record, ticks),
            Format::Tencent => tencent::write(out, record, ticks),
            Format::Systor => systor::write(out, record, ticks),
            Format::Fiu => fiu::write(out, record, ticks),
            Format::Blkparse => blkparse::write(out, record, ticks, self.sequence, Action::Q),
            Format::Blktrace => blktrace::write(out, record, ticks, self.sequence),
            Format::Iolog2 => self.log.write(out, record, ticks, 2),
            Format::Iolog3 => self.log.write(out, record, ticks, 3),
            Format::OracleGeneral => oracle_general::write(out, record, ticks),
            Format::Vscsi1 => vscsi::write(out, record, ticks, self.sequence, 1),
            Format::Vscsi2 => vscsi::write(out, record, ticks, self.sequence, 2),
            Format::Spc => spc::write(out, record, ticks),
            Format::CloudPhysics => cloud_physics::write(out, record, ticks),
            Format::Biosnoop => biosnoop::write(out, record, ticks),
            Format::Columns => columns::write(out, record, ticks),
            // A writer of one is refused.
            Format::Own(_) => {}
        }
    }
}

/// Combines a major and minor number, for `--device 8,0`.
pub fn device_pair(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(',')?;
    let part = |text: &str| number(Some(text.trim().as_bytes()), "").ok();
    device_of(part(major)?, part(minor)?).ok()
}
