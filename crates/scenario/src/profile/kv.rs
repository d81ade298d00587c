//! `[kv]` of a profile: the store of a key-value drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Fault, MAP_UNIT_BYTES, fault, within};
use byteway_console::units::Bytes;

/// The store of a drive whose personality is `kv`: an index and a value log in flash. Everything but the value log's page is in
/// units of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KvStore {
    /// Where in a page of the value log values go.
    pub packing: KvPacking,
    /// Entries of the table of values that came by DMA, of `packing = "backfill"`: 1 to 65536.
    pub log_table: u32,
    /// Pages of the value log that are open in DRAM: 2 to 4096.
    pub buffer_pages: u32,
    /// A segment of value log or index: a power of two from 64 KiB to 1 GiB.
    pub segment: Bytes,
    /// Index entries that are kept in DRAM until they have so many bytes, 4 KiB to 1 GiB.
    pub memtable: Bytes,
    /// Bits of a bloom filter for each key, 0 (none) to 32.
    pub filter_bits: u32,
    /// DRAM for filters: tables beyond it have none, and cost reads of flash.
    pub filters: Bytes,
    /// DRAM that caches the index.
    pub cache: Bytes,
    /// Runs that wait before they are merged into the first level, 1 to 64.
    pub l0_runs: u32,
    /// By what each level is larger than the one above: 2 to 100.
    pub level_ratio: u32,
    /// The longest value, 1 B to 16 MiB.
    pub value_max: Bytes,
}

impl Default for KvStore {
    fn default() -> Self {
        KvStore {
            packing: KvPacking::All,
            log_table: 64,
            buffer_pages: 8,
            segment: Bytes(1 << 20),
            memtable: Bytes(4 << 20),
            filter_bits: 10,
            filters: Bytes(64 << 20),
            cache: Bytes(8 << 20),
            l0_runs: 4,
            level_ratio: 10,
            value_max: Bytes(1 << 20),
        }
    }
}

/// Where in a page of the value log values go (BandSlim, in-device packing).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KvPacking {
    /// Each value at the next multiple of 4 KiB.
    None,
    /// Each value behind the one before; what came by DMA is copied there.
    #[default]
    All,
    /// What came in commands behind the value before; what came by DMA at the next multiple of 4 KiB, without a copy.
    Selective,
    /// The same, and the gaps before what came by DMA are filled.
    Backfill,
}

impl KvPacking {
    /// Its name in profiles and results.
    pub const fn name(self) -> &'static str {
        match self {
            KvPacking::None => "none",
            KvPacking::All => "all",
            KvPacking::Selective => "selective",
            KvPacking::Backfill => "backfill",
        }
    }
}

impl KvStore {
    /// Units of a segment.
    pub fn segment_units(&self) -> u32 {
        (self.segment.0 / MAP_UNIT_BYTES) as u32
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        within("kv.log_table", self.log_table, 1, 65_536)?;
        within("kv.buffer_pages", self.buffer_pages, 2, 4096)?;
        within("kv.segment", self.segment, Bytes(64 << 10), Bytes(1 << 30))?;
        if !self.segment.0.is_power_of_two() {
            let what = format!("`kv.segment` = {} is no power of two", self.segment);
            return Err(fault("kv.segment", what, "choose \"1 MiB\", or another power of two"));
        }
        within("kv.memtable", self.memtable, Bytes(4 << 10), Bytes(1 << 30))?;
        within("kv.filter_bits", self.filter_bits, 0, 32)?;
        within("kv.filters", self.filters, Bytes(0), Bytes(1 << 40))?;
        within("kv.cache", self.cache, Bytes(4 << 10), Bytes(1 << 40))?;
        within("kv.l0_runs", self.l0_runs, 1, 64)?;
        within("kv.level_ratio", self.level_ratio, 2, 100)?;
        within("kv.value_max", self.value_max, Bytes(1), Bytes(16 << 20))
    }
}
