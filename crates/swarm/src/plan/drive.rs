//! The drive of a plan.

use byteway_firmware::policy::{
    AdmissionPolicy, DriveKind, Named, Policies, PrefetchPolicy, SchedulePolicy, StreamPolicy, SuspendPolicy,
    UnknownPolicy, VictimPolicy,
};
use byteway_kv::Packing;
use serde::{Deserialize, Serialize};

/// A drive, small enough for everything to happen in a short run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Number of channels.
    pub channels: u32,
    /// Dies per channel.
    pub ways: u32,
    /// Planes per die.
    pub planes: u32,
    /// Superblocks per die.
    pub blocks: u32,
    /// Stripes per superblock.
    pub pages: u32,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Bits per cell: page types that share a wordline.
    pub bits: u32,
    /// Initial content.
    #[serde(default)]
    pub base: BaseSpec,
    /// Units of 4 KiB in the write buffer.
    pub buffer_units: u32,
    /// Whether the drive has power-loss protection.
    #[serde(default)]
    pub protected: bool,
    /// Whether garbage collection selects victims by cost-benefit; otherwise it is greedy.
    #[serde(default)]
    pub cost_benefit: bool,
    /// Policies other than the defaults.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policies: PoliciesSpec,
    /// Free superblocks per die at which garbage collection starts.
    pub collect_start: u32,
    /// Free superblocks per die reserved for garbage collection.
    pub collect_reserve: u32,
    /// Translation pages in DRAM; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache_pages: Option<u32>,
    /// Pages of a cached map with copies in the host memory buffer; `None`: the drive requests none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_buffer_pages: Option<u32>,
    /// Whether map entries take 8 bytes, as in a drive with more than 15 TiB of flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wide_map: bool,
    /// Whether programs and erases are suspended for host reads.
    #[serde(default)]
    pub suspends: bool,
    /// Whether dies sense the next page during data output.
    #[serde(default)]
    pub cache_read: bool,
    /// Whether a channel transfers waiting data before commands.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data_out_first: bool,
    /// Units programmed between two checkpoints; 0: as few checkpoints as possible.
    #[serde(default)]
    pub checkpoint_units: u64,
    /// Whether the medium is in files; a cut drops, tears and reorders writes that were not synced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: bool,
    /// Whether modeled waits take no time, as in a drive served with `timing = "none"`: tasks interleave differently.
    #[serde(default, skip_serializing_if = "is_default")]
    pub untimed: bool,
    /// Number of endpoints under firmware that runs on the host; 0: the drive has its own firmware.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoints: u32,
    /// Entries per node of a map that is a B+ tree of extents; `None`: a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extents: Option<u32>,
    /// Units whose partial writes may wait in DRAM for a merge; `None`: a partial write reads its unit first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absorbs_parts: Option<u32>,
    /// Units in the read cache; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_cache_units: u32,
    /// Whether dies program stripes strictly in turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_turn: bool,
    /// Longest rest of a hot drive's dies in microseconds, of a period that is 100 us longer; 0: it stays cool.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rest_us: u32,
    /// Units between times at which housekeeping stops programs; 0: never.
    #[serde(default, skip_serializing_if = "is_default")]
    pub housekeeping_units: u32,
    /// Parts of the drive's firmware that run on the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partial: PartialSpec,
    /// The array of several such drives with one namespace each that the drive consists of; `None`: a single drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// Background work on flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upkeep: UpkeepSpec,
    /// The stores of KV namespaces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv: KvSpec,
    /// Local memory and programs, in two namespaces after the others; `None`: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramsSpec>,
    /// Namespaces.
    pub namespaces: Vec<NamespaceSpec>,
}

/// Local memory and programs: [`byteway_device::ProgramsPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramsSpec {
    /// Units of 4 KiB of local memory.
    pub memory_units: u64,
}

/// Policies by their names in profiles; `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoliciesSpec {
    /// Victims of garbage collection; it goes before `cost_benefit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// Streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<String>,
    /// Next operations of dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Suspensions, if the drive suspends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<String>,
    /// Units that the read cache keeps, if the drive has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<String>,
    /// Units that are read ahead into the read cache, if the drive has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<String>,
}

/// The policies of these names.
#[derive(Default)]
pub struct FoundPolicies {
    /// Victims of garbage collection.
    pub victim: VictimPolicy,
    /// Streams.
    pub streams: StreamPolicy,
    /// Next operations of dies.
    pub schedule: SchedulePolicy,
    /// Suspensions.
    pub suspend: SuspendPolicy,
    /// Units that the read cache keeps.
    pub admission: AdmissionPolicy,
    /// Units that are read ahead.
    pub prefetch: PrefetchPolicy,
}

