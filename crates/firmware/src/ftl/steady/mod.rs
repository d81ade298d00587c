//! The steady state after long, uniformly random overwrites with units of 4 KiB:
//! [`Base::Steady`](crate::ftl::Base::Steady).
//!
//! **Superblocks.** Under greedy garbage collection a superblock loses its valid units one by one, ever more
//! slowly, until it is the emptiest and becomes the victim. In the limit of many superblocks a collection
//! gains the fraction x of one, where 1 - x = exp(-(1 + OP) x), and the write amplification factor is 1/x.
//! There is no such form for few superblocks, for translation pages that are overwritten more often than
//! other units, or for a one-bit cache that is folded; a die's [`Course`] is therefore simulated from that
//! estimate for some lives of its superblocks, in fractions of superblocks. The result is a count of host
//! units and one of translation pages for each superblock. Within a superblock, a keyed permutation selects
//! the valid positions (position p is valid if its image is below the count), and the unit there is a
//! permutation of its rank among all of its kind. The reverse look-up searches the rank in the running sum of
//! the counts, from an index that leads there in a step or two.
//!
//! **Dies.** A host at full speed leaves a die no free superblock beyond the garbage collection reserve. The
//! collector empties victim after victim; when the gains add up to a superblock, the host gets it and fills
//! it before the collector continues, since host programs are more urgent. A die is thus somewhere within its
//! course, and dies are not in step: they start at moments that are spread evenly over time.
//!
//! A slower host ([`SteadyLoad::Paced`]) leaves as many superblocks free as garbage collection keeps free, and
//! a die collects for a part of its time only.
//!
//! **DRAM.** The write buffer of a saturated drive is full, and so is the map cache of any: see
//! [`dram`]. This takes effect at the first write: a drive that is only read is idle.
//!
//! What it does not do: other workloads leave other states. Larger blocks or skewed addresses leave other
//! counts.
//!
//! [`SteadyLoad::Paced`]: crate::ftl::SteadyLoad::Paced

mod course;
pub(in crate::ftl) mod dram;
pub(in crate::ftl) mod greedy;
mod order;

use crate::ftl::collect::collecting::{Begun, InitialUpkeep};
use crate::ftl::config::{FtlConfig, ROUND_UNITS, SteadyLoad};
use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Rng, Stream};
use byteway_flash::{Geometry, NO_LPA, Ppa};
use course::{Course, DieActivity, DieSnapshot, Pace, Part, Shape};
use greedy::reclaimed_share;
use order::{Order, Positions, Spread};
use std::collections::BTreeMap;

/// Steps in which a host that yields is slowed down, in millionths of its load.
const YIELD_STEP_PPM: u32 = 62_500;

/// Permutations of positions shared by all superblocks; each superblock rotates them by its own amount.
const POSITIONS: u64 = 16;

/// Initial state of a die. Its superblocks are, in this order: closed ones, oldest first; open ones; free
/// ones; those of the cache, oldest first.
#[derive(Clone, Copy, Debug, Default)]
struct DieState {
    closed: u32,
    /// Programmed stripes of the open superblocks. A full one counts as closed, an empty one as free.
    open: [u32; 2],
    /// The first open superblock is the host's; otherwise the host has none, and the first is the
    /// collector's.
    is_host_open: bool,
    /// Stripes of the oldest superblock that the collector has emptied.
    collected: u32,
    /// The same for the cache's oldest superblock.
    folded: u32,
    /// Programmed stripes of the cache's newest superblock.
    filled: u32,
    upkeep: InitialUpkeep,
}

pub(in crate::ftl) struct Steady {
    blocks_per_die: u32,
    stripe_units: u32,
    block_units: u32,
    pages: u32,
    /// Number of host units; the translation pages follow.
    user_units: u64,
    kinds: [Ranks; 2],
    positions: Vec<Positions>,
    key: u64,
    dies: Vec<DieState>,
    /// Index of the first cache superblock of a die, and their stripes.
    cache: (u32, u32),
    amplification: f64,
    paced: Option<PacedState>,
}

/// What is expected of garbage collection in the steady state of a load that it keeps up with.
#[derive(Clone, Copy, Debug)]
pub struct PacedState {
    /// Units that it moves for each unit that the host, or the map, programs.
    pub moved: f64,
    /// Share of their time for which dies collect.
    pub duty: f64,
    /// Share of the dies that collect at first.
    pub collecting: f64,
}

