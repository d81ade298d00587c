//! Parameters of a translation layer, and its errors.

use crate::ftl::space::Space;
use crate::policy::stream::{STREAMS_MAX, StreamCounts};
use crate::policy::{AdmissionPolicy, PrefetchPolicy, StreamPolicy, VictimPolicy, WearPolicy};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_content::{BlockSize, Keep, UNIT_BYTES};
use byteway_defect::Planted;
use byteway_flash::{BlockId, FlashError, Geometry, GeometryError, SlcTiming, Timing};

/// Approximate units that a round of garbage collection reads: enough that rounds cost little, and few enough
/// that they do not occupy the cores for long.
pub(in crate::ftl) const ROUND_UNITS: u32 = 64;

/// Contents before the first I/O, in closed form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// No unit is mapped: every unit reads as zeroes.
    #[default]
    Empty,
    /// Every unit, written once in order.
    Filled,
    /// Every unit, as uniform random overwrites of single units leave the drive in the long run under greedy
    /// garbage collection: see [`SteadyTiming`] and [`FtlConfig::steady_load`].
    Steady,
}

/// What a host asks of a drive for so long that the drive is in a steady state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SteadyLoad {
    /// More writes than the drive can take: they wait for garbage collection, and few superblocks are free.
    #[default]
    Saturating,
    /// Fewer: garbage collection keeps up, and as many superblocks are free as it keeps free. If it would not
    /// keep up at this load, the state is that of [`Saturating`](Self::Saturating).
    Paced {
        /// Units written, in a million seconds.
        units_per_megasecond: u64,
        /// Share of its time for which a die works for the host, in millionths.
        busy_ppm: u32,
        /// Share of this load, in millionths, by which the host slows down beside garbage collection at most, since it waits for what it
        /// has asked: where collection would not keep up, the load is as much of this one as it can keep up with.
        yields_ppm: u32,
        /// Time that garbage collection takes beside this load, in millionths of what flash alone takes for it ([`SteadyTiming`]).
        collection_ppm: u32,
    },
}

/// Units whose initial content is the pattern of one namespace. Stamps count logical blocks from the region's
/// first unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First unit. The region ends where the next one begins.
    pub first_unit: u64,
    /// Tag of the stamps.
    pub tag: u16,
    /// Size of logical blocks.
    pub block: BlockSize,
}

/// Background maintenance of the flash. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    /// Wear leveling among the superblocks of a die.
    pub wear: WearPolicy,
    /// Spare superblocks of each die, beyond the over-provisioning, which replace bad ones. When one fails
    /// and no spare is left, the drive becomes read-only.
    pub spare_blocks: u32,
    /// Maximum factory-bad superblocks of a die, among the spares: each die draws its number evenly from 0
    /// on.
    pub factory_bad_blocks: u32,
    /// Garbage collection while the host is idle.
    pub background: Option<Background>,
    /// Refresh of data that were read too often or are too old.
    pub refresh: Option<Refresh>,
    /// Superblocks of each die in one-bit mode, as a write cache.
    pub slc_blocks: u32,
    /// Other superblocks that this cache borrows while they are free.
    pub slc_dynamic: DynamicCache,
    /// Whether the cache is emptied only while the host is idle, or where space is short; otherwise beside the host's writes, too, from when
    /// it is nearly full.
    pub slc_folds_idle: bool,
}

/// How many superblocks of a die the one-bit cache may borrow, by how many others hold data: fewer, the fuller the die is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DynamicCache {
    /// Of an empty die; 0: none at all.
    pub most: u32,
    /// Superblocks with data from which on none is lent.
    pub until: u32,
}

impl DynamicCache {
    /// Superblocks that may be lent while `used` others hold data.
    pub(in crate::ftl) fn at(self, used: u32) -> u32 {
        let left = self.until.saturating_sub(used);
        (u64::from(self.most) * u64::from(left) / u64::from(self.until.max(1))) as u32
    }
}

impl Maintenance {
    /// Whether host writes go to cells with one bit first.
    pub fn has_cache(&self) -> bool {
        self.slc_blocks > 0 || self.slc_dynamic.most > 0
    }

    /// Superblocks of each die that hold no host data: spares, those of the cache, and an open one for cold
    /// data.
    pub fn set_aside(&self) -> u32 {
        self.spare_blocks.saturating_add(self.slc_blocks).saturating_add(u32::from(self.has_cold()))
    }

