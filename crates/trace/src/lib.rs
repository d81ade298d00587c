//! Block traces as streams: one record at a time, for files and lines of any length.
//!
//! | file | what |
//! |---|---|
//! | `record` | one I/O: [`Record`] |
//! | [`mod@format`] | parsing and writing the lines of each format |
//! | `formats` | formats by name, with those of a program of one's own: [`TraceFormats`] |
//! | [`archive`] | gzip, xz and zstd, in and out |
//! | [`buffer`] | lines and records from a stream |
//! | [`detect`] | detection of the format by the first lines |
//! | `input` | files, and the standard input, which is streamed or stored |
//! | `options`, [`reader`], `tally` | from file to records: [`ReadOptions`], [`Reader`], and its counts: [`Tally`] |
//! | [`writer`] | from records to a file, with counts of what was lost: [`Writer`] |
//! | [`mod@convert`] | conversion between formats |
//! | [`mod@inspect`] | statistics of a trace |
//!
//! A line that is not a record is an error that names the file, the line and the expected shape; or it is
//! skipped and counted. Times that decrease (several merged devices, corrected clocks) are raised to the
//! latest earlier time and counted, because an I/O cannot be issued in the past.
//!
//! A trace is read, and its format found by its first lines:
//!
//! ```
//! use byteway_trace::{Format, Kind, ReadOptions, Reader};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("web.csv");
//! std::fs::write(&path, "128166372003061629,hm,1,Read,383496192,32768,413\n")?;
//!
//! let mut reader = Reader::open(&path, &ReadOptions::default())?;
//! assert_eq!(reader.format(), Format::Msr);
//! let record = reader.next_record()?.expect("a record");
//! assert_eq!((record.kind, record.offset_bytes, record.bytes), (Kind::Read, 383_496_192, 32_768));
//! assert_eq!(reader.next_record()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it models no drive (`workload/replay.rs` maps records to one), and it neither keeps
//! nor sorts records.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod archive;
pub mod buffer;
pub mod convert;
pub mod detect;
pub mod format;
mod formats;
mod input;
pub mod inspect;
mod options;
pub mod reader;
mod record;
mod tally;
#[cfg(test)]
mod tests;
pub mod writer;

use std::path::{Path, PathBuf};

pub use format::{Action, Columns, FieldError, Format, OwnFormat, TraceFormat, TraceLine, Unit};
pub use formats::TraceFormats;
pub use input::is_stdin;
pub use options::ReadOptions;
pub use reader::Reader;
pub use record::{Kind, Record};
pub use tally::Tally;
pub use writer::Writer;

/// The name of a trace file in results, without its directory.
pub fn file_name(path: &Path) -> String {
    if input::is_stdin(path) {
        return "stdin".to_owned();
    }
    path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from).display().to_string()
}
