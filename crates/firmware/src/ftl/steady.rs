//! What long, uniformly random overwriting with units of 4 KiB leaves, in closed form: [`Base::Steady`].
//!
//! **Superblocks.** Under greedy collection a superblock of b units loses them one by one, the slower the fewer are
//! left, until it is the emptiest and is collected. So the number v of valid units in a closed superblock is spread with
//! density 1/v from the victim's (1 - x) b up to b: at the share a of its life it is b exp(-(1 + OP) a x), where
//! 1 - x = exp(-(1 + OP) x), and write amplification is 1/x. That gives each superblock a count; within it, which
//! positions are valid is a keyed permutation (position p is, if its image is below v); and which unit lies there is a
//! permutation of its rank among all that are valid. The way back searches the rank in the running sum of the counts,
//! from an index that leads there in a step or two.
//!
//! **Dies.** A host that writes all it can leaves a die no free superblock beyond the collector's reserve. The collector
//! empties victim after victim; each gains x of a superblock, and when the gains add up to one the host is given it and
//! fills it before the collector goes on, as its programs are more urgent. So a die is either filling the host's
//! superblock, or somewhere within one of the 1/x collections between two of those, for as long as [`Rhythm`] says. Dies
//! are not in step: their phases are spread evenly over that cycle. From a die's phase follow how far its open
//! superblocks are filled, how much of its victim is collected, and how many units it holds: it gains a superblock's
//! worth while it is filled, and loses them to the other dies until its next turn.
//!
//! **DRAM.** The write buffer is full, and the map's cache as well: see [`Inner::go_on_overwriting`]. That begins with the
//! first write: a drive that is only read from is at rest.
//!
//! What it is not: the state that other workloads leave. Larger blocks, skewed addresses or a host that writes less than
//! it could leave other counts, and more free superblocks.

use super::buffer::NOBODY;
use super::collect::ROUND_UNITS;
use super::config::FtlConfig;
use super::map::Entry;
use super::{Inner, State};
use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Delay, Notify};
use byteway_flash::{Geometry, Ppa, Timing};
use byteway_wire::content::UNIT_BYTES;

/// How long a die works on a superblock, in whose middle [`Base::Steady`](super::Base::Steady) finds it.
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
}

/// Programs alone take time.
impl Default for Rhythm {
    fn default() -> Self {
        Rhythm { wordline: 1, program: Delay::from_ms(1), read: Delay::ZERO, erase: Delay::ZERO }
    }
}

impl Rhythm {
    /// That of flash of this shape and these times.
    pub fn of(geometry: &Geometry, timing: &Timing) -> Rhythm {
        let mean = |times: &[Delay]| times.iter().copied().sum::<Delay>() / times.len().max(1) as u64;
        let pages = u64::from(geometry.pages);
        let bytes = u64::from(geometry.units_per_stripe()) * UNIT_BYTES as u64;
        let passage = timing.command + timing.channel.time_for(bytes);
        Rhythm {
            wordline: timing.stripes_per_wordline(),
            program: (mean(&timing.program) + passage) * pages,
            read: (mean(&timing.read) + passage) * pages,
            erase: timing.command + timing.erase,
        }
    }
}

/// x: the share of a victim that collecting it gains.
pub(super) fn reclaimed_share(op: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 1.0 - middle > libm::exp(-(1.0 + op) * middle) { low = middle } else { high = middle }
    }
    low
}

/// How many permutations of positions the superblocks share; each turns them by an amount of its own.
const POSITIONS: u64 = 16;

/// The least gain of a collection that a construction reckons with: below it a drive does nothing but collect.
const RECLAIMED_LEAST: f64 = 0.005;

/// How a die is found. Its superblocks are, in this order: closed ones, the oldest first; open ones; free ones.
#[derive(Clone, Copy, Debug)]
struct DieState {
    closed: u32,
    /// Stripes that are programmed of the open superblocks. One that is full is closed, one that is empty free.
    open: [u32; 2],
    /// The first open superblock is the host's; otherwise the host has none, and that is the collector's.
    is_host_open: bool,
    /// Stripes of the oldest superblock of which the collector has moved everything.
    collected: u32,
    /// By how much of a superblock the die holds more than the mean.
    surplus: f64,
}

