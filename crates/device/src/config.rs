//! What a drive is made of: the constants that a profile gives.

use byteway_clock::{Delay, Rate};
use byteway_firmware::{Base, Cycles, Victim};
use byteway_flash::{Geometry, Timing};
use byteway_wire::content::{BlockSize, Keep, UNIT_BYTES};
use std::fmt;

/// The controller's limits and fixed delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// I/O queue pairs at most.
    pub io_queues_max: u16,
    /// Entries in an I/O queue at most: 2 to 65536.
    pub queue_entries_max: u32,
    /// I/O commands executed at once.
    pub command_slots: u32,
    /// Reads of submission queue entries outstanding at once.
    pub fetch_outstanding: u32,
    /// Entries in one such read, at most.
    pub fetch_burst: u32,
    /// Largest transfer of a command, bytes: a power of two of at least 8 KiB, as an MDTS of 0 stands for no limit.
    pub transfer_bytes_max: u32,
    /// Granularity of DMA from the host, bytes: a power of two from 1 (exact) to 4096.
    pub dma_granularity: u32,
    /// Doorbell stride, as CAP.DSTRD: 4 << dstrd bytes.
    pub dstrd: u8,
    /// Whether I/O commands may use SGLs.
    pub sgl: bool,
    /// Whether Doorbell Buffer Config is offered: for a host that is served by software beside it. Hardware has no use
    /// for it.
    pub shadow_doorbells: bool,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Commands of a queue in its turn of arbitration, after power-on: a power of two, or above 64 for no limit.
    pub arbitration_burst: u32,
    /// From CC.EN to CSTS.RDY.
    pub ready_delay: Delay,
    /// Of a read of at most 4 KiB, what the controller's pipeline takes and occupies no core with.
    pub read_pipeline: Delay,
    /// The same of a longer read.
    pub read_large_pipeline: Delay,
    /// The same of a write.
    pub write_pipeline: Delay,
}

/// The drive's processor and DRAM.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Cores.
    pub cores: u32,
    /// Cycles a second of each.
    pub hertz: u64,
    /// What each kind of work costs.
    pub cycles: Cycles,
    /// DRAM latency.
    pub dram_latency: Delay,
    /// DRAM bandwidth, bytes a second.
    pub dram_rate: Rate,
}

/// The flash translation layer.
#[derive(Clone, Debug)]
pub struct FtlPolicy {
    /// Write buffer, bytes.
    pub write_buffer_bytes: u64,
    /// How the collector chooses.
    pub victim: Victim,
    /// Free superblocks of a die at which collection starts.
    pub collect_start_blocks: u32,
    /// Free superblocks of a die that only the collector may take.
    pub collect_reserve_blocks: u32,
    /// Whether what is in the write buffer survives a power cut.
    pub power_loss_protection: bool,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Capacity, in units of 4 KiB.
    pub units: u64,
    /// Size of a logical block.
    pub block: BlockSize,
}

/// A drive.
#[derive(Clone, Debug)]
pub struct DriveConfig {
    /// Model number, ASCII, at most 40 characters.
    pub model: String,
    /// Serial number, ASCII, at most 20 characters.
    pub serial: String,
    /// Controller.
    pub controller: ControllerConfig,
    /// Processor and DRAM.
    pub site: SiteConfig,
    /// Flash array.
    pub geometry: Geometry,
    /// Flash timing.
    pub timing: Timing,
    /// Erases that a block endures: what SMART's percentage used refers to.
    pub endurance_erases: u32,
    /// Translation layer.
    pub ftl: FtlPolicy,
    /// Namespaces, numbered from 1.
    pub namespaces: Vec<NamespaceConfig>,
    /// What the drive holds at first.
    pub base: Base,
    /// How contents are kept.
    pub keep: Keep,
    /// Seed of everything that is random in the drive.
    pub seed: u64,
}

/// A drive that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

impl DriveConfig {
    /// Units of 4 KiB over all namespaces.
    pub fn user_units(&self) -> u64 {
        self.namespaces.iter().map(|namespace| namespace.units).sum()
    }

    /// Capacity over all namespaces, bytes.
    pub fn user_bytes(&self) -> u64 {
        self.user_units() * UNIT_BYTES as u64
    }

    /// Checks what one field can't check for itself.
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
                // Two words a queue, with the admin queue, in one page.
                !c.shadow_doorbells || c.io_queues_max < 512 >> c.dstrd.min(9),
                "controller.shadow_doorbells needs the doorbells of all queues to fit in 4 KiB",
            ),
            ((1..=2048).contains(&c.vectors), "controller.vectors must be from 1 to 2048"),
            (
                c.arbitration_burst.is_power_of_two() && c.arbitration_burst <= 128,
                "controller.arbitration_burst must be a power of two from 1 to 128 (128: no limit)",
            ),
            (self.endurance_erases > 0, "flash.endurance must be at least 1"),
            ((1..=1024).contains(&self.site.cores), "firmware.cores must be from 1 to 1024"),
            (self.site.hertz >= 1_000_000, "firmware.clock must be at least 1 MHz"),
            (
                !self.namespaces.is_empty() && self.namespaces.len() <= 1024,
                "a drive has 1 to 1024 namespaces",
            ),
            (self.namespaces.iter().all(|n| n.units > 0), "a namespace holds at least 4 KiB"),
            (
                self.model.is_ascii() && self.model.len() <= 40,
                "drive.model must be at most 40 ASCII characters",
            ),
            (
                self.serial.is_ascii() && self.serial.len() <= 20,
                "drive.serial must be at most 20 ASCII characters",
            ),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, message)) => Err(ConfigError { message: message.to_owned() }),
            None => Ok(()),
        }
    }
}
