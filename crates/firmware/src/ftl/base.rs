//! The initial layout before the first I/O, in closed form: from a unit to its flash address, and back.
//!
//! Under a cached map the translation pages are part of it, behind the host's units, so that they can be
//! read: zeroes, each of which means "as in the base state".
//!
//! - *Empty*: no unit is mapped.
//! - *Filled*: written once in order. Consecutive stripes go to consecutive dies, channels first.
//! - *Steady*: as uniform random overwrites under greedy garbage collection leave the drive, captured in
//!   mid-run; see `ftl/steady`.

use crate::ftl::collect::collecting::InitialUpkeep;
use crate::ftl::config::{Base, FtlConfig};
use crate::ftl::space::{Space, UnitKind};
use crate::ftl::steady::greedy::reclaimed_share;
use crate::ftl::steady::{PacedState, Steady};
use byteway_content::{Content, Stamp};
use byteway_flash::{BaseContent, BlockId, DataEnd, Geometry, Mode, NO_LPA, Ppa};
use std::any::Any;
use std::rc::Rc;

/// A base state, shared by the translation layer and the array.
pub struct BaseState {
    geometry: Geometry,
    space: Space,
    /// Units laid out: the host's, followed by the translation pages if they are included.
    held: u64,
    /// Stripes of each die if the drive is filled, and the number of dies, from the first, that have one more. Asked for
    /// each superblock of a drive that is made, several times.
    stripes_of_die: (u64, u32),
    /// What it is the base state of.
    config: FtlConfig,
    layout: Layout,
}

enum Layout {
    Empty,
    Filled,
    Steady(Box<Steady>),
}

impl BaseState {
    /// The base state of `config` on an array of this geometry.
    pub fn new(geometry: Geometry, config: &FtlConfig) -> Self {
        let held = config.units_held();
        let layout = match config.base {
            Base::Empty => Layout::Empty,
            Base::Filled => Layout::Filled,
            Base::Steady => Layout::Steady(Box::new(Steady::new(&geometry, config, held))),
        };
        let space = Space::new(config.user_units, config.wide_map);
        let stripes = held.div_ceil(u64::from(geometry.units_per_stripe()).max(1));
        let dies = u64::from(geometry.dies()).max(1);
        let stripes_of_die = (stripes / dies, (stripes % dies) as u32);
        BaseState { geometry, space, held, stripes_of_die, config: config.clone(), layout }
    }

    /// The base state of `config` that this flash has, if it was made for it, or else a new one: a steady state takes seconds to construct.
    pub(in crate::ftl) fn shared(flash: &DataEnd, config: &FtlConfig) -> Rc<Self> {
        let written = flash.own().and_then(|flash| {
            let base: Rc<dyn Any> = flash.base();
            base.downcast::<Written>().ok()
        });
        let same =
            written.filter(|written| written.0.config == *config && written.0.geometry == *flash.geometry());
        same.map_or_else(|| Rc::new(BaseState::new(*flash.geometry(), config)), |written| written.0.clone())
    }

    /// Index of a unit among those laid out; None if it is not.
    #[inline]
    fn place_of(&self, lpa: u64) -> Option<u64> {
        if lpa < self.space.user {
            return Some(lpa);
        }
        match self.space.kind(lpa) {
            UnitKind::Map(page) if self.held > self.space.user => Some(self.space.user + page),
            _ => None,
        }
    }

    /// The unit with index `place` among those laid out.
    #[inline]
    fn unit_at(&self, place: u64) -> u64 {
        match place.checked_sub(self.space.user) {
            None => place,
            Some(page) => self.space.map.0 + page,
        }
    }

    /// Flash address of a unit.
    pub fn find(&self, lpa: u64) -> Option<Ppa> {
        let unit = self.place_of(lpa)?;
        match &self.layout {
            Layout::Empty => None,
            Layout::Filled => {
                let geometry = &self.geometry;
                let (stripe_units, dies) =
                    (u64::from(geometry.units_per_stripe()), u64::from(geometry.dies()));
                let stripe = unit / stripe_units;
                let (die, stripe_of_die) = (stripe % dies, stripe / dies);
                Some(Ppa(die * geometry.units_per_die() + stripe_of_die * stripe_units + unit % stripe_units))
            }
            Layout::Steady(steady) => Some(steady.find(unit)),
        }
    }

