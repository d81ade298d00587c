//! A drive with a part of its firmware on the host: FTL partitioning, with the map there, or the decisions of garbage
//! collection ("Challenges in getting flash closer to CPU", section 5, names both as designs between a drive with
//! firmware of its own and one without).
//!
//! - The map: look-ups for a command run on the processor of its queue, and the resulting addresses are sent with the
//!   command; the host is notified of every programmed unit, 16 bytes each. The drive has no map in its DRAM.
//! - Garbage collection: before units are moved the drive asks the host, which decides on its home processor, and
//!   answers with a queue entry. The data itself stays in the drive.
//!
//! What it does not do: neither part is non-volatile in the host. After a power cut the map is rebuilt from the drive's
//! flash and what capacitors saved, as in a drive with the map in its DRAM.

use crate::hosted::route_by_queue;
use byteway_clock::{Clock, Delay, Rate, Station, Time};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_firmware::{HostLink, Placement, Route, Site, WorkKind};
use byteway_flash::Medium;
use byteway_link::{DeviceEnd, Direction};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// Which part of a drive's firmware runs on the host, and the host's speed.
#[derive(Clone, Copy, Debug)]
pub struct PartialConfig {
    /// The map is in the host's memory.
    pub map: bool,
    /// Whether the host decides on garbage collection.
    pub collection: bool,
    /// Clock of a host processor, in hertz.
    pub hertz: u64,
    /// Latency of an access to host memory.
    pub dram_latency: Delay,
    /// Bandwidth of host memory, in bytes per second.
    pub dram_rate: Rate,
}

/// The link, as firmware on both sides sees it.
pub struct Crossing(pub DeviceEnd);

impl HostLink for Crossing {
    fn to_host(&self, bytes: u64) -> Time {
        self.0.tell(Direction::Up, bytes).arrival
    }

    fn to_drive(&self, bytes: u64) -> Time {
        self.0.tell(Direction::Down, bytes).arrival
    }
}

/// Powers on a drive in `bay`, as [`DriveBay::power_on`], with a part of its firmware on `processors`, of which the
/// last is its home.
///
/// # Errors
/// [`ConfigError`] if no such drive can exist.
pub fn power_on_partial(
    clock: &Clock,
    bay: DriveBay,
    config: DriveConfig,
    partial: PartialConfig,
    processors: &[Rc<Station>],
    medium: Option<Medium>,
) -> Result<PoweredDrive, ConfigError> {
    let impossible = |message: &str| Err(ConfigError { message: message.to_owned() });
    let Some(home) = processors.last() else {
        return impossible(
            "a part of the firmware is to run on the host, which has no processor for it (cores)",
        );
    };
    if partial.map && config.ftl.map_cache_pages.is_some() {
        return impossible("a map on the host is all in its memory: the drive has no map_cache");
    }
    let site = |processor: &Rc<Station>| {
        Site::over(clock, processor.clone(), partial.hertz, partial.dram_latency, partial.dram_rate)
    };
    let (own, host) = (Drive::site(clock, &config), site(home));
    let mut placement = Placement::all_at(&own, config.site.cycles);
    let mut routes: Vec<Route> = Vec::new();
    if partial.map {
        placement = placement.with(WorkKind::Translate, &host);
        let by_processor =
            processors.iter().map(|processor| placement.add_route(WorkKind::Translate, &site(processor)));
        routes = by_processor.map(|route| route.unwrap_or(Route::OWN)).collect();
    }
    if partial.collection {
        placement = placement.with(WorkKind::Collect, &host);
    }
    let link = Rc::new(Crossing(bay.device.clone()));
    let placement = placement.with_on_host(link, partial.map, partial.collection);
    let powered = bay.power_on_placed(config, own, placement, medium)?;
    route_by_queue(&powered, routes);
    Ok(powered)
}