pub(super) struct Steady {
    blocks_per_die: u32,
    stripe_units: u32,
    block_units: u32,
    pages: u32,
    /// Of each superblock, how many valid units lie in those before it; and the sum.
    before: Vec<u64>,
    /// Of each multiple of 2^`shift` ranks, the superblock in which it lies.
    index: Vec<u32>,
    shift: u32,
    units: Permutation,
    positions: Vec<Permutation>,
    key: u64,
    dies: Vec<DieState>,
    cache: Cached,
    gain: f64,
}

/// The cache of one bit a cell: full, as the host fills at once what is emptied. Its superblocks are the last ones of a
/// die, the oldest first.
#[derive(Clone, Copy)]
struct Cached {
    /// The number of the first one in a die.
    first: u32,
    stripes: u32,
}

impl Cached {
    fn new(geometry: &Geometry, config: &FtlConfig) -> Cached {
        Cached {
            first: geometry.blocks.saturating_sub(config.upkeep.slc_blocks),
            stripes: geometry.pages.div_ceil(config.rhythm.wordline),
        }
    }

    /// Valid units of each superblock of a die: the host overwrites each unit as soon as any other, and they are emptied
    /// in the order in which they were filled.
    fn counts(self, geometry: &Geometry, held: u64) -> impl Iterator<Item = u32> {
        let units = self.stripes * geometry.units_per_stripe();
        let written = f64::from(units) * f64::from(geometry.dies()) / held.max(1) as f64;
        let superblocks = geometry.blocks - self.first;
        (0..superblocks).rev().map(move |later| {
            let valid = libm::exp(-written * (f64::from(later) + 0.5));
            (f64::from(units) * valid + 0.5) as u32
        })
    }
}

/// What follows from shape and parameters alone.
struct Balance {
    /// Superblocks of a die that hold data, or could: all but spare ones and those of the cache.
    usable: u32,
    reserve: u32,
    /// The share of a victim that is gained.
    gain: f64,
    /// How fast a superblock loses its units: exp(-decay) of them are left at the end of its life.
    decay: f64,
    /// The share of time in which a die fills the host's superblock.
    filling: f64,
    /// The share of a victim that has been collected when the one before is erased: what did not fill a wordline of that
    /// one goes with the first round of the next.
    ahead: f64,
}

impl Balance {
    fn new(geometry: &Geometry, config: &FtlConfig, held: u64) -> Balance {
        let upkeep = &config.upkeep;
        let usable = geometry.blocks.saturating_sub(upkeep.spare_blocks.saturating_add(upkeep.slc_blocks));
        let reserve = config.gc_reserve_blocks;
        // Those that hold no data, half a superblock on average with what is free or open beyond.
        let full = (f64::from(usable) - f64::from(reserve) - 0.5).max(0.0);
        let cached: u32 = Cached::new(geometry, config).counts(geometry, held).sum();
        let held = held.saturating_sub(u64::from(cached) * u64::from(geometry.dies()));
        let pool = full * f64::from(geometry.units_per_block()) * f64::from(geometry.dies());
        let op = (pool / held.max(1) as f64 - 1.0).max(0.0);
        let gain = reclaimed_share(op).clamp(RECLAIMED_LEAST, 1.0);
        let rhythm = &config.rhythm;
        let ps = |delay: Delay| delay.ps() as f64;
        let fill = ps(rhythm.program).max(1.0);
        let collect = (1.0 - gain) * (fill + ps(rhythm.read)) + ps(rhythm.erase);
        // A collector begins the next victim to fill a wordline; where a wordline is a single unit, there is none to fill.
        let ahead = match config.rhythm.wordline * geometry.units_per_stripe() {
            1 => 0,
            wordline_units => ROUND_UNITS + wordline_units,
        };
        let valid = (1.0 - gain) * f64::from(geometry.units_per_block());
        Balance {
            usable,
            reserve,
            gain,
            decay: (1.0 + op) * gain,
            // What the host writes goes into the cache; from there it is moved.
            filling: if upkeep.slc_blocks > 0 { 0.0 } else { fill / (fill + collect / gain) },
            ahead: (f64::from(ahead) / valid.max(1.0)).min(0.5),
        }
    }

