//! Block traces, read as a stream: a record at a time, whatever the length of the file or of a line.
//!
//! | file | what |
//! |---|---|
//! | [`mod@format`] | how a line of each format is read and written |
//! | [`archive`] | gzip, xz and zstd, in and out |
//! | [`buffer`] | lines and records out of a stream |
//! | [`detect`] | the format, by the first lines |
//! | `input` | files, and the standard input, which is read once or kept |
//! | [`reader`] | from file to records: [`Reader`] |
//! | [`writer`] | from records to a file, and what it could not hold: [`Writer`] |
//! | [`mod@convert`] | the one poured into the other |
//! | [`mod@inspect`] | what is in a trace |
//! | [`reuse`], [`shards`] | reuse distances and miss-ratio curves, exact and from a sample |
//!
//! A line that is not a record is an error that names the file, the line and what was expected, or is skipped and
//! counted. Times that go backwards (several devices merged, clocks corrected) are raised to the latest time
//! before them and counted: an I/O cannot be issued in the past.
//!
//! What it does not do: it knows no drive (`workload/replay.rs` of the laboratory lays records on one), keeps no record, and
//! sorts none.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod archive;
pub mod buffer;
pub mod convert;
pub mod detect;
pub mod format;
mod input;
pub mod inspect;
pub mod reader;
pub mod reuse;
pub mod shards;
#[cfg(test)]
mod tests;
pub mod writer;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use format::{Action, Columns, Format, Unit};
pub use input::is_stdin;
pub use reader::{ReadOptions, Reader};
pub use writer::Writer;

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Dataset Management, deallocate.
    Trim,
}

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
    /// In a format of sectors whose unit nobody named: records whose offset and length are multiples of 512 sectors.
    pub multiples_of_512: u64,
    /// The action that was taken because the beginning of the file has none of those that are preferred to it.
    pub fallback: Option<Action>,
}

impl Tally {
    /// What makes it doubtful that the trace was read as it was meant.
    pub fn doubts(&self, options: &ReadOptions) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.records > 0 && self.multiples_of_512 == self.records {
            doubts.push(
                "warning: all offsets and lengths are multiples of 512, so they may be bytes, not sectors: `unit = \"bytes\"` \
                 (--unit bytes) reads them so, `unit = \"sectors\"` says that they are sectors"
                    .to_owned(),
            );
        }
        if let Some(action) = self.fallback {
            let without = if action == Action::D {
                "no I/O is queued (Q)"
            } else {
                "no I/O is queued (Q) or issued (D)"
            };
            doubts.push(format!(
                "{without} at the beginning of the trace; those that are {} ({}) were taken",
                action.noun(),
                action.letter()
            ));
        }
        if let Some(columns) = &options.columns {
            if !columns.has_op() {
                doubts.push("no column is the op: all records were taken as reads".to_owned());
            }
            if !columns.has_time() {
                doubts.push("no column is a time: all records come at once".to_owned());
            }
        }
        doubts
    }
}

/// What a trace file is called in results, which hold no paths.
pub fn file_name(path: &Path) -> String {
    if input::is_stdin(path) {
        return "stdin".to_owned();
    }
    path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from).display().to_string()
}
