//! What a drive is made of: the constants that a profile gives.

use byteway_clock::{Delay, Rate};
use byteway_firmware::{Base, Cycles, FtlConfig};
use byteway_flash::{FaultPlan, Geometry, Reliability, Timing};
use byteway_kv::KvConfig;
use byteway_link::CxlConfig;
use byteway_wire::content::{BlockSize, Keep, UNIT_BYTES};
use byteway_wire::nvme::register::DOORBELLS;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::commit::{CommitRing, RECORDS_MAX};
pub use command_set::CommandSet;
pub(crate) use command_set::command_sets;
use std::fmt;
use std::time::Duration;

mod command_set;

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
    /// Granularity of DMA from the host by PRPs, bytes: a power of two from 1 (exact) to 4096. By SGLs it is exact.
    pub dma_granularity: u32,
    /// Doorbell stride, as CAP.DSTRD: 4 << dstrd bytes.
    pub dstrd: u8,
    /// Whether I/O commands may use SGLs.
    pub sgl: bool,
    /// Whether Doorbell Buffer Config is offered: for a host that is served by software beside it. Hardware has no use
    /// for it.
    pub shadow_doorbells: bool,
    /// Memory of the host's that it asks for, for its map; none: it asks for none.
    pub host_buffer: Option<HostBufferConfig>,
    /// Whether a host may open collection windows, and be told of collection
    /// ([`byteway_wire::nvme::vendor::collection`]): a drive with a translation layer of its own, which is one of several.
    pub collection_windows: bool,
    /// Whether peers may work for it, whose loans its host can revoke ([`byteway_wire::nvme::vendor::loans`]).
    pub borrows: bool,
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

/// Memory of the host's that a drive asks for (Host Memory Buffer, NVMe Base 2.1, 8.2.3), to hold translation pages that its DRAM has
/// no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBufferConfig {
    /// What it would like to have, and the most that it uses, in units of 4 KiB.
    pub preferred_units: u32,
    /// The least of which it makes use, in units of 4 KiB.
    pub least_units: u32,
}

/// Pages that the parts of BAR0 begin at.
const BAR_PAGE_BYTES: u64 = 4096;
/// What the payload buffer in BAR0 begins at a multiple of.
const BAR_ALIGNMENT: u64 = 64 << 10;

impl ControllerConfig {
    /// Where the payload buffer lies in BAR0: behind the doorbells, the MSI-X table and the pending bits, each on pages
    /// of its own, on a multiple of 64 KiB.
    pub fn bar_offset(&self) -> u64 {
        let pages = |bytes: u64| bytes.next_multiple_of(BAR_PAGE_BYTES);
        let doorbells = 2 * (u64::from(self.io_queues_max) + 1) * (4 << self.dstrd);
        let table = u64::from(self.vectors) * 16;
        let pending = u64::from(self.vectors).div_ceil(64) * 8;
        (DOORBELLS + pages(doorbells) + pages(table) + pages(pending)).next_multiple_of(BAR_ALIGNMENT)
    }
}

/// Memory of the drive that the host stores to over CXL.mem ([`byteway_wire::nvme::vendor::cxl`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// How it crosses.
    pub link: CxlConfig,
    /// What of it is for payloads of any command, bytes: a multiple of 4 KiB.
    pub area_bytes: u32,
    /// Commit records that the host may have unanswered: a power of two; 0: there is no ring of them.
    pub records: u32,
    /// How often the drive looks at the ring.
    pub poll: Delay,
}

impl MemoryConfig {
    /// The ring of commit records: behind the area.
    pub const fn ring(&self) -> CommitRing {
        CommitRing { offset: self.area_bytes, records: self.records }
    }

    /// Where the page buffer begins: behind that.
    pub const fn buffer_offset(&self) -> u32 {
        self.area_bytes + self.ring().bytes()
    }

    pub(crate) fn has_possible_ring(&self) -> bool {
        let is_possible = self.records.is_power_of_two() && self.records <= RECORDS_MAX;
        self.records == 0 || is_possible && (Delay::from_ns(1)..=Delay::from_s(1)).contains(&self.poll)
    }
}

