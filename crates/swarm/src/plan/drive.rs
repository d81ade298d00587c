//! The drive of a plan.

use byteway_kv::Packing;
use serde::{Deserialize, Serialize};

/// A drive, small enough that everything happens at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Channels.
    pub channels: u32,
    /// Dies of each.
    pub ways: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Superblocks of a die.
    pub blocks: u32,
    /// Stripes of a superblock.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Page types, which share a wordline: bits of a cell.
    pub bits: u32,
    /// What the drive holds at first.
    #[serde(default)]
    pub base: BaseSpec,
    /// Units of 4 KiB in the write buffer.
    pub buffer_units: u32,
    /// Power-loss protection.
    #[serde(default)]
    pub protected: bool,
    /// The collector goes by cost and benefit; else it is greedy.
    #[serde(default)]
    pub cost_benefit: bool,
    /// Free superblocks of a die at which collection starts.
    pub collect_start: u32,
    /// Free superblocks of a die that only the collector may take.
    pub collect_reserve: u32,
    /// Translation pages that its DRAM holds; none: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache_pages: Option<u32>,
    /// Of such a map: pages of which the host's memory has copies; none: the drive asks for no memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_buffer_pages: Option<u32>,
    /// Entries of its map take 8 bytes, as those of a drive of more than 15 TiB of flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wide_map: bool,
    /// Programs and erases are suspended for the host's reads.
    #[serde(default)]
    pub suspends: bool,
    /// Dies sense while data moves out.
    #[serde(default)]
    pub cache_read: bool,
    /// A channel moves data that waits before it takes commands.
    #[serde(default, skip_serializing_if = "is_default")]
    pub data_out_first: bool,
    /// Units programmed between two checkpoints; 0: as few checkpoints as can be.
    #[serde(default)]
    pub checkpoint_units: u64,
    /// In which way it is broken on purpose: what a swarm must find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<CanarySpec>,
    /// Its medium is in files, of which a cut drops, tears and reorders what was not synced.
    #[serde(default, skip_serializing_if = "is_default")]
    pub files: bool,
    /// Modelled waits take no time, as in a drive that is served with `timing = "none"`: tasks meet in other orders.
    #[serde(default, skip_serializing_if = "is_default")]
    pub untimed: bool,
    /// Its firmware runs on the host, over so many endpoints; 0: it has its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub endpoints: u32,
    /// Its map is a B+-tree of extents whose nodes have so many entries; none: a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extents: Option<u32>,
    /// Units of which parts may wait in DRAM to be merged; none: a write of a part reads its unit first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absorbs_parts: Option<u32>,
    /// Units that the host has read and that are kept; 0: none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_cache_units: u32,
    /// Of a drive with firmware of its own: what of it runs on the host.
    #[serde(default, skip_serializing_if = "is_default")]
    pub partial: PartialSpec,
    /// It is an array of several such drives, of which each has one namespace; none: it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
    /// What it does for its flash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upkeep: UpkeepSpec,
    /// The stores of its namespaces of pairs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kv: KvSpec,
    /// Namespaces.
    pub namespaces: Vec<NamespaceSpec>,
}

/// A store of pairs: [`byteway_kv::KvConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KvSpec {
    /// Units of a segment.
    pub segment_units: u32,
    /// Where in a page of the value log values go.
    pub packing: Packing,
    /// Entries of the table of values that came by DMA.
    pub log_table: u32,
    /// Pages of the value log in DRAM.
    pub buffer_pages: u32,
    /// Index bytes in DRAM after which they are written down.
    pub memtable_bytes: u64,
    /// Bits of a filter for each key.
    pub filter_bits: u32,
    /// DRAM for filters.
    pub filter_bytes: u64,
    /// Index units that DRAM caches.
    pub cache_units: u32,
    /// Runs that wait to be merged.
    pub l0_runs: u32,
    /// By what each level is larger than the one above.
    pub level_ratio: u32,
    /// The longest value.
    pub value_bytes_max: u32,
    /// In which way it is broken on purpose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<KvCanarySpec>,
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
            canary: None,
        }
    }
}

/// How a store is broken: [`byteway_kv::KvCanary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvCanarySpec {
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

/// What a drive does for its flash, beside what the host asks for: [`byteway_firmware::Upkeep`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpkeepSpec {
    /// Spare superblocks of a die. When one fails and none is left the drive is read-only.
    #[serde(skip_serializing_if = "is_default")]
    pub spare_blocks: u32,
    /// Of those, how many are bad from the factory at most.
    #[serde(skip_serializing_if = "is_default")]
    pub factory_bad_blocks: u32,
    /// Superblocks of a die with one bit a cell.
    #[serde(skip_serializing_if = "is_default")]
    pub slc_blocks: u32,
    /// The spread of erases that is levelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_spread: Option<u32>,
    /// What is read too often or lies too long is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<RefreshSpec>,
    /// Collection while the host is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleSpec>,
}

/// When a superblock is moved for the sake of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefreshSpec {
    /// After so many reads.
    pub reads: u32,
    /// After so many microseconds.
    pub age_us: u64,
}

/// Collection while the host is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleSpec {
    /// When nothing has come for so many microseconds.
    pub after_us: u64,
    /// Until so many superblocks of a die are free.
    pub free_blocks: u32,
}

/// What of a drive's firmware runs on the host: [`byteway_assembly::PartialConfig`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PartialSpec {
    /// The map is in the host's memory.
    #[serde(skip_serializing_if = "is_default")]
    pub map: bool,
    /// The host decides what is collected.
    #[serde(skip_serializing_if = "is_default")]
    pub collection: bool,
}

