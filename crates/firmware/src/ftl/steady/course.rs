//! Simulation of a die under overwrites, in fractions of superblocks, until it repeats itself.
//!
//! A die does one of four things at a time ([`DieActivity`]), each for the time that [`SteadyTiming`] gives.
//! Free superblocks, and the fill of the collector's open superblock, decide what comes next, as in `upkeep`
//! and `collect`:
//!
//! - the host *takes* a superblock as soon as one is free beyond the reserve, and fills it;
//! - otherwise the collector *collects* the emptiest superblock: it moves the valid data and erases it;
//! - with a one-bit cache: after [`TURN`] victims the next superblock that is free beyond the reserve is kept
//!   for a *fold*, which moves the valid data of the cache's oldest superblock to the collector's; the check
//!   for it takes place before the last victim is erased, so the superblock that this erase frees goes to the
//!   host. Another fold follows at once while a superblock is free and the collector is not short;
//! - the host *fills* the cache's superblock again.
//!
//! Meanwhile the host overwrites: each of its units with equal probability, and each translation page
//! likewise, at the mean rate at which the die is written.
//!
//! A host that writes less than the die could take ([`Pace`]) always has a superblock open, which it fills at
//! its own rate. The collector *collects* beside it while no more than `start` superblocks are free, and then
//! *rests* until the host takes the next one.

use crate::ftl::collect::collecting::TURN;
use crate::ftl::config::SteadyTiming;
use crate::ftl::steady::greedy::reclaimed_share;
use byteway_clock::random::{Normal, Stream};
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Smallest gain of a collection that is considered: below it a drive does nothing but garbage collection.
const RECLAIMED_LEAST: f64 = 0.005;

/// Times that all units of a kind are overwritten before weights are stated anew: far from where they are no numbers any more.
const EPOCH: f64 = 100.0;

/// Parameters of a die; capacities are in superblocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Superblocks for data: all except spares and those of the cache.
    pub(super) usable: u32,
    /// Free superblocks reserved for garbage collection.
    pub(super) reserve: u32,
    /// Garbage collection starts when no more superblocks than this are free.
    pub(super) start: u32,
    /// Superblocks of the cache.
    pub(super) cache: u32,
    /// Capacity of one of those.
    pub(super) cache_size: f64,
    /// Data held: host units, and translation pages.
    pub(super) held: Part,
    /// Translation pages programmed for each host unit.
    pub(super) pages: f64,
    pub(super) rhythm: SteadyTiming,
    /// Units of a superblock.
    pub(super) units: f64,
    /// The host's rate, if it writes less than the die could take.
    pub(super) pace: Option<Pace>,
}

/// Superblocks of data that wait for a free one, at most, of a host that does not saturate a die.
const WAITING_MOST: f64 = 2.0;

/// The rate of a host that does not saturate a die.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time in which the host fills a superblock.
    pub(super) fill_ps: f64,
    /// Share of its time for which the die works for the host.
    pub(super) busy: f64,
    /// Time of garbage collection, relative to what flash alone takes.
    pub(super) collection: f64,
}

impl Pace {
    /// A share of this pace.
    pub(super) fn times(self, share: f64) -> Pace {
        Pace { fill_ps: self.fill_ps / share, busy: self.busy * share, ..self }
    }
}

/// Amounts of host units and of translation pages, in superblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part(pub(super) [f64; 2]);

impl Part {
    pub(super) fn sum(self) -> f64 {
        self.0[0] + self.0[1]
    }

    pub(super) fn times(self, share: f64) -> Part {
        Part(self.0.map(|part| part * share))
    }

    fn plus(self, other: Part) -> Part {
        Part([self.0[0] + other.0[0], self.0[1] + other.0[1]])
    }
}

/// Data written together, whose units become stale over time.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    valid: Part,
    /// Number of times that all units of each kind had been overwritten by then.
    at: [f64; 2],
}

