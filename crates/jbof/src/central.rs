//! A JBOF whose drives have no firmware: the host's processors run it for all of them ("Espresso", 3.1; OC).
//!
//! In front of each drive is a driver's block device on the host (LightNVM's pblk), as in [`hosted`](crate::hosted): a
//! controller that is called. The firmware of all drives runs at one site: the host's processors, which also submit and
//! complete, and its DRAM, of which each drive's map has an equal part. Flash and DMA are the drive's [`Hardware`], at
//! the other end of its link.
//!
//! A drive's link carries vectors of flash commands and their completions, units read from flash (for hosts, for the
//! map, for garbage collection), and units to program. Data that a host writes is already in the host's DRAM, and data
//! that it reads goes directly to its buffer.
//!
//! What it does not do: the hardware's own controller takes no time beyond that of link and flash. Nothing protects the
//! host's DRAM: unflushed data may be lost with its power.

use super::platform::{CentralConfig, HostConfig};
use byteway_assembly::partial::Crossing;
use byteway_clock::Clock;
use byteway_content::UNIT_BYTES;
use byteway_device::DriveConfig;
use byteway_firmware::{Hardware, VectorCosts};
use byteway_link::{HostEnd, Memory, PcieConfig};
use byteway_world::DriveBay;
use std::rc::Rc;

/// A drive's hardware, and the host's end of its link.
pub(super) struct CentralDrive {
    pub(super) hardware: Hardware,
    pub(super) link: HostEnd,
}

impl CentralDrive {
    /// The hardware at a link of its own.
    pub(super) fn new(clock: &Clock, link: PcieConfig, central: &CentralConfig) -> CentralDrive {
        let DriveBay { host, device, .. } = DriveBay::new(clock, link, Memory::simulated());
        let CentralConfig { submit, complete, vector_units } = *central;
        let costs = VectorCosts { submit, complete, units_max: vector_units };
        CentralDrive { hardware: Hardware::new(Rc::new(Crossing(device)), costs), link: host }
    }
}

/// The drive as the host's firmware runs it: without power-loss protection, and with an equal part of the host's DRAM
/// for its map, unless its own configuration sets that part.
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