/// An array of drives: [`byteway_assembly::ArrayDriveConfig`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Level.
    pub level: LevelSpec,
    /// Members, without the spares.
    pub members: u32,
    /// Drives that take the places of members that fail.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u32,
    /// Units of a chunk.
    pub chunk_units: u32,
    /// A region without writes for so many microseconds is marked as clean.
    pub clean_us: u64,
    /// Its work is done on a bridge; none: on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeSpec>,
    /// Its members collect in windows, all at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub collects_together: bool,
    /// In which way it is broken on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<ArrayCanarySpec>,
}

/// An array's level.
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
    /// Bytes that it holds.
    pub bytes: u64,
    /// The longest write that it takes, bytes.
    pub small_bytes: u64,
    /// A write that begins so near the end of another is of a stream, bytes.
    pub stream_window: u64,
    /// Writes that drain it at once.
    pub drain_depth: u32,
    /// What passes it is acknowledged when it survives a power cut.
    #[serde(default)]
    pub is_through: bool,
    /// Units of a row, in which one write passes at a time.
    pub row_units: u64,
}

/// How an array is broken: [`byteway_array::Canary`], and a bridge's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrayCanarySpec {
    /// Regions are not marked before they are written.
    NoIntentLog,
    /// Writes of degraded stripes are not in the journal.
    NoJournal,
    /// What stale parity would have given is not marked as lost.
    NoLostMarks,
    /// A bridge's memory does not keep its contents without power.
    ForgetMemory,
}

impl LevelSpec {
    /// Whether a member can go.
    pub fn is_redundant(self) -> bool {
        self != LevelSpec::Raid0
    }

    /// Of so many members, how many hold the same.
    pub fn copies(self, members: usize) -> usize {
        match self {
            LevelSpec::Raid0 | LevelSpec::Raid5 => 1,
            LevelSpec::Raid1 => members,
            LevelSpec::Raid10 => 2,
        }
    }
}

impl ArraySpec {
    /// Its drives, spares too.
    pub fn drives(&self) -> usize {
        (self.members + self.spares) as usize
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How a recovery is broken: [`byteway_firmware::ftl::config::Canary`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CanarySpec {
    /// Deallocations in the journal are ignored.
    IgnoreTrims,
    /// Of two copies of a unit the older one is taken.
    OlderCopy,
    /// Stripes are not held until their wordline is whole.
    TrustTorn,
    /// What capacitors saved is forgotten.
    ForgetDump,
    /// Superblocks are erased before what makes them stale is durable.
    EraseEarly,
    /// A wordline takes along what an earlier one holds.
    TakeAlong,
    /// No shutdown ends.
    StallShutdown,
    /// Some changes of entries in borrowed DRAM are not committed to the log.
    SkipCommit,
    /// A full log of borrowed DRAM is cleared without a flush.
    ClearUnflushed,
    /// Borrowed DRAM is given back without its dirty pages being read back.
    ReturnUnread,
    /// Records of a log are replayed that are older than what flash has.
    ReplayOld,
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSpec {
    /// Units of 4 KiB.
    pub units: u64,
    /// Bytes of a logical block: 512 or 4096; of one that holds pairs, 4096.
    pub block: u32,
    /// It holds pairs of keys and values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: bool,
}

/// What a drive holds at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaseSpec {
    /// Nothing.
    #[default]
    Empty,
    /// Every unit, in order.
    Filled,
    /// Every unit, as random overwrites leave them.
    Steady,
}

impl DriveSpec {
    /// Units of a stripe, which a Compare and Write may have as blocks; over an array it has one.
    pub fn stripe_units(&self) -> u32 {
        if self.array.is_some() {
            return 1;
        }
        self.planes * (self.page_bytes / 4096)
    }

    /// Whether its firmware can run on the host.
    pub fn can_be_hosted(&self) -> bool {
        self.base == BaseSpec::Empty
            && !self.protected
            && !self.files
            && self.host_buffer_pages.is_none()
            && !self.has_pairs()
            && self.channels.is_multiple_of(self.endpoints)
    }

    /// Whether its map can be a tree of extents, if it is to be one.
    pub fn can_have_extents(&self) -> bool {
        self.base == BaseSpec::Empty && self.map_cache_pages.is_none()
    }

    /// Whether there can be several such drives, and an array of them.
    pub fn can_be_array(&self) -> bool {
        self.base == BaseSpec::Empty
            && self.endpoints == 0
            && !self.files
            && self.host_buffer_pages.is_none()
            && !self.has_pairs()
    }

    /// Takes from a drive without pairs what those of a box have not.
    pub fn fit_a_box(&mut self) {
        (self.array, self.partial, self.endpoints) = (None, PartialSpec::default(), 0);
        (self.files, self.untimed, self.host_buffer_pages) = (false, false, None);
    }

    /// Whether it can be in a box.
    pub fn can_be_in_a_box(&self) -> bool {
        self.array.is_none()
            && self.partial == PartialSpec::default()
            && self.endpoints == 0
            && !self.files
            && !self.untimed
            && self.host_buffer_pages.is_none()
            && !self.has_pairs()
    }

    /// Whether the part of its firmware that is to run on the host can do so.
    pub fn can_be_partial(&self) -> bool {
        let is_partial = self.partial != PartialSpec::default();
        !is_partial || self.endpoints == 0 && !(self.partial.map && self.map_cache_pages.is_some())
    }

    /// Whether there is a namespace of pairs at first.
    pub fn has_pairs(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.pairs)
    }
}
