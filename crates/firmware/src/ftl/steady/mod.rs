//! What long, uniformly random overwriting with units of 4 KiB leaves: [`Base::Steady`].
//!
//! **Superblocks.** Under greedy collection a superblock loses its units one by one, the slower the fewer are left, until
//! it is the emptiest and is collected. In the limit of many superblocks a collection gains x of one, where
//! 1 - x = exp(-(1 + OP) x), and write amplification is 1/x. What superblocks hold, where there are not that many, or
//! translation pages are overwritten more often than other units, or a cache of one bit a cell is folded into them, has no
//! such form: a die's [`Course`] is followed from there for some lives of its superblocks, in shares of them alone. That
//! gives each superblock a count of the host's units, and one of translation pages. Within it, which positions are valid is
//! a keyed permutation (position p is, if its image is below the count); and which unit lies there is a permutation of its
//! rank among all of its kind. The way back searches the rank in the running sum of the counts, from an index that leads
//! there in a step or two.
//!
//! **Dies.** A host that writes all it can leaves a die no free superblock beyond the collector's reserve. The collector
//! empties victim after victim; when the gains add up to a superblock the host is given it and fills it before the
//! collector goes on, as its programs are more urgent. So a die is somewhere within its course, and dies are not in step:
//! they are found at moments of it that are spread evenly over time.
//!
//! **DRAM.** The write buffer is full, and the map's cache as well: see [`Inner::go_on_overwriting`]. That begins with the
//! first write: a drive that is only read from is at rest.
//!
//! What it is not: the state that other workloads leave. Larger blocks, skewed addresses or a host that writes less than
//! it could leave other counts, and more free superblocks.
//!
//! [`Inner::go_on_overwriting`]: crate::ftl::inner::Inner::go_on_overwriting

mod course;
mod dram;
mod order;

use crate::ftl::collect::collecting::{Begun, UpkeepFound};
use crate::ftl::config::{FtlConfig, ROUND_UNITS};
use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Rng, Stream};
use byteway_flash::{Geometry, NO_LPA, Ppa};
use course::{Course, Doing, Moment, Part, Shape};
use order::{Order, Positions, Spread};
use std::collections::BTreeMap;

/// x: the share of a victim that collecting it gains.
pub(in crate::ftl) fn reclaimed_share(op: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 - middle > libm::exp(-(1.0 + op) * middle) { low = middle } else { high = middle }
    }
    low
}

/// How many permutations of positions the superblocks share; each turns them by an amount of its own.
const POSITIONS: u64 = 16;

/// How a die is found. Its superblocks are, in this order: closed ones, the oldest first; open ones; free ones; those of
/// the cache, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
struct DieState {
    closed: u32,
    /// Stripes that are programmed of the open superblocks. One that is full is closed, one that is empty free.
    open: [u32; 2],
    /// The first open superblock is the host's; otherwise the host has none, and that is the collector's.
    is_host_open: bool,
    /// Stripes of the oldest superblock of which the collector has moved everything.
    collected: u32,
    /// The same of the cache's oldest one.
    folded: u32,
    /// Stripes that are programmed of the cache's youngest one.
    filled: u32,
    upkeep: UpkeepFound,
}

pub(in crate::ftl) struct Steady {
    blocks_per_die: u32,
    stripe_units: u32,
    block_units: u32,
    pages: u32,
    /// The host's units, and behind them the translation pages.
    user_units: u64,
    kinds: [Ranks; 2],
    positions: Vec<Positions>,
    key: u64,
    dies: Vec<DieState>,
    /// The first superblock of a die's cache, and how many stripes each has.
    cache: (u32, u32),
    amplification: f64,
}

/// Which units of a kind lie in which superblock.
struct Ranks {
    /// Of each superblock, how many valid units lie in those before it; and the sum.
    before: Vec<u64>,
    /// Of each multiple of 2^`shift` ranks, the superblock in which it lies.
    index: Vec<u32>,
    shift: u32,
    units: Permutation,
}