/// The built-in policy of a name, or the default one.
fn named<P: DriveKind + ?Sized>(name: Option<&String>) -> Result<Named<P>, UnknownPolicy> {
    name.map_or_else(|| Ok(Named::default()), |name| Policies::default().find(name))
}

impl PoliciesSpec {
    /// The policies.
    ///
    /// # Errors
    /// One is not built in.
    pub fn found(&self) -> Result<FoundPolicies, UnknownPolicy> {
        Ok(FoundPolicies {
            victim: named(self.victim.as_ref())?,
            streams: named(self.streams.as_ref())?,
            schedule: named(self.schedule.as_ref())?,
            suspend: named(self.suspend.as_ref())?,
            admission: named(self.admission.as_ref())?,
            prefetch: named(self.prefetch.as_ref())?,
        })
    }

    /// Whether one is of a read cache.
    pub fn has_of_cache(&self) -> bool {
        self.admission.is_some() || self.prefetch.is_some()
    }
}

/// A KV store: [`byteway_kv::KvConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KvSpec {
    /// Units of a segment.
    pub segment_units: u32,
    /// Placement of values in pages of the value log.
    pub packing: Packing,
    /// Entries of the table of values received by DMA.
    pub log_table: u32,
    /// Pages of the value log in DRAM.
    pub buffer_pages: u32,
    /// Size of the memtable in bytes at which it is flushed.
    pub memtable_bytes: u64,
    /// Filter bits per key.
    pub filter_bits: u32,
    /// DRAM for filters, in bytes.
    pub filter_bytes: u64,
    /// Index units cached in DRAM.
    pub cache_units: u32,
    /// Runs in level 0 at which compaction starts.
    pub l0_runs: u32,
    /// Size ratio of adjacent levels.
    pub level_ratio: u32,
    /// Longest value in bytes.
    pub value_bytes_max: u32,
}

impl Default for KvSpec {
    fn default() -> Self {
        KvSpec {
            segment_units: 8,
            packing: Packing::All,
            log_table: 4,
            buffer_pages: 4,
            memtable_bytes: 1024,
            filter_bits: 10,
            filter_bytes: 1 << 20,
            cache_units: 8,
            l0_runs: 2,
            level_ratio: 4,
            value_bytes_max: 24_000,
        }
    }
}

/// Background work on flash: [`byteway_firmware::Maintenance`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepSpec {
    /// Spare superblocks per die. If one fails and no spare is left, the drive becomes read-only.
    #[serde(skip_serializing_if = "is_default")]
    pub spare_blocks: u32,
    /// Upper limit of factory-bad superblocks among them.
    #[serde(skip_serializing_if = "is_default")]
    pub factory_bad_blocks: u32,
    /// Superblocks per die in SLC mode.
    #[serde(skip_serializing_if = "is_default")]
    pub slc_blocks: u32,
    /// Other superblocks that an empty die lends to that cache; twice as many with data, and it lends none.
    #[serde(skip_serializing_if = "is_default")]
    pub slc_dynamic: u32,
    /// Whether the cache is folded only while the host is idle, or where space is short.
    #[serde(skip_serializing_if = "is_default")]
    pub slc_folds_idle: bool,
    /// Spread of erase counts at which static wear leveling starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_spread: Option<u32>,
    /// Refresh of data that was read too often or is too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<RefreshSpec>,
    /// Garbage collection while the host is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSpec>,
}

impl UpkeepSpec {
    /// Whether host writes go to superblocks in SLC mode first.
    pub fn has_cache(&self) -> bool {
        self.slc_blocks > 0 || self.slc_dynamic > 0
    }
}

/// When a superblock's data is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshSpec {
    /// Read count limit.
    pub reads: u32,
    /// Age limit in microseconds.
    pub age_us: u64,
}

/// Garbage collection while the host is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleSpec {
    /// Idle time in microseconds before it starts.
    pub after_us: u64,
    /// Free superblocks per die at which it stops.
    pub free_blocks: u32,
}

/// Parts of the firmware on the host: [`byteway_assembly::PartialConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartialSpec {
    /// Whether the map is in host memory.
    #[serde(skip_serializing_if = "is_default")]
    pub map: bool,
    /// Whether the host selects the victims of garbage collection.
    #[serde(skip_serializing_if = "is_default")]
    pub collection: bool,
}