/// What the drive offers beyond plain NVMe for small payloads ([`byteway_wire::nvme::vendor`]). The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferConfig {
    /// What a host may enable.
    pub methods: Methods,
    /// The longest payload inline, bytes.
    pub inline_bytes_max: u32,
    /// The longest payload in chunks, bytes.
    pub reassembly_bytes_max: u32,
    /// The longest payload piggybacked, bytes.
    pub piggyback_bytes_max: u32,
    /// The longest result behind a completion, bytes.
    pub inline_result_bytes_max: u32,
    /// Incomplete payloads that are kept at once.
    pub partial_payloads_max: u32,
    /// After how long one is given up.
    pub partial_timeout: Delay,
    /// The buffer for payload in BAR0, bytes: 0 for none, or a multiple of 4 KiB.
    pub bar_bytes: u32,
    /// Memory that the host stores to: there is some if that is offered.
    pub memory: Option<MemoryConfig>,
    /// The payload sink, bytes: 0 for none.
    pub sink_bytes: u64,
    /// Moving the payload of one queue entry into DRAM, while the command waits.
    pub chunk_store: Delay,
}

impl TransferConfig {
    /// Whether payloads may come in parts.
    pub fn has_partials(&self) -> bool {
        self.methods.reassembly() || self.has_streams()
    }

    pub(crate) fn has_streams(&self) -> bool {
        self.methods.piggyback() || self.methods.piggyback_pipelined()
    }
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

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Capacity, in units of 4 KiB.
    pub units: u64,
    /// Size of a logical block; of none that holds pairs of keys and values.
    pub block: BlockSize,
    /// Its I/O command set.
    pub set: CommandSet,
}

impl NamespaceConfig {
    /// Logical blocks of the size `block`.
    pub const fn blocks(units: u64, block: BlockSize) -> NamespaceConfig {
        NamespaceConfig { units, block, set: CommandSet::Nvm }
    }
}

/// What the namespaces for pairs of keys and values have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct KvPolicy {
    /// Their stores. The drive itself says which units each has, whether power-loss protection is there, and the seed.
    pub store: KvConfig,
    /// Iterators at once, over all namespaces.
    pub iterators_max: u32,
    /// After how long one that is not used is ended.
    pub iterator_timeout: Delay,
}

impl Default for KvPolicy {
    fn default() -> Self {
        KvPolicy { store: KvConfig::default(), iterators_max: 16, iterator_timeout: Delay::from_s(10) }
    }
}

/// What goes wrong in the flash. The default is nothing, in a drive without a past.
#[derive(Clone, Debug, Default)]
pub struct MediaConfig {
    /// Bit errors and failures of worn cells.
    pub reliability: Option<Reliability>,
    /// Failures that are injected.
    pub faults: FaultPlan,
    /// How old what a new drive holds is.
    pub age: Duration,
    /// How often its superblocks were erased before, in the mean; each a little more or less, by the drive's seed.
    pub worn_erases: u32,
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
    /// Ways for small payloads.
    pub transfer: TransferConfig,
    /// Processor and DRAM.
    pub site: SiteConfig,
    /// Flash array.
    pub geometry: Geometry,
    /// Flash timing.
    pub timing: Timing,
    /// Flash reliability.
    pub media: MediaConfig,
    /// Erases that a block endures: what SMART's percentage used refers to.
    pub endurance_erases: u32,
    /// Translation layer. Its units, seed, rhythm, base, regions and how it keeps contents follow from the drive, whatever
    /// stands here.
    pub ftl: FtlConfig,
    /// Namespaces, numbered from 1.
    pub namespaces: Vec<NamespaceConfig>,
    /// Pairs of keys and values; none: the drive has only the NVM command set.
    pub kv: Option<KvPolicy>,
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
    /// Where the payload buffer lies in BAR0: [`ControllerConfig::bar_offset`].
    pub fn bar_offset(&self) -> u64 {
        self.controller.bar_offset()
    }

    /// Units of 4 KiB over all namespaces.
    pub fn user_units(&self) -> u64 {
        self.namespaces.iter().map(|namespace| namespace.units).sum()
    }

    /// Capacity over all namespaces, bytes.
    pub fn user_bytes(&self) -> u64 {
        self.user_units() * UNIT_BYTES as u64
    }
}