/// Assignment of a kind of units to superblocks.
struct Ranks {
    /// For each superblock, the valid units in the ones before it; then the total.
    before: Vec<u64>,
    /// For each multiple of 2^`shift` ranks, the superblock that holds it.
    index: Vec<u32>,
    shift: u32,
    units: Permutation,
}

impl Ranks {
    /// Ranks for `counts` units in each superblock.
    fn new(key: u64, counts: impl Iterator<Item = u32>, superblocks: u32) -> Ranks {
        let mut before = Vec::with_capacity(superblocks as usize + 1);
        let mut sum = 0u64;
        for count in counts {
            before.push(sum);
            sum += u64::from(count);
        }
        before.push(sum);
        let shift = (sum / u64::from(superblocks)).max(1).ilog2();
        let mut index = Vec::with_capacity((sum >> shift) as usize + 1);
        let mut block = 0;
        for rank in (0..sum).step_by(1 << shift) {
            while before[block as usize + 1] <= rank {
                block += 1;
            }
            index.push(block);
        }
        let units = Permutation::new(key, sum.max(1)).expect("units fit in 40 bits");
        Ranks { before, index, shift, units }
    }

    fn valid(&self, block: u32) -> u32 {
        (self.before[block as usize + 1] - self.before[block as usize]) as u32
    }

    /// The superblock of a unit, and the unit's index among the valid ones there.
    fn find(&self, unit: u64) -> (u32, u32) {
        let rank = self.units.inverse(unit);
        let mut block = self.index[(rank >> self.shift) as usize];
        while self.before[block as usize + 1] <= rank {
            block += 1;
        }
        (block, (rank - self.before[block as usize]) as u32)
    }

    /// The reverse: from an index in a superblock to the unit.
    #[inline]
    fn units_of(&self, block: u32) -> impl Fn(u32) -> u64 {
        let first = self.before[block as usize];
        move |number| self.units.forward(first + u64::from(number))
    }
}

impl Steady {
    /// The layout of `held` units.
    pub(in crate::ftl) fn new(geometry: &Geometry, config: &FtlConfig, held: u64) -> Self {
        let rng = Rng::new(config.seed);
        let mut phases = rng.stream("steady-phases");
        let mut keys = rng.stream("steady-places");
        let pages_held = held - config.user_units;
        let wanted = [config.user_units, pages_held];
        // A load that garbage collection cannot keep up with saturates the drive.
        let asked = Layout::new(geometry, config);
        let saturated = Layout { shape: Shape { pace: None, ..asked.shape }, ..asked };
        let mut find = |pace: Option<Pace>| {
            let layout = Layout { shape: Shape { pace, ..asked.shape }, ..asked };
            let mut found = layout.overwritten(&mut phases, rng.stream("steady-course"))?;
            layout.fit(&mut found, wanted).then_some(found)
        };
        let paced = asked.shape.pace.and_then(|pace| {
            let steps = yields_ppm(config).min(999_999) / YIELD_STEP_PPM;
            let shares = (0..=steps).map(|step| 1.0 - f64::from(step * YIELD_STEP_PPM) * 1e-6);
            shares.map(|share| pace.times(share)).find_map(|pace| find(Some(pace)))
        });
        let is_paced = paced.is_some();
        let found = paced.or_else(|| find(None));
        let layout = saturated;
        let is_at_rest = found.is_none();
        let OverwrittenDies { dies, counts, amplification, duty, collecting } =
            found.unwrap_or_else(|| layout.at_rest(wanted));
        let paced = is_paced.then(|| PacedState {
            moved: (amplification / (1.0 + layout.shape.pages) - 1.0).max(0.0),
            duty,
            collecting: f64::from(collecting) / dies.len() as f64,
        });
        let total = geometry.total_blocks();
        let kinds = [0, 1].map(|kind| {
            let key = keys.next_u64();
            Ranks::new(key, counts.iter().map(|counts| counts[kind]), total)
        });
        let block_units = geometry.units_per_block();
        Steady {
            blocks_per_die: geometry.blocks,
            stripe_units: geometry.units_per_stripe(),
            block_units,
            pages: geometry.pages,
            user_units: config.user_units,
            kinds,
            positions: (0..POSITIONS)
                .map(|_| Permutation::new(keys.next_u64(), u64::from(block_units)))
                .map(|permutation| Positions::new(permutation.expect("so do those of a block")))
                .collect(),
            key: keys.next_u64(),
            dies,
            cache: (layout.first_of_cache(), if is_at_rest { 0 } else { layout.cache_stripes() }),
            amplification,
            paced,
        }
    }