    /// Whether cold data are moved to superblocks of their own.
    pub(in crate::ftl) fn has_cold(&self) -> bool {
        self.refresh.is_some() || self.wear.says(|wear| wear.moves()).unwrap_or(false)
    }
}

/// Garbage collection while the host is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// Time without a host command after which the host counts as idle.
    pub idle: Delay,
    /// Target number of free superblocks of each die.
    pub free_blocks: u32,
}

/// Thresholds at which a superblock is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// Reads of the superblock since its erase.
    pub reads: u32,
    /// Age of its data.
    pub age: Delay,
}

/// A map in the form of a B+-tree of extents: runs of consecutive units at consecutive addresses of the log
/// (Josephson, Bongo, Li, Flynn, "DFS: A File System for Virtualized Flash Storage", FAST 2010, 3.1, which
/// describes such a map). Its memory depends on what was written and how scattered it is, and a look-up pays
/// for each node visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentConfig {
    /// Bytes of a node.
    pub node_bytes: u32,
    /// Bytes of an extent in a leaf: its first unit, its log address, its length.
    pub entry_bytes: u32,
    /// Bytes of a child in an inner node: the first unit below it, and its address.
    pub child_bytes: u32,
    /// Minimum fill of a node in percent, 1 to 50: below it the node takes entries of a neighbour or merges
    /// with it.
    pub fill_percent_min: u32,
}

impl Default for ExtentConfig {
    fn default() -> Self {
        ExtentConfig { node_bytes: 4096, entry_bytes: 24, child_bytes: 16, fill_percent_min: 50 }
    }
}

impl ExtentConfig {
    /// Maximum extents of a leaf.
    pub fn leaf_entries(&self) -> u32 {
        self.node_bytes / self.entry_bytes.max(1)
    }

    /// Maximum children of an inner node.
    pub fn inner_entries(&self) -> u32 {
        self.node_bytes / self.child_bytes.max(1)
    }

    /// The reason why the parameters are invalid, if they are.
    pub(in crate::ftl) fn fault(&self) -> Option<&'static str> {
        let is_few = |entries: u32| (4..=u32::from(u16::MAX)).contains(&entries);
        match self {
            Self { entry_bytes: 0, .. } | Self { child_bytes: 0, .. } => {
                Some("an entry has at least one byte")
            }
            _ if !is_few(self.leaf_entries()) || !is_few(self.inner_entries()) => {
                Some("a node has 4 to 65535 entries: node_bytes over entry_bytes, and over child_bytes")
            }
            _ if !(1..=50).contains(&self.fill_percent_min) => Some("fill_percent_min is from 1 to 50"),
            _ => None,
        }
    }
}

/// Which die programs the next stripe of written units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Striping {
    /// The next one in turn that is not busy.
    #[default]
    Ready,
    /// Strictly one after the other: a stripe waits for its die, and what comes behind it, too.
    InTurn,
}

/// What the firmware does for itself with all dies, and that stops programs: writing its records or parity, preparing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Housekeeping {
    /// Units that are programmed between two such times; at least one.
    pub units: u64,
    /// How long no program begins.
    pub time: Delay,
}

