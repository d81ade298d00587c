//! The section `[bridge]` of a profile: a card with a bridge in front of complete drives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collection::{self, Collection};
use super::completion::Completion;
use super::fault::{KeyError, fault, one_of, within};
use super::switch::{self, Switch};
use byteway_text::units::{Bytes, Frequency, Percent};

/// A bridge in front of complete drives, over which it stripes. The rest of the profile describes one of
/// these drives, except for `link`, which is the card's, `controller`, which both have, and `drive.capacity`,
/// which is the total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// Number of drives behind it.
    pub members: u16,
    /// Bytes on one of them before the stripe continues on the next: a power of two from 4 KiB to 4 MiB.
    pub chunk: Bytes,
    /// PCIe generation nearest to a member's link, such as one of SAS.
    pub generation: u8,
    /// Number of lanes of that link.
    pub lanes: u8,
    /// Cores of the bridge.
    pub cores: u16,
    /// Frequency of the cores.
    pub clock: Frequency,
    /// Cycles for a command of the host: taking it, and answering.
    pub command: u64,
    /// Cycles for a command to a member: protocol conversion in both directions.
    pub convert: u64,
    /// Cycles for 4 KiB that pass through its memory. Default: 0.
    #[serde(default)]
    pub buffer: u64,
    /// Outstanding commands of a member, at most. Default: 32, as with SATA.
    #[serde(default = "thirty_two")]
    pub outstanding: u32,
    /// How the bridge detects a member's completions. Default: polling.
    #[serde(default = "by_polling")]
    pub completion: Completion,
    /// When the drives collect garbage: "each" on its own, or all "together" in windows. Default: each.
    #[serde(default)]
    pub collection: Collection,
    /// With `collection = "together"`: share of a plane's blocks that are free at the end of a window, beyond
    /// `gc.start`. Default: 4 %.
    #[serde(default = "collection::four_percent")]
    pub collection_window: Percent,
    /// Non-volatile memory for small writes. Omitted or false: all writes pass through.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<SmallWrites>")]
    pub small_writes: Option<SmallWrites>,
}

/// Writes that a bridge buffers in non-volatile memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmallWrites {
    /// The memory.
    pub memory: Bytes,
    /// The longest write that is buffered.
    pub longest: Bytes,
    /// A write that begins this close to the end of an earlier one belongs to a stream, and passes through.
    pub stream: Bytes,
    /// Concurrent writes to members when it drains.
    pub drain: u32,
    /// Whether writes that pass through are acknowledged only when they are persistent on the members.
    /// Default: false, when the members have accepted them.
    #[serde(default)]
    pub through: bool,
    /// For the writes that pass through, one at a time may be in flight per row of this size on a member: a
    /// multiple of 4 KiB. Default: 4 KiB.
    #[serde(default = "four_kib")]
    pub row: Bytes,
}

fn four_kib() -> Bytes {
    Bytes(4096)
}

fn thirty_two() -> u32 {
    32
}

fn by_polling() -> Completion {
    Completion::Polled
}

impl Bridge {
    pub(super) fn check(&self) -> Result<(), KeyError> {
        within("bridge.members", self.members, 1, 64)?;
        if !self.chunk.0.is_power_of_two() || !(4096..=4 << 20).contains(&self.chunk.0) {
            let what = format!("`bridge.chunk` = {} is not possible", self.chunk);
            return Err(fault("bridge.chunk", what, "choose a power of two from 4 KiB to 4 MiB"));
        }
        within("bridge.generation", self.generation, 1, 6)?;
        one_of("bridge.lanes", self.lanes.into(), &[1, 2, 4, 8, 12, 16, 32])?;
        within("bridge.cores", self.cores, 1, 256)?;
        within("bridge.clock", self.clock, Frequency(1_000_000), Frequency(10_000_000_000))?;
        for (key, cycles) in [("command", self.command), ("convert", self.convert), ("buffer", self.buffer)] {
            within(&format!("bridge.{key}"), cycles, 0, 1_000_000_000)?;
        }
        within("bridge.outstanding", self.outstanding, 1, 4096)?;
        collection::check_window("bridge.collection_window", self.collection_window)?;
        if let Some(small) = &self.small_writes {
            within("bridge.small_writes.memory", small.memory, Bytes(64 << 10), Bytes(64 << 30))?;
            within("bridge.small_writes.longest", small.longest, Bytes(512), Bytes(1 << 20))?;
            within("bridge.small_writes.stream", small.stream, Bytes(0), Bytes(1 << 30))?;
            within("bridge.small_writes.drain", small.drain, 1, 1024)?;
            within("bridge.small_writes.row", small.row, Bytes(4096), Bytes(1 << 20))?;
            if !small.row.0.is_multiple_of(4096) {
                let what = format!("`bridge.small_writes.row` = {} is not possible", small.row);
                return Err(fault("bridge.small_writes.row", what, "choose a multiple of 4 KiB"));
            }
        }
        Ok(())
    }
}