/// A closed superblock.
#[derive(Clone, Copy, Debug)]
struct Closed {
    /// How many were closed before it.
    number: u64,
    written: Written,
    /// Valid units of each kind, as if they had been written at [`Course::epoch`]; only with translation pages.
    weights: [f64; 2],
}

/// Activity of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DieActivity {
    Fold,
    /// Whether another fold has begun.
    Fill(bool),
    /// Number of victims since the last fold, or, without a cache, since the host took a superblock.
    Collect(u32),
    /// Number of victims; whether a fold has begun.
    Take(u32, bool),
    /// Enough is free: the host fills its superblock, and the collector waits.
    Rest,
}

/// A die at the start of an activity.
#[derive(Clone, Debug)]
pub(super) struct Course {
    shape: Shape,
    /// Closed superblocks of the host and of the collector, oldest first.
    closed: [VecDeque<Closed>; 2],
    closings: u64,
    /// The collector's open superblock: its data, and its fill.
    open: Written,
    level: f64,
    /// The same of the host's, at a pace.
    host: (Written, f64),
    /// Size of the data that wait for a superblock of the host.
    waiting: f64,
    free: u32,
    /// The cache's superblocks, oldest first.
    cache: VecDeque<Written>,
    doing: DieActivity,
    /// Number of times that all units of each kind have been overwritten, and the remaining fraction.
    overwritten: [f64; 2],
    left: [f64; 2],
    /// What `overwritten` was lately, so that weights stay numbers.
    epoch: [f64; 2],
    /// Exponentially weighted sums: host data written, data programmed, and time.
    written: f64,
    programmed: f64,
    ps: f64,
    /// Excess of the die's data over the target, weighted likewise.
    surplus: f64,
    chance: Stream,
    normal: Normal,
}

/// A die in the middle of an activity. Amounts are in superblocks.
#[derive(Clone, Debug)]
pub(super) struct DieSnapshot {
    /// The victim: the data left to move, and the fraction already scanned.
    pub(super) victim: Option<(Part, f64)>,
    /// The other closed superblocks, oldest first.
    pub(super) closed: Vec<Part>,
    /// Fill and data of the host's open superblock, if there is one, and of the collector's.
    pub(super) host: Option<(f64, Part)>,
    pub(super) collector: (f64, Part),
    /// The same of the cache's superblocks: start and end of the valid range, and the data.
    pub(super) cache: Vec<(f64, f64, Part)>,
    pub(super) doing: DieActivity,
}

impl Course {
    /// A first estimate: superblocks as greedy garbage collection leaves them without a cache. None if the
    /// die has too few superblocks, or holds too much.
    pub(super) fn new(shape: Shape, chance: Stream) -> Option<Course> {
        // At a pace the host has an open superblock, too.
        let (free, open) = if shape.pace.is_some() { (shape.start + 1, 2) } else { (shape.reserve, 1) };
        let count = shape.usable.checked_sub(free + open)?;
        let held = shape.held.sum().max(1e-9);
        let kinds = shape.held.times(1.0 / held);
        // As if as much data bypassed the cache as went through it.
        let in_cache = |later: u32| {
            shape.cache_size * libm::exp(-2.0 * shape.cache_size * (f64::from(later) + 0.5) / held)
        };
        let cached: f64 = (0..shape.cache).map(in_cache).sum();
        let op = (f64::from(count) / (held - cached).max(0.01 * held) - 1.0).max(0.0);
        let gain = reclaimed_share(op).clamp(RECLAIMED_LEAST, 1.0);
        let mut course = Course {
            shape,
            closed: [VecDeque::new(), VecDeque::new()],
            closings: u64::from(count),
            open: Written::default(),
            level: 0.0,
            host: (Written::default(), 0.0),
            waiting: 0.0,
            free,
            cache: VecDeque::new(),
            doing: DieActivity::Collect(0),
            overwritten: [0.0; 2],
            left: [0.0; 2],
            epoch: [0.0; 2],
            written: 0.0,
            programmed: 0.0,
            ps: 0.0,
            surplus: 0.0,
            chance,
            normal: Normal::new(0.0, 1.0).ok()?,
        };
        for number in 0..count {
            let age = 1.0 - (f64::from(number) + 0.5) / f64::from(count);
            let valid = kinds.times(libm::exp(-(1.0 + op) * gain * age));
            let by_host = u64::from(number) as f64 * gain;
            let stream = usize::from(libm::floor(by_host + gain) <= libm::floor(by_host));
            let written = Written { valid, at: [0.0; 2] };
            course.closed[stream].push_back(Closed { number: u64::from(number), written, weights: valid.0 });
        }
        let of_cache = (0..shape.cache).rev().map(in_cache);
        course.cache.extend(of_cache.map(|valid| Written { valid: kinds.times(valid), at: [0.0; 2] }));
        let all = course.closed.iter().flatten().map(|closed| &closed.written).chain(&course.cache);
        course.left = all.fold(Part::default(), |sum, written| sum.plus(written.valid)).0;
        let collections_ps = course.collection_ps(1.0 - gain) / gain;
        course.written = 1.0 / (1.0 + shape.pages);
        course.ps = (collections_ps + shape.rhythm.program.ps() as f64).max(1.0);
        if let Some(pace) = shape.pace {
            course.ps = pace.fill_ps;
        }
        course.doing = course.next(0);
        Some(course)
    }

