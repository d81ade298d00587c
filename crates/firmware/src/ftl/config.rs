//! The parameters of a translation layer, and what can be wrong with them.

use crate::ftl::space::Space;
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_flash::{BlockId, FlashError, Geometry, GeometryError, SlcTiming, Timing};
use byteway_wire::content::{BlockSize, Keep, UNIT_BYTES};

/// Units that a round of collection reads, about: enough that rounds cost little, and few enough that the cores are not taken for
/// long at a time.
pub(in crate::ftl) const ROUND_UNITS: u32 = 64;

/// Which superblock the collector takes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Victim {
    /// The one with the fewest valid units; among equals the one that was closed first.
    #[default]
    Greedy,
    /// The one with the most `age * (1 - u) / 2u`, where u is its share of valid units and its age is how many
    /// superblocks of the die were closed since it was (Rosenblum and Ousterhout, "The Design and Implementation of a
    /// Log-Structured File System", 3.6; 2u stands for the read and the write of what is valid).
    CostBenefit,
}

/// What the drive holds before the first I/O, in closed form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// Nothing: every unit reads as zeroes.
    #[default]
    Empty,
    /// Every unit, written once in order.
    Filled,
    /// Every unit, as uniform random overwrites of single units, as fast as the drive takes them, leave them in the long
    /// run under greedy collection: see [`Rhythm`].
    Steady,
}

/// Units whose first content is the pattern of one namespace. Its stamps count logical blocks from its first unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where it begins. It ends where the next one begins.
    pub first_unit: u64,
    /// The tag of its stamps.
    pub tag: u16,
    /// The size of its logical blocks.
    pub block: BlockSize,
}

/// What a drive does for its flash, beside what the host asks for. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Levelling of wear.
    pub wear: WearConfig,
    /// Superblocks of a die set aside to take the place of bad ones, beyond the over-provisioning. When one fails and
    /// none is left, the drive is read-only from then on.
    pub spare_blocks: u32,
    /// Of those, how many of each die are bad from the factory, at most: each die draws its number evenly from 0 on.
    pub factory_bad_blocks: u32,
    /// Collection while the host is idle.
    pub background: Option<Background>,
    /// Moving what was read too often or lies too long.
    pub refresh: Option<Refresh>,
    /// Superblocks of a die that are used with one bit a cell, as a cache of what the host writes.
    pub slc_blocks: u32,
}

impl Upkeep {
    /// Superblocks of a die that are not for what the host stores: spare ones, those of the cache, and one that is open
    /// for cold data.
    pub fn set_aside(&self) -> u32 {
        self.spare_blocks.saturating_add(self.slc_blocks).saturating_add(u32::from(self.has_cold()))
    }

    /// Whether data is moved that is cold.
    pub(in crate::ftl) fn has_cold(&self) -> bool {
        self.wear.static_spread.is_some() || self.refresh.is_some()
    }
}

/// Levelling of wear among the superblocks of a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WearConfig {
    /// The free superblock with the fewest erases is opened next.
    pub dynamic: bool,
    /// When the most worn superblock has more than so many erases more than the least worn closed one, that one is moved
    /// to a worn one, and used. Implies `dynamic`.
    pub static_spread: Option<u32>,
}

/// Collection while the host is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background {
    /// Idle is a host from which nothing has come for so long.
    pub idle: Delay,
    /// How many superblocks of a die are to be free.
    pub free_blocks: u32,
}

/// When a superblock is moved for the sake of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// After so many reads of it.
    pub reads: u32,
    /// When what it holds is so old.
    pub age: Delay,
}

/// A map that is a B+-tree of extents: runs of consecutive units at consecutive places of the log (Josephson, Bongo, Li, Flynn,
/// "DFS: A File System for Virtualized Flash Storage", FAST 2010, 3.1, where such a map is described). It takes memory for what
/// was written and how it is scattered, and a look-up pays for each node that it visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentConfig {
    /// Bytes of a node.
    pub node_bytes: u32,
    /// Bytes of an extent in a leaf: its first unit, its place in the log, its length.
    pub entry_bytes: u32,
    /// Bytes of a child in an inner node: the first unit below it, and where it is.
    pub child_bytes: u32,
    /// A node that is filled to less takes entries of a neighbour, or becomes one with it; in percent, from 1 to 50.
    pub fill_percent_min: u32,
}

