//! Superblocks: free, open or closed, their valid counts, and victim selection.
//!
//! Host writes and garbage collection fill different superblocks of a die, as one stream each, or as several
//! if a [policy](crate::policy::stream) tells them apart. One superblock is always reserved for garbage
//! collection, so that it can finish what it begins: a victim with some stale units fits into one superblock,
//! and frees one. With several streams of garbage collection one more is reserved for each, so that each can
//! open one while the data of a victim are divided among them. Further lanes are the cache, superblocks in
//! one-bit mode that take host writes first; and, with wear leveling or refresh, that of the data moved for
//! those: they are cold, and would be moved again and again if they were mixed with those of ordinary garbage
//! collection.
//!
//! The last superblocks of a die are always the cache's, its static part. Of the others it may borrow free ones
//! ([`DynamicCache`](crate::ftl::config::DynamicCache)): such a superblock is an ordinary one with fewer stripes, and a victim like the rest, of
//! which emptying frees most. So what was lent comes back when space is short, without a rule of its own.
//!
//! Some superblocks are spares: as many free ones as there are spares left may not be used. It is not fixed
//! which ones these are, so that spares wear like the others. A failed superblock uses up a spare and is bad
//! from then on: it takes no more programs, and is out of use once its data have been moved.
//!
//! Which closed superblock is emptied next is a [policy](crate::policy::victim)'s to say; which free one is opened, and which one is emptied
//! because it is little worn, that of [another](crate::policy::wear).

use crate::ftl::base::BaseState;
use crate::ftl::config::{DynamicCache, FtlConfig};
use crate::ftl::map::table::{Entry, EntryKind};
use crate::policy::stream::{STREAMS_MAX, StreamCounts};
use crate::policy::victim::{Greedy, Victim, VictimView};
use crate::policy::wear::{Opening, Wear, WearView};
use byteway_clock::random::{Rng, Stream as Random};
use byteway_flash::{BlockId, DataEnd, Geometry, Ppa};
use byteway_policy::Asked;
use std::collections::VecDeque;

/// What an open superblock takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Lane {
    /// Host writes of a stream.
    Host(u8),
    /// What garbage collection moves to a stream.
    Collector(u8),
    /// Host writes into the cache, in one-bit mode.
    Cache,
    /// Data moved for wear leveling or refresh, which may stay for long.
    Cold,
}

impl Lane {
    const COUNT: usize = STREAMS_MAX as usize + 2;

    /// Its place in a die's list. Streams of the host begin at one end of theirs, and those of the collector at the other.
    fn index(self) -> usize {
        match self {
            Lane::Cache => 0,
            Lane::Cold => 1,
            Lane::Host(stream) => 2 + usize::from(stream),
            Lane::Collector(stream) => Self::COUNT - 1 - usize::from(stream),
        }
    }

    /// Those that may continue superblocks found open, in order of preference.
    fn streams(counts: StreamCounts) -> impl Iterator<Item = Lane> {
        let host = (0..counts.host as u8).map(Lane::Host);
        host.chain((0..counts.collector as u8).map(Lane::Collector))
    }
}

/// Set in a count while the superblock is not closed. Such counts exceed those of all possible victims.
const NOT_CLOSED: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Open {
    block: u32,
    next_stripe: u32,
}

/// A superblock with stripes that are not programmed yet; some may be in flight.
struct Filling {
    block: u32,
    stripes_left: u32,
}

/// Properties of a superblock that the medium keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::ftl) struct Marks {
    /// Program/erase cycles.
    pub(in crate::ftl) erases: u32,
    /// Whether the superblock accepts no more programs.
    pub(in crate::ftl) is_bad: bool,
    /// Whether the superblock is bad and empty.
    pub(in crate::ftl) is_done: bool,
}

impl Marks {
    /// Reads the properties from an array.
    pub(in crate::ftl) fn of(flash: &DataEnd) -> impl Fn(BlockId) -> Marks {
        |block| {
            let is_bad = flash.is_bad(block);
            Marks {
                erases: flash.erases(block),
                is_bad,
                is_done: is_bad && flash.programmed_stripes(block) == 0,
            }
        }
    }
}

/// Superblocks that must be emptied for reasons other than their free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Queue {
    /// Bad, and not yet empty.
    Retiring,
    /// Read too often, or too old.
    Refreshing,
}

struct DieBlocks {
    free: VecDeque<u32>,
    /// Static cache superblocks that are free, and that are full, oldest first.
    free_cache: VecDeque<u32>,
    cached: VecDeque<u32>,
    /// Borrowed superblocks that have been filled since their last erase, oldest first; some may be in the collector's hands.
    borrowed: VecDeque<u32>,
    /// All borrowed superblocks, open ones included.
    lent: u32,
    open: [Option<Open>; Lane::COUNT],
    filling: Vec<Filling>,
    retiring: VecDeque<u32>,
    refreshing: VecDeque<u32>,
    /// Spares left.
    spares: u32,
    /// Whether one more free superblock is withheld from the host, for a collection that consumes space
    /// before it frees any.
    is_claimed: bool,
    /// Superblocks closed so far, the clock by which they age.
    closings: u32,
    /// The collector found no victim: it must be notified of the next unit that becomes stale, and of the
    /// next superblock that is closed, which may have stale units already.
    starved: bool,
}

/// State of a superblock as found by recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ftl) struct RecoveredBlock {
    /// Stripes that are programmed or damaged.
    pub(in crate::ftl) programmed: u32,
    /// Number of the last readable stripe; 0 if there is none.
    pub(in crate::ftl) last: u64,
    /// Whether the first stripes of the superblock are those of the base state.
    pub(in crate::ftl) is_base: bool,
    /// The next stripe may be programmed.
    pub(in crate::ftl) can_go_on: bool,
    /// It is in one-bit mode.
    pub(in crate::ftl) is_one_bit: bool,
}

