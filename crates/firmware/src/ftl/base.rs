//! Where everything lies before the first I/O, in closed form: from a unit to its place, and back.
//!
//! Under a cached map the translation pages lie there too, behind the host's units, so that there is something to read
//! when one is asked for: zeroes, each of which says "where the base state has it".
//!
//! - *Empty*: nowhere.
//! - *Filled*: written once in order. Consecutive stripes go to consecutive dies, channels first.
//! - *Steady*: as uniform random overwrites under greedy collection leave it. A superblock of b units loses them one
//!   by one, the slower the fewer are left, until it is the emptiest and is collected. So in the steady state the
//!   number v of valid units in a closed superblock is spread with density 1/v from the victim's (1 - x) b up to b: at
//!   the share a of its life it is b exp(-(1 + OP) a x), where 1 - x = exp(-(1 + OP) x), and write amplification is
//!   1/x. That gives each superblock a count; within it, which positions are valid is a keyed permutation (position p
//!   is, if its image is below v); and which unit lies there is a permutation of its rank among all that are valid.
//!   The way back searches the rank in the running sum of the counts, from an index that leads there in a step or two.

use super::config::{Base, FtlConfig, Region};
use super::space::{Space, UnitKind};
use byteway_clock::permutation::Permutation;
use byteway_clock::random::Rng;
use byteway_flash::{BaseContent, BlockId, Geometry, Ppa};
use byteway_wire::content::{Content, Stamp};
use std::rc::Rc;

/// A base state. Shared by the translation layer and the array.
pub struct BaseState {
    geometry: Geometry,
    space: Space,
    /// How many units lie there: the host's, and behind them the translation pages, if they do.
    held: u64,
    regions: Vec<Region>,
    layout: Layout,
}

enum Layout {
    Empty,
    Filled,
    Steady(Box<Steady>),
}

impl BaseState {
    /// The base state that `config` asks for, on an array of this shape.
    pub fn new(geometry: Geometry, config: &FtlConfig) -> Self {
        let held = config.units_held();
        let layout = match config.base {
            Base::Empty => Layout::Empty,
            Base::Filled => Layout::Filled,
            Base::Steady => Layout::Steady(Box::new(Steady::new(&geometry, config, held))),
        };
        let space = Space::new(config.user_units);
        BaseState { geometry, space, held, regions: config.regions.clone(), layout }
    }

    /// Which of the units that lie there a unit is.
    #[inline]
    fn place_of(&self, lpa: u32) -> Option<u32> {
        if u64::from(lpa) < self.space.user {
            return Some(lpa);
        }
        match self.space.kind(lpa) {
            UnitKind::Map(page) if self.held > self.space.user => Some((self.space.user + page) as u32),
            _ => None,
        }
    }

    /// The way back.
    #[inline]
    fn unit_at(&self, place: u32) -> u32 {
        match u64::from(place).checked_sub(self.space.user) {
            None => place,
            Some(page) => (self.space.map.0 + page) as u32,
        }
    }

    /// Where a unit lies.
    pub fn find(&self, lpa: u32) -> Option<Ppa> {
        let unit = self.place_of(lpa)?;
        match &self.layout {
            Layout::Empty => None,
            Layout::Filled => {
                let geometry = &self.geometry;
                let stripe = unit / geometry.units_per_stripe();
                let (die, stripe_of_die) = (stripe % geometry.dies(), stripe / geometry.dies());
                let stripes = die * geometry.blocks * geometry.pages + stripe_of_die;
                Some(Ppa(stripes * geometry.units_per_stripe() + unit % geometry.units_per_stripe()))
            }
            Layout::Steady(steady) => Some(steady.find(unit)),
        }
    }

    /// Which unit lies at `ppa`, if one does and is valid.
    pub fn lpa(&self, ppa: Ppa) -> Option<u32> {
        match &self.layout {
            Layout::Empty => None,
            Layout::Filled => {
                let geometry = &self.geometry;
                let stripe_of_die = u64::from(ppa.0 % geometry.units_per_die() / geometry.units_per_stripe());
                let stripe = stripe_of_die * u64::from(geometry.dies()) + u64::from(geometry.die_of(ppa));
                let unit =
                    stripe * u64::from(geometry.units_per_stripe()) + u64::from(geometry.unit_of_stripe(ppa));
                (unit < self.held).then(|| self.unit_at(unit as u32))
            }
            Layout::Steady(steady) => steady.lpa(ppa).map(|unit| self.unit_at(unit)),
        }
    }

