//! Block traces, read as a stream: a record at a time, whatever the length of the file or of a line.
//!
//! | file | what |
//! |---|---|
//! | `record` | one I/O: [`Record`] |
//! | [`mod@format`] | how a line of each format is read and written |
//! | [`archive`] | gzip, xz and zstd, in and out |
//! | [`buffer`] | lines and records out of a stream |
//! | [`detect`] | the format, by the first lines |
//! | `input` | files, and the standard input, which is read once or kept |
//! | `options`, [`reader`], `tally` | from file to records: [`ReadOptions`], [`Reader`], and what was met: [`Tally`] |
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
mod options;
pub mod reader;
mod record;
pub mod reuse;
pub mod shards;
mod tally;
#[cfg(test)]
mod tests;
pub mod writer;

use std::path::{Path, PathBuf};

pub use format::{Action, Columns, Format, Unit};
pub use input::is_stdin;
pub use options::ReadOptions;
pub use reader::Reader;
pub use record::{Kind, Record};
pub use tally::Tally;
pub use writer::Writer;

/// What a trace file is called in results, which hold no paths.
pub fn file_name(path: &Path) -> String {
    if input::is_stdin(path) {
        return "stdin".to_owned();
    }
    path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from).display().to_string()
}
