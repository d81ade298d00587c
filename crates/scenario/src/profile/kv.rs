//! The section `[kv]` of a profile: the store of a key-value drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, MAP_UNIT_BYTES, fault, within};
use byteway_kv::{KvConfig, Packing};
use byteway_text::units::Bytes;

/// The store of a drive with the personality `kv`: an index and a value log in flash. Except for pages of the
/// value log, everything is in units of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KvStore {
    /// Placement of values in a page of the value log.
    #[serde(with = "KvPacking")]
    pub packing: Packing,
    /// Entries of the table of values that arrived by DMA, for `packing = "backfill"`: 1 to 65536.
    pub log_table: u32,
    /// Open pages of the value log in DRAM: 2 to 4096.
    pub buffer_pages: u32,
    /// Size of a segment of value log or index: a power of two from 64 KiB to 1 GiB.
    pub segment: Bytes,
    /// Size of the memtable in DRAM: 4 KiB to 1 GiB.
    pub memtable: Bytes,
    /// Bits per key of a bloom filter, 0 (none) to 32.
    pub filter_bits: u32,
    /// DRAM for filters; tables beyond it have none, and cost flash reads.
    pub filters: Bytes,
    /// DRAM that caches the index.
    pub cache: Bytes,
    /// Runs of level 0 before they are merged into level 1, 1 to 64.
    pub l0_runs: u32,
    /// Size ratio of consecutive levels: 2 to 100.
    pub level_ratio: u32,
    /// The longest value, 1 B to 16 MiB.
    pub value_max: Bytes,
}

impl Default for KvStore {
    fn default() -> Self {
        KvStore {
            packing: Packing::All,
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

/// Placement of values in a page of the value log (BandSlim, in-device packing).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Packing", rename_all = "lowercase")]
#[schemars(rename = "KvPacking")]
enum KvPacking {
    /// Each value at the next multiple of 4 KiB.
    None,
    /// Each value directly after the one before; a value that arrived by DMA is copied there.
    All,
    /// A value that arrived in commands directly after the one before; one that arrived by DMA at the next
    /// multiple of 4 KiB, without a copy.
    Selective,
    /// The same, where small values fill the gaps before values that arrived by DMA.
    Backfill,
}

impl KvStore {
    /// Units of a segment.
    pub fn segment_units(&self) -> u32 {
        (self.segment.0 / MAP_UNIT_BYTES) as u32
    }

    /// The store in flash with pages of this size, in bytes.
    pub fn config(&self, page_bytes: u32) -> KvConfig {
        let units = |bytes: Bytes| (bytes.0 / MAP_UNIT_BYTES).min(u64::from(u32::MAX)) as u32;
        KvConfig {
            page_units: units(Bytes(page_bytes.into())),
            segment_units: self.segment_units(),
            packing: self.packing,
            log_table_entries: self.log_table,
            buffer_pages: self.buffer_pages,
            memtable_bytes: self.memtable.0,
            filter_bits_per_key: self.filter_bits,
            filter_bytes: self.filters.0,
            cache_units: units(self.cache),
            l0_runs: self.l0_runs,
            level_ratio: self.level_ratio,
            value_bytes_max: self.value_max.0 as u32,
            ..KvConfig::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        within("kv.log_table", self.log_table, 1, 65_536)?;
        within("kv.buffer_pages", self.buffer_pages, 2, 4096)?;
        within("kv.segment", self.segment, Bytes(64 << 10), Bytes(1 << 30))?;
        if !self.segment.0.is_power_of_two() {
            let what = format!("`kv.segment` = {} is not a power of two", self.segment);
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