    /// The superblock that holds a unit.
    pub(in crate::ftl) fn block_of(&self, lpa: u64) -> Option<BlockId> {
        match &self.layout {
            Layout::Steady(steady) => self.place_of(lpa).map(|unit| BlockId(steady.block_of(unit))),
            Layout::Empty | Layout::Filled => self.find(lpa).map(|ppa| self.geometry.block_of(ppa)),
        }
    }

    /// The unit at `ppa`; None unless it is valid.
    pub fn lpa(&self, ppa: Ppa) -> Option<u64> {
        let mut lpa = [NO_LPA];
        self.lpas(ppa, &mut lpa);
        (lpa != [NO_LPA]).then_some(lpa[0])
    }

    /// Writes into `lpas` the unit at each consecutive address of a superblock from `first` on; [`NO_LPA`]
    /// where none is valid.
    pub(in crate::ftl) fn lpas(&self, first: Ppa, lpas: &mut [u64]) {
        match &self.layout {
            Layout::Empty => lpas.fill(NO_LPA),
            Layout::Filled => {
                // Within a stripe the units follow each other.
                let (mut ppa, mut rest) = (first, &mut *lpas);
                while !rest.is_empty() {
                    let left = self.geometry.units_per_stripe() - self.geometry.unit_of_stripe(ppa);
                    let count = rest.len().min(left as usize);
                    let (stripe, after) = rest.split_at_mut(count);
                    for (lpa, unit) in stripe.iter_mut().zip(self.written(ppa)..) {
                        *lpa = if unit < self.held { unit } else { NO_LPA };
                    }
                    (ppa, rest) = (Ppa(ppa.0 + count as u64), after);
                }
            }
            Layout::Steady(steady) => steady.units(first, lpas),
        }
        if self.held > self.space.user {
            lpas.iter_mut().filter(|lpa| **lpa != NO_LPA).for_each(|lpa| *lpa = self.unit_at(*lpa));
        }
    }

    /// Number, in the order of writing, of the unit at `ppa`, whether that was written or not.
    #[inline]
    fn written(&self, ppa: Ppa) -> u64 {
        let geometry = &self.geometry;
        let stripe_of_die = ppa.0 % geometry.units_per_die() / u64::from(geometry.units_per_stripe());
        let stripe = stripe_of_die * u64::from(geometry.dies()) + u64::from(geometry.die_of(ppa));
        stripe * u64::from(geometry.units_per_stripe()) + u64::from(geometry.unit_of_stripe(ppa))
    }

    /// Whether translation pages are laid out as well.
    pub(in crate::ftl) fn holds_pages(&self) -> bool {
        !matches!(self.layout, Layout::Empty) && self.held > self.space.user
    }

    /// Content of a unit.
    pub fn content(&self, lpa: u64) -> Content {
        if matches!(self.layout, Layout::Empty) || lpa >= self.space.user {
            return Content::Zero;
        }
        let region = match &self.config.regions[..] {
            [only] if only.first_unit <= lpa => only,
            regions => match regions.partition_point(|region| region.first_unit <= lpa) {
                0 => return Content::Zero,
                after => &regions[after - 1],
            },
        };
        let lba = (lpa - region.first_unit) * region.block.per_unit() as u64;
        Content::Stamp(Stamp { lba, version: 0, tag: region.tag, block: region.block })
    }

    /// Valid units of a superblock.
    pub fn valid(&self, block: BlockId) -> u32 {
        match &self.layout {
            Layout::Empty => 0,
            Layout::Filled => {
                let stripe_units = u64::from(self.geometry.units_per_stripe());
                let units = u64::from(self.stripes(block)) * stripe_units;
                let first = self.geometry.ppa(block, 0, 0).0;
                match units {
                    _ if self.held.is_multiple_of(stripe_units) => units as u32,
                    0 => 0,
                    // Only the stripe of the last unit can be partial.
                    _ if self.lpa(Ppa(first + units - 1)).is_some() => units as u32,
                    _ => (0..units).filter(|unit| self.lpa(Ppa(first + unit)).is_some()).count() as u32,
                }
            }
            Layout::Steady(steady) => steady.valid(block.0),
        }
    }