impl Default for ExtentConfig {
    fn default() -> Self {
        ExtentConfig { node_bytes: 4096, entry_bytes: 24, child_bytes: 16, fill_percent_min: 50 }
    }
}

impl ExtentConfig {
    /// Extents of a leaf, at most.
    pub fn leaf_entries(&self) -> u32 {
        self.node_bytes / self.entry_bytes.max(1)
    }

    /// Children of an inner node, at most.
    pub fn inner_entries(&self) -> u32 {
        self.node_bytes / self.child_bytes.max(1)
    }

    /// What is wrong with it.
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

/// Parameters of a translation layer.
#[derive(Clone, Debug, PartialEq)]
pub struct FtlConfig {
    /// Units of 4 KiB that the host can address. See [`FtlConfig::user_units_at`].
    pub user_units: u64,
    /// Units that the write buffer holds; taken as two stripes at least.
    pub write_buffer_units: u32,
    /// Writes of parts of units ([`Ftl::write_part`](crate::ftl::Ftl::write_part)) are acknowledged when the parts are in DRAM, and
    /// merged with the rest of their units behind: of so many units at most parts may wait, beside the write buffer. None: such a
    /// write reads its unit first.
    pub absorbs_parts: Option<u32>,
    /// Units that the host has read and that DRAM keeps for the next time, beside the write buffer; 0: there is no read cache.
    pub read_cache_units: u32,
    /// How the collector chooses.
    pub gc: Victim,
    /// The collector of a die works while no more superblocks than this are free.
    pub gc_start_free_blocks: u32,
    /// Superblocks of a die that only the collector may open, at least one; it needs one to be able to end.
    pub gc_reserve_blocks: u32,
    /// With power-loss protection what is buffered is durable: Flush and FUA wait for no program.
    pub plp: bool,
    /// Translation pages of 4 KiB that the DRAM holds; none: the whole map is there.
    pub map_cache_pages: Option<u32>,
    /// Translation pages in what DRAM for the map is taken and given up in, at least one: see
    /// [`Ftl::take_map_segments`](crate::ftl::Ftl::take_map_segments).
    pub map_segment_pages: u32,
    /// The map is a B+-tree of extents, as of firmware on a host; none: a table with an entry for each unit.
    pub extents: Option<ExtentConfig>,
    /// Entries of the map take 8 bytes, not 4: an array of more than [`Geometry::NARROW_UNITS_MAX`] units needs that.
    pub wide_map: bool,
    /// Units programmed between two checkpoints; 0: there is one at shutdown, and when the journal is full.
    pub checkpoint_units: u64,
    /// What it does for its flash.
    pub upkeep: Upkeep,
    /// Chooses the placement of [`Base::Steady`].
    pub seed: u64,
    /// How long dies work on a superblock, for [`Base::Steady`].
    pub rhythm: Rhythm,
    /// Somebody else commands the array, as of a drive that offers its flash raw: this translation layer maps nothing, leaves the
    /// array alone, and keeps no record in it.
    pub is_bare: bool,
    /// What it holds at first.
    pub base: Base,
    /// Whose patterns those are, by rising first unit. What lies before the first region holds zeroes.
    pub regions: Vec<Region>,
    /// How units are kept that [`Ftl::modify`](crate::ftl::Ftl::modify) has changed.
    pub keep: Keep,
    /// What is deliberately broken, for tests of tests.
    #[doc(hidden)]
    pub canary: Option<Canary>,
}

/// What is broken on purpose: a test that looks for faults must find it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Deallocations in the journal are not looked at.
    IgnoreTrims,
    /// Of two states of a unit the older one is taken.
    OlderCopy,
    /// A stripe counts as safe before its wordline is there.
    TrustTorn,
    /// What capacitors have saved is not looked at.
    ForgetDump,
    /// A superblock is erased although a deallocation of its units is not in the journal.
    EraseEarly,
    /// A wordline that is whole takes held stripes of earlier ones of its superblock along, whose fellows then wait for them
    /// indefinitely. It shows only where the ends of programs are learned out of order: without modelled time.
    TakeAlong,
    /// The checkpoint of a shutdown is never written, and no shutdown ends.
    StallShutdown,
    /// Some changes of entries in borrowed DRAM are not committed to the log.
    SkipCommit,
    /// The log of borrowed DRAM is cleared when it is full, without its pages being flushed before.
    ClearUnflushed,
    /// Borrowed DRAM is given back without its dirty pages being read back.
    ReturnUnread,
    /// Records of the log are replayed that are older than what flash has.
    ReplayOld,
}

