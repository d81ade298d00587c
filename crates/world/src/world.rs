//! A host and its drives.
//!
//! One executor has all of it, so a world of several drives takes one core of the machine. Drives have nothing in common but the
//! host's processors: each has its own host memory, and what is random in it follows from its own configuration. So a drive's
//! figures are those that it has alone, as long as no processor of the host is shared.

use crate::bay::DriveBay;
use crate::books::UnbalancedBooks;
use crate::drive::PoweredDrive;
use crate::host::Host;
use byteway_clock::{Clock, Owner};
use byteway_device::{ConfigError, DriveConfig};
use byteway_flash::Medium;
use byteway_link::{Memory, PcieConfig};
use std::rc::Rc;

/// A host and the drives at its links, which have power.
pub struct World {
    clock: Clock,
    /// The host. In a trace its processors are those of the first drive.
    pub host: Host,
    drives: Vec<Rc<PoweredDrive>>,
}

impl World {
    /// A host with so many processors, at least one, and no drive.
    pub fn new(clock: &Clock, processors: u16) -> World {
        Self::around(clock, Host::new(clock, processors))
    }

    /// This host, and no drive.
    pub fn around(clock: &Clock, host: Host) -> World {
        World { clock: clock.clone(), host, drives: Vec::new() }
    }

    /// Adds a bay with simulated host memory, and a drive in it as [`DriveBay::power_on`] does. In a trace what they use
    /// belongs to the owner with the drive's number ([`Owner`]).
    ///
    /// # Errors
    /// There can be no such drive.
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

    /// The drives, in the order in which they were added.
    pub fn drives(&self) -> &[Rc<PoweredDrive>] {
        &self.drives
    }

    /// Adds a drive that has power already, by this name.
    pub fn hold(&mut self, name: Option<String>, mut drive: PoweredDrive) -> &PoweredDrive {
        drive.name = name;
        self.share(Rc::new(drive));
        &self.drives[self.drives.len() - 1]
    }

    /// The same for one that has its name, and another owner beside the world: the box that it is in.
    pub fn share(&mut self, drive: Rc<PoweredDrive>) {
        self.drives.push(drive);
    }

    /// The power of all drives goes at once, as [`PoweredDrive::power_off_all`] says: the media of each, in the order of the drives.
    pub fn power_off(&self) -> Vec<Vec<Medium>> {
        self.drives.iter().map(|drive| drive.power_off_all()).collect()
    }

    /// Whether the books of each drive balance, as [`PoweredDrive::balance`] says.
    ///
    /// # Errors
    /// The first drive's that don't.
    pub fn balance(&self) -> Result<(), UnbalancedBooks> {
        let is_several = self.drives.len() > 1;
        self.drives.iter().try_for_each(|drive| {
            let name = drive.name.as_ref().filter(|_| is_several);
            drive.balance().map_err(|error| UnbalancedBooks { drive: name.cloned(), ..error })
        })
    }
}
