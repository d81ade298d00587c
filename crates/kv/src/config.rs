//! Parameters of a key-value store, and its errors.

use byteway_defect::Planted;
use byteway_firmware::MediaError;
use serde::{Deserialize, Serialize};

/// Upper bound of the number of segments: each takes memory, and space in the manifest.
pub(super) const SEGMENTS_MAX: u32 = 1 << 24;

/// A run of consecutive units of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitExtent {
    /// First unit.
    pub first: u64,
    /// Number of units.
    pub count: u64,
}

/// Placement of values in a page of the value log (BandSlim, 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Each value at the next multiple of 4 KiB.
    None,
    /// Every value at the write pointer. Values transferred by DMA are copied there.
    #[default]
    All,
    /// Values held by the processor at the write pointer; values transferred by DMA at the next multiple of 4
    /// KiB, without a copy.
    Selective,
    /// Like `Selective`, but the write pointer stays before a value transferred by DMA, and later values fill
    /// the gap.
    Backfill,
}

impl Packing {
    /// All policies, in the order of the paper.
    pub const ALL: [Packing; 4] = [Packing::None, Packing::All, Packing::Selective, Packing::Backfill];

    /// Name in profiles and results.
    pub const fn name(self) -> &'static str {
        match self {
            Packing::None => "none",
            Packing::All => "all",
            Packing::Selective => "selective",
            Packing::Backfill => "backfill",
        }
    }
}

/// Transfer by which a value entered the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In commands or chunks: the processor holds it.
    Memory,
    /// The DMA engine.
    Dma,
    /// Host stores into the page buffer.
    Cxl,
}

/// Placement of a stored value, for a host that places values itself. Positions count bytes since power-on,
/// modulo 2^32; modulo the page buffer's size, if that is a power of two, they are offsets in the page
/// buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The write pointer.
    pub pointer: u32,
    /// First byte of the value. A value in several parts ends at the write pointer.
    pub place: u32,
    /// End of the area in which the host may place values.
    pub limit: u32,
}

/// Precondition of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// None.
    #[default]
    Any,
    /// The key must exist.
    MustExist,
    /// The key must not exist.
    MustNotExist,
}

/// Parameters of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct KvConfig {
    /// Units that the store may use.
    pub extents: Vec<UnitExtent>,
    /// Unique identifier of the namespace. It is never given to another, so that units of a former namespace are
    /// recognized.
    pub uid: u64,
    /// Units of a log page, which is a page of flash: 1 to 32.
    pub page_units: u32,
    /// Units of a segment: 4 to 16384, a power of two, and a multiple of `page_units`.
    pub segment_units: u32,
    /// Placement policy for values.
    pub packing: Packing,
    /// Entries of the DMA log table of [`Packing::Backfill`].
    pub log_table_entries: u32,
    /// Log pages in DRAM for open values: the page buffer, at most 1 GiB.
    pub buffer_pages: u32,
    /// Index bytes in DRAM at which the memtable is flushed to flash.
    pub memtable_bytes: u64,
    /// Bits per key of each table's bloom filter: 0 to 64; 0 means no filter.
    pub filter_bits_per_key: u32,
    /// DRAM for filters, in bytes. Tables that exceed it have none.
    pub filter_bytes: u64,
    /// Index units of 4 KiB cached in DRAM.
    pub cache_units: u32,
    /// Level-0 runs that may wait before a merge starts: 1 to 64.
    pub l0_runs: u32,
    /// Size ratio of a level to the one above: 2 to 100.
    pub level_ratio: u32,
    /// The longest value, in bytes: at most 1 GiB, and at most 64 segments.
    pub value_bytes_max: u32,
    /// Power-loss protection: capacitors make everything acknowledged durable.
    pub plp: bool,
    /// Seed of the filters' hash.
    pub seed: u64,
    /// The defect on purpose, if any.
    #[doc(hidden)]
    pub defect: Planted<Defect>,
}

impl KvConfig {
    /// Writes of the value log that may wait before stores wait, too: a page buffer full of pages, and some records.
    pub(crate) fn queue_max(&self) -> usize {
        self.buffer_pages as usize + 2
    }
}

impl Default for KvConfig {
    fn default() -> Self {
        KvConfig {
            extents: Vec::new(),
            uid: 1,
            page_units: 4,
            segment_units: 256,
            packing: Packing::All,
            log_table_entries: 64,
            buffer_pages: 8,
            memtable_bytes: 4 << 20,
            filter_bits_per_key: 10,
            filter_bytes: 64 << 20,
            cache_units: 2048,
            l0_runs: 4,
            level_ratio: 10,
            value_bytes_max: 1 << 20,
            plp: false,
            seed: 0,
            defect: Planted::none(),
        }
    }
}

byteway_defect::defects! {
    /// Defects on purpose of a store.
    #[doc(hidden)]
    pub enum Defect {
        /// Records are accepted although their value does not match its checksum.
        TrustTorn = "trust-torn",
        /// [`Kv::save`](crate::Kv::save) writes nothing.
        ForgetSave = "forget-save",
        /// The older of two records of a key wins in recovery.
        OlderRecord = "older-record",
        /// A segment is reused before the manifest that gave it up is durable.
        ReuseEarly = "reuse-early",
        /// A moved value replaces its entry without a check that the entry is still current.
        MoveBlindly = "move-blindly",
    }
}

/// Why a store can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvConfigError {
    /// A parameter is out of range.
    #[error("{0}")]
    Parameter(&'static str),
    /// The extents are too small.
    #[error("a key-value namespace of {units} units of 4 KiB is too small: it needs {least}")]
    TooSmall {
        /// Size of the extents, in units.
        units: u64,
        /// Smallest size, in units.
        least: u64,
    },
    /// The extents have more segments than a store supports.
    #[error(
        "a key-value namespace of {units} units of 4 KiB has too many segments of {segment_units} units, at most {max} are \
         possible: choose larger ones (`kv.segment`), or a smaller capacity",
        max = SEGMENTS_MAX
    )]
    TooLarge {
        /// Size of the extents, in units.
        units: u64,
        /// Units of a segment.
        segment_units: u32,
    },
}

/// Why an operation failed. It has changed nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The key does not exist.
    #[error("key does not exist")]
    NotFound,
    /// The key exists.
    #[error("key exists")]
    Exists,
    /// No free space, and none can be reclaimed.
    #[error("capacity exceeded")]
    CapacityExceeded,
    /// The value is longer than [`KvConfig::value_bytes_max`].
    #[error("value too long")]
    ValueTooLong,
    /// A value in the page buffer is not at an allowed position, or its checksum differs.
    #[error("value not at the write pointer")]
    Misplaced,
    /// Flash can't be read or written.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The drive or the namespace was removed.
    #[error("stopped")]
    Stopped,
}