    /// Programmed stripes of a superblock.
    pub fn stripes(&self, block: BlockId) -> u32 {
        match &self.layout {
            Layout::Empty => 0,
            Layout::Filled => {
                let geometry = &self.geometry;
                let (of_each, longer) = self.stripes_of_die;
                let of_die = of_each + u64::from(geometry.die_of_block(block) < longer);
                let before = u64::from(block.0 % geometry.blocks) * u64::from(geometry.pages);
                of_die.saturating_sub(before).min(u64::from(geometry.pages)) as u32
            }
            Layout::Steady(steady) => steady.stripes(block.0),
        }
    }

    /// Whether a superblock is in one-bit mode.
    pub fn is_one_bit(&self, block: BlockId) -> bool {
        matches!(&self.layout, Layout::Steady(steady) if steady.is_one_bit(block.0))
    }

    /// Write amplification factor of the steady state; 1 in other states.
    pub(in crate::ftl) fn write_amplification(&self) -> f64 {
        if let Layout::Steady(steady) = &self.layout { steady.write_amplification() } else { 1.0 }
    }

    /// Whether writes waited for garbage collection in the steady state; false in other states.
    pub(in crate::ftl) fn is_saturated(&self) -> bool {
        matches!(&self.layout, Layout::Steady(steady) if steady.paced().is_none())
    }

    /// None if writes waited for garbage collection, and in other states.
    pub(in crate::ftl) fn paced(&self) -> Option<PacedState> {
        if let Layout::Steady(steady) = &self.layout { steady.paced() } else { None }
    }

    /// State of a die's garbage collection in the steady state.
    pub(in crate::ftl) fn upkeep(&self, die: u32) -> Option<InitialUpkeep> {
        if let Layout::Steady(steady) = &self.layout { Some(steady.upkeep(die)) } else { None }
    }

    /// Whether an open superblock belongs to garbage collection; otherwise it belongs to host writes.
    pub fn is_collectors(&self, block: BlockId) -> bool {
        matches!(&self.layout, Layout::Steady(steady) if steady.is_collectors(block.0))
    }
}

/// The base state, as the array reads it.
pub(in crate::ftl) struct Written(pub(in crate::ftl) Rc<BaseState>);

impl BaseContent for Written {
    fn mode(&self, block: BlockId) -> Mode {
        if self.0.is_one_bit(block) { Mode::OneBit } else { Mode::Full }
    }
    fn stripes(&self, block: BlockId) -> u32 {
        self.0.stripes(block)
    }
    fn lpas(&self, first: Ppa, lpas: &mut [u64]) {
        self.0.lpas(first, lpas);
    }
    fn content(&self, lpa: u64) -> Content {
        self.0.content(lpa)
    }
}

