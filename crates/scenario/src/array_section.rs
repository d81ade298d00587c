//! The section `[array]` of a scenario file.

use crate::profile::Collection;
use crate::profile::collection;
use byteway_text::units::{Bytes, Frequency, Percent, Picos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[array]`: software on the host combines the drives into one, by striping, mirroring or parity. Jobs use
/// the whole.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArraySection {
    /// RAID level: 0, 1, 5 or 10.
    pub level: u8,
    /// Bytes on one drive before the stripe continues on the next: a power of two from 4 KiB to 4 MiB.
    /// Default: 64 KiB.
    #[serde(default = "sixty_four_kib")]
    pub chunk: Bytes,
    /// Number of spares, which replace failed drives: the last ones. Default: 0.
    #[serde(default)]
    pub spares: u16,
    /// Clock of a host processor, for the following cycles. Default: 3 GHz.
    #[serde(default = "three_ghz")]
    pub clock: Frequency,
    /// Cycles to map a piece of a command to a drive. Default: 600.
    #[serde(default = "stripe")]
    pub stripe: u64,
    /// Cycles to XOR 4 KiB. Default: 600, which is 20 GB/s at 3 GHz.
    #[serde(default = "parity")]
    pub parity: u64,
    /// Rebuild rate in units of 4 KiB per second while there is other I/O. Default: 2560, which is 10 MiB/s;
    /// 0: unlimited.
    #[serde(default = "busy_rate")]
    pub rebuild: u64,
    /// When the drives collect garbage: "each" on its own, or all "together" in windows. Default: each.
    #[serde(default)]
    pub collection: Collection,
    /// With `collection = "together"`: share of a plane's blocks that are free at the end of a window, beyond
    /// `gc.start`. Default: 4 %.
    #[serde(default = "collection::four_percent")]
    pub collection_window: Percent,
    /// A drive that is removed while the jobs run. Default: none.
    #[serde(default)]
    pub unplug: Option<Unplug>,
}

/// The removal of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unplug {
    /// Index of the drive, from 0.
    pub member: u16,
    /// Time after the start of the jobs.
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
