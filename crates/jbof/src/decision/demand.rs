//! The demand of a drive for DRAM, from its miss ratio curve (4.5).

use byteway_firmware::MapMonitor;
use byteway_reuse::MissRatioCurve;
use byteway_reuse::Shards;
use std::cell::{Cell, RefCell};

/// Miss ratio below which a drive borrows no further DRAM.
pub const MISS_RATIO_WANTED: f64 = 0.10;

/// DRAM that saves a smaller fraction of look-ups from missing is spare.
const NO_HELP: f64 = 0.001;

/// Divisor of the part of its DRAM that a drive always keeps: changed pages need frames until they are in flash.
const KEPT_PARTS: u32 = 16;

/// How the look-ups of a drive are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleConfig {
    /// Pages in a sample, at least one.
    pub pages: usize,
    /// Minimum age of a sample, in periods, before another one begins.
    pub periods: u32,
    /// Minimum number of look-ups per page, in the mean: the first look-up of a page counts as a miss whatever is
    /// cached, and must weigh little.
    pub looks_of_page: u32,
    /// Maximum age of a sample, as a multiple of [`SampleConfig::periods`], so that the curve follows the workload.
    pub periods_most: u32,
}

impl Default for SampleConfig {
    /// 8,192 pages; a sample lives for 200 ms to 2 s with the paper's period.
    fn default() -> Self {
        SampleConfig { pages: 8192, periods: 20, looks_of_page: 20, periods_most: 10 }
    }
}

/// Two samples, of which one began later. The curve is that of the older one; when that is old enough, the newer one
/// replaces it.
struct Samples {
    older: Shards,
    newer: Shards,
    /// Look-ups that each sample has seen.
    older_looks: u64,
    looks: u64,
    /// Periods since the newer one began.
    periods: u32,
    /// The last replacement was by maximum age, before enough look-ups were seen.
    is_by_age: bool,
    number: u64,
}

/// A drive's DRAM monitor: the number of look-ups, and a miss ratio curve that follows them (SHARDS with fixed-size
/// samples).
pub struct MapSample {
    config: SampleConfig,
    seed: u64,
    samples: RefCell<Samples>,
    looks: Cell<u64>,
}

impl MapSample {
    /// An empty sample. `seed` determines which pages it keeps.
    pub fn new(config: SampleConfig, seed: u64) -> Self {
        let [older, newer] = [0, 1].map(|number| Shards::new(config.pages, seed ^ number));
        let samples = RefCell::new(Samples {
            older,
            newer,
            older_looks: 0,
            looks: 0,
            periods: 0,
            is_by_age: false,
            number: 1,
        });
        MapSample { config, seed, samples, looks: Cell::default() }
    }

    /// Discards all look-ups so far: the workload has changed.
    pub fn restart(&self) {
        let mut samples = self.samples.borrow_mut();
        samples.number += 2;
        let [older, newer] =
            [0, 1].map(|less| Shards::new(self.config.pages, self.seed ^ (samples.number - less)));
        (samples.older, samples.newer) = (older, newer);
        (samples.older_looks, samples.looks, samples.periods, samples.is_by_age) = (0, 0, 0, false);
    }

    /// Ends a period; returns the curve of recent look-ups.
    pub fn curve(&self) -> MissRatioCurve {
        let mut samples = self.samples.borrow_mut();
        samples.periods += 1;
        let has_seen_enough = self.is_enough(samples.looks, &samples.newer);
        let is_old = samples.periods >= self.config.periods.saturating_mul(self.config.periods_most);
        if samples.periods >= self.config.periods && (has_seen_enough || is_old) {
            samples.number += 1;
            let fresh = Shards::new(self.config.pages, self.seed ^ samples.number);
            samples.older = std::mem::replace(&mut samples.newer, fresh);
            samples.older_looks = samples.looks;
            (samples.periods, samples.looks, samples.is_by_age) = (0, 0, !has_seen_enough);
        }
        samples.older.curve()
    }