/// Write amplification factor of greedy garbage collection under uniform random writes, in the limit of large
/// superblocks: 1/x, where 1 - x = exp(-(1 + OP) x). `op` is spare over user capacity, net of open and free
/// superblocks. Infinite without spare.
pub fn greedy_write_amplification(op: f64) -> f64 {
    1.0 / reclaimed_share(op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::config::Maintenance;
    use crate::ftl::config::Region;
    use crate::ftl::config::SteadyTiming;
    use byteway_clock::random::Rng;
    use byteway_content::BlockSize;
    use proptest::prelude::{ProptestConfig, prop_assert, proptest};

    fn state(
        geometry: Geometry,
        base: Base,
        user_units: u64,
        map_cache_pages: Option<u32>,
        seed: u64,
    ) -> BaseState {
        let regions = vec![
            Region { first_unit: 0, tag: 1, block: BlockSize::B4096 },
            Region { first_unit: user_units / 2, tag: 2, block: BlockSize::B512 },
        ];
        let config = FtlConfig { user_units, base, seed, regions, map_cache_pages, ..Default::default() };
        BaseState::new(geometry, &config)
    }

    /// With superblocks set aside: spares, and those of a cache.
    fn with_upkeep(
        geometry: Geometry,
        user_units: u64,
        wordline: u32,
        upkeep: Maintenance,
        reserve: u32,
    ) -> BaseState {
        let config = FtlConfig {
            user_units,
            base: Base::Steady,
            gc_reserve_blocks: reserve,
            gc_start_free_blocks: reserve,
            rhythm: SteadyTiming { wordline, ..SteadyTiming::default() },
            upkeep,
            ..Default::default()
        };
        BaseState::new(geometry, &config)
    }

    /// Checks that one unit converts there and back, and that its superblock counts it.
    fn there_and_back(state: &BaseState, lpa: u64) -> Ppa {
        let ppa = state.find(lpa).expect("every unit lies somewhere");
        assert!(ppa.0 < state.geometry.total_units(), "unit {lpa} lies within the array");
        assert_eq!(state.lpa(ppa), Some(lpa), "unit {lpa} at {ppa:?}");
        let block = state.geometry.block_of(ppa);
        assert!(
            state.geometry.stripe_of(ppa) < state.stripes(block),
            "unit {lpa} lies where something is programmed"
        );
        ppa
    }

    fn check_all(state: &BaseState) {
        let geometry = &state.geometry;
        let mut counts = vec![0; geometry.total_blocks() as usize];
        let mut taken = vec![false; geometry.total_units() as usize];
        for lpa in (0..state.held).map(|unit| state.unit_at(unit)) {
            let ppa = there_and_back(state, lpa);
            assert!(!std::mem::replace(&mut taken[ppa.0 as usize], true), "two units at {ppa:?}");
            counts[geometry.block_of(ppa).0 as usize] += 1;
        }
        for (ppa, taken) in taken.into_iter().enumerate() {
            let ppa = Ppa(ppa as u64);
            if geometry.stripe_of(ppa) < state.stripes(geometry.block_of(ppa)) {
                assert_eq!(state.lpa(ppa).is_some(), taken, "{ppa:?}");
            }
        }
        for (block, count) in counts.into_iter().enumerate() {
            assert_eq!(state.valid(BlockId(block as u32)), count, "superblock {block}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A unit that is not found at its address is lost, and one that is counted wrong is erased, or never
        /// garbage collected.
        #[test]
        fn the_way_back_is_that_of_the_way_there(
            channels in 1u32..4, ways in 1u32..3, planes in 1u32..4, blocks in 5u32..20, pages in 1u32..9,
            units_per_page in 1u32..4, fill in 0.0f64..=1.0, is_cached: bool, seed: u64,
        ) {
            let page_bytes = units_per_page * 4096;
            let geometry = Geometry { channels, ways, planes, blocks, pages, page_bytes };
            let of_die = u64::from((blocks - 3) * (geometry.units_per_block() - geometry.units_per_stripe() + 1));
            let most = of_die * u64::from(geometry.dies());
            let map_cache_pages = is_cached.then_some(1);
            let most = if is_cached { most * 1024 / 1025 } else { most };
            let user_units = ((most as f64 * fill) as u64).max(1);
            for base in [Base::Filled, Base::Steady] {
                check_all(&state(geometry, base, user_units, map_cache_pages, seed));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Data in a spare superblock takes the place of a bad one; a superblock that ends within a wordline
        /// is closed.
        #[test]
        fn what_is_set_aside_stays_so(
            channels in 1u32..9, blocks in 5u32..40, lines in 1u32..9, wordline in 1u32..4, fill in 0.0f64..=1.0,
            slc_blocks in 0u32..4, spare_blocks in 0u32..3, reserve in 1u32..4,
        ) {
            let upkeep = Maintenance { slc_blocks, spare_blocks, ..Maintenance::default() };
            let all = blocks + reserve + upkeep.set_aside();
            let geometry = Geometry { channels, ways: 1, planes: 1, blocks: all, pages: lines * wordline, page_bytes: 16384 };
            let wordline_units = wordline * geometry.units_per_stripe();
            let of_die = (blocks - 2) * (geometry.units_per_block() - wordline_units + 1);
            let user_units = ((f64::from(of_die * channels) * fill) as u64).max(1);
            let state = with_upkeep(geometry, user_units, wordline, upkeep, reserve);
            check_all(&state);
            for die in 0..geometry.dies() {
                let stripes = |block| state.stripes(geometry.block(die, block));
                let free = (0..all - slc_blocks).filter(|block| stripes(*block) == 0).count() as u32;
                prop_assert!(free > spare_blocks, "{free} free superblocks on die {die}");
                prop_assert!((0..all - slc_blocks).all(|block| stripes(block).is_multiple_of(wordline)));
                prop_assert!((all - slc_blocks..all).all(|block| stripes(block) <= lines), "a third of the stripes");
            }
        }
    }

    // If the dies were in step, all would run garbage collection at once and then all accept host writes at
    // once.
    #[test]
    fn dies_are_spread_over_their_cycle() {
        let geometry =
            Geometry { channels: 8, ways: 4, planes: 1, blocks: 64, pages: 256, page_bytes: 16384 };
        let user_units = FtlConfig::user_units_at(&geometry, 1, 0.07);
        let state = state(geometry, Base::Steady, user_units, None, 5);
        let open = |die: u32| (0..64).filter(|block| !is_whole(&state, geometry.block(die, *block))).count();
        let is_host = |die: u32| {
            let of_die = (0..64).map(|block| geometry.block(die, block));
            of_die.filter(|block| !is_whole(&state, *block)).any(|block| !state.is_collectors(block))
        };
        assert!((0..32).all(|die| open(die) <= 2));
        // By programs alone, that is 1 of 7.8.
        let filling = (0..32).filter(|die| is_host(*die)).count();
        assert!((3..=6).contains(&filling), "{filling} of 32 dies fill a superblock of the host's");
        let emptiest =
            |die: u32| (0..50).map(|block| state.valid(geometry.block(die, block))).min().unwrap_or(0);
        let begun = (0..32).filter(|die| emptiest(*die) < 800).count();
        assert!((16..32).contains(&begun), "{begun} of 32 victims are collected in part");
    }

    fn is_whole(state: &BaseState, block: BlockId) -> bool {
        [0, state.geometry.pages].contains(&state.stripes(block))
    }

    // At full size the sums come near to 2^32, and beyond: an overflow would show only there.
    #[test]
    fn large_drives_are_found_too() {
        for (blocks, pages, op, cached) in [
            (2193, 256, 0.07, None),
            (1096, 4096, 0.07, None),
            (35_063, 256, 0.07, Some(512)),
            (41_945, 256, 0.28, None),
            (335_560, 256, 0.28, Some(512)),
        ] {
            let geometry = Geometry { channels: 8, ways: 2, planes: 4, blocks, pages, page_bytes: 16384 };
            geometry.validate().unwrap();
            let user_units = FtlConfig::user_units_at(&geometry, 1, op);
            for base in [Base::Filled, Base::Steady] {
                let state = state(geometry, base, user_units, cached, 9);
                let sum: u64 = (0..geometry.total_blocks()).map(|b| u64::from(state.valid(BlockId(b)))).sum();
                assert_eq!(sum, state.held);
                let mut stream = Rng::new(1).stream("sample");
                let ends = [0, 1, user_units - 2, user_units - 1];
                for lpa in ends.into_iter().chain((0..50_000).map(|_| stream.below(user_units))) {
                    there_and_back(&state, lpa);
                }
                for _ in 0..50_000 {
                    let ppa = Ppa(stream.below(geometry.total_units()));
                    if state.geometry.stripe_of(ppa) < state.stripes(geometry.block_of(ppa))
                        && let Some(lpa) = state.lpa(ppa)
                    {
                        assert_eq!(state.find(lpa), Some(ppa));
                    }
                }
            }
        }
    }

    // The host's oracle expects version 0 of the namespace's own blocks and reports any other stamp as
    // corruption.
    #[test]
    fn contents_are_version_0_of_the_regions_blocks() {
        let geometry = Geometry { channels: 2, ways: 1, planes: 1, blocks: 8, pages: 4, page_bytes: 8192 };
        let expect = |lba, tag, block| Content::Stamp(Stamp { lba, version: 0, tag, block });
        for base in [Base::Filled, Base::Steady] {
            let state = state(geometry, base, 60, None, 1);
            assert_eq!(state.content(0), expect(0, 1, BlockSize::B4096));
            assert_eq!(state.content(29), expect(29, 1, BlockSize::B4096));
            assert_eq!(state.content(30), expect(0, 2, BlockSize::B512));
            assert_eq!(state.content(59), expect(29 * 8, 2, BlockSize::B512));
            let written = Written(Rc::new(state));
            let ppa = written.0.find(59).unwrap();
            let mut lpas = [0];
            written.lpas(ppa, &mut lpas);
            assert_eq!((lpas, written.content(59)), ([59], expect(29 * 8, 2, BlockSize::B512)));
        }
        let empty = state(geometry, Base::Empty, 60, None, 1);
        assert_eq!((empty.find(0), empty.content(0)), (None, Content::Zero));
    }

    // 1/x at its published values.
    #[test]
    fn the_formula_gives_its_known_values() {
        for (op, expected) in [(0.07, 7.82), (0.15, 4.02), (0.28, 2.48)] {
            assert!((greedy_write_amplification(op) - expected).abs() < 0.005, "OP {op}");
        }
        assert!(greedy_write_amplification(0.0) > 1e6, "without spare there is no end");
    }
}
