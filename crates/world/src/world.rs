//! A host and its drives.
//!
//! One executor runs all of it, so a world of several drives takes one core of the machine. Drives share nothing but
//! the host's processors: each has host memory of its own, and its random streams depend on its own configuration only.
//! So a drive's figures are the same as alone, unless a host processor is shared.

use crate::bay::DriveBay;
use crate::books::UnbalancedBooks;
use crate::drive::PoweredDrive;
use crate::host::Host;
use byteway_clock::{Clock, Owner};
use byteway_device::{ConfigError, DriveConfig};
use byteway_flash::Medium;
use byteway_link::{Memory, PcieConfig};
use std::rc::Rc;

/// A host and the powered drives at its links.
pub struct World {
    clock: Clock,
    /// The host. In a trace, its processors belong to the first drive.
    pub host: Host,
    drives: Vec<Rc<PoweredDrive>>,
}

impl World {
    /// A host with `processors` processors (at least one), and no drive.
    pub fn new(clock: &Clock, processors: u16) -> World {
        Self::around(clock, Host::new(clock, processors))
    }

    /// A world of this host, without drives.
    pub fn around(clock: &Clock, host: Host) -> World {
        World { clock: clock.clone(), host, drives: Vec::new() }
    }

    /// Adds a bay with simulated host memory, and a drive in it as [`DriveBay::power_on`]. In a trace, both belong to
    /// the owner with the drive's number ([`Owner`]).
    ///
    /// # Errors
    /// [`ConfigError`] if no such drive can exist.
    pub fn add(
        &mut self,
        name: Option<String>,
        link: PcieConfig,
        config: DriveConfig,
        medium: Option<Medium>,
    ) -> Result<&PoweredDrive, ConfigError> {
        let number = self.drives.len();
        let clock = self.clock.owned_by(Owner(number as u16));
        let bay = DriveBay { name, ..DriveBay::new(&clock, link, Memory::simulated()) };
        self.drives.push(Rc::new(bay.power_on(config, medium)?));
        Ok(&self.drives[number])
    }

    /// The drives, in the order of addition.
    pub fn drives(&self) -> &[Rc<PoweredDrive>] {
        &self.drives
    }

    /// Adds a powered drive with this name.
    pub fn hold(&mut self, name: Option<String>, mut drive: PoweredDrive) -> &PoweredDrive {
        drive.name = name;
        self.share(Rc::new(drive));
        &self.drives[self.drives.len() - 1]
    }

    /// Like [`World::hold`], for a named drive that has another owner, too: its JBOF.
    pub fn share(&mut self, drive: Rc<PoweredDrive>) {
        self.drives.push(drive);
    }

    /// Cuts the power of all drives, as [`PoweredDrive::power_off_all`]: the media of each, in the order of the drives.
    pub fn power_off(&self) -> Vec<Vec<Medium>> {
        self.drives.iter().map(|drive| drive.power_off_all()).collect()
    }

    /// Checks the books of all drives, as [`PoweredDrive::balance`].
    ///
    /// # Errors
    /// [`UnbalancedBooks`] of the first drive that has a difference.
    pub fn balance(&self) -> Result<(), UnbalancedBooks> {
        let is_several = self.drives.len() > 1;
        self.drives.iter().try_for_each(|drive| {
            let name = drive.name.as_ref().filter(|_| is_several);
            drive.balance().map_err(|error| UnbalancedBooks { drive: name.cloned(), ..error })
        })
    }
}
