//! Configuration of a drive: the parameters that a profile gives.

use byteway_clock::{Delay, Rate};
use byteway_content::{BlockSize, Keep, UNIT_BYTES};
use byteway_defect::Planted;
use byteway_firmware::{Base, Cycles, FtlConfig, WorkKind};
use byteway_flash::{FaultPlan, Geometry, Reliability, Timing};
use byteway_kv::KvConfig;
pub use byteway_transfer::method::{MemoryConfig, TransferConfig};
use byteway_wire::nvme::register::DOORBELLS;
pub use command_set::CommandSet;
pub(crate) use command_set::command_sets;
pub use defect::Defect;
pub use programs::ProgramsPolicy;
use std::fmt;
use std::time::Duration;
pub use temperature::Temperature;

mod command_set;
mod defect;
mod programs;
mod temperature;

/// The controller's limits and fixed delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Maximum number of I/O queue pairs.
    pub io_queues_max: u16,
    /// Maximum number of entries in an I/O queue: 2 to 65536.
    pub queue_entries_max: u32,
    /// I/O command slots: commands executed at the same time.
    pub command_slots: u32,
    /// Maximum number of outstanding reads of submission queue entries.
    pub fetch_outstanding: u32,
    /// Maximum number of entries in one such read.
    pub fetch_burst: u32,
    /// Maximum data transfer of a command, in bytes: a power of two of at least 8 KiB, because an MDTS of 0 means no
    /// limit.
    pub transfer_bytes_max: u32,
    /// Granularity of DMA from the host by PRPs, in bytes: a power of two from 1 (exact) to 4096. By SGLs it is exact.
    pub dma_granularity: u32,
    /// Doorbell stride, as CAP.DSTRD: 4 << dstrd bytes.
    pub dstrd: u8,
    /// Whether I/O commands may use SGLs.
    pub sgl: bool,
    /// Offer Doorbell Buffer Config: for a host that software serves on the same machine. Hardware has no use for it.
    pub shadow_doorbells: bool,
    /// Host memory that the drive requests for its map; `None`: it requests none.
    pub host_buffer: Option<HostBufferConfig>,
    /// Let hosts open garbage collection windows and be notified of garbage collection
    /// ([`byteway_wire::nvme::vendor::collection`]). Requires a translation layer of its own; meant for one of several
    /// drives.
    pub collection_windows: bool,
    /// Let peers work for the drive, as loans that its host can revoke ([`byteway_wire::nvme::vendor::loans`]).
    pub borrows: bool,
    /// Number of MSI-X vectors.
    pub vectors: u16,
    /// Arbitration burst after power-on, in commands: a power of two, or above 64 for no limit.
    pub arbitration_burst: u32,
    /// Delay from CC.EN to CSTS.RDY.
    pub ready_delay: Delay,
    /// Fixed pipeline latency of a read of at most 4 KiB; it occupies no core.
    pub read_pipeline: Delay,
    /// Fixed pipeline latency of a longer read.
    pub read_large_pipeline: Delay,
    /// Fixed pipeline latency of a write.
    pub write_pipeline: Delay,
    /// Writes that are merged one at a time; None: none are.
    pub merging: Option<MergeConfig>,
}

/// Writes that cover a unit only in part are merged with the rest of it, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeConfig {
    /// The unit in bytes, above 0: a write of whole ones needs no merging.
    pub unit_bytes: u32,
    /// Time of a write, in addition to that of its bytes.
    pub command: Delay,
    /// Bytes a second.
    pub rate: Rate,
    /// Time for each write that is waiting to be merged when one comes: it is searched for another part of the same unit.
    pub search: Delay,
    /// Writes that are searched, at most.
    pub searched_max: usize,
}

/// Host memory that a drive requests (Host Memory Buffer, NVMe Base 2.1, 8.2.3), for translation pages that do not fit
/// into its DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBufferConfig {
    /// Preferred size, which is also the most that the drive uses, in units of 4 KiB.
    pub preferred_units: u32,
    /// Smallest size that the drive uses, in units of 4 KiB.
    pub least_units: u32,
}

/// Alignment of the parts of BAR0, in bytes.
const BAR_PAGE_BYTES: u64 = 4096;
/// Alignment of the payload buffer in BAR0, in bytes.
const BAR_ALIGNMENT: u64 = 64 << 10;

