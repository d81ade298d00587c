//! Configuration of a JBOF, and of each drive in it.

use super::platform::{HostConfig, Platform};
use super::weights::QueueWeights;
use crate::decision::demand::{MISS_RATIO_WANTED, SampleConfig};
use crate::decision::policy;
use crate::fabric::FabricConfig;
use byteway_clock::{Delay, Station, Time};
use byteway_defect::Planted;
use byteway_device::DriveConfig;
use byteway_firmware::Lender;
use byteway_flash::Medium;
use byteway_host::DriverConfig;
use byteway_link::PcieConfig;
use std::rc::Rc;

/// Maximum number of drives in a JBOF: an 8-bit number, of which FFh means none; and a drive has 256 routes, of which
/// one is its own.
pub const DRIVES_MAX: usize = 255;

/// Configuration of a JBOF without its drives.
#[derive(Clone, Debug)]
pub struct JbofConfig {
    /// Each drive's link to the host.
    pub link: PcieConfig,
    /// The fabric between the drives, and to the host.
    pub fabric: FabricConfig,
    /// Resources that the drives share.
    pub platform: Platform,
    /// The host.
    pub host: HostConfig,
    /// Period of daemons and host. 4.2: 10 ms. The host acts a quarter of a period after the drives: correctness does
    /// not depend on that, but a lender gets its processor back earlier.
    pub period: Delay,
    /// Utilization above which a processor or data-end is busy. 4.4: 75 %.
    pub watermark: f64,
    /// Time to take a peer's flash or DMA operation out of the message queue. 4.6: 114.2 ns.
    pub agent: Delay,
    /// Core time of a daemon's run in each period.
    pub daemon: Delay,
    /// Processor time of the host for each command of a partly redirected queue pair. 5.3: 20 ns.
    pub redirect: Delay,
    /// Entries of a queue pair.
    pub entries: u32,
    /// Parameters of DRAM lending.
    pub dram: DramConfig,
    /// Maximum number of peers whose processors a drive borrows at the same time.
    pub loans_max: usize,
    /// Weights of the queues under weighted round robin; `None`: round robin.
    pub weights: Option<QueueWeights>,
    /// Time after which an unanswered command is aborted; after as long again the drive is reset, and given up if that
    /// does not help. `None`: never.
    pub timeout: Option<Delay>,
    /// Seed of the random choice of a drive for each command.
    pub seed: u64,
    /// The defect on purpose, if any.
    pub defect: Planted<Defect>,
}

impl JbofConfig {
    /// The paper's parameters.
    pub fn new(link: PcieConfig, drives: usize, seed: u64) -> Self {
        JbofConfig {
            link,
            fabric: FabricConfig::of_drives(drives),
            platform: Platform::Lending { processor: true, dram: false },
            host: HostConfig::default(),
            period: Delay::from_ms(10),
            watermark: policy::WATERMARK,
            agent: Delay(114_200),
            daemon: Delay::from_us(5),
            redirect: Delay::from_ns(20),
            entries: 256,
            dram: DramConfig::default(),
            loans_max: 4,
            weights: None,
            timeout: Some(Delay::from_ms(500)),
            seed,
            defect: Planted::none(),
        }
    }

    /// The next multiple of the period, plus `quarters` of a period.
    pub(super) fn next_look(&self, now: Time, quarters: u64) -> Time {
        let period = self.period.0.max(4);
        let behind = period / 4 * quarters;
        Time(((now.0 - behind.min(now.0)) / period + 1) * period + behind)
    }
}

/// A drive in a JBOF.
pub struct JbofDrive {
    /// Name of the drive in messages.
    pub name: Option<String>,
    /// The drive.
    pub config: DriveConfig,
    /// The medium that a drive with this configuration has left; `None`: a new one.
    pub medium: Option<Medium>,
    /// Configuration of its driver; `None`: derived from [`JbofConfig::timeout`] and [`JbofConfig::weights`].
    pub driver: Option<DriverConfig>,
    /// The processor that submits other drives' commands through the queue pair that it lends; `None`: the driver's.
    pub lent_cpu: Option<Rc<Station>>,
}

impl From<(DriveConfig, Option<Medium>)> for JbofDrive {
    fn from((config, medium): (DriveConfig, Option<Medium>)) -> JbofDrive {
        JbofDrive { name: None, config, medium, driver: None, lent_cpu: None }
    }
}

/// Parameters of DRAM lending.
#[derive(Clone, Debug, PartialEq)]
pub struct DramConfig {
    /// A drive borrows until its miss ratio is below this. 4.5: 10 %.
    pub miss_ratio: f64,
    /// How look-ups are sampled.
    pub sample: SampleConfig,
    /// Core time to commit a log record. 4.6: 321.9 ns.
    pub commit: Delay,
    /// Descriptors for a drive's DRAM offers: 1 to 15, since one is needed for its processor.
    pub offers: usize,
}

impl Default for DramConfig {
    fn default() -> Self {
        DramConfig {
            miss_ratio: MISS_RATIO_WANTED,
            sample: SampleConfig::default(),
            commit: Lender::COMMIT,
            offers: 8,
        }
    }
}

byteway_defect::defects! {
    /// Defects on purpose of a JBOF.
    pub enum Defect {
        /// A borrower takes a descriptor that was free when it was read last, though it may have been claimed since.
        StaleDescriptor = "stale-descriptor",
        /// The host unbinds a shadow queue pair while commands are in flight there.
        UnbindWithoutDrain = "unbind-without-drain",
    }
}