    /// What a unit holds.
    pub fn content(&self, lpa: u32) -> Content {
        let lpa = u64::from(lpa);
        if matches!(self.layout, Layout::Empty) || lpa >= self.space.user {
            return Content::Zero;
        }
        let region = match &self.regions[..] {
            [only] if only.first_unit <= lpa => only,
            regions => match regions.partition_point(|region| region.first_unit <= lpa) {
                0 => return Content::Zero,
                after => &regions[after - 1],
            },
        };
        let lba = (lpa - region.first_unit) * region.block.per_unit() as u64;
        Content::Stamp(Stamp { lba, version: 0, tag: region.tag, block: region.block })
    }

    /// How many units of a superblock are valid.
    pub fn valid(&self, block: BlockId) -> u32 {
        match &self.layout {
            Layout::Empty => 0,
            Layout::Filled => {
                let units = u64::from(self.stripes(block)) * u64::from(self.geometry.units_per_stripe());
                let first = block.0 * self.geometry.units_per_block();
                match units {
                    0 => 0,
                    // Only the last unit's stripe can be short.
                    _ if self.lpa(Ppa(first + units as u32 - 1)).is_some() => units as u32,
                    _ => {
                        (0..units as u32).filter(|unit| self.lpa(Ppa(first + unit)).is_some()).count() as u32
                    }
                }
            }
            Layout::Steady(steady) => steady.valid(block.0),
        }
    }

    /// How many stripes of a superblock are programmed.
    pub fn stripes(&self, block: BlockId) -> u32 {
        match &self.layout {
            Layout::Empty => 0,
            Layout::Filled => {
                let geometry = &self.geometry;
                let die = u64::from(geometry.die_of_block(block));
                let all = self.held.div_ceil(u64::from(geometry.units_per_stripe()));
                let of_die = (all + u64::from(geometry.dies()) - 1 - die) / u64::from(geometry.dies());
                let before = u64::from(block.0 % geometry.blocks) * u64::from(geometry.pages);
                of_die.saturating_sub(before).min(u64::from(geometry.pages)) as u32
            }
            Layout::Steady(steady) => steady.stripes(block.0),
        }
    }
}

/// The base state as the array sees it.
pub(super) struct Written(pub(super) Rc<BaseState>);

impl BaseContent for Written {
    fn stripes(&self, block: BlockId) -> u32 {
        self.0.stripes(block)
    }
    fn content(&self, ppa: Ppa) -> Content {
        self.0.lpa(ppa).map_or(Content::Zero, |lpa| self.0.content(lpa))
    }
    fn lpa(&self, ppa: Ppa) -> Option<u32> {
        self.0.lpa(ppa)
    }
}

/// Write amplification of greedy collection under uniform random writes, in the limit of large superblocks: 1/x, where
/// 1 - x = exp(-(1 + OP) x). `op` is spare over user, net of open and free superblocks. Infinite without spare.
pub fn greedy_write_amplification(op: f64) -> f64 {
    1.0 / reclaimed_share(op)
}

/// x: the share of a victim that collecting it gains.
fn reclaimed_share(op: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 - middle > libm::exp(-(1.0 + op) * middle) { low = middle } else { high = middle }
    }
    low
}

struct Steady {
    blocks_per_die: u32,
    stripe_units: u32,
    block_units: u32,
    pages: u32,
    /// Of each superblock, how many valid units lie in those before it; and the sum.
    before: Vec<u32>,
    /// Of each multiple of 2^`shift` ranks, the superblock in which it lies.
    index: Vec<u32>,
    shift: u32,
    units: Permutation,
    positions: Vec<Permutation>,
    key: u64,
    /// Superblocks of a die that are closed: its first ones, the oldest first. Then the host's open one, then the
    /// collector's.
    closed: u32,
    /// Of each die, how many stripes of its open superblocks are programmed.
    open_stripes: Vec<[u32; 2]>,
}

/// How many permutations of positions the superblocks share; each turns them by an amount of its own.
const POSITIONS: u64 = 16;