    /// Simulates the next activity, and returns its time in picoseconds. None if the die is stuck.
    pub(super) fn step(&mut self) -> Option<f64> {
        let rhythm = self.shape.rhythm;
        let mut moved = Part::default();
        let (ps, host) = match self.doing {
            DieActivity::Collect(_) => {
                let (stream, at) = self.victim()?;
                let victim = self.closed[stream].remove(at)?;
                moved = self.found(self.now(victim.written), 1.0);
                (self.collection_ps(moved.sum()), 0.0)
            }
            DieActivity::Fold => {
                let oldest = self.cache.pop_front()?;
                moved = self.found(self.now(oldest), self.shape.cache_size);
                (self.fold_ps(moved.sum()), 0.0)
            }
            DieActivity::Fill(_) => (rhythm.cache_program.ps() as f64, self.shape.cache_size),
            DieActivity::Take(..) => (rhythm.program.ps() as f64, 1.0),
            DieActivity::Rest => {
                let left = (1.0 - self.host.1 - self.waiting).max(0.0);
                (left * self.shape.pace?.fill_ps, left)
            }
        };
        let (ps, host) = match (self.doing, self.shape.pace) {
            (DieActivity::Collect(_), Some(pace)) => {
                let ps = ps * pace.collection / (1.0 - pace.busy).max(0.001);
                (ps, ps / pace.fill_ps)
            }
            _ => (ps, host),
        };
        // Data moved or written meanwhile are overwritten for half of the time, on average.
        let at = self.overwritten;
        self.pass(0.5 * ps);
        let still = self.now(Written { valid: moved, at });
        self.doing = match self.doing {
            DieActivity::Collect(collections) => {
                // At a pace the host's waiting data tell whether this suffices.
                if self.shape.pace.is_none() && moved.sum() > 1.0 - RECLAIMED_LEAST {
                    return None;
                }
                self.put(still);
                self.pass(0.5 * ps);
                self.free += 1;
                if self.shape.pace.is_some() && !self.fill(host) {
                    return None;
                }
                self.next(collections + 1)
            }
            DieActivity::Rest => {
                self.pass(0.5 * ps);
                if !self.fill(host) {
                    return None;
                }
                self.next(0)
            }
            DieActivity::Fold => {
                self.put(still);
                self.pass(0.5 * ps);
                // The fold's own superblock is not erased yet, and counts as a victim.
                let is_short = self.free < self.shape.start;
                DieActivity::Fill(self.free > self.shape.reserve && !is_short)
            }
            DieActivity::Fill(folds) => {
                let fresh = self.write(self.shape.cache_size);
                self.cache.push_back(fresh);
                self.pass(0.5 * ps);
                if folds { DieActivity::Fold } else { self.next(0) }
            }
            DieActivity::Take(collections, folds) => {
                self.free -= 1;
                let fresh = self.write(1.0);
                self.close(0, fresh);
                self.pass(0.5 * ps);
                match folds {
                    true => DieActivity::Fold,
                    false if self.shape.cache > 0 => self.next(collections),
                    false => self.next(0),
                }
            }
        };
        // Averaged over several lives of the superblocks, since the host takes and writes whole superblocks.
        // The die's data follow the overwrite rate slowly, and are steered to the target.
        let life = f64::from(self.shape.usable);
        let forget = |of_it: f64, latest: f64, steps: f64| of_it + (latest - of_it) / steps;
        self.written = forget(self.written, host / (1.0 + self.shape.pages), 4.0 * life);
        self.programmed = forget(self.programmed, host + moved.sum(), 4.0 * life);
        self.ps = forget(self.ps, ps, 4.0 * life);
        let [units, pages] = self.left;
        let surplus = (units + pages) / self.shape.held.sum().max(1e-9) - 1.0;
        self.surplus = forget(self.surplus, surplus, life);
        Some(ps)
    }

