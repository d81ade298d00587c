//! An assembled drive: a controller at the device's end of each link (one or two), the site of its firmware, its flash.

use crate::backing::Backing;
use crate::config::{ConfigError, DriveConfig};
use crate::controller::Controller;
use crate::controller::namespace::Namespace;
use byteway_clock::Clock;
use byteway_clock::random::Rng;
use byteway_firmware::{Ftl, FtlConfig, FtlError, MediumError, Placement, Region, Site, SteadyTiming};
use byteway_flash::file::{Files, OpenReport, Tuning};
use byteway_flash::{FlashConfig, Medium};
use byteway_link::DeviceEnd;
use std::cell::OnceCell;
use std::sync::Arc;

/// A drive.
pub struct Drive {
    /// The controller; of a drive with two ports, that at the first port.
    pub controller: Controller,
    second: OnceCell<Controller>,
    /// The drive's own cores and DRAM, whether or not its firmware runs there.
    pub site: Site,
}

impl Drive {
    /// The cores and DRAM of a drive. Made before the drive if another drive's firmware is to run on them.
    pub fn site(clock: &Clock, config: &DriveConfig) -> Site {
        let site = &config.site;
        Site::new(clock, site.cores as usize, site.hertz, site.dram_latency, site.dram_rate).traced()
    }

    /// The media of a new drive.
    pub fn medium(config: &DriveConfig) -> Result<Medium, ConfigError> {
        config.validate()?;
        let mut medium = Ftl::medium(config.geometry, &ftl_config(config))?;
        medium.rest(config.media.age);
        wear_in(&mut medium, config);
        Ok(medium)
    }

    /// Opens the media stored in `files`, or creates new media there. `config` must not have power-loss protection:
    /// nothing protects a process.
    ///
    /// # Errors
    /// [`ConfigError`] if no such drive can exist, or the files are of another drive.
    pub fn open_medium(
        config: &DriveConfig,
        files: Arc<dyn Files>,
    ) -> Result<(Medium, OpenReport), ConfigError> {
        Self::open_medium_tuned(config, files, Tuning::default())
    }

    /// Like [`Drive::open_medium`], with checkpoints written as `tuning` says.
    ///
    /// # Errors
    /// Same as [`Drive::open_medium`].
    pub fn open_medium_tuned(
        config: &DriveConfig,
        files: Arc<dyn Files>,
        tuning: Tuning,
    ) -> Result<(Medium, OpenReport), ConfigError> {
        config.validate()?;
        let (mut medium, opened) =
            Ftl::open_medium(config.geometry, &config.timing, &ftl_config(config), files, tuning)?;
        if opened.created {
            medium.rest(config.media.age);
        }
        wear_in(&mut medium, config);
        Ok((medium, opened))
    }

    /// Powers on a drive over the media of a drive with the same `config`. Its firmware runs where
    /// `placement` says; `site` is the drive's own.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration is invalid.
    pub fn power_on(
        port: &DeviceEnd,
        config: DriveConfig,
        site: Site,
        placement: Placement,
        medium: Medium,
    ) -> Result<Drive, ConfigError> {
        config.validate()?;
        let flash = FlashConfig {
            timing: config.timing.clone(),
            reliability: config.media.reliability.clone(),
            faults: config.media.faults.clone(),
            rng: Rng::new(config.seed),
        };
        let (clock, ftl) = (port.clock(), ftl_config(&config));
        let ftl = Ftl::power_on(clock, placement.clone(), config.geometry, flash, ftl, medium)?;
        let controller = Controller::start(port, config, placement, ftl.into());
        Ok(Drive { controller, second: OnceCell::new(), site })
    }