/// All superblocks of a drive.
pub(in crate::ftl) struct Blocks {
    geometry: Geometry,
    /// Valid units, combined with [`NOT_CLOSED`].
    counts: Vec<u32>,
    /// Value of its die's `closings` when it was closed.
    closed_at: Vec<u32>,
    /// Leading stripes that are those of the base state.
    base_stripes: Vec<u32>,
    /// Program/erase cycles.
    erases: Vec<u32>,
    /// Those that accept no more programs.
    is_bad: Vec<bool>,
    /// Those that are bad and empty.
    is_done: Vec<bool>,
    /// Those that the cache has borrowed, until they are erased.
    is_borrowed: Vec<bool>,
    dies: Vec<DieBlocks>,
    streams: StreamCounts,
    /// Free superblocks that the host leaves.
    reserve: usize,
    /// Static cache superblocks of a die: its last ones.
    cache: u32,
    /// What the cache may borrow.
    dynamic: DynamicCache,
    /// Free superblocks of a die down to which the cache borrows: fewer would begin garbage collection.
    lends_above: usize,
    /// Stripes of a cache superblock.
    cache_pages: u32,
    /// A die has lost more superblocks than it had spares.
    is_exhausted: bool,
    /// Superblocks to be erased whatever they hold, by a purge; empty without a purge.
    doomed: Vec<bool>,
    /// Number of doomed superblocks of each die, and in total.
    doomed_of: Vec<u32>,
    doomed_in_all: u32,
    /// Chooses victims.
    chooser: Asked<dyn Victim, Random>,
    /// Levels wear, if it is to be asked; and whether it moves data.
    leveller: Option<Asked<dyn Wear, Random>>,
    levels: bool,
    /// Superblocks of a die that may be moved while none is erased for another reason.
    moves_most: u32,
}

/// Consequence of a superblock's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) enum Failed {
    /// The superblock was bad already.
    Before,
    /// A spare replaces it, or the cache shrinks.
    Replaced,
    /// No spare is left.
    Missed,
}

impl Blocks {
    /// Superblocks with only the properties that the medium keeps. A cache superblock has `cache_pages`
    /// stripes.
    fn unknown(
        geometry: Geometry,
        config: &FtlConfig,
        streams: StreamCounts,
        cache_pages: u32,
        counts: Vec<u32>,
        marks: impl Fn(BlockId) -> Marks,
    ) -> Self {
        let total = geometry.total_blocks();
        let upkeep = &config.upkeep;
        let wear = &upkeep.wear;
        let mut leveller = (!wear.is_default())
            .then(|| Asked::new("wear policy", wear, Rng::new(config.seed).stream("wear-levelling")));
        let said = wear.says(|wear| wear.moves()).unwrap_or(false);
        // A superblock was set aside for what is moved, or none was.
        let moves = |asked: &mut Asked<dyn Wear, Random>| {
            asked.ask(|policy, _| match policy.moves() == said {
                true => Ok(said),
                false => Err("it says now that it moves data, and now that it does not".to_owned()),
            })
        };
        let levels = leveller.as_mut().and_then(moves).unwrap_or(false);
        let marks: Vec<Marks> = (0..total).map(|block| marks(BlockId(block))).collect();
        let mut blocks = Blocks {
            geometry,
            counts,
            closed_at: vec![0; total as usize],
            base_stripes: vec![0; total as usize],
            erases: marks.iter().map(|marks| marks.erases).collect(),
            is_bad: marks.iter().map(|marks| marks.is_bad).collect(),
            is_done: marks.iter().map(|marks| marks.is_done).collect(),
            is_borrowed: vec![false; total as usize],
            dies: Vec::with_capacity(geometry.dies() as usize),
            streams,
            reserve: config.reserve(streams) as usize,
            cache: upkeep.slc_blocks,
            dynamic: upkeep.slc_dynamic,
            lends_above: config.start(streams).max(config.reserve(streams)) as usize + 1,
            cache_pages,
            is_exhausted: false,
            doomed: Vec::new(),
            doomed_of: vec![0; geometry.dies() as usize],
            doomed_in_all: 0,
            chooser: Asked::new("victim policy", &config.gc, Rng::new(config.seed).stream("victims")),
            leveller,
            levels,
            // A user's policy that always names one would keep a die busy for ever; the built-in ones come to an end.
            moves_most: if wear.hash().is_some() { geometry.blocks } else { u32::MAX },
        };
        for die in 0..geometry.dies() {
            let lost = blocks.normal(die).filter(|block| blocks.is_bad(*block)).count() as u32;
            blocks.is_exhausted |= lost > upkeep.spare_blocks;
            blocks.dies.push(DieBlocks {
                free: VecDeque::with_capacity(geometry.blocks as usize),
                free_cache: VecDeque::new(),
                cached: VecDeque::new(),
                borrowed: VecDeque::new(),
                lent: 0,
                open: [None; Lane::COUNT],
                filling: Vec::with_capacity(8),
                retiring: VecDeque::new(),
                refreshing: VecDeque::new(),
                spares: upkeep.spare_blocks.saturating_sub(lost),
                is_claimed: false,
                closings: 0,
                starved: true,
            });
        }
        blocks
    }

    /// Superblocks in the base state, with their properties from the medium. A superblock that ends within a
    /// wordline of `wordline` stripes is closed, because an interrupted program would destroy base data.
    pub(in crate::ftl) fn new(
        geometry: Geometry,
        base: &BaseState,
        config: &FtlConfig,
        streams: StreamCounts,
        (wordline, cache_pages): (u32, u32),
        marks: impl Fn(BlockId) -> Marks,
    ) -> Self {
        let all = || (0..geometry.total_blocks()).map(BlockId);
        let counts = all().map(|block| base.valid(block)).collect();
        let mut blocks = Self::unknown(geometry, config, streams, cache_pages, counts, marks);
        for block in all() {
            let stripes = base.stripes(block);
            blocks.base_stripes[block.0 as usize] = stripes;
            let passed_over = if base.is_collectors(block) { streams.host } else { 0 };
            // In the cache a stripe shares its cells with no other.
            let ends_within = !blocks.is_one_bit(block) && !stripes.is_multiple_of(wordline);
            if stripes == blocks.pages(block) || ends_within {
                blocks.close(block);
            } else {
                blocks.place(block, stripes, true, Lane::streams(streams).skip(passed_over as usize));
            }
        }
        blocks
    }

