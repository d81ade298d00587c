//! A trace to replay: its settings, and the blocks that its records touch.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use byteway_trace::{Kind, ReadOptions, Record, Tally};

/// A trace, and its mapping to the drive.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePlan {
    /// Path of the file.
    pub path: PathBuf,
    /// Read options, with the format as given or detected.
    pub read: ReadOptions,
    /// Whether each device has its own slice of the range; otherwise all devices overlap.
    pub spread: bool,
    /// Handling of addresses beyond the range.
    pub beyond: Beyond,
    /// Factor of times, in units of 2^-32.
    pub time_scale_q32: u64,
    /// How often it is replayed, at least once: each time later by its duration and its mean gap.
    pub repeat: u32,
    /// Layout of its devices and addresses, from the first pass.
    pub layout: Layout,
    /// Counts of the first pass over the file.
    pub scan: Scan,
}

/// Handling of addresses beyond the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Beyond {
    /// An address beyond the range is an error.
    #[default]
    Error,
    /// Addresses wrap to the start of the range.
    Wrap,
    /// All addresses are scaled in proportion, so that the last one fits.
    Scale,
    /// Only the units of 4 KiB that the trace touches are mapped, in the order of first use.
    Compact,
}

/// Counts of a pass over a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Counts of the reader, over the trace once.
    pub tally: Tally,
    /// Records that are replayed, over all repetitions.
    pub replayed: u64,
    /// Whether the trace ended before the job's `count`.
    pub is_exhausted: bool,
    /// Number of commands.
    pub commands: u64,
    /// Records mapped to another address because theirs was beyond the range.
    pub moved: u64,
    /// Records that begin or end within a logical block, and were widened to whole blocks; trims were
    /// narrowed.
    pub widened: u64,
    /// Trims of less than a logical block, omitted.
    pub trims_left_out: u64,
    /// Scaled time of the last record, in picoseconds.
    pub last_ps: u64,
}

/// First block and number of blocks that a record touches, or, for a trim, covers: a widened trim would
/// discard other data. `None` for a trim of less than one block.
pub(super) fn whole_blocks(record: &Record, lba_bytes: u64) -> Option<(u64, u64)> {
    // A record ends at or below 2^63, so this cannot overflow.
    let end = record.offset_bytes + record.bytes;
    let (first, end) = match record.kind {
        Kind::Trim => (record.offset_bytes.div_ceil(lba_bytes), end / lba_bytes),
        Kind::Read | Kind::Write => (record.offset_bytes / lba_bytes, end.div_ceil(lba_bytes)),
    };
    (first < end).then(|| (first, end - first))
}