    /// Whether the curve shows what a drive can do without. It does not if most sampled look-ups were of
    /// pages new to the sample.
    pub fn is_reliable(&self) -> bool {
        let samples = self.samples.borrow();
        samples.is_by_age || self.is_enough(samples.older_looks, &samples.older)
    }

    fn is_enough(&self, looks: u64, sample: &Shards) -> bool {
        looks as f64 >= sample.keys() * f64::from(self.config.looks_of_page)
    }

    /// Number of look-ups.
    pub fn looks(&self) -> u64 {
        self.looks.get()
    }
}

impl MapMonitor for MapSample {
    fn look_up(&self, page: u32) {
        let mut samples = self.samples.borrow_mut();
        samples.older.access(page.into());
        samples.newer.access(page.into());
        samples.looks += 1;
        samples.older_looks += 1;
        self.looks.set(self.looks.get() + 1);
    }
}

/// Segments of a drive's cached map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Segments of its own.
    pub own: u32,
    /// Translation pages per segment.
    pub pages: u32,
}

impl Segments {
    fn entries(self, segments: u32) -> u64 {
        u64::from(segments) * u64::from(self.pages)
    }

    /// Number of further segments, at most `most`, that bring the miss ratio below `wanted`; 0 if it already is. If no
    /// amount of DRAM does, because look-ups keep hitting new pages or the sample is young: as many as bring it within
    /// `wanted` of the lowest possible ratio. If `most` is too few for that, as many as help.
    pub fn to_borrow(self, curve: &MissRatioCurve, wanted: f64, most: u32) -> u32 {
        let floor = curve.at(u64::MAX);
        let wanted = if floor < wanted { wanted } else { floor + wanted };
        let misses = |more: u32| curve.at(self.entries(self.own.saturating_add(more)));
        if misses(0) < wanted {
            return 0;
        }
        let enough = first(most, |more| misses(more) < wanted);
        let best = misses(most);
        enough.unwrap_or_else(|| first(most, |more| misses(more) <= best + NO_HELP).unwrap_or(most))
    }

    /// Number of its own segments that save no misses and can be lent; it keeps at least one.
    pub fn to_lend(self, curve: &MissRatioCurve) -> u32 {
        let best = curve.at(self.entries(self.own));
        let needed = first(self.own, |held| curve.at(self.entries(held)) <= best + NO_HELP);
        let kept = (self.own / KEPT_PARTS).max(1);
        self.own - needed.unwrap_or(self.own).max(kept).min(self.own)
    }
}