impl Steady {
    /// Of so many units.
    fn new(geometry: &Geometry, config: &FtlConfig, held: u64) -> Self {
        let rng = Rng::new(config.seed);
        let mut phases = rng.stream("steady-phases");
        let mut keys = rng.stream("steady-places");
        let dies = geometry.dies();
        let (block_units, stripe_units) = (geometry.units_per_block(), geometry.units_per_stripe());
        // As many are free as a host that writes all the time leaves to the collector.
        let empty = config.gc_reserve_blocks + config.upkeep.set_aside();
        let closed = geometry.blocks.saturating_sub(empty + 2);
        let mut before = Vec::with_capacity(geometry.total_blocks() as usize + 1);
        let mut open_stripes = Vec::with_capacity(dies as usize);
        let mut sum = 0u64;
        for die in 0..dies {
            let mut user = held / u64::from(dies);
            user += u64::from(u64::from(die) < held % u64::from(dies));
            // The dies are not in step: each is somewhere between two victims, and within its open superblocks.
            let open = [(); 2].map(|()| phases.below(u64::from(geometry.pages)) as u32);
            let open = open.map(|stripes| stripes.min((user / 2 / u64::from(stripe_units)) as u32));
            let phase = phases.unit();
            let in_open = u64::from((open[0] + open[1]) * stripe_units);
            let counts = valid_counts(user, in_open, closed, block_units, phase);
            let free_ones = std::iter::repeat_n(0, (geometry.blocks - closed - 2) as usize);
            for count in counts.into_iter().chain(open.map(|stripes| stripes * stripe_units)).chain(free_ones)
            {
                before.push(sum as u32);
                sum += u64::from(count);
            }
            open_stripes.push(open);
        }
        before.push(sum as u32);
        debug_assert_eq!(sum, held, "the constructed state holds every unit once");
        let mean = (sum / u64::from(geometry.total_blocks())).max(1);
        let shift = mean.ilog2();
        let mut index = Vec::with_capacity((sum >> shift) as usize + 1);
        let mut block = 0;
        for rank in (0..sum).step_by(1 << shift) {
            while u64::from(before[block as usize + 1]) <= rank {
                block += 1;
            }
            index.push(block);
        }
        Steady {
            blocks_per_die: geometry.blocks,
            stripe_units,
            block_units,
            pages: geometry.pages,
            before,
            index,
            shift,
            units: Permutation::new(keys.next_u64(), held.max(1)).expect("units fit in 32 bits"),
            positions: (0..POSITIONS)
                .map(|_| {
                    Permutation::new(keys.next_u64(), u64::from(block_units)).expect("so do those of a block")
                })
                .collect(),
            key: keys.next_u64(),
            closed,
            open_stripes,
        }
    }

    fn stripes(&self, block: u32) -> u32 {
        let of_die = block % self.blocks_per_die;
        match of_die.checked_sub(self.closed) {
            None => self.pages,
            Some(open) if open < 2 => {
                self.open_stripes[(block / self.blocks_per_die) as usize][open as usize]
            }
            Some(_) => 0,
        }
    }

    fn valid(&self, block: u32) -> u32 {
        self.before[block as usize + 1] - self.before[block as usize]
    }

    fn find(&self, lpa: u32) -> Ppa {
        let rank = self.units.inverse(u64::from(lpa)) as u32;
        let mut block = self.index[(rank >> self.shift) as usize];
        while self.before[block as usize + 1] <= rank {
            block += 1;
        }
        let image = rank - self.before[block as usize];
        let position = if self.is_full(block) {
            image
        } else {
            let (turn, of) = self.turn(block);
            back(
                of.inverse(u64::from(back(image, turn.1, self.block_units))) as u32,
                turn.0,
                self.block_units,
            )
        };
        Ppa(block * self.block_units + position)
    }

    fn lpa(&self, ppa: Ppa) -> Option<u32> {
        let (block, position) = (ppa.0 / self.block_units, ppa.0 % self.block_units);
        let image = if self.is_full(block) {
            position
        } else {
            let (turn, of) = self.turn(block);
            on(of.forward(u64::from(on(position, turn.0, self.block_units))) as u32, turn.1, self.block_units)
        };
        let rank = u64::from(self.before[block as usize]) + u64::from(image);
        (image < self.valid(block)).then(|| self.units.forward(rank) as u32)
    }

    /// Whether every unit that is programmed is valid: then they lie in order.
    fn is_full(&self, block: u32) -> bool {
        self.valid(block) == self.stripes(block) * self.stripe_units
    }