    /// Write amplification factor.
    pub(super) fn amplification(&self) -> f64 {
        self.programmed / self.written.max(1e-9)
    }

    /// The next activity.
    pub(super) fn doing(&self) -> DieActivity {
        self.doing
    }

    /// The die after the fraction `progress` of its activity, or slightly earlier or later if flash cannot be
    /// in that state.
    pub(super) fn at(&self, progress: f64) -> Option<DieSnapshot> {
        let mut course = self.clone();
        let ps = course.clone().step()?;
        course.pass(progress * ps);
        let (mut victim, mut host) = (None, None);
        let mut filled = 1.0;
        let mut folded = 0.0;
        match course.doing {
            DieActivity::Collect(_) => {
                let (stream, at) = course.victim()?;
                let valid = course.now(course.closed[stream].get(at)?.written);
                let kept = valid.sum();
                let mut progress = progress;
                if course.level + progress * kept >= 1.0 && course.free == 1 {
                    // The collector has opened the last free superblock, and everything that it put there
                    // still lies in the victim as well. A base state holds each unit once, so the die is set
                    // back to the moment before, or forward to the end of this victim, whichever is nearer:
                    // the average stays right.
                    let full = (1.0 - course.level) / kept;
                    if progress >= 0.5 * (full + 1.0) {
                        let mut later = self.clone();
                        later.step()?;
                        return later.at(0.0);
                    }
                    progress = full - 1e-9;
                }
                course.closed[stream].remove(at);
                course.put(valid.times(progress));
                victim = Some((valid.times(1.0 - progress), progress));
            }
            DieActivity::Fold => {
                let valid = course.now(*course.cache.front()?);
                course.put(valid.times(progress));
                let left = Written { valid: valid.times(1.0 - progress), at: course.overwritten };
                *course.cache.front_mut()? = left;
                folded = progress;
            }
            DieActivity::Fill(_) => {
                let fresh = course.fresh(progress * course.shape.cache_size);
                course.cache.push_back(fresh);
                filled = progress;
            }
            DieActivity::Take(..) => {
                course.free -= 1;
                host = Some((progress, course.now(course.fresh(progress))));
            }
            DieActivity::Rest => {}
        }
        if let Some(pace) = course.shape.pace {
            if !course.fill(progress * ps / pace.fill_ps) {
                return None;
            }
            let (written, level) = course.host;
            host = Some((level, course.now(written)));
        }
        let mut closed: Vec<Closed> = course.closed.iter().flatten().copied().collect();
        closed.sort_unstable_by_key(|closed| closed.number);
        let youngest = course.cache.len().saturating_sub(1);
        let of_cache = |(number, written): (usize, &Written)| {
            let first = if number == 0 { folded } else { 0.0 };
            let end = if number == youngest { filled } else { 1.0 };
            (first, end, course.now(*written))
        };
        Some(DieSnapshot {
            victim,
            closed: closed.into_iter().map(|closed| course.now(closed.written)).collect(),
            host,
            collector: (course.level, course.now(course.open)),
            cache: course.cache.iter().enumerate().map(of_cache).collect(),
            doing: course.doing,
        })
    }

