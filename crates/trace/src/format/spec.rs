//! The common part of all formats: a parsed line, a format's specification, directions and device numbers.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::field::{FieldError, present, put};
use crate::record::{Kind, Record};

/// Unit of a trace's offsets and lengths, where a file deviates from its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Sectors of 512 B.
    Sectors,
}

pub(crate) const SECTOR_BYTES: u64 = 512;

/// The step of an I/O to use, in a format that records several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
pub enum Action {
    /// Queued: passed to the block layer.
    #[default]
    #[value(name = "Q")]
    Q,
    /// Issued to the driver.
    #[value(name = "D")]
    D,
    /// Completed.
    #[value(name = "C")]
    C,
}

impl Action {
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Action::Q => "Q",
            Action::D => "D",
            Action::C => "C",
        }
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            Action::Q => "queued",
            Action::D => "issued to the driver",
            Action::C => "completed",
        }
    }
}

/// A parsed line, with its time in the trace's own ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub ticks: u64,
    pub device: u32,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub kind: Kind,
}

/// The specification of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// Name in the user interface.
    pub name: &'static str,
    /// The shape of a line, for messages.
    pub shape: &'static str,
    /// Assumptions about the format.
    pub assumption: &'static str,
    /// Picoseconds of a tick, its resolution.
    pub tick_ps: u64,
    /// Granularity of offsets, in bytes.
    pub offset_unit: u64,
    /// Granularity of lengths, in bytes.
    pub size_unit: u64,
    /// The number that means read, if the operation is a number.
    pub reads_are: Option<u8>,
    /// Whether the format has trims.
    pub trims: bool,
    /// Whether the format has writes.
    pub writes: bool,
    /// Whether the format has device numbers.
    pub devices: bool,
    /// Longest I/O, in bytes.
    pub bytes_max: u64,
    /// Upper bound of offsets, exclusive.
    pub offset_end: u64,
    /// Latest time, in ticks.
    pub ticks_max: u64,
    /// First bytes of a file.
    pub header: &'static [u8],
    /// Bytes of a record in a binary format.
    pub record_bytes: Option<usize>,
}

impl Spec {
    /// A text format without limits; the base of other definitions.
    pub(super) const TEXT: Spec = Spec {
        name: "",
        shape: "",
        assumption: "",
        tick_ps: 1_000,
        offset_unit: 1,
        size_unit: 1,
        reads_are: None,
        trims: false,
        writes: true,
        devices: true,
        bytes_max: u64::MAX,
        offset_end: u64::MAX,
        ticks_max: u64::MAX,
        header: b"",
        record_bytes: None,
    };

    /// The unit of both offsets and lengths, if it is the same.
    pub(crate) fn unit(&self) -> Option<Unit> {
        match (self.offset_unit, self.size_unit) {
            (1, 1) => Some(Unit::Bytes),
            (SECTOR_BYTES, SECTOR_BYTES) => Some(Unit::Sectors),
            _ => None,
        }
    }
}

/// `R` or `W`.
pub(super) fn letter(field: Option<&[u8]>) -> Result<Kind, FieldError> {
    let field = present(field, "operation")?;
    match field {
        b"R" | b"r" => Ok(Kind::Read),
        b"W" | b"w" => Ok(Kind::Write),
        other => Err(FieldError::field("operation", other, "is neither R nor W")),
    }
}

pub(super) fn letter_of(record: &Record) -> u8 {
    if record.kind == Kind::Read { b'R' } else { b'W' }
}

/// Bits of a minor number in Linux's device numbers.
const MINOR_BITS: u32 = 20;

/// Combines major and minor number.
pub(super) fn device_of(major: u64, minor: u64) -> Result<u32, FieldError> {
    if major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS {
        return Ok(((major << MINOR_BITS) | minor) as u32);
    }
    Err(FieldError::new(format!("the device {major},{minor} is too large: 4095,1048575 is the last")))
}

/// Writes major and minor number.
pub(super) fn put_device(out: &mut Vec<u8>, device: u32, between: &[u8], after: &[u8]) {
    put(out, u64::from(device >> MINOR_BITS), between);
    put(out, u64::from(device & ((1 << MINOR_BITS) - 1)), after);
}