/// Parameters of a translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FtlConfig {
    /// User capacity in units of 4 KiB. See [`FtlConfig::user_units_at`].
    pub user_units: u64,
    /// Capacity of the write buffer in units; at least two stripes are used.
    pub write_buffer_units: u32,
    /// Which die programs the next stripe of written units.
    pub striping: Striping,
    /// What stops programs from time to time; None for nothing.
    pub housekeeping: Option<Housekeeping>,
    /// Maximum units with absorbed parts, in addition to the write buffer: a partial write
    /// ([`Ftl::write_part`](crate::ftl::Ftl::write_part)) is acknowledged once it is in DRAM, and merged with
    /// the rest of its unit in the background. None: such a write reads its unit first.
    pub absorbs_parts: Option<u32>,
    /// Capacity of the read cache in units, in addition to the write buffer; 0 for none.
    pub read_cache_units: u32,
    /// Which units that the host reads it keeps.
    pub admission: AdmissionPolicy,
    /// What is read ahead of the host, into the read cache.
    pub prefetch: PrefetchPolicy,
    /// Victim selection of garbage collection.
    pub gc: VictimPolicy,
    /// Streams of units: which of a die's open superblocks they go to.
    pub streams: StreamPolicy,
    /// Garbage collection of a die runs while no more than this many superblocks are free. Each stream of garbage collection beyond the
    /// first adds one, here and to the reserve.
    pub gc_start_free_blocks: u32,
    /// Superblocks of a die reserved for garbage collection, at least one: without one it could not finish.
    pub gc_reserve_blocks: u32,
    /// Power-loss protection: buffered data are durable, so Flush and FUA wait for no program.
    pub plp: bool,
    /// Capacity of the map cache in translation pages of 4 KiB; None for a whole map in DRAM.
    pub map_cache_pages: Option<u32>,
    /// Translation pages in a segment, at least one: the unit in which DRAM for the map is taken and given
    /// up, see [`Ftl::take_map_segments`](crate::ftl::Ftl::take_map_segments).
    pub map_segment_pages: u32,
    /// Parameters of a map that is a B+-tree of extents, as in firmware on a host; None for a table with an
    /// entry for each unit.
    pub extents: Option<ExtentConfig>,
    /// Map entries take 8 bytes instead of 4, required for an array of more than
    /// [`Geometry::NARROW_UNITS_MAX`] units.
    pub wide_map: bool,
    /// Units programmed between two checkpoints; 0 for one at shutdown and whenever the journal is full.
    pub checkpoint_units: u64,
    /// Background maintenance of the flash.
    pub upkeep: Maintenance,
    /// Seed of the layout of [`Base::Steady`].
    pub seed: u64,
    /// Times of a die's work on a superblock, for [`Base::Steady`].
    pub rhythm: SteadyTiming,
    /// The load that left [`Base::Steady`]. A drive with a one-bit cache is always taken as saturated.
    pub steady_load: SteadyLoad,
    /// The array is driven by other code, as in a drive that exposes raw flash: this translation layer maps
    /// nothing, leaves the array alone, and keeps no record in it.
    pub is_bare: bool,
    /// Contents before the first I/O.
    pub base: Base,
    /// Patterns of the initial contents, by rising first unit. Units before the first region hold zeroes.
    pub regions: Vec<Region>,
    /// How units changed by [`Ftl::modify`](crate::ftl::Ftl::modify) are stored.
    pub keep: Keep,
    /// Start also if damage of the medium has lost units of the map: their reads fail until they are written
    /// or deallocated. Otherwise such a start is refused.
    pub accepts_losses: bool,
    /// The defect on purpose, if any.
    #[doc(hidden)]
    pub defect: Planted<Defect>,
}

byteway_defect::defects! {
    /// Defects on purpose of the translation layer.
    #[doc(hidden)]
    pub enum Defect {
        /// Recovery ignores deallocations in the journal.
        IgnoreTrims = "ignore-trims",
        /// Recovery takes the older of two versions of a unit.
        OlderCopy = "older-copy",
        /// A stripe counts as safe before its wordline is complete.
        TrustTorn = "trust-torn",
        /// Recovery ignores the save made on the capacitors' charge.
        ForgetDump = "forget-dump",
        /// A superblock is erased before the deallocation of its units is in the journal.
        EraseEarly = "erase-early",
        /// A complete wordline releases held stripes of earlier wordlines of its superblock, whose siblings then
        /// wait for them indefinitely. Visible only where programs complete out of order: without modelled time.
        TakeAlong = "take-along",
        /// The checkpoint of a shutdown is never written, and no shutdown completes.
        StallShutdown = "stall-shutdown",
        /// Some changes of entries in borrowed DRAM are not committed to the log.
        SkipCommit = "skip-commit",
        /// The log of borrowed DRAM is cleared when full, before its pages are flushed.
        ClearUnflushed = "clear-unflushed",
        /// Borrowed DRAM is returned before its dirty pages are read back.
        ReturnUnread = "return-unread",
        /// Recovery replays log records that are older than the pages in flash.
        ReplayOld = "replay-old",
    }
}

impl FtlConfig {
    /// Translation pages of 4 KiB in 2 MiB.
    pub const MAP_SEGMENT_PAGES: u32 = 512;
    /// Maximum slots of a write buffer.
    pub const BUFFER_UNITS_MAX: u32 = crate::ftl::map::table::Entry::SLOTS;