    /// None if writes waited for garbage collection.
    pub(in crate::ftl) fn paced(&self) -> Option<PacedState> {
        self.paced
    }

    fn die_of(&self, block: u32) -> (&DieState, u32) {
        (&self.dies[(block / self.blocks_per_die) as usize], block % self.blocks_per_die)
    }

    pub(in crate::ftl) fn is_one_bit(&self, block: u32) -> bool {
        block % self.blocks_per_die >= self.cache.0
    }

    pub(in crate::ftl) fn write_amplification(&self) -> f64 {
        self.amplification
    }

    /// State of a die's collector.
    pub(in crate::ftl) fn upkeep(&self, die: u32) -> InitialUpkeep {
        self.dies[die as usize].upkeep
    }

    pub(in crate::ftl) fn stripes(&self, block: u32) -> u32 {
        let (die, of_die) = self.die_of(block);
        if let Some(number) = of_die.checked_sub(self.cache.0) {
            return self.in_cache(die, number).1;
        }
        match of_die.checked_sub(die.closed) {
            None => self.pages,
            Some(open @ 0..2) => die.open[open as usize],
            Some(_) => 0,
        }
    }

    /// First and end of the stripes with valid units in a superblock of the cache.
    fn in_cache(&self, die: &DieState, number: u32) -> (u32, u32) {
        let (first, stripes) = self.cache;
        let is_youngest = first + number + 1 == self.blocks_per_die;
        (
            if number == 0 { die.folded } else { 0 },
            if is_youngest { die.filled.min(stripes) } else { stripes },
        )
    }

    /// Whether an open superblock belongs to the collector.
    pub(in crate::ftl) fn is_collectors(&self, block: u32) -> bool {
        let (die, of_die) = self.die_of(block);
        of_die == die.closed + u32::from(die.is_host_open)
    }

    pub(in crate::ftl) fn valid(&self, block: u32) -> u32 {
        self.kinds[0].valid(block) + self.kinds[1].valid(block)
    }

    /// The superblock of a unit, and its index among the valid ones there.
    fn locate(&self, unit: u64) -> (u32, u32) {
        match unit.checked_sub(self.user_units) {
            None => self.kinds[0].find(unit),
            Some(page) => {
                let (block, number) = self.kinds[1].find(page);
                (block, self.kinds[0].valid(block) + number)
            }
        }
    }

    pub(in crate::ftl) fn block_of(&self, unit: u64) -> u32 {
        self.locate(unit).0
    }

    pub(in crate::ftl) fn find(&self, unit: u64) -> Ppa {
        let (block, number) = self.locate(unit);
        let position = self.order(block).position(number);
        Ppa(u64::from(block) * u64::from(self.block_units) + u64::from(position))
    }

    /// The inverse, for consecutive positions of a superblock from `first` on; [`NO_LPA`] for positions
    /// without a valid unit.
    pub(in crate::ftl) fn units(&self, first: Ppa, units: &mut [u64]) {
        let block_units = u64::from(self.block_units);
        let (block, first) = ((first.0 / block_units) as u32, (first.0 % block_units) as u32);
        let order = self.order(block);
        let users = self.kinds[0].valid(block);
        let [user, page] = [0, 1].map(|kind: usize| self.kinds[kind].units_of(block));
        for (position, unit) in (first..).zip(units) {
            *unit = match order.number(position) {
                None => NO_LPA,
                Some(number) if number < users => user(number),
                Some(number) => self.user_units + page(number - users),
            };
        }
    }

    /// Arrangement of the valid units in a superblock.
    fn order(&self, block: u32) -> Order<'_> {
        let (die, of_die) = self.die_of(block);
        let valid = self.valid(block);
        let evenly = |(first, end): (u32, u32)| {
            let (first, span) = (first * self.stripe_units, (end - first) * self.stripe_units);
            Order { valid, spread: Spread::Evenly { first, span } }
        };
        if let Some(number) = of_die.checked_sub(self.cache.0) {
            return evenly(self.in_cache(die, number));
        }
        if of_die >= die.closed {
            return evenly((0, self.stripes(block)));
        }
        if of_die == 0 && die.collected > 0 {
            return evenly((die.collected, self.pages));
        }
        if valid == self.block_units {
            return evenly((0, self.pages)); // in order
        }
        let mut word = (u64::from(block) ^ self.key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^= word >> 32;
        let scaled = |bits: u64| ((bits * u64::from(self.block_units)) >> 30) as u32;
        let turns = [scaled(word & 0x3fff_ffff), scaled((word >> 30) & 0x3fff_ffff)];
        Order {
            valid,
            spread: Spread::Scattered { positions: &self.positions[(word >> 60) as usize], turns },
        }
    }
}