impl Ranks {
    /// With so many in each superblock.
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

    /// The superblock of a unit, and the unit's number in it.
    fn find(&self, unit: u64) -> (u32, u32) {
        let rank = self.units.inverse(unit);
        let mut block = self.index[(rank >> self.shift) as usize];
        while self.before[block as usize + 1] <= rank {
            block += 1;
        }
        (block, (rank - self.before[block as usize]) as u32)
    }

    /// The way back, of the valid units of a superblock.
    #[inline]
    fn units_of(&self, block: u32) -> impl Fn(u32) -> u64 {
        let first = self.before[block as usize];
        move |number| self.units.forward(first + u64::from(number))
    }
}

impl Steady {
    /// Of so many units.
    pub(in crate::ftl) fn new(geometry: &Geometry, config: &FtlConfig, held: u64) -> Self {
        let rng = Rng::new(config.seed);
        let mut phases = rng.stream("steady-phases");
        let mut keys = rng.stream("steady-places");
        let pages_held = held - config.user_units;
        let layout = Layout::new(geometry, config);
        let found = layout.overwritten(&mut phases, rng.stream("steady-course")).and_then(|mut found| {
            let is_there = layout.fit(&mut found, [config.user_units, pages_held]);
            is_there.then_some(found)
        });
        let (Found { dies, counts, amplification }, is_at_rest) = match found {
            Some(found) => (found, false),
            None => (layout.at_rest([config.user_units, pages_held]), true),
        };
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
        }
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

