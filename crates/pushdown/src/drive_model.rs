//! Estimate of a drive's and its link's capabilities from the profile, for query planning. It is not a simulation: rates that bound each
//! other, without queueing.

use byteway_query::cost::Amount;
use byteway_scenario::profile::{CsdStore, Profile};

/// Rates of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveModel {
    /// Core time of query processing.
    pub costs: CsdStore,
    /// Clock rate of a core in Hz.
    pub core_hertz: f64,
    /// Number of cores.
    pub cores: f64,
    /// Cycles of the drive's cores per 4 KiB read from flash.
    pub read_cycles: f64,
    /// Cycles of the drive's cores per 4 KiB sent to the host.
    pub send_cycles: f64,
    /// Flash bandwidth in bytes per second, with all dies busy.
    pub flash_rate: f64,
    /// Latency of a page read in seconds.
    pub flash_latency: f64,
    /// Link bandwidth to the host in bytes per second.
    pub link_rate: f64,
    /// Time of an empty command in seconds.
    pub command: f64,
    /// Whether it is based on the drive's own profile.
    pub is_known: bool,
}

/// Name of the profile assumed for an unknown drive.
const ASSUMED: &str = "modern-gen5";

impl DriveModel {
    /// The model of a drive with this profile.
    pub fn of(profile: &Profile) -> DriveModel {
        let (flash, firmware, cycles) = (&profile.flash, &profile.firmware, &profile.firmware.cycles);
        let seconds = |ps: u64| ps as f64 / 1e12;
        let read =
            flash.read.iter().map(|read| seconds(read.0)).sum::<f64>() / flash.read.len().max(1) as f64;
        let dies = f64::from(flash.channels * flash.ways * flash.dies);
        let sensed = dies * f64::from(flash.planes) * flash.page.0 as f64 / read.max(1e-9);
        let moved = f64::from(flash.channels) * flash.channel_rate.0 as f64;
        let link = profile.link.config();
        let packet = link.write(1 << 40, u64::from(link.mps));
        let share = f64::from(link.mps) / packet.wire as f64;
        let core_hertz = firmware.clock.0 as f64;
        let of_command = (cycles.fetch + cycles.parse + cycles.complete) as f64 / core_hertz;
        DriveModel {
            costs: profile.csd.clone(),
            core_hertz,
            cores: f64::from(firmware.cores.max(1)),
            read_cycles: cycles.translate as f64,
            send_cycles: cycles.dma as f64,
            flash_rate: sensed.min(moved),
            flash_latency: read,
            link_rate: link.rate().units_per_second() as f64 * share,
            // Doorbell, entry read, completion: four link crossings, and one access to host memory.
            command: of_command
                + 4.0 * seconds(profile.link.propagation.0)
                + seconds(profile.link.memory_latency.0),
            is_known: true,
        }
    }

    /// The model of a drive without a known profile: one served by another process.
    pub fn assumed() -> DriveModel {
        let profile = Profile::built_in(ASSUMED).expect("a built-in profile");
        DriveModel { is_known: false, ..DriveModel::of(&profile) }
    }

    /// Core cycles of an amount of work, the same on the drive and on the host.
    pub fn cycles(&self, amount: Amount) -> u64 {
        amount.decoded_bytes.div_ceil(64) * self.costs.decode_cycles
            + amount.comparisons.div_ceil(64) * self.costs.evaluate_cycles
            + amount.output_bytes.div_ceil(64) * self.costs.output_cycles
    }
}