impl FtlConfig {
    /// Translation pages of 4 KiB in 2 MiB.
    pub const MAP_SEGMENT_PAGES: u32 = 512;
    /// The most slots that a write buffer can have.
    pub const BUFFER_UNITS_MAX: u32 = crate::ftl::map::table::Entry::SLOTS;

    /// Units that always lie in flash: the host's, and its translation pages, if not all of them are in DRAM.
    pub(in crate::ftl) fn units_held(&self) -> u64 {
        let map = Space::new(self.user_units, self.wide_map).map.1;
        self.user_units.saturating_add(if self.map_cache_pages.is_some() { map } else { 0 })
    }

    /// How many user units leave an over-provisioning of `op` (spare over user: 0.07 is 7 %), net of the superblocks
    /// that hold no data while the host writes all the time: those left to the collector, and, half a superblock on
    /// average, what is free or open beyond. Of the geometry leave out what [`Upkeep::set_aside`] says.
    pub fn user_units_at(geometry: &Geometry, gc_reserve_blocks: u32, op: f64) -> u64 {
        let blocks = f64::from(geometry.blocks) - (f64::from(gc_reserve_blocks) + 0.5);
        let units = blocks.max(0.0) * f64::from(geometry.units_per_block()) * f64::from(geometry.dies());
        (units / (1.0 + op.max(0.0))) as u64
    }
}

impl FtlConfig {
    /// Whether a superblock is of the cache: those are the last ones of a die.
    pub(in crate::ftl) fn is_cache(&self, geometry: &Geometry, block: BlockId) -> bool {
        block.0 % geometry.blocks >= geometry.blocks.saturating_sub(self.upkeep.slc_blocks)
    }

    /// The superblocks that are bad from the factory. A superblock's number is given out after the bad blocks are known,
    /// so they are the last ones of a die, before those of the cache.
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
            absorbs_parts: None,
            read_cache_units: 0,
            gc: Victim::Greedy,
            gc_start_free_blocks: 2,
            gc_reserve_blocks: 1,
            plp: false,
            map_cache_pages: None,
            map_segment_pages: FtlConfig::MAP_SEGMENT_PAGES,
            extents: None,
            wide_map: false,
            checkpoint_units: 0,
            upkeep: Upkeep::default(),
            seed: 0,
            rhythm: Rhythm::default(),
            is_bare: false,
            base: Base::Empty,
            regions: Vec::new(),
            keep: Keep::Stamps,
            canary: None,
        }
    }
}