/// Initial states of all dies.
struct OverwrittenDies {
    dies: Vec<DieState>,
    /// Valid host units and translation pages of each superblock.
    counts: Vec<[u32; 2]>,
    /// Write amplification factor.
    amplification: f64,
    /// Share of their time for which dies collect.
    duty: f64,
    /// Number of dies that collect at these moments.
    collecting: u32,
}

/// Quantities that follow from geometry and configuration alone.
#[derive(Clone, Copy)]
struct Layout<'a> {
    geometry: &'a Geometry,
    config: &'a FtlConfig,
    shape: Shape,
}

fn yields_ppm(config: &FtlConfig) -> u32 {
    match config.steady_load {
        SteadyLoad::Saturating => 0,
        SteadyLoad::Paced { yields_ppm, .. } => yields_ppm,
    }
}

/// The pace of a die under the load that is asked, if that does not saturate the drive by itself.
fn pace(geometry: &Geometry, config: &FtlConfig) -> Option<Pace> {
    let SteadyLoad::Paced { units_per_megasecond, busy_ppm, collection_ppm, .. } = config.steady_load else {
        return None;
    };
    if config.upkeep.slc_blocks > 0 || busy_ppm.saturating_sub(yields_ppm(config)) >= 1_000_000 {
        return None;
    }
    let map_pages = f64::from(config.rhythm.map_pages_ppm) * 1e-6;
    let of_die = units_per_megasecond.max(1) as f64 / f64::from(geometry.dies()) * (1.0 + map_pages);
    let fill_ps = f64::from(geometry.units_per_block()) / of_die * 1e18;
    Some(Pace { fill_ps, busy: f64::from(busy_ppm) * 1e-6, collection: f64::from(collection_ppm) * 1e-6 })
}