    /// A die at the share `phase` of its cycle, whose collector's superblock is at `offset` of what it can be then.
    fn at(&self, phase: f64, offset: f64, pages: u32, wordline: u32) -> DieState {
        let &Balance { usable, reserve, gain, filling, ahead, .. } = self;
        let kept = 1.0 - gain;
        // Programs end with a wordline.
        let stripes = |share: f64| {
            let lines = (share * f64::from(pages) / f64::from(wordline) + 0.5) as u32;
            (lines * wordline).min(pages)
        };
        let collected =
            |progress: f64| (((progress + ahead) * f64::from(pages)) as u32).min(pages.saturating_sub(1));
        let filled = |host: f64, collector: f64, surplus: f64| DieState {
            closed: usable.saturating_sub(reserve + 2),
            open: [stripes(host), stripes(collector)],
            is_host_open: true,
            collected: collected(0.0),
            surplus,
        };
        if phase < filling {
            let host = phase / filling;
            return filled(host, 1.0 - gain * offset, host - 0.5);
        }
        let since = (phase - filling) / (1.0 - filling);
        let surplus = 0.5 - since;
        // Of the 1/x collections between two superblocks of the host's, the last one takes place only if the others have
        // left less than it gains.
        let whole = libm::floor(1.0 / gain);
        let rest = 1.0 / gain - whole;
        let collections = since / gain;
        let (number, progress, span) = match collections < whole {
            true => (libm::floor(collections), collections - libm::floor(collections), 1.0),
            false => (whole, ((collections - whole) / rest.max(1e-9)).min(1.0), rest),
        };
        // How far the collector's superblock was filled when this collection began.
        let begun = (1.0 - gain * (number + offset * span)).clamp(0.0, 1.0);
        let (mut progress, mut level, mut free) = (progress, begun + progress * kept, reserve);
        if level >= 1.0 && reserve > 1 {
            (level, free) = (level - 1.0, reserve - 1);
        } else if level >= 1.0 {
            // It has opened the last free superblock, and all that it has put there still lies in the victim as well. A
            // base state has each unit once, so the die is set back to the moment before, or on to the end of this
            // collection: whichever is nearer, so that dies are as far on average.
            let full = (1.0 - begun) / kept;
            if progress < 0.5 * (full + 1.0) {
                (progress, level) = (full, 1.0);
            } else {
                (progress, level) = (0.0, (begun - gain).max(0.0));
            }
        }
        DieState {
            closed: usable.saturating_sub(free + 1),
            open: [stripes(level), 0],
            is_host_open: false,
            collected: collected(progress),
            surplus,
        }
    }

    /// One that rests: where a drive is too small for anything else.
    fn at_rest(&self) -> DieState {
        let closed = self.usable.saturating_sub(self.reserve + 2);
        DieState { closed, open: [0, 0], is_host_open: true, collected: 0, surplus: 0.0 }
    }
}

