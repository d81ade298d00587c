//! The section `[csd]` of a profile: query execution of a computational drive, and its cost.

use super::fault::{KeyError, within};
use byteway_text::units::{Bytes, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tables of a drive with the personality `tables`, and queries over them. Cycles are those of the cores that
/// do the work; they are estimates from the instructions of a core with 128-bit vectors, none is from a
/// paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CsdStore {
    /// Rows of a row group, at most: 1 to 1048576.
    pub group_rows: u32,
    /// Reads of flash, of up to 512 KiB, that a query has outstanding: 1 to 64.
    pub readers: u32,
    /// Unfetched result beyond which a query waits.
    pub buffer: Bytes,
    /// Largest single append.
    pub upload: Bytes,
    /// Open cursors, at most: 1 to 1024.
    pub cursors: u32,
    /// Idle time after which a cursor or an upload is ended.
    pub timeout: Picos,
    /// Cycles per 64 bytes of a task: parsing it, and binding it to its table.
    pub task_cycles: u64,
    /// Cycles to decode 64 bytes of a column.
    pub decode_cycles: u64,
    /// Cycles to encode 64 bytes of a column.
    pub encode_cycles: u64,
    /// Cycles to compare 64 values of 8 bytes; other operators count as a number of comparisons.
    pub evaluate_cycles: u64,
    /// Cycles to write 64 bytes of a result.
    pub output_cycles: u64,
}

impl Default for CsdStore {
    fn default() -> Self {
        CsdStore {
            group_rows: 16_384,
            readers: 16,
            buffer: Bytes(4 << 20),
            upload: Bytes(64 << 20),
            cursors: 16,
            timeout: Picos(10_000_000_000_000),
            task_cycles: 4_000,
            decode_cycles: 24,
            encode_cycles: 96,
            evaluate_cycles: 64,
            output_cycles: 32,
        }
    }
}

impl CsdStore {
    pub(super) fn check(&self) -> Result<(), KeyError> {
        within("csd.group_rows", self.group_rows, 1, 1 << 20)?;
        within("csd.readers", self.readers, 1, 64)?;
        within("csd.buffer", self.buffer, Bytes(4 << 10), Bytes(1 << 30))?;
        within("csd.upload", self.upload, Bytes(4 << 10), Bytes(1 << 30))?;
        within("csd.cursors", self.cursors, 1, 1024)?;
        within("csd.timeout", self.timeout, Picos(1_000_000_000), Picos(1_000_000_000_000_000))?;
        for (key, cycles) in [
            ("csd.task_cycles", self.task_cycles),
            ("csd.decode_cycles", self.decode_cycles),
            ("csd.encode_cycles", self.encode_cycles),
            ("csd.evaluate_cycles", self.evaluate_cycles),
            ("csd.output_cycles", self.output_cycles),
        ] {
            within(key, cycles, 0, 1_000_000)?;
        }
        Ok(())
    }
}