    /// What a die's collector is at.
    pub(in crate::ftl) fn upkeep(&self, die: u32) -> UpkeepFound {
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

    /// From which stripe to which one of the cache's superblocks holds valid units.
    fn in_cache(&self, die: &DieState, number: u32) -> (u32, u32) {
        let (first, stripes) = self.cache;
        let is_youngest = first + number + 1 == self.blocks_per_die;
        (
            if number == 0 { die.folded } else { 0 },
            if is_youngest { die.filled.min(stripes) } else { stripes },
        )
    }

    /// Whether the collector fills a superblock that is open.
    pub(in crate::ftl) fn is_collectors(&self, block: u32) -> bool {
        let (die, of_die) = self.die_of(block);
        of_die == die.closed + u32::from(die.is_host_open)
    }

    pub(in crate::ftl) fn valid(&self, block: u32) -> u32 {
        self.kinds[0].valid(block) + self.kinds[1].valid(block)
    }

    /// The superblock of a unit, and which of the valid units there it is.
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

    /// The way back, for consecutive places of a superblock from `first` on; [`NO_LPA`] where no valid unit lies.
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

    /// How the valid units of a superblock lie in it.
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

/// All dies, as they are found.
struct Found {
    dies: Vec<DieState>,
    /// Of each superblock, how many of the host's units and translation pages are valid.
    counts: Vec<[u32; 2]>,
    /// Units that are programmed for each that the host writes.
    amplification: f64,
}

/// What follows from shape and parameters alone.
struct Layout<'a> {
    geometry: &'a Geometry,
    config: &'a FtlConfig,
    shape: Shape,
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
        };
        Layout { geometry, config, shape }
    }

    fn first_of_cache(&self) -> u32 {
        self.geometry.blocks - self.shape.cache
    }

    fn cache_stripes(&self) -> u32 {
        self.geometry.pages.div_ceil(self.config.rhythm.wordline)
    }

    /// The dies at moments that are spread evenly over their course, in an order of no meaning, so that those of a channel
    /// are not neighbours. None if there is no such course.
    fn overwritten(&self, phases: &mut Stream, chance: Stream) -> Option<Found> {
        /// How often a die's superblocks are all collected before it is taken to repeat itself.
        const LIVES: usize = 24;
        /// Steps that are followed at most, where superblocks are so many that the first guess is good.
        const STEPS_MOST: usize = 1 << 22;
        /// Multiples of it, modulo 1, are spread evenly for any number of them.
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let count = self.shape.usable as usize;
        let mut course = Course::new(self.shape, chance)?;
        for _ in 0..(2 * LIVES * count).min(STEPS_MOST) {
            course.step()?;
        }
        let mut next = course.clone();
        let mut alike: BTreeMap<Doing, (f64, Vec<usize>)> = BTreeMap::new();
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
        let mut found = Found {
            dies: vec![DieState::default(); dies as usize],
            counts: vec![[0; 2]; self.geometry.total_blocks() as usize],
            amplification: course.amplification(),
        };
        let mut step = 0;
        for (at, progress, die) in moments {
            while step < at {
                course.step()?;
                step += 1;
            }
            let first = die as usize * self.geometry.blocks as usize;
            let counts = &mut found.counts[first..first + self.geometry.blocks as usize];
            found.dies[die as usize] = self.die(&course.at(progress)?, counts)?;
        }
        Some(found)
    }

    /// A die that is found so, and how many units are valid in its superblocks. None if that is not possible.
    fn die(&self, moment: &Moment, counts: &mut [[u32; 2]]) -> Option<DieState> {
        let Geometry { pages, .. } = *self.geometry;
        let wordline = self.config.rhythm.wordline;
        let mut die = DieState { upkeep: self.upkeep(moment.doing), ..DieState::default() };
        let cache = self.first_of_cache() as usize;
        let mut next = 0;
        if let Some((left, collected)) = moment.victim {
            // A collector begins the next victim to fill a wordline; where a wordline is a single unit, there is none to
            // fill. That is how far it is with this one when the one before is erased.
            let ahead = match wordline * self.geometry.units_per_stripe() {
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
        // Programs end with a wordline.
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

    /// What is so much of a superblock, and lies in so many stripes.
    fn counts(&self, part: Part, stripes: u32) -> [u32; 2] {
        let units = f64::from(self.geometry.units_per_block());
        let room = stripes * self.geometry.units_per_stripe();
        let [users, pages] = part.0.map(|share| (share * units + 0.5) as u32);
        let pages = pages.min(room);
        [users.min(room - pages), pages]
    }

    fn upkeep(&self, doing: Doing) -> UpkeepFound {
        let (begun, collections) = match doing {
            _ if self.shape.cache == 0 => (None, 0),
            Doing::Fold => (Some(Begun::Fold), 0),
            Doing::Fill(folds) => (folds.then_some(Begun::Fold), 0),
            Doing::Collect(collections) => (Some(Begun::Collect), collections + 1),
            Doing::Take(_, true) => (Some(Begun::Fold), 0),
            Doing::Take(collections, false) => (None, collections),
        };
        UpkeepFound { begun, collections }
    }

    /// Makes the counts of each kind add up to what there is: spread evenly over closed superblocks. False if they can't.
    fn fit(&self, found: &mut Found, wanted: [u64; 2]) -> bool {
        let block_units = self.geometry.units_per_block();
        let blocks = self.geometry.blocks as usize;
        let closed = |number: usize| {
            let die = &found.dies[number / blocks];
            let of_die = (number % blocks) as u32;
            of_die < die.closed && !(of_die == 0 && die.collected > 0)
        };
        let closed: Vec<usize> = (0..found.counts.len()).filter(|number| closed(*number)).collect();
        // Pages first: they are few, and more of the host's units fit where fewer of them are.
        for kind in [1, 0] {
            let mut sum: u64 = found.counts.iter().map(|counts| u64::from(counts[kind])).sum();
            while sum != wanted[kind] {
                let before = sum;
                let missing = before.abs_diff(wanted[kind]);
                // When those in step are all full, or all empty, anyone will do.
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

    /// Dies that rest, with nothing in their caches: where a drive is too small for anything else.
    fn at_rest(&self, wanted: [u64; 2]) -> Found {
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
        let mut found = Found { dies, counts, amplification: 1.0 };
        assert!(self.fit(&mut found, wanted), "a drive has room for what it holds");
        found
    }
}
