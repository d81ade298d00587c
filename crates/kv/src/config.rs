//! Parameters of a key-value store, and its errors.

use byteway_firmware::MediaError;
use serde::{Deserialize, Serialize};

/// Consecutive units of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitExtent {
    /// The first one.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// Where in a page of the value log a value goes (BandSlim, 3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Each value at the next multiple of 4 KiB.
    None,
    /// Each value at the write pointer. What came by DMA is copied there.
    #[default]
    All,
    /// What the processor holds at the write pointer; what came by DMA at the next multiple of 4 KiB, without a copy.
    Selective,
    /// As `Selective`, but the write pointer stays before what came by DMA, and the gap is filled.
    Backfill,
}

impl Packing {
    /// All of them.
    pub const ALL: [Packing; 4] = [Packing::None, Packing::All, Packing::Selective, Packing::Backfill];
}

/// How a value came into the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In commands or chunks: the processor has it.
    Memory,
    /// By the DMA engine.
    Dma,
    /// By stores of the host's into the page buffer.
    Cxl,
}

/// What a host that places values itself is told after a store. Positions count bytes since power-on, modulo 2^32, and lie in
/// the page buffer modulo its size, if that is a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The write pointer.
    pub pointer: u32,
    /// Where the value is. One in several parts ends at the pointer.
    pub place: u32,
    /// Up to where the host may put values.
    pub limit: u32,
}

/// Whether there must be a pair of that key before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreMode {
    /// Whatever there is.
    #[default]
    Any,
    /// There must be one.
    MustExist,
    /// There must be none.
    MustNotExist,
}

/// Parameters of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct KvConfig {
    /// The units it may use.
    pub extents: Vec<UnitExtent>,
    /// Whose units they are: never given to another namespace.
    pub uid: u64,
    /// Units of a log page, which is a page of flash.
    pub page_units: u32,
    /// Units of a segment: a power of two, and a multiple of `page_units`.
    pub segment_units: u32,
    /// Where values go.
    pub packing: Packing,
    /// Entries of the DMA log table of [`Packing::Backfill`].
    pub log_table_entries: u32,
    /// Log pages in DRAM that take values.
    pub buffer_pages: u32,
    /// Index bytes in DRAM after which they are written to flash.
    pub memtable_bytes: u64,
    /// Of each table's filter; 0: none.
    pub filter_bits_per_key: u32,
    /// DRAM for filters. Tables beyond it have none.
    pub filter_bytes: u64,
    /// Index units of 4 KiB that DRAM caches.
    pub cache_units: u32,
    /// Runs that wait to be merged before they are.
    pub l0_runs: u32,
    /// How many times larger each level is than the one above.
    pub level_ratio: u32,
    /// The longest value, in bytes.
    pub value_bytes_max: u32,
    /// With power-loss protection whatever was acknowledged is durable.
    pub plp: bool,
    /// Of its filters' hash.
    pub seed: u64,
    /// What is deliberately broken, for tests of tests.
    #[doc(hidden)]
    pub canary: Option<KvCanary>,
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
            canary: None,
        }
    }
}

/// A store that is broken on purpose: whoever looks for faults must find it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvCanary {
    /// A value that does not match its checksum counts.
    TrustTorn,
    /// What capacitors should have saved is lost.
    ForgetSave,
    /// The older of two records of a key counts.
    OlderRecord,
    /// A segment is used again before the manifest that gave it up is durable.
    ReuseEarly,
    /// A moved value is not looked at again before it is given its new place.
    MoveBlindly,
}

/// Why a store can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvConfigError {
    /// Parameters that make no sense.
    #[error("{0}")]
    Parameter(&'static str),
    /// Too little room.
    #[error("a key-value namespace of {units} units of 4 KiB is too small: it needs {least}")]
    TooSmall {
        /// What it has.
        units: u64,
        /// What it needs.
        least: u64,
    },
    /// Too much of it.
    #[error(
        "a key-value namespace of {units} units of 4 KiB has too many segments of {segment_units} units, at most {max} are \
         possible: choose larger ones (`kv.segment`), or a smaller capacity",
        max = super::segments::SEGMENTS_MAX
    )]
    TooLarge {
        /// What it has.
        units: u64,
        /// Of each segment.
        segment_units: u32,
    },
}

/// Why the store can't do what it is asked. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// There is no pair of that key.
    #[error("key does not exist")]
    NotFound,
    /// There is one.
    #[error("key exists")]
    Exists,
    /// No room.
    #[error("capacity exceeded")]
    CapacityExceeded,
    /// Longer than [`KvConfig::value_bytes_max`].
    #[error("value too long")]
    ValueTooLong,
    /// A value is not where the write pointer is, or not what it was said to be.
    #[error("value not at the write pointer")]
    Misplaced,
    /// Flash can't give or take it.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The drive is gone.
    #[error("stopped")]
    Stopped,
}
