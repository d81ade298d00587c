//! A drive in its bay, from power-on to the end of the power.

use byteway_device::{ConfigError, Controller, Drive};
use byteway_firmware::{Ftl, Site};
use byteway_flash::{Flash, Medium};
use byteway_link::{DeviceEnd, HostEnd, Link, Memory, PcieConfig};
use std::cell::Cell;
use std::rc::Rc;

/// A drive that has power, at its link.
///
/// The drive and its link hold each other. Dropping this parts them, so that no run leaves a drive in memory behind; what the
/// medium holds is then lost, and [`PoweredDrive::power_off`] gives it.
pub struct PoweredDrive {
    /// What it is called in messages, where there are several.
    pub name: Option<String>,
    /// The link's end at the host.
    pub host: HostEnd,
    /// The link's end at the drive.
    pub device: DeviceEnd,
    /// The host memory behind the link. [`HostEnd::memory`] is the same, with everything that has arrived by now.
    pub memory: Memory,
    /// The drive.
    pub drive: Rc<Drive>,
    /// What its data is on, if that is not its own: the endpoints whose flash the host's firmware commands. They have power of their
    /// own, and the books of their own links.
    pub behind: Vec<PoweredDrive>,
    /// What is in front of what is behind it is software of the host's, which is called: its link is none.
    pub is_called: bool,
    /// Its power is off.
    pub(crate) is_off: Cell<bool>,
    pub(crate) dma_granularity: u32,
}

/// The second port of a drive, as a host has it: a link, and the host memory behind it, of its own.
///
/// As [`PoweredDrive`] does for the first, dropping this parts the link from the drive.
pub struct SecondPort {
    /// The link's end at the host.
    pub host: HostEnd,
    /// The link's end at the drive.
    pub device: DeviceEnd,
    /// The drive's controller there.
    pub controller: Controller,
}

impl Drop for SecondPort {
    fn drop(&mut self) {
        self.device.detach();
    }
}

impl PoweredDrive {
    /// Gives the drive a second port, at a link to `memory`, as [`Drive::add_port`] says.
    ///
    /// # Errors
    /// The drive can't have one.
    pub fn add_port(&self, link: PcieConfig, memory: Memory) -> Result<SecondPort, ConfigError> {
        let (host, device) = Link::connect(self.device.clock(), link, memory);
        let controller = self.drive.add_port(&device)?.clone();
        Ok(SecondPort { host, device, controller })
    }

    /// It is pulled out of its slot while others go on: its registers read as all ones from now on, and what was asked of it never
    /// ends. Gives what it holds, as [`PoweredDrive::power_off_all`] does.
    pub fn pull_out(&self) -> Vec<Medium> {
        self.device.detach();
        let media = self.power_off_all();
        self.device.announce_removal();
        media
    }

    /// The power of a drive whose flash is its own goes: [`PoweredDrive::power_off_all`].
    ///
    /// # Panics
    /// Its flash is that of drives behind it.
    pub fn power_off(&self) -> Medium {
        self.power_off_all().pop().expect("the flash is the drive's own, and it has power")
    }

    /// The power goes, of what is behind the drive as well; unless the drive was shut down before, this is a power cut. Gives the
    /// medium, or those of the drives behind it in their order; to be called once. From now on nothing that was asked of the drive
    /// ends: its executor is to be dropped.
    pub fn power_off_all(&self) -> Vec<Medium> {
        if self.is_off.replace(true) {
            return Vec::new(); // it was pulled out before
        }
        let own = self.drive.power_off();
        own.into_iter().chain(self.behind.iter().flat_map(PoweredDrive::power_off_all)).collect()
    }

    /// The translation layers that its data goes through: its own, or those of the drives behind it in their order.
    pub fn layers(&self) -> Vec<&Ftl> {
        match self.drive.controller.backing().ftl() {
            Some(own) => vec![own],
            None => self.behind.iter().flat_map(PoweredDrive::layers).collect(),
        }
    }

    /// The cores of the drives that it is: its own, and those of the drives behind it; of one that is called none are its own, but the
    /// host's.
    pub fn sites(&self) -> Vec<&Site> {
        let own = (!self.is_called).then_some(&self.drive.site);
        let endpoints = self.drive.controller.backing().ftl().is_some() && !self.behind.is_empty();
        let behind = if endpoints { &[][..] } else { &self.behind[..] };
        own.into_iter().chain(behind.iter().flat_map(PoweredDrive::sites)).collect()
    }

    /// The flash arrays that hold its data: its own, or those of the drives behind it in their order.
    pub fn arrays(&self) -> Vec<&Flash> {
        let own = self.drive.controller.backing().ftl().and_then(|ftl| ftl.data_end().own());
        own.into_iter().chain(self.behind.iter().flat_map(PoweredDrive::arrays)).collect()
    }

    /// The links between the host and its data, at the host's end: its own, or, of one that is called, those of the drives behind it, to
    /// which the host's software talks.
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
