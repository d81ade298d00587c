//! A powered drive in its bay, from power-on to power-off.

use byteway_device::{ConfigError, Controller, Drive};
use byteway_firmware::{Ftl, Site};
use byteway_flash::{Flash, Medium};
use byteway_link::{DeviceEnd, HostEnd, Link, Memory, PcieConfig};
use std::cell::Cell;
use std::rc::Rc;

/// A powered drive, at its link.
///
/// The drive and its link reference each other. Dropping this separates them, so that no run leaves a drive in memory.
/// The contents of the medium are then lost; [`PoweredDrive::power_off`] returns them.
pub struct PoweredDrive {
    /// Name in messages, if there are several drives.
    pub name: Option<String>,
    /// The link's end at the host.
    pub host: HostEnd,
    /// The link's end at the drive.
    pub device: DeviceEnd,
    /// The host memory at the link. [`HostEnd::memory`] returns the same after applying everything that has arrived.
    pub memory: Memory,
    /// The drive.
    pub drive: Rc<Drive>,
    /// The drives that store its data, if it has no flash of its own: endpoints whose flash the host's firmware
    /// controls. They have power and links of their own.
    pub behind: Vec<PoweredDrive>,
    /// The front is host software that is called: its link is not a real one.
    pub is_called: bool,
    /// The power is off.
    pub(crate) is_off: Cell<bool>,
    pub(crate) dma_granularity: u32,
}

/// The second port of a drive, as a host sees it: a link of its own, and the host memory there.
///
/// Dropping this separates link and drive, as for [`PoweredDrive`].
pub struct SecondPort {
    /// The link's end at the host.
    pub host: HostEnd,
    /// The link's end at the drive.
    pub device: DeviceEnd,
    /// The drive's controller at this port.
    pub controller: Controller,
}

impl Drop for SecondPort {
    fn drop(&mut self) {
        self.device.detach();
    }
}

impl PoweredDrive {
    /// Adds a second port to the drive, at a link to `memory`; see [`Drive::add_port`].
    ///
    /// # Errors
    /// [`ConfigError`] if the drive can't have a second port.
    pub fn add_port(&self, link: PcieConfig, memory: Memory) -> Result<SecondPort, ConfigError> {
        let (host, device) = Link::connect(self.device.clock(), link, memory);
        let controller = self.drive.add_port(&device)?.clone();
        Ok(SecondPort { host, device, controller })
    }

    /// Removes the drive from its slot while others continue: its registers read as all ones from now on, and commands
    /// in flight never complete. Returns its media, as [`PoweredDrive::power_off_all`].
    pub fn pull_out(&self) -> Vec<Medium> {
        self.device.detach();
        let media = self.power_off_all();
        self.device.announce_removal();
        media
    }

    /// Cuts the power of a drive with flash of its own, as [`PoweredDrive::power_off_all`].
    ///
    /// # Panics
    /// If its flash belongs to drives behind it.
    pub fn power_off(&self) -> Medium {
        self.power_off_all().pop().expect("the flash is the drive's own, and it has power")
    }

    /// Cuts the power, including that of the drives behind it; a power cut, unless the drive was shut down before.
    /// Returns the medium, or the media of the drives behind it in order. Call it once. Commands in flight never
    /// complete: drop the executor afterwards.
    pub fn power_off_all(&self) -> Vec<Medium> {
        if self.is_off.replace(true) {
            return Vec::new(); // it was removed before
        }
        let own = self.drive.power_off();
        own.into_iter().chain(self.behind.iter().flat_map(PoweredDrive::power_off_all)).collect()
    }

    /// The translation layers of its data: its own, or those of the drives behind it in order.
    pub fn layers(&self) -> Vec<&Ftl> {
        match self.drive.controller.backing().ftl() {
            Some(own) => vec![own],
            None => self.behind.iter().flat_map(PoweredDrive::layers).collect(),
        }
    }

    /// The sites of its hardware: its own, and those of the drives behind it; without its own if the front is software
    /// on the host.
    pub fn sites(&self) -> Vec<&Site> {
        let own = (!self.is_called).then_some(&self.drive.site);
        let endpoints = self.drive.controller.backing().ftl().is_some() && !self.behind.is_empty();
        let behind = if endpoints { &[][..] } else { &self.behind[..] };
        own.into_iter().chain(behind.iter().flat_map(PoweredDrive::sites)).collect()
    }

    /// The flash arrays of its data: its own, or those of the drives behind it in order.
    pub fn arrays(&self) -> Vec<&Flash> {
        let own = self.drive.controller.backing().ftl().and_then(|ftl| ftl.data_end().own());
        own.into_iter().chain(self.behind.iter().flat_map(PoweredDrive::arrays)).collect()
    }

    /// The host ends of the links between host and data: its own, or, if the front is software on the host, those of
    /// the drives behind it.
    pub fn links(&self) -> Vec<&HostEnd> {
        match self.is_called {
            false => vec![&self.host],
            true => self.behind.iter().flat_map(PoweredDrive::links).collect(),
        }
    }
}

impl Drop for PoweredDrive {
    fn drop(&mut self) {
        self.device.detach();
    }
}
