//! `[bridge]` of a profile: a card with a bridge in front of whole drives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::collection::{self, Collection};
use super::completion::Completion;
use super::fault::{Fault, fault, one_of, within};
use super::switch::{self, Switch};
use byteway_console::units::{Bytes, Frequency, Percent};

/// A bridge in front of whole drives, over which it stripes: everything else in the profile is one of these, but for `link`, which is
/// the card's, `controller`, which both have, and `drive.capacity`, which is that of all together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// Drives behind it.
    pub members: u16,
    /// What goes to one of them before the next one's turn: a power of two from 4 KiB to 4 MiB.
    pub chunk: Bytes,
    /// PCIe generation that comes next to a member's link, such as one of SAS.
    pub generation: u8,
    /// And its lanes.
    pub lanes: u8,
    /// Cores of the bridge.
    pub cores: u16,
    /// Their frequency.
    pub clock: Frequency,
    /// Cycles for a command of the host's: to take it, and to answer.
    pub command: u64,
    /// Cycles for a command to a member: to convert it from one protocol to the other, and its answer back.
    pub convert: u64,
    /// Cycles for 4 KiB that go through its memory. Left out, 0.
    #[serde(default)]
    pub buffer: u64,
    /// Commands under way at a member. Left out, 32: what SATA has.
    #[serde(default = "thirty_two")]
    pub outstanding: u32,
    /// How it learns of a member's completions. Left out, by polling.
    #[serde(default = "by_polling")]
    pub completion: Completion,
    /// When its drives collect garbage: "each" when it must, or all "together" in windows. Left out, each.
    #[serde(default)]
    pub collection: Collection,
    /// Of collecting together: the share of the blocks of a plane that are free at the end of a window, beyond `gc.start`. Left out, 4 %.
    #[serde(default = "collection::four_percent")]
    pub collection_window: Percent,
    /// Memory that keeps its contents, for small writes; left out, or false, all writes pass through.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<SmallWrites>")]
    pub small_writes: Option<SmallWrites>,
}

/// Writes that a bridge takes into memory that keeps its contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmallWrites {
    /// The memory.
    pub memory: Bytes,
    /// The longest write that is taken.
    pub longest: Bytes,
    /// A write that begins so near the end of an earlier one belongs to a stream, and passes through.
    pub stream: Bytes,
    /// Writes to members at once that drain it.
    pub drain: u32,
    /// Writes that pass through are acknowledged when they survive a power cut on the members. Left out, false: when the members have
    /// taken them.
    #[serde(default)]
    pub through: bool,
    /// Of writes that pass through one at a time is under way in so much of a member: a multiple of 4 KiB. Left out, 4 KiB.
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
    pub(super) fn check(&self) -> Result<(), Fault> {
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