    /// Superblocks after a recovery: valid units, and state, of each. On a die with a free superblock, apart
    /// from spares and the cache, open ones are continued where possible: at most one for each stream, since
    /// a stream opens one when it has filled another, and one of the cache. Which stream had opened one is not
    /// recorded: another one may continue it. On a die without a free superblock none is continued: see
    /// `collect`.
    pub(in crate::ftl) fn recovered(
        geometry: Geometry,
        base: &BaseState,
        (config, streams): (&FtlConfig, StreamCounts),
        cache_pages: u32,
        marks: impl Fn(BlockId) -> Marks,
        counts: Vec<u32>,
        found: impl Fn(BlockId) -> RecoveredBlock,
    ) -> Self {
        let mut blocks = Self::unknown(geometry, config, streams, cache_pages, counts, marks);
        for die in 0..geometry.dies() {
            let of_all = (0..geometry.blocks).map(|block| geometry.block(die, block));
            let of_all: Vec<(BlockId, RecoveredBlock)> = of_all.map(|block| (block, found(block))).collect();
            let is_free = |(block, found): &&(BlockId, RecoveredBlock)| {
                found.programmed == 0 && !blocks.is_bad(*block) && !blocks.is_static(*block)
            };
            // Spares are for later failures. If nothing else is free, continued streams would withhold from
            // the collector what it could empty.
            let has_free = of_all.iter().filter(is_free).count() > blocks.spares(die) as usize;
            let mut closed = Vec::new();
            for (block, found) in of_all {
                if found.is_base {
                    blocks.base_stripes[block.0 as usize] = base.stripes(block);
                }
                let can_go_on = has_free && found.can_go_on;
                if found.is_one_bit && found.programmed > 0 && !blocks.is_static(block) {
                    blocks.lend(die, block);
                }
                if !blocks.place(block, found.programmed, can_go_on, Lane::streams(streams)) {
                    closed.push((found.last, block));
                }
            }
            closed.sort_unstable();
            for (_, block) in closed {
                blocks.close(block);
            }
        }
        blocks
    }

    /// Makes a superblock with `programmed` stripes free, or gives it to a stream that continues it; false if
    /// neither is possible. A cache superblock belongs to the cache, another one to the first of `streams`
    /// without an open superblock.
    fn place(
        &mut self,
        block: BlockId,
        programmed: u32,
        can_go_on: bool,
        mut streams: impl Iterator<Item = Lane>,
    ) -> bool {
        let (is_bad, is_one_bit, is_static) =
            (self.is_bad(block), self.is_one_bit(block), self.is_static(block));
        let stripes_left = self.pages(block).saturating_sub(programmed);
        let of_die = &mut self.dies[self.geometry.die_of_block(block) as usize];
        let count = &mut self.counts[block.0 as usize];
        if programmed == 0 {
            *count |= NOT_CLOSED;
            match (is_bad, is_static) {
                (true, _) => {}
                (false, true) => of_die.free_cache.push_back(block.0),
                (false, false) => of_die.free.push_back(block.0),
            }
            return true;
        }
        let is_without = |lane: &Lane| of_die.open[lane.index()].is_none();
        let lane = if is_one_bit { Some(Lane::Cache).filter(is_without) } else { streams.find(is_without) };
        let Some(lane) = lane.filter(|_| can_go_on && !is_bad && stripes_left > 0) else { return false };
        *count |= NOT_CLOSED;
        of_die.open[lane.index()] = Some(Open { block: block.0, next_stripe: programmed });
        of_die.filling.push(Filling { block: block.0, stripes_left });
        true
    }

    /// Closes a superblock to programs: it can become a victim, or be folded or retired.
    fn close(&mut self, block: BlockId) {
        let (is_bad, is_static) = (self.is_bad(block), self.is_static(block));
        let is_borrowed = self.is_borrowed[block.0 as usize];
        let of_die = &mut self.dies[self.geometry.die_of_block(block) as usize];
        debug_assert!(
            of_die.filling.iter().all(|filling| filling.block != block.0),
            "no program is in flight"
        );
        let count = &mut self.counts[block.0 as usize];
        if is_bad || is_static {
            *count |= NOT_CLOSED;
        }
        match (is_bad, is_static) {
            (true, _) => of_die.retiring.push_back(block.0),
            (false, true) => of_die.cached.push_back(block.0),
            (false, false) => {
                if is_borrowed {
                    of_die.borrowed.push_back(block.0);
                }
                *count &= !NOT_CLOSED;
                self.closed_at[block.0 as usize] = of_die.closings;
                of_die.closings = of_die.closings.wrapping_add(1);
            }
        }
    }

    /// Free superblocks of a die, without the spares.
    pub(in crate::ftl) fn free(&self, die: u32) -> u32 {
        let of_die = &self.dies[die as usize];
        (of_die.free.len() as u32).saturating_sub(of_die.spares)
    }

    /// Valid units of a superblock.
    pub(in crate::ftl) fn valid(&self, block: BlockId) -> u32 {
        self.counts[block.0 as usize] & !NOT_CLOSED
    }

    /// Whether a superblock is closed: completely programmed, and not a victim. Those of the static cache never are.
    pub(in crate::ftl) fn is_closed(&self, block: BlockId) -> bool {
        self.counts[block.0 as usize] & NOT_CLOSED == 0
    }

    /// Whether a stripe is that of the base state.
    pub(in crate::ftl) fn is_base(&self, block: BlockId, stripe: u32) -> bool {
        stripe < self.base_stripes[block.0 as usize]
    }

    /// Whether it is bad: out of use, or to be so once it is empty.
    pub(in crate::ftl) fn is_bad(&self, block: BlockId) -> bool {
        self.is_bad[block.0 as usize]
    }

