//! Platforms: what the drives of a JBOF share, and where that is decided, as the paper compares them ("Espresso", 5.1).
//!
//! | paper | [`Platform`] | drives |
//! |---|---|---|
//! | Conv, Shrunk | `Alone` | unchanged: whole, or with half of their cores and DRAM |
//! | ProcH | `Lending { processor: true, dram: false }` | as in Shrunk |
//! | Espresso | `Lending { processor: true, dram: true }` | as in Shrunk |
//! | OC | `Central` | flash and DMA only: their firmware runs on the host |
//! | VH, VH (ideal) | `Virtual` | as in Shrunk |

use byteway_clock::{Clock, Delay, Rate, Station};
use byteway_firmware::Site;
use byteway_host::HostCosts;
use std::rc::Rc;

/// The resources that drives of a JBOF share.
#[derive(Clone, Debug, PartialEq)]
pub enum Platform {
    /// Nothing.
    Alone,
    /// Drives lend each other parts of themselves.
    Lending {
        /// Whether drives lend processors (4.4).
        processor: bool,
        /// Whether drives lend DRAM (4.5).
        dram: bool,
    },
    /// The host's processors and DRAM run the firmware of all drives.
    Central(CentralConfig),
    /// A hypervisor on the host lets a busy drive's writes go to others.
    Virtual(VirtualConfig),
}

impl Platform {
    /// Whether drives lend each other processors.
    pub fn lends_processors(&self) -> bool {
        matches!(self, Platform::Lending { processor: true, .. })
    }

    /// Whether the host runs the firmware of all drives, on whichever processor is free.
    pub fn is_central(&self) -> bool {
        matches!(self, Platform::Central(_) | Platform::Virtual(_))
    }

    /// Whether drives lend each other DRAM.
    pub fn lends_dram(&self) -> bool {
        matches!(self, Platform::Lending { dram: true, .. })
    }
}

/// The host of a JBOF: processors shared by submissions, completions and all central work, and their DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Number of processors, at least one.
    pub cores: usize,
    /// Clock of each processor, in hertz.
    pub hertz: u64,
    /// Latency of a DRAM access.
    pub dram_latency: Delay,
    /// DRAM bandwidth, in bytes per second.
    pub dram_rate: Rate,
    /// DRAM for the maps of all drives, where they are the host's, in bytes; each drive has an equal part.
    pub dram_bytes: u64,
    /// Processor time of the driver for each command of a tenant, on every platform.
    pub costs: HostCosts,
}

impl HostConfig {
    /// The host as a firmware site, on `cpu`.
    pub(super) fn site(&self, clock: &Clock, cpu: &Rc<Station>) -> Site {
        Site::over(clock, cpu.clone(), self.hertz, self.dram_latency, self.dram_rate)
    }
}

impl Default for HostConfig {
    /// Table 2: 16 cores at 2.1 GHz and 16 GB of DDR5-5600: two channels of 44.8 GB/s in the BlueField-3 that it
    /// follows. An access takes about 100 ns, as in any such memory. The driver costs nothing.
    fn default() -> Self {
        HostConfig {
            cores: 16,
            hertz: 2_100_000_000,
            dram_latency: Delay::from_ns(100),
            dram_rate: Rate::per_second(89_600_000_000),
            dram_bytes: 16 << 30,
            costs: HostCosts::default(),
        }
    }
}

/// Firmware of all drives on the host: open-channel drives.
#[derive(Clone, Debug, PartialEq)]
pub struct CentralConfig {
    /// Processor time to submit a vector of flash commands to a drive.
    pub submit: Delay,
    /// Processor time to take its completion, including the interrupt.
    pub complete: Delay,
    /// Maximum number of 4 KiB units in a vector. Open-Channel SSD 2.0, 2.3: 64.
    pub vector_units: u32,
}

impl Default for CentralConfig {
    /// An estimate: of the 5 to 10 us of core time that an I/O takes in Linux on such a core, the driver takes 1 us to
    /// submit, and interrupt and completion take 1 us.
    fn default() -> Self {
        CentralConfig { submit: Delay::from_us(1), complete: Delay::from_us(1), vector_units: 64 }
    }
}

/// Handling of a borrower's data at lenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copyback {
    /// Copied back to the borrower when the lender is reclaimed: VH.
    Copied,
    /// Kept at the lender until the borrower's tenant overwrites it: VH (ideal).
    Kept,
}

/// Virtual drives: while a tenant's drive is busy, its writes go to other drives, too.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualConfig {
    /// Handling of data at lenders.
    pub copyback: Copyback,
    /// Spare space of each drive for others' data, in units of 4 KiB, in a namespace of its own after the tenant's.
    pub spare_units: u64,
    /// Period of the hypervisor's decisions.
    pub period: Delay,
    /// Mean number of the tenant's outstanding commands in a period at which a drive is busy.
    pub busy: f64,
    /// Mean number up to which it is idle.
    pub idle: f64,
    /// Maximum number of lenders of a borrower at the same time.
    pub lenders_max: usize,
    /// Processor time of the host for each command of a tenant, and for each copy.
    pub command: Delay,
    /// The part of it under the hypervisor's lock, which serializes the commands of all tenants.
    pub lock: Delay,
    /// Maximum number of 4 KiB units in a copy.
    pub copy_units: u32,
    /// Maximum number of copies of a borrower in flight.
    pub copies: usize,
}

impl VirtualConfig {
    /// A platform that lends `spare_units` of each drive. The cost of a command is an estimate: device
    /// mapper, block layer and notifications of a hypervisor in Linux cost about as much as a guest's own
    /// I/O, some 6 us of a 2.1 GHz core, of which a small part is the look-up in the shared map. The paper
    /// says only that the host becomes the bottleneck (3.1).
    pub fn new(copyback: Copyback, spare_units: u64) -> Self {
        VirtualConfig {
            copyback,
            spare_units,
            period: Delay::from_ms(10),
            busy: 8.0,
            idle: 1.0,
            lenders_max: 2,
            command: Delay::from_us(6),
            lock: Delay::from_ns(350),
            copy_units: 64,
            copies: 16,
        }
    }
}
