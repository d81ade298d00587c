//! How much DRAM helps a drive, by its curve of miss ratios (4.5).

use byteway_trace::reuse::MissRatioCurve;

/// Below such a miss ratio a drive borrows nothing more.
pub const MISS_RATIO_WANTED: f64 = 0.10;

/// What helps less than this is spare: shares of all look-ups.
const NO_HELP: f64 = 0.001;

/// Segments of a drive's cached map, and what a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Of its own.
    pub own: u32,
    /// Translation pages in each.
    pub pages: u32,
}

impl Segments {
    fn entries(self, segments: u32) -> u64 {
        u64::from(segments) * u64::from(self.pages)
    }

    /// How many segments more it takes until the miss ratio is below `wanted`, at most `most`: 0 if it is already. If no number of
    /// them is enough, as many as help.
    pub fn to_borrow(self, curve: &MissRatioCurve, wanted: f64, most: u32) -> u32 {
        let misses = |more: u32| curve.at(self.entries(self.own.saturating_add(more)));
        if misses(0) < wanted {
            return 0;
        }
        let enough = first(most, |more| misses(more) < wanted);
        let best = misses(most);
        enough.unwrap_or_else(|| first(most, |more| misses(more) <= best + NO_HELP).unwrap_or(most))
    }

    /// How many of its own segments help it nothing, and can be lent; one is kept.
    pub fn to_lend(self, curve: &MissRatioCurve) -> u32 {
        let best = curve.at(self.entries(self.own));
        let needed = first(self.own, |held| curve.at(self.entries(held)) <= best + NO_HELP);
        self.own - needed.unwrap_or(self.own).max(1).min(self.own)
    }
}

/// The least number up to `most` for which something holds that holds for all larger ones.
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
    use byteway_trace::shards::Shards;

    /// Uniform accesses to so many pages, by a sample.
    fn uniform(pages: u64) -> MissRatioCurve {
        let mut shards = Shards::new(4096, 1);
        let mut stream = Rng::new(7).stream("pages");
        (0..200_000).for_each(|_| shards.access(stream.below(pages)));
        shards.curve()
    }

    // Uniform accesses miss as often as what is held is less than all: a half of the map borrows until nine tenths are there.
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

    // What is lent must not be missed: a lender's own miss ratio stays.
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

    // Accesses that never come again gain by no DRAM at all; a drive that borrowed all there is for them would starve the others.
    #[test]
    fn what_never_helps_is_not_borrowed() {
        let mut shards = Shards::new(1024, 1);
        (0..100_000).for_each(|page| shards.access(page));
        let drive = Segments { own: 2, pages: 100 };
        assert_eq!(drive.to_borrow(&shards.curve(), MISS_RATIO_WANTED, 1000), 0);
    }
}