    /// Program/erase cycles of a superblock.
    pub(in crate::ftl) fn erases(&self, block: BlockId) -> u32 {
        self.erases[block.0 as usize]
    }

    /// Whether it belongs to the static cache.
    fn is_static(&self, block: BlockId) -> bool {
        block.0 % self.geometry.blocks >= self.geometry.blocks - self.cache
    }

    /// Whether it holds one bit a cell: it is the cache's, or borrowed by it.
    pub(in crate::ftl) fn is_one_bit(&self, block: BlockId) -> bool {
        self.is_static(block) || self.is_borrowed[block.0 as usize]
    }

    /// Whether it becomes generally available once it is erased.
    pub(in crate::ftl) fn gives_back(&self, block: BlockId) -> bool {
        !self.is_static(block) && !self.is_bad(block)
    }

    /// Stripes of a superblock.
    pub(in crate::ftl) fn pages(&self, block: BlockId) -> u32 {
        if self.is_one_bit(block) { self.cache_pages } else { self.geometry.pages }
    }

    /// Whether a die has lost more superblocks than it had spares.
    pub(in crate::ftl) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Stripes of a superblock of the cache.
    pub(in crate::ftl) fn cache_pages(&self) -> u32 {
        self.cache_pages
    }

    /// Spares left in a die.
    pub(in crate::ftl) fn spares(&self, die: u32) -> u32 {
        self.dies[die as usize].spares
    }

    /// The open superblock of a lane.
    pub(in crate::ftl) fn opened(&self, die: u32, lane: Lane) -> Option<BlockId> {
        self.dies[die as usize].open[lane.index()].map(|open| BlockId(open.block))
    }

    /// Stripes left in the open superblock of a lane.
    pub(in crate::ftl) fn stripes_left(&self, die: u32, lane: Lane) -> u32 {
        let open = self.dies[die as usize].open[lane.index()];
        open.map_or(0, |open| self.pages(BlockId(open.block)) - open.next_stripe)
    }

    /// Whether a stream of garbage collection has an open superblock with stripes left.
    pub(in crate::ftl) fn has_collectors_stripes(&self, die: u32) -> bool {
        (0..self.streams.collector as u8).any(|stream| self.stripes_left(die, Lane::Collector(stream)) > 0)
    }

    /// Whether a lane can get a stripe in a die.
    pub(in crate::ftl) fn has_space(&self, die: u32, lane: Lane) -> bool {
        let of_die = &self.dies[die as usize];
        if of_die.open[lane.index()].is_some() {
            return true;
        }
        let free = of_die.free.len().saturating_sub(of_die.spares as usize);
        match lane {
            Lane::Host(_) => free > self.reserve + usize::from(of_die.is_claimed),
            Lane::Collector(_) | Lane::Cold => free > 0,
            Lane::Cache => !of_die.free_cache.is_empty() || self.may_borrow(die),
        }
    }

    /// Whether the cache may borrow one more superblock of a die.
    fn may_borrow(&self, die: u32) -> bool {
        let of_die = &self.dies[die as usize];
        let free = of_die.free.len().saturating_sub(of_die.spares as usize);
        free > self.lends_above + usize::from(of_die.is_claimed) && of_die.lent < self.lends(die)
    }

    /// Superblocks of a die that the cache may have borrowed, by what all others hold.
    fn lends(&self, die: u32) -> u32 {
        if self.dynamic.most == 0 {
            return 0;
        }
        let of_die = &self.dies[die as usize];
        let all = self.geometry.blocks - self.cache;
        self.dynamic.at(all - (of_die.free.len() as u32 + of_die.lent).min(all))
    }

    /// Lends a superblock to the cache.
    fn lend(&mut self, die: u32, block: BlockId) {
        self.is_borrowed[block.0 as usize] = true;
        self.dies[die as usize].lent += 1;
    }

    /// The next stripe of a lane, if available, for the caller to program. Stripes of a superblock are
    /// allocated in order.
    pub(in crate::ftl) fn take_stripe(&mut self, die: u32, lane: Lane) -> Option<(BlockId, u32)> {
        if !self.has_space(die, lane) {
            return None;
        }
        let Open { block, next_stripe } = match self.dies[die as usize].open[lane.index()] {
            Some(open) => open,
            None => {
                let block = self.take_free(die, lane)?;
                let stripes_left = self.pages(BlockId(block));
                self.dies[die as usize].filling.push(Filling { block, stripes_left });
                Open { block, next_stripe: 0 }
            }
        };
        debug_assert!(!self.is_bad(BlockId(block)), "a bad superblock takes no programs");
        let pages = self.pages(BlockId(block));
        let open = &mut self.dies[die as usize].open[lane.index()];
        *open = (next_stripe + 1 < pages).then_some(Open { block, next_stripe: next_stripe + 1 });
        Some((BlockId(block), next_stripe))
    }

    /// A free superblock for a lane to open: the one that was freed first, unless a wear policy chooses another one.
    fn take_free(&mut self, die: u32, lane: Lane) -> Option<u32> {
        let opening = match lane {
            Lane::Cache => match self.dies[die as usize].free_cache.pop_front() {
                None => Opening::Host,
                found => return found,
            },
            Lane::Host(_) => Opening::Host,
            Lane::Collector(_) => Opening::Collector,
            Lane::Cold => Opening::Moved,
        };
        let mut place = 0;
        if self.leveller.is_some() && self.dies[die as usize].free.len() > 1 {
            let chosen = self.ask_wear(die, |policy, view| {
                let chosen = policy.open(view, opening);
                view.place_of_free(chosen).ok_or_else(|| {
                    let wrong = || format!("superblock {chosen} of die {die} is none of those that are free");
                    policy.fault().unwrap_or_else(wrong)
                })
            });
            place = chosen.unwrap_or(0);
        }
        let taken = self.dies[die as usize].free.remove(place)?;
        if lane == Lane::Cache {
            self.lend(die, BlockId(taken));
        }
        Some(taken)
    }

