//! What the firmware does beside the host's I/O, as the profile says it: spread wear, collect while nothing is asked,
//! refresh what grows old, write checkpoints, keep a part of the map.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, MAP_UNIT_BYTES, SECOND, fault, within};
use super::switch::{self, Switch};
use super::{Firmware, Gc};
use byteway_console::units::{Age, Bytes, Percent, Picos};

/// Wear levelling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Dynamic: of the free blocks the least worn is written next. Left out, the one that has been free the longest.
    #[serde(default)]
    pub dynamic: bool,
    /// Static: once the most worn block of a die has had so many erases more than the least worn, data that nobody rewrites
    /// is moved, so that its block wears too. Left out, or false, it stays.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<u32>")]
    pub static_spread: Option<u32>,
}

/// Collection while the host asks for nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// How long the host must have been idle.
    pub idle: Picos,
    /// Share of the blocks of a plane that are free when it rests.
    pub free: Percent,
}

/// Moving data before it can't be read any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// A block is moved when it was read so often since its erase: reads disturb its neighbours.
    pub reads: u32,
    /// And when what it holds is so old: charge leaks.
    pub age: Age,
}

/// A map that is a B+-tree of extents: runs of units that lie one behind the other in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtentTree {
    /// A node. Left out, 4 KiB.
    #[serde(default = "four_kib")]
    pub node: Bytes,
    /// An extent in a leaf. Left out, 24 B: its first unit, its place, its length.
    #[serde(default = "extent_bytes")]
    pub extent: Bytes,
    /// A child in an inner node. Left out, 16 B.
    #[serde(default = "child_bytes")]
    pub child: Bytes,
    /// A node that is filled to less takes entries of a neighbour, or becomes one with it. Left out, 50 %.
    #[serde(default = "fifty_percent")]
    pub fill: Percent,
}

fn four_kib() -> Bytes {
    Bytes(4096)
}

fn extent_bytes() -> Bytes {
    Bytes(24)
}

fn child_bytes() -> Bytes {
    Bytes(16)
}

fn fifty_percent() -> Percent {
    Percent(50.0)
}

impl ExtentTree {
    fn check(&self) -> Result<(), Fault> {
        within("firmware.extents.node", self.node, Bytes(256), Bytes(1 << 20))?;
        let most = Bytes(self.node.0 / 4);
        within("firmware.extents.extent", self.extent, Bytes(1), most)?;
        within("firmware.extents.child", self.child, Bytes(1), most)?;
        within("firmware.extents.fill", self.fill, Percent(1.0), Percent(50.0))
    }
}

/// The most that virtual time can hold.
pub(super) const AGE_MAX: Age = Age(200 * 86_400);

pub(super) fn ten_percent() -> Percent {
    Percent(10.0)
}

impl Firmware {
    pub(super) fn check_upkeep(&self) -> Result<(), Fault> {
        within("firmware.checkpoint", self.checkpoint, Percent(0.0), Percent(1000.0))?;
        if let Some(bytes) = self.map_cache {
            within("firmware.map_cache", bytes, Bytes(8 * MAP_UNIT_BYTES), Bytes(16 << 30))?;
        }
        if let Some(tree) = &self.extents {
            tree.check()?;
            if self.map_cache.is_some() {
                return Err(fault(
                    "firmware.extents",
                    "`firmware.extents`: a map with `firmware.map_cache` has pages, and is no tree",
                    "leave one of them out",
                ));
            }
        }
        if let Some(bytes) = self.absorb {
            within("firmware.absorb", bytes, Bytes(MAP_UNIT_BYTES), Bytes(16 << 30))?;
        }
        if let Some(bytes) = self.read_cache {
            within("firmware.read_cache", bytes, Bytes(MAP_UNIT_BYTES), Bytes(16 << 30))?;
        }
        if let Some(bytes) = self.host_buffer {
            within("firmware.host_buffer", bytes, Bytes(MAP_UNIT_BYTES), Bytes(4 << 30))?;
            if self.map_cache.is_none() {
                return Err(fault(
                    "firmware.host_buffer",
                    "`firmware.host_buffer` is memory for a map that is not all in DRAM".to_owned(),
                    "say with `firmware.map_cache` what is, or leave it out",
                ));
            }
        }
        if let Some(erases) = self.wear.as_ref().and_then(|wear| wear.static_spread) {
            within("firmware.wear.static_spread", erases, 1, 1_000_000)?;
        }
        if let Some(refresh) = &self.refresh {
            within("firmware.refresh.reads", refresh.reads, 100, u32::MAX)?;
            within("firmware.refresh.age", refresh.age, Age(1), AGE_MAX)?;
        }
        self.gc.check_background()
    }
}

impl Gc {
    fn check_background(&self) -> Result<(), Fault> {
        let Some(background) = &self.background else { return Ok(()) };
        within("firmware.gc.background.idle", background.idle, Picos(1_000_000), Picos(3600 * SECOND.0))?;
        within("firmware.gc.background.free", background.free, self.start, Percent(50.0))
    }
}