impl Layout<'_> {
    fn new<'a>(geometry: &'a Geometry, config: &'a FtlConfig) -> Layout<'a> {
        let upkeep = &config.upkeep;
        let set_aside = upkeep.spare_blocks.saturating_add(upkeep.slc_blocks);
        let units = f64::from(geometry.units_per_block()) * f64::from(geometry.dies());
        let (users, all) = (config.user_units as f64, config.units_held() as f64);
        let stripes = geometry.pages.div_ceil(config.rhythm.wordline);
        let shape = Shape {
            usable: geometry.blocks.saturating_sub(set_aside),
            reserve: config.gc_reserve_blocks,
            start: config.gc_start_free_blocks,
            cache: upkeep.slc_blocks.min(geometry.blocks),
            cache_size: f64::from(stripes) / f64::from(geometry.pages),
            held: Part([users / units, (all - users) / units]),
            pages: if all > users { f64::from(config.rhythm.map_pages_ppm) * 1e-6 } else { 0.0 },
            rhythm: config.rhythm,
            units: f64::from(geometry.units_per_block()),
            pace: pace(geometry, config),
        };
        Layout { geometry, config, shape }
    }

    fn first_of_cache(&self) -> u32 {
        self.geometry.blocks - self.shape.cache
    }

    fn cache_stripes(&self) -> u32 {
        self.geometry.pages.div_ceil(self.config.rhythm.wordline)
    }

    /// The dies at moments spread evenly over their course, in random order, so that dies of a channel are
    /// not neighbours. None if no such course exists.
    fn overwritten(&self, phases: &mut Stream, chance: Stream) -> Option<OverwrittenDies> {
        /// Times that all superblocks are collected before a die counts as periodic.
        const LIVES: usize = 24;
        /// Maximum steps simulated, for dies with so many superblocks that the first estimate is good.
        const STEPS_MOST: usize = 1 << 22;
        /// Multiples of it, modulo 1, are spread evenly for any number of them.
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let count = self.shape.usable as usize;
        let mut course = Course::new(self.shape, chance)?;
        for _ in 0..(2 * LIVES * count).min(STEPS_MOST) {
            course.step()?;
        }
        let mut next = course.clone();
        let mut alike: BTreeMap<DieActivity, (f64, Vec<usize>)> = BTreeMap::new();
        for step in 0..(2 * count).clamp(512, 1 << 16) {
            let (ps, steps) = alike.entry(next.doing()).or_default();
            steps.push(step);
            *ps += next.step()?;
        }
        let dies = self.geometry.dies();
        let all_ps: f64 = alike.values().map(|(ps, _)| ps).sum();
        let order = Permutation::new(phases.next_u64(), u64::from(dies)).expect("dies are few");
        let (begin, offset) = (phases.unit(), phases.unit());
        let mut moments: Vec<(usize, f64, u32)> = Vec::with_capacity(dies as usize);
        for die in 0..dies {
            let rank = order.forward(u64::from(die)) as f64;
            let mut left = (rank + begin) / f64::from(dies) * all_ps;
            let of_it = alike.values().find(|(ps, _)| {
                let is_it = left < *ps;
                left -= if is_it { 0.0 } else { *ps };
                is_it
            });
            let (ps, steps) = of_it.or(alike.values().last())?;
            let which = offset + rank * GOLDEN;
            let which = ((which - libm::floor(which)) * steps.len() as f64) as usize;
            moments.push((steps[which.min(steps.len() - 1)], (left / ps).clamp(0.0, 1.0), die));
        }
        moments.sort_unstable_by_key(|(step, _, die)| (*step, *die));
        let mut found = OverwrittenDies {
            dies: vec![DieState::default(); dies as usize],
            counts: vec![[0; 2]; self.geometry.total_blocks() as usize],
            amplification: course.amplification(),
            duty: 1.0 - alike.get(&DieActivity::Rest).map_or(0.0, |(ps, _)| ps / all_ps),
            collecting: 0,
        };
        let mut step = 0;
        for (at, progress, die) in moments {
            while step < at {
                course.step()?;
                step += 1;
            }
            let first = die as usize * self.geometry.blocks as usize;
            let counts = &mut found.counts[first..first + self.geometry.blocks as usize];
            let moment = course.at(progress)?;
            found.collecting += u32::from(moment.victim.is_some());
            found.dies[die as usize] = self.die(&moment, counts)?;
        }
        Some(found)
    }

    /// The state of a die at a moment, and the valid units of its superblocks. None if it is impossible.
    fn die(&self, moment: &DieSnapshot, counts: &mut [[u32; 2]]) -> Option<DieState> {
        let Geometry { pages, .. } = *self.geometry;
        let wordline = self.config.rhythm.wordline;
        let mut die = DieState { upkeep: self.upkeep(moment.doing), ..DieState::default() };
        let cache = self.first_of_cache() as usize;
        let mut next = 0;
        if let Some((left, collected)) = moment.victim {
            // A collector begins the next victim early to fill a wordline, unless a wordline is a single
            // unit. This is its progress in that victim when the previous one is erased. At a pace it rests
            // in between.
            let ahead = match wordline * self.geometry.units_per_stripe() {
                _ if self.shape.pace.is_some() => 0.0,
                1 => 0.0,
                units => f64::from(ROUND_UNITS + units) / f64::from(self.geometry.units_per_block()),
            };
            let valid = (left.sum() / (1.0 - collected).max(1e-9)).max(1e-9);
            let looked_at = collected + (ahead / valid).min(0.5);
            die.collected = ((looked_at * f64::from(pages)) as u32).min(pages.saturating_sub(1));
            let stripes = pages - die.collected;
            let share = f64::from(stripes) / f64::from(pages) / (1.0 - collected).max(1e-9);
            *counts.get_mut(next)? = self.counts(left.times(share), stripes);
            next += 1;
        }
        for part in &moment.closed {
            *counts.get_mut(next)? = self.counts(*part, pages);
            next += 1;
        }
        die.closed = next as u32;
        die.is_host_open = moment.host.is_some();
        // Programs end at a wordline boundary.
        let stripes = |share: f64| {
            let lines = (share * f64::from(pages) / f64::from(wordline) + 0.5) as u32;
            (lines * wordline).min(pages)
        };
        let open = [moment.host, Some(moment.collector)];
        for (number, (level, part)) in open.into_iter().flatten().enumerate() {
            die.open[number] = stripes(level);
            let full = f64::from(die.open[number]) / f64::from(pages) / level.max(1e-9);
            *counts.get_mut(next)? = self.counts(part.times(full), die.open[number]);
            next += 1;
        }
        if die.closed as usize + 2 > cache {
            return None;
        }
        let of_cache = f64::from(self.cache_stripes());
        for (number, (begin, end, part)) in moment.cache.iter().enumerate() {
            let [begin, end] = [begin, end].map(|share| (share * of_cache) as u32);
            die.folded = if number == 0 { begin } else { die.folded };
            die.filled = end;
            *counts.get_mut(cache + number)? = self.counts(*part, end - begin);
        }
        Some(die)
    }

    /// Rounds `part` of a superblock to units that fit `stripes`.
    fn counts(&self, part: Part, stripes: u32) -> [u32; 2] {
        let units = f64::from(self.geometry.units_per_block());
        let space = stripes * self.geometry.units_per_stripe();
        let [users, pages] = part.0.map(|share| (share * units + 0.5) as u32);
        let pages = pages.min(space);
        [users.min(space - pages), pages]
    }

    fn upkeep(&self, doing: DieActivity) -> InitialUpkeep {
        let (begun, collections) = match doing {
            _ if self.shape.cache == 0 => (None, 0),
            DieActivity::Fold => (Some(Begun::Fold), 0),
            DieActivity::Fill(folds) => (folds.then_some(Begun::Fold), 0),
            DieActivity::Collect(collections) => (Some(Begun::Collect), collections + 1),
            DieActivity::Take(_, true) => (Some(Begun::Fold), 0),
            DieActivity::Take(collections, false) => (None, collections),
            DieActivity::Rest => (None, 0),
        };
        InitialUpkeep { begun, collections }
    }

    /// Adjusts the counts of each kind to the actual totals, evenly over closed superblocks. False if
    /// impossible.
    fn fit(&self, found: &mut OverwrittenDies, wanted: [u64; 2]) -> bool {
        let block_units = self.geometry.units_per_block();
        let blocks = self.geometry.blocks as usize;
        let closed = |number: usize| {
            let die = &found.dies[number / blocks];
            let of_die = (number % blocks) as u32;
            of_die < die.closed && !(of_die == 0 && die.collected > 0)
        };
        let closed: Vec<usize> = (0..found.counts.len()).filter(|number| closed(*number)).collect();
        // Pages first: they are few, and they displace host units.
        for kind in [1, 0] {
            let mut sum: u64 = found.counts.iter().map(|counts| u64::from(counts[kind])).sum();
            while sum != wanted[kind] {
                let before = sum;
                let missing = before.abs_diff(wanted[kind]);
                // If the superblocks at this stride are all full or all empty, use any.
                for stride in [(closed.len() as u64 / missing).max(1) as usize, 1] {
                    if sum != before {
                        break;
                    }
                    for number in closed.iter().step_by(stride) {
                        let of_it = &mut found.counts[*number];
                        if sum < wanted[kind] && of_it[0] + of_it[1] < block_units {
                            of_it[kind] += 1;
                            sum += 1;
                        } else if sum > wanted[kind] && of_it[kind] > 0 {
                            of_it[kind] -= 1;
                            sum -= 1;
                        }
                    }
                }
                if sum == before {
                    return false;
                }
            }
        }
        true
    }

    /// Idle dies with empty caches, for drives too small for anything else.
    fn at_rest(&self, wanted: [u64; 2]) -> OverwrittenDies {
        let Shape { usable, reserve, held, .. } = self.shape;
        let closed = usable.saturating_sub(reserve + 2);
        let op = (f64::from(closed) / held.sum().max(1e-9) - 1.0).max(0.0);
        let decay = (1.0 + op) * reclaimed_share(op);
        let kinds = held.times(f64::from(self.geometry.units_per_block()) / held.sum().max(1e-9));
        let mut counts = Vec::with_capacity(self.geometry.total_blocks() as usize);
        for _ in 0..self.geometry.dies() {
            for number in 0..self.geometry.blocks {
                let age = 1.0 - (f64::from(number) + 0.5) / f64::from(closed.max(1));
                let share = if number < closed { libm::exp(-decay * age) } else { 0.0 };
                counts.push(kinds.times(share).0.map(|units| units as u32));
            }
        }
        let die = DieState { closed, is_host_open: true, ..DieState::default() };
        let dies = vec![die; self.geometry.dies() as usize];
        let mut found = OverwrittenDies { dies, counts, amplification: 1.0, duty: 0.0, collecting: 0 };
        assert!(self.fit(&mut found, wanted), "a drive has space for its data");
        found
    }
}
