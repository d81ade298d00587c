//! What is said of a recording that is replayed, and which blocks its records are about.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use byteway_trace::{Kind, ReadOptions, Record, Tally};

/// A recording and how it is laid on the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePlan {
    /// The file.
    pub path: PathBuf,
    /// How it is read; its format as forced or found.
    pub read: ReadOptions,
    /// Whether each device has a slice of the range to itself, instead of all lying over each other.
    pub spread: bool,
    /// What becomes of addresses beyond the range.
    pub beyond: Beyond,
    /// What times are multiplied with, in units of 2^-32.
    pub time_scale_q32: u64,
    /// Where its devices and addresses go, as the first pass found.
    pub layout: Layout,
    /// What the first pass over the file met.
    pub scan: Scan,
}

/// What becomes of addresses beyond the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Beyond {
    /// They are a mistake.
    #[default]
    Error,
    /// They begin again at the start of the range.
    Wrap,
    /// All addresses shrink in proportion, so that the last one is the range's.
    Scale,
    /// Only what the trace touches has a place, in units of 4 KiB, in the order of their first use.
    Compact,
}

/// What a pass over a trace met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// What the reader counted.
    pub tally: Tally,
    /// Commands that its records become.
    pub commands: u64,
    /// Records that were laid at another address than their own, because it was beyond the range.
    pub moved: u64,
    /// Records that begin or end within a logical block, and were widened to whole ones; trims were narrowed.
    pub widened: u64,
    /// Trims of less than a logical block, left out.
    pub trims_left_out: u64,
    /// Time of the last record, in picoseconds, scaled.
    pub last_ps: u64,
}

/// First block and number of all blocks that a record touches, or, of a trim, covers: to trim more than was asked for
/// would lose data. `None` for a trim of less than one.
pub(super) fn whole_blocks(record: &Record, lba_bytes: u64) -> Option<(u64, u64)> {
    // A record ends at or below 2^63.
    let end = record.offset_bytes + record.bytes;
    let (first, end) = match record.kind {
        Kind::Trim => (record.offset_bytes.div_ceil(lba_bytes), end / lba_bytes),
        Kind::Read | Kind::Write => (record.offset_bytes / lba_bytes, end.div_ceil(lba_bytes)),
    };
    (first < end).then(|| (first, end - first))
}