    /// Superblocks of a die that the host leaves to garbage collection with these streams: one that can be opened for each stream, and those
    /// beyond one that are asked for.
    pub(in crate::ftl) fn reserve(&self, streams: StreamCounts) -> u32 {
        self.gc_reserve_blocks.saturating_add(streams.collector - 1)
    }

    /// Free superblocks of a die at which garbage collection begins with these streams.
    pub(in crate::ftl) fn start(&self, streams: StreamCounts) -> u32 {
        self.gc_start_free_blocks.saturating_add(streams.collector - 1)
    }

    /// Units that always occupy flash: the host's, and the translation pages if the map is cached.
    pub(in crate::ftl) fn units_held(&self) -> u64 {
        let map = Space::new(self.user_units, self.wide_map).map.1;
        self.user_units.saturating_add(if self.map_cache_pages.is_some() { map } else { 0 })
    }

    /// User capacity in units for an over-provisioning of `op` (spare over user capacity: 0.07 is 7 %), net
    /// of superblocks that hold no data under steady writes: the garbage collection reserve and, half a
    /// superblock on average, those that are free or open beyond it. `geometry` must exclude
    /// [`Maintenance::set_aside`].
    pub fn user_units_at(geometry: &Geometry, gc_reserve_blocks: u32, op: f64) -> u64 {
        let blocks = f64::from(geometry.blocks) - (f64::from(gc_reserve_blocks) + 0.5);
        let units = blocks.max(0.0) * f64::from(geometry.units_per_block()) * f64::from(geometry.dies());
        (units / (1.0 + op.max(0.0))) as u64
    }
}

impl FtlConfig {
    /// Whether a superblock is one of the cache: the last ones of a die.
    pub(in crate::ftl) fn is_cache(&self, geometry: &Geometry, block: BlockId) -> bool {
        block.0 % geometry.blocks >= geometry.blocks.saturating_sub(self.upkeep.slc_blocks)
    }

    /// The factory-bad superblocks. Superblocks are numbered after bad blocks are known, so these are the
    /// last ones of a die before those of the cache.
    pub(in crate::ftl) fn factory_bad(&self, geometry: &Geometry) -> impl Iterator<Item = BlockId> {
        let mut stream = Rng::new(self.seed).stream("factory-bad");
        let (geometry, upkeep) = (*geometry, self.upkeep.clone());
        let most = u64::from(upkeep.factory_bad_blocks);
        (0..geometry.dies()).flat_map(move |die| {
            let count = if most == 0 { 0 } else { stream.below(most + 1) as u32 };
            let end = geometry.blocks - upkeep.slc_blocks;
            (end - count..end).map(move |block| geometry.block(die, block))
        })
    }
}

impl Default for FtlConfig {
    fn default() -> Self {
        FtlConfig {
            user_units: 0,
            write_buffer_units: 1024,
            striping: Striping::default(),
            housekeeping: None,
            absorbs_parts: None,
            read_cache_units: 0,
            admission: AdmissionPolicy::default(),
            prefetch: PrefetchPolicy::default(),
            gc: VictimPolicy::default(),
            streams: StreamPolicy::default(),
            gc_start_free_blocks: 2,
            gc_reserve_blocks: 1,
            plp: false,
            map_cache_pages: None,
            map_segment_pages: FtlConfig::MAP_SEGMENT_PAGES,
            extents: None,
            wide_map: false,
            checkpoint_units: 0,
            upkeep: Maintenance::default(),
            seed: 0,
            rhythm: SteadyTiming::default(),
            steady_load: SteadyLoad::default(),
            is_bare: false,
            base: Base::Empty,
            regions: Vec::new(),
            keep: Keep::Stamps,
            accepts_losses: false,
            defect: Planted::none(),
        }
    }
}

