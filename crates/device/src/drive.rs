//! A drive put together: a controller at the device's end of a link, or two, its firmware's site, its flash.

use crate::backing::Backing;
use crate::config::{ConfigError, DriveConfig};
use crate::controller::Controller;
use crate::controller::namespace::Namespace;
use byteway_clock::Clock;
use byteway_clock::random::Rng;
use byteway_firmware::{Ftl, FtlConfig, FtlError, MediumError, Placement, Region, Rhythm, Site};
use byteway_flash::file::{Files, Opened, Tuning};
use byteway_flash::{FlashConfig, Medium};
use byteway_link::DeviceEnd;
use std::cell::OnceCell;
use std::sync::Arc;

/// A drive.
pub struct Drive {
    /// Its controller; with two ports that at the first.
    pub controller: Controller,
    second: OnceCell<Controller>,
    /// Its own cores and DRAM, whether or not its firmware runs there.
    pub site: Site,
}

impl Drive {
    /// The cores and DRAM of a drive: made first where another drive's firmware is to run on them.
    pub fn site(clock: &Clock, config: &DriveConfig) -> Site {
        let site = &config.site;
        Site::new(clock, site.cores as usize, site.hertz, site.dram_latency, site.dram_rate).traced()
    }

    /// The medium of a drive that is new.
    pub fn medium(config: &DriveConfig) -> Result<Medium, ConfigError> {
        config.validate()?;
        let mut medium = Ftl::medium(config.geometry, &ftl_config(config))?;
        medium.rest(config.media.age);
        wear_in(&mut medium, config);
        Ok(medium)
    }

    /// The medium that is kept in these files, or a new one in them if there are none. `config` is to be without
    /// power-loss protection: nothing protects a process.
    ///
    /// # Errors
    /// There can be no such drive, or the files are not its.
    pub fn open_medium(config: &DriveConfig, files: Arc<dyn Files>) -> Result<(Medium, Opened), ConfigError> {
        Self::open_medium_tuned(config, files, Tuning::default())
    }

    /// The same, whose checkpoints are written when `tuning` says.
    ///
    /// # Errors
    /// As [`Drive::open_medium`].
    pub fn open_medium_tuned(
        config: &DriveConfig,
        files: Arc<dyn Files>,
        tuning: Tuning,
    ) -> Result<(Medium, Opened), ConfigError> {
        config.validate()?;
        let (mut medium, opened) =
            Ftl::open_medium(config.geometry, &config.timing, &ftl_config(config), files, tuning)?;
        if opened.created {
            medium.rest(config.media.age);
        }
        wear_in(&mut medium, config);
        Ok((medium, opened))
    }

    /// Gives power to a drive over the medium that one with the same `config` has left. Its firmware runs where `placement` says;
    /// `site` is its own.
    ///
    /// # Errors
    /// There can be no such drive.
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

    /// A drive whose data is not on flash of its own: `backing` is a translation layer that runs elsewhere, that of a drive with this
    /// `config`, or an array of drives. To a host it is a drive like any other. `placement` says where its firmware runs, and
    /// `site` is what it has itself.
    ///
    /// # Errors
    /// There can be no such drive.
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

    /// The translation layer's parameters of a drive with this `config`, with those that follow from the drive.
    pub fn ftl_config(config: &DriveConfig) -> FtlConfig {
        ftl_config(config)
    }

    /// Gives the drive a second port, at a link of its own, with a controller for another host: a dual-ported NVM subsystem (NVMe Base
    /// 2.1, 2.4). Both controllers have the same namespaces, attached to both or to none, and work at once. A reset or shutdown of
    /// one leaves the other working. To be called before a host has asked the drive what it is.
    ///
    /// Saved features, the timestamp and the count of errors that outlive the power are the first controller's; the second's
    /// features can't be saved.
    ///
    /// # Errors
    /// It has two ports, or is one that can have one only.
    pub fn add_port(&self, port: &DeviceEnd) -> Result<&Controller, ConfigError> {
        self.controller.core().config.check_second_port()?;
        let mut added = false;
        let second = self.second.get_or_init(|| {
            added = true;
            self.controller.start_beside(port)
        });
        match added {
            true => Ok(second),
            false => Err(ConfigError { message: "a drive has two ports at most".to_owned() }),
        }
    }

    /// Its controllers, in the order of its ports.
    pub fn controllers(&self) -> impl Iterator<Item = &Controller> {
        [&self.controller].into_iter().chain(self.second.get())
    }

    /// The power goes. Gives the medium, if the drive has one of its own. Its tasks end: what was asked of it never does.
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

/// Superblocks of a worn drive differ by a tenth of the mean at most, as where wear is levelled.
fn wear_in(medium: &mut Medium, config: &DriveConfig) {
    let mean = config.media.worn_erases;
    if mean == 0 {
        return;
    }
    let scatter = mean / 20;
    let mut stream = Rng::new(config.seed).stream("wear");
    medium.wear_in(|_| mean - scatter + stream.below(u64::from(2 * scatter) + 1) as u32);
}

/// The translation layer's parameters, with those that follow from the drive.
fn ftl_config(config: &DriveConfig) -> FtlConfig {
    let namespaces = Namespace::layout(&config.namespaces);
    // The pattern that a preconditioned block holds names its namespace and its address there.
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
        rhythm: Rhythm::of(&config.geometry, &config.timing),
        base: config.base,
        regions,
        keep: config.keep,
        ..config.ftl.clone()
    };
    FtlConfig { rhythm: config.rhythm.with_map_of(&config), ..config }
}