impl Steady {
    /// Of so many units.
    pub(super) fn new(geometry: &Geometry, config: &FtlConfig, held: u64) -> Self {
        let rng = Rng::new(config.seed);
        let mut phases = rng.stream("steady-phases");
        let mut keys = rng.stream("steady-places");
        let balance = Balance::new(geometry, config, held);
        let (block_units, stripe_units) = (geometry.units_per_block(), geometry.units_per_stripe());
        let dies = spread(&balance, geometry, config.rhythm.wordline, &mut phases);
        let mut cache = Cached::new(geometry, config);
        let (dies, counts) = match all_counts(&balance, geometry, held, &dies, Some(cache)) {
            Some(counts) => (dies, counts),
            None => {
                let dies = vec![balance.at_rest(); geometry.dies() as usize];
                // Nothing is in the cache, either.
                cache.stripes = 0;
                let counts = all_counts(&balance, geometry, held, &dies, None).unwrap_or_default();
                (dies, counts)
            }
        };
        let mut before = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0u64;
        for count in counts {
            before.push(sum);
            sum += u64::from(count);
        }
        before.push(sum);
        assert_eq!(sum, held, "the constructed state holds every unit once");
        let mean = (sum / u64::from(geometry.total_blocks())).max(1);
        let shift = mean.ilog2();
        let mut index = Vec::with_capacity((sum >> shift) as usize + 1);
        let mut block = 0;
        for rank in (0..sum).step_by(1 << shift) {
            while before[block as usize + 1] <= rank {
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
            units: Permutation::new(keys.next_u64(), held.max(1)).expect("units fit in 40 bits"),
            positions: (0..POSITIONS)
                .map(|_| {
                    Permutation::new(keys.next_u64(), u64::from(block_units)).expect("so do those of a block")
                })
                .collect(),
            key: keys.next_u64(),
            dies,
            cache,
            gain: balance.gain,
        }
    }

    fn die_of(&self, block: u32) -> (&DieState, u32) {
        (&self.dies[(block / self.blocks_per_die) as usize], block % self.blocks_per_die)
    }

    pub(super) fn is_one_bit(&self, block: u32) -> bool {
        block % self.blocks_per_die >= self.cache.first
    }

    pub(super) fn write_amplification(&self) -> f64 {
        1.0 / self.gain
    }

    pub(super) fn stripes(&self, block: u32) -> u32 {
        let (die, of_die) = self.die_of(block);
        if of_die >= self.cache.first {
            return self.cache.stripes;
        }
        match of_die.checked_sub(die.closed) {
            None => self.pages,
            Some(open @ 0..2) => die.open[open as usize],
            Some(_) => 0,
        }
    }

    /// Whether the collector fills a superblock that is open.
    pub(super) fn is_collectors(&self, block: u32) -> bool {
        let (die, of_die) = self.die_of(block);
        of_die == die.closed + u32::from(die.is_host_open)
    }

    pub(super) fn valid(&self, block: u32) -> u32 {
        (self.before[block as usize + 1] - self.before[block as usize]) as u32
    }

    /// Where the valid units of a superblock lie evenly, from the first of those places to their end: behind what the
    /// collector has emptied already, and in the cache.
    fn evenly(&self, block: u32) -> Option<(u32, u32)> {
        let (die, of_die) = self.die_of(block);
        if of_die >= self.cache.first {
            return Some((0, self.cache.stripes * self.stripe_units));
        }
        (of_die == 0 && die.collected > 0).then_some((die.collected * self.stripe_units, self.block_units))
    }

    pub(super) fn find(&self, lpa: u64) -> Ppa {
        let rank = self.units.inverse(lpa);
        let mut block = self.index[(rank >> self.shift) as usize];
        while self.before[block as usize + 1] <= rank {
            block += 1;
        }
        let image = (rank - self.before[block as usize]) as u32;
        let position = if let Some((first, end)) = self.evenly(block) {
            first + self.nth_of(block, end - first, image)
        } else if self.is_full(block) {
            image
        } else {
            let (turn, of) = self.turn(block);
            back(
                of.inverse(u64::from(back(image, turn.1, self.block_units))) as u32,
                turn.0,
                self.block_units,
            )
        };
        Ppa(u64::from(block) * u64::from(self.block_units) + u64::from(position))
    }

    pub(super) fn lpa(&self, ppa: Ppa) -> Option<u64> {
        let block_units = u64::from(self.block_units);
        let (block, position) = ((ppa.0 / block_units) as u32, (ppa.0 % block_units) as u32);
        let valid = self.valid(block);
        let image = if let Some((first, end)) = self.evenly(block) {
            let (offset, span) = (position.checked_sub(first)?, end - first);
            let image = (u64::from(offset) * u64::from(valid)).div_ceil(u64::from(span.max(1))) as u32;
            (image < valid && self.nth_of(block, span, image) == offset).then_some(image)?
        } else if self.is_full(block) {
            position
        } else {
            let (turn, of) = self.turn(block);
            on(of.forward(u64::from(on(position, turn.0, self.block_units))) as u32, turn.1, self.block_units)
        };
        let rank = self.before[block as usize] + u64::from(image);
        (image < valid).then(|| self.units.forward(rank))
    }

    /// Which of `span` places the valid unit of this number has, where they lie evenly.
    fn nth_of(&self, block: u32, span: u32, number: u32) -> u32 {
        (u64::from(number) * u64::from(span) / u64::from(self.valid(block).max(1))) as u32
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

/// The dies, spread evenly over their cycle in an order of no meaning, so that those of a channel are not neighbours.
fn spread(balance: &Balance, geometry: &Geometry, wordline: u32, phases: &mut Stream) -> Vec<DieState> {
    /// Multiples of it, modulo 1, are spread evenly for any number of them.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let dies = geometry.dies();
    let order = Permutation::new(phases.next_u64(), u64::from(dies)).expect("dies are few");
    let (begin, offset) = (phases.unit(), phases.unit());
    let die = |die: u32| {
        let rank = order.forward(u64::from(die)) as f64;
        let offset = offset + rank * GOLDEN;
        let phase = (rank + begin) / f64::from(dies);
        balance.at(phase, offset - libm::floor(offset), geometry.pages, wordline)
    };
    (0..dies).map(die).collect()
}

/// How many units are valid in each superblock of all dies; none if the dies can't be so, as where superblocks are few.
fn all_counts(
    balance: &Balance,
    geometry: &Geometry,
    held: u64,
    dies: &[DieState],
    cache: Option<Cached>,
) -> Option<Vec<u32>> {
    let (block_units, stripe_units) = (geometry.units_per_block(), geometry.units_per_stripe());
    let count = dies.len() as f64;
    let mean = dies.iter().map(|die| die.surplus).sum::<f64>() / count;
    let cached: Vec<u32> = cache.map(|cache| cache.counts(geometry, held).collect()).unwrap_or_default();
    let mut counts = Vec::with_capacity(geometry.total_blocks() as usize);
    let mut given = 0i64;
    for (number, die) in dies.iter().enumerate() {
        // Rounded in the sum, so that it is exact.
        let share = held as i128 * (number as i128 + 1) / dies.len() as i128;
        let before = held as i128 * number as i128 / dies.len() as i128;
        let surplus = ((die.surplus - mean) * f64::from(block_units)) as i64;
        let is_last = number + 1 == dies.len();
        let units = if is_last { held as i64 - given } else { (share - before) as i64 + surplus };
        given += units;
        let open = die.open.map(|stripes| stripes * stripe_units);
        let elsewhere: i64 = open.iter().chain(&cached).map(|units| i64::from(*units)).sum();
        let mut left = u64::try_from(units - elsewhere).ok()?;
        let mut closed = die.closed;
        if die.collected > 0 {
            let uncollected = (geometry.pages - die.collected) * stripe_units;
            let victim = ((1.0 - balance.gain) * f64::from(uncollected) + 0.5) as u32;
            counts.push(victim.min(uncollected));
            left = left.checked_sub(u64::from(victim))?;
            closed = closed.checked_sub(1)?;
        }
        if left > u64::from(closed) * u64::from(block_units) {
            return None;
        }
        counts.extend(valid_counts(left, closed, block_units, balance.decay));
        counts.extend(open);
        let free = geometry.blocks.checked_sub(die.closed + 2 + cached.len() as u32)?;
        counts.extend(std::iter::repeat_n(0, free as usize));
        counts.extend(&cached);
    }
    Some(counts)
}

/// How many units are valid in each closed superblock of a die, the oldest first, so that together they are `wanted`.
fn valid_counts(wanted: u64, closed: u32, block_units: u32, decay: f64) -> Vec<u32> {
    let share = |age: f64| libm::exp(-decay * age);
    let mut counts: Vec<u32> = (0..closed)
        .map(|i| 1.0 - (f64::from(i) + 0.5) / f64::from(closed))
        .map(|age| ((share(age) * f64::from(block_units) + 0.5) as u32).min(block_units))
        .collect();
    // Rounding, and the little by which a die differs from the mean: spread evenly.
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

impl Inner {
    /// A drive that was made in the steady state is written to for the first time: it is in the middle of being
    /// overwritten. The write buffer is full of units that have just been written, with what they hold already, and of
    /// translation pages that had to leave the map's cache; and all collectors are at work.
    ///
    /// Units that are not where the base state has them, as they were deallocated, are left out.
    #[cold]
    pub(super) fn go_on_overwriting(&self) {
        let free = self.credits.available();
        if !self.credits.try_take(free) {
            return;
        }
        let mut stream = Rng::new(self.config.seed).stream("steady-buffer");
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let mut taken = 0;
        let share = self.buffered_pages(free);
        let count = u64::from(state.pages.count());
        let mut pages = Vec::new();
        if share > 0.0 {
            let order = Permutation::new(stream.next_u64(), count).expect("pages are fewer than units");
            pages.extend((0..count.min(free as u64)).rev().map(|rank| order.forward(rank) as u32));
        }
        // Twice as many draws as units: on a small drive some are drawn more than once.
        for _ in 0..2 * free {
            if taken == free {
                break;
            }
            if share > 0.0
                && stream.unit() < share
                && let Some(page) = pages.pop()
            {
                taken += usize::from(state.buffer_page(page, self.config.keep));
                continue;
            }
            let lpa = stream.below(self.config.user_units);
            if state.map.get(lpa) == Entry::BASE {
                let content = self.base.content(lpa);
                taken += usize::from(state.buffer_unit(lpa, content, NOBODY).is_some());
            }
        }
        self.fill_map_cache(state, &mut stream);
        drop(guard);
        self.give_back((free - taken) as u32);
        self.collectors.iter().for_each(Notify::notify_one);
        self.dispatch();
    }

    /// The share of translation pages in a write buffer of so many units. With each unit that is written a page leaves the
    /// cache, one of p, with probability r, and is buffered unless it waits there already. So in the time t, in units
    /// written, that it takes to go through the buffer, p / (t + p / r) pages enter it for each unit, and t times one more
    /// than that is what the buffer holds.
    fn buffered_pages(&self, slots: usize) -> f64 {
        let count = self.space.map.1 as f64;
        let held = f64::from(self.config.map_cache_pages.unwrap_or(u32::MAX)).min(count);
        let leaves = 1.0 - held / count;
        if leaves <= 0.0 {
            return 0.0;
        }
        let pages = |time: f64| count / (time + count / leaves);
        let (mut low, mut high) = (0.0, slots as f64);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if middle * (1.0 + pages(middle)) < slots as f64 { low = middle } else { high = middle }
        }
        pages(low) / (1.0 + pages(low))
    }

    /// The map's cache holds as many pages as it can. The longer ago one was used, the likelier it has changed since. As
    /// many as are put up with have changed while they were away.
    fn fill_map_cache(&self, state: &mut State, stream: &mut Stream) {
        let Some(frames) = self.config.map_cache_pages.filter(|_| self.cache.is_some()) else { return };
        let count = state.pages.count();
        let held = frames.min(count);
        let order =
            Permutation::new(stream.next_u64(), u64::from(count)).expect("pages are fewer than units");
        let page = |rank: u32| order.forward(u64::from(rank)) as u32;
        let missing = (1.0 - f64::from(held) / f64::from(count)).max(1.0 / f64::from(count));
        let changes = self.base.write_amplification() / (missing * f64::from(count));
        for rank in 0..held {
            let page = page(rank);
            if state.frames.find(page).is_some() {
                continue;
            }
            let Some(frame) = state.frames.begin(page) else { break };
            state.frames.loaded(frame);
            state.pages.hold(page, true);
            let unchanged = libm::exp(-changes * f64::from(held - rank));
            if stream.unit() >= unchanged {
                state.pages.changed(state.pages.units(page).start);
            }
        }
        for rank in held..count.min(held.saturating_add(frames)) {
            state.pages.changed(state.pages.units(page(rank)).start);
        }
    }
}