/// Error of building a translation layer, or of one of its requests.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FtlError {
    /// The geometry is invalid.
    #[error("flash geometry: {0}")]
    Geometry(#[from] GeometryError),
    /// The timing, error model or fault plan is invalid.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// The user capacity leaves too little spare for garbage collection.
    #[error(
        "{user_units} units of 4 KiB leave too little spare area: {blocks} superblocks a die take at most {most}; lower the capacity, or add \
         blocks (`flash.blocks`), of which {needed} are the least: some are kept open for data that are moved for wear or age, and for streams"
    )]
    TooLarge {
        /// The requested capacity.
        user_units: u64,
        /// Superblocks of a die.
        blocks: u32,
        /// The largest possible capacity.
        most: u64,
        /// Superblocks of a die that it takes at least.
        needed: u64,
    },
    /// The streams leave too little spare for garbage collection.
    #[error(
        "{user_units} units of 4 KiB in the {streams} streams of `{policy}` take {needed} superblocks a die, and it has {blocks}, for \
         {most} units at most; lower the capacity, add blocks, or choose a policy with fewer streams"
    )]
    ManyStreams {
        /// The requested capacity.
        user_units: u64,
        /// The stream policy.
        policy: String,
        /// Its streams.
        streams: u32,
        /// Superblocks of a die that the capacity takes.
        needed: u64,
        /// Superblocks of a die.
        blocks: u32,
        /// The largest possible capacity.
        most: u64,
    },
    /// The stream policy declares streams that a drive can't have.
    #[error(
        "the stream policy declares {host} streams of the host and {collector} of the collector: at least one of each, and at most \
         {STREAMS_MAX} in all"
    )]
    StreamCounts {
        /// Streams of the host.
        host: u32,
        /// Streams of the collector.
        collector: u32,
    },
    /// The user capacity is zero.
    #[error("a drive has at least one unit of 4 KiB")]
    NoUnits,
    /// Garbage collection would start too late.
    #[error(
        "gc_start_free_blocks is {start}, it must be at least gc_reserve_blocks = {reserve}, which must be at least 1"
    )]
    Thresholds {
        /// The configured start.
        start: u32,
        /// The configured reserve.
        reserve: u32,
    },
    /// The write buffer exceeds the slots that the map can address.
    #[error("the write buffer has {0} units of 4 KiB; at most {max} fit", max = FtlConfig::BUFFER_UNITS_MAX)]
    Buffer(u32),
    /// The read cache exceeds its maximum.
    #[error("the read cache has {0} units of 4 KiB; at most {max} fit", max = FtlConfig::BUFFER_UNITS_MAX)]
    ReadCache(u32),
    /// A policy of a read cache that the drive has not.
    #[error("the {0} policy is of a read cache: the drive has none (read_cache_units is 0)")]
    NoReadCache(&'static str),
    /// Housekeeping comes after no unit.
    #[error("housekeeping comes after at least one unit of 4 KiB")]
    Housekeeping,
    /// The maximum of absorbed parts is out of range.
    #[error("absorbs_parts is out of range: 1 to {max} units of 4 KiB", max = FtlConfig::BUFFER_UNITS_MAX)]
    Parts,
    /// The maintenance parameters are invalid.
    #[error("{0}")]
    Upkeep(&'static str),
    /// The array exceeds the addresses of 4-byte map entries.
    #[error(
        "the array has {0} units of 4 KiB, and map entries of 4 bytes address at most {max}: use 8 bytes \
         (wide_map)",
        max = Geometry::NARROW_UNITS_MAX
    )]
    Narrow(u64),
    /// The map cache has no page.
    #[error("the map cache must hold at least one translation page of 4 KiB")]
    NoMapCache,
    /// The far end lacks a feature that this translation layer needs.
    #[error("flash across a link: {0}")]
    Far(&'static str),
    /// The parameters of the map of extents are invalid.
    #[error("map of extents: {0}")]
    Extents(&'static str),
    /// The regions are out of order.
    #[error("regions must be sorted by their first unit")]
    Regions,
}

/// Error of reading or writing units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// Some units are out of range.
    #[error("units out of range")]
    OutOfRange,
    /// Flash could not deliver them.
    #[error("unrecovered read error")]
    Unreadable,
    /// No space is left for them: the drive is read-only.
    #[error("write protected: the drive is at the end of its life")]
    WriteProtected,
    /// Deallocated data may remain in flash: a superblock could not be erased or emptied.
    #[error("some deallocated data could not be erased")]
    NotErased,
    /// Too many members of the array behind the drive have failed.
    #[error("write fault: too many members of the array have failed")]
    Failed,
}

/// Times of a die's work on a superblock, from which [`Base::Steady`] derives its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteadyTiming {
    /// Stripes of a wordline: an open superblock ends with a whole wordline.
    pub wordline: u32,
    /// Time to program all stripes.
    pub program: Delay,
    /// Time to read all units.
    pub read: Delay,
    /// Time of the erase.
    pub erase: Delay,
    /// Time to program all stripes of a superblock of the cache; this and the next two are zero without a
    /// cache.
    pub cache_program: Delay,
    /// Time to read all units of a superblock of the cache.
    pub cache_read: Delay,
    /// Time to erase it.
    pub cache_erase: Delay,
    /// Translation pages programmed for each million units of the host.
    pub map_pages_ppm: u32,
}