    /// The activity after `collections` victims.
    fn next(&self, collections: u32) -> DieActivity {
        let Shape { reserve, start, cache, pace, .. } = self.shape;
        if pace.is_some() {
            return if self.free > start { DieActivity::Rest } else { DieActivity::Collect(0) };
        }
        let is_kept = cache > 0 && collections >= TURN;
        match self.free.cmp(&(reserve + 1)) {
            // The host gets the superblock freed by the last victim. One more was free before.
            Ordering::Greater if is_kept => DieActivity::Take(collections, true),
            Ordering::Equal | Ordering::Greater if !is_kept => DieActivity::Take(collections, false),
            _ => DieActivity::Collect(collections),
        }
    }

    /// Advances time, with the host's overwrites.
    fn pass(&mut self, ps: f64) {
        let Shape { held: Part([units, pages]), pages: share, .. } = self.shape;
        let written = ps * self.written / self.ps.max(1.0) * (1.0 + 4.0 * self.surplus).max(0.1);
        let times = [written / units.max(1e-9), written * share / pages.max(1e-9)];
        for (kind, times) in times.into_iter().enumerate() {
            self.overwritten[kind] += times;
            self.left[kind] *= libm::exp(-times);
            let since = self.overwritten[kind] - self.epoch[kind];
            if since > EPOCH && share > 0.0 {
                let still = libm::exp(-since);
                self.closed.iter_mut().flatten().for_each(|closed| closed.weights[kind] *= still);
                self.epoch[kind] = self.overwritten[kind];
            }
        }
    }

    /// Data of size `size` that the host has just written.
    fn fresh(&self, size: f64) -> Written {
        let units = size / (1.0 + self.shape.pages);
        Written { valid: Part([units, size - units]), at: self.overwritten }
    }

    /// The host writes data of size `size` at its pace, to its open superblock and, once that is full, to
    /// another, for which it may have to wait for a while. False if more and more waits: it saturates the die.
    fn fill(&mut self, size: f64) -> bool {
        let (mut left, reserve) = (size + std::mem::take(&mut self.waiting), self.shape.reserve);
        while left > 0.0 {
            let (written, level) = self.host;
            let part = left.min(1.0 - level);
            let fresh = self.write(part);
            let open = Written { valid: self.now(written).plus(fresh.valid), at: self.overwritten };
            self.host = (open, level + part);
            left -= part;
            if level + part < 1.0 - 1e-12 {
                break;
            }
            if self.free <= reserve {
                self.waiting = left;
                break;
            }
            self.close(0, open);
            self.host = (Written::default(), 0.0);
            self.free -= 1;
        }
        self.waiting <= WAITING_MOST
    }

    /// The host writes data of size `size`.
    fn write(&mut self, size: f64) -> Written {
        let fresh = self.fresh(size);
        self.left = Part(self.left).plus(fresh.valid).0;
        fresh
    }

    /// The valid part found in data of size `size`: it varies about the expectation, because each unit is
    /// overwritten independently. Without that, a die may repeat a few steps forever that no real one would.
    fn found(&mut self, expected: Part, size: f64) -> Part {
        let share = (expected.sum() / size).clamp(0.0, 1.0);
        let deviation = libm::sqrt(share * (1.0 - share) / (size * self.shape.units));
        let of_expected = 1.0 + deviation * self.normal.sample(&mut self.chance) / share.max(1e-9);
        let found = expected.times(of_expected.clamp(0.0, 1.0 / share.max(1e-9)));
        self.left = Part(self.left).plus(found).plus(expected.times(-1.0)).0;
        found
    }