impl Default for ControllerConfig {
    /// That of a plain small drive: 8 queue pairs, 64 slots, transfers of up to 128 KiB, latencies below a microsecond, no optional feature.
    fn default() -> Self {
        ControllerConfig {
            io_queues_max: 8,
            queue_entries_max: 1024,
            command_slots: 64,
            fetch_outstanding: 2,
            fetch_burst: 4,
            transfer_bytes_max: 128 << 10,
            dma_granularity: 1,
            dstrd: 0,
            sgl: false,
            shadow_doorbells: false,
            host_buffer: None,
            collection_windows: false,
            borrows: false,
            vectors: 9,
            arbitration_burst: 128,
            ready_delay: Delay::from_us(10),
            read_pipeline: Delay::from_ns(500),
            read_large_pipeline: Delay::from_ns(800),
            write_pipeline: Delay::from_ns(300),
            merging: None,
        }
    }
}

impl ControllerConfig {
    /// Offset of the payload buffer in BAR0: after the doorbells, the MSI-X table and the pending bits, each on pages
    /// of its own, at a multiple of 64 KiB.
    pub fn bar_offset(&self) -> u64 {
        let pages = |bytes: u64| bytes.next_multiple_of(BAR_PAGE_BYTES);
        let doorbells = 2 * (u64::from(self.io_queues_max) + 1) * (4 << self.dstrd);
        let table = u64::from(self.vectors) * 16;
        let pending = u64::from(self.vectors).div_ceil(64) * 8;
        (DOORBELLS + pages(doorbells) + pages(table) + pages(pending)).next_multiple_of(BAR_ALIGNMENT)
    }
}

/// The drive's processor and DRAM.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// Number of cores.
    pub cores: u32,
    /// Core clock, in hertz.
    pub hertz: u64,
    /// Cycles of each kind of work.
    pub cycles: Cycles,
    /// DRAM latency.
    pub dram_latency: Delay,
    /// DRAM bandwidth, in bytes per second.
    pub dram_rate: Rate,
}

impl Default for SiteConfig {
    /// That of a plain small drive: two cores of 1 GHz, which take some 50 cycles for each step of a command, and DRAM of 10 GB/s.
    fn default() -> Self {
        SiteConfig {
            cores: 2,
            hertz: 1_000_000_000,
            cycles: Cycles::FREE
                .with(WorkKind::Fetch, 50)
                .with(WorkKind::Parse, 100)
                .with(WorkKind::Translate, 50)
                .with(WorkKind::Buffer, 50)
                .with(WorkKind::Complete, 50),
            dram_latency: Delay::from_ns(50),
            dram_rate: Rate::per_second(10_000_000_000),
        }
    }
}

/// A namespace of a new drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceConfig {
    /// Capacity, in units of 4 KiB.
    pub units: u64,
    /// Size of a logical block; unused in namespaces without blocks.
    pub block: BlockSize,
    /// I/O command set of the namespace.
    pub set: CommandSet,
}

impl NamespaceConfig {
    /// A block namespace with logical blocks of size `block`.
    pub const fn blocks(units: u64, block: BlockSize) -> NamespaceConfig {
        NamespaceConfig { units, block, set: CommandSet::Nvm }
    }
}

/// Parameters that all KV namespaces share.
#[derive(Clone, Debug, PartialEq)]
pub struct KvPolicy {
    /// Parameters of their stores. The drive sets the units of each, power-loss protection and the seed.
    pub store: KvConfig,
    /// Maximum number of iterators, over all namespaces.
    pub iterators_max: u32,
    /// Time after which an unused iterator is ended.
    pub iterator_timeout: Delay,
}

impl Default for KvPolicy {
    fn default() -> Self {
        KvPolicy { store: KvConfig::default(), iterators_max: 16, iterator_timeout: Delay::from_s(10) }
    }
}

/// Parameters that all namespaces for tables share.
#[derive(Clone, Debug, PartialEq)]
pub struct CsdPolicy {
    /// Maximum number of tables in a namespace.
    pub tables_max: u32,
    /// Maximum number of cursors, over all namespaces.
    pub cursors_max: u32,
    /// Maximum number of uploads, over all namespaces.
    pub uploads_max: u32,
    /// Maximum size of an upload, in bytes; the drive holds it in DRAM.
    pub upload_bytes_max: u64,
    /// Time after which an unused cursor or upload is ended.
    pub timeout: Delay,
    /// Maximum number of rows in a row group.
    pub group_rows: u32,
    /// Reads of flash, of up to 512 KiB, that a query has outstanding.
    pub readers: u32,
    /// Result bytes at which a query waits for the host to fetch them.
    pub buffer_bytes: u32,
    /// The defect on purpose of queries, if any.
    pub defect: Planted<Defect>,
    /// That of stores.
    pub store_defect: Planted<byteway_tables::Defect>,
}

