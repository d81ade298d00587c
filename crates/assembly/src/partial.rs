//! A drive of which a part of the firmware runs on the host: FTL partitioning, which has the map there, or the collector's decisions
//! ("Challenges in getting flash closer to CPU", section 5, names both as ways between a drive with firmware of its own and one
//! without).
//!
//! - The map: look-ups for a command are work of the processor of its queue, and the places that it needs come with it; the host is
//!   told of every unit that is programmed, 16 bytes each. The drive has no map in its DRAM.
//! - Collection: before units are moved the host is asked, decides on its home processor, and answers with an entry of a queue. The
//!   data itself stays in the drive.
//!
//! What it does not do: neither part survives the power in the host; what a power cut leaves is what the drive's flash and capacitors
//! hold, from which the map is made anew, as in a drive of which the DRAM has it.

use crate::hosted::route_by_queue;
use byteway_clock::{Clock, Delay, Rate, Station, Time};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_firmware::{HostLink, Placement, Route, Site, Work};
use byteway_flash::Medium;
use byteway_link::{DeviceEnd, Direction};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// What of a drive's firmware runs on the host, and how fast that is.
#[derive(Clone, Copy, Debug)]
pub struct PartialConfig {
    /// The map is in the host's memory.
    pub map: bool,
    /// The host decides what is collected.
    pub collection: bool,
    /// Cycles a second of a processor of the host.
    pub hertz: u64,
    /// An access to its memory.
    pub dram_latency: Delay,
    /// Bytes a second of it.
    pub dram_rate: Rate,
}

/// The link, as firmware on both sides of it has it.
pub(crate) struct Crossing(pub(crate) DeviceEnd);

impl HostLink for Crossing {
    fn to_host(&self, bytes: u64) -> Time {
        self.0.tell(Direction::Up, bytes).arrival
    }

    fn to_drive(&self, bytes: u64) -> Time {
        self.0.tell(Direction::Down, bytes).arrival
    }
}

/// Gives power to a drive in `bay`, as [`DriveBay::power_on`] does, with a part of its firmware on `processors`, of which the last is
/// its home.
///
/// # Errors
/// There can be no such drive.
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
        placement = placement.with(Work::Translate, &host);
        let by_processor =
            processors.iter().map(|processor| placement.add_route(Work::Translate, &site(processor)));
        routes = by_processor.map(|route| route.unwrap_or(Route::OWN)).collect();
    }
    if partial.collection {
        placement = placement.with(Work::Collect, &host);
    }
    let link = Rc::new(Crossing(bay.device.clone()));
    let placement = placement.with_on_host(link, partial.map, partial.collection);
    let powered = bay.power_on_placed(config, own, placement, medium)?;
    route_by_queue(&powered, routes);
    Ok(powered)
}