    fn now(&self, written: Written) -> Part {
        let left = |kind: usize| written.valid.0[kind] * libm::exp(written.at[kind] - self.overwritten[kind]);
        Part([left(0), left(1)])
    }

    /// The emptiest closed superblock: its stream, and its place there. In each stream it is the oldest one, unless there are translation
    /// pages: these are overwritten so much sooner than other units that what they have left is emptier than what is older.
    fn victim(&self) -> Option<(usize, usize)> {
        let fronts = || (0..2).filter(|stream| !self.closed[*stream].is_empty()).map(|stream| (stream, 0));
        if self.shape.pages == 0.0 {
            let valid = |stream: usize| {
                self.closed[stream].front().map_or(1.0, |closed| self.now(closed.written).sum())
            };
            return fronts().min_by(|(a, _), (b, _)| valid(*a).total_cmp(&valid(*b)));
        }
        let left = [0, 1].map(|kind: usize| libm::exp(self.epoch[kind] - self.overwritten[kind]));
        let valid = |closed: &Closed| closed.weights[0] * left[0] + closed.weights[1] * left[1];
        let all = (0..2).flat_map(|stream| {
            self.closed[stream].iter().enumerate().map(move |(at, closed)| (stream, at, closed))
        });
        let emptiest = all.min_by(|(.., a), (.., b)| valid(a).total_cmp(&valid(b)));
        emptiest.map(|(stream, at, _)| (stream, at))
    }

    fn close(&mut self, stream: usize, written: Written) {
        let weight = |kind: usize| written.valid.0[kind] * libm::exp(written.at[kind] - self.epoch[kind]);
        let weights = if self.shape.pages == 0.0 { [0.0; 2] } else { [weight(0), weight(1)] };
        self.closed[stream].push_back(Closed { number: self.closings, written, weights });
        self.closings += 1;
    }

    /// Moves data to the collector's open superblock, and opens another one if necessary.
    fn put(&mut self, valid: Part) {
        let size = valid.sum();
        let fits = if self.level + size >= 1.0 { (1.0 - self.level) / size } else { 1.0 };
        let filled = self.now(self.open).plus(valid.times(fits));
        self.open = Written { valid: filled, at: self.overwritten };
        self.level += size;
        if self.level >= 1.0 {
            let full = self.open;
            self.close(1, full);
            self.open.valid = valid.times(1.0 - fits);
            self.level -= 1.0;
            self.free = self.free.saturating_sub(1);
        }
    }

    /// Time to collect a victim with the valid fraction `valid`.
    fn collection_ps(&self, valid: f64) -> f64 {
        let SteadyTiming { program, read, erase, .. } = self.shape.rhythm;
        valid * (program.ps() as f64 + read.ps() as f64) + erase.ps() as f64
    }

