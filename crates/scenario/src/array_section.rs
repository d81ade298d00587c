//! `[array]` of a scenario as it is written.

use crate::profile::Collection;
use crate::profile::collection;
use byteway_console::units::{Bytes, Frequency, Percent, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[array]`: the drives are one, striped and mirrored or with parity by software on the host. Jobs work on the whole.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArraySection {
    /// RAID level: 0, 1, 5 or 10.
    pub level: u8,
    /// What goes to one drive before the next one's turn: a power of two from 4 KiB to 4 MiB. Left out, 64 KiB.
    #[serde(default = "sixty_four_kib")]
    pub chunk: Bytes,
    /// The last so many drives take the place of others that fail. Left out, 0.
    #[serde(default)]
    pub spares: u16,
    /// A processor of the host, for the cycles that follow. Left out, 3 GHz.
    #[serde(default = "three_ghz")]
    pub clock: Frequency,
    /// Cycles to find a piece of a command on a drive. Left out, 600.
    #[serde(default = "stripe")]
    pub stripe: u64,
    /// Cycles to XOR 4 KiB into others. Left out, 600: 20 GB/s at 3 GHz.
    #[serde(default = "parity")]
    pub parity: u64,
    /// Units of 4 KiB a second by which a drive is rebuilt while others ask for something. Left out, 2560: 10 MiB/s; 0: no limit.
    #[serde(default = "busy_rate")]
    pub rebuild: u64,
    /// When its drives collect garbage: "each" when it must, or all "together" in windows. Left out, each.
    #[serde(default)]
    pub collection: Collection,
    /// Of collecting together: the share of the blocks of a plane that are free at the end of a window, beyond `gc.start`. Left out, 4 %.
    #[serde(default = "collection::four_percent")]
    pub collection_window: Percent,
    /// A drive that is pulled out while the jobs run. Left out, none.
    #[serde(default)]
    pub unplug: Option<Unplug>,
}

/// A drive that is pulled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unplug {
    /// Which: from 0.
    pub member: u16,
    /// When, after the jobs have begun.
    pub at: Picos,
}

fn sixty_four_kib() -> Bytes {
    Bytes(64 << 10)
}

fn three_ghz() -> Frequency {
    Frequency(3_000_000_000)
}

fn stripe() -> u64 {
    600
}

fn parity() -> u64 {
    600
}

fn busy_rate() -> u64 {
    2560
}
