//! A drive in its bay, from power-on to the end of the power.

use byteway_device::{ConfigError, Controller, Drive};
use byteway_flash::Medium;
use byteway_link::{DeviceEnd, HostEnd, Link, Memory, PcieConfig};
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

    /// The power goes; unless the drive was shut down before, this is a power cut. Gives the medium, to be called once. From now on
    /// nothing that was asked of the drive ends: its executor is to be dropped.
    pub fn power_off(&self) -> Medium {
        self.drive.power_off()
    }
}

impl Drop for PoweredDrive {
    fn drop(&mut self) {
        self.device.detach();
    }
}
