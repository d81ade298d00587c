//! Checks of a drive's configuration that involve several fields.

use crate::config::{CommandSet, ConfigError, DriveConfig};
use crate::controller::namespace::Namespace;

impl DriveConfig {
    /// Checks what involves several fields.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let c = &self.controller;
        let checks = [
            ((1..=4096).contains(&c.io_queues_max), "controller.io_queues_max must be from 1 to 4096"),
            (
                (2..=65536).contains(&c.queue_entries_max),
                "controller.queue_entries_max must be from 2 to 65536",
            ),
            ((1..=65536).contains(&c.command_slots), "controller.command_slots must be from 1 to 65536"),
            (
                (1..=1024).contains(&c.fetch_outstanding),
                "controller.fetch_outstanding must be from 1 to 1024",
            ),
            ((1..=64).contains(&c.fetch_burst), "controller.fetch_burst must be from 1 to 64"),
            (
                c.transfer_bytes_max.is_power_of_two() && (8192..=1 << 24).contains(&c.transfer_bytes_max),
                "controller.transfer_bytes_max must be a power of two from 8 KiB to 16 MiB",
            ),
            (
                c.dma_granularity.is_power_of_two() && c.dma_granularity <= 4096,
                "controller.dma_granularity must be a power of two from 1 B to 4 KiB",
            ),
            (c.dstrd <= 8, "controller.dstrd must be from 0 to 8"),
            (
                // Each queue pair, the admin queue's included, has two words in one page.
                !c.shadow_doorbells || c.io_queues_max < 512 >> c.dstrd.min(9),
                "controller.shadow_doorbells needs the doorbells of all queues to fit in 4 KiB",
            ),
            (
                c.host_buffer.is_none() || self.ftl.map_cache_pages.is_some(),
                "controller.host_buffer requires a cached map (firmware.map_cache)",
            ),
            (
                c.host_buffer.is_none_or(|buffer| {
                    (1..=buffer.preferred_units).contains(&buffer.least_units)
                        && buffer.preferred_units <= 1 << 20
                }),
                "controller.host_buffer must be at most 4 GiB, and its minimum from 4 KiB to that",
            ),
            ((1..=2048).contains(&c.vectors), "controller.vectors must be from 1 to 2048"),
            (
                c.arbitration_burst.is_power_of_two() && c.arbitration_burst <= 128,
                "controller.arbitration_burst must be a power of two from 1 to 128 (128: no limit)",
            ),
        ];
        first_broken(&checks)?;
        let checked = self.transfer.check(c.transfer_bytes_max);
        checked.map_err(|message| ConfigError { message: message.to_owned() })?;
        let checks = [
            (self.endurance_erases > 0, "flash.endurance must be at least 1"),
            ((1..=1024).contains(&self.site.cores), "firmware.cores must be from 1 to 1024"),
            (self.site.hertz >= 1_000_000, "firmware.clock must be at least 1 MHz"),
            (
                !self.namespaces.is_empty() && self.namespaces.len() <= 1024,
                "a drive must have 1 to 1024 namespaces",
            ),
            (self.namespaces.iter().all(|n| n.units > 0), "a namespace must have at least 4 KiB"),
        ];
        first_broken(&checks)?;
        CommandSet::ALL.iter().try_for_each(|set| set.check_config(self))?;
        let checks = [
            (
                self.model.is_ascii() && self.model.len() <= 40,
                "drive.model must be at most 40 ASCII characters",
            ),
            (
                self.serial.is_ascii() && self.serial.len() <= 20,
                "drive.serial must be at most 20 ASCII characters",
            ),
        ];
        first_broken(&checks)?;
        let namespaces = Namespace::layout(&self.namespaces);
        namespaces.iter().try_for_each(|namespace| namespace.set.check_namespace(self, namespace))
    }
}

impl DriveConfig {
    /// Checks a drive whose data is on an array of `units` units: features that need flash of its own are not possible.
    pub(crate) fn validate_over_array(&self, units: u64) -> Result<(), ConfigError> {
        self.validate()?;
        first_broken(&[
            (
                self.kv.is_none(),
                "a drive over an array can't have KV namespaces, which require flash of its own",
            ),
            (!self.is_raw(), "a drive over an array can't have a raw flash namespace"),
            (
                self.controller.host_buffer.is_none(),
                "a drive over an array has no map, so it can't use a host memory buffer",
            ),
            (self.user_units() <= units, "the namespaces of a drive over an array must not exceed the array"),
        ])
    }

    /// Checks that the drive can have a second port: no configured feature is limited to one host.
    pub(crate) fn check_second_port(&self) -> Result<(), ConfigError> {
        first_broken(&[
            (
                self.transfer.memory.is_none(),
                "a drive with memory for its host (cxl_mem) can have only one port",
            ),
            (!self.is_raw(), "a drive with a raw flash namespace can have only one port"),
        ])
    }
}

/// Returns the first violated check as an error.
fn first_broken(checks: &[(bool, &str)]) -> Result<(), ConfigError> {
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, message)) => Err(ConfigError { message: (*message).to_owned() }),
        None => Ok(()),
    }
}