/// Why a translation layer can't be made, or can't do what it is asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FtlError {
    /// No such array.
    #[error("flash geometry: {0}")]
    Geometry(#[from] GeometryError),
    /// No such times, reliability or faults.
    #[error(transparent)]
    Flash(#[from] FlashError),
    /// More units than the array can hold and still collect.
    #[error(
        "{user_units} units of 4 KiB leave too little spare area: {blocks} superblocks a die take at most {most}; \
         lower the capacity or add blocks"
    )]
    TooLarge {
        /// What was asked for.
        user_units: u64,
        /// Superblocks of a die.
        blocks: u32,
        /// The most that would do.
        most: u64,
    },
    /// Nothing to address.
    #[error("a drive has at least one unit of 4 KiB")]
    NoUnits,
    /// A collector that would begin when it is too late.
    #[error(
        "gc_start_free_blocks is {start}, it must be at least gc_reserve_blocks, {reserve}, and that at least 1"
    )]
    Thresholds {
        /// Where it begins.
        start: u32,
        /// What is kept for it.
        reserve: u32,
    },
    /// A buffer beyond what the map can name.
    #[error("a write buffer of {0} units of 4 KiB, at most {max} are possible", max = FtlConfig::BUFFER_UNITS_MAX)]
    Buffer(u32),
    /// A read cache beyond what can be named.
    #[error("a read cache of {0} units of 4 KiB, at most {max} are possible", max = FtlConfig::BUFFER_UNITS_MAX)]
    ReadCache(u32),
    /// Parts of no unit, or of more than the map can name.
    #[error("parts of 1 to {max} units of 4 KiB may wait (absorbs_parts)", max = FtlConfig::BUFFER_UNITS_MAX)]
    Parts,
    /// Upkeep that can't be.
    #[error("{0}")]
    Upkeep(&'static str),
    /// An array beyond what the map can name.
    #[error(
        "the array has {0} units of 4 KiB, and a map with entries of 4 bytes names at most {max}: take 8 (wide_map)",
        max = Geometry::NARROW_UNITS_MAX
    )]
    Narrow(u64),
    /// A cached map without a place for a page.
    #[error("the map's cache must hold one translation page of 4 KiB at least")]
    NoMapCache,
    /// A far end that can't be what this translation layer needs.
    #[error("flash across a link: {0}")]
    Far(&'static str),
    /// A map of extents that can't be.
    #[error("map of extents: {0}")]
    Extents(&'static str),
    /// Regions that are not in order.
    #[error("regions must be given by rising first unit")]
    Regions,
}

/// Why units could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    /// They are not all units of the drive.
    #[error("units beyond the drive")]
    OutOfRange,
    /// Flash could not give them.
    #[error("unrecovered read error")]
    Unreadable,
    /// The drive has no room for them any more: it is read-only.
    #[error("write protected: at the end of its life")]
    WriteProtected,
    /// What was deleted may still be in flash: a superblock can't be erased, or not be emptied.
    #[error("not everything that was deleted could be erased")]
    NotErased,
    /// Too many members of the array behind the drive have failed.
    #[error("write fault: too many members of the array have failed")]
    Failed,
}

/// How long a die works on a superblock, in whose middle [`Base::Steady`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// Stripes of a wordline: an open superblock ends with a whole one.
    pub wordline: u32,
    /// Programs all stripes.
    pub program: Delay,
    /// Reads all units.
    pub read: Delay,
    /// Erases it.
    pub erase: Delay,
    /// Programs all stripes of a superblock of the cache; zero if there is none, like those that follow.
    pub cache_program: Delay,
    /// Reads all its units.
    pub cache_read: Delay,
    /// Erases it.
    pub cache_erase: Delay,
    /// Translation pages that are programmed with a million units of the host's.
    pub map_pages_ppm: u32,
}

/// Programs alone take time.
impl Default for Rhythm {
    fn default() -> Self {
        let none = Delay::ZERO;
        Rhythm {
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

impl Rhythm {
    /// That of flash of this shape and these times.
    pub fn of(geometry: &Geometry, timing: &Timing) -> Rhythm {
        let mean = |times: &[Delay]| times.iter().copied().sum::<Delay>() / times.len().max(1) as u64;
        let pages = u64::from(geometry.pages);
        let bytes = u64::from(geometry.units_per_stripe()) * UNIT_BYTES as u64;
        let passage = timing.command + timing.channel.time_for(bytes);
        let wordline = timing.stripes_per_wordline();
        let cached = |of: fn(&SlcTiming) -> Delay| timing.slc.as_ref().map(of);
        let all = |time: Option<Delay>| {
            time.map_or(Delay::ZERO, |time| (time + passage) * u64::from(geometry.pages.div_ceil(wordline)))
        };
        Rhythm {
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

    /// That of a translation layer which is otherwise like this.
    ///
    /// With each unit that is written a page leaves the map's cache, one of p, with probability r, and is buffered unless it
    /// waits there already. So in the time t, in units written, that it takes to go through the buffer, p / (t + p / r) pages
    /// enter it for each unit, and t times one more than that is what the buffer holds.
    pub fn with_map_of(self, config: &FtlConfig) -> Rhythm {
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
        Rhythm { map_pages_ppm, ..self }
    }
}