    /// What the wear policy says about a die. `ask` returns what is wrong with that, if it is.
    fn ask_wear<T>(
        &mut self,
        die: u32,
        ask: impl FnOnce(&mut dyn Wear, &mut WearView<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let all = self.all_of(die);
        let normal = all.start..all.end - self.cache as usize;
        let Blocks { leveller, erases, is_bad, counts, closed_at, dies, geometry, .. } = self;
        let DieBlocks { free, closings, .. } = &dies[die as usize];
        let units = geometry.units_per_block();
        leveller.as_mut()?.ask(|policy, random| {
            ask(
                policy,
                &mut WearView {
                    erases: &erases[normal.clone()],
                    is_bad: &is_bad[normal.clone()],
                    counts: &counts[normal.clone()],
                    closed_at: &closed_at[normal],
                    valid_most: units,
                    closings: *closings,
                    free,
                    first: all.start as u32,
                    units,
                    die,
                    random,
                },
            )
        })
    }

    /// Records the end of a stripe's program, with `valid` valid units. The last stripe closes its
    /// superblock. Returns the die if its collector must be notified.
    pub(in crate::ftl) fn programmed(&mut self, block: BlockId, valid: u32) -> Option<u32> {
        let die = self.geometry.die_of_block(block);
        self.counts[block.0 as usize] += valid;
        self.fill(die, block, 1).then_some(die)
    }

    /// Records that stripes of a superblock have been programmed, or never will be. True if the die's
    /// collector must be notified.
    fn fill(&mut self, die: u32, block: BlockId, stripes: u32) -> bool {
        let (is_bad, is_one_bit) = (self.is_bad(block), self.is_one_bit(block));
        let of_die = &mut self.dies[die as usize];
        let index = of_die
            .filling
            .iter()
            .position(|filling| filling.block == block.0)
            .expect("a superblock with a program in flight is being filled");
        let filling = &mut of_die.filling[index];
        debug_assert!(filling.stripes_left >= stripes, "a stripe is programmed once");
        filling.stripes_left -= stripes;
        if filling.stripes_left > 0 {
            return false;
        }
        of_die.filling.swap_remove(index);
        self.close(block);
        let starved = &mut self.dies[die as usize].starved;
        std::mem::take(starved) | is_bad | is_one_bit
    }

    /// Marks a superblock as failed, after a program or an erase: it takes no more programs. Only stripes
    /// that were already allocated will still be reported as [`programmed`](Blocks::programmed).
    pub(in crate::ftl) fn fail(&mut self, block: BlockId) -> Failed {
        if std::mem::replace(&mut self.is_bad[block.0 as usize], true) {
            return Failed::Before;
        }
        let (die, pages) = (self.geometry.die_of_block(block), self.pages(block));
        let of_die = &mut self.dies[die as usize];
        // The stripes that will now never be allocated must not keep the superblock from being closed.
        let mut abandoned = 0;
        for open in &mut of_die.open {
            if let Some(of_it) = open.take_if(|open| open.block == block.0) {
                abandoned = pages - of_it.next_stripe;
            }
        }
        if abandoned > 0 {
            self.fill(die, block, abandoned);
        }
        let is_static = self.is_static(block);
        let of_die = &mut self.dies[die as usize];
        match of_die.spares.checked_sub(1) {
            _ if is_static => Failed::Replaced,
            Some(left) => {
                of_die.spares = left;
                Failed::Replaced
            }
            None => {
                self.is_exhausted = true;
                Failed::Missed
            }
        }
    }

    /// The superblock of a unit.
    #[inline]
    pub(in crate::ftl) fn block_of(&self, ppa: Ppa) -> BlockId {
        self.geometry.block_of(ppa)
    }

    /// Marks units of a superblock as stale. Returns the die if its collector must be notified.
    #[inline]
    pub(in crate::ftl) fn lost(&mut self, block: BlockId, units: u32) -> Option<u32> {
        let count = &mut self.counts[block.0 as usize];
        debug_assert!(*count & !NOT_CLOSED >= units, "a valid unit was counted");
        *count -= units;
        let die = self.geometry.die_of_block(block);
        std::mem::take(&mut self.dies[die as usize].starved).then_some(die)
    }

    /// Marks the version of a unit as stale that was at `entry`. Returns the die if its collector must be
    /// notified.
    #[inline]
    pub(in crate::ftl) fn lose(&mut self, base: &BaseState, lpa: u64, entry: Entry) -> Option<u32> {
        let block = match entry.kind() {
            EntryKind::Base => base.block_of(lpa)?,
            EntryKind::Flash(ppa) => self.block_of(ppa),
            EntryKind::Unmapped | EntryKind::Slot(_) | EntryKind::Lost => return None,
        };
        self.lost(block, 1)
    }

    /// Counts a unit of a superblock as valid.
    pub(in crate::ftl) fn gained(&mut self, block: BlockId) {
        debug_assert!(self.valid(block) < self.geometry.units_per_block(), "a unit is counted once");
        self.counts[block.0 as usize] += 1;
    }

    /// Marks every unit as stale.
    pub(in crate::ftl) fn lose_all(&mut self) {
        self.counts.iter_mut().for_each(|count| *count &= NOT_CLOSED);
    }

    /// Notes that a die's collector found nothing to do.
    pub(in crate::ftl) fn starve(&mut self, die: u32) {
        self.dies[die as usize].starved = true;
    }

    /// Releases the garbage collection reserve to the host.
    pub(in crate::ftl) fn give_reserve(&mut self) {
        self.reserve = 0;
    }

    /// Withholds one more free superblock from the host, or stops doing so.
    pub(in crate::ftl) fn claim(&mut self, die: u32, is_claimed: bool) {
        self.dies[die as usize].is_claimed = is_claimed;
    }

    /// The next victim, if one has at most `valid_most` valid units. It is no longer closed.
    pub(in crate::ftl) fn take_victim(&mut self, die: u32, valid_most: u32) -> Option<BlockId> {
        let all = self.all_of(die);
        if self.doomed_of[die as usize] > 0 {
            // A superblock that frees none may need a second one for its data and those of the one before it.
            let valid_most = if self.free(die) > 1 { NOT_CLOSED - 1 } else { valid_most };
            let victim = all.clone().find(|block| self.doomed[*block] && self.counts[*block] <= valid_most);
            if let Some(victim) = victim {
                self.counts[victim] |= NOT_CLOSED;
                return Some(BlockId(victim as u32));
            }
        }
        let Blocks { chooser, counts, closed_at, dies, geometry, .. } = self;
        let (counts, closed_at) = (&counts[all.clone()], &closed_at[all.clone()]);
        let (closings, units) = (dies[die as usize].closings, geometry.units_per_block());
        if counts.iter().copied().min().unwrap_or(0) > valid_most {
            return None;
        }
        let chosen = chooser.ask(|policy, random| {
            let view = &mut VictimView { counts, closed_at, valid_most, closings, units, die, random };
            let chosen = policy.choose(view);
            match view.has(chosen) {
                true => Ok(chosen),
                false => Err(policy.fault().unwrap_or_else(|| {
                    format!("superblock {chosen} of die {die} is none of those that can be emptied")
                })),
            }
        });
        let chosen = chosen.unwrap_or_else(|| {
            let random = chooser.random();
            Greedy.choose(&mut VictimView { counts, closed_at, valid_most, closings, units, die, random })
        });
        let victim = all.start + chosen as usize;
        self.counts[victim] |= NOT_CLOSED;
        Some(BlockId(victim as u32))
    }

    /// What the policies of victims and of wear did wrong, if one did.
    pub(in crate::ftl) fn policy_fault(&self) -> Option<&str> {
        self.chooser.fault().or_else(|| self.leveller.as_ref()?.fault())
    }

    fn all_of(&self, die: u32) -> std::ops::Range<usize> {
        let first = self.geometry.block(die, 0).0 as usize;
        first..first + self.geometry.blocks as usize
    }

    /// The superblock with the fewest valid units that waits for refresh, if it has at most `valid_most` and
    /// frees a superblock that the host can use.
    pub(in crate::ftl) fn take_refreshing(&mut self, die: u32, valid_most: u32) -> Option<BlockId> {
        let waiting = self.dies[die as usize].refreshing.iter().map(|block| BlockId(*block)).enumerate();
        let fits = |(_, block): &(usize, BlockId)| {
            !self.is_static(*block) && !self.is_bad(*block) && self.valid(*block) <= valid_most
        };
        let (index, block) = waiting.filter(fits).min_by_key(|(_, block)| self.valid(*block))?;
        self.dies[die as usize].refreshing.remove(index);
        Some(block)
    }

    /// Superblocks of a die that may be moved so that they wear alike, while none is erased for another reason.
    pub(in crate::ftl) fn moves_most(&self) -> u32 {
        self.moves_most
    }

    /// Whether data are moved so that superblocks wear alike.
    pub(in crate::ftl) fn levels(&self) -> bool {
        self.levels
    }

    /// The closed superblock of a die whose data are to be moved for that, if any.
    pub(in crate::ftl) fn coldest(&mut self, die: u32) -> Option<BlockId> {
        let chosen = self.ask_wear(die, |policy, view| match policy.level(view) {
            Some(chosen) if !view.is_closed(chosen) => Err(policy.fault().unwrap_or_else(|| {
                format!("superblock {chosen} of die {die} is none of those that are closed")
            })),
            chosen => Ok(chosen),
        });
        chosen.flatten().map(|index| self.geometry.block(die, index))
    }

    /// The superblocks of a die outside the static cache.
    fn normal(&self, die: u32) -> impl Iterator<Item = BlockId> {
        (0..self.geometry.blocks - self.cache).map(move |block| self.geometry.block(die, block))
    }

    /// Takes a closed superblock for emptying.
    pub(in crate::ftl) fn take_closed(&mut self, block: BlockId) {
        debug_assert!(self.is_closed(block));
        self.counts[block.0 as usize] |= NOT_CLOSED;
    }

    /// Queues a closed or cached superblock for refresh; false if it is being emptied anyway, or is not
    /// closed.
    pub(in crate::ftl) fn refresh(&mut self, block: BlockId) -> bool {
        let is_closed = self.is_closed(block);
        let of_die = &mut self.dies[self.geometry.die_of_block(block) as usize];
        if is_closed {
            self.counts[block.0 as usize] |= NOT_CLOSED;
        } else if let Some(index) = of_die.cached.iter().position(|cached| *cached == block.0) {
            of_die.cached.remove(index);
        } else {
            return false;
        }
        of_die.refreshing.push_back(block.0);
        true
    }

    /// Whether any superblock of a die waits in a queue.
    pub(in crate::ftl) fn is_queued(&self, die: u32, queue: Queue) -> bool {
        let of_die = &self.dies[die as usize];
        match queue {
            Queue::Retiring => !of_die.retiring.is_empty(),
            Queue::Refreshing => !of_die.refreshing.is_empty(),
        }
    }

    /// Takes the first superblock of a queue for emptying.
    pub(in crate::ftl) fn take_queued(&mut self, die: u32, queue: Queue) -> Option<BlockId> {
        let of_die = &mut self.dies[die as usize];
        let first = match queue {
            Queue::Retiring => of_die.retiring.pop_front(),
            Queue::Refreshing => of_die.refreshing.pop_front(),
        };
        first.map(BlockId)
    }

    /// Cache superblocks of a die that are free, or that it may borrow, and that are full and can be taken.
    pub(in crate::ftl) fn cache(&self, die: u32) -> (u32, u32) {
        let of_die = &self.dies[die as usize];
        let borrowed = of_die.borrowed.iter().filter(|block| self.is_closed(BlockId(**block))).count();
        let lends = self.lends(die).saturating_sub(of_die.lent);
        (of_die.free_cache.len() as u32 + lends, (of_die.cached.len() + borrowed) as u32)
    }

    /// Takes the longest-full superblock of the cache for emptying: of the static cache first, which serves every later write.
    pub(in crate::ftl) fn take_cached(&mut self, die: u32) -> Option<BlockId> {
        if let Some(block) = self.dies[die as usize].cached.pop_front() {
            return Some(BlockId(block));
        }
        let borrowed = self.dies[die as usize].borrowed.iter().map(|block| BlockId(*block));
        let oldest = borrowed.into_iter().find(|block| self.is_closed(*block))?;
        self.take_closed(oldest);
        Some(oldest)
    }

    /// Dooms every superblock, open ones included, that is not free and has stale units.
    pub(in crate::ftl) fn doom(&mut self) {
        let all_valid = self.geometry.units_per_block();
        self.doomed.resize(self.counts.len(), false);
        for die in 0..self.dies.len() as u32 {
            let blocks: Vec<BlockId> =
                (0..self.geometry.blocks).map(|block| self.geometry.block(die, block)).collect();
            let free: Vec<bool> = {
                let mut free = vec![false; blocks.len()];
                let first = blocks[0].0;
                let of_die = &self.dies[die as usize];
                let all = of_die.free.iter().chain(&of_die.free_cache);
                all.for_each(|block| free[(block - first) as usize] = true);
                free
            };
            for (block, free) in blocks.into_iter().zip(free) {
                let doomed = &mut self.doomed[block.0 as usize];
                let is_done = self.is_done[block.0 as usize];
                if !free && !is_done && !*doomed && self.counts[block.0 as usize] & !NOT_CLOSED < all_valid {
                    *doomed = true;
                    self.doomed_of[die as usize] += 1;
                    self.doomed_in_all += 1;
                }
            }
            self.close_doomed(die);
        }
    }

    /// Closes doomed open superblocks as they are. The collector's stay open until another one can take what
    /// is being moved.
    fn close_doomed(&mut self, die: u32) {
        for lane in Lane::streams(self.streams).chain([Lane::Cache, Lane::Cold]) {
            let of_die = &mut self.dies[die as usize];
            let Some(open) = of_die.open[lane.index()] else { continue };
            let is_collectors = matches!(lane, Lane::Collector(_) | Lane::Cold);
            let has_other = of_die.free.len() > of_die.spares as usize;
            if !self.doomed[open.block as usize] || is_collectors && !has_other {
                continue;
            }
            of_die.open[lane.index()] = None;
            let block = BlockId(open.block);
            self.fill(die, block, self.pages(block) - open.next_stripe);
        }
    }

    /// Number of doomed superblocks.
    pub(in crate::ftl) fn doomed(&self) -> u32 {
        self.doomed_in_all
    }

    /// Number of doomed superblocks of a die.
    #[inline]
    pub(in crate::ftl) fn doomed_of(&self, die: u32) -> u32 {
        self.doomed_of[die as usize]
    }

    /// Removes the doom of a superblock.
    #[inline]
    fn spare(&mut self, block: BlockId) {
        if self.doomed_in_all > 0 && std::mem::take(&mut self.doomed[block.0 as usize]) {
            self.doomed_of[self.geometry.die_of_block(block) as usize] -= 1;
            self.doomed_in_all -= 1;
        }
    }

    /// Records the erase of a superblock, which becomes free unless it is bad.
    pub(in crate::ftl) fn erased(&mut self, block: BlockId) {
        debug_assert_eq!(self.valid(block), 0, "nothing valid is erased");
        debug_assert!(!self.is_closed(block), "a superblock is taken as a victim before it is erased");
        self.counts[block.0 as usize] = NOT_CLOSED;
        self.base_stripes[block.0 as usize] = 0;
        let (is_bad, is_static) = (self.is_bad(block), self.is_static(block));
        self.erases[block.0 as usize] += 1;
        self.is_done[block.0 as usize] = is_bad;
        self.spare(block);
        let die = self.geometry.die_of_block(block);
        let of_die = &mut self.dies[die as usize];
        if std::mem::take(&mut self.is_borrowed[block.0 as usize]) {
            of_die.borrowed.retain(|borrowed| *borrowed != block.0);
            of_die.lent -= 1;
        }
        match (is_bad, is_static) {
            (true, _) => {}
            (false, true) => of_die.free_cache.push_back(block.0),
            (false, false) => of_die.free.push_back(block.0),
        }
        if self.doomed_of[die as usize] > 0 {
            self.close_doomed(die);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::config::{Base, FtlConfig, Maintenance};
    use crate::policy::{VictimPolicy, WearPolicy};

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 6, pages: 2, page_bytes: 8192 };

    fn blocks(gc: VictimPolicy) -> Blocks {
        let config = FtlConfig { user_units: 8, base: Base::Empty, gc, ..Default::default() };
        let base = BaseState::new(GEOMETRY, &config);
        Blocks::new(GEOMETRY, &base, &config, StreamCounts::SEPARATE, (1, 1), |_| Marks::default())
    }

    // If the host could open the last free superblock, garbage collection could never finish and the drive
    // would stall.
    #[test]
    fn the_last_free_superblock_is_the_collectors() {
        let mut blocks = blocks(VictimPolicy::default());
        let host: Vec<_> = std::iter::from_fn(|| blocks.take_stripe(0, Lane::Host(0))).collect();
        assert_eq!(host.len(), 10);
        assert_eq!(host[0], (BlockId(0), 0));
        assert_eq!(host[3], (BlockId(1), 1));
        assert_eq!(blocks.free(0), 1);
        assert!(!blocks.has_space(0, Lane::Host(0)));
        assert_eq!(blocks.take_stripe(0, Lane::Collector(0)), Some((BlockId(5), 0)));
    }

    // A superblock with a program in flight has too low a count: as a victim, the arriving data would be
    // erased.
    #[test]
    fn a_superblock_is_no_victim_before_its_last_program_ended() {
        let mut blocks = blocks(VictimPolicy::default());
        let (first, _) = blocks.take_stripe(0, Lane::Host(0)).unwrap();
        blocks.take_stripe(0, Lane::Host(0));
        blocks.programmed(first, 0);
        assert_eq!(blocks.take_victim(0, 3), None);
        blocks.programmed(first, 2);
        assert_eq!(blocks.take_victim(0, 1), None);
        assert_eq!(blocks.take_victim(0, 3), Some(first));
        assert_eq!(blocks.take_victim(0, 3), None, "it is being collected");
    }

    /// Closes four superblocks with so many valid units, one after another.
    fn closed(valid: [u32; 4], gc: VictimPolicy) -> Blocks {
        let mut blocks = blocks(gc);
        for valid in valid {
            for stripe_valid in [valid / 2, valid - valid / 2] {
                let (block, _) = blocks.take_stripe(0, Lane::Host(0)).unwrap();
                blocks.programmed(block, stripe_valid);
            }
        }
        blocks
    }

    #[test]
    fn a_policy_takes_the_victim() {
        let victim = |valid, gc| closed(valid, gc).take_victim(0, 3);
        let greedy = VictimPolicy::default;
        let cost_benefit = || VictimPolicy::built_in("cost-benefit").expect("it is built in");
        assert_eq!(victim([3, 2, 3, 1], greedy()), Some(BlockId(3)), "the emptiest");
        assert_eq!(victim([4, 4, 4, 4], greedy()), None, "nothing is stale");
        // Of ages 4, 3, 2, 1: 4 * .25 / 1.5 = .67, 3 * .5 / 1 = 1.5, 2 * .25 / 1.5 = .33, 1 * .75 / .5 = 1.5.
        assert_eq!(victim([3, 2, 3, 1], cost_benefit()), Some(BlockId(1)), "older, though fuller");
        assert_eq!(victim([4, 4, 4, 4], cost_benefit()), None, "nothing is stale");
    }

    /// Chooses what it is told to.
    struct Wilful(u32);

    impl Victim for Wilful {
        fn choose(&mut self, _view: &mut VictimView<'_>) -> u32 {
            self.0
        }
    }

    // A policy of a user's that names what can't be emptied would have valid data erased; the run has to end by it, with the drive whole.
    #[test]
    fn a_policy_that_chooses_wrongly_is_named_and_no_longer_asked() {
        for wrong in [1, 4, 5, 6, u32::MAX] {
            let wilful = VictimPolicy::new("wilful", Some("1".into()), move || Box::new(Wilful(wrong)));
            let mut blocks = closed([3, 4, 2, 3], wilful);
            assert_eq!(blocks.policy_fault(), None);
            assert_eq!(blocks.take_victim(0, 3), Some(BlockId(2)), "the emptiest");
            let fault = blocks.policy_fault().unwrap();
            assert!(
                fault.contains("`wilful`") && fault.contains(&format!("superblock {wrong} of die 0")),
                "{fault}"
            );
            assert_eq!(blocks.take_victim(0, 3), Some(BlockId(0)));
        }
        let right = VictimPolicy::new("wilful", None, || Box::new(Wilful(3)));
        let mut blocks = closed([3, 4, 2, 3], right);
        assert_eq!((blocks.take_victim(0, 3), blocks.policy_fault()), (Some(BlockId(3)), None));
    }

    /// Opens what it is told to.
    struct Stubborn(u32);

    impl Wear for Stubborn {
        fn open(&mut self, _view: &mut WearView<'_>, _opening: Opening) -> u32 {
            self.0
        }

        fn moves(&self) -> bool {
            true
        }

        fn level(&mut self, _view: &mut WearView<'_>) -> Option<u32> {
            Some(self.0)
        }
    }

    // A policy of a user's that opens what is full, or moves what is empty, would destroy data; the run has to end by it.
    #[test]
    fn a_wear_policy_that_chooses_wrongly_is_named_and_no_longer_asked() {
        let told = |index| {
            let wear = WearPolicy::new("stubborn", Some("1".into()), move || Box::new(Stubborn(index)));
            let upkeep = Maintenance { wear, ..Maintenance::default() };
            let config = FtlConfig { user_units: 8, base: Base::Empty, upkeep, ..Default::default() };
            let base = BaseState::new(GEOMETRY, &config);
            Blocks::new(GEOMETRY, &base, &config, StreamCounts::SEPARATE, (1, 1), |_| Marks::default())
        };
        let opens = |blocks: &mut Blocks| blocks.take_stripe(0, Lane::Host(0)).unwrap().0;
        let mut right = told(3);
        assert!(right.levels());
        assert_eq!((opens(&mut right), right.policy_fault()), (BlockId(3), None));
        assert_eq!(right.coldest(0), None, "it is open");
        assert!(right.policy_fault().unwrap().contains("none of those that are closed"));
        for wrong in [6, u32::MAX] {
            let mut blocks = told(wrong);
            assert_eq!(opens(&mut blocks), BlockId(0), "freed first");
            let fault = blocks.policy_fault().unwrap();
            assert!(
                fault.contains("`stubborn`") && fault.contains(&format!("superblock {wrong} of die 0")),
                "{fault}"
            );
            assert_eq!(blocks.coldest(0), None);
        }
    }

    // A collector that found no victim must be notified of the next stale unit, once, and of the next closed
    // superblock.
    #[test]
    fn a_starved_collector_is_called() {
        let mut blocks = blocks(VictimPolicy::default());
        let program = |blocks: &mut Blocks| {
            let (block, _) = blocks.take_stripe(0, Lane::Host(0)).unwrap();
            blocks.programmed(block, 2)
        };
        assert_eq!(program(&mut blocks), None);
        assert_eq!(program(&mut blocks), Some(0), "at the start it rests");
        assert_eq!(blocks.lost(BlockId(0), 1), None);
        blocks.starve(0);
        assert_eq!(blocks.lost(BlockId(0), 1), Some(0));
        assert_eq!(blocks.lost(BlockId(0), 1), None);
        assert_eq!(blocks.valid(BlockId(0)), 1);
        blocks.starve(0);
        assert_eq!(program(&mut blocks), None);
        assert_eq!(program(&mut blocks), Some(0));
    }
}
