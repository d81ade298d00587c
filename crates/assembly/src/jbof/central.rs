//! A box whose drives have no firmware: the host's processors run it for all of them ("Espresso", 3.1; OC).
//!
//! What stands in front of each drive is a driver's block device on the host (LightNVM's pblk), as in [`hosted`](crate::hosted): a controller
//! that is called. All drives' firmware is at one site: the host's processors, which submissions and completions take as well, and its
//! DRAM, of which each drive's map has an even part. Flash and DMA are the drive's [`Hardware`], at the other end of its link.
//!
//! What crosses a drive's link: vectors of flash commands and their completions, units that are read from flash (for hosts, for the map,
//! for the collector), and units that are programmed. What a host writes is in the host's DRAM already, and what it reads goes to its
//! buffer itself.
//!
//! What it does not do: the hardware's own controller takes no time beyond the link's and the flash's. Nothing protects the host's DRAM:
//! what was not flushed may be lost with its power.

use super::platform::{CentralConfig, HostConfig};
use crate::partial::Crossing;
use byteway_clock::Clock;
use byteway_device::DriveConfig;
use byteway_firmware::{Hardware, VectorCosts};
use byteway_link::{HostEnd, Memory, PcieConfig};
use byteway_wire::content::UNIT_BYTES;
use byteway_world::DriveBay;
use std::rc::Rc;

/// A drive's hardware, and the host's end of its link.
pub(super) struct CentralDrive {
    pub(super) hardware: Hardware,
    pub(super) link: HostEnd,
}

impl CentralDrive {
    /// At a link of its own.
    pub(super) fn new(clock: &Clock, link: PcieConfig, central: &CentralConfig) -> CentralDrive {
        let DriveBay { host, device, .. } = DriveBay::new(clock, link, Memory::simulated());
        let CentralConfig { submit, complete, vector_units } = *central;
        let costs = VectorCosts { submit, complete, units_max: vector_units };
        CentralDrive { hardware: Hardware::new(Rc::new(Crossing(device)), costs), link: host }
    }
}

/// The drive as its firmware on the host has it: nothing protects the host's DRAM, which holds an even part of all maps, unless the drive's
/// own configuration says how much of its map is held.
pub(super) fn with_map_share(mut drive: DriveConfig, host: &HostConfig, drives: usize) -> DriveConfig {
    let held = host.dram_bytes / drives.max(1) as u64 / UNIT_BYTES as u64;
    let units_of_page =
        if drive.ftl.wide_map || drive.geometry.is_wide() { UNIT_BYTES / 8 } else { UNIT_BYTES / 4 };
    let pages = drive.user_units().div_ceil(units_of_page as u64);
    if drive.ftl.map_cache_pages.is_none() && held < pages {
        drive.ftl.map_cache_pages = Some(held.max(1) as u32);
    }
    drive.ftl.plp = false;
    drive
}