/// The least number up to `most` for which a monotone condition holds.
fn first(most: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    if !holds(most) {
        return None;
    }
    let (mut not, mut is) = (0, most);
    if holds(0) {
        return Some(0);
    }
    while is - not > 1 {
        let middle = not + (is - not) / 2;
        if holds(middle) {
            is = middle;
        } else {
            not = middle;
        }
    }
    Some(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;
    use byteway_reuse::Shards;

    /// The curve of uniform accesses to `pages` pages.
    fn uniform(pages: u64) -> MissRatioCurve {
        let mut shards = Shards::new(4096, 1);
        let mut stream = Rng::new(7).stream("pages");
        (0..200_000).for_each(|_| shards.access(stream.below(pages)));
        shards.curve()
    }

    // Uniform accesses miss in proportion to what is not cached: with half of the map cached, a drive borrows until
    // nine tenths are.
    #[test]
    fn a_drive_borrows_what_brings_it_below_its_aim() {
        let curve = uniform(1000);
        let half = Segments { own: 5, pages: 100 };
        assert!((curve.at(500) - 0.5).abs() < 0.02);
        let more = half.to_borrow(&curve, MISS_RATIO_WANTED, 100);
        assert!((4..=5).contains(&more), "{more}");
        assert_eq!(half.to_borrow(&curve, MISS_RATIO_WANTED, 2), 2, "all that it can have");
        assert_eq!(half.to_borrow(&curve, 0.6, 100), 0);
        let whole = Segments { own: 10, pages: 100 };
        assert_eq!(whole.to_borrow(&curve, MISS_RATIO_WANTED, 100), 0);
    }

    // A young sample takes most pages for new ones; a drive that borrowed everything because of that would starve its
    // peers.
    #[test]
    fn a_drive_borrows_for_misses_that_dram_can_help() {
        let mut young = Shards::new(4096, 1);
        let mut stream = Rng::new(7).stream("pages");
        (0..1600).for_each(|_| young.access(stream.below(1000)));
        let curve = young.curve();
        let floor = curve.at(u64::MAX);
        assert!((0.4..0.6).contains(&floor), "{floor}");
        let more = Segments { own: 5, pages: 100 }.to_borrow(&curve, MISS_RATIO_WANTED, 100);
        assert!(curve.at(100 * u64::from(5 + more)) < floor + MISS_RATIO_WANTED, "{more}");
        assert!(more <= 2, "{more}");
    }

    // Lent DRAM must not be missed: the lender's own miss ratio stays.
    #[test]
    fn a_drive_lends_what_helps_it_nothing() {
        let few = uniform(150);
        let drive = Segments { own: 10, pages: 100 };
        let lent = drive.to_lend(&few);
        assert_eq!(lent, 8, "two segments hold all that is used");
        assert_eq!(Segments { own: 10 - lent, pages: 100 }.to_borrow(&few, MISS_RATIO_WANTED, 100), 0);
        assert_eq!(drive.to_lend(&uniform(5000)), 0, "every segment helps");
        assert_eq!(drive.to_lend(&Shards::new(16, 1).curve()), 9, "nothing is accessed: one is kept");
        assert_eq!(Segments { own: 0, pages: 100 }.to_lend(&few), 0);
    }

    // With a curve of all look-ups since power-on, a drive would keep forever what it needed once; one that forgets too
    // early takes first accesses for misses.
    #[test]
    fn the_curve_follows_the_workload() {
        let config = SampleConfig { pages: 4096, periods: 10, looks_of_page: 20, periods_most: 10 };
        let sample = MapSample::new(config, 7);
        let mut stream = Rng::new(7).stream("pages");
        let mut period = |first: u64, pages: u64| {
            (0..2000).for_each(|_| sample.look_up((first + stream.below(pages)) as u32));
            sample.curve()
        };
        let drive = Segments { own: 2, pages: 100 };
        let after = |curve: &MissRatioCurve| drive.to_borrow(curve, MISS_RATIO_WANTED, 100);
        assert!(sample.is_reliable(), "nothing is looked up");
        period(0, 500);
        assert!(!sample.is_reliable(), "a quarter of it was new");
        let many = (0..29).map(|_| period(0, 500)).last().unwrap();
        assert!(sample.is_reliable());
        assert!((3..=4).contains(&after(&many)), "{}", after(&many));
        let few = (0..40).map(|_| period(5000, 150)).last().unwrap();
        assert_eq!((after(&few), Segments { own: 5, pages: 100 }.to_lend(&few)), (0, 3));
        assert_eq!(sample.looks(), 70 * 2000);
        // An idle drive needs no further DRAM.
        let idle = (0..200).map(|_| sample.curve()).last().unwrap();
        assert_eq!((after(&idle), drive.to_lend(&idle)), (0, 1));
    }

    // Accesses that never repeat gain from no DRAM; a drive that borrowed everything for them would starve the others.
    #[test]
    fn what_never_helps_is_not_borrowed() {
        let mut shards = Shards::new(1024, 1);
        (0..100_000).for_each(|page| shards.access(page));
        let drive = Segments { own: 2, pages: 100 };
        assert_eq!(drive.to_borrow(&shards.curve(), MISS_RATIO_WANTED, 1000), 0);
    }
}