    /// Time to fold a superblock of the cache with `valid` data.
    fn fold_ps(&self, valid: f64) -> f64 {
        let SteadyTiming { program, cache_read, cache_erase, .. } = self.shape.rhythm;
        let reads = valid / self.shape.cache_size * cache_read.ps() as f64;
        valid * program.ps() as f64 + reads + cache_erase.ps() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Delay;
    use byteway_clock::random::Rng;

    /// Superblocks of 768 stripes, with the times of tlc-generic.
    fn shape(usable: u32, held: Part) -> Shape {
        let us = Delay::from_us;
        let rhythm = SteadyTiming {
            wordline: 3,
            program: us(2_953 * 768),
            read: us(107 * 768),
            erase: us(3000),
            cache_program: us(227 * 256),
            cache_read: us(52 * 256),
            cache_erase: us(3000),
            map_pages_ppm: 0,
        };
        let (reserve, start, units) = (1, 2, 6144.0);
        let cache_size = 1.0 / 3.0;
        Shape { usable, reserve, start, cache: 0, cache_size, held, pages: 0.0, rhythm, units, pace: None }
    }

    fn settled(shape: Shape) -> Course {
        let mut course = Course::new(shape, Rng::new(1).stream("course")).unwrap();
        (0..48 * shape.usable).for_each(|_| assert!(course.step().is_some()));
        course
    }

    fn holds(moment: &DieSnapshot) -> f64 {
        let closed: f64 = moment.closed.iter().map(|part| part.sum()).sum();
        let victim = moment.victim.map_or(0.0, |(left, _)| left.sum());
        let host = moment.host.map_or(0.0, |(_, part)| part.sum());
        let cache: f64 = moment.cache.iter().map(|(_, _, part)| part.sum()).sum();
        closed + victim + host + moment.collector.1.sum() + cache
    }

    /// Drives of each kind: plain, with translation pages in flash, and with a small and a large cache.
    fn kinds() -> [Shape; 4] {
        let plain = shape(130, Part([118.0, 0.0]));
        let cached = |usable, held| Shape { cache: 28, ..shape(usable, Part([held, 0.0])) };
        [
            plain,
            Shape { held: Part([117.9, 0.12]), pages: 0.25, ..plain },
            cached(26, 21.3),
            Shape { reserve: 4, start: 15, ..cached(1466, 1365.3) },
        ]
    }

    // Where superblocks are many, there is a closed form.
    #[test]
    fn a_drive_without_a_cache_amplifies_as_the_formula_says() {
        for op in [0.07, 0.28, 1.0] {
            let full = 2000.0 - 1.5;
            let course = settled(shape(2000, Part([full / (1.0 + op), 0.0])));
            let expected = 1.0 / reclaimed_share(op);
            let found = course.amplification();
            assert!((found / expected - 1.0).abs() < 0.015, "OP {op}: {found}, not {expected}");
        }
    }

    // A die that holds too much has less free space than a real one, and a drifting simulation never repeats
    // itself.
    #[test]
    fn a_die_holds_what_it_should() {
        for shape in kinds() {
            let mut course = settled(shape);
            let (mut all_ps, mut all) = (0.0, 0.0);
            for _ in 0..2000 {
                let held = holds(&course.at(0.5).unwrap());
                let ps = course.step().unwrap();
                (all_ps, all) = (all_ps + ps, all + ps * held);
            }
            let share = all / all_ps / shape.held.sum();
            assert!((share - 1.0).abs() < 0.005, "{share} of what it should hold: {shape:?}");
        }
    }

    // No superblock may get lost: each is closed, open or free, whatever the host does.
    #[test]
    fn superblocks_stay_as_many_as_they_are() {
        for shape in kinds() {
            let mut course = settled(shape);
            for step in 0..1000 {
                let moment = course.at(f64::from(step % 7) / 7.0).unwrap();
                let used = moment.closed.len() + usize::from(moment.victim.is_some());
                let open = 1 + usize::from(moment.host.is_some());
                let free = shape.usable as usize - used - open;
                assert!((0..=shape.reserve as usize + 1).contains(&free), "{free} free: {moment:?}");
                assert_eq!(moment.cache.len(), shape.cache as usize);
                course.step().unwrap();
            }
        }
    }

    // A slower host leaves more superblocks free, and so less spare; whatever its rate, a superblock of it takes a superblock's worth
    // of gains. A host that is too fast has no course.
    #[test]
    fn at_a_pace_as_much_is_free_as_collection_keeps_free() {
        let plain = Shape { start: 6, ..shape(130, Part([110.0, 0.0])) };
        let (full, free) = (settled(plain).amplification(), f64::from(plain.start - plain.reserve));
        let collecting = full * plain.rhythm.program.ps() as f64;
        for (times, busy) in [(30.0, 0.01), (3.0, 0.2), (2.0, 0.3)] {
            let mut course = settled(Shape {
                pace: Some(Pace { fill_ps: times * collecting, busy, collection: 1.0 }),
                ..plain
            });
            let op = (130.0 - 2.0 - free - 0.5) / 110.0 - 1.0;
            let expected = 1.0 / reclaimed_share(op);
            let found = course.amplification();
            assert!((found / expected - 1.0).abs() < 0.08, "{times}: {found}, not {expected}");
            for step in 0..1000 {
                let moment = course.at(f64::from(step % 7) / 7.0).unwrap();
                let used = moment.closed.len() + usize::from(moment.victim.is_some());
                assert!(moment.host.is_some(), "the host always has a superblock");
                let free = 130 - used as u32 - 2;
                assert!((plain.start - 2..=plain.start + 1).contains(&free), "{free} free: {moment:?}");
                course.step().unwrap();
            }
        }
        let pace = Some(Pace { fill_ps: 0.8 * collecting, busy: 0.2, collection: 1.0 });
        let mut hurried = Course::new(Shape { pace, ..plain }, Rng::new(1).stream("course")).unwrap();
        assert!((0..4000).any(|_| hurried.step().is_none()));
    }

    // A younger superblock whose pages are gone is emptier than older ones; weights that drift would take another.
    #[test]
    fn the_emptiest_superblock_is_taken_whatever_its_age() {
        let shape = Shape { held: Part([115.0, 0.2]), pages: 0.7, ..kinds()[0] };
        let mut course = settled(shape);
        let mut younger = 0;
        for _ in 0..4000 {
            if let DieActivity::Collect(_) = course.doing() {
                let (stream, at) = course.victim().unwrap();
                let all = course.closed.iter().flatten().map(|closed| course.now(closed.written).sum());
                let (least, found) =
                    (all.fold(1.0, f64::min), course.now(course.closed[stream][at].written).sum());
                assert!((found - least).abs() < 1e-9, "{found}, where one has {least}");
                younger += u32::from(at > 0);
            }
            course.step().unwrap();
        }
        assert!(younger > 100 && course.epoch[1] > 0.0, "{younger}");
    }

    // Translation pages are overwritten more often than other units, so old superblocks hold few of them.
    #[test]
    fn pages_leave_superblocks_before_other_units() {
        // Each is written again after 40 superblocks of the host's; other units after 106.
        let shape = Shape { held: Part([106.0, 12.0]), pages: 0.3, ..kinds()[0] };
        let moment = settled(shape).at(0.5).unwrap();
        let share = |part: &Part| part.0[1] / part.sum();
        let (oldest, mean) = (share(&moment.closed[0]), 12.0 / 118.0);
        let most = moment.closed.iter().map(share).fold(0.0, f64::max);
        assert!(most > 2.0 * mean && oldest < mean, "{oldest} in the oldest one, {most} at most");
    }

    #[test]
    fn a_fold_comes_after_two_victims_or_at_once_after_another() {
        for (shape, is_short) in [(kinds()[2], false), (kinds()[3], true)] {
            let mut course = settled(shape);
            let (mut since, mut was, mut again) = (TURN, DieActivity::Fold, 0);
            for _ in 0..2000 {
                course.step().unwrap();
                match course.doing() {
                    DieActivity::Fold if was == DieActivity::Fill(true) => again += 1,
                    DieActivity::Fold => assert!(since >= TURN, "{since} victims since the last fold"),
                    DieActivity::Fill(_) => since = 0,
                    DieActivity::Collect(collections) => since = collections + 1,
                    DieActivity::Take(..) | DieActivity::Rest => {}
                }
                was = course.doing();
            }
            assert_eq!(again == 0, is_short, "{again} folds at once after another");
        }
    }

    #[test]
    fn a_full_die_has_no_course() {
        let chance = || Rng::new(1).stream("course");
        assert!(Course::new(shape(1, Part([0.5, 0.0])), chance()).is_none());
        let mut overfull = Course::new(shape(10, Part([9.5, 0.0])), chance()).unwrap();
        assert!((0..1000).any(|_| overfull.step().is_none()));
    }
}
