//! Background work of the firmware in a profile: wear leveling, idle garbage collection, refresh, and the
//! extent map.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, MAP_UNIT_BYTES, SECOND, fault, within};
use super::policy_name::{self, is_default};
use super::switch::{self, Switch};
use super::{Firmware, Folding, Gc, Geometry, Profile, delay};
use byteway_clock::Delay;
use byteway_firmware::policy::{self, Named, WearPolicy};
use byteway_firmware::{DynamicCache, ExtentConfig, Maintenance};
use byteway_text::units::{Age, Bytes, Percent, Picos, excerpt};

/// Wear leveling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Which free block is written next, and whose data is moved: the name of a policy, in place of `dynamic` and `static_spread`.
    #[serde(
        default,
        deserialize_with = "policy_name::optional::<dyn policy::Wear, _>",
        skip_serializing_if = "Option::is_none"
    )]
    pub policy: Option<String>,
    /// Dynamic: the least worn free block is written next. Default: the one that has been free the longest.
    #[serde(default)]
    pub dynamic: bool,
    /// Static: when the erase counts of the most and the least worn block of a die differ by this much, cold
    /// data is moved, so that its block wears, too. Omitted or false: cold data stays.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<u32>")]
    pub static_spread: Option<u32>,
}

impl Firmware {
    /// Name of the wear policy: that which the profile names, or that of its other keys.
    pub(crate) fn wear_policy(&self) -> String {
        match &self.wear {
            Some(Wear { policy: Some(name), .. }) => name.clone(),
            Some(Wear { static_spread: Some(spread), .. }) => format!("static:{spread}"),
            Some(Wear { dynamic: true, .. }) => "dynamic".to_owned(),
            _ => Named::<dyn policy::Wear>::default().name().to_owned(),
        }
    }
}

/// Garbage collection while the host is idle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Idle time of the host before it starts.
    pub idle: Picos,
    /// Share of free blocks of a plane at which it stops.
    pub free: Percent,
}

/// Moving data before it becomes unreadable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refresh {
    /// Reads of a block since its erase after which it is moved, because reads disturb neighbouring cells.
    pub reads: u32,
    /// Age of data after which it is moved, because charge leaks.
    pub age: Age,
}

/// A map as a B+-tree of extents: runs of units that are contiguous in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtentTree {
    /// Size of a node. Default: 4 KiB.
    #[serde(default = "four_kib")]
    pub node: Bytes,
    /// Size of an extent in a leaf: first unit, location, length. Default: 24 B.
    #[serde(default = "extent_bytes")]
    pub extent: Bytes,
    /// Size of a child in an inner node. Default: 16 B.
    #[serde(default = "child_bytes")]
    pub child: Bytes,
    /// Fill level below which a node borrows entries of a neighbour, or merges with it. Default: 50 %.
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
    /// Sizes of its nodes.
    pub fn config(&self) -> ExtentConfig {
        ExtentConfig {
            node_bytes: self.node.0 as u32,
            entry_bytes: self.extent.0 as u32,
            child_bytes: self.child.0 as u32,
            fill_percent_min: self.fill.0 as u32,
        }
    }

    fn check(&self) -> Result<(), KeyError> {
        within("firmware.extents.node", self.node, Bytes(256), Bytes(1 << 20))?;
        let most = Bytes(self.node.0 / 4);
        within("firmware.extents.extent", self.extent, Bytes(1), most)?;
        within("firmware.extents.child", self.child, Bytes(1), most)?;
        within("firmware.extents.fill", self.fill, Percent(1.0), Percent(50.0))
    }
}

/// The range of virtual time.
pub(super) const AGE_MAX: Age = Age(200 * 86_400);

pub(super) fn ten_percent() -> Percent {
    Percent(10.0)
}

impl Profile {
    /// Background work on flash, with the wear policy that it names.
    pub fn maintenance(&self, geometry: &Geometry, wear: &WearPolicy) -> Maintenance {
        let Profile { firmware, flash, .. } = self;
        let free = |share: Percent| (share.of(geometry.blocks.into()) as u32).max(geometry.gc_start_blocks);
        Maintenance {
            wear: wear.clone(),
            spare_blocks: flash.spare_blocks,
            factory_bad_blocks: flash.factory_bad_blocks,
            background: firmware.gc.background.as_ref().map(|background| byteway_firmware::Background {
                idle: delay(background.idle),
                free_blocks: free(background.free),
            }),
            refresh: firmware.refresh.as_ref().map(|refresh| byteway_firmware::Refresh {
                reads: refresh.reads,
                age: Delay::from_s(refresh.age.0),
            }),
            slc_blocks: flash.slc.as_ref().map_or(0, |slc| slc.blocks),
            slc_dynamic: flash.slc.as_ref().map_or_else(DynamicCache::default, |slc| {
                let blocks = u64::from(geometry.blocks - slc.blocks);
                let share = |share: Percent| share.of(blocks) as u32;
                DynamicCache { most: slc.dynamic.map_or(0, share), until: share(slc.dynamic_until) }
            }),
            slc_folds_idle: flash.slc.as_ref().is_some_and(|slc| slc.fold == Folding::Idle),
        }
    }
}

impl Firmware {
    pub(super) fn check_upkeep(&self) -> Result<(), KeyError> {
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
        if self.read_cache.is_none() {
            let named = [
                ("firmware.admission", &self.admission, is_default::<dyn policy::Admission>(&self.admission)),
                ("firmware.prefetch", &self.prefetch, is_default::<dyn policy::Prefetch>(&self.prefetch)),
            ];
            if let Some((key, name, _)) = named.into_iter().find(|(.., is_default)| !is_default) {
                let what =
                    format!("`{key}` = `{}` is of a read cache, and the drive has none", excerpt(name));
                return Err(fault(key, what, "set `firmware.read_cache`, or leave it out"));
            }
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
        if let Some(wear) = &self.wear {
            wear.check()?;
        }
        if let Some(refresh) = &self.refresh {
            within("firmware.refresh.reads", refresh.reads, 100, u32::MAX)?;
            within("firmware.refresh.age", refresh.age, Age(1), AGE_MAX)?;
        }
        self.gc.check_background()
    }
}

impl Wear {
    fn check(&self) -> Result<(), KeyError> {
        if let Some(erases) = self.static_spread {
            within("firmware.wear.static_spread", erases, 1, 1_000_000)?;
        }
        // One of the two would decide nothing.
        let Some(policy) = &self.policy else { return Ok(()) };
        let (named, others) = match (self.static_spread, self.dynamic) {
            (None, false) => return Ok(()),
            (None, true) => ("dynamic".to_owned(), "`firmware.wear.dynamic`"),
            (Some(spread), false) => (format!("static:{spread}"), "`firmware.wear.static_spread`"),
            (Some(spread), true) => {
                (format!("static:{spread}"), "`firmware.wear.static_spread` and `firmware.wear.dynamic`")
            }
        };
        let what =
            format!("`firmware.wear.policy` = `{}`, and {others}, which say `{named}`", excerpt(policy));
        Err(fault("firmware.wear.policy", what, format!("leave out `policy`, or set {others} to false")))
    }
}

impl Gc {
    fn check_background(&self) -> Result<(), KeyError> {
        let Some(background) = &self.background else { return Ok(()) };
        within("firmware.gc.background.idle", background.idle, Picos(1_000_000), Picos(3600 * SECOND.0))?;
        within("firmware.gc.background.free", background.free, self.start, Percent(50.0))
    }
}