    /// A drive over `backing`, which is the translation layer of a drive with this `config` that runs
    /// elsewhere, or an array of drives. To a host it is a drive like any other. `placement` says where its
    /// firmware runs; `site` is the drive's own.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration is invalid.
    pub fn over(
        port: &DeviceEnd,
        config: DriveConfig,
        site: Site,
        placement: Placement,
        backing: impl Into<Backing>,
    ) -> Result<Drive, ConfigError> {
        let backing = backing.into();
        match &backing {
            Backing::Ftl(_) => config.validate()?,
            Backing::Array(_) | Backing::Bridge(_) => config.validate_over_array(backing.user_units())?,
        }
        let controller = Controller::start(port, config, placement, backing);
        Ok(Drive { controller, second: OnceCell::new(), site })
    }

    /// The translation layer's parameters for `config`, including those derived from the drive.
    pub fn ftl_config(config: &DriveConfig) -> FtlConfig {
        ftl_config(config)
    }

    /// Adds a second port, at a link of its own, with a controller for another host: a dual-ported NVM subsystem (NVMe
    /// Base 2.1, 2.4). Both controllers share all namespaces, each attached to both or to none, and work at once. A
    /// reset or shutdown of one leaves the other working. Call it before a host identifies the drive.
    ///
    /// Saved features, the timestamp and the non-volatile error count are the first controller's; the second's features
    /// can't be saved.
    ///
    /// # Errors
    /// [`ConfigError`] if the drive has two ports already, or its configuration allows only one.
    pub fn add_port(&self, port: &DeviceEnd) -> Result<&Controller, ConfigError> {
        self.controller.core().config.check_second_port()?;
        let mut added = false;
        let second = self.second.get_or_init(|| {
            added = true;
            self.controller.start_peer(port)
        });
        match added {
            true => Ok(second),
            false => Err(ConfigError { message: "a drive has two ports at most".to_owned() }),
        }
    }

    /// The controllers, in the order of their ports.
    pub fn controllers(&self) -> impl Iterator<Item = &Controller> {
        [&self.controller].into_iter().chain(self.second.get())
    }

    /// Cuts the power. Returns the media, if the drive has media of its own. Its tasks end, and commands in flight
    /// never complete.
    pub fn power_off(&self) -> Option<Medium> {
        self.second.get().into_iter().for_each(Controller::detach);
        let medium = self.controller.power_off();
        self.controllers().for_each(Controller::end_tasks);
        medium
    }
}

impl From<MediumError> for ConfigError {
    fn from(error: MediumError) -> Self {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            message = format!("{message}: {error}");
            source = error.source();
        }
        ConfigError { message }
    }
}

impl From<FtlError> for ConfigError {
    fn from(error: FtlError) -> Self {
        ConfigError { message: error.to_string() }
    }
}

/// Sets the erase counts of a worn drive: superblocks differ by at most a tenth of the mean, as wear leveling leaves
/// them.
fn wear_in(medium: &mut Medium, config: &DriveConfig) {
    let mean = config.media.worn_erases;
    if mean == 0 {
        return;
    }
    let scatter = mean / 20;
    let mut stream = Rng::new(config.seed).stream("wear");
    medium.wear_in(|_| mean - scatter + stream.below(u64::from(2 * scatter) + 1) as u32);
}

/// The translation layer's parameters, including those derived from the drive.
fn ftl_config(config: &DriveConfig) -> FtlConfig {
    let namespaces = Namespace::layout(&config.namespaces);
    // The pattern in a preconditioned block names the namespace and the address of that block.
    let regions = namespaces
        .iter()
        .map(|namespace| Region {
            first_unit: namespace.first_unit(),
            tag: namespace.nsid as u16,
            block: namespace.block,
        })
        .collect();
    let config = FtlConfig {
        user_units: config.user_units(),
        is_bare: config.is_raw(),
        wide_map: config.ftl.wide_map || config.geometry.is_wide(),
        seed: config.seed,
        rhythm: SteadyTiming::of(&config.geometry, &config.timing),
        base: config.base,
        regions,
        keep: config.keep,
        ..config.ftl.clone()
    };
    FtlConfig { rhythm: config.rhythm.with_map_of(&config), ..config }
}