impl Default for CsdPolicy {
    fn default() -> Self {
        CsdPolicy {
            tables_max: 1024,
            cursors_max: 16,
            uploads_max: 4,
            upload_bytes_max: 64 << 20,
            timeout: Delay::from_s(10),
            group_rows: 16_384,
            readers: 16,
            buffer_bytes: 4 << 20,
            defect: Planted::none(),
            store_defect: Planted::none(),
        }
    }
}

/// Errors and failures of the flash. The default is a new drive without any.
#[derive(Clone, Debug, Default)]
pub struct MediaConfig {
    /// Bit errors and failures of worn cells; `None`: none.
    pub reliability: Option<Reliability>,
    /// Injected failures.
    pub faults: FaultPlan,
    /// Age of the data on a new drive.
    pub age: Duration,
    /// Mean number of earlier erases of its superblocks; the drive's seed varies each a little.
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
    /// Transfer methods for small payloads.
    pub transfer: TransferConfig,
    /// Processor and DRAM.
    pub site: SiteConfig,
    /// Flash array.
    pub geometry: Geometry,
    /// Flash timing.
    pub timing: Timing,
    /// Flash reliability and injected faults.
    pub media: MediaConfig,
    /// Its temperature over time.
    pub temperature: Temperature,
    /// Program/erase cycles that a block endures: the base of SMART's percentage used.
    pub endurance_erases: u32,
    /// Translation layer. The drive overwrites its units, seed, rhythm, base, regions and `keep`.
    pub ftl: FtlConfig,
    /// Namespaces, numbered from 1.
    pub namespaces: Vec<NamespaceConfig>,
    /// KV command set; `None`: the drive does not have it.
    pub kv: Option<KvPolicy>,
    /// Command set for tables; `None`: the drive does not have it.
    pub csd: Option<CsdPolicy>,
    /// Local memory, and programs that run over it; `None`: the drive has neither command set.
    pub programs: Option<ProgramsPolicy>,
    /// Initial contents of the drive.
    pub base: Base,
    /// How contents are kept in memory.
    pub keep: Keep,
    /// Seed of all random streams in the drive.
    pub seed: u64,
}

impl Default for DriveConfig {
    /// A plain small drive: 128 MiB of flash with reads of 10 us, programs of 50 us and erases of 500 us, empty, with one block namespace of
    /// 48 MiB, and contents in memory.
    fn default() -> Self {
        DriveConfig {
            model: "Byteway drive".into(),
            serial: "0".into(),
            controller: ControllerConfig::default(),
            transfer: TransferConfig::default(),
            site: SiteConfig::default(),
            geometry: Geometry { channels: 2, ways: 2, planes: 1, blocks: 32, pages: 64, page_bytes: 16384 },
            timing: Timing {
                read: vec![Delay::from_us(10)],
                program: vec![Delay::from_us(50)],
                erase: Delay::from_us(500),
                channel: Rate::per_second(800_000_000),
                command: Delay::from_ns(100),
                ..Timing::default()
            },
            media: MediaConfig::default(),
            temperature: Temperature::default(),
            endurance_erases: 3000,
            ftl: FtlConfig { write_buffer_units: 256, ..FtlConfig::default() },
            namespaces: vec![NamespaceConfig::blocks(12_288, BlockSize::B4096)],
            kv: None,
            csd: None,
            programs: None,
            base: Base::Empty,
            keep: Keep::Bytes,
            seed: 1,
        }
    }
}

/// A configuration that is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The invalid value and the valid range.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

impl DriveConfig {
    /// Offset of the payload buffer in BAR0: [`ControllerConfig::bar_offset`].
    pub fn bar_offset(&self) -> u64 {
        self.controller.bar_offset()
    }

    /// Capacity of all namespaces, in units of 4 KiB.
    pub fn user_units(&self) -> u64 {
        self.namespaces.iter().map(|namespace| namespace.units).sum()
    }

    /// Capacity of all namespaces, in bytes.
    pub fn user_bytes(&self) -> u64 {
        self.user_units() * UNIT_BYTES as u64
    }
}