    /// A superblock's permutation of positions: a shared one, between two turns.
    fn turn(&self, block: u32) -> ((u32, u32), &Permutation) {
        let mut word = (u64::from(block) ^ self.key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^= word >> 32;
        let scaled = |bits: u64| ((bits * u64::from(self.block_units)) >> 30) as u32;
        let turn = (scaled(word & 0x3fff_ffff), scaled((word >> 30) & 0x3fff_ffff));
        (turn, &self.positions[(word >> 60) as usize])
    }
}

fn on(position: u32, by: u32, n: u32) -> u32 {
    let sum = u64::from(position) + u64::from(by);
    (if sum >= u64::from(n) { sum - u64::from(n) } else { sum }) as u32
}

fn back(position: u32, by: u32, n: u32) -> u32 {
    if position >= by { position - by } else { position + (n - by) }
}

/// How many units are valid in each closed superblock of a die, the oldest first, so that together with those in its
/// open ones they are `user`.
fn valid_counts(user: u64, in_open: u64, closed: u32, block_units: u32, phase: f64) -> Vec<u32> {
    let wanted = user - in_open;
    let pool = u64::from(closed) * u64::from(block_units) + in_open;
    debug_assert!(pool >= user, "a die's share fits into its closed superblocks");
    let op = (pool as f64 / user.max(1) as f64 - 1.0).max(0.0);
    let decay = (1.0 + op) * reclaimed_share(op);
    let share = |age: f64| libm::exp(-decay * age);
    let mut counts: Vec<u32> = (0..closed)
        .map(|i| 1.0 - (f64::from(i) + phase) / f64::from(closed))
        .map(|age| ((share(age) * f64::from(block_units) + 0.5) as u32).min(block_units))
        .collect();
    // Rounding, the phase, and the little that open superblocks differ from closed ones: spread evenly.
    let mut sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    while sum != wanted {
        let missing = wanted.abs_diff(sum);
        let stride = (u64::from(closed) / missing).max(1) as usize;
        let before = sum;
        for count in counts.iter_mut().step_by(stride) {
            if sum < wanted && *count < block_units {
                *count += 1;
                sum += 1;
            } else if sum > wanted && *count > 0 {
                *count -= 1;
                sum -= 1;
            }
        }
        if sum == before {
            // Those in step are all full, or all empty: anyone will do.
            let up = sum < wanted;
            match counts.iter_mut().find(|count| if up { **count < block_units } else { **count > 0 }) {
                Some(count) if up => (*count, sum) = (*count + 1, sum + 1),
                Some(count) => (*count, sum) = (*count - 1, sum - 1),
                None => break,
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_wire::content::BlockSize;
    use proptest::prelude::{ProptestConfig, proptest};

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

    /// One unit there and back, and that its superblock counts it.
    fn there_and_back(state: &BaseState, lpa: u32) -> Ppa {
        let ppa = state.find(lpa).expect("every unit lies somewhere");
        assert!(u64::from(ppa.0) < state.geometry.total_units(), "unit {lpa} lies within the array");
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
        for lpa in (0..state.held as u32).map(|unit| state.unit_at(unit)) {
            let ppa = there_and_back(state, lpa);
            assert!(!std::mem::replace(&mut taken[ppa.0 as usize], true), "two units at {ppa:?}");
            counts[geometry.block_of(ppa).0 as usize] += 1;
        }
        for (ppa, taken) in taken.into_iter().enumerate() {
            let ppa = Ppa(ppa as u32);
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

        /// A unit that is not found where it lies is lost, and one that is counted wrong is erased or never collected.
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

    // At full size the sums come near to 2^32: an overflow would show only there.
    #[test]
    fn large_drives_are_found_too() {
        for (blocks, op, cached) in [(2193, 0.07, None), (35_063, 0.07, Some(512)), (41_945, 0.28, None)] {
            let geometry =
                Geometry { channels: 8, ways: 2, planes: 4, blocks, pages: 256, page_bytes: 16384 };
            geometry.validate().unwrap();
            let user_units = FtlConfig::user_units_at(&geometry, 1, op);
            for base in [Base::Filled, Base::Steady] {
                let state = state(geometry, base, user_units, cached, 9);
                let sum: u64 = (0..geometry.total_blocks()).map(|b| u64::from(state.valid(BlockId(b)))).sum();
                assert_eq!(sum, state.held);
                let mut stream = Rng::new(1).stream("sample");
                let ends = [0, 1, user_units - 2, user_units - 1];
                for lpa in ends.into_iter().chain((0..50_000).map(|_| stream.below(user_units))) {
                    there_and_back(&state, lpa as u32);
                }
                for _ in 0..50_000 {
                    let ppa = Ppa(stream.below(geometry.total_units()) as u32);
                    if state.geometry.stripe_of(ppa) < state.stripes(geometry.block_of(ppa))
                        && let Some(lpa) = state.lpa(ppa)
                    {
                        assert_eq!(state.find(lpa), Some(ppa));
                    }
                }
            }
        }
    }

    // The host's oracle expects version 0 of the namespace's own blocks: another stamp would be called corruption.
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
            assert_eq!(
                (written.content(ppa), written.lpa(ppa)),
                (expect(29 * 8, 2, BlockSize::B512), Some(59))
            );
        }
        let empty = state(geometry, Base::Empty, 60, None, 1);
        assert_eq!((empty.find(0), empty.content(0)), (None, Content::Zero));
    }

    // 1/x at the points that are published for it.
    #[test]
    fn the_formula_gives_its_known_values() {
        for (op, expected) in [(0.07, 7.82), (0.15, 4.02), (0.28, 2.48)] {
            assert!((greedy_write_amplification(op) - expected).abs() < 0.005, "OP {op}");
        }
        assert!(greedy_write_amplification(0.0) > 1e6, "without spare there is no end");
    }
}