/// An array of drives: [`byteway_assembly::ArrayDriveConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// RAID level.
    pub level: LevelSpec,
    /// Members, without spares.
    pub members: u32,
    /// Spare drives, which replace failed members.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u32,
    /// Units of a chunk.
    pub chunk_units: u32,
    /// Time without writes, in microseconds, after which a region is marked clean.
    pub clean_us: u64,
    /// The bridge that runs the array; `None`: the host runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeSpec>,
    /// Whether members collect garbage in common windows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub collects_together: bool,
}

/// RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelSpec {
    /// Striping.
    Raid0,
    /// Copies.
    Raid1,
    /// Striping with parity.
    Raid5,
    /// Striping over pairs of copies.
    Raid10,
}

/// A bridge's memory: [`byteway_array::NvramConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeSpec {
    /// Capacity in bytes.
    pub bytes: u64,
    /// Longest buffered write in bytes.
    pub small_bytes: u64,
    /// Distance in bytes below which a write continues the stream of another one.
    pub stream_window: u64,
    /// Concurrent writes that drain the memory.
    pub drain_depth: u32,
    /// Whether writes that bypass the memory are acknowledged when durable.
    #[serde(default)]
    pub is_through: bool,
    /// Units of a row, in which one bypassing write at a time is allowed.
    pub row_units: u64,
}

impl LevelSpec {
    /// Whether the array tolerates the loss of a member.
    pub fn is_redundant(self) -> bool {
        self != LevelSpec::Raid0
    }

    /// Copies of each unit in an array of `members` members.
    pub fn copies(self, members: usize) -> usize {
        match self {
            LevelSpec::Raid0 | LevelSpec::Raid5 => 1,
            LevelSpec::Raid1 => members,
            LevelSpec::Raid10 => 2,
        }
    }
}

impl ArraySpec {
    /// Number of drives, including spares.
    pub fn drives(&self) -> usize {
        (self.members + self.spares) as usize
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSpec {
    /// Size in units of 4 KiB.
    pub units: u64,
    /// Logical block size in bytes: 512 or 4096; 4096 for a KV namespace.
    pub block: u32,
    /// Whether it is a KV namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: bool,
    /// Whether it holds tables.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tables: bool,
}

/// Initial content of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseSpec {
    /// Nothing written.
    #[default]
    Empty,
    /// Every unit, in order.
    Filled,
    /// Every unit, distributed as after random overwrites.
    Steady,
}

impl DriveSpec {
    /// Units of a stripe, the limit of a Compare and Write in blocks; 1 with an array.
    pub fn stripe_units(&self) -> u32 {
        if self.array.is_some() {
            return 1;
        }
        self.planes * (self.page_bytes / 4096)
    }

    /// Whether its firmware can run on the host.
    pub fn can_be_hosted(&self) -> bool {
        self.programs.is_none()
            && self.base == BaseSpec::Empty
            && !self.protected
            && !self.files
            && self.host_buffer_pages.is_none()
            && !self.has_pairs()
            && !self.has_tables()
            && self.channels.is_multiple_of(self.endpoints)
    }

    /// Whether its map can be an extent tree.
    pub fn can_have_extents(&self) -> bool {
        self.base == BaseSpec::Empty && self.map_cache_pages.is_none()
    }

    /// Whether it can be a member of an array.
    pub fn can_be_array(&self) -> bool {
        self.programs.is_none()
            && self.base == BaseSpec::Empty
            && self.endpoints == 0
            && !self.files
            && self.host_buffer_pages.is_none()
            && !self.has_pairs()
            && !self.has_tables()
    }

    /// Removes the features that drives in a JBOF do not support.
    pub fn fit_a_jbof(&mut self) {
        (self.array, self.partial, self.endpoints) = (None, PartialSpec::default(), 0);
        (self.files, self.untimed, self.host_buffer_pages) = (false, false, None);
    }

    /// Whether it can be in a JBOF.
    pub fn can_be_in_a_jbof(&self) -> bool {
        self.array.is_none()
            && self.partial == PartialSpec::default()
            && self.endpoints == 0
            && !self.files
            && !self.untimed
            && self.host_buffer_pages.is_none()
            && !self.has_tables()
            && self.programs.is_none()
    }

    /// Whether the parts of its firmware selected for the host can run there.
    pub fn can_be_partial(&self) -> bool {
        let is_partial = self.partial != PartialSpec::default();
        !is_partial || self.endpoints == 0 && !(self.partial.map && self.map_cache_pages.is_some())
    }

    /// Whether there is a table namespace initially.
    pub fn has_tables(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.tables)
    }

    /// Whether there is a KV namespace initially.
    pub fn has_pairs(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.pairs)
    }
}