/// Only programs take time.
impl Default for SteadyTiming {
    fn default() -> Self {
        let none = Delay::ZERO;
        SteadyTiming {
            wordline: 1,
            program: Delay::from_ms(1),
            read: none,
            erase: none,
            cache_program: none,
            cache_read: none,
            cache_erase: none,
            map_pages_ppm: 0,
        }
    }
}

impl SteadyTiming {
    /// Times on flash with this geometry and timing, without map writes.
    pub fn of(geometry: &Geometry, timing: &Timing) -> SteadyTiming {
        let mean = |times: &[Delay]| times.iter().copied().sum::<Delay>() / times.len().max(1) as u64;
        let pages = u64::from(geometry.pages);
        let bytes = u64::from(geometry.units_per_stripe()) * UNIT_BYTES as u64;
        let passage = timing.command + timing.channel.time_for(bytes);
        let wordline = timing.stripes_per_wordline();
        let cached = |of: fn(&SlcTiming) -> Delay| timing.slc.as_ref().map(of);
        let all = |time: Option<Delay>| {
            time.map_or(Delay::ZERO, |time| (time + passage) * u64::from(geometry.pages.div_ceil(wordline)))
        };
        SteadyTiming {
            wordline,
            program: (mean(&timing.program) + passage) * pages,
            read: (mean(&timing.read) + passage) * pages,
            erase: timing.command + timing.erase,
            cache_program: all(cached(|slc| slc.program)),
            cache_read: all(cached(|slc| slc.read)),
            cache_erase: cached(|slc| slc.erase).map_or(Delay::ZERO, |erase| timing.command + erase),
            map_pages_ppm: 0,
        }
    }

    /// The same times, with the map writes of a translation layer with this configuration.
    ///
    /// With each unit written, a page leaves the map cache of p pages with probability r, and is buffered
    /// unless it waits in the buffer already. In the time t, in units written, that a page takes to pass
    /// through the buffer, p / (t + p / r) pages enter it for each unit, and the buffer holds t times one
    /// more than that.
    pub fn with_map_of(self, config: &FtlConfig) -> SteadyTiming {
        let count = Space::new(config.user_units, config.wide_map).map.1 as f64;
        let held = f64::from(config.map_cache_pages.unwrap_or(u32::MAX)).min(count);
        let leaves = 1.0 - held / count;
        let slots = f64::from(config.write_buffer_units);
        let pages = |time: f64| count / (time + count / leaves);
        let (mut low, mut high) = (0.0, slots);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if middle * (1.0 + pages(middle)) < slots { low = middle } else { high = middle }
        }
        let map_pages_ppm = if leaves > 0.0 { (pages(low) * 1e6 + 0.5) as u32 } else { 0 };
        SteadyTiming { map_pages_ppm, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refused configuration must name the parameter, its value and what is valid.
    #[test]
    fn errors_name_the_value_and_the_bound() {
        let text = |error: FtlError| error.to_string();
        assert_eq!(
            text(FtlError::TooLarge { user_units: 100, blocks: 8, most: 90, needed: 9 }),
            "100 units of 4 KiB leave too little spare area: 8 superblocks a die take at most 90; lower the capacity, or add blocks \
             (`flash.blocks`), of which 9 are the least: some are kept open for data that are moved for wear or age, and for streams"
        );
        assert_eq!(
            text(FtlError::Thresholds { start: 1, reserve: 2 }),
            "gc_start_free_blocks is 1, it must be at least gc_reserve_blocks = 2, which must be at least 1"
        );
        let most = FtlConfig::BUFFER_UNITS_MAX;
        assert_eq!(
            text(FtlError::Buffer(u32::MAX)),
            format!("the write buffer has 4294967295 units of 4 KiB; at most {most} fit")
        );
        assert_eq!(
            text(FtlError::Parts),
            format!("absorbs_parts is out of range: 1 to {most} units of 4 KiB")
        );
        assert_eq!(
            text(FtlError::Narrow(1 << 32)),
            "the array has 4294967296 units of 4 KiB, and map entries of 4 bytes address at most 4026531840: \
             use 8 bytes (wide_map)"
        );
    }
}
