//! A bay: the place where a drive is attached.

use crate::drive::PoweredDrive;
use byteway_clock::Clock;
use byteway_device::{Backing, ConfigError, Drive, DriveConfig};
use byteway_firmware::{Placement, Site};
use byteway_flash::Medium;
use byteway_link::{DeviceEnd, HostEnd, Link, Memory, PcieConfig, Switch};
use std::cell::Cell;
use std::rc::Rc;

/// A link and the host memory that a drive reaches over it, as behind an IOMMU: no other drive reaches it.
pub struct DriveBay {
    pub(crate) name: Option<String>,
    /// The link's end at the host.
    pub host: HostEnd,
    /// The link's end at the drive.
    pub device: DeviceEnd,
    /// The host memory that the drive reaches.
    pub memory: Memory,
}

impl DriveBay {
    /// A bay without a drive. In a trace, everything in it belongs to `clock`'s owner.
    pub fn new(clock: &Clock, link: PcieConfig, memory: Memory) -> DriveBay {
        let (host, device) = Link::connect(clock, link, memory.clone());
        DriveBay { name: None, host, device, memory }
    }

    /// Like [`DriveBay::new`], at a port of a switch.
    pub fn behind(switch: &Switch, clock: &Clock, link: PcieConfig, memory: Memory) -> DriveBay {
        let (host, device) = Link::connect_behind(switch, clock, link, memory.clone());
        DriveBay { name: None, host, device, memory }
    }

    /// Powers on a drive in this bay: over the `medium` that one with the same `config` has left, or a new one.
    ///
    /// # Errors
    /// [`ConfigError`] if no such drive can exist.
    pub fn power_on(self, config: DriveConfig, medium: Option<Medium>) -> Result<PoweredDrive, ConfigError> {
        let site = Drive::site(self.device.clock(), &config);
        let placement = Placement::all_at(&site, config.site.cycles);
        self.power_on_placed(config, site, placement, medium)
    }

    /// Like [`DriveBay::power_on`], for a drive whose firmware runs where `placement` says; `site` is its own
    /// ([`Drive::site`]).
    ///
    /// # Errors
    /// Same as [`DriveBay::power_on`].
    pub fn power_on_placed(
        self,
        config: DriveConfig,
        site: Site,
        placement: Placement,
        medium: Option<Medium>,
    ) -> Result<PoweredDrive, ConfigError> {
        let dma_granularity = config.controller.dma_granularity;
        let medium = match medium {
            Some(medium) => medium,
            None => Drive::medium(&config)?,
        };
        let drive = Drive::power_on(&self.device, config, site, placement, medium)?;
        Ok(self.hold(drive, dma_granularity, Vec::new()))
    }

    /// Powers on a drive in this bay whose data is stored in `behind`: a translation layer that runs
    /// elsewhere, or an array ([`Drive::over`]).
    ///
    /// # Errors
    /// Same as [`DriveBay::power_on`].
    pub fn power_on_over(
        self,
        config: DriveConfig,
        site: Site,
        placement: Placement,
        backing: impl Into<Backing>,
        behind: Vec<PoweredDrive>,
    ) -> Result<PoweredDrive, ConfigError> {
        let dma_granularity = config.controller.dma_granularity;
        let drive = Drive::over(&self.device, config, site, placement, backing)?;
        Ok(self.hold(drive, dma_granularity, behind))
    }

    fn hold(self, drive: Drive, dma_granularity: u32, behind: Vec<PoweredDrive>) -> PoweredDrive {
        let DriveBay { name, host, device, memory } = self;
        PoweredDrive {
            name,
            host,
            device,
            memory,
            drive: Rc::new(drive),
            behind,
            is_called: false,
            is_off: Cell::default(),
            dma_granularity,
        }
    }
}
