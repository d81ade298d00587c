//! A drive put together: a controller at the device's end of a link, its firmware's site, its flash.

use crate::config::{ConfigError, DriveConfig};
use crate::controller::Controller;
use crate::controller::namespace::Namespace;
use byteway_clock::Clock;
use byteway_firmware::{Ftl, FtlConfig, FtlError, Placement, Region, Site};
use byteway_link::DeviceEnd;
use byteway_wire::content::UNIT_BYTES;

/// A drive.
pub struct Drive {
    /// Its controller.
    pub controller: Controller,
    /// Its own cores and DRAM, whether or not its firmware runs there.
    pub site: Site,
}

impl Drive {
    /// The cores and DRAM of a drive: made first where another drive's firmware is to run on them.
    pub fn site(clock: &Clock, config: &DriveConfig) -> Site {
        let site = &config.site;
        Site::new(clock, site.cores as usize, site.hertz, site.dram_latency, site.dram_rate).traced()
    }

    /// A drive whose firmware runs on its own cores.
    pub fn new(port: &DeviceEnd, config: DriveConfig) -> Result<Drive, ConfigError> {
        let site = Self::site(port.clock(), &config);
        let placement = Placement::all_at(&site, config.site.cycles);
        Self::placed(port, config, site, placement)
    }

    /// A drive whose firmware runs where `placement` says; `site` is its own.
    pub fn placed(
        port: &DeviceEnd,
        config: DriveConfig,
        site: Site,
        placement: Placement,
    ) -> Result<Drive, ConfigError> {
        config.validate()?;
        let ftl = Ftl::new(
            port.clock(),
            placement.clone(),
            config.geometry,
            config.timing.clone(),
            ftl_config(&config),
        )
        .map_err(|error: FtlError| ConfigError { message: error.to_string() })?;
        let controller = Controller::start(port, config, placement, ftl);
        Ok(Drive { controller, site })
    }
}

fn ftl_config(config: &DriveConfig) -> FtlConfig {
    let namespaces = Namespace::layout(&config.namespaces);
    // The pattern that a preconditioned block holds names its namespace and its address there.
    let regions = namespaces
        .iter()
        .map(|namespace| Region {
            first_unit: namespace.first_unit,
            tag: namespace.nsid as u16,
            block: namespace.block,
        })
        .collect();
    let policy = &config.ftl;
    FtlConfig {
        user_units: config.user_units(),
        write_buffer_units: (policy.write_buffer_bytes / UNIT_BYTES as u64).min(u64::from(u32::MAX)) as u32,
        gc: policy.victim,
        gc_start_free_blocks: policy.collect_start_blocks,
        gc_reserve_blocks: policy.collect_reserve_blocks,
        plp: policy.power_loss_protection,
        seed: config.seed,
        base: config.base,
        regions,
        keep: config.keep,
    }
}
