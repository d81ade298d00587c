//! What the drives of a box share, and who decides it: the platforms that the paper compares ("Espresso", 5.1).
//!
//! | paper | [`Platform`] | drives |
//! |---|---|---|
//! | Conv, Shrunk | `Alone` | as they are: whole, or with half of their cores and DRAM |
//! | ProcH | `Lending { processor: true, dram: false }` | as in Shrunk |
//! | Espresso | `Lending { processor: true, dram: true }` | as in Shrunk |
//! | OC | `Central` | flash and DMA only: their firmware runs on the host |
//! | VH, VH (ideal) | `Virtual` | as in Shrunk |

use byteway_clock::{Clock, Delay, Rate, Station};
use byteway_firmware::Site;
use byteway_host::HostCosts;
use std::rc::Rc;

/// What the drives of a box share.
#[derive(Clone, Debug, PartialEq)]
pub enum Platform {
    /// Nothing.
    Alone,
    /// Drives lend each other parts of themselves.
    Lending {
        /// Their processors (4.4).
        processor: bool,
        /// Their DRAM (4.5).
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

    /// Whether the host works for all drives: then all of its processors do, whichever is free.
    pub fn is_central(&self) -> bool {
        matches!(self, Platform::Central(_) | Platform::Virtual(_))
    }

    /// Whether drives lend each other DRAM.
    pub fn lends_dram(&self) -> bool {
        matches!(self, Platform::Lending { dram: true, .. })
    }
}

/// The host of a box: processors that submissions, completions and whatever is central compete for, and their DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Processors, at least one.
    pub cores: usize,
    /// Cycles a second of each.
    pub hertz: u64,
    /// An access to the DRAM.
    pub dram_latency: Delay,
    /// Bytes a second of the DRAM.
    pub dram_rate: Rate,
    /// Bytes of DRAM that are there for the maps of all drives, where they are the host's: each has an even part.
    pub dram_bytes: u64,
    /// What the driver costs for each command of a tenant's, on every platform.
    pub costs: HostCosts,
}

impl HostConfig {
    /// The host as a place for firmware: on `cpu`.
    pub(super) fn site(&self, clock: &Clock, cpu: &Rc<Station>) -> Site {
        Site::over(clock, cpu.clone(), self.hertz, self.dram_latency, self.dram_rate)
    }
}

impl Default for HostConfig {
    /// Table 2: 16 cores at 2.1 GHz and 16 GB of DDR5-5600, which is two channels of 44.8 GB/s in the BlueField-3 that it follows; an
    /// access takes what it takes in any such memory, about 100 ns. The driver costs nothing.
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
    /// Processor time to take its completion, with the interrupt.
    pub complete: Delay,
    /// Units of 4 KiB that a vector addresses at most. Open-Channel SSD 2.0, 2.3: 64.
    pub vector_units: u32,
}

impl Default for CentralConfig {
    /// An estimate: of the 5 to 10 us that an I/O takes of a core of this kind in Linux, 1 us is the driver's to submit and 1 us the
    /// interrupt's and the completion's.
    fn default() -> Self {
        CentralConfig { submit: Delay::from_us(1), complete: Delay::from_us(1), vector_units: 64 }
    }
}

/// What becomes of what lenders hold for a borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copyback {
    /// It is read from the lender and written to the borrower when the lender is reclaimed: VH.
    Copied,
    /// It stays at the lender until the borrower's tenant overwrites it: VH (ideal), in which no copy is required.
    Kept,
}

/// Virtual drives: a tenant's writes go to drives of others as well, while its own is busy.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualConfig {
    /// What becomes of what lenders hold.
    pub copyback: Copyback,
    /// Units of 4 KiB that each drive has spare for others' data: a namespace of its own behind the tenants'.
    pub spare_units: u64,
    /// How often the hypervisor looks at the drives.
    pub period: Delay,
    /// Commands of its tenants' that a drive has outstanding in the mean of a period: from so many on it is busy.
    pub busy: f64,
    /// The same: up to so many it is idle.
    pub idle: f64,
    /// Lenders of a borrower at once, at most.
    pub lenders_max: usize,
    /// Processor time of the host for each command of a tenant's, and for each copy.
    pub command: Delay,
    /// The part of it that is done under the hypervisor's lock, for one command of all tenants' after another.
    pub lock: Delay,
    /// Units of 4 KiB that are copied back at once, at most.
    pub copy_units: u32,
    /// Copies of a borrower under way at once.
    pub copies: usize,
}

impl VirtualConfig {
    /// With `spare_units` of each drive for others. What managing a command costs is an estimate: device mapper, block layer and
    /// notifications of a hypervisor in Linux take about as much as a guest's own I/O does, some 6 us of a core of 2.1 GHz, of which
    /// looking into the one map is a small part. The paper says only that it makes the host the bottleneck (3.1).
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
